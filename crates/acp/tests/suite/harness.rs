//! An editor for tests: it works on lines, checks every message, and keeps what no test has asked for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use acp::{Ended, Options};
use jsonrpc::{Connection, Limits};
use serde_json::{Value, json};
use testkit::{TestEnvironment, TestServer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::schema::{Part, Schema};

/// Longest wait for any message before the test fails; far more than is needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a scripted model, and editors that connect to it.
pub(crate) struct Bench {
    pub(crate) env: TestEnvironment,
    pub(crate) server: TestServer,
}

/// One editor, connected through an adapter of its own.
pub(crate) struct Editor {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: Option<WriteHalf<DuplexStream>>,
    serving: JoinHandle<Result<Ended, String>>,
    stop: Option<oneshot::Sender<()>>,
    /// Of the protocol.
    pub(crate) version: u16,
    next_id: i64,
    /// Methods of requests without an answer, by id.
    calls: HashMap<String, String>,
    unread: VecDeque<Value>,
    log: Vec<String>,
    masks: Vec<(String, &'static str)>,
    /// Addresses that a browser was asked to open.
    pub(crate) browsed: mpsc::UnboundedReceiver<String>,
}

/// A request of the agent.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) id: Value,
    pub(crate) params: Value,
}

/// An error answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refused {
    pub(crate) code: i64,
    pub(crate) message: String,
}

pub(crate) fn says(text: &str) -> Value {
    json!({ "steps": [{ "message": { "text": text, "phase": "final_answer" } }] })
}

pub(crate) fn runs(command: &str) -> Value {
    json!({ "steps": [{ "function_call": { "name": "exec_command", "arguments": { "cmd": command } } }] })
}

/// A command that needs an approval.
pub(crate) fn escalates(command: &str) -> Value {
    let arguments = json!({
        "cmd": command, "sandbox_permissions": "require_escalated", "justification": "to make it",
    });
    json!({ "steps": [{ "function_call": { "name": "exec_command", "arguments": arguments } }] })
}

pub(crate) fn patches(patch: &str) -> Value {
    json!({ "steps": [{ "custom_tool_call": { "name": "apply_patch", "input": patch } }] })
}

/// Waits for the client's cancellation.
pub(crate) fn idles() -> Value {
    json!({ "steps": [{ "message": { "text": "I begin.", "phase": "commentary" } }, "idle"] })
}

impl Bench {
    pub(crate) async fn new(responses: Value) -> Self {
        let mut env = TestEnvironment::with_responses(responses).await;
        env.config_overrides.push("sandbox_mode=\"workspace-write\"".to_owned());
        Self::of(env)
    }

    pub(crate) fn of(mut env: TestEnvironment) -> Self {
        "editor".clone_into(&mut env.session_source);
        let server = env.start();
        Self { env, server }
    }

    /// An editor without capabilities, after the handshake.
    pub(crate) async fn editor(&self) -> Editor {
        self.editor_with(json!({})).await
    }

    /// An editor with these capabilities, after the handshake.
    pub(crate) async fn editor_with(&self, capabilities: Value) -> Editor {
        let mut editor = self.connect();
        let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
        editor.call("initialize", params).await;
        editor.log.clear();
        editor
    }

    /// An editor that speaks version 2, with these capabilities, after the handshake.
    pub(crate) async fn editor_v2(&self, capabilities: Value) -> Editor {
        let mut editor = self.connect_with(None, true);
        editor.version = 2;
        let info = json!({ "name": "tests", "version": "1" });
        let params = json!({ "protocolVersion": 2, "info": info, "capabilities": capabilities });
        let answer = editor.call("initialize", params).await;
        assert_eq!(answer["protocolVersion"], 2);
        editor.log.clear();
        editor
    }

    /// An editor before the handshake.
    pub(crate) fn connect(&self) -> Editor {
        self.connect_with(None, false)
    }

    /// The same; a provider may be named for its sessions, and version 2 allowed.
    pub(crate) fn connect_with(&self, model_provider: Option<&str>, speaks_v2: bool) -> Editor {
        let limits = Limits::default();
        let (ours, theirs) = Connection::pair(limits);
        let server = self.server.server().clone();
        tokio::spawn(async move { server.serve(theirs, ()).await });
        let (editor, agent) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(agent);
        let agent = Connection::over(reader, writer, Limits { stall: None, ..limits });
        let (sender, browsed) = mpsc::unbounded_channel();
        let options = Options {
            limits,
            version: "0.0.0".to_owned(),
            model: None,
            model_provider: model_provider.map(str::to_owned),
            speaks_v2,
            browse: Box::new(move |url| sender.send(url.to_owned()).is_ok()),
        };
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let serving = tokio::spawn(acp::serve(agent, ours, options, stopped));
        let (reader, writer) = tokio::io::split(editor);
        let shown = |path: &std::path::Path| path.display().to_string();
        Editor {
            reader: BufReader::new(reader),
            writer: Some(writer),
            serving,
            stop: Some(stop),
            version: 1,
            next_id: 1000,
            calls: HashMap::new(),
            unread: VecDeque::new(),
            log: Vec::new(),
            masks: vec![(shown(&self.env.workspace()), "$WORK"), (shown(self.env.root()), "$ROOT")],
            browsed,
        }
    }

