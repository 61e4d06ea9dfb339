//! Tries an operation again after an outage or a conflict, while the lease of the node lasts.

use std::time::{Duration, Instant};

use super::failure::Failure;
use super::inner::Inner;
use crate::StoreError;

/// Attempts of a transaction that conflicts with others.
const MAX_CONFLICTS: u32 = 6;
/// First and longest wait before something is tried again.
const WAITS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Tries something again after an outage or a conflict, as long as the lease of the node lasts and
/// for [`Membership::patience`](super::node::Membership::patience) at most.
pub(super) struct Retry<'i> {
    inner: &'i Inner,
    thread: String,
    /// Nothing is tried from here on.
    until: Instant,
    conflicts: u32,
    wait: Duration,
    /// True if an earlier attempt may have taken effect.
    pub(super) is_ambiguous: bool,
    /// True if the caller should have the lease of the thread already.
    is_owned: bool,
    last: Option<StoreError>,
}

impl<'i> Retry<'i> {
    pub(super) fn new(inner: &'i Inner, thread: &str, is_owned: bool) -> Self {
        let (wait, _) = WAITS;
        let (thread, until) = (thread.to_owned(), Instant::now() + inner.membership.patience());
        let (conflicts, is_ambiguous, last) = (0, false, None);
        Self { inner, thread, until, conflicts, wait, is_ambiguous, is_owned, last }
    }

    /// The name of the node, while its lease lasts.
    ///
    /// # Errors
    /// The error of the last attempt, or else that the lease of the thread or of the node is over.
    pub(super) fn me(&mut self) -> Result<String, StoreError> {
        let now = Instant::now();
        if let Some(error) = self.last.take_if(|_| now >= self.until) {
            return Err(error);
        }
        match self.inner.membership.id_if_alive(now) {
            Some(me) => Ok(me),
            None => Err(self.last.take().unwrap_or_else(|| match self.is_owned {
                true => StoreError::LeaseLost { thread: self.thread.clone() },
                false => self.inner.out_of_contact(),
            })),
        }
    }

    /// Refuses to acknowledge what was done under a lease that is over.
    pub(super) fn still(&self, me: &str) -> Result<(), StoreError> {
        match self.inner.membership.id_if_alive(Instant::now()) {
            Some(now) if now == me => Ok(()),
            _ => Err(StoreError::LeaseLost { thread: self.thread.clone() }),
        }
    }

    pub(super) async fn within_lease<T>(
        &self,
        attempt: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut attempt = std::pin::pin!(attempt);
        loop {
            // A renewal in the meantime leaves more time.
            let now = Instant::now();
            let left = self.inner.membership.time_left(now);
            let left = left.min(self.until.saturating_duration_since(now));
            if left.is_zero() {
                return Err(Failure::Late);
            }
            if let Ok(outcome) = tokio::time::timeout(left, &mut attempt).await {
                return outcome;
            }
        }
    }

    /// The final outcome, or `None` to try again.
    pub(super) async fn next<T>(
        &mut self,
        outcome: Result<T, Failure>,
    ) -> Option<Result<T, StoreError>> {
        let failure = match outcome {
            Ok(done) => return Some(Ok(done)),
            Err(failure) => failure,
        };
        if failure.is_conflict() && self.conflicts < MAX_CONFLICTS {
            self.conflicts += 1;
            return None;
        }
        if !failure.is_passing() {
            return Some(Err(self.inner.database.error(failure)));
        }
        self.inner.database.note(&failure);
        self.is_ambiguous = true;
        self.last = Some(self.inner.database.error(failure));
        tokio::time::sleep(self.wait).await;
        let (_, longest) = WAITS;
        self.wait = (self.wait * 2).min(longest);
        None
    }
}
