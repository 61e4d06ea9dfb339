//! The response to a request: JSON, bytes, a stream of events, or an error in the shape of the
//! hosted API.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    Response, StatusCode,
    body::{Body, Frame},
    header,
};
use serde_json::{Value, json};
use tokio::time;

use crate::script::player::Action;

pub(super) type AnswerBody = Either<Full<Bytes>, Playing>;
pub(super) type Answered = Result<Reply, Refused>;
type Actions = Box<dyn Iterator<Item = Action> + Send>;

/// A response with status 200.
pub(super) enum Reply {
    Json(Value),
    /// A body with this content type.
    Bytes(&'static str, Bytes),
    /// A stream of events.
    Events(Actions),
    /// A JSON document that is sent piece by piece.
    Pieces(Actions),
}

impl Reply {
    /// A stream of these events; `done` appends the data that ends a stream of chat chunks.
    pub(super) fn events(events: impl IntoIterator<Item = Value>, done: bool) -> Self {
        let block = |event: Value| match event["type"].as_str() {
            Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        };
        let mut blocks: VecDeque<String> = events.into_iter().map(block).collect();
        if done {
            blocks.push_back("data: [DONE]\n\n".to_owned());
        }
        Reply::Events(Box::new(blocks.into_iter().map(|block| Action::Bytes(block.into()))))
    }

    pub(super) fn into_response(self) -> Response<AnswerBody> {
        let (kind, body) = match self {
            Reply::Json(value) => return plain(StatusCode::OK, value.to_string().into()),
            Reply::Bytes(kind, bytes) => (kind, Either::Left(Full::new(bytes))),
            Reply::Events(actions) => ("text/event-stream", Either::Right(Playing::new(actions))),
            Reply::Pieces(actions) => ("application/json", Either::Right(Playing::new(actions))),
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        response
    }
}

/// A refused request, and the reason.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    code: &'static str,
    param: Option<&'static str>,
    message: String,
}

impl Refused {
    /// The field `param` has an unsupported value.
    pub(super) fn value(param: &'static str, message: impl Into<String>) -> Self {
        let status = StatusCode::BAD_REQUEST;
        Self { status, code: "invalid_value", param: Some(param), message: message.into() }
    }

    /// There is no object of this kind with this id.
    pub(super) fn unknown(kind: &str, id: &str) -> Self {
        let message = format!("The offline model has no {kind} `{id}`.");
        Self { status: StatusCode::NOT_FOUND, code: "not_found", param: None, message }
    }

    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, param: None, message: message.into() }
    }

    /// The same refusal for a caller of another wire.
    pub(super) fn into_failure(self) -> wire::Failure {
        let error =
            json!({"error": {"message": self.message, "param": self.param, "code": self.code}});
        wire::Failure::read(self.status.as_u16(), error.to_string().as_bytes())
    }

    pub(super) fn into_response(self) -> Response<AnswerBody> {
        let error = json!({"error": {"message": self.message, "type": "invalid_request_error",
            "param": self.param, "code": self.code}});
        plain(self.status, error.to_string().into())
    }
}

pub(super) fn plain(status: StatusCode, body: Bytes) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A stream of events as a body: blocks and pauses.
pub(super) struct Playing {
    actions: Actions,
    pause: Option<Pin<Box<time::Sleep>>>,
    /// The ending action, kept because a body may be polled again after it.
    end: Option<Action>,
}

impl Playing {
    fn new(actions: Actions) -> Self {
        Self { actions, pause: None, end: None }
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
            // The client's disconnect closes the connection, and with it this body.
            Some(_) => return Poll::Pending,
            None => {}
        }
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match self.actions.next() {
                Some(Action::Bytes(bytes) | Action::Raw(bytes)) => {
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Action::Pause(pause)) => self.pause = Some(Box::pin(time::sleep(pause))),
                Some(end @ (Action::Cut | Action::Idle)) => {
                    // An error discards data that is not written yet; a pause flushes it first.
                    self.end = Some(end);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                None => return Poll::Ready(None),
            }
        }
    }
}
