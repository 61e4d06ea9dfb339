//! A collector inside the process, for tests: takes all three encodings, decodes them, and misbehaves on
//! demand.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
pub use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
pub use opentelemetry_proto::tonic::logs::v1::LogRecord;
pub use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data};
pub use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::grpc;

/// The collector's reaction to a request.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Takes it.
    Accept,
    /// Takes it but for so many items.
    Partial(i64),
    /// Answers with a status and, perhaps, `Retry-After`.
    Status(u16, Option<&'static str>),
    /// Answers with a status of gRPC.
    GrpcStatus(&'static str),
    /// Never answers.
    Hang,
    /// Closes the connection.
    Close,
    /// Takes it, and answers without end.
    Endless,
}

/// A message that arrived, whatever was answered.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    /// The message as it was sent.
    pub body: Bytes,
    pub spans: Vec<Span>,
    pub logs: Vec<LogRecord>,
    pub metrics: Vec<Metric>,
    /// Of the resource.
    pub resource: Vec<KeyValue>,
    pub schema_url: String,
}

/// A collector for tests.
pub struct Collector {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    _stop: watch::Sender<()>,
}

struct Shared {
    received: Mutex<Vec<Received>>,
    behaviours: Mutex<VecDeque<Behaviour>>,
    count: watch::Sender<usize>,
}

impl Collector {
    /// Listens on loopback. The first requests meet the behaviours, further ones are accepted.
    ///
    /// # Panics
    /// Without a free port.
    pub async fn start(behaviours: impl IntoIterator<Item = Behaviour>) -> Self {
        Self::listen(behaviours, None).await
    }

    /// The same with TLS.
    ///
    /// # Panics
    /// Without a free port.
    pub async fn start_tls(tls: TlsAcceptor) -> Self {
        Self::listen([], Some(tls)).await
    }

