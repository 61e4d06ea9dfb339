//! The queue of a thread: messages that wait for a turn of their own, and the preparation of the next
//! one. `journal` stores it, and the actor starts the turns.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// The latest messages whose turns have started, oldest first: a client that did not get the response sends
    /// such a message again.
    started: VecDeque<Started>,
    /// True while the next message is prepared.
    is_preparing: bool,
    /// True once turns no longer start, because the server ends.
    is_stopped: bool,
    /// The state that clients were sent.
    shown: Option<(u32, Option<ThreadQueuePause>)>,
}

/// Messages whose turns have started that are remembered.
const MAX_STARTED: usize = 64;

/// A message whose turn has started.
struct Started {
    id: String,
    client_id: String,
    /// Of the input: it may be long, and is only compared.
    hash: u64,
}

impl Started {
    fn new(message: &QueuedSubmission) -> Self {
        let (id, client_id) = (message.id.clone(), message.client_user_message_id.clone());
        Self { id, client_id, hash: hash_of(message) }
    }

    fn is_of(&self, message: &QueuedSubmission) -> bool {
        self.client_id == message.client_user_message_id && self.hash == hash_of(message)
    }
}

fn hash_of(message: &QueuedSubmission) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Without the id, which differs when a message is sent again.
    let message = QueuedSubmission { id: String::new(), ..message.clone() };
    stored_message(&message).payload.hash(&mut hasher);
    hasher.finish()
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

    /// The message that a client sends again, because it may not have got the response: it waits, or its turn has
    /// started.
    pub(super) fn sent_before(&self, message: &QueuedSubmission) -> Option<QueuedSubmission> {
        let is_same = |known: &&QueuedSubmission| {
            known.client_user_message_id == message.client_user_message_id
                && known.input == message.input
        };
        if let Some(known) = self.messages.iter().find(is_same) {
            return Some(known.clone());
        }
        let started = self.started.iter().rev().find(|started| started.is_of(message))?;
        Some(QueuedSubmission { id: started.id.clone(), ..message.clone() })
    }

    /// The turn of a message has started.
    pub(super) fn take(&mut self, id: &str) {
        if let Some(message) = self.find(id) {
            let started = Started::new(message);
            if self.started.len() == MAX_STARTED {
                self.started.pop_front();
            }
            self.started.push_back(started);
        }
        self.remove(id);
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
    fn a_message_that_is_sent_again_is_known_also_after_its_start() {
        let mut queue = ThreadQueue::default();
        let first = message("1", "look");
        let again = |id: &str, text: &str| QueuedSubmission {
            client_user_message_id: "client-1".to_owned(),
            ..message(id, text)
        };
        assert_eq!(queue.sent_before(&first), None);
        queue.add(first.clone());
        assert_eq!(queue.sent_before(&again("2", "look")), Some(first.clone()));
        assert_eq!(queue.sent_before(&again("2", "other")), None);
        queue.take("1");
        assert_eq!(queue.sent_before(&again("2", "look")), Some(first));
        assert_eq!(queue.sent_before(&again("2", "other")), None);
        // One that was deleted may be sent again.
        queue.add(message("3", "x"));
        queue.remove("3");
        assert_eq!(queue.sent_before(&message("4", "x")), None);
        for number in 0..MAX_STARTED {
            let id = format!("n{number}");
            queue.add(message(&id, "x"));
            queue.take(&id);
        }
        assert_eq!(queue.sent_before(&again("2", "look")), None);
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
