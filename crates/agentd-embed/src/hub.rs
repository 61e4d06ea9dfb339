//! The events of threads, on their way to the followers of turns.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jsonrpc::Notification as _;
use protocol::TurnCompleted;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::Notification;

/// Events of one turn that may be unread. At the bound its queue ends, and the turn with
/// [`crate::Error::Unread`]: waiting instead would hold up every other turn of the connection.
const UNREAD: usize = 1 << 16;

/// The queues by thread. A queue goes with the turn that reads it.
#[derive(Default)]
pub(crate) struct Hub(Mutex<Queues>);

#[derive(Default)]
struct Queues {
    is_closed: bool,
    of_threads: HashMap<String, Vec<mpsc::Sender<TurnNotification>>>,
    /// Who waits for the end of a turn, by thread.
    ends: HashMap<String, Vec<mpsc::UnboundedSender<String>>>,
}

/// A notification, and the turn that it is about.
pub(crate) struct TurnNotification {
    pub(crate) turn_id: Option<String>,
    pub(crate) notification: Notification,
}

/// The members that say where a notification belongs. Other notifications may have anything in
/// these places.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place<'a> {
    #[serde(borrow)]
    thread_id: Option<&'a RawValue>,
    #[serde(borrow)]
    turn_id: Option<&'a RawValue>,
    #[serde(borrow)]
    turn: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

impl Hub {
    /// The events of a thread from now on. It ends at once on a closed connection.
    pub(crate) fn subscribe(&self, thread_id: &str) -> mpsc::Receiver<TurnNotification> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        let mut queues = self.lock();
        if !queues.is_closed {
            queues.of_threads.entry(thread_id.to_owned()).or_default().push(sender);
        }
        receiver
    }

    /// The ids of the turns of a thread that end from now on, no matter who reads their events. It ends with the
    /// connection.
    pub(crate) fn ends(&self, thread_id: &str) -> mpsc::UnboundedReceiver<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut queues = self.lock();
        if !queues.is_closed {
            queues.ends.entry(thread_id.to_owned()).or_default().push(sender);
        }
        receiver
    }

    /// Hands a notification to the follower of its thread. An error says why it is not the protocol.
    pub(crate) fn deliver(&self, notification: Notification) -> Result<(), String> {
        let params = notification.params.get();
        let place: Place<'_> = match params.as_bytes().first() {
            Some(b'n') => Place::default(),
            // An array would be read as the members in their order.
            Some(b'{') => serde_json::from_str(params).map_err(|error| error.to_string())?,
            _ => return Err(format!("`params` of `{}` are no object", notification.method)),
        };
        let Some(thread_id) = place.thread_id.and_then(read::<String>) else { return Ok(()) };
        let turn = place.turn.and_then(read::<Named>).map(|turn| turn.id);
        let turn_id = turn.or_else(|| place.turn_id.and_then(read));
        let mut queues = self.lock();
        if let Some(ends) = queues.ends.get_mut(&thread_id) {
            let ended = turn_id.as_ref().filter(|_| notification.method == TurnCompleted::NAME);
            ends.retain(|end| match ended {
                Some(turn_id) => end.send(turn_id.clone()).is_ok(),
                None => !end.is_closed(),
            });
            if ends.is_empty() {
                queues.ends.remove(&thread_id);
            }
        }
        let Some(of_thread) = queues.of_threads.get_mut(&thread_id) else { return Ok(()) };
        of_thread.retain(|queue| {
            let notification = notification.clone();
            match queue.try_send(TurnNotification { turn_id: turn_id.clone(), notification }) {
                Ok(()) => true,
                Err(TrySendError::Full(_) | TrySendError::Closed(_)) => false,
            }
        });
        if of_thread.is_empty() {
            queues.of_threads.remove(&thread_id);
        }
        Ok(())
    }

    /// Ends every queue, after its contents.
    pub(crate) fn close(&self) {
        let mut queues = self.lock();
        queues.is_closed = true;
        queues.of_threads.clear();
        queues.ends.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        // Nothing under this lock leaves the table half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(params: &str) -> Notification {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        Notification { method: "x".to_owned(), params }
    }

    #[test]
    fn notifications_reach_who_follows_their_thread() {
        let hub = Hub::default();
        let mut queue = hub.subscribe("t");
        for params in [
            "null",
            "{}",
            r#"{"threadId":5}"#,
            r#"{"threadId":"other"}"#,
            r#"{"threadId":"t","turnId":"u"}"#,
            r#"{"threadId":"t","turn":{"id":"v"}}"#,
            r#"{"threadId":"t","turn":7}"#,
        ] {
            hub.deliver(notification(params)).unwrap();
        }
        hub.close();
        let mut turns = Vec::new();
        while let Ok(event) = queue.try_recv() {
            turns.push(event.turn_id);
        }
        assert_eq!(turns, [Some("u".to_owned()), Some("v".to_owned()), None]);
        let error = hub.deliver(notification("[1]")).unwrap_err();
        assert_eq!(error, "`params` of `x` are no object");
    }

    #[test]
    fn ends_of_turns_are_known_although_nobody_reads_their_events() {
        let hub = Hub::default();
        let mut ends = hub.ends("t");
        drop(hub.ends("other"));
        for (method, params) in [
            ("turn/started", r#"{"threadId":"t","turn":{"id":"u"}}"#),
            ("turn/completed", r#"{"threadId":"t","turn":{"id":"u"}}"#),
            ("turn/completed", r#"{"threadId":"other","turn":{"id":"v"}}"#),
        ] {
            hub.deliver(Notification { method: method.to_owned(), ..notification(params) })
                .unwrap();
        }
        assert_eq!(hub.lock().ends.len(), 1, "who no longer waits is forgotten");
        hub.close();
        assert_eq!(ends.blocking_recv().as_deref(), Some("u"));
        assert_eq!(ends.blocking_recv(), None);
        assert_eq!(hub.ends("t").blocking_recv(), None);
    }

    #[test]
    fn a_queue_that_is_not_read_ends_at_its_bound() {
        let hub = Hub::default();
        let mut queue = hub.subscribe("t");
        for _ in 0..=UNREAD {
            hub.deliver(notification(r#"{"threadId":"t"}"#)).unwrap();
        }
        let mut read = 0;
        while queue.blocking_recv().is_some() {
            read += 1;
        }
        assert_eq!(read, UNREAD);
        let dropped = hub.subscribe("t");
        drop(dropped);
        hub.deliver(notification(r#"{"threadId":"t"}"#)).unwrap();
        assert!(hub.lock().of_threads.is_empty());
    }
}
