//! The queue of the thread on the server, as it was listed last. It outlasts this program, and other clients may
//! change it.

use std::collections::BTreeMap;

use protocol::{QueuedSubmission, ThreadQueuePause, ThreadQueuePauseReason};

use crate::composer::Draft;
use crate::picker::Row;

/// The queue of a thread, in the order of its turns.
#[derive(Debug, Default)]
pub(crate) struct ServerQueue {
    messages: Vec<QueuedSubmission>,
    pause: Option<ThreadQueuePause>,
    /// The messages on their way to the server, by the numbers of their calls.
    adding: BTreeMap<u64, Draft>,
    /// The messages that were written here, with their pasted parts, by the ids that they were given here.
    drafts: BTreeMap<String, Draft>,
    /// True while a list is on its way.
    is_listing: bool,
    /// True if the queue has changed since the list was asked for.
    is_outdated: bool,
    /// Where the message goes that is in the composer to be edited.
    edited: Option<Place>,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In front of the message with this id.
    Before(String),
    End,
}

/// A change of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    First,
    Up,
    Down,
}

impl ServerQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The number of messages, of which some may be on their way.
    pub(crate) fn len(&self) -> usize {
        self.messages.len() + self.adding.len()
    }

    /// Returns whether a message starts by itself as soon as no turn runs.
    pub(crate) fn goes_on(&self) -> bool {
        !(self.messages.is_empty() && self.adding.is_empty()) && self.pause.is_none()
    }

    /// Why messages wait although no turn runs.
    pub(crate) fn pause(&self) -> Option<&ThreadQueuePause> {
        self.pause.as_ref().filter(|_| !self.messages.is_empty())
    }

    /// Sets the pause, and drops the messages where none are left.
    pub(crate) fn set_state(&mut self, length: u32, pause: Option<ThreadQueuePause>) {
        self.pause = pause;
        if length == 0 {
            self.set_messages(Vec::new());
        }
    }

    pub(crate) fn set_messages(&mut self, messages: Vec<QueuedSubmission>) {
        self.messages = messages;
        let is_queued = |id: &str| self.messages.iter().any(|it| it.client_user_message_id == id);
        self.drafts.retain(|id, _| is_queued(id));
    }

    /// A message is sent to the server.
    pub(crate) fn adds(&mut self, call: u64, draft: Draft) {
        self.adding.insert(call, draft);
    }

    /// The call that sent a message is answered.
    pub(crate) fn answered(&mut self, call: u64) -> Option<Draft> {
        self.adding.remove(&call)
    }

    /// The connection is lost: no call gets an answer.
    pub(crate) fn drop_calls(&mut self) {
        self.adding.clear();
        self.is_listing = false;
    }

    /// The messages on their way to the server.
    pub(crate) fn adding(&self) -> impl Iterator<Item = &Draft> {
        self.adding.values()
    }

    /// The server has this message.
    pub(crate) fn added(&mut self, message: QueuedSubmission, draft: Draft) {
        self.drafts.insert(message.client_user_message_id.clone(), draft);
        if self.find(&message.id).is_none() {
            self.messages.push(message);
        }
    }

    pub(crate) fn removed(&mut self, id: &str) {
        self.messages.retain(|message| message.id != id);
    }

    pub(crate) fn find(&self, id: &str) -> Option<&QueuedSubmission> {
        self.messages.iter().find(|message| message.id == id)
    }

    pub(crate) fn last(&self) -> Option<&QueuedSubmission> {
        self.messages.last()
    }

    /// Begins a list. Returns false while one is on its way: it is asked for again then.
    pub(crate) fn begins_listing(&mut self) -> bool {
        self.is_outdated = self.is_listing;
        !std::mem::replace(&mut self.is_listing, true)
    }

    pub(crate) fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// A list has come. Returns whether the queue has changed since it was asked for.
    pub(crate) fn ends_listing(&mut self) -> bool {
        self.is_listing = false;
        std::mem::take(&mut self.is_outdated)
    }

    /// The message as it was written; `None` if it has parts that cannot be edited here.
    pub(crate) fn draft(&self, message: &QueuedSubmission) -> Option<Draft> {
        let own = self.drafts.get(&message.client_user_message_id);
        match own.filter(|draft| draft.inputs() == message.input) {
            Some(draft) => Some(draft.clone()),
            None => Draft::received(&message.input),
        }
    }

    /// The text of each message as it is shown.
    pub(crate) fn shown(&self) -> impl Iterator<Item = String> {
        let adding = self.adding.values().map(Draft::shown);
        self.messages.iter().map(|message| self.text(message)).chain(adding)
    }

    fn text(&self, message: &QueuedSubmission) -> String {
        match self.draft(message) {
            Some(draft) => draft.shown(),
            None => format!("{} [image]", Draft::text_of(&message.input)),
        }
    }

    /// As rows of a list, by the ids of the messages.
    pub(crate) fn rows(&self) -> Vec<Row> {
        self.messages.iter().map(|it| Row::of_message(it.id.clone(), &self.text(it))).collect()
    }

    /// The place of a message, for one that takes it later.
    pub(crate) fn place(&self, id: &str) -> Place {
        let at = self.messages.iter().position(|message| message.id == id);
        let next = at.and_then(|at| self.messages.get(at + 1));
        next.map_or(Place::End, |next| Place::Before(next.id.clone()))
    }

    /// The message that was taken from this place is in the composer.
    pub(crate) fn set_edited(&mut self, place: Place) {
        self.edited = Some(place);
    }

    /// The place of the message that was in the composer; the end for a new one.
    pub(crate) fn take_edited(&mut self) -> Place {
        self.edited.take().unwrap_or(Place::End)
    }

    /// The order of all messages with one of them at another place; `None` if that is the present order.
    pub(crate) fn placed(&self, id: &str, place: &Place) -> Option<Vec<String>> {
        let Place::Before(next) = place else { return None };
        let mut order = self.order();
        let moved = order.remove(order.iter().position(|it| it == id)?);
        order.insert(order.iter().position(|it| it == next)?, moved);
        Some(order).filter(|order| *order != self.order())
    }

    /// The order of all messages after a move; `None` if that is the present order.
    pub(crate) fn moved(&self, id: &str, to: Move) -> Option<Vec<String>> {
        let mut order = self.order();
        let at = order.iter().position(|it| it == id)?;
        let to = match to {
            Move::First => 0,
            Move::Up => at.checked_sub(1)?,
            Move::Down => at + 1,
        };
        if to == at || to >= order.len() {
            return None;
        }
        let moved = order.remove(at);
        order.insert(to, moved);
        Some(order)
    }

    fn order(&self) -> Vec<String> {
        self.messages.iter().map(|message| message.id.clone()).collect()
    }

    /// Shows the messages in this order, which the server was asked for.
    pub(crate) fn set_order(&mut self, order: &[String]) {
        self.messages.sort_by_key(|message| order.iter().position(|id| *id == message.id));
    }
}

