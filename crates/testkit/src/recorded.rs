//! Records the messages of tests for the examples of the protocol reference (`cargo xtask examples`):
//! one line of JSON for each message of a shape that its test has not had before, when a variable
//! names the file.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use protocol::generate::shape;
use serde_json::{Map, Value, json};

use crate::ErrorResponse;
use crate::answered::running_test;

/// Names the file.
const VARIABLE: &str = "AGENTD_RECORDED_MESSAGES";
/// Longest line; what is longer is no example.
const MOST_BYTES: usize = 32 << 10;

/// Test, name and shape of what this process has recorded.
static RECORDED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records the messages of one connection.
pub(crate) struct Recorder {
    file: Option<PathBuf>,
    masks: Vec<(String, &'static str)>,
    /// Method and parameters of the calls without a response, by id.
    calls: HashMap<i64, (String, Value)>,
}

impl Recorder {
    /// Creates a recorder that replaces each of `masks` by its name.
    #[allow(clippy::disallowed_methods, reason = "the caller of the tests names the file")]
    pub(crate) fn new(masks: &[(String, &'static str)]) -> Self {
        let file = std::env::var_os(VARIABLE).map(PathBuf::from);
        Self { file, masks: masks.to_vec(), calls: HashMap::new() }
    }

    /// A request of the client; [`Self::returned`] or [`Self::refused`] follows.
    pub(crate) fn called(&mut self, id: i64, method: &str, params: &Value) {
        if self.file.is_some() {
            self.calls.insert(id, (method.to_owned(), params.clone()));
        }
    }

    pub(crate) fn returned(&mut self, id: &Value, result: &Value) {
        self.ended(id, "result", result.clone());
    }

    pub(crate) fn refused(&mut self, id: &Value, fault: &ErrorResponse) {
        let mut error = json!({ "code": fault.code, "message": fault.message });
        if !fault.data.is_null() {
            error["data"] = fault.data.clone();
        }
        self.ended(id, "error", error);
    }

    /// A notification of either side.
    pub(crate) fn notified(&self, method: &str, params: &Value) {
        self.record("notifications", method, json!({ "params": params }));
        if method == "item/completed"
            && let Some(kind) = params["item"]["type"].as_str()
        {
            self.record("items", kind, json!({ "item": params["item"] }));
        }
    }

    /// A request of the server and the client's answer to it.
    pub(crate) fn answered(&self, method: &str, params: &Value, result: &Value) {
        self.record("serverRequests", method, json!({ "params": params, "result": result }));
    }

    fn ended(&mut self, id: &Value, outcome: &str, value: Value) {
        let Some((method, params)) = id.as_i64().and_then(|id| self.calls.remove(&id)) else {
            return;
        };
        self.record("clientRequests", &method, json!({ "params": params, outcome: value }));
    }

    fn record(&self, kind: &str, name: &str, example: Value) {
        let (Some(file), Some(test)) = (&self.file, running_test()) else { return };
        let lines: Vec<String> = shape(&example).into_iter().collect();
        let key = format!("{test} {kind} {name}\n{}", lines.join("\n"));
        let mut recorded = RECORDED.lock().unwrap_or_else(PoisonError::into_inner);
        if !recorded.insert(key) {
            return;
        }
        let mut line = Map::new();
        line.insert("kind".to_owned(), kind.into());
        line.insert("name".to_owned(), name.into());
        line.insert("test".to_owned(), test.into());
        line.insert("example".to_owned(), example);
        let line = Value::Object(line).to_string();
        let mask = |text: String, (from, to): &(String, &'static str)| text.replace(from, to);
        let line = self.masks.iter().fold(line, mask) + "\n";
        if line.len() > MOST_BYTES {
            return;
        }
        let opened = std::fs::File::options().create(true).append(true).open(file);
        let written = opened.and_then(|mut opened| opened.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}
