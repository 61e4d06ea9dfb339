//! A proxy between a client and a real provider that writes a script reproducing the model's
//! responses. It records responses only: neither requests nor credentials reach the file.

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
    Method, Request, Response, StatusCode,
    body::{Body, Frame, Incoming},
};
use model::{Decoder, Endpoint, Event, Options, Provider};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    script::{ErrorStep, Step, request::RequestBody},
    server::{self, MAX_REQUEST_BYTES},
};
use tape::Tape;

mod steps;
mod tape;

/// Response headers that are passed to the client, and that an error step repeats.
const PASSED_HEADERS: [&str; 5] =
    ["content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id"];
/// Most bytes of an upstream error that are recorded.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Serves on `listener`, forwards `POST …/responses` and `GET …/models` to `upstream` with its
/// credentials, and keeps `out` a script of the responses so far: the file is replaced atomically
/// after each response, so that no complete response is lost when the process ends. Ends with
/// `shutdown`.
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
    let recorder = Arc::new(Recorder {
        responses: endpoint(&upstream, &Method::POST, "/responses")?,
        models: endpoint(&upstream, &Method::GET, "/models")?,
        http,
        tape: Arc::new(Tape::create(out, &upstream)?),
    });
    server::listen(listener, shutdown, move |request| {
        let recorder = Arc::clone(&recorder);
        async move { recorder.answer(request).await }
    })
    .await
}

fn endpoint(upstream: &Provider, method: &Method, path: &str) -> io::Result<Endpoint> {
    Endpoint::new(upstream, method, path).map_err(io::Error::other)
}

struct Recorder {
    http: HttpClient,
    responses: Endpoint,
    models: Endpoint,
    tape: Arc<Tape>,
}

type AnswerBody = Either<Full<Bytes>, Either<Incoming, Taped>>;

impl Recorder {
    async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Response<impl Body<Data = Bytes, Error = io::Error> + use<>> {
        let (head, body) = request.into_parts();
        let answer = match (&head.method, head.uri.path().rsplit('/').next()) {
            (&Method::POST, Some("responses")) => self.respond(body).await,
            (&Method::GET, Some("models")) => self.models().await,
            _ => Err((StatusCode::NOT_FOUND, "use POST …/responses or GET …/models".to_owned())),
        };
        let response = answer.unwrap_or_else(|(status, message)| {
            let error = json!({"error": {"code": "recorder", "message": message}});
            let mut response = Response::new(Either::Left(Full::new(error.to_string().into())));
            *response.status_mut() = status;
            response
        });
        response.map(|body| body.map_err(io::Error::other))
    }

    async fn models(&self) -> Result<Response<AnswerBody>, (StatusCode, String)> {
        let request = self.models.request(&Method::GET, Bytes::new());
        let response =
            self.http.request(request).await.map_err(|error| self.unreachable(&error))?;
        let (head, body) = response.into_parts();
        Ok(passed(&head, Either::Right(Either::Left(body))))
    }

    async fn respond(&self, body: Incoming) -> Result<Response<AnswerBody>, (StatusCode, String)> {
        let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
        let body = body.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?.to_bytes();
        let parsed = RequestBody::parse(&body);
        let conversation = parsed.as_ref().map_or("", |request| request.conversation());
        let conversation = self.tape.conversation(conversation);
        drop(parsed);
        let request = self.responses.request(&Method::POST, body);
        let response =
            self.http.request(request).await.map_err(|error| self.unreachable(&error))?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return self.refused(&head, body, conversation).await;
        }
        let tape = Arc::clone(&self.tape);
        let decoder = Decoder::new();
        let taped = Taped { body, decoder, steps: Vec::new(), conversation, tape };
        Ok(passed(&head, Either::Right(Either::Right(taped))))
    }

    async fn refused(
        &self,
        head: &hyper::http::response::Parts,
        body: Incoming,
        conversation: u64,
    ) -> Result<Response<AnswerBody>, (StatusCode, String)> {
        let body = Limited::new(body, MAX_ERROR_BYTES).collect().await;
        let body = body.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?.to_bytes();
        let text = String::from_utf8_lossy(&body);
        let headers = PASSED_HEADERS.iter().filter_map(|name| {
            let value = head.headers.get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        let error = ErrorStep {
            status: Some(head.status.as_u16()),
            headers: headers.collect(),
            body: Some(serde_json::from_str(&text).unwrap_or_else(|_| text.into())),
            ..ErrorStep::default()
        };
        // A script cannot express a status that is not an error; the client still gets it.
        if head.status.is_client_error() || head.status.is_server_error() {
            self.tape
                .append(conversation, vec![Step::Error(error)])
                .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        }
        Ok(passed(head, Either::Left(Full::new(body))))
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> (StatusCode, String) {
        let message = format!("cannot reach {}: {}", self.responses.host(), error_chain(error));
        (StatusCode::BAD_GATEWAY, message)
    }
}

fn passed(head: &hyper::http::response::Parts, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    for name in PASSED_HEADERS {
        if let Some(value) = head.headers.get(name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// A response on its way to the client, decoded in passing. It is not recorded if the client
/// disconnects early.
struct Taped {
    body: Incoming,
    decoder: Decoder,
    steps: Vec<Step>,
    conversation: u64,
    tape: Arc<Tape>,
}

impl Taped {
    fn take(&mut self, events: Vec<Event>) -> io::Result<()> {
        for event in events {
            let ended = event.is_terminal();
            self.steps.extend(steps::step_of_event(event));
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
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let mut events = Vec::new();
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.decoder.feed(data, &mut events);
                }
            }
            Some(Err(_)) | None => self.decoder.finish(&mut events),
        }
        if let Err(error) = self.take(events) {
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }
}
