//! Messages as bytes, without a newline: framing belongs to the transport. The `jsonrpc` member is
//! left out (specification: "What the service does").

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Answer, ErrorObject, Outgoing, RequestId};

/// A value that has no JSON form, such as a map whose keys are not strings.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the message `{what}` as JSON: {cause}")]
pub struct EncodeError {
    what: String,
    cause: serde_json::Error,
}

/// Encodes a success response. A result without a JSON form becomes a -32603 error that says so,
/// because the peer is waiting for a response.
#[must_use]
pub fn encode_response<T: Serialize + ?Sized>(id: &RequestId, result: &T) -> Bytes {
    let written = object(|out| {
        member(out, "id", id)?;
        member(out, "result", result)
    });
    written.unwrap_or_else(|why| {
        let error = ErrorObject::internal(format!("cannot write the result as JSON: {why}"));
        encode_error(Some(id), &error)
    })
}

/// Encodes a success response whose `result` is this JSON. It is not copied, because it may be
/// long. It must be one valid JSON value.
#[must_use]
pub fn encode_answer(id: &RequestId, result: Bytes) -> Answer {
    let mut head = Vec::with_capacity(FIRST_BYTES);
    head.push(b'{');
    member(&mut head, "id", id).expect("an id is a number or a string");
    head.extend_from_slice(b",\"result\":");
    let result = match memchr::memchr(b'\n', &result) {
        None => result,
        Some(_) => {
            let mut owned = Vec::from(result);
            keep_on_one_line(&mut owned);
            owned.into()
        }
    };
    Answer([head.into(), result, Bytes::from_static(b"}")])
}

/// Encodes an error response; `None` writes `"id":null`, for a line whose id could not be read.
#[must_use]
pub fn encode_error(id: Option<&RequestId>, error: &ErrorObject) -> Bytes {
    object(|out| {
        member(out, "id", &id)?;
        member(out, "error", error)
    })
    .expect("an id and an error are made of numbers, strings and JSON values")
}

/// Encodes a notification. Parameters that serialize to `null`, such as `()`, are left out.
///
/// # Errors
/// Parameters that have no JSON form.
pub fn encode_notification<T: Serialize + ?Sized>(
    method: &str,
    params: &T,
) -> Result<Bytes, EncodeError> {
    object(|out| call(out, method, params)).map_err(|cause| error(method, cause))
}

/// Encodes a notification of another server, with its position (the member `eventCursor`).
#[must_use]
pub fn encode_forwarded(method: &str, params: &RawValue, cursor: Option<&str>) -> Bytes {
    object(|out| {
        call(out, method, params)?;
        cursor.map_or(Ok(()), |cursor| member(out, "eventCursor", cursor))
    })
    .expect("texts and a JSON value")
}

/// Encodes a request. Parameters that serialize to `null`, such as `()`, are left out.
///
/// # Errors
/// Parameters that have no JSON form.
pub fn encode_request<T: Serialize + ?Sized>(
    id: &RequestId,
    method: &str,
    params: &T,
) -> Result<Bytes, EncodeError> {
    object(|out| {
        member(out, "id", id)?;
        call(out, method, params)
    })
    .map_err(|cause| error(method, cause))
}

/// Returns `text` escaped as the content of a JSON string, without the quotes.
#[must_use]
pub fn escape(text: &str) -> Bytes {
    let plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    if text.as_bytes().iter().all(plain) {
        return Bytes::copy_from_slice(text.as_bytes());
    }
    let mut quoted = serde_json::to_vec(text).expect("every string has a JSON form");
    quoted.pop();
    Bytes::from(quoted).slice(1..)
}

/// A notification with one growing string member, split around the text of that member, so that a
/// streamed piece costs only its escaping. Keep one frame for each stream: an [`crate::Outbox`] can
/// merge deltas of the same frame.
#[derive(Clone, Debug)]
pub struct DeltaFrame {
    head: Bytes,
    tail: Bytes,
}

impl DeltaFrame {
    /// Creates the frame of a notification whose `params` are the object `params` followed by the
    /// string member `name`, which `params` must not contain.
    ///
    /// # Errors
    /// Parameters that have no JSON form or are not an object.
    pub fn new<T: Serialize + ?Sized>(
        method: &str,
        params: &T,
        name: &str,
    ) -> Result<Self, EncodeError> {
        let whole = encode_notification(method, params)?;
        let Some(open) = whole.strip_suffix(b"}}") else {
            let cause = serde::ser::Error::custom("the parameters of a delta must be an object");
            return Err(error(method, cause));
        };
        let mut head = open.to_vec();
        if head.last() != Some(&b'{') {
            head.push(b',');
        }
        write(&mut head, name).map_err(|cause| error(method, cause))?;
        head.extend_from_slice(b":\"");
        Ok(Self { head: head.into(), tail: Bytes::from_static(b"\"}}") })
    }

    /// Returns the message that carries the piece `text`.
    #[must_use]
    pub fn delta(&self, text: &str) -> Outgoing {
        Outgoing::Delta { head: self.head.clone(), text: escape(text), tail: self.tail.clone() }
    }
}

fn error(method: &str, cause: serde_json::Error) -> EncodeError {
    EncodeError { what: method.to_owned(), cause }
}

/// Initial size of a message's buffer: enough for most messages, little waste for small ones.
const FIRST_BYTES: usize = 256;

fn object(
    fill: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<Bytes, serde_json::Error> {
    let mut out = Vec::with_capacity(FIRST_BYTES);
    out.push(b'{');
    fill(&mut out)?;
    out.push(b'}');
    keep_on_one_line(&mut out);
    Ok(out.into())
}

fn call<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: &T,
) -> Result<(), serde_json::Error> {
    member(out, "method", method)?;
    let before = out.len();
    member(out, "params", params)?;
    if &out[before..] == br#","params":null"# {
        out.truncate(before);
    }
    Ok(())
}

fn member<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    name: &str,
    value: &T,
) -> Result<(), serde_json::Error> {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write(out, value)
}

fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    serde_json::to_writer(out, value)
}

/// Raw JSON from other sources may span several lines, which would break the framing. Inside
/// strings a newline is always escaped, so every newline found here is white space.
pub(crate) fn keep_on_one_line(out: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr(b'\n', &out[from..]) {
        out[from + at] = b' ';
        from += at + 1;
    }
}
