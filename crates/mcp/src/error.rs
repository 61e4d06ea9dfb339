//! Why a server cannot be used, or a call to it failed.

use std::fmt;

use rmcp::service::{ClientInitializeError, ServiceError};

/// A failure of a server or of a call to it. The message is for a person; what a server wrote in it
/// has its hidden characters visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    message: String,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The entry of the configuration cannot be used.
    Configuration,
    /// The server cannot be started or reached, or ended.
    Unavailable,
    /// The server demands a login.
    Unauthorized,
    /// The server does not know what was asked for, or offers it no longer.
    Unknown,
    /// The server answered with an error.
    Refused,
    /// The server did not answer in time.
    TimedOut,
    /// The server does not keep to the protocol, or exceeds a bound.
    Protocol,
}

/// Longest text of a server in a message, in characters.
const MAX_QUOTED: usize = 1000;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An entry of the configuration that cannot be used.
    pub fn configuration(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Configuration, message)
    }

    /// Why the handshake failed.
    pub(crate) fn initialize(error: &ClientInitializeError) -> Self {
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return Self::login();
        }
        // Why the probe was refused says little: servers without that method refuse it.
        if let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = error {
            return Self::initialize(fallback);
        }
        let kind = match error {
            ClientInitializeError::JsonRpcError(_) => ErrorKind::Refused,
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => ErrorKind::Protocol,
            _ => ErrorKind::Unavailable,
        };
        let why = match error {
            // Without the names of types that it begins with.
            ClientInitializeError::TransportError { error, .. } => chain(error.error.as_ref()),
            error => chain(error),
        };
        Self::new(kind, format!("the server did not complete the handshake: {why}"))
    }

    /// Why a request failed.
    pub(crate) fn request(error: &ServiceError) -> Self {
        if error.is_authorization_required() || error.auth_challenge().is_some() {
            return Self::login();
        }
        match error {
            // Without the names of types that it begins with.
            ServiceError::TransportSend(error) => {
                Self::new(ErrorKind::Unavailable, chain(error.error.as_ref()))
            }
            ServiceError::McpError(error) => {
                let text = quoted(&error.message);
                let data = error.data.as_ref().filter(|data| !data.is_null());
                let data = data.map_or_else(String::new, |data| {
                    let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                    format!("; data: {}", quoted(&text))
                });
                Self::new(ErrorKind::Refused, format!("{text} (error {}){data}", error.code.0))
            }
            ServiceError::TransportClosed => Self::ended(),
            ServiceError::UnexpectedResponse => Self::new(
                ErrorKind::Protocol,
                "the server's answer does not have the form that the protocol demands",
            ),
            ServiceError::Timeout { .. } => {
                Self::new(ErrorKind::TimedOut, "the server did not answer in time")
            }
            _ => Self::new(ErrorKind::Unavailable, chain(error)),
        }
    }

    pub(crate) fn ended() -> Self {
        Self::new(ErrorKind::Unavailable, "the server ended before it answered")
    }

    pub(crate) fn ended_because(reason: &str) -> Self {
        let message = format!("the server ended before it answered: {reason}");
        Self::new(ErrorKind::Unavailable, message)
    }

    fn login() -> Self {
        Self::new(ErrorKind::Unauthorized, "the server demands a login, or one with a wider scope")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Text of a server, cut and with its hidden characters visible.
pub(crate) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(MAX_QUOTED).collect();
    let shown = visible::text(&cut).into_owned();
    match cut.len() < text.len() {
        true => format!("{shown}…"),
        false => shown,
    }
}

/// An error with its sources, quoted as text of a server, which it may contain.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    quoted(&http_client::error_chain(error))
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ErrorCode, ErrorData};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_data_of_an_error_is_part_of_its_message() {
        let check = |data: Option<Value>, expect: &str| {
            let error = ErrorData::new(ErrorCode(-32000), "no", data);
            assert_eq!(Error::request(&ServiceError::McpError(error)).to_string(), expect);
        };
        check(None, "no (error -32000)");
        check(Some(Value::Null), "no (error -32000)");
        check(Some(json!({ "field": "a" })), r#"no (error -32000); data: {"field":"a"}"#);
        check(Some(json!("try b")), "no (error -32000); data: try b");
        let long = "x".repeat(2 * MAX_QUOTED);
        let cut = format!("no (error -32000); data: {}…", &long[..MAX_QUOTED]);
        check(Some(json!(long)), &cut);
    }
}
