//! The requests to a server that have no answer yet: whose they are, for its questions and its reports
//! of progress; and their time limit, which does not run while the user is asked.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, quoted};

/// Questions to the user of one request; further ones are refused.
const MAX_QUESTIONS: usize = 20;

/// Requests in progress, oldest first.
#[derive(Default)]
pub(crate) struct Calls {
    active: Mutex<Vec<Entry>>,
}

struct Entry {
    call: Arc<ActiveCall>,
    id: RequestId,
    token: ProgressToken,
}

/// A report of progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub progress: f64,
    pub total: Option<f64>,
    /// With hidden characters visible.
    pub message: Option<String>,
}

impl Progress {
    pub(crate) fn new(params: ProgressNotificationParam) -> Self {
        let message = params.message.as_deref().map(quoted);
        Self { progress: params.progress, total: params.total, message }
    }
}

/// A request of a holder.
pub(crate) struct ActiveCall {
    pub(crate) holder: Option<String>,
    pub(crate) turn: Option<String>,
    progress: Option<mpsc::Sender<Progress>>,
    /// Questions to the user that have no answer.
    asking: watch::Sender<usize>,
    /// Questions to the user so far.
    asked: AtomicUsize,
}

/// Removes a request from those in progress.
pub(crate) struct Registered<'c> {
    calls: &'c Calls,
    id: RequestId,
}

/// A question to the user is open.
pub(crate) struct Asking(Arc<ActiveCall>);

impl ActiveCall {
    pub(crate) fn new(
        holder: Option<String>,
        turn: Option<String>,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Arc<Self> {
        let (asking, asked) = (watch::Sender::new(0), AtomicUsize::new(0));
        Arc::new(Self { holder, turn, progress, asking, asked })
    }

    /// Begins a question; `None` when the request has asked too many. While the guard lives, the time
    /// limit does not run.
    pub(crate) fn ask(self: &Arc<Self>) -> Option<Asking> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
            return None;
        }
        self.asking.send_modify(|asking| *asking += 1);
        Some(Asking(self.clone()))
    }

    /// Reports progress; a receiver that is behind misses it.
    pub(crate) fn report(&self, progress: Progress) {
        if let Some(sender) = &self.progress {
            let _ = sender.try_send(progress);
        }
    }

    /// Waits for `work`, for as long as `limit` without the time of questions.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut asking = self.asking.subscribe();
        let mut left = limit;
        let mut work = std::pin::pin!(work);
        loop {
            let is_asking = *asking.borrow_and_update() > 0;
            let begun = Instant::now();
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = asking.changed() => {}
                () = tokio::time::sleep(left), if !is_asking => {
                    let seconds = limit.as_secs();
                    let message = format!(
                        "the server did not answer within {seconds} s (`tool_timeout_sec`); the \
                         request was cancelled"
                    );
                    return Err(Error::new(ErrorKind::TimedOut, message));
                }
            }
            if !is_asking {
                left = left.saturating_sub(begun.elapsed());
            }
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.asking.send_modify(|asking| *asking -= 1);
    }
}

impl Calls {
    pub(crate) fn register(
        &self,
        call: &Arc<ActiveCall>,
        id: RequestId,
        token: ProgressToken,
    ) -> Registered<'_> {
        self.lock().push(Entry { call: call.clone(), id: id.clone(), token });
        Registered { calls: self, id }
    }

    /// The request that a question belongs to: the one with that id, else the newest.
    pub(crate) fn asked_by(&self, id: Option<&RequestId>) -> Option<Arc<ActiveCall>> {
        let active = self.lock();
        let named = id.and_then(|id| active.iter().find(|entry| entry.id == *id));
        named.or_else(|| active.last()).map(|entry| entry.call.clone())
    }

    pub(crate) fn of_token(&self, token: &ProgressToken) -> Option<Arc<ActiveCall>> {
        let active = self.lock();
        active.iter().find(|entry| entry.token == *token).map(|entry| entry.call.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.calls.lock().retain(|entry| entry.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_question_does_not_count() {
        let call = ActiveCall::new(None, None, None);
        let second = Duration::from_secs(1);
        let never = std::future::pending::<Result<(), Error>>();
        let begun = Instant::now();
        let asked = async {
            // tidy: sleep the clock is paused: it passes at once
            tokio::time::sleep(second).await;
            let asking = call.ask().expect("the first question");
            // tidy: sleep the clock is paused: it passes at once
            tokio::time::sleep(100 * second).await;
            drop(asking);
            std::future::pending::<()>().await;
        };
        let limited = call.within(3 * second, never);
        let ended = tokio::select! {
            ended = limited => ended,
            () = asked => Ok(()),
        };
        assert_eq!(ended.map_err(|error| error.kind), Err(ErrorKind::TimedOut));
        assert_eq!(begun.elapsed(), 103 * second);
    }
}
