//! Recording a session with a server, to play it again without one: `replay.rs`.
//!
//! A recording is a file with one JSON object a line, as those of the other SDKs: `{"recording": 1, "isLasting": …}`,
//! then `{"connection": n}` for each connection, and `{"sent": message}` and `{"received": message}` in their order.
//! Neither the token nor the environment of the agent is in it: values of members such as `env` and `apiKey`, and texts
//! that are the token or a secret of the environment, are `***`.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jsonrpc::{Message, Observer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;

use crate::Error;

const HIDDEN: &str = "***";
/// Shorter values of the environment are no secrets, and may be part of any text.
const SHORTEST_SECRET: usize = 8;

/// Replaces secrets in messages.
pub(crate) struct Redactor {
    /// The longest first: a shorter one may be a part of it.
    secrets: Vec<String>,
}

impl Redactor {
    pub(crate) fn new(token: Option<&str>, variables: &[(OsString, OsString)]) -> Self {
        let variables = variables.iter().map(|(name, value)| {
            (name.to_string_lossy().to_lowercase(), value.to_string_lossy().into_owned())
        });
        let names = ["token", "secret", "passw", "key", "credential"];
        let is_secret = |(name, value): &(String, String)| {
            names.iter().any(|part| name.contains(part)) && value.chars().count() >= SHORTEST_SECRET
        };
        let of_environment = variables.filter(is_secret).map(|(_, value)| value);
        let token = token.filter(|token| !token.is_empty()).map(str::to_owned);
        let mut secrets: Vec<String> = of_environment.chain(token).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    pub(crate) fn redact(&self, message: Value) -> Value {
        match message {
            Value::String(text) => {
                let hide = |text: String, secret: &String| text.replace(secret, HIDDEN);
                Value::String(self.secrets.iter().fold(text, hide))
            }
            Value::Array(values) => values.into_iter().map(|value| self.redact(value)).collect(),
            Value::Object(members) => {
                let members = members.into_iter().map(|(name, value)| {
                    let value = self.member(&name, value);
                    (name, value)
                });
                Value::Object(members.collect())
            }
            value => value,
        }
    }

    fn member(&self, name: &str, value: Value) -> Value {
        match value {
            Value::Object(members) if holds_secrets(name) => {
                let hidden = members.into_iter().map(|(name, _)| (name, HIDDEN.into()));
                Value::Object(hidden.collect::<Map<_, _>>())
            }
            Value::String(_) | Value::Array(_) if holds_secrets(name) => HIDDEN.into(),
            value => self.redact(value),
        }
    }
}

/// Returns whether a member of this name is a secret, or may hold some.
fn holds_secrets(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_whole = ["env", "environment", "headers"].contains(&name.as_str());
    let ends = ["token", "secret", "password", "apikey", "api_key"];
    // They are so called but count tokens.
    let counts = ["max", "total", "input", "output"].iter().any(|start| name.starts_with(start));
    (is_whole || ends.iter().any(|end| name.ends_with(end))) && !counts
}

/// Writes what goes over the connections of an agent to a file.
pub(crate) struct Recorder {
    path: PathBuf,
    redactor: Redactor,
    tape: Mutex<Tape>,
    failure: OnceLock<Error>,
}

struct Tape {
    file: File,
    connections: u64,
}

impl Recorder {
    /// Begins a file, in place of one that is there.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`]: it cannot be written.
    pub(crate) async fn create(
        path: PathBuf,
        redactor: Redactor,
        is_lasting: bool,
    ) -> Result<Arc<Self>, Error> {
        let unusable = |path: &Path, why: &dyn std::fmt::Display| {
            Error::InvalidArgument(format!(
                "the recording {} cannot be written: {why}",
                path.display()
            ))
        };
        let created = spawn_blocking(move || match File::create(&path) {
            Ok(file) => Ok((path, file)),
            Err(error) => Err(unusable(&path, &error)),
        });
        let (path, file) = created.await.map_err(|error| {
            Error::InvalidArgument(format!("the recording cannot be written: {error}"))
        })??;
        let tape = Mutex::new(Tape { file, connections: 0 });
        let recorder = Self { path, redactor, tape, failure: OnceLock::new() };
        recorder.note(|_| json!({ "recording": 1, "isLasting": is_lasting }));
        recorder.failure().map_or(Ok(Arc::new(recorder)), Err)
    }

