//! Support for tests of files and batches: nodes in this process on one store, a controlled clock,
//! a controlled upstream, and a client.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use gateway::Gateway;
use gateway_policy::environment::Environment;
use gateway_policy::environment::{Clock, Random};
use gateway_policy::settings::{LoadContext, Settings};
use gateway_store::records::{DEFAULT_ORGANIZATION, keys, projects};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

/// A clock that tests advance.
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_790_000_000_000_000)))
    }

    pub(crate) fn add_seconds(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn steady(&self) -> ratelimit::SteadyTime {
        ratelimit::SteadyTime::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// The same random numbers in every run, different ones on every node.
pub(crate) struct SeededRandom(pub(crate) AtomicU64);

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let next = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
            let mixed = (next ^ (next >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            chunk.copy_from_slice(&(mixed ^ (mixed >> 29)).to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A response of the upstream.
pub(crate) type Answer = (u16, String);
type Script = dyn Fn(&ReceivedRequest) -> Answer + Send + Sync;

/// A request that the upstream received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// How often the same body was received before.
    pub(crate) before: usize,
}

impl ReceivedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The text of the first message of a chat.
    pub(crate) fn text(&self) -> String {
        self.json()["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
    }
}

/// A controlled upstream.
pub(crate) struct Upstream {
    pub(crate) address: String,
    received: Mutex<Vec<ReceivedRequest>>,
    counts: Mutex<HashMap<Bytes, usize>>,
    closed: Mutex<bool>,
    opened: Notify,
    script: Box<Script>,
}

impl Upstream {
    pub(crate) async fn start(
        script: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = Arc::new(Self {
            address: format!("http://{}/v1", listener.local_addr().unwrap()),
            received: Mutex::default(),
            counts: Mutex::default(),
            closed: Mutex::new(false),
            opened: Notify::new(),
            script: Box::new(script),
        });
        tokio::spawn(accept(listener, Arc::clone(&upstream)));
        upstream
    }

    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// Makes requests wait from now on.
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_waiters();
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let before = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(body.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let path = head.uri.path_and_query().unwrap().to_string();
        let received = ReceivedRequest { path, body, before };
        self.received.lock().unwrap().push(received.clone());
        loop {
            let opened = self.opened.notified();
            if !*self.closed.lock().unwrap() {
                break;
            }
            opened.await;
        }
        let (status, body) = (self.script)(&received);
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let json = "application/json".parse().unwrap();
        response.headers_mut().insert("content-type", json);
        response
    }
}

async fn accept(listener: TcpListener, upstream: Arc<Upstream>) {
    while let Ok((stream, _)) = listener.accept().await {
        let upstream = Arc::clone(&upstream);
        let service = hyper::service::service_fn(move |request| {
            let upstream = Arc::clone(&upstream);
            async move { Ok::<_, Infallible>(upstream.answer(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}

/// A chat response with 10 tokens of input and 5 of output.
pub(crate) fn chat(received: &ReceivedRequest) -> Answer {
    let text = serde_json::to_string(&received.text()).unwrap();
    let body = format!(
        "{{\n \"id\": \"chatcmpl-1\", \"choices\": [{{\"message\": {{\"content\": {text}}}}}],\n \
         \"usage\": {{\"prompt_tokens\": 10, \"completion_tokens\": 5, \"total_tokens\": 15, \
         \"prompt_tokens_details\": {{\"cached_tokens\": 2}}, \
         \"completion_tokens_details\": {{\"reasoning_tokens\": 1}}}}\n}}"
    );
    (200, body)
}

pub(crate) const ERROR: &str = r#"{"error":{"message":"no","type":"server_error"}}"#;

/// A listening gateway.
pub(crate) struct Node {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) base: String,
    stop: Option<oneshot::Sender<()>>,
    serving: tokio::task::JoinHandle<()>,
}

impl Node {
    /// `extra` is appended to the configuration; `limits` is `memory:` or `off:`, `store` a URL, or
    /// empty for a SQLite file in `folder`.
    pub(crate) async fn start(
        folder: &Path,
        clock: &Arc<ManualClock>,
        upstream: &Upstream,
        (store, limits): (&str, &str),
        extra: &str,
    ) -> Self {
        static SEED: AtomicU64 = AtomicU64::new(1);
        let sqlite = format!("sqlite://{}/g.db", folder.display());
        let store = if store.is_empty() { &sqlite } else { store };
        let text = format!(
            "listen = \"127.0.0.1:0\"\n[store]\nurl = \"{store}\"\n[limits]\n\
             url = \"{limits}\"\n[upstreams.main]\nbase_url = \"{}\"\n{extra}",
            upstream.address,
        );
        let environment = |_: &str| None;
        let around = LoadContext { environment: &environment, folder, offline: "http://x/v1" };
        let settings = Settings::read(&text, Path::new("g.toml"), around).unwrap();
        let environment = Environment {
            clock: Arc::clone(clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom(AtomicU64::new(
                SEED.fetch_add(1, Ordering::SeqCst).wrapping_mul(0xd1b5_4a32_d192_ed03),
            ))),
        };
        let gateway = Gateway::open(settings, folder, environment).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&gateway);
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            gateway::serve(shared, listener, Arc::default(), stopped).await.unwrap();
        });
        Self { gateway, base, stop: Some(stop), serving }
    }

    /// Creates a project and returns its key.
    pub(crate) async fn key(&self) -> (String, Box<str>) {
        let (database, random) = (self.gateway.database(), self.gateway.random());
        let act = self.gateway.act();
        let made = projects::create(database, DEFAULT_ORGANIZATION, "p", None, act, random).await;
        let project = made.unwrap().unwrap().project.id.clone();
        let (service_account, name) = (None, "k");
        let new = keys::NewKey {
            project: &project,
            service_account,
            name,
            expires_at: None,
            models: None,
        };
        let (_, text) =
            keys::create(database, new, self.gateway.act(), random).await.unwrap().unwrap();
        (text.reveal().to_owned(), project)
    }

    /// Ends it as SIGTERM does.
    pub(crate) async fn end(mut self) {
        drop(self.stop.take());
        self.serving.await.unwrap();
        self.gateway.close().await;
    }

    /// Ends it as a crash does, as far as batches are concerned.
    pub(crate) fn crash(self) {
        self.gateway.crash_batches();
        self.serving.abort();
    }
}

/// A client with a key.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) base: String,
    pub(crate) key: String,
    http: Http<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>,
}

impl Client {
    pub(crate) fn new(base: &str, key: &str) -> Self {
        let http = Http::builder(TokioExecutor::new()).build_http();
        Self { base: base.to_owned(), key: key.to_owned(), http }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> (u16, Bytes) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", content_type)
            .body(Full::new(body.into()))
            .unwrap();
        let response = self.http.request(request).await.unwrap();
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let (status, body) = self.send(Method::GET, path, "application/json", "").await;
        (status, serde_json::from_slice(&body).unwrap())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) =
            self.send(Method::POST, path, "application/json", body.to_string()).await;
        (status, serde_json::from_slice(&body).unwrap())
    }

    pub(crate) async fn upload(&self, parts: &[(&str, &str)]) -> (u16, Value) {
        let mut form = String::new();
        for (head, content) in parts {
            form += &format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n");
        }
        form += "--b--\r\n";
        let kind = "multipart/form-data; boundary=b";
        let (status, body) = self.send(Method::POST, "/v1/files", kind, form).await;
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// Uploads an input file, and creates a batch from it.
    pub(crate) async fn batch(&self, endpoint: &str, lines: &str) -> Value {
        let file = ("name=\"file\"; filename=\"in.jsonl\"", lines);
        let (status, uploaded) = self.upload(&[("name=\"purpose\"", "batch"), file]).await;
        assert_eq!(status, 200, "{uploaded}");
        let wanted = serde_json::json!({
            "input_file_id": uploaded["id"], "endpoint": endpoint, "completion_window": "24h",
        });
        let (status, batch) = self.post("/v1/batches", &wanted).await;
        assert_eq!(status, 200, "{batch}");
        batch
    }

    /// Waits until a batch has ended.
    pub(crate) async fn ended(&self, batch: &Value) -> Value {
        self.until(batch, |batch| {
            let status = batch["status"].as_str().unwrap();
            matches!(status, "completed" | "failed" | "expired" | "cancelled")
        })
        .await
    }

    pub(crate) async fn until(&self, batch: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
        let wait = async {
            loop {
                let (status, batch) = self.get(&path).await;
                assert_eq!(status, 200, "{batch}");
                if is_so(&batch) {
                    return batch;
                }
                pause().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(40), wait).await.expect("it comes to that")
    }

    /// The lines of an output or error file.
    pub(crate) async fn lines(&self, file: &Value) -> Vec<Value> {
        let Some(id) = file.as_str() else { return Vec::new() };
        let path = format!("/v1/files/{id}/content");
        let (status, body) = self.send(Method::GET, &path, "text/plain", "").await;
        assert_eq!(status, 200);
        let text = std::str::from_utf8(&body).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Lines of chats, each with its own number as the text.
pub(crate) fn chats(model: &str, lines: usize) -> String {
    let line = |number| chat_line(model, &format!("c{number}"), &format!("say {number}"));
    (0..lines).map(line).collect()
}

pub(crate) fn chat_line(model: &str, custom_id: &str, text: &str) -> String {
    let body = serde_json::json!({
        "model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 100,
    });
    let line = serde_json::json!({
        "custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body,
    });
    format!("{line}\n")
}

pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(15)).await; // tidy: sleep polls what runs in the background
}