/// Why a queue waits, as a sentence's end.
pub(crate) fn reason(pause: &ThreadQueuePause) -> String {
    match (pause.reason, &pause.message) {
        (ThreadQueuePauseReason::Interrupted, _) => "the turn was interrupted".to_owned(),
        (ThreadQueuePauseReason::Failed, _) => "the turn failed".to_owned(),
        (ThreadQueuePauseReason::Archived, _) => "the thread was archived".to_owned(),
        (ThreadQueuePauseReason::NotStarted, None) => "its message could not start".to_owned(),
        (ThreadQueuePauseReason::NotStarted, Some(why)) => {
            format!("its message could not start: {why}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(ids: &[&str]) -> ServerQueue {
        let message = |id: &&str| QueuedSubmission {
            id: (*id).to_owned(),
            input: vec![(*id).into()],
            client_user_message_id: format!("client-{id}"),
        };
        let mut queue = ServerQueue::default();
        queue.set_messages(ids.iter().map(message).collect());
        queue
    }

    #[test]
    fn a_message_moves_within_the_queue() {
        let queue = queue(&["a", "b", "c"]);
        for (id, to, expect) in [
            ("c", Move::First, Some("c a b")),
            ("a", Move::First, None),
            ("b", Move::Up, Some("b a c")),
            ("a", Move::Up, None),
            ("b", Move::Down, Some("a c b")),
            ("c", Move::Down, None),
            ("x", Move::First, None),
        ] {
            let order = queue.moved(id, to).map(|order| order.join(" "));
            assert_eq!(order.as_deref(), expect, "{id} {to:?}");
        }
    }

    #[test]
    fn an_edited_message_goes_back_to_its_place() {
        let mut queue = queue(&["a", "b", "c"]);
        let (first, last) = (queue.place("a"), queue.place("c"));
        assert_eq!((&first, &last), (&Place::Before("b".to_owned()), &Place::End));
        queue.set_edited(first);
        let place = queue.take_edited();
        assert_eq!(queue.placed("c", &place).unwrap(), ["a", "c", "b"]);
        // One in front of which it stands already, and one that has started meanwhile.
        assert_eq!(queue.placed("a", &place), None);
        queue.removed("b");
        assert_eq!(queue.placed("c", &place), None);
        assert_eq!(queue.take_edited(), Place::End);
    }

    #[test]
    fn a_list_that_is_late_is_asked_for_again() {
        let mut queue = queue(&[]);
        assert!(queue.begins_listing() && !queue.ends_listing());
        assert!(queue.begins_listing() && !queue.begins_listing());
        assert!(queue.ends_listing() && !queue.is_listing());
    }
}
