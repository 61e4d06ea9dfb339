//! A gateway in this process, on a port of its own, with a controlled clock, helpers for its
//! administration, and a small HTTP client that returns complete responses. It asserts only that
//! administration succeeds.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use bytes::Bytes;
use gateway::Ending;
use gateway::Gateway;
use gateway_policy::environment::Environment;
use gateway_policy::environment::{Clock, Random, SteadyTime};
use gateway_policy::settings::{LoadContext, Settings};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use logging::Logging;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::level_filters::LevelFilter;

use super::upstream::Upstream;

pub(crate) const ADMIN: &str = "admin-token-of-the-tests";
/// The gateway's credential at upstreams.
pub(crate) const UPSTREAM_KEY: &str = "sk-upstream/secret+key";
/// 2026-11-10, midnight UTC.
pub(crate) const START: u64 = 1_794_268_800_000_000;
pub(crate) const SECOND: u64 = 1_000_000;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub(crate) struct TestClock {
    wall: AtomicU64,
    steady: AtomicU64,
}

impl TestClock {
    fn new(now: u64) -> Self {
        Self { wall: AtomicU64::new(now), steady: AtomicU64::new(now) }
    }

    /// Time passes.
    pub(crate) fn advance(&self, micros: u64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
        self.steady.fetch_add(micros, Ordering::SeqCst);
    }

    /// Time passes up to a moment.
    pub(crate) fn set(&self, micros: u64) {
        self.advance(micros.saturating_sub(self.now()));
        self.wall.store(micros, Ordering::SeqCst);
    }

    /// The wall clock is set, while no time passes.
    pub(crate) fn step(&self, by: i64) {
        let now = self.now().saturating_add_signed(by);
        self.wall.store(now, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> u64 {
        self.wall.load(Ordering::SeqCst)
    }

    fn steady(&self) -> SteadyTime {
        SteadyTime::from_micros(self.steady.load(Ordering::SeqCst))
    }
}

/// A deterministic random source, seeded by `seed`.
struct SeededRandom(AtomicU64);

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let mut word = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            *byte = (word ^ (word >> 31)) as u8;
        }
    }
}

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Appends to the log of the current thread.
struct LogOfThread;

impl Write for LogOfThread {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(line))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures log lines per thread.
fn keep_log() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let clock = Arc::new(|| jiff::Timestamp::UNIX_EPOCH);
        let subscriber = Logging::at(LevelFilter::INFO).subscriber(clock, || LogOfThread);
        tracing::subscriber::set_global_default(subscriber).expect("the only one");
    });
}

/// A gateway in this process.
pub(crate) struct TestGateway {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) folder: Arc<TempDir>,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<io::Result<Ending>>>,
}

/// A key, and its owners.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) organization: String,
    pub(crate) project: String,
    pub(crate) key: String,
    pub(crate) key_id: String,
}

/// A configuration with one upstream, `main`.
pub(crate) fn config(upstream: &Upstream, rest: &str) -> String {
    let url = upstream.url();
    format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"{url}\"\n\
         env_key = \"UPSTREAM_KEY\"\n{rest}"
    )
}

impl TestGateway {
    pub(crate) async fn start(config: &str) -> Self {
        Self::start_in(Arc::new(tempfile::tempdir().expect("a folder")), config, 1).await
    }

    /// The same in a folder that may contain the state of an earlier gateway.
    pub(crate) async fn start_in(folder: Arc<TempDir>, config: &str, seed: u64) -> Self {
        Self::start_at(folder, config, seed, START).await
    }

