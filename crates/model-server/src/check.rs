//! Checks of requests that are as strict as the providers': shapes, order of roles, ids of calls, signatures. A
//! mistake is reported in the provider's form, with its place. Keys are not checked, and neither are names of models.

mod chat;
mod chat_shape;
mod fault;
mod gemini;
mod gemini_shape;
pub(crate) mod marks;
mod messages;
mod messages_shape;
mod responses;
mod shape;
mod tools;
mod turns;

use hyper::HeaderMap;
use serde_json::Value;
use wire::{Failure, FailureKind, Wire};

pub(crate) use fault::{Fault, Path};
pub(crate) use gemini::in_camel_case;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Generate,
    CountTokens,
}

/// The body of a request as JSON, with the members of Gemini in camel case.
///
/// # Errors
/// It is no JSON object.
pub(crate) fn parse(wire: Wire, body: &[u8]) -> Result<Value, Failure> {
    let refused = |message: String| {
        let mut failure = Failure::new(FailureKind::Invalid, &message);
        "invalid_json".clone_into(&mut failure.code);
        failure
    };
    let body: Value = serde_json::from_slice(body)
        .map_err(|error| refused(format!("The request body is not valid JSON: {error}")))?;
    if !body.is_object() {
        return Err(refused("The request body is not a JSON object.".to_owned()));
    }
    Ok(if wire == Wire::Gemini { in_camel_case(body) } else { body })
}

/// Checks a request; `model` is that of the path, on Gemini.
///
/// # Errors
/// At the first mistake.
pub(crate) fn check(
    wire: Wire,
    purpose: Purpose,
    model: &str,
    body: &Value,
    headers: &HeaderMap,
) -> Result<(), Failure> {
    let checked = match (wire, purpose) {
        (Wire::Responses, _) => responses::check(body),
        (Wire::Chat, _) => chat::check(body),
        (Wire::Messages, Purpose::Generate) => messages::check(body, headers),
        (Wire::Messages, Purpose::CountTokens) => messages::check_count(body, headers),
        (Wire::Gemini, _) => gemini::check(body, model),
    };
    checked.map_err(|fault| fault.into_failure(wire))
}

/// Checks the headers that each request of a wire has.
///
/// # Errors
/// One is missing.
pub(crate) fn check_headers(wire: Wire, headers: &HeaderMap) -> Result<(), Failure> {
    match wire {
        Wire::Messages => {
            messages::check_version(headers).map(|_| ()).map_err(|fault| fault.into_failure(wire))
        }
        _ => Ok(()),
    }
}
