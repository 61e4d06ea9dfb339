//! Messages for the editor as bytes. Unlike those of this program's own protocol they have the member
//! `jsonrpc`.

use bytes::Bytes;
use jsonrpc::{ErrorObject, RequestId};
use serde::Serialize;

const JSONRPC: &str = "2.0";

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<i64>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Response<'a, R> {
    jsonrpc: &'static str,
    /// `null` for a line whose id cannot be read.
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorObject>,
}

pub(crate) fn notification(method: &str, params: &impl Serialize) -> Bytes {
    bytes(&Call { jsonrpc: JSONRPC, id: None, method, params })
}

pub(crate) fn request(id: i64, method: &str, params: &impl Serialize) -> Bytes {
    bytes(&Call { jsonrpc: JSONRPC, id: Some(id), method, params })
}

pub(crate) fn result(id: &RequestId, result: &impl Serialize) -> Bytes {
    bytes(&Response { jsonrpc: JSONRPC, id: Some(id), result: Some(result), error: None })
}

pub(crate) fn error(id: Option<&RequestId>, error: &ErrorObject) -> Bytes {
    bytes(&Response::<()> { jsonrpc: JSONRPC, id, result: None, error: Some(error) })
}

/// One line: nothing here is raw JSON, so that no newline stands between tokens.
fn bytes(message: &impl Serialize) -> Bytes {
    serde_json::to_vec(message).expect("messages are made of texts, numbers and JSON values").into()
}
