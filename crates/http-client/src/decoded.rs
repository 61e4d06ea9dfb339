//! The body of an answer, decoded: requests ask for `identity`, but some servers, and proxies before them, compress
//! nevertheless.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap};
use hyper::{Response, StatusCode};

use crate::coding::{CodingError, Decoder};

/// Most bytes that are decoded at once. The client takes them before more are decoded, so that a small body that
/// claims to be large needs no memory.
const STEP: usize = 32 << 10;

/// The body of an answer.
#[derive(Debug)]
pub struct DecodedBody {
    incoming: Incoming,
    decoding: Option<Box<Decoding>>,
}

/// Why the body of an answer ends early.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection ended.
    #[error(transparent)]
    Cut(#[from] hyper::Error),
    /// It cannot be decoded.
    #[error(transparent)]
    Coding(#[from] CodingError),
}

#[derive(Debug)]
struct Decoding {
    decoder: Decoder,
    /// Received, but not decoded.
    input: Bytes,
    ended: bool,
}

/// JSON or events are in a coding that is not known.
#[derive(Debug, thiserror::Error)]
#[error("its content-encoding {0:?} is unknown")]
pub struct UnknownCoding(String);

/// The answer with a body that is decoded, and headers that say so.
///
/// # Errors
/// JSON or events are in a coding that is not known. Other contents pass as they are.
pub fn decoded(answer: Response<Incoming>) -> Result<Response<DecodedBody>, UnknownCoding> {
    let (mut head, incoming) = answer.into_parts();
    // A part of an encoded file cannot be decoded; an answer without a body need not be.
    if head.status == StatusCode::PARTIAL_CONTENT || incoming.is_end_stream() {
        return Ok(Response::from_parts(head, DecodedBody { incoming, decoding: None }));
    }
    let codings = codings(&head.headers);
    let decoder = match &codings[..] {
        [] => None,
        [coding] => {
            Decoder::new(coding).map_err(|error| UnknownCoding(format!("{coding}: {error}")))?
        }
        _ => None,
    };
    let Some(decoder) = decoder else {
        if !codings.is_empty() && must_be_read(&head.headers) {
            return Err(UnknownCoding(codings.join(", ")));
        }
        return Ok(Response::from_parts(head, DecodedBody { incoming, decoding: None }));
    };
    // They describe the encoded body.
    for name in [header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::ACCEPT_RANGES] {
        head.headers.remove(name);
    }
    let decoding = Some(Box::new(Decoding { decoder, input: Bytes::new(), ended: false }));
    Ok(Response::from_parts(head, DecodedBody { incoming, decoding }))
}

/// The codings of a body without `identity`, in lower case and in the order in which they were applied.
fn codings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
        .collect();
    let names = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    names.filter(|name| !matches!(*name, "" | "identity")).map(str::to_owned).collect()
}

/// Returns whether the content type is one that is read.
fn must_be_read(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind.ends_with("json") || kind == "text/event-stream"
}

impl Body for DecodedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { incoming, decoding } = self.get_mut();
        match decoding {
            Some(decoding) => decoding.poll(incoming, context),
            None => Pin::new(incoming).poll_frame(context).map_err(BodyError::from),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.decoding {
            Some(decoding) => decoding.ended,
            None => self.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.decoding {
            Some(_) => SizeHint::default(),
            None => self.incoming.size_hint(),
        }
    }
}

impl Decoding {
    fn poll(
        &mut self,
        incoming: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if self.ended {
                return Poll::Ready(None);
            }
            if self.decoder.has_more() || !self.input.is_empty() {
                let mut out = vec![0; STEP];
                let step = self.decoder.step(&self.input, &mut out);
                let (read, written) = step.inspect_err(|_| self.ended = true)?;
                self.input.advance(read);
                if written > 0 {
                    out.truncate(written);
                    return Poll::Ready(Some(Ok(Frame::data(out.into()))));
                }
                continue;
            }
            match ready!(Pin::new(&mut *incoming).poll_frame(context)).transpose()? {
                Some(frame) => match frame.into_data() {
                    Ok(data) => self.input = data,
                    // Trailers are not passed on.
                    Err(_) => continue,
                },
                None => {
                    self.ended = true;
                    self.decoder.finish()?;
                }
            }
        }
    }
}
