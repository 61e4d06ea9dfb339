//! `agentd gateway` as a child process, and requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{PATIENCE, Running, TestEnvironment};

/// A request that the offline model answers.
pub(crate) const ASKED: &str = r#"{"model":"offline","input":"hello","stream":true}"#;
/// The token of the administrator.
pub(crate) const TOKEN: &str = "a-token-of-the-administrator";

/// A gateway and a key for it.
pub(crate) struct Gateway {
    pub(crate) running: Running,
    pub(crate) address: String,
}

impl Gateway {
    pub(crate) fn start(env: &TestEnvironment, arguments: &[&str]) -> (Self, Option<String>) {
        Self::start_command(env.agentd(&["gateway"]).args(arguments))
    }

    pub(crate) fn start_command(command: &mut Command) -> (Self, Option<String>) {
        let running = Running::start(command);
        let mut key = None;
        let address = loop {
            let line = running.line_with("");
            if let Some((_, text)) = line.split_once("shown only once: ") {
                key = Some(text.to_owned());
            }
            if let Some(address) = line.strip_prefix("listening on http://") {
                break address.to_owned();
            }
        };
        (Self { running, address }, key)
    }

    /// Sends a request; returns status and headers, and the body.
    pub(crate) fn ask(&self, head: &str, bearer: &str, body: &str) -> (String, String) {
        self.ask_with(head, bearer, "application/json", body)
    }

    pub(crate) fn ask_with(
        &self,
        head: &str,
        bearer: &str,
        kind: &str,
        body: &str,
    ) -> (String, String) {
        ask_at(&self.address, head, bearer, kind, body)
    }

    /// Uploads the input of a batch; returns the file's id.
    pub(crate) fn upload(&self, key: &str, content: &str) -> String {
        let body = format!(
            "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--x\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n\r\n\
             {content}\r\n--x--\r\n"
        );
        let head = "POST /v1/files";
        let kind = "multipart/form-data; boundary=x";
        let (status, file) = self.ask_with(head, key, kind, &body);
        assert!(status.starts_with("HTTP/1.1 200"), "{status} {file}");
        serde_json::from_str::<Value>(&file).unwrap()["id"].as_str().unwrap().to_owned()
    }

    /// Repeats a request until the response is right: a batch's lease lasts for half a minute.
    pub(crate) fn poll(&self, key: &str, head: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let (_, body) = self.ask(head, key, "");
            let value = serde_json::from_str(&body).unwrap();
            if is_right(&value) {
                return value;
            }
            assert!(began.elapsed() < 4 * PATIENCE, "{value}");
            // tidy: sleep because a batch of another process has no event to wait for.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn header(&self, key: &str, name: &str) -> String {
        let (head, _) = self.ask("POST /v1/responses", key, ASKED);
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {head}")).trim_start_matches(": ").to_owned()
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        let (_, page) = self.ask("GET /metrics", "", "");
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |number| number.trim().parse().unwrap())
    }

    /// Ends it as a service manager does, and takes what `start` starts for it.
    pub(crate) fn restart(&mut self, start: impl FnOnce() -> Self) {
        self.running.signal("TERM");
        let (status, _) = self.running.wait();
        assert_eq!(status.code(), Some(0));
        *self = start();
    }

    pub(crate) fn end(self) {
        self.running.signal("TERM");
        let (status, _) = self.running.end_with_input_open();
        assert_eq!(status.code(), Some(0));
    }
}

/// Sends a request to an address; returns status and headers, and the body.
pub(crate) fn ask_at(
    address: &str,
    head: &str,
    bearer: &str,
    kind: &str,
    body: &str,
) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bearer}\r\n\
         content-type: {kind}\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Writes a configuration with an admin token and the lines in `more`.
pub(crate) fn configured(env: &TestEnvironment, more: &str) -> String {
    let token = env.home().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = env.home().join("gateway.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\n[admin]\ntoken_file = \"token\"\n[models.offline]\n{more}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Creates a project and a key for it.
pub(crate) fn key(gateway: &Gateway) -> String {
    let make = |path: &str, body: Value| {
        let (head, body) = gateway.ask(&format!("POST {path}"), TOKEN, &body.to_string());
        assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let project = make("/v1/organization/projects", json!({"name": "tests"}));
    let id = project["id"].as_str().unwrap();
    let path = format!("/v1/organization/projects/{id}/service_accounts");
    let account = make(&path, json!({"name": "tests"}));
    account["api_key"]["value"].as_str().unwrap().to_owned()
}