    pub(crate) fn work(&self) -> String {
        self.env.workspace().display().to_string()
    }
}

impl Editor {
    /// Opens a session in the folder; the commands have been announced.
    pub(crate) async fn new_session(&mut self, cwd: &str) -> String {
        let opened = self.call("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await;
        self.update("available_commands_update").await;
        self.log.clear();
        opened["sessionId"].as_str().unwrap().to_owned()
    }

    /// Sends a text as a prompt, without waiting for its end.
    pub(crate) async fn prompt(&mut self, session: &str, text: &str) -> i64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": session, "prompt": prompt })).await
    }

    /// Sends a text as a prompt, and returns why its turn ended.
    pub(crate) async fn run(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text).await;
        let ended = self.answer_to(id).await.unwrap();
        ended["stopReason"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        match self.try_call(method, params).await {
            Ok(result) => result,
            Err(error) => panic!("{method}: {error:?}\n{}", self.log.join("\n")),
        }
    }

    pub(crate) async fn refused(&mut self, method: &str, params: Value) -> Refused {
        match self.try_call(method, params).await {
            Ok(result) => panic!("{method} was not refused: {result}"),
            Err(error) => error,
        }
    }

    async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Refused> {
        let id = self.send(method, params).await;
        self.answer_to(id).await
    }

    /// Sends a request whose parameters fit the schema.
    pub(crate) async fn send(&mut self, method: &str, params: Value) -> i64 {
        Schema::published(self.version).check(method, Part::Params, &params);
        self.send_unchecked(method, params).await
    }

    pub(crate) async fn send_unchecked(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.calls.insert(id.to_string(), method.to_owned());
        self.log.push(format!("> {method}"));
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_line(message.to_string().as_bytes()).await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        Schema::published(self.version).check(method, Part::Params, &params);
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send_line(message.to_string().as_bytes()).await;
    }

    pub(crate) async fn answer(&mut self, asked: &Asked, method: &str, result: Value) {
        Schema::published(self.version).check(method, Part::Result, &result);
        let message = json!({ "jsonrpc": "2.0", "id": asked.id, "result": result });
        self.send_line(message.to_string().as_bytes()).await;
    }

    /// Chooses an option of a permission.
    pub(crate) async fn choose(&mut self, asked: &Asked, option: &str) {
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.answer(asked, "session/request_permission", outcome).await;
    }

    pub(crate) async fn send_line(&mut self, line: &[u8]) {
        let writer = self.writer.as_mut().unwrap();
        let sent = async {
            writer.write_all(line).await?;
            writer.write_all(b"\n").await
        };
        // A closed connection shows in the reads.
        let _ = tokio::time::timeout(PATIENCE, sent).await.expect("the agent reads");
    }

    pub(crate) async fn answer_to(&mut self, id: i64) -> Result<Value, Refused> {
        let what = format!("the answer to {id}");
        let answer =
            self.take(&what, |message| message["id"] == id && message.get("method").is_none());
        let answer = answer.await;
        match answer.get("error") {
            None => Ok(answer["result"].clone()),
            Some(error) => Err(refused(error)),
        }
    }

    /// The next error without the id of a request.
    pub(crate) async fn stray_error(&mut self) -> Refused {
        let is_stray = |message: &Value| message["id"].is_null() && message.get("error").is_some();
        refused(&self.take("an error", is_stray).await["error"])
    }

    /// The next update of this kind; others are kept.
    pub(crate) async fn update(&mut self, kind: &str) -> Value {
        self.update_where(kind, |_| true).await
    }

    pub(crate) async fn update_where(
        &mut self,
        kind: &str,
        fits: impl Fn(&Value) -> bool,
    ) -> Value {
        let message = self.take(kind, |message| {
            let update = &message["params"]["update"];
            update["sessionUpdate"] == kind && fits(update)
        });
        message.await["params"]["update"].take()
    }

    /// The next request of this method from the agent.
    pub(crate) async fn asked(&mut self, method: &str) -> Asked {
        let mut message = self
            .take(method, |message| message["method"] == method && message.get("id").is_some())
            .await;
        Asked { id: message["id"].take(), params: message["params"].take() }
    }

    /// The next notification of this method.
    pub(crate) async fn notified(&mut self, method: &str) -> Value {
        let is_it = |message: &Value| message["method"] == method && message.get("id").is_none();
        self.take(method, is_it).await["params"].take()
    }

