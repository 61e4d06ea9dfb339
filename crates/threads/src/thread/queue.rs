//! The queue of a thread: messages that wait for a turn of their own, and the preparation of the next
//! one. `journal` stores it, and the actor starts the turns.

use std::pin::Pin;
use std::sync::Arc;

use protocol::{QueuedSubmission, ThreadQueuePause, UserInput};
use session::{Id, UserContent};

use services::error::{Error, start_of};
use services::thread_port::{MAX_QUEUED, MAX_QUEUED_BYTES, stored_message};

/// Reads the input of a message to the thread with an id as the session takes it: its files, images and
/// skills.
pub type ReadInput = Arc<dyn Fn(Id, Vec<UserInput>) -> ReadingInput + Send + Sync>;

/// The input that is being read.
pub type ReadingInput = Pin<Box<dyn Future<Output = Result<Vec<UserContent>, Error>> + Send>>;

/// The messages of a thread that wait for a turn.
#[derive(Default)]
pub struct ThreadQueue {
    /// At most [`MAX_QUEUED`].
    messages: Vec<QueuedSubmission>,
    /// True while the next message is prepared.
    is_preparing: bool,
    /// True once turns no longer start, because the server ends.
    is_stopped: bool,
    /// The state that clients were sent.
    shown: Option<(u32, Option<ThreadQueuePause>)>,
}

impl ThreadQueue {
    pub fn new(messages: Vec<QueuedSubmission>, pause: Option<&ThreadQueuePause>) -> Self {
        let mut queue = Self { messages, ..Self::default() };
        // A client that loads the thread is sent the state when it subscribes.
        queue.shown = Some((queue.len(), pause.filter(|_| !queue.is_empty()).cloned()));
        queue
    }

