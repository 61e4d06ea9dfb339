//! Notifications of the server, with their place: thread, turn and cursor.

use std::sync::OnceLock;

use jsonrpc::{DecodeError, Notification as Marker, read_params};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A notification as the server sent it.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its name.
    pub method: String,
    /// Its parameters.
    pub params: Box<RawValue>,
    /// The position after it in its thread: [`crate::Thread::events`] goes on from there. `None` when it is about no
    /// thread.
    pub cursor: Option<String>,
}

impl Notification {
    /// The parameters, if it is this notification.
    ///
    /// ```
    /// use agentd_embed::Notification;
    /// use agentd_embed::protocol::TurnPlanUpdated;
    ///
    /// fn steps(notification: &Notification) -> Option<usize> {
    ///     let plan = notification.read::<TurnPlanUpdated>()?.ok()?;
    ///     Some(plan.plan.len())
    /// }
    /// ```
    pub fn read<N>(&self) -> Option<Result<N::Params, DecodeError>>
    where
        N: Marker<Params: DeserializeOwned>,
    {
        self.is::<N>().then(|| read_params(Some(&self.params)))
    }

    /// Returns whether it is this notification.
    #[must_use]
    pub fn is<N: Marker>(&self) -> bool {
        self.method == N::NAME
    }
}

/// Deltas: the item that they are about has all of their text when it is completed.
const DELTAS: [&str; 6] = [
    "item/agentMessage/delta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
];

/// Events other than deltas that only show progress.
const PROGRESS: [&str; 7] = [
    "item/commandExecution/running",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/reasoning/summaryPartAdded",
    "turn/diff/updated",
    "turn/plan/updated",
];

/// A notification and its place. All readers share one.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) notification: Notification,
    pub(crate) thread_id: Option<String>,
    pub(crate) turn_id: Option<String>,
    /// Bytes that it takes in a queue.
    pub(crate) size: usize,
    /// The number of events that the agent received up to it, to find the newest cursor.
    pub(crate) order: u64,
    delta: OnceLock<Option<Delta>>,
}

/// A part of a text that is written in pieces.
#[derive(Clone, Debug)]
pub(crate) struct Delta {
    pub(crate) stream: DeltaStream,
    pub(crate) text: String,
}

/// The text that a delta continues.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeltaStream {
    #[serde(skip)]
    method: String,
    turn_id: Option<String>,
    pub(crate) item_id: Option<String>,
    content_index: Option<i64>,
    summary_index: Option<i64>,
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
    #[serde(borrow)]
    thread: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

impl Event {
    /// Reads the place of a notification. An error says why it is not the protocol.
    pub(crate) fn read(notification: Notification, order: u64) -> Result<Self, String> {
        let params = notification.params.get();
        let place: Place<'_> = match params.as_bytes().first() {
            Some(b'n') => Place::default(),
            // An array would be read as the members in their order.
            Some(b'{') => serde_json::from_str(params).map_err(|error| error.to_string())?,
            _ => return Err(format!("`params` of `{}` are no object", notification.method)),
        };
        let id_of = |named: Option<&RawValue>| named.and_then(read::<Named>).map(|named| named.id);
        let thread_id = place.thread_id.and_then(read).or_else(|| id_of(place.thread));
        let turn_id = id_of(place.turn).or_else(|| place.turn_id.and_then(read));
        let size = notification.method.len() + params.len();
        Ok(Self { notification, thread_id, turn_id, size, order, delta: OnceLock::new() })
    }

    /// The text that it adds, if it is a delta.
    pub(crate) fn delta(&self) -> Option<&Delta> {
        let read = || {
            let Notification { method, params, .. } = &self.notification;
            if !DELTAS.contains(&method.as_str()) {
                return None;
            }
            #[derive(Deserialize)]
            struct WithDelta {
                delta: String,
            }
            let WithDelta { delta } = read(params)?;
            let stream: DeltaStream = read(params)?;
            let stream = DeltaStream { method: method.clone(), ..stream };
            Some(Delta { stream, text: delta })
        };
        self.delta.get_or_init(read).as_ref()
    }

    /// Returns whether later events have all that it says.
    pub(crate) fn is_progress(&self) -> bool {
        let method = self.notification.method.as_str();
        PROGRESS.contains(&method) || DELTAS.contains(&method)
    }

    /// This delta with the text of those before it, which belong to the same stream.
    pub(crate) fn merged(&self, text: &str, size: usize) -> Self {
        let mut notification = self.notification.clone();
        if let Ok(Value::Object(mut params)) = serde_json::from_str(notification.params.get()) {
            params.insert("delta".to_owned(), text.into());
            if let Ok(params) = to_raw_value(&params) {
                notification.params = params;
            }
        }
        Self {
            notification,
            thread_id: self.thread_id.clone(),
            turn_id: self.turn_id.clone(),
            size,
            order: self.order,
            delta: OnceLock::new(),
        }
    }
}

/// A member of a message, if it has this type.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn event(method: &str, params: &str) -> Result<Event, String> {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        Event::read(Notification { method: method.to_owned(), params, cursor: None }, 0)
    }

    #[test]
    fn the_place_of_a_notification_is_found() {
        for (params, thread, turn) in [
            ("null", None, None),
            ("{}", None, None),
            (r#"{"threadId":5}"#, None, None),
            (r#"{"threadId":"t","turnId":"u"}"#, Some("t"), Some("u")),
            (r#"{"threadId":"t","turn":{"id":"v"}}"#, Some("t"), Some("v")),
            (r#"{"threadId":"t","turn":7}"#, Some("t"), None),
            (r#"{"thread":{"id":"s"}}"#, Some("s"), None),
        ] {
            let event = event("x", params).unwrap();
            let place = (event.thread_id.as_deref(), event.turn_id.as_deref());
            assert_eq!(place, (thread, turn), "{params}");
        }
        assert_eq!(event("x", "[1]").unwrap_err(), "`params` of `x` are no object");
    }

    #[test]
    fn a_merged_delta_has_the_whole_text_and_the_newest_members() {
        let newest = event(
            "item/agentMessage/delta",
            r#"{"threadId":"t","turnId":"u","itemId":"i","delta":"c","more":1}"#,
        )
        .unwrap();
        let merged = newest.merged("abc", 7);
        let expect = r#"{"threadId":"t","turnId":"u","itemId":"i","delta":"abc","more":1}"#;
        assert_eq!((merged.notification.params.get(), merged.size), (expect, 7));
        assert_eq!(merged.delta().unwrap().stream, newest.delta().unwrap().stream);
    }
}
