//! Decodes a line of JSON as a message, or as the error to respond with. Parameters and results
//! stay raw text: only the code that knows the method decodes them.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{ErrorObject, RequestId};

/// A message ("Message envelope"). The `jsonrpc` member and unknown members are ignored.
#[derive(Clone, Debug)]
pub enum Message {
    /// A call that requires a response.
    Request {
        /// Echoed in the response.
        id: RequestId,
        /// Name of the method.
        method: String,
        /// `None` when absent or `null`.
        params: Option<Box<RawValue>>,
        /// `traceparent` of the member `trace` (W3C Trace Context), not examined. One that is not a string
        /// is as good as none, as the standard says.
        trace: Option<String>,
    },
    /// A message without a response.
    Notification {
        /// Name of the notification.
        method: String,
        /// `None` when absent or `null`.
        params: Option<Box<RawValue>>,
        /// The member `eventCursor`: the position of the notification, not examined. One that is not a string is as
        /// good as none.
        cursor: Option<String>,
    },
    /// The response to a request.
    Response {
        /// The request's id. `None` only with an error: the peer could not read one of our
        /// messages. Do not respond to it, or both ends would report errors to each other forever.
        id: Option<RequestId>,
        /// The `result` or the `error` member.
        outcome: Result<Box<RawValue>, ErrorObject>,
    },
}

/// A line that is not a message, with the error to respond with.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The id of the request, if it could be read.
    pub id: Option<RequestId>,
    /// -32700 or -32600.
    pub error: ErrorObject,
    /// Set for a line with an `id` and no `method`, which may be the response to our request.
    pub answers: Option<Box<UnreadableAnswer>>,
}

/// A line that may be a response but cannot be decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadableAnswer {
    /// The id of the request.
    pub id: RequestId,
    /// The line; only the beginning of a long one.
    pub text: String,
    /// Why the line cannot be decoded.
    pub why: String,
}

/// Number of bytes of an undecodable line that are kept for quoting.
const QUOTED_BYTES: usize = 1024;

/// Decodes one line, without its newline.
///
/// A repeated member of the envelope is refused, because either of the values might be meant.
///
/// # Errors
/// -32700 for a line that is not JSON or not UTF-8; -32600 for JSON that is not a message,
/// including batches.
pub fn decode(line: &[u8]) -> Result<Message, Malformed> {
    let text = std::str::from_utf8(line).map_err(|error| {
        malformed(None, ErrorObject::parse_error(format_args!("not UTF-8: {error}")))
    })?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(not_an_object(text));
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(not_json)?;
    if let Some(member) = envelope.duplicate {
        let id = if member == "id" { None } else { envelope.id.and_then(read_id) };
        let why = format!("the member `{member}` is given twice");
        return Err(match (envelope.method, id) {
            (None, Some(id)) => unreadable(&envelope, id, why, text),
            (_, id) => invalid(id, why),
        });
    }
    match envelope.method {
        Some(method) => call(&envelope, method),
        None => response(&envelope, text),
    }
}

/// A line that has an id but no `method`. With a `result` or an `error` it is the response to a
/// request of ours; the error then goes out without that id, because the peer would take it for the
/// response to a request of its own.
fn unreadable(envelope: &Envelope<'_>, id: RequestId, why: String, text: &str) -> Malformed {
    let is_response = envelope.result.is_some() || envelope.error.is_some();
    let mut malformed = invalid((!is_response).then(|| id.clone()), &why);
    let end = text.floor_char_boundary(QUOTED_BYTES);
    let text = text.get(..end).unwrap_or_default().to_owned();
    malformed.answers = Some(Box::new(UnreadableAnswer { id, text, why }));
    malformed
}

impl PartialEq for Message {
    /// Compares raw JSON as text.
    fn eq(&self, other: &Self) -> bool {
        let text = |raw: &Option<Box<RawValue>>| raw.as_ref().map(|raw| raw.get().to_owned());
        match (self, other) {
            (
                Self::Request { id: a, method: b, params: c, trace: d },
                Self::Request { id: x, method: y, params: z, trace: e },
            ) => a == x && b == y && text(c) == text(z) && d == e,
            (
                Self::Notification { method: b, params: c, cursor: d },
                Self::Notification { method: y, params: z, cursor: e },
            ) => b == y && text(c) == text(z) && d == e,
            (Self::Response { id: a, outcome: b }, Self::Response { id: x, outcome: y }) => {
                a == x && b.as_ref().map(|raw| raw.get()) == y.as_ref().map(|raw| raw.get())
            }
            _ => false,
        }
    }
}