    pub(super) fn messages(&self) -> &[QueuedSubmission] {
        &self.messages
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn len(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether messages wait for the end of a turn, and not for a client.
    pub(super) fn goes_on(&self, pause: Option<&ThreadQueuePause>) -> bool {
        !self.messages.is_empty() && pause.is_none() && !self.is_stopped
    }

    /// From now on no turn starts, and the end of a turn does not pause the queue.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The message to prepare now, if nothing else is in its way.
    pub(super) fn begin_preparing(
        &mut self,
        pause: Option<&ThreadQueuePause>,
    ) -> Option<QueuedSubmission> {
        if self.is_preparing || !self.goes_on(pause) {
            return None;
        }
        self.is_preparing = true;
        self.messages.first().cloned()
    }

    /// A message that was to be prepared is.
    pub(super) fn prepared(&mut self) {
        self.is_preparing = false;
    }

    pub(super) fn find(&self, id: &str) -> Option<&QueuedSubmission> {
        self.messages.iter().find(|message| message.id == id)
    }

    /// The message that a client sends again, because it may not have got the response.
    pub(super) fn sent_before(
        &self,
        client_id: &str,
        input: &[UserInput],
    ) -> Option<&QueuedSubmission> {
        let mut messages = self.messages.iter();
        messages
            .find(|message| message.client_user_message_id == client_id && message.input == input)
    }

    /// Checks that a message fits, in place of the one that has its id.
    pub(super) fn check_room(&self, thread: &Id, message: &QueuedSubmission) -> Result<(), Error> {
        let others = || self.messages.iter().filter(|other| other.id != message.id);
        let next_step = "wait for turns of the thread, or delete messages with thread/queue/delete";
        if others().count() >= MAX_QUEUED {
            let error =
                format!("the queue of thread {thread} is full: it has {MAX_QUEUED} messages");
            return Err(Error::wrong_state(error).next_step(next_step));
        }
        let size = |message: &QueuedSubmission| stored_message(message).payload.len();
        let bytes = others().map(size).sum::<usize>() + size(message);
        if bytes > MAX_QUEUED_BYTES {
            return Err(Error::wrong_state(format!(
                "the queue of thread {thread} is full: its messages would have {bytes} bytes, and may \
                 have {MAX_QUEUED_BYTES}"
            ))
            .next_step(next_step));
        }
        Ok(())
    }

    pub(super) fn add(&mut self, message: QueuedSubmission) {
        self.messages.push(message);
    }

    pub(super) fn replace(&mut self, message: QueuedSubmission) {
        if let Some(known) = self.messages.iter_mut().find(|known| known.id == message.id) {
            *known = message;
        }
    }

    /// Returns whether the message was there.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let before = self.messages.len();
        self.messages.retain(|message| message.id != id);
        self.messages.len() < before
    }

    /// The messages in this order, which must name each exactly once.
    pub(super) fn reordered(&self, ids: &[String]) -> Result<Vec<QueuedSubmission>, Error> {
        let refused = || {
            Error::wrong_state("queue reorder must include every queued submission exactly once")
        };
        let mut left: Vec<&QueuedSubmission> = self.messages.iter().collect();
        let mut ordered = Vec::with_capacity(left.len());
        for id in ids {
            let at = left.iter().position(|message| message.id == *id).ok_or_else(refused)?;
            ordered.push(left.remove(at).clone());
        }
        if left.is_empty() { Ok(ordered) } else { Err(refused()) }
    }

    pub(super) fn set_order(&mut self, messages: Vec<QueuedSubmission>) {
        self.messages = messages;
    }

    /// The state to send to the clients, if they do not know it.
    pub(super) fn unshown(
        &mut self,
        pause: Option<ThreadQueuePause>,
    ) -> Option<(u32, Option<ThreadQueuePause>)> {
        let state = (self.len(), pause);
        if self.shown.as_ref() == Some(&state) {
            return None;
        }
        self.shown = Some(state.clone());
        Some(state)
    }

    /// The clients do not know the state, although its summary may be as before.
    pub(super) fn changed(&mut self) {
        self.shown = None;
    }
}

/// The error of a message that is not in the queue.
pub(super) fn unknown_message(id: &str) -> Error {
    Error::not_found(format!("queued submission not found: {}", start_of(id)))
        .next_step("list the queue again: its turn may have started")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn message(id: &str, text: &str) -> QueuedSubmission {
        QueuedSubmission {
            id: id.to_owned(),
            input: vec![text.into()],
            client_user_message_id: format!("client-{id}"),
        }
    }

    #[test]
    fn a_queue_is_bounded_in_number_and_bytes() {
        let thread = Id::from("t");
        let mut queue = ThreadQueue::default();
        let long = message("long", &"x".repeat(MAX_QUEUED_BYTES));
        let refused = queue.check_room(&thread, &long).unwrap_err().to_string();
        assert!(refused.contains("may have 8388608; wait for turns"), "{refused}");
        for number in 0..MAX_QUEUED {
            let message = message(&number.to_string(), "x");
            queue.check_room(&thread, &message).unwrap();
            queue.add(message);
        }
        let refused = queue.check_room(&thread, &message("more", "x")).unwrap_err().to_string();
        assert!(refused.contains("it has 100 messages"), "{refused}");
        // An update takes the place of its message.
        queue.check_room(&thread, &message("7", "y")).unwrap();
    }

    #[test]
    fn an_order_names_every_message_once() {
        let mut queue = ThreadQueue::new(vec![message("a", "1"), message("b", "2")], None);
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        for wrong in [&["a"][..], &["a", "a"], &["a", "b", "c"], &["a", "b", "b"], &[]] {
            assert!(queue.reordered(&ids(wrong)).is_err(), "{wrong:?}");
        }
        let ordered = queue.reordered(&ids(&["b", "a"])).unwrap();
        queue.set_order(ordered);
        assert_eq!(queue.messages()[0].id, "b");
    }

    #[test]
    fn one_message_is_prepared_at_a_time() {
        let mut queue = ThreadQueue::new(vec![message("a", "1"), message("b", "2")], None);
        assert_eq!(queue.begin_preparing(None).unwrap().id, "a");
        assert_eq!(queue.begin_preparing(None), None);
        queue.prepared();
        let pause = ThreadQueuePause {
            reason: protocol::ThreadQueuePauseReason::Interrupted,
            message: None,
        };
        assert_eq!(queue.begin_preparing(Some(&pause)), None);
        queue.stop();
        assert_eq!(queue.begin_preparing(None), None);
    }
}
