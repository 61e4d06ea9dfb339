//! What happens when a thread's actor panics: its turn fails, in the store and for its clients, and
//! the thread is closed, to be resumed from what is stored.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use serde_json::value::RawValue;
use session::{Event, FailureKind, TurnError, TurnStatus};

use crate::convert::event::{self, ItemCompleted};
use crate::error::Error;
use crate::recovery::{self, Outcome};
use crate::thread::Actor;
use crate::thread::event_log::{About, Phase};

/// Runs a future to its end, or to its panic.
///
/// # Errors
/// The words of the panic. The future is dropped then.
pub(super) async fn catch<T>(future: impl Future<Output = T>) -> Result<T, Panic> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // What the future has borrowed may be half changed: the caller only ends it.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(Panic(words(&*panic)))),
        }
    })
    .await
}

/// The words of a panic.
pub(super) struct Panic(pub(super) String);

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

impl Actor {
    /// Ends the thread after a panic. Does not touch the machine, which may be half changed.
    pub(super) async fn end_after_panic(mut self, Panic(panic): Panic) {
        tracing::error!(target: "server::thread", "thread {} panicked: {panic}", self.id);
        let message = format!(
            "an error in the server ended the thread ({panic}); call thread/resume to go on"
        );
        let kind = FailureKind::InternalServerError;
        let error = TurnError { message, kind, http_status: None, details: None };
        self.let_go();
        let open: Vec<u64> = self.asks.keys().copied().collect();
        for request in open {
            self.resolved(request);
        }
        if let Err(why) = self.close_stored_turns(&error).await {
            tracing::warn!(
                target: "server::store",
                "the turn of thread {} cannot be closed: {why}",
                self.id
            );
        }
        let now = self.core.options.clock.now_ms();
        for mut view in std::mem::take(&mut self.open_turns) {
            let (turn, told) = (view.id.clone(), error.clone());
            let event = Event::Error { turn, error: told, will_retry: false };
            self.teller.tell(&mut self.subscribers, &event, None);
            view.status = TurnStatus::Failed;
            view.error = Some(error.clone());
            view.completed_at = Some(now);
            self.teller.tell(&mut self.subscribers, &Event::TurnCompleted(view), None);
        }
        self.core.forget(&self.id);
    }

    /// Closes the turns that the store has in flight, and completes their items as failed.
    async fn close_stored_turns(&mut self, error: &TurnError) -> Result<(), Error> {
        if self.ephemeral {
            return Ok(());
        }
        let core = self.core.clone();
        let store = core.store().await?;
        // This store has the lease already, and runs none of the thread's turns any more.
        let orphans = store.lease(&self.id).await?;
        let now = core.options.clock.now_ms();
        let error = serde_json::to_string(&event::turn_error(error)).expect("plain data");
        let failed = Outcome::Failed { error };
        let items = recovery::close(store, orphans, now, &failed).await;
        for closed in items? {
            let (item, turn) = (closed.item.as_str().into(), closed.turn.as_str().into());
            let Ok(payload) = serde_json::from_str::<&RawValue>(&closed.payload) else { continue };
            let params = ItemCompleted {
                item: payload,
                thread_id: &self.id,
                turn_id: &closed.turn,
                completed_at_ms: now,
            };
            let about = About { turn: Some(&turn), item: Some((&item, Phase::Completed)) };
            self.subscribers.notify_about::<protocol::ItemCompleted>(&params, about);
        }
        Ok(())
    }
}