    /// The lines so far, see [`line`]. Later ones begin anew.
    pub(crate) fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Closes the connection from this side.
    pub(crate) async fn leave(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.shutdown().await.unwrap();
        }
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// How the adapter ended.
    pub(crate) async fn ended(self) -> Result<Ended, String> {
        tokio::time::timeout(PATIENCE, self.serving).await.expect("it ends").unwrap()
    }

    async fn take(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unread.iter().position(&fits) {
            return self.unread.remove(at).unwrap();
        }
        loop {
            let message = self.read(what).await;
            if fits(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    async fn read(&mut self, what: &str) -> Value {
        let mut text = String::new();
        let read = tokio::time::timeout(PATIENCE, self.reader.read_line(&mut text)).await;
        match read {
            Ok(Ok(read)) if read > 0 => {}
            other => panic!("no {what} ({other:?}):\n{}", self.log.join("\n")),
        }
        let message: Value = serde_json::from_str(&text).unwrap();
        self.check(&message);
        self.note(&message);
        message
    }

    fn check(&mut self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let schema = Schema::published(self.version);
        if let Some(method) = message["method"].as_str() {
            return schema.check(method, Part::Params, &message["params"]);
        }
        let Some(method) = self.calls.remove(&message["id"].to_string()) else { return };
        if let Some(result) = message.get("result") {
            schema.check(&method, Part::Result, result);
        }
        let outcome = match message.get("error") {
            Some(error) => format!("{} {}", error["code"], error["message"]),
            None => message["result"]["stopReason"].as_str().unwrap_or_default().to_owned(),
        };
        self.push(format!("< {method} {outcome}"));
    }

    fn note(&mut self, message: &Value) {
        let Some(method) = message["method"].as_str() else { return };
        let params = &message["params"];
        let update = &params["update"];
        match method {
            "session/update" => {
                let kind = update["sessionUpdate"].as_str().unwrap();
                // Its numbers depend on the instructions.
                if kind == "usage_update" {
                    return;
                }
                let line = line(kind, update);
                // Chunks of one message are one line.
                if kind.ends_with("_chunk")
                    && let Some(last) = self.log.last_mut()
                    && let Some(begun) = last.strip_prefix(&format!("* {kind} \""))
                {
                    let begun = begun.strip_suffix('"').unwrap_or(begun);
                    *last = format!("* {kind} \"{begun}{}", &line[1..]);
                    return;
                }
                self.push(format!("* {kind} {line}"));
            }
            "session/request_permission" => {
                let options: Vec<&str> = params["options"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|option| option["optionId"].as_str().unwrap())
                    .collect();
                let title = params.get("title").unwrap_or(&params["toolCall"]["title"]);
                self.push(format!("? {method} {title} {}", options.join(",")));
            }
            _ => self.push(format!("? {method}")),
        }
    }

    fn push(&mut self, line: String) {
        let mask = |text: String, (from, to): &(String, &'static str)| text.replace(from, to);
        let line = self.masks.iter().fold(line, mask);
        self.log.push(line.trim_end().to_owned());
    }
}

/// An update as a short line, without ids.
fn line(kind: &str, update: &Value) -> String {
    match kind {
        "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk" => {
            let content = &update["content"];
            let text = ["text", "uri", "mimeType"].iter().find_map(|name| content.get(*name));
            text.unwrap().to_string()
        }
        "tool_call" | "tool_call_update" => {
            let mut text = String::new();
            for member in ["title", "kind", "status"] {
                if let Some(value) = update[member].as_str() {
                    text.push_str(&format!("{value} "));
                }
            }
            for content in update["content"].as_array().into_iter().flatten() {
                text.push_str(&match content["type"].as_str().unwrap() {
                    "diff" if content.get("changes").is_some() => {
                        format!("[diff {} {}]", content["changes"], content["patch"]["text"])
                    }
                    "diff" => format!(
                        "[diff {} {} -> {}]",
                        content["path"].as_str().unwrap(),
                        content.get("oldText").unwrap_or(&Value::Null),
                        content["newText"]
                    ),
                    _ => format!("[{}]", content["content"]["text"]),
                });
            }
            text
        }
        "plan" => {
            let entry = |entry: &Value| format!("{} {}", entry["status"], entry["content"]);
            let entries: Vec<String> =
                update["entries"].as_array().unwrap().iter().map(entry).collect();
            entries.join(", ")
        }
        "plan_update" => line("plan", &update["plan"]),
        "state_update" => {
            let reason = update["stopReason"].as_str().unwrap_or_default();
            let error = update["error"]["message"].as_str().unwrap_or_default();
            format!("{} {reason} {error}", update["state"].as_str().unwrap())
        }
        "current_mode_update" => update["currentModeId"].to_string(),
        "session_info_update" => update["title"].to_string(),
        "notice" => update["title"].to_string(),
        "compaction_update" => update["status"].to_string(),
        _ => String::new(),
    }
}

fn refused(error: &Value) -> Refused {
    Refused {
        code: error["code"].as_i64().unwrap(),
        message: error["message"].as_str().unwrap().to_owned(),
    }
}
