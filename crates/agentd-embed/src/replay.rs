//! Playing a recorded session (`recording.rs`) without a server: what the server said, as long as it is sent what the
//! server was sent.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonrpc::{CloseReason, Connection, Limits};
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use crate::error::Mismatch;
use crate::recording::Redactor;
use crate::{Error, connection_limits};

/// A recording that is played.
pub(crate) struct Replay {
    /// As messages name it.
    path: String,
    redactor: Redactor,
    is_lasting: bool,
    /// The connections that were not opened yet.
    connections: Mutex<VecDeque<Script>>,
    failure: OnceLock<Error>,
}

/// The messages of one connection, in their order.
type Script = VecDeque<Entry>;

#[derive(Debug, PartialEq)]
struct Entry {
    /// Its number in the file, from 1.
    line: usize,
    kind: Kind,
    message: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sent,
    Received,
}

impl Replay {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: the file cannot be read, or is no recording, with the line.
    pub(crate) async fn read(path: PathBuf, redactor: Redactor) -> Result<Arc<Self>, Error> {
        let name = path.display().to_string();
        let unusable = |why: &dyn std::fmt::Display| {
            Error::InvalidArgument(format!("the recording {name} cannot be read: {why}"))
        };
        let read = spawn_blocking(move || std::fs::read_to_string(path)).await;
        let text = read.map_err(|error| unusable(&error))?.map_err(|error| unusable(&error))?;
        let (is_lasting, connections) = parse(&text)
            .map_err(|(line, why)| Error::InvalidArgument(format!("{name}:{line}: {why}")))?;
        let (connections, failure) = (Mutex::new(connections), OnceLock::new());
        Ok(Arc::new(Self { path: name, redactor, is_lasting, connections, failure }))
    }

    /// Returns whether the recorded session came back after losses of its connection.
    pub(crate) fn is_lasting(&self) -> bool {
        self.is_lasting
    }

    /// The first difference.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    /// Opens the next connection. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::ReplayMismatch`]: the recording has no further one.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Connection, Error> {
        let (entries, is_last) = {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            (connections.pop_front(), connections.is_empty())
        };
        let Some(entries) = entries else {
            let place = format!("{} has no further connection", self.path);
            let mismatch = Mismatch { place, expected: None, actual: None, differs_at: None };
            return Err(self.fail(Box::new(mismatch)));
        };
        // Both ends are in this process, and either may wait for the other.
        let limits = Limits { keep_text: true, stall: None, ..connection_limits() };
        let (ours, theirs) = Connection::pair(limits);
        tokio::spawn(self.clone().play(entries, theirs, is_last));
        Ok(ours)
    }

    async fn play(self: Arc<Self>, mut entries: Script, mut connection: Connection, is_last: bool) {
        loop {
            // What the server said after a message waits until that is sent again.
            while let Some(entry) = entries.pop_front_if(|entry| entry.kind == Kind::Received) {
                connection.outbox.room().await;
                if connection.outbox.push(bytes_of(&entry.message)).is_err() {
                    return;
                }
            }
            if entries.is_empty() && !is_last {
                // The recorded connection was lost here.
                connection.outbox.close(CloseReason::Finished);
                return connection.outbox.ended().await;
            }
            let Some(line) = connection.incoming.recv_line().await else { return };
            // Only messages have a text, and this crate writes nothing else.
            let sent = serde_json::from_slice(&line.text).unwrap_or(Value::Null);
            if let Err(mismatch) = self.compare(entries.pop_front(), sent) {
                self.fail(mismatch);
                return connection.outbox.close(CloseReason::Aborted);
            }
        }
    }

    fn compare(&self, expected: Option<Entry>, sent: Value) -> Result<(), Box<Mismatch>> {
        let actual = self.redactor.redact(sent);
        let Some(Entry { line, message, .. }) = expected else {
            let place = format!("the end of {}", self.path);
            let actual = Some(actual);
            return Err(Box::new(Mismatch { place, expected: None, actual, differs_at: None }));
        };
        match difference(&comparable(&message), &comparable(&actual)) {
            None => Ok(()),
            differs_at => Err(Box::new(Mismatch {
                place: format!("{}:{line}", self.path),
                expected: Some(message),
                actual: Some(actual),
                differs_at,
            })),
        }
    }

    /// The first failure counts.
    fn fail(&self, mismatch: Box<Mismatch>) -> Error {
        self.failure.get_or_init(|| Error::ReplayMismatch(mismatch)).clone()
    }
}

fn bytes_of(message: &Value) -> bytes::Bytes {
    message.to_string().into()
}

