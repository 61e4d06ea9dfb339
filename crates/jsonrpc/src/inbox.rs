//! The queue of incoming messages of one connection, bounded in messages and in bytes. At either
//! bound the reader waits, and with it eventually the peer; a transport can choose to get back a
//! request that finds no room instead, and refuse it at once.
//!
//! An inbox has two lanes: requests, and answers to the server's own requests, which pass waiting
//! requests. With lines, a full inbox pauses the reading; with WebSocket, the request is answered
//! -32001, and so it is when the server-wide `Ingress` is used up.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::encode::keep_on_one_line;
use crate::ingress::{Charge, Ingress};
use crate::{Limits, Malformed, Message, decode};

/// A received line.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// A line that is not a message, with the error to respond with. The connection stays open.
    Malformed(Malformed),
}

impl Incoming {
    fn is_answer(&self) -> bool {
        match self {
            Self::Message(message) => matches!(message, Message::Response { .. }),
            Self::Malformed(malformed) => malformed.answers.is_some(),
        }
    }
}

/// A received line with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedLine {
    /// The decoded line.
    pub incoming: Incoming,
    /// The line as it arrived, except that newlines between its tokens are spaces. Empty unless
    /// [`Limits::keep_text`] is set, and for a line that is not a message.
    pub text: Bytes,
}

impl From<Incoming> for ReceivedLine {
    fn from(incoming: Incoming) -> Self {
        Self { incoming, text: Bytes::new() }
    }
}

/// The receiving end: messages received and not yet taken.
pub struct Inbox {
    shared: Arc<Shared>,
}

/// The responses to our own requests, separate from other messages, so that they arrive even while
/// requests are waiting. See [`Inbox::split`].
pub struct Answers {
    shared: Arc<Shared>,
}

impl Inbox {
    /// Returns the next message; `None` once the input has ended and every message is taken. Cancel
    /// safe: no message is lost.
    pub async fn recv(&mut self) -> Option<Incoming> {
        Some(self.recv_line().await?.incoming)
    }

    /// As [`Inbox::recv`], with the text of the message.
    pub async fn recv_line(&mut self) -> Option<ReceivedLine> {
        poll_fn(|cx| self.shared.poll_next(cx, Lane::Requests)).await
    }

    /// Returns the next message if one is already queued; `None` too when the input has ended.
    pub fn try_recv(&mut self) -> Option<Incoming> {
        Some(self.shared.lock().pop(Lane::Requests)?.incoming)
    }

    /// Takes the responses to our own requests out of the order of arrival, so that a handler that
    /// is busy with a request can receive a response meanwhile.
    #[must_use]
    pub fn split(self) -> (Self, Answers) {
        let mut state = self.shared.lock();
        let all = std::mem::take(&mut state.requests);
        state.is_split = true;
        for waiting in all.entries {
            state.lane(&waiting.line.incoming).push(waiting);
        }
        drop(state);
        let answers = Answers { shared: self.shared.clone() };
        (self, answers)
    }
}

impl Answers {
    /// Returns the next response; `None` once the input has ended and every response is taken, or
    /// the [`Inbox`] is dropped. Cancel safe: no response is lost.
    pub async fn recv(&mut self) -> Option<Incoming> {
        Some(poll_fn(|cx| self.shared.poll_next(cx, Lane::Answers)).await?.incoming)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver_gone = true;
        state.requests = Queue::default();
        let answers = std::mem::take(&mut state.answers);
        state.wake_sender();
        drop(state);
        // Wakes a task that waits for responses, so that it sees the end.
        answers.receiver.into_iter().for_each(Waker::wake);
    }
}

/// The sending end, for the single task that reads.
pub(crate) struct InboxSender {
    shared: Arc<Shared>,
    ingress: Option<Arc<Ingress>>,
    keeps_text: bool,
}

pub(crate) fn inbox(limits: &Limits, ingress: Option<Arc<Ingress>>) -> (InboxSender, Inbox) {
    let shared = Arc::new(Shared {
        state: Mutex::default(),
        most_messages: limits.incoming_messages.max(1),
        most_bytes: limits.incoming_bytes,
    });
    let keeps_text = limits.keep_text;
    (InboxSender { shared: shared.clone(), ingress, keeps_text }, Inbox { shared })
}

