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
}

#[derive(Default)]
struct State {
    /// Requests, tokens, tokens of the project.
    meters: [Option<Meter>; 3],
    /// Units of the requests that have no report yet.
    pending: [f64; 3],
    /// Requests in the queue, and their units.
    waiting: usize,
    waiting_units: [f64; 3],
    /// The provider asked for this wait.
    blocked: Option<Instant>,
}

/// Counts a request in the queue.
struct Waiting<'q> {
    queue: &'q Queue,
    units: [f64; 3],
}

/// What a request that joins the queue can expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlook {
    pub(crate) wait: Duration,
    /// Requests that are sent before.
    pub(crate) ahead: usize,
}

impl<'q> Waiting<'q> {
    fn new(queue: &'q Queue, units: [f64; 3]) -> Self {
        let mut state = queue.state();
        state.waiting += 1;
        state.waiting_units = add(state.waiting_units, units);
        drop(state);
        Self { queue, units }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.waiting = state.waiting.saturating_sub(1);
        state.waiting_units = subtract(state.waiting_units, self.units);
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
        let units = units(tokens);
        let _waiting = Waiting::new(self, units);
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

    /// What a request of about `tokens` can expect that joins the queue now.
    pub(crate) fn outlook(&self, tokens: u64) -> Outlook {
        let state = self.state();
        let (units, now) = (units(tokens), Instant::now());
        let wait = match state.waiting {
            0 => state.wait(&units, now),
            _ => state.expected(&add(state.waiting_units, units), now),
        };
        let is_sent_at_once = state.waiting == 0 && wait > LONGEST;
        Outlook { wait: if is_sent_at_once { Duration::ZERO } else { wait }, ahead: state.waiting }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The provider reported limits before the request was sent.
    pub(crate) fn observe(&self, limits: Option<&RateLimits>) {
        self.queue.state().report(limits, Instant::now());
        self.queue.changed.notify_one();
    }

    /// The provider answered, with these limits, and perhaps with a refusal that asks for a wait. It
    /// may report limits again in the course of its answer.
    pub(crate) fn report(&mut self, limits: Option<&RateLimits>, refused_for: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.queue.state();
        if !std::mem::replace(&mut self.is_reported, true) {
            state.pending = subtract(state.pending, self.units);
        }
        state.report(limits, now);
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
        state.pending = subtract(state.pending, self.units);
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
    fn report(&mut self, limits: Option<&RateLimits>, now: Instant) {
        let Some(limits) = limits else { return };
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

    /// The wait of the last of requests of these `units` altogether.
    fn expected(&self, units: &[f64; 3], now: Instant) -> Duration {
        let blocked = self.blocked.map(|until| until.saturating_duration_since(now));
        let meters = self.meters.iter().zip(units);
        let waits = meters.filter_map(|(meter, units)| Some(meter.as_ref()?.expected(*units, now)));
        waits.chain(blocked).max().unwrap_or_default()
    }

    fn take(&mut self, units: &[f64; 3], now: Instant) {
        self.pending = add(self.pending, *units);
        for (meter, units) in self.meters.iter_mut().zip(units) {
            if let Some(meter) = meter {
                meter.take(*units, now);
            }
        }
    }
}

/// A request, its tokens, and its tokens of the project.
fn units(tokens: u64) -> [f64; 3] {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let tokens = tokens as f64;
    [1.0, tokens, tokens]
}

fn add(one: [f64; 3], other: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|n| one[n] + other[n])
}

/// Never below zero, whatever rounding leaves.
fn subtract(one: [f64; 3], other: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|n| (one[n] - other[n]).max(0.0))
}

#[cfg(test)]
mod tests;
