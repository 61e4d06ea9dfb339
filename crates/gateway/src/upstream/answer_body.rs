//! The body of an upstream's answer: decoded, and as a stream of events even where a cloud sends frames.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_client::{BodyError, DecodedBody};
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
#[cfg(feature = "bedrock")]
use hyper::header::{self, HeaderValue};

/// Why the body of an answer ends early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AnswerError {
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A frame of Amazon Bedrock is broken.
    #[cfg(feature = "bedrock")]
    #[error("{0}")]
    Frame(String),
}

/// The body of an upstream's answer.
pub(crate) struct UpstreamBody {
    inner: DecodedBody,
    /// Reads the frames of Amazon Bedrock.
    #[cfg(feature = "bedrock")]
    frames: Option<Box<cloud::FrameReader>>,
    /// The error of a frame, of which the events before it have been given out.
    #[cfg(feature = "bedrock")]
    error: Option<AnswerError>,
}

impl UpstreamBody {
    fn new(inner: DecodedBody) -> Self {
        Self {
            inner,
            #[cfg(feature = "bedrock")]
            frames: None,
            #[cfg(feature = "bedrock")]
            error: None,
        }
    }
}

/// The answer with its body. Frames of Amazon Bedrock become events, as the header then says.
pub(super) fn answered(response: Response<DecodedBody>) -> Response<UpstreamBody> {
    #[cfg_attr(not(feature = "bedrock"), expect(unused_mut))]
    let (mut head, mut body) = response.map(UpstreamBody::new).into_parts();
    #[cfg(feature = "bedrock")]
    {
        let kind = head.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        if kind.starts_with(b"application/vnd.amazon.eventstream") {
            body.frames = Some(Box::default());
            let events = HeaderValue::from_static("text/event-stream");
            head.headers.insert(header::CONTENT_TYPE, events);
            head.headers.remove(header::CONTENT_LENGTH);
        }
    }
    Response::from_parts(head, body)
}

/// Writes an event of the Messages wire, which has its type as its name.
#[cfg(feature = "bedrock")]
fn write_event(json: &[u8], out: &mut Vec<u8>) {
    #[derive(serde::Deserialize)]
    struct Typed<'j> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'j, str>,
    }
    if let Ok(Typed { kind }) = serde_json::from_slice(json)
        && !kind.contains(['\r', '\n'])
    {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(kind.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    // Line ends in JSON stand between its tokens.
    out.extend(json.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\n\n");
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        #[cfg(feature = "bedrock")]
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        #[cfg(feature = "bedrock")]
        if let Self { inner, frames: Some(frames), error: later } = &mut *self {
            loop {
                let Some(frame) = ready!(Pin::new(&mut *inner).poll_frame(context)) else {
                    let cut = frames
                        .is_cut()
                        .then(|| AnswerError::Frame("the last frame is cut".to_owned()));
                    **frames = cloud::FrameReader::default();
                    return Poll::Ready(cut.map(Err));
                };
                let Ok(data) = frame?.into_data() else { continue };
                let mut out = Vec::new();
                let read = frames.feed(&data, |event| write_event(event, &mut out));
                if let Err(error) = read {
                    let error = AnswerError::Frame(error.to_string());
                    if out.is_empty() {
                        return Poll::Ready(Some(Err(error)));
                    }
                    // The events before it count.
                    *later = Some(error);
                }
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
            }
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        Poll::Ready(frame.map(|frame| frame.map_err(AnswerError::from)))
    }

    fn is_end_stream(&self) -> bool {
        #[cfg(feature = "bedrock")]
        if self.error.is_some() {
            return false;
        }
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        #[cfg(feature = "bedrock")]
        if self.frames.is_some() {
            return SizeHint::default();
        }
        self.inner.size_hint()
    }
}

#[cfg(all(test, feature = "bedrock"))]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_names() {
        let mut out = Vec::new();
        write_event(b"{\"type\":\"message_stop\",\n \"x\":1}", &mut out);
        write_event(b"{}", &mut out);
        let expected =
            "event: message_stop\ndata: {\"type\":\"message_stop\",  \"x\":1}\n\ndata: {}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
