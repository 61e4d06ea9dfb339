//! A proxy between a client and a real provider, on any wire, that writes a script reproducing the model's responses. It
//! records responses only: neither requests nor credentials reach the file.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use http_client::{HttpClient, error_chain};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode, Uri,
    body::{Body, Frame, Incoming},
    header::{self, HeaderName},
    http::response::Parts,
};
use model::{Endpoint, Event, Options, Provider};
use serde_json::json;
use tokio::net::TcpListener;
use wire::{Failure, Wire};

use crate::{
    script::{ErrorStep, Step},
    server::{self, MAX_REQUEST_BYTES},
    wires::{Route, conversation_of, route},
};
use reading::Reading;
use tape::Tape;

mod reading;
mod steps;
mod tape;

/// Response headers that are passed to the client, and that an error step repeats.
const PASSED_HEADERS: [&str; 7] = [
    "content-type",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "x-request-id",
    "request-id",
    "anthropic-organization-id",
];
/// Beginnings of the names of others.
const PASSED_PREFIXES: [&str; 2] = ["x-ratelimit-", "anthropic-ratelimit-"];
/// Request headers that are passed to the provider.
const SENT_HEADERS: [&str; 2] = ["anthropic-version", "anthropic-beta"];
/// Most bytes of an upstream error that are recorded.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Most bytes of a response that is no stream.
const MAX_DOCUMENT: usize = 32 << 20;

/// Serves on `listener`, forwards requests for responses, counts of tokens and lists of models, in any wire, to
/// `upstream` with its credentials, and keeps `out` a script of the responses so far: the file is replaced atomically
/// after each response, so that no complete response is lost when the process ends. Ends with `shutdown`.
///
/// # Errors
/// `upstream` is unusable or `out` cannot be written.
pub async fn record(
    upstream: Provider,
    options: Options,
    listener: TcpListener,
    out: PathBuf,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let http = model::connect(&options.network, &upstream.tls).map_err(io::Error::other)?;
    // An upstream that cannot be used is reported now, not with the first request.
    Endpoint::new(&upstream, &Method::POST, "/responses").map_err(io::Error::other)?;
    let tape = Arc::new(Tape::create(out, &upstream)?);
    let recorder = Arc::new(Recorder { upstream, http, tape });
    server::listen(listener, shutdown, move |request| {
        let recorder = Arc::clone(&recorder);
        async move { recorder.answer(request).await }
    })
    .await
}

struct Recorder {
    upstream: Provider,
    http: HttpClient,
    tape: Arc<Tape>,
}

type AnswerBody = Either<Full<Bytes>, Either<Incoming, Taped>>;
type Answered = Result<Response<AnswerBody>, (StatusCode, String)>;

impl Recorder {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Response<impl Body<Data = Bytes, Error = io::Error> + use<>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let query = head.uri.query().unwrap_or_default();
        let is_list = head.method == Method::GET && path.contains("/models");
        let answer = match route(&head.method, path, query, &head.headers) {
            Route::Generate { wire, .. } => {
                self.respond(wire, &head.uri, &head.headers, body).await
            }
            Route::CountTokens { wire, .. } | Route::Models { wire, .. } => {
                self.pass(wire, &head.method, &head.uri, &head.headers, body).await
            }
            Route::Other if is_list => {
                self.pass(Wire::Responses, &head.method, &head.uri, &head.headers, body).await
            }
            Route::Other => {
                let message = "the recorder passes on requests for responses (POST …/responses, …/messages, \
                               …/chat/completions, …/models/{model}:generateContent), counts of tokens and GET …/models";
                Err((StatusCode::NOT_FOUND, message.to_owned()))
            }
        };
        let response = answer.unwrap_or_else(|(status, message)| {
            let error = json!({"error": {"code": "recorder", "message": message}});
            let mut response = Response::new(Either::Left(Full::new(error.to_string().into())));
            *response.status_mut() = status;
            response
        });
        response.map(|body| body.map_err(io::Error::other))
    }

    /// Sends a request to the provider, with its key in place of the client's.
    async fn send(
        &self,
        wire: Wire,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, (StatusCode, String)> {
        let provider = Provider { wire, ..self.upstream.clone() };
        let endpoint = Endpoint::new(&provider, method, &path_of(wire, uri))
            .map_err(|failure| (StatusCode::BAD_GATEWAY, failure.message))?;
        let mut request = endpoint.request(method, body);
        for name in SENT_HEADERS {
            if let Some(value) = headers.get(name) {
                request.headers_mut().insert(name, value.clone());
            }
        }
        let unreachable = |error: &(dyn std::error::Error + 'static)| {
            let message = format!("cannot reach {}: {}", endpoint.host(), error_chain(error));
            (StatusCode::BAD_GATEWAY, message)
        };
        self.http.request(request).await.map_err(|error| unreachable(&error))
    }

    /// Passes on a request whose answer is not recorded.
    async fn pass(
        &self,
        wire: Wire,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Answered {
        let body = read(body).await?;
        let (head, body) = self.send(wire, method, uri, headers, body).await?.into_parts();
        Ok(passed(&head, Either::Right(Either::Left(body))))
    }

    async fn respond(
        &self,
        wire: Wire,
        uri: &Uri,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Answered {
        let body = read(body).await?;
        let value = serde_json::from_slice(&body).unwrap_or_default();
        let conversation = self.tape.conversation(&conversation_of(wire, &value, headers));
        let response = self.send(wire, &Method::POST, uri, headers, body).await?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return self.refused(wire, &head, body, conversation).await;
        }
        let kind = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        let mut taped = Taped {
            body: None,
            reading: Reading::new(wire),
            steps: Vec::new(),
            conversation,
            tape: Arc::clone(&self.tape),
        };
        if memchr::memmem::find(kind, b"json").is_none() {
            taped.body = Some(body);
            return Ok(passed(&head, Either::Right(Either::Right(taped))));
        }
        let body = Limited::new(body, MAX_DOCUMENT).collect().await;
        let body = body.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?.to_bytes();
        let events = taped.reading.document(&body);
        taped
            .take(events)
            .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        Ok(passed(&head, Either::Left(Full::new(body))))
    }

    async fn refused(
        &self,
        wire: Wire,
        head: &Parts,
        body: Incoming,
        conversation: u64,
    ) -> Answered {
        let body = Limited::new(body, MAX_ERROR_BYTES).collect().await;
        let body = body.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?.to_bytes();
        // A script cannot express a status that is not an error; the client still gets it.
        if head.status.is_client_error() || head.status.is_server_error() {
            self.tape
                .append(conversation, vec![Step::Error(refusal(wire, head, &body))])
                .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        }
        Ok(passed(head, Either::Left(Full::new(body))))
    }
}

/// A refusal as a step: with its body on the Responses wire, and with its meaning on others, so that any wire can
/// replay it.
fn refusal(wire: Wire, head: &Parts, body: &[u8]) -> ErrorStep {
    let headers = passed_headers(&head.headers);
    let headers = headers.filter_map(|(name, value)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    });
    let mut error = ErrorStep {
        status: Some(head.status.as_u16()),
        headers: headers.collect(),
        ..ErrorStep::default()
    };
    if wire == Wire::Responses {
        let text = String::from_utf8_lossy(body);
        error.body = Some(serde_json::from_str(&text).unwrap_or_else(|_| text.into()));
        return error;
    }
    let failure = Failure::read(head.status.as_u16(), body);
    if let Some(millis) = failure.retry_after_ms {
        error.headers.entry("retry-after-ms".to_owned()).or_insert_with(|| millis.to_string());
    }
    error.code = Some(failure.code);
    error.message = Some(failure.message);
    error
}

