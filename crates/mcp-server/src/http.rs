//! Streamable HTTP at `/mcp`: who may connect, the bounds, and the lives of sessions. The protocol
//! itself is `rmcp`'s.

mod connections;
mod sessions;

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::Extensions;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use transport::Admission;

use crate::agent::Agent;
use crate::handler::Handler;
use crate::ids;
use connections::{Connection, Connections};
pub(crate) use sessions::Session;
use sessions::Sessions;

/// The only path.
const PATH: &str = "/mcp";
/// Longest body of a request, in bytes: a longer one is refused with 413.
const MAX_BODY: usize = 8 << 20;
/// Time for a body to arrive: then the request is refused with 408.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the head of a request to arrive, and for a connection to be without a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// Connections at once. A further one takes the place of one without a request, and waits where there is
/// none.
const MAX_CONNECTIONS: usize = 256;
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Serves clients on the listeners until `stop` resolves. Then running turns are interrupted, and the
/// server ends with everything stored.
pub async fn serve_http(
    agent: Agent,
    listeners: Vec<TcpListener>,
    admission: Admission,
    stop: impl Future<Output = ()>,
) {
    let end = CancellationToken::new();
    let sessions = Arc::new(Sessions::default());
    let config = StreamableHttpServerConfig::default()
        // The admission checks both, before anything else.
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_max_request_body_bytes(MAX_BODY)
        .with_cancellation_token(end.child_token());
    let (handled, gone) = (agent.clone(), end.child_token());
    let mcp = StreamableHttpService::new(
        move || Ok(Handler::new(handled.clone(), gone.clone())),
        sessions.manager().clone(),
        config,
    );
    let front = Arc::new(Front { admission, mcp, sessions: sessions.clone() });
    let connections = Connections::new(MAX_CONNECTIONS);
    let mut serving = JoinSet::new();
    for listener in listeners {
        serving.spawn(accept(listener, front.clone(), connections.clone()));
    }
    serving.spawn(async move { sessions.end_idle().await });
    stop.await;
    serving.shutdown().await;
    end.cancel();
    agent.close().await;
}

