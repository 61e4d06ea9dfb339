//! Making a connection again that was lost, to a server that outlives it: threads that are awaited are resumed at their
//! position, so that their events go on with nothing lost or doubled.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonrpc::Method as _;
use protocol::{InitializeResponse, ThreadRead, ThreadResume};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::{MutexGuard, oneshot};
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::feed::{Entry, Feed};
use crate::link::{Link, OnResult};
use crate::replaced::Replaced;
use crate::shared::{FIRST_DELAY, Phase, Shared, unreadable};
use crate::state::{Opened, ReplayKind, ThreadState, in_progress};

/// A connection without an agent yet. Dropping it ends the connection, which its reading task would keep.
struct Attempt(Option<Arc<Link>>);

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(link) = self.0.take() {
            link.end(Error::lost("the connection was given up"));
        }
    }
}

impl Shared {
    /// The agent can be used: `link` is its connection.
    pub(crate) fn opened(self: &Arc<Self>, link: &Arc<Link>) {
        self.phase.send_if_modified(|phase| {
            let is_over = matches!(phase, Phase::Over(_));
            if !is_over {
                *phase = Phase::Open(link.clone());
            }
            !is_over
        });
        // Its reading task may have found that it was not the agent's connection yet.
        if let Some(why) = link.lost() {
            self.lost(link, why);
        }
    }

    /// A connection was lost. Another one than the agent's is an attempt, which fails by itself.
    pub(crate) fn lost(self: &Arc<Self>, link: &Arc<Link>, why: Error) {
        let is_final = !self.way.is_lasting()
            || self.way.failure().is_some()
            || link.is_garbage.load(Ordering::Acquire)
            || self.settings.reconnect_timeout.is_zero();
        let is_ours =
            |phase: &Phase| matches!(phase, Phase::Open(open) if open.number == link.number);
        if is_final {
            if is_ours(&self.phase.borrow()) {
                self.finish(why);
            }
            return;
        }
        let returns = self.phase.send_if_modified(|phase| {
            let is_ours = is_ours(phase);
            if is_ours {
                *phase = Phase::Returning;
            }
            is_ours
        });
        if returns {
            for state in self.states() {
                state.interrupt();
            }
            tokio::spawn(self.clone().come_back(why));
        }
    }

    /// Resumes a thread that the current connection is not subscribed to.
    pub(crate) async fn subscribe(self: &Arc<Self>, state: &Arc<ThreadState>) -> Result<(), Error> {
        let mut delay = FIRST_DELAY;
        for left in (0..=self.settings.overload_retries).rev() {
            let link = self.link().await?;
            match self.resume(&link, state).await {
                Err(error) if error.is_overload() && left > 0 => {}
                result => return result,
            }
            self.wait(&mut delay).await?;
        }
        Ok(())
    }