async fn read(body: Incoming) -> Result<Bytes, (StatusCode, String)> {
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
    Ok(body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?.to_bytes())
}

/// The path below the provider's address for a request to the recorder.
fn path_of(wire: Wire, uri: &Uri) -> String {
    let path = uri.path();
    // Everything before the first known segment is the recorder's own prefix.
    let from = |segment: &str| path.find(segment).map_or(path, |at| &path[at..]);
    let path = match wire {
        Wire::Responses | Wire::Chat if path.contains("/models") => from("/models").to_owned(),
        Wire::Responses => "/responses".to_owned(),
        Wire::Chat => "/chat/completions".to_owned(),
        Wire::Messages if path.contains("/models") => format!("/v1{}", from("/models")),
        Wire::Messages => format!("/v1{}", from("/messages")),
        Wire::Gemini if path.contains("/v1/") => format!("/v1{}", from("/models")),
        Wire::Gemini => format!("/v1beta{}", from("/models")),
    };
    // A key in the query is the client's own.
    let kept: Vec<&str> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("key="))
        .collect();
    if kept.is_empty() { path } else { format!("{path}?{}", kept.join("&")) }
}

fn passed_headers(
    headers: &HeaderMap,
) -> impl Iterator<Item = (&HeaderName, &header::HeaderValue)> {
    headers.iter().filter(|(name, _)| {
        let name = name.as_str();
        PASSED_HEADERS.contains(&name) || PASSED_PREFIXES.iter().any(|it| name.starts_with(it))
    })
}

fn passed(head: &Parts, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    for (name, value) in passed_headers(&head.headers) {
        response.headers_mut().insert(name, value.clone());
    }
    response
}

/// A response on its way to the client, decoded in passing. It is not recorded if the client
/// disconnects early.
struct Taped {
    /// `None` for a response that is no stream.
    body: Option<Incoming>,
    reading: Reading,
    steps: Vec<Step>,
    conversation: u64,
    tape: Arc<Tape>,
}

impl Taped {
    fn take(&mut self, events: Vec<Event>) -> io::Result<()> {
        for event in events {
            let ended = event.is_terminal();
            let step = steps::step_of_event(event);
            self.steps.extend(step.filter(|step| !self.reading.is_signature(step)));
            if ended {
                self.tape.append(self.conversation, std::mem::take(&mut self.steps))?;
            }
        }
        Ok(())
    }
}

impl Body for Taped {
    type Data = Bytes;
    type Error = io::Error;

    /// The end of the response is recorded before the client receives it.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        let events = match &frame {
            Some(Ok(frame)) => match frame.data_ref() {
                Some(data) => self.reading.feed(data),
                None => Vec::new(),
            },
            Some(Err(_)) | None => self.reading.finish(),
        };
        if let Err(error) = self.take(events) {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }
}
