//! Requests that share a key wait for their turn before the provider's rate limit, instead of being
//! refused by it. A provider that reports no limits is never waited for.
//!
//! The requests of a key to one model form a queue, first come, first served: a thread has one request
//! at a time, so that threads take turns. The state is what the provider reported last, less what has
//! been sent since.

mod meter;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turnstile, Notify};
use tokio::time::{self, Instant};

use crate::Provider;
use crate::rate_limits::{RateLimit, RateLimits};
use meter::Meter;

/// Most keys and models whose limits are kept; beyond it, those without requests are forgotten.
const MAX_QUEUES: usize = 256;
/// Longest wait before a request. A limit that needs longer answers the request itself, so that the
/// user learns of it.
const LONGEST: Duration = Duration::from_mins(10);

/// The queues of all keys.
#[derive(Default)]
pub(crate) struct Pacer {
    queues: Mutex<HashMap<u64, Arc<Queue>>>,
    hasher: RandomState,
}

/// The requests of one key to one model.
#[derive(Default)]
pub(crate) struct Queue {
    /// The first in the queue holds it. Tokio's mutex is fair.
    turnstile: Turnstile<()>,
    state: Mutex<State>,
    /// The provider reported its limits, or a request was withdrawn.
    changed: Notify,
    /// Requests in the queue.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Requests, tokens, tokens of the project.
    meters: [Option<Meter>; 3],
    /// Units of the requests that have no report yet.
    pending: [f64; 3],
    /// The provider asked for this wait.
    blocked: Option<Instant>,
    /// As they were reported last.
    limits: Option<RateLimits>,
}

/// Counts a request in the queue.
struct Waiting<'q>(&'q AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Permission for one request. Dropped without a report, its units are given back.
pub(crate) struct Permit {
    queue: Arc<Queue>,
    units: [f64; 3],
    is_reported: bool,
}

impl Pacer {
    /// The queue of requests to `model` with the provider's key.
    pub(crate) fn queue(&self, provider: &Provider, model: &str) -> Arc<Queue> {
        let mut hasher = self.hasher.build_hasher();
        (&provider.id, &provider.base_url, model).hash(&mut hasher);
        // The key and the headers that may take its place.
        provider.secrets().for_each(|secret| secret.hash(&mut hasher));
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.len() >= MAX_QUEUES {
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        Arc::clone(queues.entry(hasher.finish()).or_default())
    }
}

impl Queue {
    /// Waits until a request of about `tokens` fits into the limits.
    pub(crate) async fn admit(self: &Arc<Self>, tokens: u64) -> Permit {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let tokens = tokens as f64;
        let units = [1.0, tokens, tokens];
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        let _first = self.turnstile.lock().await;
        loop {
            let changed = self.changed.notified();
            let wait = self.state().wait(&units, Instant::now());
            if wait.is_zero() || wait > LONGEST {
                break;
            }
            tokio::select! {
                () = time::sleep(wait) => {}
                () = changed => {}
            }
        }
        self.state().take(&units, Instant::now());
        Permit { queue: Arc::clone(self), units, is_reported: false }
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The limits as the provider reported them last.
    pub(crate) fn limits(&self) -> Option<RateLimits> {
        self.state().limits
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The provider answered, with these limits, and perhaps with a refusal that asks for a wait.
    pub(crate) fn report(mut self, limits: Option<&RateLimits>, refused_for: Option<Duration>) {
        self.is_reported = true;
        let now = Instant::now();
        let mut state = self.queue.state();
        for (pending, units) in state.pending.iter_mut().zip(self.units) {
            *pending = (*pending - units).max(0.0);
        }
        if let Some(limits) = limits {
            state.report(limits, now);
        }
        if let Some(wait) = refused_for.filter(|wait| *wait <= LONGEST) {
            let until = now + wait;
            state.blocked = Some(state.blocked.map_or(until, |blocked| blocked.max(until)));
        }
        drop(state);
        self.queue.changed.notify_one();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_reported {
            return;
        }
        let now = Instant::now();
        let mut state = self.queue.state();
        for (pending, units) in state.pending.iter_mut().zip(self.units) {
            *pending = (*pending - units).max(0.0);
        }
        for (meter, units) in state.meters.iter_mut().zip(self.units) {
            if let Some(meter) = meter {
                meter.give_back(units, now);
            }
        }
        drop(state);
        self.queue.changed.notify_one();
    }
}

impl State {
    fn report(&mut self, limits: &RateLimits, now: Instant) {
        self.limits = Some(*limits);
        let RateLimits { requests, tokens, project_tokens } = limits;
        let reports: [&Option<RateLimit>; 3] = [requests, tokens, project_tokens];
        for ((meter, pending), report) in self.meters.iter_mut().zip(self.pending).zip(reports) {
            *meter = report.as_ref().map(|report| Meter::new(report, pending, now));
        }
    }

    fn wait(&self, units: &[f64; 3], now: Instant) -> Duration {
        let blocked = self.blocked.map(|until| until.saturating_duration_since(now));
        let meters = self.meters.iter().zip(units);
        let waits = meters.filter_map(|(meter, units)| Some(meter.as_ref()?.wait(*units, now)));
        waits.chain(blocked).max().unwrap_or_default()
    }

    fn take(&mut self, units: &[f64; 3], now: Instant) {
        for ((meter, pending), units) in self.meters.iter_mut().zip(&mut self.pending).zip(units) {
            *pending += units;
            if let Some(meter) = meter {
                meter.take(*units, now);
            }
        }
    }
}

#[cfg(test)]
mod tests;
