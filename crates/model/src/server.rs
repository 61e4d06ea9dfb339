//! The scripted model as an HTTP server: `POST {any prefix}/responses` streams the script's next
//! response, `GET …/models` lists one model. It keeps no state beyond the script's conversations.

use std::{
    convert::Infallible,
    future::Future,
    io::{self, Write},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
    header,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::{json, value::RawValue};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time};

use crate::compression;
use crate::script::{
    Script,
    engine::{Answer, Engine, Refusal},
    player::{Action, Player},
};

/// Connections served at once; further ones wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 1024;
/// Largest request body in bytes; a larger one is refused with 413.
pub(crate) const MAX_REQUEST_BYTES: usize = 64 << 20;
/// Pause after a failed accept, which is out of file descriptors most of the time.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where requests are logged: one JSON object a line, `method`, `path`, `status` and, where it is
/// JSON, `body`. Headers are left out, because they carry credentials.
pub type RequestLog = Box<dyn Write + Send>;

struct State {
    engine: Engine,
    log: Option<Mutex<RequestLog>>,
}

/// Serves `script` on `listener` until `shutdown` is done; open connections then end at once.
///
/// # Errors
/// When the listener or the log fails for good; what one client does never ends the server.
pub async fn serve(
    listener: TcpListener,
    script: Script,
    log: Option<RequestLog>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let state = Arc::new(State { engine: Engine::new(script), log: log.map(Mutex::new) });
    listen(listener, shutdown, move |request| {
        let state = Arc::clone(&state);
        async move { state.answer(request).await }
    })
    .await
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
    // Dropping the set ends the connections.
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
            // How a connection ended concerns its client alone, and the client knows.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(slot);
        });
    }
}

/// A connection with its slot; `None` when accepting failed and may work later.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    // Only latency would suffer.
    let _ = stream.set_nodelay(true);
    Some((stream, slot))
}

#[derive(Serialize)]
struct LogLine<'a> {
    method: &'a str,
    path: &'a str,
    status: u16,
    body: Option<&'a RawValue>,
}

type AnswerBody = Either<Full<Bytes>, Playing>;

impl State {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Response<impl Body<Data = Bytes, Error = io::Error> + use<>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let mut logged = Bytes::new();
        let response = match (&head.method, path.rsplit('/').next()) {
            (&Method::POST, Some("responses")) => {
                match Limited::new(body, MAX_REQUEST_BYTES).collect().await {
                    Ok(body) => {
                        logged = body.to_bytes();
                        let encoding = head.headers.get(header::CONTENT_ENCODING);
                        if encoding.is_some_and(|encoding| encoding == "zstd") {
                            let plain = compression::decoded(&logged, MAX_REQUEST_BYTES);
                            logged = plain.unwrap_or_default();
                        }
                        self.respond(&logged, &head.headers).await
                    }
                    Err(error) => unread_body(&*error),
                }
            }
            (&Method::GET, Some("models")) => {
                let models = json!({"object": "list",
                    "data": [{"id": "scripted", "object": "model", "owned_by": "script"}]});
                plain(StatusCode::OK, models.to_string().into())
            }
            _ => {
                let message = format!(
                    "{} {path} is not served here; use POST …/responses or GET …/models",
                    head.method
                );
                let error = json!({"error": {"code": "not_found", "message": message}});
                plain(StatusCode::NOT_FOUND, error.to_string().into())
            }
        };
        self.write_log(&head.method, &path, response.status(), &logged);
        response.map(|body| body.map_err(io::Error::other))
    }

    async fn respond(&self, body: &[u8], headers: &hyper::HeaderMap) -> Response<AnswerBody> {
        match self.engine.answer(body, headers) {
            Answer::Refusal(refusal) => refused(refusal).await,
            Answer::Stream(player) => {
                let mut response = Response::new(Either::Right(Playing::new(player)));
                let kind = header::HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
        }
    }

    fn write_log(&self, method: &Method, path: &str, status: StatusCode, body: &[u8]) {
        let Some(log) = &self.log else { return };
        let body = serde_json::from_slice(body).ok();
        let line = LogLine { method: method.as_str(), path, status: status.as_u16(), body };
        let Ok(mut line) = serde_json::to_vec(&line) else { return };
        line.push(b'\n');
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk must not change what the model under test does.
        let _ = log.write_all(&line).and_then(|()| log.flush());
    }
}

fn plain(status: StatusCode, body: Bytes) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn unread_body(error: &(dyn std::error::Error + 'static)) -> Response<AnswerBody> {
    let (status, code) = match error.is::<http_body_util::LengthLimitError>() {
        true => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
        false => (StatusCode::BAD_REQUEST, "unreadable_body"),
    };
    let error = json!({"error": {"code": code, "message": error.to_string()}});
    plain(status, error.to_string().into())
}

async fn refused(refusal: Refusal) -> Response<AnswerBody> {
    time::sleep(refusal.delay).await;
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut response = plain(status, refusal.body);
    for (name, value) in &refusal.headers {
        let name = header::HeaderName::from_bytes(name.as_bytes());
        let value = header::HeaderValue::from_str(value);
        // The script's validation refused the others.
        if let (Ok(name), Ok(value)) = (name, value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// A scripted response as a body: blocks of events, with the script's pauses in between.
struct Playing {
    player: Player,
    pause: Option<Pin<Box<time::Sleep>>>,
    /// The script's ending action, kept because a body may be polled again after it.
    end: Option<Action>,
}

impl Playing {
    fn new(player: Player) -> Self {
        Self { player, pause: None, end: None }
    }
}

impl Body for Playing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.end {
            Some(Action::Cut) => {
                let cut = io::Error::other("the script cuts the connection here");
                return Poll::Ready(Some(Err(cut)));
            }
            // The client's leaving ends the connection, and with it this body.
            Some(_) => return Poll::Pending,
            None => {}
        }
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match self.player.next() {
                Some(Action::Bytes(bytes)) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Action::Pause(pause)) => self.pause = Some(Box::pin(time::sleep(pause))),
                Some(end @ (Action::Cut | Action::Idle)) => {
                    // An error drops what is not written yet; a body that pauses is flushed.
                    self.end = Some(end);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                None => return Poll::Ready(None),
            }
        }
    }
}
