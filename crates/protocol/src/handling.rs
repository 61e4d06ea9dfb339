//! The parts of a request's handling that every resource shares: decoding its parameters, the errors for
//! what is not supported, and encoding the result of its handler.

use std::pin::Pin;

use bytes::Bytes;
use jsonrpc::ErrorObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// A running request, which resolves to the serialized `result` member or to the error.
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Bytes, ErrorObject>> + Send + 'a>>;

/// The part of a server that all resources share.
pub trait Handlers {
    /// The error of its handlers; the conversion determines code and data on the wire.
    type Error: Into<ErrorObject> + Send;
}

/// The error for a method, or a part of one, that this version does not support: -32601 with
/// `data.reason` = `notImplemented`. A method that the specification reserves is never supported.
#[must_use]
pub fn unimplemented(what: &str) -> ErrorObject {
    if what == "thread/turns/items/list" {
        let message = format!("{what} is not supported; read the items with thread/turns/list");
        return ErrorObject::new(jsonrpc::code::METHOD_NOT_FOUND, message);
    }
    let message = format!("`{what}` is not implemented yet");
    ErrorObject::new(jsonrpc::code::METHOD_NOT_FOUND, message)
        .with_data(serde_json::json!({ "reason": "notImplemented" }))
}

/// Decodes the parameters of a method.
pub(crate) fn params<T: DeserializeOwned>(
    method: &str,
    params: Option<&RawValue>,
) -> Result<T, ErrorObject> {
    jsonrpc::read_params(params).map_err(|why| {
        let reason = why.unknown_member().and_then(|member| misplaced(method, member));
        let reason = reason.unwrap_or_else(|| format!("Invalid params: {why}"));
        ErrorObject::invalid_params(reason)
    })
}

/// Explains why a member of another method does not belong in this one.
fn misplaced(method: &str, member: &str) -> Option<String> {
    let is = |known: &&&str| jsonrpc::same_name(member, known);
    match method {
        "turn/steer" => TURN_OVERRIDES.iter().find(is).map(|known| {
            format!(
                "`turn/steer` takes no `{known}`: a running turn keeps the settings that it was \
                 started with; set `{known}` with the next `turn/start`"
            )
        }),
        "thread/start" | "thread/resume" | "thread/fork" if is(&&"sandboxPolicy") => Some(format!(
            "`{method}` takes no `sandboxPolicy`: choose the mode with `sandbox`, or give the \
             policy to `turn/start`"
        )),
        "turn/start" if is(&&"sandbox") => {
            Some("`turn/start` takes no `sandbox`: give a `sandboxPolicy`".to_owned())
        }
        _ => None,
    }
}

/// Boxes a handler's future and encodes its result.
pub(crate) fn reply<'a, R, E>(call: impl Future<Output = Result<R, E>> + Send + 'a) -> Reply<'a>
where
    R: Serialize,
    E: Into<ErrorObject>,
{
    Box::pin(async move {
        match call.await {
            Ok(result) => encode(&result),
            Err(error) => Err(error.into()),
        }
    })
}

fn encode(result: &impl Serialize) -> Result<Bytes, ErrorObject> {
    serde_json::to_vec(result)
        .map(Bytes::from)
        .map_err(|why| ErrorObject::internal(format!("the result could not be encoded: {why}")))
}

/// Members of `turn/start` that change settings: a turn in progress accepts none of them.
pub const TURN_OVERRIDES: &[&str] = &[
    "cwd",
    "approvalPolicy",
    "approvalsReviewer",
    "sandboxPolicy",
    "permissions",
    "model",
    "serviceTier",
    "serviceTierForTurn",
    "effort",
    "summary",
    "personality",
    "collaborationMode",
    "outputSchema",
    "environments",
    "maxTotalTokens",
    "turnTrigger",
];

/// A server that returns for every request an error with the name of the handler reached.
#[cfg(test)]
pub(crate) struct Probe;

#[cfg(test)]
impl Handlers for Probe {
    type Error = ErrorObject;
}
