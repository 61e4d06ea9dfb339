//! The work for backends that no request causes: probes of their health, and files of keys that are read again.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::{HeaderMap, Method};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Backends, LiveBackend};
use crate::upstream::{self, OutBody, Outgoing};
use gateway_policy::settings::{Base, HealthCheck};

/// Interval at which files of keys are read again.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which changes of the configuration are noticed.
const ROUND: Duration = Duration::from_millis(250);
/// Longest wait for a probe.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most probes at a time. Further ones wait.
const AT_ONCE: usize = 64;

/// Probes backends and reads keys again, for as long as the value exists.
pub(crate) async fn watch(backends: Weak<Backends>) {
    let mut due: HashMap<u64, Instant> = HashMap::new();
    let mut keys_due = Instant::now() + KEYS_INTERVAL;
    let mut probes = JoinSet::new();
    loop {
        let Some(strong) = backends.upgrade() else { return };
        let (all, now) = (strong.all(), Instant::now());
        drop(strong);
        due.retain(|id, _| all.iter().any(|live| live.id() == *id));
        let mut next = now + ROUND;
        for live in &all {
            let Some(check) = &live.backend().health_check else { continue };
            let at = due.entry(live.id()).or_insert(now);
            if *at <= now && probes.len() < AT_ONCE {
                *at = now + check.interval;
                probes.spawn(probe(Arc::clone(live), check.clone()));
            }
            next = next.min(*at);
        }
        if keys_due <= now {
            keys_due = now + KEYS_INTERVAL;
            for live in &all {
                live.read_keys_again().await;
            }
        }
        tokio::select! {
            () = tokio::time::sleep_until(next.max(now + Duration::from_millis(5))) => {}
            Some(ended) = probes.join_next() => {
                if let Err(error) = ended {
                    tracing::warn!("a probe was abandoned: {error}");
                }
            }
        }
    }
}

async fn probe(live: Arc<LiveBackend>, check: HealthCheck) {
    let backend = live.backend();
    // With this base, the path is sent as it is.
    let base = Base { path: "/v1".into(), ..backend.base.clone() };
    let key = live.keys().pick(&[], 0);
    let outgoing = Outgoing {
        base: &base,
        key: (key.as_ref().map(super::PickedKey::reveal), backend.key_header),
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
