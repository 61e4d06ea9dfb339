//! A client for tests: it speaks lines, so that it can say what is wrong on purpose; it holds every
//! message to the contract; and it keeps what it has read until somebody asks for it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};

use crate::{Contract, ContractError, Transcript};

/// How long anything may take before a test is given up: not a wait that is needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ids of calls begin here; below is room for lines that a test writes by itself.
const FIRST_ID: i64 = 1_000;
/// What of a transcript is shown when a test fails.
const SHOWN_LINES: usize = 200;
const SHOWN_CHARS: usize = 400;

/// One connection, seen from the client. Its methods panic, with the transcript, on whatever a
/// well-behaved server does not do.
pub struct Peer {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    next_id: i64,
    /// Methods of the calls without an answer.
    calls: HashMap<i64, String>,
    unread: VecDeque<Received>,
    lines: Vec<String>,
    /// How many of them [`Peer::next`] has given.
    given: usize,
    transcript: Transcript,
    contract: Contract,
    opted_out: Value,
    /// The place of the last event of each thread.
    cursors: HashMap<String, String>,
}

/// A request of the server that waits for [`Peer::answer`].
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its id on the wire.
    pub id: Value,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// An error that a call was answered with.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The code.
    pub code: i64,
    /// The message.
    pub message: String,
    /// What comes with it, or `null`.
    pub data: Value,
}

