//! A minimal client of the gateway's admin API, which creates a key with limits on everything.
//! Blocking, one connection per request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::message::Response;

/// Longest wait for a response; more than any request here takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// A limit that no benchmark reaches, in any unit.
pub(crate) const PLENTY: u64 = 1_000_000_000;

/// Address and token of the admin API.
pub(crate) struct Admin<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) token: &'a str,
}

impl Admin<'_> {
    /// Creates a key of a new project with its own limits on `model`, under a hard spend limit of
    /// the organization and of the project.
    pub(crate) fn make_key(&self, model: &str) -> Result<String> {
        let project = self.post("/v1/organization/projects", &json!({ "name": "bench" }))?;
        let project = text(&project, "/id")?;
        let project = format!("/v1/organization/projects/{project}");
        self.post(
            &format!("{project}/rate_limits/rl-{model}"),
            &json!({ "max_requests_per_1_minute": PLENTY, "max_tokens_per_1_minute": PLENTY }),
        )?;
        let limit = json!({ "currency": "USD", "interval": "month", "threshold_amount": PLENTY });
        self.post("/v1/organization/spend_limit", &limit)?;
        self.post(&format!("{project}/spend_limit"), &limit)?;
        let account =
            self.post(&format!("{project}/service_accounts"), &json!({ "name": "bench" }))?;
        text(&account, "/api_key/value")
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let request = request(path, self.address, Some(self.token), &body.to_string());
        let (status, content) =
            exchange(self.address, &request).with_context(|| path.to_owned())?;
        let shown = String::from_utf8_lossy(&content);
        ensure!((200..300).contains(&status), "POST {path}: {status}: {shown}");
        serde_json::from_slice(&content).with_context(|| format!("POST {path}: {shown}"))
    }
}

fn text(value: &Value, pointer: &str) -> Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    Ok(found.with_context(|| format!("no {pointer} in {value}"))?.to_owned())
}

/// Returns a POST request of JSON, head and body.
pub(crate) fn request(path: &str, host: SocketAddr, bearer: Option<&str>, body: &str) -> String {
    let key =
        bearer.map(|bearer| format!("authorization: Bearer {bearer}\r\n")).unwrap_or_default();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\n{key}content-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request and returns the response's status and body.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let (mut input, mut content, mut buffer) = (Vec::new(), Vec::new(), vec![0; 64 << 10]);
    let mut head = None;
    loop {
        let length = stream.read(&mut buffer)?;
        ensure!(length > 0, "the connection was closed within the response");
        input.extend_from_slice(&buffer[..length]);
        if head.is_none() {
            let Some((response, length)) = Response::read(&input)? else { continue };
            input.drain(..length);
            head = Some(response);
        }
        let Some(response) = &mut head else { continue };
        let used = response.body.take(&input, &mut content)?;
        input.drain(..used);
        if response.body.is_done() {
            return Ok((response.status, content));
        }
    }
}
