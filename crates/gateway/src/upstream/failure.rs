//! Errors of upstreams as clients see them: without our keys or internal host names. The cause is
//! logged.

use std::error::Error;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{self, HeaderValue};
use hyper_util::client::legacy;
use serde_json::Value;

use gateway_policy::error::ApiError;
use gateway_policy::settings::Backend;

/// Why a request to an upstream failed. The texts are for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The connection ended before any of the request was sent.
    #[error("the connection ended before the request was sent: {0}")]
    Unsent(String),
    /// The connection ended before the response started.
    #[error("the connection ended before an answer: {0}")]
    Cut(String),
    /// The connection ended after the response had started, and before any of it reached the client.
    #[error("the connection ended within the answer: {0}")]
    BrokeOff(String),
    /// There was no response in time.
    #[error("it did not answer in time")]
    Silent,
    /// The response is not one of an upstream.
    #[error("it answered {0} with {1}")]
    Strange(StatusCode, String),
    /// The response's body cannot be decoded.
    #[error("its answer cannot be decoded: {0}")]
    Coding(String),
    /// The request cannot be sent.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
    /// The request must be signed as a whole, and its body is too long to be held for that.
    #[error("the request cannot be sent: its body is too long to be signed")]
    Unsignable,
    /// The account of its cloud gives no credentials.
    #[error("there are no credentials for it: {0}")]
    NoCredentials(String),
    /// The client's own body ended early.
    #[error("the client's body ended: {0}")]
    Client(String),
    /// The client's own body was not received in time.
    #[error("the client's body is too slow")]
    ClientTooSlow,
    /// The client's own body is too large.
    #[error("the client's body is too large")]
    ClientTooLarge,
}

impl Failure {
    pub(super) fn from_http_error(error: &legacy::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        let mut is_unsent = false;
        while let Some(cause) = source {
            if let Some(body) = cause.downcast_ref::<super::body::BodyError>() {
                return body.into();
            }
            is_unsent |= cause.downcast_ref().is_some_and(hyper::Error::is_canceled);
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        match () {
            () if error.is_connect() => Self::Unreachable(text),
            () if is_unsent => Self::Unsent(text),
            () => Self::Cut(text),
        }
    }

    /// The error for the client.
    #[must_use]
    pub(crate) fn for_client(&self) -> ApiError {
        let bad_gateway = |message: &'static str| {
            ApiError::new(StatusCode::BAD_GATEWAY, "upstream_error", message)
        };
        match self {
            Self::Unreachable(_) => {
                bad_gateway("The model server cannot be reached. Please try again later.")
            }
            Self::Unsent(_) | Self::Cut(_) => bad_gateway(
                "The model server ended the connection before it answered. Please try again.",
            ),
            Self::BrokeOff(_) => bad_gateway(
                "The model server ended the connection within its answer. Please try again.",
            ),
            Self::Strange(..) => {
                bad_gateway("The model server's answer is not valid. Please try again later.")
            }
            Self::Coding(_) => bad_gateway(
                "The model server's answer is compressed in a way that cannot be decoded. Please report this \
                 to the gateway's operator.",
            ),
            Self::Silent => ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                "The model server did not answer in time. Please try again later.",
            ),
            Self::NoCredentials(_) => bad_gateway(
                "The gateway has no credentials for the model server. Please report this to the gateway's operator.",
            ),
            Self::Unsendable(_) => ApiError::bad_request(
                "invalid_path",
                "The path or a header of the request cannot be forwarded.",
            ),
            Self::Unsignable => {
                let message = format!(
                    "This model server takes bodies of at most {} MiB, because each request to it is signed as a whole.",
                    super::body::MAX_SIGNED >> 20
                );
                closing(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message))
            }
            Self::Client(_) => {
                ApiError::bad_request("incomplete_body", "The request's body ended too early.")
            }
            Self::ClientTooLarge => too_large(),
            Self::ClientTooSlow => too_slow(),
        }
    }
}

impl From<&super::body::BodyError> for Failure {
    fn from(error: &super::body::BodyError) -> Self {
        match error {
            super::body::BodyError::TooLarge => Self::ClientTooLarge,
            super::body::BodyError::TooSlow => Self::ClientTooSlow,
            super::body::BodyError::Cut(cause) => Self::Client(cause.to_string()),
        }
    }
}