fn malformed(id: Option<RequestId>, error: ErrorObject) -> Malformed {
    Malformed { id, error, answers: None }
}

fn invalid(id: Option<RequestId>, why: impl fmt::Display) -> Malformed {
    malformed(id, ErrorObject::invalid_request(format!("Invalid request: {why}")))
}

#[allow(clippy::needless_pass_by_value)] // the signature that `map_err` requires
fn not_json(error: serde_json::Error) -> Malformed {
    malformed(None, ErrorObject::parse_error(format_args!("not JSON: {error}")))
}

fn not_an_object(text: &str) -> Malformed {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        return not_json(error);
    }
    if text.trim_ascii_start().starts_with('[') {
        return invalid(None, "batches are not supported; send one message a line");
    }
    invalid(None, "a message must be a JSON object")
}

fn call(envelope: &Envelope<'_>, method: &RawValue) -> Result<Message, Malformed> {
    let id = match envelope.id.map(|id| read_id(id).ok_or(())).transpose() {
        Ok(id) => id,
        Err(()) => {
            return Err(invalid(None, "`id` must be a string or an integer of 64 bits"));
        }
    };
    let Some(method) = read_string(method) else {
        return Err(invalid(id, "`method` must be a string"));
    };
    let params = envelope.params.filter(|params| !is_null(params)).map(ToOwned::to_owned);
    Ok(match id {
        Some(id) => {
            Message::Request { id, method, params, trace: envelope.trace.and_then(read_trace) }
        }
        None => {
            Message::Notification { method, params, cursor: envelope.cursor.and_then(read_string) }
        }
    })
}

fn response(envelope: &Envelope<'_>, text: &str) -> Result<Message, Malformed> {
    let id = envelope.id.and_then(read_id);
    let error = envelope.error.filter(|error| !is_null(error));
    // Some peers send `"error": null` with a result, or `"result": null` with an error.
    let result = envelope.result.filter(|result| error.is_none() || !is_null(result));
    let why = match (result, error) {
        (Some(result), None) if id.is_some() => {
            return Ok(Message::Response { id, outcome: Ok(result.to_owned()) });
        }
        (Some(_), None) => {
            "the `id` of a response must be a string or an integer of 64 bits".to_owned()
        }
        (None, Some(error)) => match serde_json::from_str(error.get()) {
            Ok(error) => return Ok(Message::Response { id, outcome: Err(error) }),
            Err(_) => {
                "`error` of a response must be an object with a whole number as `code` and a \
                       string as `message`"
                    .to_owned()
            }
        },
        (Some(_), Some(_)) => "a response has either `result` or `error`".to_owned(),
        (None, None) if envelope.error.is_some() => {
            "a response has a `result`, or an `error` that is not null".to_owned()
        }
        (None, None) => "`method` is missing".to_owned(),
    };
    Err(match id {
        Some(id) => unreadable(envelope, id, why, text),
        None => invalid(None, why),
    })
}

fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

fn read_id(raw: &RawValue) -> Option<RequestId> {
    if let Ok(id) = raw.get().parse() {
        return Some(RequestId::Integer(id));
    }
    read_string(raw).map(RequestId::String)
}

/// `traceparent` of an object. Anything else is not an error: a trace must not make a request fail.
fn read_trace(raw: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Trace {
        traceparent: String,
    }
    serde_json::from_str::<Trace>(raw.get()).ok().map(|trace| trace.traceparent)
}

fn read_string(raw: &RawValue) -> Option<String> {
    let inside = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Some(inside.to_owned());
    }
    serde_json::from_str(raw.get()).ok()
}

/// The members of the envelope, as slices of the line. Reading the envelope fails only on invalid
/// JSON, whatever the members hold, so that an id after a wrong member is still found. Raw values
/// are skipped without recursion, so nesting uses no stack.
#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    trace: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
    duplicate: Option<&'static str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(Key(name)) = map.next_key()? {
            let slot = match name {
                Some("id") => &mut envelope.id,
                Some("method") => &mut envelope.method,
                Some("params") => &mut envelope.params,
                Some("result") => &mut envelope.result,
                Some("error") => &mut envelope.error,
                Some("trace") => &mut envelope.trace,
                Some("eventCursor") => &mut envelope.cursor,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.replace(map.next_value()?).is_some() {
                envelope.duplicate = name;
            }
        }
        Ok(envelope)
    }
}

/// The name of a member, `None` for one that the envelope does not define. Decodes without
/// allocating.
struct Key(Option<&'static str>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(Key(["id", "method", "params", "result", "error", "trace", "eventCursor"]
            .into_iter()
            .find(|n| *n == name)))
    }
}
