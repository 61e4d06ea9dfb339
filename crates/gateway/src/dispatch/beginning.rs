//! The beginning of an answer to a model's request that has the status of a success, where caller and backend speak one
//! wire. Nothing of it has reached the client yet, so that what is no such answer can still become an error.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{Response, StatusCode};
use serde_json::Value;
use wire::Wire;

use super::errors::content_type;
use crate::upstream::{Failure, UpstreamBody};

/// The answer that a request asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) wire: Wire,
    pub(crate) is_stream: bool,
}

/// A first piece that is shorter says too little.
const SHORT: usize = 64;
/// Most bytes of a body that may be an error; a longer one is an answer.
const MAX_ERROR: usize = 256 << 10;
/// Longest wait for the rest of it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The beginnings of lines of a stream of events.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// The message for a caller whose answer is about credentials that the gateway does not send.
const BEHIND: &str =
    "The model server has no access to the model. Please report this to the gateway's operator.";
/// Members of which an answer has at least one that is not empty.
const OUTPUT: [&str; 4] = ["choices", "content", "candidates", "output"];

/// An answer, and the first piece of its body.
pub(super) type Begun = (Response<UpstreamBody>, Option<Bytes>);

/// Checks the beginning of an answer. An error in it gives it the status of one.
///
/// # Errors
/// It is empty, a page, or a stream that the request does not ask for, or it breaks off.
pub(super) async fn checked(
    expected: Expected,
    (mut response, first): Begun,
) -> Result<Begun, Failure> {
    let Some(piece) = first else {
        return Err(Failure::Cut("its answer is empty".to_owned()));
    };
    let status = response.status();
    let text = piece.trim_ascii_start();
    match text.first() {
        Some(b'<') => Err(Failure::Strange(status, "a page".to_owned())),
        Some(b'{' | b'[') if may_be_error(text) => {
            let whole = rest_of(&mut response, piece).await?;
            match status_of_error(&whole, expected.wire) {
                Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                    // The server took the gateway's key: the refusal is about its own key at another server.
                    *response.status_mut() = StatusCode::BAD_GATEWAY;
                    let failure = wire::Failure::new(wire::FailureKind::Server, BEHIND);
                    Ok((response, Some(failure.body(expected.wire).into())))
                }
                Some(status) => {
                    *response.status_mut() = status;
                    Ok((response, Some(whole)))
                }
                None => Ok((response, Some(whole))),
            }
        }
        Some(b'{' | b'[') | None => Ok((response, Some(piece))),
        Some(_) => {
            let is_events = content_type(response.headers()) == "text/event-stream"
                || FIELDS.iter().any(|field| text.starts_with(field));
            match is_events && !expected.is_stream {
                true => Err(Failure::Strange(status, "a stream of events".to_owned())),
                false => Ok((response, Some(piece))),
            }
        }
    }
}

/// Returns whether the beginning of a JSON body may be that of an error. Answers of the Responses API have an `error`
/// that is null.
fn may_be_error(text: &[u8]) -> bool {
    let has_value = |at: usize| {
        let rest = text[at + b"\"error\"".len()..].trim_ascii_start();
        let value = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        value.is_some_and(|value| value.first() != Some(&b'n'))
    };
    text.len() < SHORT || memchr::memmem::find_iter(text, b"\"error\"").any(has_value)
}

/// The whole of a short body, or as much of it as is there in time.
///
/// # Errors
/// It breaks off. The answer had begun, and is billed: no other backend is asked.
async fn rest_of(response: &mut Response<UpstreamBody>, first: Bytes) -> Result<Bytes, Failure> {
    let mut whole = BytesMut::from(&*first);
    let collect = async {
        while whole.len() <= MAX_ERROR
            && let Some(frame) = response.body_mut().frame().await
        {
            let frame = frame.map_err(|error| Failure::BrokeOff(error.to_string()))?;
            if let Ok(data) = frame.into_data() {
                whole.extend_from_slice(&data);
            }
        }
        Ok::<_, Failure>(())
    };
    // What comes later passes as it is.
    tokio::time::timeout(PATIENCE, collect).await.unwrap_or(Ok(()))?;
    Ok(whole.freeze())
}

/// The status of the error that a body is; `None` if it is an answer.
fn status_of_error(body: &[u8], wire: Wire) -> Option<StatusCode> {
    let value: Value = serde_json::from_slice(body).ok()?;
    // Some servers answer with an array of one error.
    let value = value.get(0).unwrap_or(&value);
    let error = &value["error"];
    let is_error = match error {
        Value::String(text) => !text.is_empty(),
        Value::Object(_) => true,
        _ => false,
    };
    let has_output = |name: &str| value[name].as_array().is_some_and(|list| !list.is_empty());
    // A response that has failed is an object of its API.
    let is_answer = value["object"] == "response" || OUTPUT.into_iter().any(has_output);
    if !is_error || is_answer {
        return None;
    }
    let said = error["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let said = said.filter(|code| (400..600).contains(code)).unwrap_or(500);
    StatusCode::from_u16(wire::Failure::read(said, body).kind.status(wire)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_answers() {
        for (body, status) in [
            (r#"{"error":{"message":"Overloaded.","code":"server_is_overloaded"}}"#, Some(503)),
            (r#"{"type":"error","error":{"type":"rate_limit_error","message":"x"}}"#, Some(429)),
            (r#"[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]"#, Some(429)),
            (r#"{"error":{"code":418,"message":"x"},"choices":[]}"#, Some(400)),
            (r#"{ "error" : "it broke" }"#, Some(500)),
            (r#"{"object":"response","status":"failed","error":{"code":"x","message":"y"}}"#, None),
            (r#"{"choices":[{"message":{"content":"hi"}}],"error":{"message":"late"}}"#, None),
            (r#"{"content":[{"type":"tool_use","input":{"error":{"message":"x"}}}]}"#, None),
            (r#"{"error":"","x":1}"#, None),
            (r#"{"error":{"message""#, None),
        ] {
            assert!(may_be_error(body.as_bytes()), "{body}");
            let found = status_of_error(body.as_bytes(), Wire::Chat).map(|status| status.as_u16());
            assert_eq!(found, status, "{body}");
        }
        let long = "x".repeat(SHORT);
        for body in [
            format!(r#"{{"object":"response","error":null,"text":"{long}"}}"#),
            format!(r#"{{"text":"\"error\":{{ {long}"}}"#),
            format!(r#"{{"text":"{long}"}}"#),
        ] {
            assert!(!may_be_error(body.as_bytes()), "{body}");
        }
    }
}
