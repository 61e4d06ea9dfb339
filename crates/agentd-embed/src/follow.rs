//! The events of a thread over the life of an agent: opened at a cursor, and opened again after a lost connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;

use crate::feed::{Entry, Feed};
use crate::shared::Shared;
use crate::state::ThreadState;
use crate::{Error, Notification, Replaced};

/// All events of a thread, of the turns of any client: [`crate::Thread::events`]. It ends with an error alone.
pub struct ThreadEvents {
    shared: Arc<Shared>,
    state: Arc<ThreadState>,
    feed: Arc<Feed>,
    /// The position after the last event that was handed out.
    cursor: Option<String>,
    is_open: bool,
    /// A request that has to be answered before the queue is read.
    work: Option<Work>,
    has_failed: bool,
}

type Work = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// An event of a thread.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ThreadEvent {
    /// A notification about the thread.
    Notification(Notification),
    /// In place of events that are gone: the turns as they are.
    Replaced(Replaced),
}

impl ThreadEvent {
    /// The position after it, from which [`crate::Thread::events`] goes on, also in another process.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        match self {
            Self::Notification(notification) => notification.cursor.as_deref(),
            Self::Replaced(replaced) => replaced.cursor.as_deref(),
        }
    }
}

impl ThreadEvents {
    pub(crate) fn new(shared: Arc<Shared>, state: Arc<ThreadState>, cursor: Option<&str>) -> Self {
        let feed = Feed::new(shared.pressure.clone(), false);
        let is_open = cursor.is_none();
        let cursor = cursor.map(str::to_owned).or_else(|| state.position());
        if is_open {
            // From now on.
            state.add_follower(&feed);
            if let Some(error) = shared.over_now() {
                feed.put(Entry::Failed(error));
            }
        }
        Self { shared, state, feed, cursor, is_open, work: None, has_failed: false }
    }

    /// The next event. Cancel safe: no event is lost.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`], and [`Error::Refused`] for a cursor that is none. No event comes after an error.
    pub async fn next(&mut self) -> Option<Result<ThreadEvent, Error>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<ThreadEvent, Error>>> {
        loop {
            if self.has_failed {
                return Poll::Ready(None);
            }
            if !self.is_open && self.work.is_none() {
                let Some(cursor) = self.cursor.clone() else {
                    let why =
                        "the connection was lost, and the server gave no cursor to go on from";
                    return self.fail(Error::lost(why));
                };
                self.work = Some(self.open(cursor));
            }
            if let Some(work) = &mut self.work {
                let done = ready!(work.as_mut().poll(cx));
                self.work = None;
                match done {
                    Ok(()) => self.is_open = true,
                    // The new connection was lost, too: the next attempt waits for another one.
                    Err(Error::ConnectionLost(_)) if self.shared.over_now().is_none() => {
                        self.is_open = false;
                    }
                    Err(error) => return self.fail(error),
                }
                continue;
            }
            match ready!(self.feed.poll_next(cx)) {
                Entry::Event(event) => {
                    let order = event.order;
                    let event = ThreadEvent::Notification(event.notification.clone());
                    return Poll::Ready(Some(Ok(self.hand_out(event, order))));
                }
                Entry::Replaced(replaced) => {
                    let order = replaced.order;
                    let event = ThreadEvent::Replaced((*replaced).clone());
                    return Poll::Ready(Some(Ok(self.hand_out(event, order))));
                }
                // Of an earlier loss, if the reader gets events.
                Entry::Reopen => self.is_open = self.state.is_follower(&self.feed),
                Entry::Lagged => self.work = Some(self.catch_up()),
                Entry::Failed(error) => return self.fail(error),
                Entry::Turn(_) => {}
            }
        }
    }

    fn hand_out(&mut self, event: ThreadEvent, order: u64) -> ThreadEvent {
        if let Some(cursor) = event.cursor() {
            self.cursor = Some(cursor.to_owned());
            self.state.hand_out(Some(cursor), order);
        }
        event
    }

    fn fail<T>(&mut self, error: Error) -> Poll<Option<Result<T, Error>>> {
        self.has_failed = true;
        Poll::Ready(Some(Err(error)))
    }

    fn open(&self, cursor: String) -> Work {
        // What waits comes after the cursor, too.
        self.state.remove_follower(&self.feed);
        self.feed.clear();
        let opened = self.shared.follow(&self.state, cursor, &self.feed);
        Box::pin(async move {
            let ended = |_| Err(Error::lost("the tokio runtime is shutting down"));
            opened.await.unwrap_or_else(ended)
        })
    }

    fn catch_up(&self) -> Work {
        let (shared, state, feed) = (self.shared.clone(), self.state.clone(), self.feed.clone());
        Box::pin(async move { shared.catch_up(&state, &feed).await })
    }
}

impl Stream for ThreadEvents {
    type Item = Result<ThreadEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}