/// Accepts connections for as long as it is polled.
async fn accept(listener: TcpListener, front: Arc<Front>, connections: Arc<Connections>) {
    loop {
        let accepted = listener.accept().await.and_then(|(stream, _)| {
            // Every write is a whole event, so waiting to join small packets only delays it.
            let _ = stream.set_nodelay(true);
            let local = stream.local_addr()?.ip();
            Ok((stream, local))
        });
        let Ok((stream, local)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(connection) = connections.admit().await else { return };
        tokio::spawn(serve_connection(stream, local, front.clone(), connection));
    }
}

async fn serve_connection(
    stream: TcpStream,
    local: IpAddr,
    front: Arc<Front>,
    connection: Arc<Connection>,
) {
    let respond = |request| {
        let (front, connection) = (front.clone(), connection.clone());
        async move { Ok::<_, Infallible>(front.respond(request, local, &connection).await) }
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    // A client may break off at any time; that is no error of the server.
    tokio::select! {
        _ = http.serve_connection(TokioIo::new(stream), service_fn(respond)) => {}
        () = connection.closed() => {}
    }
}

/// The checks before the protocol.
struct Front {
    admission: Admission,
    mcp: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<Sessions>,
}

impl Front {
    async fn respond(
        &self,
        request: Request<Incoming>,
        local: IpAddr,
        connection: &Arc<Connection>,
    ) -> Answer {
        match self.checked(request, local).await {
            Ok(request) => {
                let busy = connection.busy();
                self.pass(request).await.map(|body| GuardedBody { body, _guard: busy }.boxed())
            }
            Err(refused) => (*refused).map(BodyExt::boxed),
        }
    }

    /// Checks the head, then reads the body.
    async fn checked(
        &self,
        request: Request<Incoming>,
        local: IpAddr,
    ) -> Result<Request<Bytes>, Box<Response<Full<Bytes>>>> {
        if let Some(refused) = self.admission.refusal(&request, local) {
            return Err(Box::new(refused));
        }
        if request.uri().path() != PATH {
            return Err(text(StatusCode::NOT_FOUND, "not found: the MCP endpoint is /mcp\n"));
        }
        if begins_session(&request) && self.sessions.is_full().await {
            let message = "too many sessions: try again later\n";
            return Err(text(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        let (head, body) = request.into_parts();
        let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await;
        match body {
            Ok(Ok(body)) => Ok(Request::from_parts(head, body.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(text(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 8 MiB\n"))
            }
            Ok(Err(_)) => Err(text(StatusCode::BAD_REQUEST, "the body cannot be read\n")),
            Err(_) => Err(text(StatusCode::REQUEST_TIMEOUT, "the body took more than 30 s\n")),
        }
    }

    /// Passes a request on to the protocol. Its session, if any, is in use until the response has
    /// been sent.
    async fn pass(&self, mut request: Request<Bytes>) -> Answer {
        let ends = request.method() == Method::DELETE;
        let session = self.sessions.of(request.headers()).await;
        let mut open = session.as_ref().map(Session::open);
        if let Some((id, error)) = problem(&request) {
            return invalid(error, id).map(BodyExt::boxed);
        }
        let running = match begun(request.body(), session.as_ref()) {
            Ok(running) => running,
            Err(error) => return invalid(error, None).map(BodyExt::boxed),
        };
        request.extensions_mut().extend(running);
        if let Some(session) = &session {
            request.extensions_mut().insert(session.clone());
        }
        let response = self.mcp.handle(request.map(Full::new)).await;
        match session {
            Some(session) if ends && response.status().is_success() => session.end(),
            Some(_) => {}
            None => open = self.sessions.of(response.headers()).await.as_ref().map(Session::open),
        }
        response.map(|body| GuardedBody { body, _guard: open }.boxed())
    }
}

/// Returns the mistake in a message that is JSON by its header but not a message of the protocol,
/// with its id.
fn problem(request: &Request<Bytes>) -> Option<(Option<RequestId>, ErrorData)> {
    let media_type = request.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let is_json = media_type.to_ascii_lowercase().starts_with("application/json");
    if request.method() != Method::POST || !is_json {
        return None;
    }
    let value: Value = match serde_json::from_slice(request.body()) {
        Ok(value) => value,
        Err(error) => {
            let message = format!("Parse error: the body is no JSON ({error})");
            return Some((None, ErrorData::new(ErrorCode::PARSE_ERROR, message, None)));
        }
    };
    if let Some(error) = ids::problem(&value) {
        return Some((None, error));
    }
    let id = value.get("id").cloned().and_then(|id| serde_json::from_value(id).ok());
    let error = serde_json::from_value::<ClientJsonRpcMessage>(value).err()?;
    let message = format!("Invalid request: the body is not an MCP message ({error})");
    Some((id, ErrorData::invalid_request(message, None)))
}

/// Notes the request of a session that the body holds, if it does.
///
/// # Errors
/// Its id is unusable, or that of one that runs.
fn begun(body: &[u8], session: Option<&Session>) -> Result<Extensions, ErrorData> {
    let mut extensions = Extensions::new();
    // What is no JSON is refused by the protocol.
    let Ok(message) = serde_json::from_slice::<Message>(body) else { return Ok(extensions) };
    let message = message.into_value();
    if let Some(error) = ids::problem(&message) {
        return Err(error);
    }
    let id = message.get("id").filter(|_| message.get("method").is_some());
    if let (Some(session), Some(Ok(id))) = (session, id.map(RequestId::deserialize)) {
        extensions.insert(session.begin(id)?);
    }
    Ok(extensions)
}

/// The members of a message that say whether it is a request.
#[derive(Deserialize)]
struct Message {
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<IgnoredAny>,
}

impl Message {
    fn into_value(self) -> Value {
        let mut members = Map::new();
        members.extend(self.id.map(|id| ("id".to_owned(), id)));
        members.extend(self.method.map(|_| ("method".to_owned(), Value::Null)));
        Value::Object(members)
    }
}

/// A member that is there, also as null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// The answer to a message that is not a valid request.
fn invalid(error: ErrorData, id: Option<RequestId>) -> Response<Full<Bytes>> {
    let message = ServerJsonRpcMessage::error(error, id);
    let body = serde_json::to_vec(&message).unwrap_or_default();
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Returns whether a request may be the `initialize` of a session: those of 2026-07-28 name another
/// method.
fn begins_session<B>(request: &Request<B>) -> bool {
    let method = request.headers().get("mcp-method");
    request.method() == Method::POST
        && !request.headers().contains_key(sessions::HEADER)
        && method.is_none_or(|method| method == "initialize")
}

/// A body that holds something until its last byte, or until the client breaks off: the use of a session,
/// the request of a connection.
struct GuardedBody<G> {
    body: BoxBody<Bytes, Infallible>,
    _guard: G,
}

impl<G: Unpin> Body for GuardedBody<G> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn text(status: StatusCode, body: &'static str) -> Box<Response<Full<Bytes>>> {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = status;
    Box::new(response)
}
