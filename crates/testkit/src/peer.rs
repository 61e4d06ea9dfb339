//! A client for tests. It works on lines, so that it can send invalid ones; it checks every message
//! against the contract; and it keeps received messages until a test asks for them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};

use crate::answered;
use crate::recorded::Recorder;
use crate::{Contract, ContractError, Transcript};

/// Longest wait for any operation before the test fails; far more than is needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Smallest id of calls; lower ids are free for lines that a test writes itself.
const FIRST_ID: i64 = 1_000;
/// Most lines of the transcript shown when a test fails.
const SHOWN_LINES: usize = 200;
const SHOWN_CHARS: usize = 400;

/// One connection, from the client's side. Its methods panic, with the transcript, when the server
/// does not behave as expected.
pub struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    next_id: i64,
    /// Methods of the calls without a response, by id.
    calls: HashMap<i64, String>,
    unread: VecDeque<Received>,
    lines: Vec<String>,
    /// Number of them that [`Peer::next`] has returned.
    given: usize,
    transcript: Transcript,
    recorder: Recorder,
    contract: Contract,
    opted_out: Value,
    /// Cursor of the last event of each thread.
    cursors: HashMap<String, String>,
}

/// A request from the server that waits for [`Peer::answer`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedRequest {
    /// Its id on the wire.
    pub id: Value,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// The error response to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorResponse {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// The `data` member, or `null`.
    pub data: Value,
}

enum Received {
    Notification { method: String, params: Value },
    Request(ReceivedRequest),
    Response { id: Value, outcome: Result<Value, ErrorResponse> },
}

