//! The real program in a separate home, and a client that exchanges raw lines with it.

#[cfg(unix)]
pub(crate) mod cluster;
#[cfg(target_os = "linux")]
pub(crate) mod dead_mount;
#[cfg(unix)]
pub(crate) mod gateway;
#[cfg(unix)]
pub(crate) mod https;
#[cfg(unix)]
pub(crate) mod listing;
#[cfg(unix)]
pub(crate) mod models;
#[cfg(unix)]
pub(crate) mod nginx;
// Those of the tests of the gateway; not all are needed here.
#[cfg(unix)]
#[allow(dead_code)]
#[path = "../../../../gateway/tests/suite/common/servers.rs"]
pub(crate) mod servers;
#[cfg(unix)]
pub(crate) mod socket;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Longest wait for any operation before the test fails; far more than is needed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A home, a working folder and a folder for temporary files, removed on drop.
pub(crate) struct TestEnvironment {
    dir: TempDir,
}

impl TestEnvironment {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["home", "work", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn tmp(&self) -> PathBuf {
        self.dir.path().join("tmp")
    }

    pub(crate) fn script(&self, responses: &Value) -> String {
        let path = self.dir.path().join("script.json");
        std::fs::write(&path, json!({"responses": responses}).to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Prepares the program with a separate environment and no standard input.
    pub(crate) fn agentd(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("AGENT_HOME", self.home())
            .env("TMPDIR", self.tmp())
            .current_dir(self.work())
            .stdin(Stdio::null());
        // The check of the tests of effects.
        if let Some(key) = std::env::var_os("AGENTD_TEST_IGNORED_KEY") {
            command.env("AGENTD_TEST_IGNORED_KEY", key);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.agentd(arguments).output().unwrap()
    }

    /// Runs the program with a text on standard input.
    pub(crate) fn pipe(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .agentd(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }
}

/// The program of this build, or another one that is to pass the same tests.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("AGENTD_UNDER_TEST")
        .map_or_else(|| env!("CARGO_BIN_EXE_agentd").into(), PathBuf::from)
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Lists a folder recursively: names, kinds and contents.
pub(crate) fn listing(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // The doors of killed servers are sockets.
            let contents = match path.is_file() {
                true => std::fs::read(&path).unwrap(),
                false => Vec::new(),
            };
            if path.is_dir() {
                folders.push(path.clone());
            }
            found.push((path, contents));
        }
    }
    found.sort();
    found
}

/// A running program whose standard output is read line by line.
pub(crate) struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = Vec::new();
            while out.read_until(b'\n', &mut line).unwrap() > 0 {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    /// Starts a server and completes the handshake.
    pub(crate) fn server(env: &TestEnvironment, arguments: &[&str]) -> Self {
        let mut command = env.agentd(&["app-server"]);
        let mut server = Self::start(command.args(arguments));
        server.call(0, "initialize", json!({"clientInfo": {"name": "test", "version": "1"}}));
        server.send(r#"{"method":"initialized"}"#);
        server
    }

    pub(crate) fn send(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Returns the next line that contains `wanted`; skips others.
    pub(crate) fn line_with(&self, wanted: &str) -> String {
        let mut seen = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(wanted) => return line,
                Ok(line) => seen.push_str(&(line + "\n")),
                Err(why) => panic!("no line with {wanted:?} ({why}); there were:\n{seen}"),
            }
        }
    }

    /// Returns the next message that `wanted` accepts; skips others.
    pub(crate) fn message(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect("the message comes");
            let message: Value = serde_json::from_str(&line).expect("each line is JSON");
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Returns the next message, unless none comes within this time.
    pub(crate) fn message_within(&self, time: Duration) -> Option<Value> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Some(serde_json::from_str(&line).expect("each line is JSON")),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the program has ended"),
        }
    }

    pub(crate) fn notification(&self, method: &str) -> Value {
        self.message(|message| message["method"] == method)["params"].clone()
    }

    /// Calls a method and returns the whole response.
    pub(crate) fn call(&mut self, id: i64, method: &str, params: Value) -> Value {
        self.send(&json!({"id": id, "method": method, "params": params}).to_string());
        self.message(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Starts a thread with a scripted model and returns its id.
    pub(crate) fn thread(&mut self, model: &str) -> String {
        let answer =
            self.call(1, "thread/start", json!({"modelProvider": "offline", "model": model}));
        answer["result"]["thread"]["id"].as_str().expect("a thread has an id").to_owned()
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends a signal by name, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(status.success());
    }

    /// Ends the input, waits for the exit and returns the remaining output.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<String>) {
        self.close_input();
        self.end_with_input_open()
    }

    /// Waits for the exit with the input still open, and returns the remaining output.
    pub(crate) fn end_with_input_open(mut self) -> (ExitStatus, Vec<String>) {
        self.wait()
    }

    /// Waits for the exit, and returns the remaining output.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Vec<String>) {
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.child.kill().unwrap();
                    panic!("the program does not end");
                }
            }
        }
        let status = self.child.wait().unwrap();
        (status, rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failed test leaves no process behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replaces texts of a file that is shipped; each must occur, so that the file and its test stay together.
#[cfg(unix)]
pub(crate) fn replace_all(text: &str, replaced: &[(String, String)]) -> String {
    replaced.iter().fold(text.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old:?} is not in the file:\n{text}");
        text.replace(old, new)
    })
}
