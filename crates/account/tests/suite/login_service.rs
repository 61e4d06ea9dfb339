//! A login service that issues what a test wants, and records its requests.
#![allow(
    dead_code,
    reason = "the tests of several crates include this file, and not all use all of it"
)]

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// An answer.
pub(crate) enum Reply {
    Json(u16, Value),
    /// Everything after the head is sent as it is.
    Raw(String),
    /// A body without end.
    Endless,
    /// The connection closes.
    Nothing,
}

type Answers = dyn Fn(&str, &Request) -> Option<Reply> + Send + Sync;

/// See the module.
pub(crate) struct LoginService {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl LoginService {
    /// Serves metadata and tokens; `answers` replaces single answers, given the service's address.
    pub(crate) async fn start(
        answers: impl Fn(&str, &Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let answers: Arc<Answers> = Arc::new(answers);
        let (address, log) = (url.clone(), requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (address, log, answers) = (address.clone(), log.clone(), answers.clone());
                tokio::spawn(async move { answer(stream, &address, &log, &*answers).await });
            }
        });
        Self { url, requests }
    }

    /// The requests to a path.
    pub(crate) fn requests(&self, path: &str) -> Vec<Request> {
        let all = self.requests.lock().unwrap();
        all.iter().filter(|request| request.path == path).cloned().collect()
    }
}

async fn answer(
    stream: TcpStream,
    address: &str,
    log: &Mutex<Vec<Request>>,
    answers: &Answers,
) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let path = head.split_whitespace().nth(1)?.to_owned();
    let request = Request { path, head, body: String::from_utf8(body).ok()? };
    let reply = answers(address, &request).unwrap_or_else(|| usual(address, &request));
    log.lock().unwrap().push(request);
    let text = match reply {
        Reply::Json(status, value) => {
            let body = value.to_string();
            let length = body.len();
            format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\
                 \r\nconnection: close\r\n\r\n{body}"
            )
        }
        Reply::Raw(text) => text,
        Reply::Endless => {
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.ok()?;
            loop {
                stream.write_all(&[b' '; 4096]).await.ok()?;
            }
        }
        Reply::Nothing => return None,
    };
    stream.write_all(text.as_bytes()).await.ok()
}

fn usual(address: &str, request: &Request) -> Reply {
    match request.path.as_str() {
        "/.well-known/openid-configuration" => Reply::Json(200, metadata(address)),
        "/token" => Reply::Json(200, tokens(address, "access-1", "refresh-1", json!({}))),
        "/device" => Reply::Json(
            200,
            json!({ "device_code": "device-secret", "user_code": "ABCD-EFGH", "expires_in": 600,
                "verification_uri": format!("{address}/activate"), "interval": 1 }),
        ),
        _ => Reply::Json(404, json!({ "error": "not_found" })),
    }
}

pub(crate) fn metadata(address: &str) -> Value {
    json!({
        "issuer": address,
        "authorization_endpoint": format!("{address}/authorize"),
        "token_endpoint": format!("{address}/token"),
        "device_authorization_endpoint": format!("{address}/device"),
        "revocation_endpoint": format!("{address}/revoke"),
        "code_challenge_methods_supported": ["S256"],
    })
}

/// Tokens for an hour, with these claims in addition.
pub(crate) fn tokens(address: &str, access: &str, refresh: &str, more: Value) -> Value {
    let mut claims = json!({ "iss": address, "aud": "agentd", "sub": "user-1",
        "email": "a@example.com", "plan_type": "pro", "account_id": "workspace-1" });
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let id_token = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims.to_string()));
    json!({ "access_token": access, "refresh_token": refresh, "token_type": "Bearer",
        "expires_in": 3600, "id_token": id_token })
}
