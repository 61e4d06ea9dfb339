//! A controlled upstream: responds by script, waits for a signal, hangs, disconnects, reports false
//! usage; and records what it received. It knows nothing of the gateway.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;

/// A controlled upstream.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) method: Method,
    /// The path with its query.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the upstream received JSON")
    }
}

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    before: Vec<Step>,
    status: StatusCode,
    headers: Vec<(String, String)>,
    body: Vec<Step>,
}

/// A step of a response.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bytes(Bytes),
    /// Waits until the gate lets a step pass.
    Wait(Gate),
    Hang,
    /// Closes the connection.
    Cut,
}

/// Lets a counted number of steps pass.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self, count: usize) {
        self.0.add_permits(count);
    }

    async fn pass(&self) {
        self.0.acquire().await.expect("a gate is never taken away").forget();
    }
}

impl Script {
    pub(crate) fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let length = body.len().to_string();
        let plain = Self {
            before: Vec::new(),
            status: StatusCode::from_u16(status).expect("a status"),
            headers: Vec::new(),
            body: vec![Step::Bytes(body)],
        };
        plain.header("content-type", content_type).header("content-length", &length)
    }

    pub(crate) fn json(value: &Value) -> Self {
        Self::error(200, value)
    }

    pub(crate) fn error(status: u16, value: &Value) -> Self {
        Self::new(status, "application/json", value.to_string())
    }

    /// Events verbatim, one piece each.
    pub(crate) fn events<T: AsRef<str>>(pieces: impl IntoIterator<Item = T>) -> Self {
        let bytes = |piece: T| Step::Bytes(Bytes::copy_from_slice(piece.as_ref().as_bytes()));
        Self::stream(pieces.into_iter().map(bytes).collect())
    }

    pub(crate) fn stream(body: Vec<Step>) -> Self {
        Self { body, ..Self::chunked("text/event-stream") }
    }

    /// A response without a length; its body must be set.
    pub(crate) fn chunked(content_type: &str) -> Self {
        let plain = Self {
            before: Vec::new(),
            status: StatusCode::OK,
            headers: Vec::new(),
            body: Vec::new(),
        };
        plain.header("content-type", content_type)
    }

    pub(crate) fn body(mut self, body: Vec<Step>) -> Self {
        self.body = body;
        self
    }

    /// Adds a step before the head.
    pub(crate) fn before(mut self, step: Step) -> Self {
        self.before.push(step);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A chat completion with this usage.
pub(crate) fn chat(usage: &Value) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "upstream",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "Hello." },
            "finish_reason": "stop",
        }],
        "usage": usage,
    })
}

pub(crate) fn usage(input: u64, output: u64) -> Value {
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input + output,
    })
}

pub(crate) fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

type Otherwise = dyn Fn(&Received) -> Script + Send + Sync;

struct Shared {
    scripts: Mutex<VecDeque<Script>>,
    otherwise: Box<Otherwise>,
    received: Mutex<Vec<Received>>,
    arrived: Notify,
    /// The tasks that accept and serve connections.
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Upstream {
    /// Starts an upstream that answers each request without a script with a chat completion of 3
    /// and 2 tokens.
    pub(crate) async fn start() -> Self {
        Self::answering(|_| Script::json(&chat(&usage(3, 2)))).await
    }

    pub(crate) async fn answering(
        otherwise: impl Fn(&Received) -> Script + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            scripts: Mutex::default(),
            otherwise: Box::new(otherwise),
            received: Mutex::default(),
            arrived: Notify::new(),
            tasks: Mutex::default(),
        });
        serve(&shared, listener);
        Self { address, shared }
    }

    /// Ends it as a kill does: all connections close, and none is accepted.
    pub(crate) fn kill(&self) {
        self.shared.tasks.lock().expect("no panic").drain(..).for_each(|task| task.abort());
    }

    /// Starts it again at the same address.
    pub(crate) async fn restart(&self) {
        let listener = loop {
            // The tasks that were aborted give the port back when they are dropped.
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        serve(&self.shared, listener);
    }

    /// Sets the responses to the next requests, in order.
    pub(crate) fn script(&self, scripts: impl IntoIterator<Item = Script>) {
        self.shared.scripts.lock().expect("no panic").extend(scripts);
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.shared.received.lock().expect("no panic").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.received.lock().expect("no panic").len()
    }

    pub(crate) fn last(&self) -> Received {
        self.received().pop().expect("the upstream received something")
    }

    /// Waits until this many requests have been received since the start.
    pub(crate) async fn has_received(&self, count: usize) {
        loop {
            let arrived = self.shared.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if self.count() >= count {
                return;
            }
            arrived.await;
        }
    }

    /// Its base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

fn serve(shared: &Arc<Shared>, listener: TcpListener) {
    let serving = Arc::clone(shared);
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let shared = Arc::clone(&serving);
            let answer = service_fn(move |request| answer(Arc::clone(&shared), request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            let connection = tokio::spawn(connection).abort_handle();
            serving.tasks.lock().expect("no panic").push(connection);
        }
    });
    shared.tasks.lock().expect("no panic").push(accepting.abort_handle());
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Err(cut()) };
    let received = Received {
        method: head.method,
        path: head.uri.path_and_query().map_or_else(String::new, ToString::to_string),
        headers: head.headers,
        body: body.to_bytes(),
    };
    let script = shared.scripts.lock().expect("no panic").pop_front();
    let script = script.unwrap_or_else(|| (shared.otherwise)(&received));
    shared.received.lock().expect("no panic").push(received);
    shared.arrived.notify_waiters();
    for step in script.before {
        run(step).await?;
    }
    let steps = stream::unfold(VecDeque::from(script.body), |mut steps| async move {
        loop {
            match run(steps.pop_front()?).await {
                Ok(None) => {}
                Ok(Some(bytes)) => return Some((Ok(Frame::data(bytes)), steps)),
                Err(error) => return Some((Err(error), steps)),
            }
        }
    });
    let mut response = Response::builder().status(script.status);
    for (name, value) in &script.headers {
        response = response.header(name, value);
    }
    Ok(response.body(StreamBody::new(steps).boxed_unsync()).expect("a response"))
}

async fn run(step: Step) -> Result<Option<Bytes>, std::io::Error> {
    match step {
        Step::Bytes(bytes) => return Ok(Some(bytes)),
        Step::Wait(gate) => gate.pass().await,
        Step::Hang => return Ok(std::future::pending::<Option<Bytes>>().await),
        Step::Cut => {
            // Earlier pieces are sent first.
            tokio::task::yield_now().await;
            return Err(cut());
        }
    }
    Ok(None)
}

fn cut() -> std::io::Error {
    std::io::Error::other("cut")
}
