//! The requests to a server that have no answer yet: whose they are, for its questions and its reports
//! of progress; and their time limit, which does not run while the user is asked.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, quoted};
use crate::reports::ReportSender;

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
    progress: Option<ReportSender>,
    /// Questions to the user that have no answer.
    asking: watch::Sender<usize>,
    /// It has its answer, has failed, or was given up.
    ended: watch::Sender<bool>,
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

/// Ends a request of a holder when it is dropped.
pub(crate) struct EndOnDrop<'c>(&'c ActiveCall);

/// Where a question of a server comes from, as it was when the question arrived: an answer that follows
/// it at once does not change that.
#[derive(Clone)]
pub(crate) struct Origin {
    /// The requests that it may belong to, the likeliest first; none when it belongs to none.
    pub(crate) calls: Vec<Arc<ActiveCall>>,
    /// True if its connection has ended.
    pub(crate) closed: watch::Receiver<bool>,
}

impl Origin {
    /// Resolves when the question needs no answer: its requests have ended, or its connection has.
    pub(crate) async fn ended(mut self) {
        let calls = async {
            for call in &self.calls {
                call.ended().await;
            }
            if self.calls.is_empty() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = calls => {}
            // Even when the connection was dropped.
            _ = self.closed.wait_for(|closed| *closed) => {}
        }
    }
}

impl ActiveCall {
    pub(crate) fn new(
        holder: Option<String>,
        turn: Option<String>,
        progress: Option<ReportSender>,
    ) -> Arc<Self> {
        let (asking, asked) = (watch::Sender::new(0), AtomicUsize::new(0));
        let ended = watch::Sender::new(false);
        Arc::new(Self { holder, turn, progress, asking, ended, asked })
    }

    /// Counts a question; returns false when the request has asked too many.
    pub(crate) fn may_ask(self: &Arc<Self>) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) < MAX_QUESTIONS
    }

    /// A question is open: while the guard lives, the time limit does not run.
    pub(crate) fn pause(self: &Arc<Self>) -> Asking {
        self.asking.send_modify(|asking| *asking += 1);
        Asking(self.clone())
    }

    /// Resolves when the request has ended.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// The request ends, however its future ends.
    pub(crate) fn end_on_drop(&self) -> EndOnDrop<'_> {
        EndOnDrop(self)
    }

    /// Reports progress.
    pub(crate) fn report(&self, progress: Progress) {
        if let Some(sender) = &self.progress {
            sender.send(progress);
        }
    }

    /// Waits for `work`, for as long as `limit` without the time of questions.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let _ended = self.end_on_drop();
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
                    let seconds = limit.as_secs_f64();
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

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended.send_replace(true);
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

    /// The requests that a question may belong to: the one with that id, else the newest, and the others
    /// of its holder.
    pub(crate) fn asked_by(&self, id: Option<&RequestId>) -> Vec<Arc<ActiveCall>> {
        let active = self.lock();
        if let Some(named) = id.and_then(|id| active.iter().find(|entry| entry.id == *id)) {
            return vec![named.call.clone()];
        }
        let Some(newest) = active.last() else { return Vec::new() };
        let of_holder = active.iter().rev().filter(|one| one.call.holder == newest.call.holder);
        of_holder.map(|entry| entry.call.clone()).collect()
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
            let asking = call.pause();
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

    #[tokio::test(start_paused = true)]
    async fn a_question_ends_with_the_last_request_that_it_may_belong_to() {
        let calls = Calls::default();
        let call = |holder: &str| ActiveCall::new(Some(holder.to_owned()), None, None);
        let (other, first, second) = (call("b"), call("a"), call("a"));
        let id = |number| RequestId::Number(number);
        let token = |number| ProgressToken(id(number));
        let _registered = [(&other, 1), (&first, 2), (&second, 3)]
            .map(|(call, number)| calls.register(call, id(number), token(number)));
        let (open, closed) = watch::channel(false);
        let origin = |number: Option<i64>| Origin {
            calls: calls.asked_by(number.map(id).as_ref()),
            closed: closed.clone(),
        };
        // Without an origin, the newest request counts, and those of its holder.
        let asked = origin(None);
        assert!(Arc::ptr_eq(&asked.calls[0], &second) && asked.calls.len() == 2);
        let named = origin(Some(1));
        assert!(Arc::ptr_eq(&named.calls[0], &other) && named.calls.len() == 1);
        let is_over = async |origin: Origin| {
            // tidy: sleep the clock is paused: it passes at once
            tokio::time::timeout(Duration::from_secs(9), origin.ended()).await.is_ok()
        };
        drop(second.end_on_drop());
        assert!(!is_over(asked.clone()).await);
        drop(first.end_on_drop());
        assert!(is_over(asked).await && !is_over(named.clone()).await);
        // One that belongs to no request ends with the connection.
        let none = Origin { calls: Vec::new(), closed: closed.clone() };
        assert!(!is_over(none.clone()).await);
        open.send_replace(true);
        assert!(is_over(none).await && is_over(named).await);
    }
}
