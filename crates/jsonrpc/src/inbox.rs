//! The queue of incoming messages of one connection, bounded in messages and in bytes. At either
//! bound the reader waits, and so, in the end, does the peer; or, where a transport says so, a
//! request that finds no room is given back, to be refused at once.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::ingress::{Charge, Ingress};
use crate::{Limits, Malformed, Message};

/// What came in.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// A line that is not one, with the error to answer it with. The connection lives on.
    Malformed(Malformed),
}

impl Incoming {
    fn is_answer(&self) -> bool {
        matches!(self, Self::Message(Message::Response { .. }))
    }
}

/// The receiving end: what came in and was not taken yet.
pub struct Inbox {
    shared: Arc<Shared>,
}

/// The answers to our own requests, apart from everything else: they get through also while
/// requests wait. See [`Inbox::split`].
pub struct Answers {
    shared: Arc<Shared>,
}

impl Inbox {
    /// The next message; `None` once the input has ended and everything was taken. May be cancelled
    /// without losing a message.
    pub async fn recv(&mut self) -> Option<Incoming> {
        poll_fn(|cx| self.shared.poll_next(cx, Lane::Requests)).await
    }

    /// The next message if one waits already; `None` also when the input has ended.
    pub fn try_recv(&mut self) -> Option<Incoming> {
        self.shared.lock().pop(Lane::Requests)
    }

    /// Takes the answers to our own requests out of the order of arrival, so that whoever is busy
    /// with a request can be answered meanwhile.
    #[must_use]
    pub fn split(self) -> (Self, Answers) {
        let mut state = self.shared.lock();
        let all = std::mem::take(&mut state.requests);
        state.is_split = true;
        for waiting in all.entries {
            state.lane(&waiting.incoming).push(waiting);
        }
        drop(state);
        let answers = Answers { shared: self.shared.clone() };
        (self, answers)
    }
}

impl Answers {
    /// The next answer; `None` once the input has ended and everything was taken. May be cancelled
    /// without losing one.
    pub async fn recv(&mut self) -> Option<Incoming> {
        poll_fn(|cx| self.shared.poll_next(cx, Lane::Answers)).await
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        state.requests = Queue::default();
        state.answers = Queue::default();
        state.wake_sender();
    }
}

/// The sending end, of the one task that reads.
pub(crate) struct InboxSender {
    shared: Arc<Shared>,
    ingress: Option<Arc<Ingress>>,
}

pub(crate) fn inbox(limits: &Limits, ingress: Option<Arc<Ingress>>) -> (InboxSender, Inbox) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        most_messages: limits.incoming_messages.max(1),
        most_bytes: limits.incoming_bytes,
    });
    (InboxSender { shared: shared.clone(), ingress }, Inbox { shared })
}

impl InboxSender {
    /// Waits for room and queues a message that came as `bytes` bytes; `false` when nobody is there
    /// to take it.
    pub(crate) async fn send(&self, incoming: Incoming, bytes: usize) -> bool {
        let mut waiting = Some(Waiting { incoming, bytes, charge: None });
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if state.receiver_gone {
                return Poll::Ready(false);
            }
            let Some(next) = waiting.take_if(|next| self.shared.fits(&mut state, next)) else {
                state.sender = Some(cx.waker().clone());
                return Poll::Pending;
            };
            state.push(next);
            Poll::Ready(true)
        })
        .await
    }

    /// Queues a message that came as `bytes` bytes if there is room for it, here and in the server.
    ///
    /// # Errors
    /// The message, when there is none.
    pub(crate) fn offer(&self, incoming: Incoming, bytes: usize) -> Result<(), Incoming> {
        let mut waiting = Waiting { incoming, bytes, charge: None };
        let mut state = self.shared.lock();
        if state.receiver_gone {
            return Ok(());
        }
        if !self.shared.fits(&mut state, &waiting) {
            return Err(waiting.incoming);
        }
        if let Some(ingress) = &self.ingress {
            let queue = state.lane(&waiting.incoming);
            let Some(charge) = ingress.charge(bytes, (queue.entries.len(), queue.bytes)) else {
                return Err(waiting.incoming);
            };
            waiting.charge = Some(charge);
        }
        state.push(waiting);
        Ok(())
    }

    /// Waits until nobody is there to take messages.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if state.receiver_gone {
                return Poll::Ready(());
            }
            state.sender = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for InboxSender {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.sender_gone = true;
        for waker in [state.requests.receiver.take(), state.answers.receiver.take()] {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

struct Shared {
    state: Mutex<State>,
    most_messages: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct State {
    requests: Queue,
    /// Empty before the split.
    answers: Queue,
    is_split: bool,
    /// Set while the sender waits.
    sender: Option<Waker>,
    sender_gone: bool,
    receiver_gone: bool,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Waiting>,
    bytes: usize,
    /// Set while the receiver waits.
    receiver: Option<Waker>,
}

struct Waiting {
    incoming: Incoming,
    bytes: usize,
    /// Given back when the message is taken.
    charge: Option<Charge>,
}

#[derive(Clone, Copy)]
enum Lane {
    Requests,
    Answers,
}

/// Room for so many messages is kept while none waits.
const RETAINED_ENTRIES: usize = 8;

impl Shared {
    fn poll_next(&self, cx: &mut Context<'_>, lane: Lane) -> Poll<Option<Incoming>> {
        let mut state = self.lock();
        if let Some(incoming) = state.pop(lane) {
            return Poll::Ready(Some(incoming));
        }
        if state.sender_gone || state.receiver_gone {
            return Poll::Ready(None);
        }
        state.queue(lane).receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether there is room. One message is always let through.
    fn fits(&self, state: &mut State, next: &Waiting) -> bool {
        let queue = state.lane(&next.incoming);
        queue.entries.is_empty()
            || queue.entries.len() < self.most_messages
                && queue.bytes.saturating_add(next.bytes) <= self.most_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn queue(&mut self, lane: Lane) -> &mut Queue {
        match lane {
            Lane::Requests => &mut self.requests,
            Lane::Answers => &mut self.answers,
        }
    }

    fn lane(&mut self, incoming: &Incoming) -> &mut Queue {
        let apart = self.is_split && incoming.is_answer();
        self.queue(if apart { Lane::Answers } else { Lane::Requests })
    }

    fn push(&mut self, next: Waiting) {
        let queue = self.lane(&next.incoming);
        queue.push(next);
        if let Some(waker) = queue.receiver.take() {
            waker.wake();
        }
    }

    fn pop(&mut self, lane: Lane) -> Option<Incoming> {
        let queue = self.queue(lane);
        let Waiting { incoming, bytes, .. } = queue.entries.pop_front()?;
        queue.bytes -= bytes;
        if queue.entries.is_empty() {
            queue.entries.shrink_to(RETAINED_ENTRIES);
        }
        self.wake_sender();
        Some(incoming)
    }

    fn wake_sender(&mut self) {
        if let Some(waker) = self.sender.take() {
            waker.wake();
        }
    }
}

impl Queue {
    fn push(&mut self, next: Waiting) {
        self.bytes += next.bytes;
        self.entries.push_back(next);
    }
}