    /// Asks for a thread and its events. Until the lock is dropped, no other such request is made; it is taken after the
    /// connection is there, since making one takes it, too.
    async fn ask<'a>(
        self: &Arc<Self>,
        state: &'a ThreadState,
        cursor: Option<&str>,
        taken: OnResult,
    ) -> Result<(Opened, Arc<Link>, MutexGuard<'a, ()>), Error> {
        let params = json!({ "threadId": state.id, "eventCursor": cursor });
        let mut delay = FIRST_DELAY;
        for left in (0..=self.settings.overload_retries).rev() {
            let link = self.link().await?;
            let asking = state.asking.lock().await;
            match self.call_on(&link, ThreadResume::NAME, &params, Some(taken.clone())).await {
                Err(error) if error.is_overload() && left > 0 => drop(asking),
                result => return Ok((opened(&result?)?, link, asking)),
            }
            self.wait(&mut delay).await?;
        }
        Err(Error::lost("the request was not sent"))
    }

    async fn come_back(self: Arc<Self>, lost: Error) {
        tokio::select! {
            _ = self.over() => {}
            () = self.try_to_come_back(lost) => {}
        }
    }

    async fn try_to_come_back(self: &Arc<Self>, lost: Error) {
        let deadline = Instant::now() + self.settings.reconnect_timeout;
        let mut failure = lost.clone();
        let mut delay = FIRST_DELAY;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.finish(Error::lost(format!("{lost}; it was not made again: {failure}")));
                return;
            }
            match self.try_once(left.min(self.settings.start_timeout)).await {
                Ok(mut attempt) => {
                    if let Some(link) = attempt.0.take() {
                        self.opened(&link);
                    }
                    return;
                }
                Err(error @ (Error::VersionMismatch { .. } | Error::ReplayMismatch(_))) => {
                    self.finish(error);
                    return;
                }
                Err(error) => failure = error,
            }
            if self.wait(&mut delay).await.is_err() {
                return;
            }
        }
    }

    async fn try_once(self: &Arc<Self>, limit: Duration) -> Result<Attempt, Error> {
        let late = |_| Error::lost(format!("the handshake took longer than {limit:?}"));
        let (attempt, _) = timeout(limit, self.connect()).await.map_err(late)??;
        if let Some(link) = &attempt.0 {
            self.resume_awaited(link).await?;
            if let Some(why) = link.lost() {
                return Err(why);
            }
        }
        Ok(attempt)
    }

    async fn connect(self: &Arc<Self>) -> Result<(Attempt, InitializeResponse), Error> {
        let connection = self.way.open().await?;
        let link = self.attach(connection, None);
        let attempt = Attempt(Some(link.clone()));
        let server = link.shake_hands(&self.hello).await?;
        Ok((attempt, server))
    }

    async fn resume_awaited(self: &Arc<Self>, link: &Arc<Link>) -> Result<(), Error> {
        for state in self.states() {
            if !state.is_awaited() {
                continue;
            }
            let Err(error) = self.resume(link, &state).await else { continue };
            // A server that has too much to do is asked again on the next connection.
            if link.lost().is_some() || error.is_overload() {
                return Err(error);
            }
            let why = format!("the thread could not be resumed on a new connection: {error}");
            state.fail(&Error::lost(why));
        }
        Ok(())
    }

    async fn resume(
        self: &Arc<Self>,
        link: &Arc<Link>,
        state: &Arc<ThreadState>,
    ) -> Result<(), Error> {
        let _asking = state.asking.lock().await;
        let (is_subscribed, position) = state.subscription(link.number);
        if is_subscribed {
            return Ok(());
        }
        let (shared, thread) = (self.clone(), state.clone());
        let taken: OnResult = Arc::new(move |result, link| shared.resumed(&thread, link, result));
        let params = json!({ "threadId": state.id, "eventCursor": position });
        let result = self.call_on(link, ThreadResume::NAME, &params, Some(taken)).await?;
        opened(&result).map(|_| ())
    }

    /// Before any later event.
    fn resumed(self: &Arc<Self>, state: &Arc<ThreadState>, link: u32, result: &RawValue) {
        let Ok(opened) = opened(result) else { return };
        if let Some(replay) = &opened.event_replay {
            self.desk.still_open(&state.id, replay.open_request_ids());
        }
        // With a replay, each event brings its own position.
        let is_replayed = matches!(opened.event_replay, Some(ReplayKind::Replayed { .. }));
        state.subscribed(link, opened.event_cursor.clone().filter(|_| !is_replayed));
        if let Some(ReplayKind::Snapshot { .. }) = opened.event_replay
            && state.replace(&opened.thread.turns(), false)
        {
            // The snapshot may hold the newest turns only.
            let (shared, state) = (self.clone(), state.clone());
            tokio::spawn(async move { shared.replace_from_whole(&state).await });
        }
    }

    async fn replace_from_whole(self: &Arc<Self>, state: &Arc<ThreadState>) {
        let thread = state.clone();
        let taken: OnResult = Arc::new(move |result, _| {
            if let Ok(read) = opened(result) {
                thread.replace(&read.thread.turns(), true);
            }
        });
        let params = json!({ "threadId": state.id, "includeTurns": true });
        let read = self.call(ThreadRead::NAME, &params, Some(taken)).await;
        if let Err(error) = read.and_then(|result| opened(&result).map(|_| ())) {
            state.fail(&Error::lost(format!(
                "the turn could not be read on a new connection: {error}"
            )));
        }
    }

    /// Has the events after a cursor sent again, for one reader, which then follows the thread.
    pub(crate) fn follow(
        self: &Arc<Self>,
        state: &Arc<ThreadState>,
        cursor: String,
        feed: &Arc<Feed>,
    ) -> oneshot::Receiver<Result<(), Error>> {
        let (sender, receiver) = oneshot::channel();
        let (shared, state, feed) = (self.clone(), state.clone(), Arc::downgrade(feed));
        // Outside of the reader, which may be dropped: the events that the server then sends are no new ones.
        tokio::spawn(async move {
            let replay: Arc<Mutex<Option<oneshot::Receiver<()>>>> = Arc::default();
            let (slot, followed, reader) = (replay.clone(), shared.clone(), feed.clone());
            let thread = state.clone();
            let taken: OnResult = Arc::new(move |result, link| {
                let Ok(opened) = opened(result) else { return };
                if let Some(replay) = &opened.event_replay {
                    followed.desk.still_open(&thread.id, replay.open_request_ids());
                }
                let (is_subscribed, _) = thread.subscription(link);
                if !is_subscribed {
                    thread.subscribed(link, opened.event_cursor.clone());
                }
                match opened.event_replay {
                    Some(ReplayKind::Replayed { events, .. }) if events > 0 => {
                        let until = opened.event_cursor;
                        let over = thread.begin_replay(reader.clone(), events, until);
                        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(over);
                    }
                    _ => {
                        let Some(feed) = reader.upgrade() else { return };
                        if let Some(replaced) =
                            Replaced::of_snapshot(&opened, followed.event_count())
                        {
                            feed.put(Entry::Replaced(Arc::new(replaced)));
                        }
                        thread.add_follower(&feed);
                    }
                }
            });
            let asked = shared.ask(&state, Some(&cursor), taken).await;
            let asked = asked.and_then(|asked| match asked.0.event_replay {
                Some(_) => Ok(asked),
                None => Err(unreadable(
                    ThreadResume::NAME,
                    "the server sends no events again: it is older than this crate",
                )),
            });
            let (result, asked) = match asked {
                Ok(asked) => (Ok(()), Some(asked)),
                Err(error) => (Err(error), None),
            };
            let _ = sender.send(result);
            let replay = replay.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let (Some((_, link, _asking)), Some(over)) = (asked, replay) {
                shared.wait_for_replay(&link, &state, over).await;
            }
        });
        receiver
    }

    async fn wait_for_replay(
        &self,
        link: &Link,
        state: &Arc<ThreadState>,
        over: oneshot::Receiver<()>,
    ) {
        let opted_out = self.hello.capabilities.as_ref();
        let opted_out = opted_out.and_then(|asked| asked.opt_out_notification_methods.as_ref());
        if opted_out.is_some_and(|methods| !methods.is_empty()) {
            // Some of the events may be counted, but not sent: the answer to a later request comes after all of them.
            let thread = state.clone();
            let taken: OnResult = Arc::new(move |_, _| thread.end_replay());
            let params = json!({ "threadId": state.id });
            // An error is that of a lost connection, which ends the replay, too.
            let _ = self.call_on(link, ThreadRead::NAME, &params, Some(taken)).await;
        }
        // The sender is dropped at the end of the replay.
        let _ = over.await;
    }

    /// Finds the turn in progress, and has `feed` follow it.
    pub(crate) async fn running(
        self: &Arc<Self>,
        state: &Arc<ThreadState>,
        feed: &Arc<Feed>,
    ) -> Result<Option<String>, Error> {
        let (thread, reader) = (state.clone(), Arc::downgrade(feed));
        let taken: OnResult = Arc::new(move |result, link| {
            let Ok(opened) = opened(result) else { return };
            thread.subscribed(link, opened.event_cursor.clone());
            if let (Some(turn), Some(feed)) = (in_progress(opened.thread.turns()), reader.upgrade())
            {
                feed.set_turn(&turn.id);
                feed.put(Entry::Turn(Arc::new(turn)));
                thread.add_turn(&feed);
            }
        });
        let _asked = self.ask(state, None, taken).await?;
        Ok(feed.turn_id())
    }

    /// Reads the thread, in place of events that a reader lost.
    pub(crate) async fn catch_up(
        self: &Arc<Self>,
        state: &Arc<ThreadState>,
        feed: &Arc<Feed>,
    ) -> Result<(), Error> {
        let (shared, thread, reader) = (self.clone(), state.clone(), Arc::downgrade(feed));
        let taken: OnResult = Arc::new(move |result, _| {
            let (Ok(read), Some(feed)) = (opened(result), reader.upgrade()) else { return };
            let cursor = thread.position();
            let replaced = Replaced::lagged(read.thread.turns(), cursor, shared.event_count());
            feed.catch_up(replaced);
        });
        let params = json!({ "threadId": state.id, "includeTurns": true });
        let result = self.call(ThreadRead::NAME, &params, Some(taken)).await?;
        opened(&result).map(|_| ())
    }
}

/// The result of `thread/resume` or `thread/read`.
fn opened(result: &RawValue) -> Result<Opened, Error> {
    serde_json::from_str(result.get())
        .map_err(|why| unreadable(ThreadResume::NAME, &why.to_string()))
}
