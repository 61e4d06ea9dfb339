//! Servers in memory: each is a function from a message to the lines that it writes, behind a launcher
//! that counts starts and ends.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp::{
    Action, Answer, Audience, BoxFuture, Child, ChildControl, Definition, Elicitation, Launcher,
    Options, Output, Pool, Program, State, Transport,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, WriteHalf};
use tokio::sync::mpsc;

/// What a server writes in answer to a message; `None` ends it.
pub(crate) type Script = Arc<dyn Fn(&Value) -> Option<Vec<String>> + Send + Sync>;

#[derive(Default)]
pub(crate) struct Fakes {
    scripts: Mutex<HashMap<String, Script>>,
    pub(crate) starts: AtomicUsize,
    pub running: Arc<AtomicUsize>,
    /// All messages that servers got.
    pub received: Arc<Mutex<Vec<Value>>>,
}

impl Fakes {
    pub(crate) fn add(
        &self,
        command: &str,
        script: impl Fn(&Value) -> Option<Vec<String>> + Send + Sync + 'static,
    ) {
        self.scripts.lock().unwrap().insert(command.to_owned(), Arc::new(script));
    }

    /// The parameters of the messages of a method that servers got.
    pub(crate) fn got(&self, method: &str) -> Vec<Value> {
        let received = self.received.lock().unwrap();
        let of_method = received.iter().filter(|message| message["method"] == method);
        of_method.map(|message| message["params"].clone()).collect()
    }
}

struct Input(tokio::sync::Mutex<WriteHalf<DuplexStream>>);

impl ChildControl for Input {
    fn ended(&self) -> BoxFuture<'_, String> {
        Box::pin(async { "ended with exit code 3".to_owned() })
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move { self.0.lock().await.write_all(bytes).await })
    }
}

/// A launcher of these servers.
pub(crate) struct FakeLauncher(pub Arc<Fakes>);

impl Launcher for FakeLauncher {
    fn launch(&self, program: Program) -> BoxFuture<'_, Result<Child, String>> {
        let fakes = self.0.clone();
        Box::pin(async move {
            let script = fakes.scripts.lock().unwrap().get(&program.command).cloned();
            let script = script.ok_or_else(|| format!("`{}` was not found", program.command))?;
            fakes.starts.fetch_add(1, Ordering::Relaxed);
            let (client, server) = tokio::io::duplex(1 << 16);
            let (mut stdout, input) = tokio::io::split(client);
            let (sender, output) = mpsc::channel(4);
            let serving = tokio::spawn(serve(server, script, fakes.received.clone()));
            let running = fakes.running.clone();
            running.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 14];
                loop {
                    let read = tokio::select! {
                        read = stdout.read(&mut buffer) => read.unwrap_or(0),
                        () = sender.closed() => 0,
                    };
                    if read == 0 {
                        break;
                    }
                    let bytes = buffer[..read].to_vec().into();
                    if sender.send(Output::Stdout(bytes)).await.is_err() {
                        break;
                    }
                }
                serving.abort();
                running.fetch_sub(1, Ordering::Relaxed);
            });
            let control = Arc::new(Input(tokio::sync::Mutex::new(input)));
            Ok(Child { output, control })
        })
    }
}

async fn serve(io: DuplexStream, script: Script, received: Arc<Mutex<Vec<Value>>>) {
    let (read, mut write) = tokio::io::split(io);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        received.lock().unwrap().push(message.clone());
        let Some(written) = script(&message) else { return };
        for line in written {
            if write.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

pub(crate) fn result(message: &Value, result: Value) -> Vec<String> {
    vec![json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()]
}

pub(crate) fn error(message: &Value, code: i64, text: &str) -> Vec<String> {
    let error = json!({"code": code, "message": text});
    vec![json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string()]
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// The usual answers of a server of the earlier era with one tool; `None` for calls of it.
pub(crate) fn earlier_era(message: &Value) -> Option<Vec<String>> {
    match message["method"].as_str().unwrap_or_default() {
        "server/discover" => Some(error(message, -32601, "Method not found")),
        "initialize" => Some(result(
            message,
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "fake", "version": "1"},
            }),
        )),
        "tools/list" => Some(result(message, json!({"tools": [tool("echo")]}))),
        "tools/call" => None,
        _ => Some(Vec::new()),
    }
}

/// An audience that keeps what it receives, and answers questions in one way.
pub(crate) struct Listener {
    pub states: Mutex<Vec<(Vec<String>, String, State)>>,
    pub questions: Mutex<Vec<Elicitation>>,
    pub answer: Mutex<Option<Answer>>,
}

impl Default for Listener {
    fn default() -> Self {
        let answer = Answer { action: Action::Decline, content: None };
        Self {
            states: Mutex::default(),
            questions: Mutex::default(),
            answer: Mutex::new(Some(answer)),
        }
    }
}

impl Audience for Listener {
    fn state_changed(&self, holders: &[String], server: &str, state: &State) {
        self.states.lock().unwrap().push((holders.to_vec(), server.to_owned(), state.clone()));
    }

    fn tools_changed(&self, _: &[String], _: &str, _: &State) {}

    fn elicit(&self, question: Elicitation) -> BoxFuture<'_, Answer> {
        self.questions.lock().unwrap().push(question);
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

struct NoKeyring;

impl mcp::Keyring for NoKeyring {
    fn read(&self, _: &Path) -> Result<Option<Vec<u8>>, String> {
        Err("none".to_owned())
    }

    fn write(&self, _: &Path, _: &[u8]) -> Result<(), String> {
        Err("none".to_owned())
    }

    fn delete(&self, _: &Path) -> Result<bool, String> {
        Err("none".to_owned())
    }
}

/// A pool of servers in memory.
pub(crate) struct Bench {
    pub pool: Pool,
    pub fakes: Arc<Fakes>,
    pub listener: Arc<Listener>,
    pub folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn in_folder(folder: tempfile::TempDir) -> Self {
        let (fakes, listener) = (Arc::<Fakes>::default(), Arc::<Listener>::default());
        let pool = Pool::new(Options {
            launcher: Arc::new(FakeLauncher(fakes.clone())),
            audience: listener.clone(),
            network: http_client::Network::default(),
            eras_file: folder.path().join("eras.json"),
            logins_folder: folder.path().join("logins"),
            keyring: Arc::new(NoKeyring),
            program: ("test".to_owned(), "1".to_owned()),
            grace: Duration::from_secs(60),
        });
        Self { pool, fakes, listener, folder }
    }
}

pub(crate) fn definition(command: &str) -> Definition {
    Definition {
        name: format!("the {command}"),
        transport: Transport::Stdio(Program {
            command: command.to_owned(),
            args: Vec::new(),
            cwd: "/".into(),
            env: Default::default(),
            env_vars: Vec::new(),
            confinement: Default::default(),
        }),
        enabled_tools: None,
        disabled_tools: Vec::new(),
        startup_timeout: Duration::from_secs(10),
        tool_timeout: Duration::from_secs(60),
    }
}