    /// A new connection begins.
    pub(crate) fn connected(&self) {
        self.note(|tape| {
            let number = tape.connections;
            tape.connections += 1;
            json!({ "connection": number })
        });
    }

    /// Why the recording is not whole.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.get().cloned()
    }

    fn note(&self, entry: impl FnOnce(&mut Tape) -> Value) {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        // Later entries would follow a gap.
        if self.failure.get().is_some() {
            return;
        }
        let line = format!("{}\n", entry(&mut tape));
        if let Err(error) = tape.file.write_all(line.as_bytes()) {
            let why = format!("the recording {} ends here: {error}", self.path.display());
            tracing::error!("{why}");
            let _ = self.failure.set(Error::NotRecorded(why));
        }
    }
}

impl Observer for Recorder {
    fn sent(&self, message: &[u8]) {
        // What this crate writes is JSON.
        if let Ok(message) = serde_json::from_slice(message) {
            self.note(|_| json!({ "sent": self.redactor.redact(message) }));
        }
    }

    fn received(&self, message: &Message) {
        let message = self.redactor.redact(written(message));
        self.note(|_| json!({ "received": message }));
    }
}

/// A message as it is on the wire.
fn written(message: &Message) -> Value {
    let value = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    let mut written = Map::new();
    let mut add = |name: &str, value: Value| written.insert(name.to_owned(), value);
    match message {
        Message::Request { id, method, params, .. } => {
            add("id", json!(id));
            add("method", method.as_str().into());
            if let Some(params) = params {
                add("params", value(params));
            }
        }
        Message::Notification { method, params, cursor } => {
            add("method", method.as_str().into());
            if let Some(params) = params {
                add("params", value(params));
            }
            if let Some(cursor) = cursor {
                add("eventCursor", cursor.as_str().into());
            }
        }
        Message::Response { id, outcome } => {
            add("id", json!(id));
            match outcome {
                Ok(result) => add("result", value(result)),
                Err(error) => add("error", json!(error)),
            };
        }
    }
    Value::Object(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced() {
        let variables = [
            ("MY_API_KEY", "very-secret-value"),
            ("PASSWORD_FILE", "very-secret"),
            ("SHORT_TOKEN", "short"),
            ("HOME", "/home/user"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        let redactor = Redactor::new(Some("t0"), &variables);
        let message = json!({
            "text": "short t0 of very-secret-value, very-secret in /home/user",
            "env": { "A": "b", "C": null }, "Headers": ["x"], "accessToken": "x", "api_key": "x", "apiKey": "x",
            "password": 5, "environment": null, "secret": { "deep": { "a": 1 } },
            "maxOutputToken": "kept", "totalToken": ["kept"], "tokens": "kept", "list": [{ "clientSecret": "x" }],
        });
        let expected = json!({
            "text": "short *** of ***, *** in /home/user",
            "env": { "A": "***", "C": "***" }, "Headers": "***", "accessToken": "***", "api_key": "***", "apiKey": "***",
            "password": 5, "environment": null, "secret": { "deep": "***" },
            "maxOutputToken": "kept", "totalToken": ["kept"], "tokens": "kept", "list": [{ "clientSecret": "***" }],
        });
        assert_eq!(redactor.redact(message), expected);
        let nothing = Redactor::new(Some(""), &[]);
        assert_eq!(nothing.redact("text".into()), "text");
    }

    #[test]
    fn messages_are_written_as_they_were() {
        for text in [
            r#"{"id":1,"method":"m","params":{"a":[1,null]}}"#,
            r#"{"id":"x","method":"m"}"#,
            r#"{"method":"m","params":{},"eventCursor":"e.1"}"#,
            r#"{"id":1,"result":null}"#,
            r#"{"id":1,"error":{"code":-32001,"message":"later","data":{"a":1}}}"#,
        ] {
            let message = jsonrpc::decode(text.as_bytes()).unwrap();
            assert_eq!(written(&message), serde_json::from_str::<Value>(text).unwrap());
        }
    }
}