    /// Starts with further variables of the environment.
    pub(crate) async fn start_with_variables(config: &str, variables: &[(&str, &str)]) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let settings = settings_with(config, folder.path(), variables);
        Self::open(folder, settings.expect("a good configuration"), 1, START).await
    }

    /// The same at another time.
    pub(crate) async fn start_at(folder: Arc<TempDir>, config: &str, seed: u64, now: u64) -> Self {
        let settings = settings(config, folder.path()).expect("a good configuration");
        Self::open(folder, settings, seed, now).await
    }

    async fn open(folder: Arc<TempDir>, settings: Settings, seed: u64, now: u64) -> Self {
        let clock = Arc::new(TestClock::new(now));
        keep_log();
        let environment = Environment {
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SeededRandom(AtomicU64::new(seed))),
        };
        let opened = Gateway::open(settings, folder.path(), environment).await;
        let gateway = opened.expect("the gateway opens");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = gateway::serve(Arc::clone(&gateway), listener, Arc::default(), async move {
            let _ = stopped.await;
        });
        let serving = Some(tokio::spawn(serving));
        Self { gateway, address, clock, folder, stop: Some(stop), serving }
    }

    /// Another handle of it, which does not end it.
    pub(crate) fn handle(&self) -> Self {
        Self {
            gateway: Arc::clone(&self.gateway),
            address: self.address,
            clock: Arc::clone(&self.clock),
            folder: Arc::clone(&self.folder),
            stop: None,
            serving: None,
        }
    }

    /// Only opens it, which may fail.
    pub(crate) async fn try_open(config: &str) -> Result<Arc<Gateway>, gateway::OpenError> {
        Self::try_open_in(&tempfile::tempdir().expect("a folder"), config).await
    }

    pub(crate) async fn try_open_in(
        folder: &TempDir,
        config: &str,
    ) -> Result<Arc<Gateway>, gateway::OpenError> {
        let environment = Environment {
            clock: Arc::new(TestClock::new(START)),
            random: Arc::new(SeededRandom(AtomicU64::new(1))),
        };
        let settings = settings(config, folder.path()).expect("a good configuration");
        Gateway::open(settings, folder.path(), environment).await
    }

    pub(crate) fn reload(&self, config: &str) {
        let settings = settings(config, self.folder.path()).expect("a good configuration");
        self.gateway.reload(settings);
    }

    /// Requests shutdown; open requests continue.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Requests shutdown, and waits for its end.
    pub(crate) async fn end(&mut self) -> Ending {
        self.stop();
        let serving = self.serving.take().expect("it ends once");
        let ending = serving.await.expect("no panic").expect("it ends in order");
        self.gateway.close().await;
        ending
    }

    /// The log of this thread, from all gateways of the test: their runtime has no other thread.
    pub(crate) fn log(&self) -> String {
        LOG.with_borrow(|log| String::from_utf8(log.clone()).expect("text"))
    }

    /// Waits until all ledger entries are written.
    pub(crate) async fn flush(&self) {
        let patience = std::time::Duration::from_secs(10);
        self.gateway.ledger().flush(patience).await.expect("the ledger is written");
    }

    /// The value of a line of `/metrics`.
    pub(crate) async fn metric(&self, line: &str) -> u64 {
        let page = self.send(Method::GET, "/metrics", &[], "").await.text();
        let found = page.lines().find_map(|known| known.strip_prefix(line)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().expect("a number"))
    }

    // Administration.

    pub(crate) async fn admin(&self, method: Method, path: &str, body: Value) -> Value {
        self.admin_of("org-default", method, path, body).await
    }

    pub(crate) async fn admin_of(
        &self,
        of: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> Value {
        let answer = self.try_admin(of, method, path, body).await;
        assert!(answer.status.is_success(), "{path}: {} {}", answer.status, answer.text());
        answer.json()
    }

    pub(crate) async fn try_admin(
        &self,
        of: &str,
        method: Method,
        path: &str,
        body: Value,
    ) -> Answer {
        let authorization = format!("Bearer {ADMIN}");
        let headers = [("authorization", &*authorization), ("openai-organization", of)];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &headers, body).await
    }

    /// Creates an organization with a project and a key.
    pub(crate) async fn tenant(&self, tier: &str) -> Tenant {
        let body = json!({ "name": "Tests", "tier": tier });
        let made = self.admin(Method::POST, "/v1/organizations", body).await;
        self.project(made["id"].as_str().expect("an id"), Value::Null).await
    }

    /// Creates another project with a key in an organization.
    pub(crate) async fn project(&self, organization: &str, geography: Value) -> Tenant {
        let path = "/v1/organization/projects";
        let body = json!({ "name": "Project", "geography": geography });
        let made = self.admin_of(organization, Method::POST, path, body).await;
        let project = made["id"].as_str().expect("an id").to_owned();
        let path = format!("{path}/{project}/api_keys");
        let key = json!({ "name": "Key" });
        let key = self.admin_of(organization, Method::POST, &path, key).await;
        Tenant {
            organization: organization.to_owned(),
            project,
            key: key["value"].as_str().expect("a value").to_owned(),
            key_id: key["id"].as_str().expect("an id").to_owned(),
        }
    }

    /// Sets limits of a tenant's project.
    pub(crate) async fn project_limits(&self, tenant: &Tenant, model: &str, limits: Value) {
        let path = format!("/v1/organization/projects/{}/rate_limits/rl-{model}", tenant.project);
        self.admin_of(&tenant.organization, Method::POST, &path, limits).await;
    }

    /// Sets a hard limit in cents, of the project or of the organization.
    pub(crate) async fn hard_limit(&self, tenant: &Tenant, of_project: bool, cents: u64) {
        let path = match of_project {
            true => format!("/v1/organization/projects/{}/spend_limit", tenant.project),
            false => "/v1/organization/spend_limit".to_owned(),
        };
        let body = json!({ "currency": "USD", "interval": "month", "threshold_amount": cents });
        self.admin_of(&tenant.organization, Method::POST, &path, body).await;
    }

    /// The sum of costs, in micro-dollars.
    pub(crate) async fn cost(&self, organization: &str) -> u64 {
        self.flush().await;
        let path = "/v1/organization/costs?start_time=1793491200&limit=31";
        let page = self.admin_of(organization, Method::GET, path, Value::Null).await;
        let buckets = page["data"].as_array().expect("buckets").iter();
        let results = buckets.flat_map(|bucket| bucket["results"].as_array().expect("results"));
        let dollars = |result: &Value| result["amount"]["value"].as_f64().expect("an amount");
        (results.map(dollars).sum::<f64>() * 1e6).round() as u64
    }

    /// Sums of the usage page: requests, input tokens, output tokens.
    pub(crate) async fn usage(&self, organization: &str, page: &str) -> [u64; 3] {
        self.flush().await;
        let path = format!("/v1/organization/usage/{page}?start_time=1793491200&limit=31");
        let page = self.admin_of(organization, Method::GET, &path, Value::Null).await;
        let mut sums = [0; 3];
        let buckets = page["data"].as_array().expect("buckets").iter();
        for result in buckets.flat_map(|bucket| bucket["results"].as_array().expect("results")) {
            let names = ["num_model_requests", "input_tokens", "output_tokens"];
            for (sum, name) in sums.iter_mut().zip(names) {
                *sum += result[name].as_u64().unwrap_or(0);
            }
        }
        sums
    }

    // Requests.

    pub(crate) async fn post(&self, tenant: &Tenant, path: &str, body: &Value) -> Answer {
        self.post_text(tenant, path, body.to_string()).await
    }

    pub(crate) async fn post_text(
        &self,
        tenant: &Tenant,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Answer {
        self.with(tenant, Method::POST, path, &[("content-type", "application/json")], body).await
    }

    /// Sends a chat to `big`, whose input is estimated at one token.
    pub(crate) async fn chat(&self, tenant: &Tenant) -> Answer {
        self.post(tenant, "/v1/chat/completions", &chat_request()).await
    }

    pub(crate) async fn get(&self, tenant: &Tenant, path: &str) -> Answer {
        self.with(tenant, Method::GET, path, &[], "").await
    }

    /// Sends a request with the tenant's key.
    pub(crate) async fn with(
        &self,
        tenant: &Tenant,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let authorization = format!("Bearer {}", tenant.key);
        let mut all = vec![("authorization", &*authorization)];
        all.extend(headers);
        self.send(method, path, &all, body).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let begun = self.begin(method, path, headers, body).await;
        begun.expect("an answer").whole().await
    }

    /// Sends a request, and waits for the head of the response.
    pub(crate) async fn begin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<StreamingResponse, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await?);
        let (mut sender, connection) = http1::handshake(stream).await?;
        let connection = Connection(tokio::spawn(async {
            // Errors show in the response.
            let _ = connection.await;
        }));
        let mut request = Request::builder().method(method).uri(path);
        if headers.iter().all(|(name, _)| *name != "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        Ok(StreamingResponse { status, headers, body, _connection: connection })
    }

    /// A connection for several requests.
    pub(crate) async fn connect(&self) -> OpenConnection {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let connection = Connection(tokio::spawn(async {
            // Errors show in the response.
            let _ = connection.await;
        }));
        OpenConnection { sender, _connection: connection }
    }

    /// Starts a streaming chat.
    pub(crate) async fn stream(&self, tenant: &Tenant, body: &Value) -> StreamingResponse {
        self.stream_from(tenant, "/v1/chat/completions", body).await
    }

    /// The same, of any path.
    pub(crate) async fn stream_from(
        &self,
        tenant: &Tenant,
        path: &str,
        body: &Value,
    ) -> StreamingResponse {
        let authorization = format!("Bearer {}", tenant.key);
        let headers = [("authorization", &*authorization), ("content-type", "application/json")];
        self.begin(Method::POST, path, &headers, body.to_string()).await.expect("a head")
    }

    /// Waits until no request is open.
    pub(crate) async fn is_idle(&self) {
        while self.gateway.open_requests() > 0 || self.gateway.limits().open_requests() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }
}

