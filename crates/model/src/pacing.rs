//! Requests that share a key wait for their turn before the provider's rate limit, instead of being
//! refused by it. A provider that reports no limits is never waited for.
//!
//! The requests of a key to one model form a queue in the order of their arrival. A thread has one
//! request at a time, so that threads take turns. A request that is refused, or withdrawn and made again
//! with more input, keeps its place. The state is what the provider reported last, less what has been
//! sent since.

mod meter;
mod state;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{self, Instant};

use crate::rate_limits::RateLimits;
use crate::{Event, Provider};
use state::{Position, State, Units};

/// Most keys and models whose limits are kept; beyond it, those without requests are forgotten.
const MAX_QUEUES: usize = 256;
/// Longest wait before a request. A limit that needs longer answers the request itself, so that the
/// user learns of it.
const LONGEST: Duration = Duration::from_mins(10);
/// A longer wait is announced.
const LONG: Duration = Duration::from_secs(5);
/// Time after which a wait is predicted: the first report of a provider can mean several limits,
/// and the reports of requests that were sent at the same time show which.
const FORESEEN_AFTER: Duration = Duration::from_secs(1);

/// The queues of all keys.
#[derive(Default)]
pub(crate) struct Pacer {
    queues: Mutex<HashMap<u64, Arc<Queue>>>,
    hasher: RandomState,
    arrivals: AtomicU64,
}

/// When a request arrived, among all of a client: its place in the queue of its key and model. Kept from
/// try to try, the tries share one place.
#[derive(Debug, Clone)]
pub struct Arrival(Arc<u64>);

/// The requests of one key to one model.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
}

/// The expected wait of a request that joins the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outlook {
    pub(crate) wait: Duration,
    /// Requests that are sent before.
    pub(crate) ahead: usize,
}

/// A request in the queue.
struct Waiting<'q> {
    queue: &'q Queue,
    position: Position,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue.state().leave(self.position);
    }
}

/// Permission for one request. Dropped without a report, its units are given back.
pub(crate) struct Permit {
    queue: Arc<Queue>,
    arrival: Arrival,
    units: Units,
    /// Its number among the requests that were sent.
    number: u64,
    is_reported: bool,
}

impl Pacer {
    /// The arrival of a request now.
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival(Arc::new(self.arrivals.fetch_add(1, Ordering::Relaxed)))
    }

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
    /// Waits until a request of about `tokens` fits into the limits, after all that arrived before.
    pub(crate) async fn admit(self: &Arc<Self>, tokens: u64, arrival: &Arrival) -> Permit {
        let units = units(tokens);
        let (position, turn) = self.state().join(*arrival.0, units);
        let _waiting = Waiting { queue: self, position };
        loop {
            let wait = self.state().wait_at(position, Instant::now());
            match wait {
                Some(wait) if wait.is_zero() || wait > LONGEST => break,
                Some(wait) => {
                    // Reports and earlier arrivals may change it.
                    let _ = time::timeout(wait, turn.notified()).await;
                }
                None => turn.notified().await,
            }
        }
        let number = self.state().take(*arrival.0, &units, Instant::now());
        let (queue, arrival) = (Arc::clone(self), arrival.clone());
        Permit { queue, arrival, units, number, is_reported: false }
    }

    /// As [`Self::admit`]; a long wait is announced to `events`, once.
    pub(crate) async fn admit_announced(
        self: &Arc<Self>,
        tokens: u64,
        arrival: &Arrival,
        events: &mpsc::Sender<Vec<Event>>,
    ) -> Permit {
        let admitted = self.admit(tokens, arrival);
        tokio::pin!(admitted);
        if let Ok(permit) = time::timeout(Duration::ZERO, &mut admitted).await {
            return permit;
        }
        // Ignored: the reader is gone.
        let _ = events.send(vec![Event::Held]).await;
        let mut outlook = None;
        for patience in [FORESEEN_AFTER, LONG - FORESEEN_AFTER] {
            if let Ok(permit) = time::timeout(patience, &mut admitted).await {
                let _ = events.send(vec![Event::Sent]).await;
                return permit;
            }
            // Later the provider may have reported less, or refused another request.
            outlook = Some(self.outlook(tokens, arrival));
            if outlook.is_some_and(|outlook| outlook.wait > LONG) {
                break;
            }
        }
        if let Some(Outlook { wait, ahead }) = outlook {
            let _ = events.send(vec![Event::Queued { wait, ahead }]).await;
        }
        let permit = admitted.await;
        let _ = events.send(vec![Event::Sent]).await;
        permit
    }

    /// Returns the outlook of a request of about `tokens` that joins the queue, or is in it.
    pub(crate) fn outlook(&self, tokens: u64, arrival: &Arrival) -> Outlook {
        self.state().outlook(*arrival.0, &units(tokens), Instant::now())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// The provider reported limits before the request was sent.
    pub(crate) fn observe(&self, limits: Option<&RateLimits>) {
        // Its own request is still to be counted.
        self.queue.state().report(limits, self.number - 1, Instant::now());
    }

    /// The provider answered, with these limits. It may report limits again in the course of its answer.
    pub(crate) fn report(&mut self, limits: Option<&RateLimits>) {
        let mut state = self.queue.state();
        if !std::mem::replace(&mut self.is_reported, true) {
            state.answered(self.number);
        }
        state.report(limits, self.number, Instant::now());
    }

    /// The provider refused the request for its limit, and perhaps asks for a wait.
    pub(crate) fn refused(&mut self, wait: Option<Duration>) {
        self.report(None);
        self.queue.state().refused(&self.arrival.0, self.units, wait, Instant::now());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_reported {
            self.queue.state().give_back(self.number, self.units, Instant::now());
        }
    }
}

/// A request, its tokens, and its tokens of the project.
fn units(tokens: u64) -> Units {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let tokens = tokens as f64;
    [1.0, tokens, tokens]
}

#[cfg(test)]
mod tests;