impl InboxSender {
    /// Decodes a line as a message, or as the error to respond with.
    pub(crate) fn read(&self, line: &[u8]) -> ReceivedLine {
        match decode(line) {
            Ok(message) if self.keeps_text => {
                let mut text = line.to_vec();
                keep_on_one_line(&mut text);
                ReceivedLine { incoming: Incoming::Message(message), text: text.into() }
            }
            Ok(message) => Incoming::Message(message).into(),
            Err(malformed) => Incoming::Malformed(malformed).into(),
        }
    }

    /// Waits for room and queues a message that arrived as `bytes` bytes; `false` when the receiver
    /// is gone.
    pub(crate) async fn send(&self, line: ReceivedLine, bytes: usize) -> bool {
        let mut waiting = Some(Waiting { line, bytes, charge: None });
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

    /// Queues a message that arrived as `bytes` bytes if this inbox and the server have room for
    /// it.
    ///
    /// # Errors
    /// Returns the message when there is no room.
    pub(crate) fn offer(&self, line: ReceivedLine, bytes: usize) -> Result<(), Incoming> {
        let mut waiting = Waiting { line, bytes, charge: None };
        let mut state = self.shared.lock();
        if state.receiver_gone {
            return Ok(());
        }
        if !self.shared.fits(&mut state, &waiting) {
            return Err(waiting.line.incoming);
        }
        if let Some(ingress) = &self.ingress {
            let queue = state.lane(&waiting.line.incoming);
            let Some(charge) = ingress.charge(bytes, (queue.entries.len(), queue.bytes)) else {
                return Err(waiting.line.incoming);
            };
            waiting.charge = Some(charge);
        }
        state.push(waiting);
        Ok(())
    }

    /// Waits until the receiver is gone.
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
    /// Empty until the inbox is split.
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
    line: ReceivedLine,
    bytes: usize,
    /// Returned to the budget when the message is taken.
    charge: Option<Charge>,
}

#[derive(Clone, Copy)]
enum Lane {
    Requests,
    Answers,
}

/// Capacity, in messages, that an empty queue keeps.
const RETAINED_ENTRIES: usize = 8;

impl Shared {
    fn poll_next(&self, cx: &mut Context<'_>, lane: Lane) -> Poll<Option<ReceivedLine>> {
        let mut state = self.lock();
        if let Some(line) = state.pop(lane) {
            return Poll::Ready(Some(line));
        }
        if state.sender_gone || state.receiver_gone {
            return Poll::Ready(None);
        }
        state.queue(lane).receiver = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Returns whether there is room. An empty queue accepts one message of any size.
    fn fits(&self, state: &mut State, next: &Waiting) -> bool {
        let queue = state.lane(&next.line.incoming);
        queue.entries.is_empty()
            || queue.entries.len() < self.most_messages
                && queue.bytes.saturating_add(next.bytes) <= self.most_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic under this lock leaves the state half changed.
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
        let queue = self.lane(&next.line.incoming);
        queue.push(next);
        if let Some(waker) = queue.receiver.take() {
            waker.wake();
        }
    }

    fn pop(&mut self, lane: Lane) -> Option<ReceivedLine> {
        let queue = self.queue(lane);
        let Waiting { line, bytes, .. } = queue.entries.pop_front()?;
        queue.bytes -= bytes;
        if queue.entries.is_empty() {
            queue.entries.shrink_to(RETAINED_ENTRIES);
        }
        self.wake_sender();
        Some(line)
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

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    fn incoming(text: &str) -> Incoming {
        Incoming::Message(decode(text.as_bytes()).unwrap())
    }

    fn request(id: i64) -> Incoming {
        incoming(&format!(r#"{{"id":{id},"method":"m"}}"#))
    }

    fn answer(id: i64) -> Incoming {
        incoming(&format!(r#"{{"id":{id},"result":{{}}}}"#))
    }

    fn limits(incoming_messages: usize, incoming_bytes: usize) -> Limits {
        Limits { incoming_messages, incoming_bytes, ..Limits::default() }
    }

    /// Whether a future is still pending at its first poll.
    fn waits<T>(future: impl Future<Output = T>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    #[tokio::test]
    async fn a_split_keeps_each_lane_in_order() {
        let (sender, inbox) = inbox(&limits(10, 1000), None);
        for next in [request(1), answer(1), request(2), answer(2)] {
            assert!(sender.send(next.into(), 1).await);
        }
        let (mut requests, mut answers) = inbox.split();
        assert!(sender.send(answer(3).into(), 1).await);
        assert!(sender.send(request(3).into(), 1).await);
        for id in 1..4 {
            assert_eq!(answers.recv().await, Some(answer(id)));
            assert_eq!(requests.recv().await, Some(request(id)));
        }
        assert!(waits(answers.recv()) && waits(requests.recv()));
        drop(sender);
        assert_eq!(answers.recv().await, None);
        assert_eq!(requests.recv().await, None);
    }

    #[tokio::test]
    async fn a_message_is_accepted_or_returned_unchanged() {
        let (sender, mut inbox) = inbox(&limits(2, 100), None);
        assert_eq!(sender.offer(request(1).into(), 1000), Ok(()), "one always has room");
        assert_eq!(sender.offer(request(2).into(), 1), Err(request(2)), "too many bytes");
        assert_eq!(inbox.recv().await, Some(request(1)));
        assert_eq!(sender.offer(request(3).into(), 60), Ok(()));
        assert_eq!(sender.offer(request(4).into(), 41), Err(request(4)));
        assert_eq!(sender.offer(request(5).into(), 40), Ok(()));
        assert_eq!(sender.offer(request(6).into(), 0), Err(request(6)), "too many messages");
        assert_eq!(inbox.recv().await, Some(request(3)));
        assert_eq!(inbox.recv().await, Some(request(5)));
        assert_eq!(inbox.try_recv(), None);
    }

    #[tokio::test]
    async fn refused_and_received_messages_release_the_budget() {
        let ingress = Arc::new(Ingress::new(1, 100));
        let (sender, mut inbox) = inbox(&limits(1, 100), Some(ingress.clone()));
        let is_free = || ingress.charge(100, (0, 0)).is_some();
        assert_eq!(
            sender.offer(request(1).into(), 101),
            Err(request(1)),
            "more than there is at all"
        );
        assert!(is_free());
        assert_eq!(sender.offer(request(2).into(), 10), Ok(()));
        assert!(!is_free());
        assert_eq!(sender.offer(request(3).into(), 10), Err(request(3)));
        assert_eq!(inbox.recv().await, Some(request(2)));
        assert!(is_free());
        assert_eq!(sender.offer(request(4).into(), 10), Ok(()));
        drop(inbox);
        assert!(is_free(), "its receiver is gone");
        assert_eq!(sender.offer(request(5).into(), 10), Ok(()), "who reads sees the end elsewhere");
        assert!(is_free());
    }

    #[tokio::test]
    async fn responses_have_separate_bounds() {
        let (sender, inbox) = inbox(&limits(1, 100), None);
        let (mut requests, mut answers) = inbox.split();
        assert!(sender.send(request(1).into(), 1).await);
        assert!(waits(sender.send(request(2).into(), 1)));
        assert!(sender.send(answer(1).into(), 1).await);
        assert!(waits(sender.send(answer(2).into(), 1)));
        assert_eq!(requests.recv().await, Some(request(1)));
        assert!(
            waits(sender.send(answer(2).into(), 1)),
            "room for a request is not room for a response"
        );
        assert_eq!(answers.recv().await, Some(answer(1)));
        assert!(sender.send(answer(2).into(), 1).await);
    }

    #[tokio::test]
    async fn the_sender_of_responses_learns_that_the_receiver_is_gone() {
        let (sender, inbox) = inbox(&limits(1, 100), None);
        let (requests, mut answers) = inbox.split();
        let waiting = tokio::spawn(async move { answers.recv().await });
        tokio::task::yield_now().await;
        drop(requests);
        assert_eq!(waiting.await.unwrap(), None);
        drop(sender);
    }
}
