//! The error member of a response and the codes that the protocol uses. The crates above decide
//! which error to return; only the standard errors have their messages here.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The numeric codes ("Errors"; JSON-RPC 2.0, section 5.1).
pub mod code {
    /// The line is not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The line is JSON but not a request, or the request is invalid in the current state.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not have the shape or the values that the method accepts.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An operation underneath failed: spawning a process, I/O, another server.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The request queue is full; the client may retry later.
    pub const OVERLOADED: i64 = -32001;
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// One of the values in [`code`].
    pub code: i64,
    /// For people: what happened, where, and what to do next.
    pub message: String,
    /// For programs: details whose shape depends on the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// Creates an error with this code and message; an overlong message is truncated.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: clip(message.into()), data: None }
    }

    /// Returns the error with `data` added.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// -32700: the line is not JSON. `detail` says where parsing failed.
    #[must_use]
    pub fn parse_error(detail: impl fmt::Display) -> Self {
        Self::new(code::PARSE_ERROR, format!("Parse error: {detail}"))
    }

    /// -32600 with exactly this message.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// -32601, with the name of the method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    /// -32602 with exactly this message. [`crate::decode_params`] writes the messages for
    /// parameters of a wrong shape.
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// -32603 with exactly this message.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }

    /// -32001, in the words of the specification.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::new(code::OVERLOADED, "Server overloaded; retry later.")
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject {}

/// Longest message, in bytes. Messages quote input from the peer, which may be megabytes.
const MESSAGE_BYTES: usize = 2048;

fn clip(mut message: String) -> String {
    if message.len() <= MESSAGE_BYTES {
        return message;
    }
    message.truncate(message.floor_char_boundary(MESSAGE_BYTES));
    message.push('…');
    message.shrink_to_fit();
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: &ErrorObject, expect: &str) {
        assert_eq!(serde_json::to_string(error).unwrap(), expect);
        assert_eq!(serde_json::from_str::<ErrorObject>(expect).unwrap(), *error);
    }

    #[test]
    fn errors_on_the_wire() {
        check(
            &ErrorObject::method_not_found("a/b"),
            r#"{"code":-32601,"message":"Method not found: a/b"}"#,
        );
        check(
            &ErrorObject::overloaded(),
            r#"{"code":-32001,"message":"Server overloaded; retry later."}"#,
        );
        check(
            &ErrorObject::invalid_request("Not ready").with_data(serde_json::json!({"a": 1})),
            r#"{"code":-32600,"message":"Not ready","data":{"a":1}}"#,
        );
    }

    #[test]
    fn a_message_that_quotes_megabytes_is_clipped_between_characters() {
        let error = ErrorObject::method_not_found(&"é".repeat(1 << 20));
        assert!(error.message.len() <= MESSAGE_BYTES + '…'.len_utf8());
        assert!(error.message.ends_with("é…"));
    }
}
