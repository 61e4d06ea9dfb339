//! The work for backends that no request causes: probes of their health, and files of keys that are read again.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::{HeaderMap, Method};
use ratelimit::SteadyTime;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Backends, LiveBackend};
use crate::upstream::{self, OutBody, OutKey, Outgoing};
use gateway_policy::settings::{Base, HealthCheck};

/// Interval at which files of keys are read again.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// Longest wait for a probe.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most probes at a time. Further ones wait.
const AT_ONCE: usize = 64;

/// Probes backends and reads keys again, for as long as the value exists. It wakes when something is due, and when
/// `changed` says that there may be other backends, or none.
pub(crate) async fn watch(backends: Weak<Backends>, changed: Arc<Notify>) {
    let mut schedule = Schedule::default();
    let mut probes = JoinSet::new();
    loop {
        let Some(strong) = backends.upgrade() else { return };
        let all = strong.all();
        drop(strong);
        let room = AT_ONCE - probes.len();
        let now = Instant::now();
        for (live, check) in schedule.probes(&all, now, room) {
            probes.spawn(probe(live, check));
        }
        if schedule.reads_keys(&all, now) {
            for live in &all {
                live.read_keys_again().await;
            }
        }
        // Without room, a probe that ends comes first.
        let next = schedule.next(probes.len() < AT_ONCE);
        drop(all);
        tokio::select! {
            () = sleep_until(next) => {}
            () = changed.notified() => {}
            Some(ended) = probes.join_next() => {
                if let Err(error) = ended {
                    tracing::warn!("a probe was abandoned: {error}");
                }
            }
        }
    }
}

/// Waits until a moment, or forever.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The moments at which something is due.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    probes: HashMap<u64, Instant>,
    /// `None`: no backend has a key in a file.
    keys: Option<Instant>,
}

impl Schedule {
    /// The probes that are due, at most `most`, each of which is due again after its interval.
    pub(super) fn probes(
        &mut self,
        all: &[Arc<LiveBackend>],
        now: Instant,
        most: usize,
    ) -> Vec<(Arc<LiveBackend>, HealthCheck)> {
        let is_checked = |live: &LiveBackend| live.backend().health_check.is_some();
        self.probes.retain(|id, _| all.iter().any(|live| live.id() == *id && is_checked(live)));
        let mut due = Vec::new();
        for live in all {
            let Some(check) = &live.backend().health_check else { continue };
            let at = self.probes.entry(live.id()).or_insert(now);
            // A reload may have shortened it.
            *at = (*at).min(now + check.interval);
            if *at <= now && due.len() < most {
                *at = now + check.interval;
                due.push((Arc::clone(live), check.clone()));
            }
        }
        due
    }

    /// Returns whether files of keys are to be read now; then again after their interval.
    pub(super) fn reads_keys(&mut self, all: &[Arc<LiveBackend>], now: Instant) -> bool {
        if !all.iter().any(|live| live.keys().has_files()) {
            self.keys = None;
            return false;
        }
        let at = self.keys.get_or_insert(now + KEYS_INTERVAL);
        let is_due = *at <= now;
        if is_due {
            *at = now + KEYS_INTERVAL;
        }
        is_due
    }

    /// The next moment at which something is due, with the probes or without them.
    pub(super) fn next(&self, with_probes: bool) -> Option<Instant> {
        let probes = self.probes.values().filter(|_| with_probes);
        probes.chain(&self.keys).min().copied()
    }
}

async fn probe(live: Arc<LiveBackend>, check: HealthCheck) {
    let backend = live.backend();
    // With this base, the path is sent as it is.
    let base = Base { path: "/v1".into(), ..backend.base.clone() };
    let key = live.keys().pick(&[], SteadyTime::default());
    let outgoing = Outgoing {
        base: &base,
        key: OutKey::Text(key.as_ref().map(super::PickedKey::reveal), backend.key_header),
        method: Method::GET,
        path: &check.path,
        headers: HeaderMap::new(),
        body: OutBody::empty(),
    };
    let sent = upstream::send(live.http(), outgoing, PATIENCE.min(check.interval)).await;
    let problem = match sent {
        Ok((response, _)) if response.status().is_success() => None,
        Ok((response, _)) => Some(format!("it answered {}", response.status())),
        Err(failure) => Some(failure.to_string()),
    };
    let shown = problem.map(|problem| live.mask().replace(problem.as_bytes()));
    let shown = shown.map(|shown| String::from_utf8_lossy(&shown).into_owned());
    live.probed(shown.as_deref(), check.interval);
}
