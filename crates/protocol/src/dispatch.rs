//! From a request's name and raw parameters to its handler, and from the handler's result to
//! bytes. Scheduling, gating and the response's envelope are the server's.

use std::pin::Pin;

use bytes::Bytes;
use jsonrpc::ErrorObject;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::registry::{self, AllMethods};

/// A running request: resolves to the serialised `result` member or to the error.
pub type Reply<'a> = Pin<Box<dyn Future<Output = Result<Bytes, ErrorObject>> + Send + 'a>>;

/// Decodes the parameters and calls the handler. Absent and null parameters are read as `{}`, so
/// that they may be left out where all members are optional. The parameters are decoded before
/// this returns; the future borrows the server only.
///
/// # Errors
/// The future resolves to -32601 for an unknown method, to -32602 naming the member for
/// parameters that do not fit, to what the handler answers otherwise.
pub fn dispatch<'a, S, Cx>(
    server: &'a S,
    cx: Cx,
    method: &str,
    params: Option<&RawValue>,
) -> Reply<'a>
where
    S: AllMethods<Cx>,
    Cx: 'a,
{
    let params = params.filter(|raw| raw.get() != "null");
    let called = match registry::lookup(method) {
        Some(info) => registry::route(info.resource, server, cx, method, params),
        None => Err(ErrorObject::method_not_found(method)),
    };
    called.unwrap_or_else(|error| Box::pin(std::future::ready(Err(error))))
}

/// Boxes a handler's future and encodes its result.
pub(crate) fn reply<'a, R>(
    call: impl Future<Output = Result<R, ErrorObject>> + Send + 'a,
) -> Reply<'a>
where
    R: Serialize,
{
    Box::pin(async move { encode(&call.await?) })
}

fn encode(result: &impl Serialize) -> Result<Bytes, ErrorObject> {
    serde_json::to_vec(result)
        .map(Bytes::from)
        .map_err(|why| ErrorObject::internal(format!("the result could not be encoded: {why}")))
}