enum Received {
    Notification { method: String, params: Value },
    Request(Asked),
    Response { id: Value, outcome: Result<Value, Fault> },
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
            transcript,
            contract: Contract::new(false),
            opted_out: Value::Null,
            cursors: HashMap::new(),
        }
    }

    /// The handshake, with these capabilities (`null`: none).
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

    /// Calls a method that must succeed.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        match self.try_call(method, params).await {
            Ok(result) => result,
            Err(fault) => self.give_up(&format!("{method} was refused: {fault:?}")),
        }
    }

    /// Calls a method that must be refused.
    pub async fn refused(&mut self, method: &str, params: Value) -> Fault {
        match self.try_call(method, params).await {
            Ok(result) => self.give_up(&format!("{method} was not refused: {result}")),
            Err(fault) => fault,
        }
    }

    /// Calls a method, with any parameters at all, and waits for the answer.
    ///
    /// # Errors
    /// The error of the answer.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Fault> {
        let id = self.send(method, params).await;
        self.response(id).await
    }

    /// Calls a method without waiting for the answer; `null` parameters are left out.
    pub async fn send(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.calls.insert(id, method.to_owned());
        self.transcript.called(method);
        let mut message = json!({ "method": method, "id": id });
        if !params.is_null() {
            message["params"] = params;
        }
        self.say(message.to_string().as_bytes()).await;
        id
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "method": method, "params": params });
        self.say(message.to_string().as_bytes()).await;
    }

    /// Answers a request of the server.
    pub async fn answer(&mut self, asked: &Asked, result: Value) {
        self.transcript.answered(&result);
        let message = json!({ "id": asked.id, "result": result });
        self.say(message.to_string().as_bytes()).await;
    }

    /// Answers an approval with this decision.
    pub async fn decide(&mut self, asked: &Asked, decision: impl Into<Value>) {
        self.answer(asked, json!({ "decision": decision.into() })).await;
    }

    /// Sends a line, whatever it is.
    pub async fn say(&mut self, line: &[u8]) {
        self.say_bytes(line).await;
        self.say_bytes(b"\n").await;
    }

    /// Sends bytes, not even whole lines.
    pub async fn say_bytes(&mut self, bytes: &[u8]) {
        // A server that has cut the connection shows in what is read.
        let _ = patiently(self.writer.write_all(bytes)).await;
    }

    /// The answer to the call with this id.
    ///
    /// # Errors
    /// The error of the answer.
    pub async fn response(&mut self, id: i64) -> Result<Value, Fault> {
        self.answer_to(&Value::from(id)).await
    }

    /// The answer with this id, which is `null` where the server could not read one.
    ///
    /// # Errors
    /// The error of the answer.
    pub async fn answer_to(&mut self, wanted: &Value) -> Result<Value, Fault> {
        self.take(&format!("the answer to {wanted}"), |received| match received {
            Received::Response { id, outcome } if id == wanted => Some(outcome.clone()),
            _ => None,
        })
        .await
    }

    /// The next notification of this method; others are kept.
    pub async fn expect(&mut self, wanted: &str) -> Value {
        self.expect_where(wanted, |_| true).await
    }

    /// The next notification of this method with such parameters; others are kept.
    pub async fn expect_where(&mut self, wanted: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.take(wanted, |received| match received {
            Received::Notification { method, params } if method == wanted && fits(params) => {
                Some(params.clone())
            }
            _ => None,
        })
        .await
    }

    /// The next request of the server of this method.
    pub async fn asked(&mut self, wanted: &str) -> Asked {
        self.take(wanted, |received| match received {
            Received::Request(asked) if asked.method == wanted => Some(asked.clone()),
            _ => None,
        })
        .await
    }

    /// The place of the last event that was read of this thread, also those that nobody has asked
    /// for.
    #[must_use]
    pub fn cursor(&self, thread: &str) -> Option<&str> {
        self.cursors.get(thread).map(String::as_str)
    }

    /// The methods of the notifications and requests that came and were not asked for, once the
    /// server has answered everything that was said before.
    pub async fn settled(&mut self) -> Vec<String> {
        let before = self.transcript.lines().len();
        // Refused or not, it is answered in its turn.
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

    /// Forgets what was read and not asked for, and the transcript so far.
    pub fn forget(&mut self) {
        self.unread.clear();
        self.transcript.clear();
    }

    /// Starts a thread, hears of it, and gives its id.
    pub async fn start_thread(&mut self, params: Value) -> String {
        let started = self.call("thread/start", params).await;
        let is_told = |method: &str| {
            !self.opted_out.as_array().is_some_and(|names| names.contains(&method.into()))
        };
        if is_told("thread/started") {
            self.expect("thread/started").await;
        }
        text(&started["thread"]["id"])
    }

    /// Starts a turn with this text and gives the turn's id.
    pub async fn start_turn(&mut self, thread: &str, input: &str) -> String {
        let started = self.call("turn/start", turn_params(thread, input)).await;
        text(&started["turn"]["id"])
    }

    /// Runs a turn with this text and gives the turn as it ended.
    pub async fn run_turn(&mut self, thread: &str, input: &str) -> Value {
        self.run_turn_with(turn_params(thread, input)).await
    }

    /// Runs a turn with these parameters and gives the turn as it ended.
    pub async fn run_turn_with(&mut self, params: Value) -> Value {
        let started = self.call("turn/start", params).await;
        self.turn_end(&text(&started["turn"]["id"])).await
    }

    /// The turn as it ended.
    pub async fn turn_end(&mut self, turn: &str) -> Value {
        let ended = self.expect_where("turn/completed", |params| params["turn"]["id"] == turn);
        ended.await["turn"].take()
    }

    /// The final item of that type: the next one that completes.
    pub async fn item(&mut self, kind: &str) -> Value {
        let item = self.expect_where("item/completed", |params| params["item"]["type"] == kind);
        item.await["item"].take()
    }

    /// Waits until the server has ended the connection; what came before is read.
    pub async fn closed(&mut self) {
        while self.read().await {}
    }

    /// The next message of whatever kind, whether somebody asked for it or not; `None` at the end of
    /// the connection.
    pub async fn next(&mut self) -> Option<Value> {
        if self.given == self.lines.len() && !self.read().await {
            return None;
        }
        let line = &self.lines[self.given];
        self.given += 1;
        serde_json::from_str(line).ok()
    }

    /// Everything that was read, as it stood on the wire.
    #[must_use]
    pub fn raw_lines(&self) -> &[String] {
        &self.lines
    }

    /// What was said so far.
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
            // A connection that was cut ends within a line.
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
            return Received::Notification { method, params };
        };
        self.transcript.request(&method, &params);
        Received::Request(Asked { id, method, params })
    }

    fn sort_answer(&mut self, id: Value, message: &mut Value) -> Received {
        let called = id.as_i64().and_then(|id| self.calls.remove(&id));
        let method = called.clone().unwrap_or_else(|| id.to_string());
        if let Some(error) = message.get_mut("error") {
            let fault = Fault {
                code: error["code"].as_i64().unwrap_or_default(),
                message: text(&error["message"]),
                data: error["data"].take(),
            };
            self.transcript.error(&method, fault.code, &fault.message);
            return Received::Response { id, outcome: Err(fault) };
        }
        let result = message["result"].take();
        if let Some(method) = called {
            self.require(&method, self.contract.check_result(&method, &result));
        }
        self.transcript.result(&method);
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

/// Parameters of `turn/start` with one text.
fn turn_params(thread: &str, input: &str) -> Value {
    json!({ "threadId": thread, "input": [{ "type": "text", "text": input }] })
}

async fn patiently<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(PATIENCE, what).await.ok()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