pub(crate) fn chat_request() -> Value {
    json!({ "model": "big", "messages": [{ "role": "user", "content": "Hi" }] })
}

/// `chat_request` with more fields.
pub(crate) fn chat_with(more: Value) -> Value {
    let mut body = chat_request();
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// Resolves a configuration.
pub(crate) fn settings(config: &str, folder: &Path) -> Result<Settings, String> {
    settings_with(config, folder, &[])
}

/// The same with further variables of the environment.
fn settings_with(
    config: &str,
    folder: &Path,
    variables: &[(&str, &str)],
) -> Result<Settings, String> {
    let token = folder.join("token");
    fs::write(&token, ADMIN).expect("a file");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("its mode");
    let environment = |name: &str| {
        let key = [("UPSTREAM_KEY", UPSTREAM_KEY)];
        let mut all = variables.iter().chain(&key);
        all.find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let offline = "http://127.0.0.1:9/v1";
    let around = LoadContext { environment: &environment, folder, offline };
    Settings::read(config, Path::new("gateway.toml"), around).map_err(|error| error.to_string())
}

/// Closes the connection when dropped.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A response whose body is not read yet. Dropping it disconnects the client.
pub(crate) struct StreamingResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    _connection: Connection,
}

impl StreamingResponse {
    /// The next piece; `None` at the end, an error when the response was cut off.
    pub(crate) async fn next(&mut self) -> Option<hyper::Result<Bytes>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    Err(_) => continue,
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// The remaining text, and whether the response is complete.
    pub(crate) async fn rest(&mut self) -> (String, bool) {
        let mut text = Vec::new();
        while let Some(piece) = self.next().await {
            match piece {
                Ok(piece) => text.extend_from_slice(&piece),
                Err(_) => return (String::from_utf8_lossy(&text).into_owned(), false),
            }
        }
        (String::from_utf8_lossy(&text).into_owned(), true)
    }

    async fn whole(mut self) -> Answer {
        let mut body = Vec::new();
        while let Some(piece) = self.next().await {
            body.extend_from_slice(&piece.expect("a whole answer"));
        }
        Answer { status: self.status, headers: self.headers, body: body.into() }
    }
}

/// A connection that stays open between requests.
pub(crate) struct OpenConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    _connection: Connection,
}

impl OpenConnection {
    /// As [`TestGateway::chat`].
    pub(crate) async fn chat(&mut self, tenant: &Tenant) -> Answer {
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1/chat/completions")
            .header("host", "gateway")
            .header("authorization", format!("Bearer {}", tenant.key))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(chat_request().to_string())))
            .expect("a request");
        let response = self.sender.send_request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a whole answer").to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }
}

/// A complete response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header; empty when absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a text"))
    }

    /// Limit, remaining and reset of `requests`, `tokens` or `project-tokens`, in the names of the caller's wire.
    pub(crate) fn limits(&self, of: &str) -> [&str; 3] {
        let is_messages = self.headers.contains_key("request-id");
        let name = |what: &str| match is_messages {
            true => format!("anthropic-ratelimit-{of}-{what}"),
            false => format!("x-ratelimit-{what}-{of}"),
        };
        ["limit", "remaining", "reset"]
            .map(|what| self.headers.get(name(what)))
            .map(|value| value.map_or("", |value| value.to_str().expect("a text")))
    }

    /// Status, code and parameter of an error.
    pub(crate) fn error(&self) -> (u16, String, String) {
        let error = &self.json()["error"];
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
        (self.status.as_u16(), text("code"), text("param"))
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }
}