/// The connections of a recording, and whether its session came back; or the line that is none of one, and why.
fn parse(text: &str) -> Result<(bool, VecDeque<Script>), (usize, String)> {
    let mut is_lasting = false;
    let mut connections: VecDeque<Script> = VecDeque::new();
    for (line, content) in (1..).zip(text.lines()) {
        if content.trim().is_empty() {
            continue;
        }
        let no_recording = |_| (line, "this is not a recording of a session".to_owned());
        let entry: Map<String, Value> = serde_json::from_str(content).map_err(no_recording)?;
        let last = entry.get("isLasting") == Some(&Value::Bool(true));
        let (kind, message) = entry.into_iter().next().unwrap_or_default();
        let kind = match (&*kind, connections.back()) {
            ("recording", _) => {
                is_lasting = last;
                continue;
            }
            ("connection", _) => {
                connections.push_back(VecDeque::new());
                continue;
            }
            ("sent", Some(_)) => Kind::Sent,
            ("received", Some(_)) => Kind::Received,
            _ => {
                return Err((
                    line,
                    format!("`{kind}` is not an entry of a recording at this place"),
                ));
            }
        };
        if let Some(connection) = connections.back_mut() {
            connection.push_back(Entry { line, kind, message });
        }
    }
    if connections.is_empty() {
        return Err((1, "this is not a recording of a session: it has no connection".to_owned()));
    }
    Ok((is_lasting, connections))
}

/// A message without the version of this crate, which may be newer than the recording.
fn comparable(message: &Value) -> Value {
    let mut message = message.clone();
    if message["method"] == "initialize"
        && let Some(version) = message.pointer_mut("/params/clientInfo/version")
    {
        *version = Value::Null;
    }
    message
}

/// A JSON pointer to the first difference, if there is one. The order of members makes none.
fn difference(expected: &Value, actual: &Value) -> Option<String> {
    if expected == actual {
        return None;
    }
    let within = |name: &str, inner: Option<String>| {
        let name = name.replace('~', "~0").replace('/', "~1");
        inner.map(|inner| format!("/{name}{inner}"))
    };
    let inner = match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            let names = expected.keys().chain(actual.keys());
            names.into_iter().find_map(|name| match (expected.get(name), actual.get(name)) {
                (Some(one), Some(other)) => within(name, difference(one, other)),
                _ => within(name, Some(String::new())),
            })
        }
        (Value::Array(expected), Value::Array(actual)) => {
            let mut pairs = expected.iter().zip(actual).enumerate();
            let found =
                pairs.find_map(|(n, (one, other))| within(&n.to_string(), difference(one, other)));
            let end = expected.len().min(actual.len()).to_string();
            found.or_else(|| within(&end, Some(String::new())))
        }
        _ => None,
    };
    Some(inner.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_recording_is_named() {
        let good = "{\"recording\":1,\"isLasting\":true}\n{\"connection\":0}\n\n{\"sent\":{\"id\":0}}\n\
                    {\"received\":{}}\n{\"connection\":1}\n";
        let (is_lasting, connections) = parse(good).unwrap();
        assert!(is_lasting);
        let sent = Entry { line: 4, kind: Kind::Sent, message: json!({ "id": 0 }) };
        assert_eq!((&connections[0][0], connections[0].len(), connections[1].len()), (&sent, 2, 0));
        for (text, line) in [
            ("", 1),
            ("{\"recording\":1}\n", 1),
            ("no JSON\n", 1),
            ("{\"sent\":{}}\n", 1),
            ("[1]\n", 1),
            ("{}\n", 1),
            ("{\"connection\":0}\n{\"other\":1}", 2),
            ("{\"connection\":0}\n{\"sent\":", 2),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
    }

    #[test]
    fn the_first_difference_has_a_path() {
        for (expected, actual, at) in [
            (json!({ "a": 1, "b": 2 }), json!({ "b": 2, "a": 1 }), None),
            (
                json!({ "a": { "b/c": [1, 2] } }),
                json!({ "a": { "b/c": [1, 3] } }),
                Some("/a/b~1c/1"),
            ),
            (json!({ "a": [1] }), json!({ "a": [1, 2] }), Some("/a/1")),
            (json!({ "a": 1 }), json!({}), Some("/a")),
            (json!({}), json!({ "a": null }), Some("/a")),
            (json!({ "a": 1 }), json!([1]), Some("")),
            (json!({ "a": "x" }), json!({ "a": 1 }), Some("/a")),
        ] {
            assert_eq!(difference(&expected, &actual).as_deref(), at, "{expected} {actual}");
        }
        let hello = |version: &str, name: &str| {
            comparable(
                &json!({ "method": "initialize", "params": { "clientInfo": { "name": name, "version": version } } }),
            )
        };
        assert_eq!(hello("1", "a"), hello("2", "a"));
        assert_ne!(hello("1", "a"), hello("1", "b"));
    }
}
