//! What goes wrong at a model server, as a client may know it: no key of ours, no name of a host
//! inside. What really happened goes to the log.

use std::error::Error;

use hyper::StatusCode;
use hyper_util::client::legacy;
use serde_json::Value;

use gateway_policy::error::ApiError;
use gateway_policy::settings::{Settings, Upstream};

/// See the module. The texts are for the log.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The connection ended before the answer began.
    #[error("the connection ended before an answer: {0}")]
    Cut(String),
    /// Nothing came for too long.
    #[error("it did not answer in time")]
    Silent,
    /// The answer is none of a model server.
    #[error("it answered {0} with {1}")]
    Strange(StatusCode, String),
    /// The request cannot be sent to it.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
    /// The client's own body ended early, or is too large.
    #[error("the client's body ended: {0}")]
    Client(String),
    /// The client's own body does not come in time.
    #[error("the client's body is too slow")]
    ClientTooSlow,
    /// The client's own body is too large.
    #[error("the client's body is too large")]
    ClientTooLarge,
}

impl Failure {
    pub(super) fn of(error: &legacy::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(body) = cause.downcast_ref::<super::body::BodyError>() {
                return match body {
                    super::body::BodyError::TooLarge => Self::ClientTooLarge,
                    super::body::BodyError::TooSlow => Self::ClientTooSlow,
                    super::body::BodyError::Cut(cause) => Self::Client(cause.to_string()),
                };
            }
            text.push_str(": ");
            text.push_str(&cause.to_string());
            source = cause.source();
        }
        if error.is_connect() { Self::Unreachable(text) } else { Self::Cut(text) }
    }

    /// What the client is told.
    #[must_use]
    pub(crate) fn for_client(&self) -> ApiError {
        let bad_gateway = |message: &'static str| {
            ApiError::new(StatusCode::BAD_GATEWAY, "upstream_error", message)
        };
        match self {
            Self::Unreachable(_) => {
                bad_gateway("The model server cannot be reached. Please try again later.")
            }
            Self::Cut(_) => bad_gateway(
                "The model server ended the connection before it answered. Please try again.",
            ),
            Self::Strange(..) => {
                bad_gateway("The model server's answer is not valid. Please try again later.")
            }
            Self::Silent => ApiError::new(
                StatusCode::GATEWAY_TIMEOUT,
                "upstream_timeout",
                "The model server did not answer in time. Please try again later.",
            ),
            Self::Unsendable(_) => ApiError::bad_request(
                "invalid_path",
                "The path or a header of the request cannot be forwarded.",
            ),
            Self::Client(_) => {
                ApiError::bad_request("incomplete_body", "The request's body ended too early.")
            }
            Self::ClientTooLarge => too_large(),
            Self::ClientTooSlow => too_slow(),
        }
    }
}

/// 408.
#[must_use]
pub(crate) fn too_slow() -> ApiError {
    let message = "The request's body did not arrive in time. Please send it faster.";
    ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
}

/// 413.
#[must_use]
pub(crate) fn too_large() -> ApiError {
    let message = "The request's body is too large. Please split the request.";
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
}

/// Takes an upstream's key and host out of its error messages.
#[derive(Debug)]
pub(crate) struct SecretMask<'a> {
    secrets: Vec<&'a str>,
}

impl<'a> SecretMask<'a> {
    /// Of this upstream.
    #[must_use]
    pub(crate) fn new(upstream: &'a Upstream) -> Self {
        let mut secrets: Vec<&str> =
            upstream.key.iter().map(gateway_policy::settings::Secret::reveal).collect();
        let bases = upstream.regions.iter().map(|(_, base)| base).chain([&upstream.base]);
        for base in bases {
            // The host with its port first: what is longer goes before what is in it.
            secrets.extend(base.origin.authority().map(hyper::http::uri::Authority::as_str));
            secrets.extend(base.origin.host());
        }
        Self { secrets }
    }

    /// Of all upstreams their keys, but not their hosts.
    #[must_use]
    pub(crate) fn keys(settings: &'a Settings) -> Self {
        let keys = settings.upstreams.iter().filter_map(|upstream| upstream.key.as_ref());
        Self { secrets: keys.map(gateway_policy::settings::Secret::reveal).collect() }
    }

    /// The text with `***` for each secret, in capitals or not.
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

    /// Covers each secret with as many asterisks as it has letters.
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

    /// How many bytes at the end of the text may be the beginning of a secret.
    #[must_use]
    pub(crate) fn partial_suffix(&self, text: &[u8]) -> usize {
        let begins = |length: &usize| {
            let end = &text[text.len() - length..];
            let is_begun = |secret: &&str| {
                secret.len() > *length && secret.as_bytes()[..*length].eq_ignore_ascii_case(end)
            };
            self.secrets.iter().any(is_begun)
        };
        let longest = self.secrets.iter().map(|secret| secret.len()).max().unwrap_or(0);
        (1..=longest.min(text.len())).rev().find(begins).unwrap_or(0)
    }

    /// The same in all texts of a JSON value, however they were escaped; whether there was anything
    /// to be cleaned.
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