/// 408.
#[must_use]
pub(crate) fn too_slow() -> ApiError {
    let message = "The request's body did not arrive in time. Please send it faster.";
    closing(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message))
}

/// 413.
#[must_use]
pub(crate) fn too_large() -> ApiError {
    let message = "The request's body is too large. Please split the request.";
    closing(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message))
}

/// The rest of the body is not read, so the connection ends with this response: a client that knew nothing
/// of it would lose its next request.
fn closing(error: ApiError) -> ApiError {
    error.header(header::CONNECTION, HeaderValue::from_static("close"))
}

/// Removes the keys and the hosts of a backend from its error messages.
#[derive(Debug)]
pub(crate) struct SecretMask {
    secrets: Vec<Arc<str>>,
}

impl SecretMask {
    /// These keys, and the hosts of a backend.
    #[must_use]
    pub(crate) fn new(keys: Vec<Arc<str>>, backend: &Backend) -> Self {
        let mut secrets = keys;
        let bases = backend.regions.iter().map(|(_, base)| base).chain([&backend.base]);
        for base in bases {
            // The host with its port first: longer texts are replaced before the texts they
            // contain.
            secrets.extend(base.origin.authority().map(|authority| authority.as_str().into()));
            secrets.extend(base.origin.host().map(Into::into));
        }
        Self { secrets }
    }

    /// These keys alone.
    #[must_use]
    pub(crate) fn keys(secrets: Vec<Arc<str>>) -> Self {
        Self { secrets }
    }

    /// The text with `***` for each secret, ignoring case.
    #[must_use]
    pub(crate) fn replace(&self, text: &[u8]) -> Vec<u8> {
        let mut text = text.to_vec();
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            let is_secret = |window: &[u8]| window.eq_ignore_ascii_case(secret.as_bytes());
            let mut cleaned = Vec::with_capacity(text.len());
            let mut rest = &text[..];
            while let Some(at) = rest.windows(secret.len()).position(is_secret) {
                cleaned.extend_from_slice(&rest[..at]);
                cleaned.extend_from_slice(b"***");
                rest = &rest[at + secret.len()..];
            }
            cleaned.extend_from_slice(rest);
            text = cleaned;
        }
        text
    }

    /// Replaces each letter of a secret by an asterisk.
    pub(crate) fn mask(&self, text: &mut [u8]) {
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            let mut from = 0;
            let is_secret = |window: &[u8]| window.eq_ignore_ascii_case(secret.as_bytes());
            while let Some(at) = text[from..].windows(secret.len()).position(is_secret) {
                text[from + at..from + at + secret.len()].fill(b'*');
                from += at + secret.len();
            }
        }
    }

    /// Length of the text's suffix that may be the beginning of a secret.
    #[must_use]
    pub(crate) fn partial_suffix(&self, text: &[u8]) -> usize {
        let begins = |length: &usize| {
            let end = &text[text.len() - length..];
            let is_begun = |secret: &Arc<str>| {
                secret.len() > *length && secret.as_bytes()[..*length].eq_ignore_ascii_case(end)
            };
            self.secrets.iter().any(is_begun)
        };
        let longest = self.secrets.iter().map(|secret| secret.len()).max().unwrap_or(0);
        (1..=longest.min(text.len())).rev().find(begins).unwrap_or(0)
    }

    /// Redacts all strings of a JSON value, in any escaping. Returns whether there was anything to
    /// redact.
    pub(crate) fn replace_json(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let clean = self.replace(text.as_bytes());
                let is_changed = clean != text.as_bytes();
                if is_changed {
                    *text = String::from_utf8_lossy(&clean).into_owned();
                }
                is_changed
            }
            Value::Array(entries) => {
                entries.iter_mut().fold(false, |changed, entry| self.replace_json(entry) | changed)
            }
            Value::Object(members) => {
                let mut is_changed = false;
                for (name, mut member) in std::mem::take(members) {
                    let clean = self.replace(name.as_bytes());
                    is_changed |= self.replace_json(&mut member) | (clean != name.as_bytes());
                    members.insert(String::from_utf8_lossy(&clean).into_owned(), member);
                }
                is_changed
            }
            _ => false,
        }
    }
}