    async fn listen(
        behaviours: impl IntoIterator<Item = Behaviour>,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            received: Mutex::default(),
            behaviours: Mutex::new(behaviours.into_iter().collect()),
            count: watch::Sender::new(0),
        });
        let (stop, mut stopped) = watch::channel(());
        let (serving, scheme) = (shared.clone(), if tls.is_some() { "https" } else { "http" });
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = stopped.changed() => return,
                    accepted = listener.accept() => {
                        let Ok((stream, _)) = accepted else { return };
                        tokio::spawn(connection(stream, tls.clone(), serving.clone()));
                    }
                }
            }
        });
        Self { address, scheme, shared, _stop: stop }
    }

    /// Its address, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.address.port())
    }

    /// All messages, as soon as there are so many.
    pub async fn received(&self, count: usize) -> Vec<Received> {
        self.until(|received| received.len() >= count).await
    }

    /// All spans, as soon as one has this name.
    pub async fn spans_with(&self, name: &str) -> Vec<Span> {
        let has = |received: &[Received]| {
            received.iter().any(|one| one.spans.iter().any(|span| span.name == name))
        };
        self.until(has).await.into_iter().flat_map(|one| one.spans).collect()
    }

    /// All messages, as soon as they fit.
    ///
    /// # Panics
    /// Never: the collector holds the sender.
    pub async fn until(&self, fits: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let mut count = self.shared.count.subscribe();
        loop {
            count.borrow_and_update();
            let received = self.shared.lock().clone();
            if fits(&received) {
                return received;
            }
            count.changed().await.expect("the collector holds the sender");
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Behaviour {
        let mut behaviours = self.behaviours.lock().unwrap_or_else(PoisonError::into_inner);
        behaviours.pop_front().unwrap_or(Behaviour::Accept)
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let service = service_fn(move |request| answer(request, shared.clone()));
    let server = auto::Builder::new(TokioExecutor::new());
    // A connection that breaks off is what the tests are about.
    match tls {
        None => drop(server.serve_connection(TokioIo::new(stream), service).await),
        Some(tls) => {
            let Ok(stream) = tls.accept(stream).await else { return };
            drop(server.serve_connection(TokioIo::new(stream), service).await);
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let content_type = text(CONTENT_TYPE).unwrap_or_default().to_owned();
    let Some(received) = read(head.uri.path(), head.headers.clone(), &content_type, body) else {
        return Ok(status(400));
    };
    shared.lock().push(received);
    let behaviour = shared.next();
    shared.count.send_modify(|count| *count += 1);
    let is_grpc = content_type == grpc::CONTENT_TYPE;
    let rejected = match behaviour {
        Behaviour::Accept => 0,
        Behaviour::Partial(items) => items,
        Behaviour::Status(code, after) => {
            let mut answer = status(code);
            if let Some(after) = after {
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(after));
            }
            return Ok(answer);
        }
        Behaviour::GrpcStatus(code) => return Ok(grpc_answer(Vec::new(), code)),
        Behaviour::Hang => return std::future::pending().await,
        // An error of the service ends the connection without an answer.
        Behaviour::Close => return Err(broken().await),
        Behaviour::Endless => return Ok(endless()),
    };
    let partial_success = (rejected > 0).then(|| ExportTracePartialSuccess {
        rejected_spans: rejected,
        error_message: "too old".to_owned(),
    });
    let message = ExportTraceServiceResponse { partial_success };
    if is_grpc {
        let framed = grpc::frame(&message.encode_to_vec()).unwrap_or_default();
        return Ok(grpc_answer(framed.into(), "0"));
    }
    let bytes = match content_type.as_str() {
        "application/json" => serde_json::to_vec(&message).unwrap_or_default(),
        _ => message.encode_to_vec(),
    };
    Ok(Response::new(Full::new(Bytes::from(bytes)).boxed_unsync()))
}

/// An error of the HTTP library: that of reading something that is no HTTP.
async fn broken() -> hyper::Error {
    let (client, server) = tokio::io::duplex(16);
    drop(client);
    let handshake = hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(
        TokioExecutor::new(),
        TokioIo::new(server),
    );
    match handshake.await {
        Err(error) => error,
        Ok((_, connection)) => connection.await.expect_err("the other end is closed"),
    }
}

fn status(code: u16) -> Response<Body> {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
    answer
}

fn grpc_answer(body: Vec<u8>, code: &'static str) -> Response<Body> {
    let name = HeaderName::from_static("grpc-status");
    let trailers: HeaderMap = [(name, HeaderValue::from_static(code))].into_iter().collect();
    let frames = [Ok(Frame::data(Bytes::from(body))), Ok(Frame::trailers(trailers))];
    let stream = StreamBody::new(futures_of(frames));
    let mut answer = Response::new(BodyExt::boxed_unsync(stream));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(grpc::CONTENT_TYPE));
    answer
}

fn endless() -> Response<Body> {
    let chunk = Bytes::from(vec![b' '; 32 * 1024]);
    let frames = std::iter::repeat_with(move || Ok(Frame::data(chunk.clone())));
    Response::new(BodyExt::boxed_unsync(StreamBody::new(futures_of(frames))))
}

fn futures_of<T>(items: impl IntoIterator<Item = T>) -> impl futures_util::Stream<Item = T> {
    futures_util::stream::iter(items)
}

fn read(path: &str, headers: HeaderMap, content_type: &str, body: Bytes) -> Option<Received> {
    let message = match content_type {
        grpc::CONTENT_TYPE => Bytes::copy_from_slice(grpc::message(&body)?),
        _ => body.clone(),
    };
    let is_json = content_type == "application/json";
    let mut received = Received {
        path: path.to_owned(),
        headers,
        body,
        spans: Vec::new(),
        logs: Vec::new(),
        metrics: Vec::new(),
        resource: Vec::new(),
        schema_url: String::new(),
    };
    let is_for = |http: &str, grpc: &str| path.ends_with(http) || path.contains(grpc);
    if is_for("/v1/traces", ".TraceService/") {
        let found: ExportTraceServiceRequest = decode(&message, is_json)?;
        for part in found.resource_spans {
            received.schema_url = part.schema_url;
            received.resource = part.resource.unwrap_or_default().attributes;
            received.spans.extend(part.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else if is_for("/v1/logs", ".LogsService/") {
        let found: ExportLogsServiceRequest = decode(&message, is_json)?;
        for part in found.resource_logs {
            received.schema_url = part.schema_url;
            received.resource = part.resource.unwrap_or_default().attributes;
            received.logs.extend(part.scope_logs.into_iter().flat_map(|scope| scope.log_records));
        }
    } else if is_for("/v1/metrics", ".MetricsService/") {
        let found: ExportMetricsServiceRequest = decode(&message, is_json)?;
        for part in found.resource_metrics {
            received.schema_url = part.schema_url;
            received.resource = part.resource.unwrap_or_default().attributes;
            received.metrics.extend(part.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
        }
    } else {
        return None;
    }
    Some(received)
}

fn decode<M: Message + Default + DeserializeOwned>(bytes: &[u8], is_json: bool) -> Option<M> {
    match is_json {
        true => serde_json::from_slice(bytes).ok(),
        false => M::decode(bytes).ok(),
    }
}

/// The value of an attribute as text.
#[must_use]
pub fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|one| one.key == key)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(value) => value.to_string(),
        other => format!("{other:?}"),
    })
}