impl Peer {
    pub(crate) fn new(stream: DuplexStream, transcript: Transcript) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self {
            reader: BufReader::new(reader),
            writer,
            next_id: FIRST_ID,
            calls: HashMap::new(),
            unread: VecDeque::new(),
            lines: Vec::new(),
            given: 0,
            recorder: Recorder::new(transcript.masks()),
            transcript,
            contract: Contract::new(false),
            opted_out: Value::Null,
            cursors: HashMap::new(),
        }
    }

    /// Performs the handshake with these capabilities (`null`: none).
    pub async fn initialize(&mut self, capabilities: Value) -> Value {
        if capabilities["experimentalApi"] == true {
            self.contract = Contract::new(true);
        }
        self.opted_out = capabilities["optOutNotificationMethods"].clone();
        let mut params =
            json!({ "clientInfo": { "name": "test_client", "title": "Test", "version": "1.2.3" } });
        if !capabilities.is_null() {
            params["capabilities"] = capabilities;
        }
        let opened = self.call("initialize", params).await;
        self.notify("initialized", json!({})).await;
        opened
    }

    /// Calls a method and expects success.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        match self.try_call(method, params).await {
            Ok(result) => result,
            Err(fault) => self.give_up(&format!("{method} was refused: {fault:?}")),
        }
    }

    /// Calls a method and expects an error.
    pub async fn refused(&mut self, method: &str, params: Value) -> ErrorResponse {
        match self.try_call(method, params).await {
            Ok(result) => self.give_up(&format!("{method} was not refused: {result}")),
            Err(fault) => fault,
        }
    }

    /// Calls a method, with any parameters at all, and waits for the response.
    ///
    /// # Errors
    /// The error response.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, ErrorResponse> {
        let id = self.send(method, params).await;
        self.response(id).await
    }

    /// Calls a method without waiting for the response; `null` parameters are left out.
    pub async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.send_with(method, params, Value::Null).await
    }

    /// As [`Self::send`], with this member `trace` unless it is `null`.
    pub async fn send_with(&mut self, method: &str, params: Value, trace: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.calls.insert(id, method.to_owned());
        self.transcript.called(method);
        self.recorder.called(id, method, &params);
        let mut message = json!({ "method": method, "id": id });
        if !params.is_null() {
            message["params"] = params;
        }
        if !trace.is_null() {
            message["trace"] = trace;
        }
        self.send_line(message.to_string().as_bytes()).await;
        id
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        self.recorder.notified(method, &params);
        let message = json!({ "method": method, "params": params });
        self.send_line(message.to_string().as_bytes()).await;
    }

    /// Responds to a request from the server.
    pub async fn answer(&mut self, asked: &ReceivedRequest, result: Value) {
        self.transcript.answered(&result);
        self.recorder.answered(&asked.method, &asked.params, &result);
        let message = json!({ "id": asked.id, "result": result });
        self.send_line(message.to_string().as_bytes()).await;
    }

    /// Responds to an approval with this decision.
    pub async fn decide(&mut self, asked: &ReceivedRequest, decision: impl Into<Value>) {
        self.answer(asked, json!({ "decision": decision.into() })).await;
    }

    /// Sends any line, valid or not.
    pub async fn send_line(&mut self, line: &[u8]) {
        self.send_bytes(line).await;
        self.send_bytes(b"\n").await;
    }

    /// Sends any bytes, even incomplete lines.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        // If the server has closed the connection, the reads will show it.
        let _ = patiently(self.writer.write_all(bytes)).await;
    }

    /// Returns the response to the call with this id.
    ///
    /// # Errors
    /// The error response.
    pub async fn response(&mut self, id: i64) -> Result<Value, ErrorResponse> {
        self.answer_to(&Value::from(id)).await
    }

    /// Returns the response with this id, which is `null` if the server could not read the
    /// request's.
    ///
    /// # Errors
    /// The error response.
    pub async fn answer_to(&mut self, wanted: &Value) -> Result<Value, ErrorResponse> {
        self.take(&format!("the answer to {wanted}"), |received| match received {
            Received::Response { id, outcome } if id == wanted => Some(outcome.clone()),
            _ => None,
        })
        .await
    }

    /// Returns the next notification of this method; others are kept.
    pub async fn expect(&mut self, wanted: &str) -> Value {
        self.expect_where(wanted, |_| true).await
    }

    /// Returns the next notification of this method whose parameters fit; others are kept.
    pub async fn expect_where(&mut self, wanted: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.take(wanted, |received| match received {
            Received::Notification { method, params } if method == wanted && fits(params) => {
                Some(params.clone())
            }
            _ => None,
        })
        .await
    }

    /// Returns the next request of this method from the server.
    pub async fn asked(&mut self, wanted: &str) -> ReceivedRequest {
        self.take(wanted, |received| match received {
            Received::Request(asked) if asked.method == wanted => Some(asked.clone()),
            _ => None,
        })
        .await
    }

    /// The cursor of the last event read of this thread, including events that no test has asked
    /// for.
    #[must_use]
    pub fn cursor(&self, thread: &str) -> Option<&str> {
        self.cursors.get(thread).map(String::as_str)
    }

    /// Returns the methods of notifications and requests that no test has asked for, once the
    /// server has responded to everything sent before.
    pub async fn settled(&mut self) -> Vec<String> {
        let before = self.transcript.lines().len();
        // Success or error, the response comes in order.
        let _ = self.try_call("thread/loaded/list", json!({})).await;
        debug_assert!(self.transcript.lines().len() >= before);
        self.unread
            .iter()
            .filter_map(|received| match received {
                Received::Notification { method, .. } => Some(method.clone()),
                Received::Request(asked) => Some(asked.method.clone()),
                Received::Response { .. } => None,
            })
            .collect()
    }

    /// Discards messages that no test has asked for, and the transcript so far.
    pub fn forget(&mut self) {
        self.unread.clear();
        self.transcript.clear();
    }

    /// Starts a thread, waits for its notification, and returns its id.
    pub async fn start_thread(&mut self, params: Value) -> String {
        let started = self.call("thread/start", params).await;
        let is_sent = |method: &str| {
            !self.opted_out.as_array().is_some_and(|names| names.contains(&method.into()))
        };
        if is_sent("thread/started") {
            self.expect("thread/started").await;
        }
        text(&started["thread"]["id"])
    }

    /// Starts a turn with this text and returns the turn's id.
    pub async fn start_turn(&mut self, thread: &str, input: &str) -> String {
        let started = self.call("turn/start", turn_params(thread, input)).await;
        text(&started["turn"]["id"])
    }

    /// Runs a turn with this text and returns the completed turn.
    pub async fn run_turn(&mut self, thread: &str, input: &str) -> Value {
        self.run_turn_with(turn_params(thread, input)).await
    }

    /// Runs a turn with these parameters and returns the completed turn.
    pub async fn run_turn_with(&mut self, params: Value) -> Value {
        let started = self.call("turn/start", params).await;
        self.turn_end(&text(&started["turn"]["id"])).await
    }

    /// Waits for the end of the turn and returns it.
    pub async fn turn_end(&mut self, turn: &str) -> Value {
        let ended = self.expect_where("turn/completed", |params| params["turn"]["id"] == turn);
        ended.await["turn"].take()
    }

    /// Returns the next completed item of this type.
    pub async fn item(&mut self, kind: &str) -> Value {
        let item = self.expect_where("item/completed", |params| params["item"]["type"] == kind);
        item.await["item"].take()
    }

    /// Waits until the server has closed the connection, after reading what came before.
    pub async fn closed(&mut self) {
        while self.read().await {}
    }

    /// Returns the next message of any kind, whether or not a test has asked for it; `None` at the
    /// end of the connection.
    pub async fn next(&mut self) -> Option<Value> {
        if self.given == self.lines.len() && !self.read().await {
            return None;
        }
        let line = &self.lines[self.given];
        self.given += 1;
        serde_json::from_str(line).ok()
    }

    /// All lines received, unchanged.
    #[must_use]
    pub fn raw_lines(&self) -> &[String] {
        &self.lines
    }

    /// The transcript so far.
    #[must_use]
    pub fn transcript(&self) -> &[String] {
        self.transcript.lines()
    }

    async fn take<T>(&mut self, what: &str, pick: impl Fn(&Received) -> Option<T>) -> T {
        let mut seen = 0;
        loop {
            while let Some(received) = self.unread.get(seen) {
                if let Some(found) = pick(received) {
                    self.unread.remove(seen);
                    return found;
                }
                seen += 1;
            }
            if !self.read().await {
                self.give_up(&format!("the connection ended before {what}"));
            }
        }
    }

    /// Reads one line; `false` at the end of the connection.
    async fn read(&mut self) -> bool {
        let mut line = String::new();
        let read = patiently(self.reader.read_line(&mut line)).await;
        match read {
            None => self.give_up("the server says nothing"),
            // A broken connection may end within a line.
            Some(_) if !line.ends_with('\n') => return false,
            Some(_) => {}
        }
        let received = self.sort(&line);
        self.lines.push(line);
        self.unread.push_back(received);
        true
    }

    fn sort(&mut self, line: &str) -> Received {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else {
            self.give_up(&format!("the server sent {line:?}"))
        };
        let id = message.get("id").cloned();
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            return self.sort_answer(id.unwrap_or_default(), &mut message);
        };
        let params = message["params"].take();
        self.require(&method, self.contract.check_params(&method, &params));
        if let Some(cursor) = message["eventCursor"].as_str() {
            let thread = params.get("threadId").unwrap_or(&params["thread"]["id"]);
            self.cursors.insert(text(thread), cursor.to_owned());
        }
        let Some(id) = id else {
            self.transcript.notification(&method, &params);
            self.recorder.notified(&method, &params);
            return Received::Notification { method, params };
        };
        self.transcript.request(&method, &params);
        Received::Request(ReceivedRequest { id, method, params })
    }

    fn sort_answer(&mut self, id: Value, message: &mut Value) -> Received {
        let called = id.as_i64().and_then(|id| self.calls.remove(&id));
        let method = called.clone().unwrap_or_else(|| id.to_string());
        if let Some(error) = message.get_mut("error") {
            let fault = ErrorResponse {
                code: error["code"].as_i64().unwrap_or_default(),
                message: text(&error["message"]),
                data: error["data"].take(),
            };
            self.transcript.error(&method, fault.code, &fault.message);
            self.recorder.refused(&id, &fault);
            answered::note(&method, true);
            return Received::Response { id, outcome: Err(fault) };
        }
        let result = message["result"].take();
        if let Some(method) = called {
            self.require(&method, self.contract.check_result(&method, &result));
        }
        self.transcript.result(&method);
        self.recorder.returned(&id, &result);
        answered::note(&method, false);
        Received::Response { id, outcome: Ok(result) }
    }

    fn require(&self, method: &str, checked: Result<(), ContractError>) {
        if let Err(error) = checked {
            self.give_up(&format!("{method} breaks the contract: {error}"));
        }
    }

    fn give_up(&self, why: &str) -> ! {
        let lines = self.transcript.lines();
        let last = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
        let shown: Vec<String> =
            last.iter().map(|line| line.chars().take(SHOWN_CHARS).collect()).collect();
        panic!("{why}; so far:\n{}\n", shown.join("\n"))
    }
}

/// Returns parameters of `turn/start` with one text.
fn turn_params(thread: &str, input: &str) -> Value {
    json!({ "threadId": thread, "input": [{ "type": "text", "text": input }] })
}

async fn patiently<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, what).await.ok()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
