//! The scripted model and the offline model as HTTP servers. A request for a response, in any of the four wires, gets
//! the script's next response, or the offline model's; both serve the other routes of the hosted API with the offline
//! model.

use std::{
    convert::Infallible,
    future::Future,
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    header,
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time};

use crate::script::{Script, engine::Engine};
use crate::wires::{Memory, route};

mod audio;
mod chat;
mod embeddings;
mod files;
mod form;
mod images;
mod kept;
mod moderations;
mod objects;
mod offline;
mod query;
mod reply;
mod responses;
mod saying;
mod vector_stores;
mod videos;
mod websocket;
mod wires;

use offline::{Call, Offline};
pub use offline::{Clock, OfflineModel};
use reply::{AnswerBody, Refused, Reply, plain};

/// Connections served at once; further ones wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 1024;
/// Largest request body in bytes; a larger one is refused with 413.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 << 20;
/// Pause after a failed accept; the usual cause is a lack of file descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The log of requests: one JSON object per line with `method`, `path`, `status` and, if it is
/// JSON, `body`, and the header `traceparent` where there is one. Other headers are omitted, because they
/// contain credentials.
pub type RequestLog = Box<dyn Write + Send>;

struct State {
    /// Gives the responses if there is a script.
    engine: Option<Engine>,
    offline: Offline,
    log: Option<Mutex<RequestLog>>,
    memory: Arc<Memory>,
}

/// Serves `script` on `listener` until `shutdown` is done; then closes open connections
/// immediately.
///
/// # Errors
/// The listener or the log fails permanently; a client's errors never end the server.
pub async fn serve(
    listener: TcpListener,
    script: Script,
    log: Option<RequestLog>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let offline = OfflineModel { seed: 0, clock: Arc::new(unix_seconds) };
    run(listener, Some(Engine::new(script)), offline, log, shutdown).await
}

/// Serves the offline model on `listener` until `shutdown` is done; then closes open connections
/// immediately. Every response states that it is the offline model's.
///
/// # Errors
/// The listener or the log fails permanently; a client's errors never end the server.
pub async fn serve_offline(
    listener: TcpListener,
    model: OfflineModel,
    log: Option<RequestLog>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    run(listener, None, model, log, shutdown).await
}

async fn run(
    listener: TcpListener,
    engine: Option<Engine>,
    model: OfflineModel,
    log: Option<RequestLog>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let state = State {
        engine,
        offline: Offline::new(model),
        log: log.map(Mutex::new),
        memory: Arc::default(),
    };
    let state = Arc::new(state);
    // Dropping the set closes the WebSockets, of which connections know nothing after their upgrade.
    let sockets = Arc::new(Mutex::new(JoinSet::new()));
    let open = Arc::downgrade(&sockets);
    let ended = listen(listener, shutdown, move |request| {
        let (state, open) = (Arc::clone(&state), open.clone());
        async move {
            if state.engine.is_some() && websocket::is_upgrade(&request) {
                return websocket::accept(state, request, &open)
                    .map(|body| body.map_err(io::Error::other));
            }
            state.answer(request).await.map(|body| body.map_err(io::Error::other))
        }
    })
    .await;
    drop(sockets);
    ended
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Accepts connections and answers their requests with `answer` until `shutdown` is done.
pub(crate) async fn listen<F, A, B>(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    answer: F,
) -> io::Result<()>
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes, Error = io::Error> + Send + 'static,
{
    let mut shutdown = std::pin::pin!(shutdown);
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // Dropping the set closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => return Ok(()),
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = accept(&listener, &slots) => accepted,
        };
        let Some((stream, slot)) = accepted else {
            time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let answer = answer.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(request);
                async move { Ok::<_, Infallible>(answer.await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).half_close(false);
            // An error of a connection concerns only its client, which notices it.
            let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            drop(slot);
        });
    }
}

/// A connection with its slot; `None` after a failed accept that may be retried.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    // A failure affects only latency.
    let _ = stream.set_nodelay(true);
    Some((stream, slot))
}

#[derive(Serialize)]
struct LogLine<'a> {
    method: &'a str,
    path: &'a str,
    status: u16,
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let mut logged = Bytes::new();
        let response = match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
            Ok(body) => {
                logged = body.to_bytes();
                let encoding = head.headers.get(header::CONTENT_ENCODING);
                if encoding.is_some_and(|encoding| encoding == "zstd") {
                    let plain = decompressed(&logged);
                    logged = plain.unwrap_or_default();
                }
                self.respond(&head, &logged).await
            }
            Err(error) => unread_body(&*error),
        };
        let traceparent = head.headers.get("traceparent").and_then(|value| value.to_str().ok());
        self.write_log((&head.method, traceparent), &path, response.status(), &logged);
        response
    }

    async fn respond(&self, head: &Parts, body: &Bytes) -> Response<AnswerBody> {
        let path = head.uri.path();
        let route = route(&head.method, path, head.uri.query().unwrap_or_default(), &head.headers);
        if let Some(response) = self.in_wire(route, head, body).await {
            return response;
        }
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let call = Call::new(head.uri.query().unwrap_or_default(), content_type, body);
        let answered = self.offline.answer(&head.method, path, &call);
        answered.map_or_else(Refused::into_response, Reply::into_response)
    }

    fn write_log(
        &self,
        (method, traceparent): (&Method, Option<&str>),
        path: &str,
        status: StatusCode,
        body: &[u8],
    ) {
        let Some(log) = &self.log else { return };
        let body = serde_json::from_slice(body).ok();
        let (method, status) = (method.as_str(), status.as_u16());
        let line = LogLine { method, path, status, body, traceparent };
        let Ok(mut line) = serde_json::to_vec(&line) else { return };
        line.push(b'\n');
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not change the behaviour of the model under test.
        let _ = log.write_all(&line).and_then(|()| log.flush());
    }
}

/// The decompressed request body; `None` if it is damaged or larger than [`MAX_REQUEST_BYTES`].
fn decompressed(body: &[u8]) -> Option<Bytes> {
    zstd::bulk::decompress(body, MAX_REQUEST_BYTES).ok().map(Bytes::from)
}

fn unread_body(error: &(dyn std::error::Error + 'static)) -> Response<AnswerBody> {
    let (status, code) = match error.is::<http_body_util::LengthLimitError>() {
        true => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
        false => (StatusCode::BAD_REQUEST, "unreadable_body"),
    };
    let error = json!({"error": {"code": code, "message": error.to_string()}});
    plain(status, error.to_string().into())
}
