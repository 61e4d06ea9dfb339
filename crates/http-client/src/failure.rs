//! Why a request to a model server failed. `model` finds out, and `session` decides what follows.

use std::time::Duration;

/// A failed request, or a response that failed. `U` counts the tokens of a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure<U> {
    /// For a program.
    pub kind: FailureKind,
    /// For the person at the client.
    pub message: String,
    /// Details for support: the provider's error code and request id.
    pub details: Option<Box<str>>,
    /// Status of the provider's response, if there was one.
    pub http_status: Option<u16>,
    /// The chance that the same request succeeds later.
    pub retry: Retry,
    /// The delay that the provider asked for.
    pub retry_after: Option<Duration>,
    /// Tokens used before the failure. In a box, because most failures have none.
    pub usage: Option<Box<U>>,
}

/// The chance that a retry of a failed request succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again.
    Never,
    /// The response did not begin.
    Request,
    /// The response was cut off.
    Stream,
}

/// The kind of a failure (specification: Errors, `agentErrorInfo`, and the additional values of the
/// wire shapes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The history does not fit.
    ContextWindowExceeded,
    /// The account's quota is used up.
    UsageLimitExceeded,
    /// The provider answered 4xx or 5xx.
    HttpConnectionFailed,
    /// The provider could not be reached.
    ResponseStreamConnectionFailed,
    /// The stream ended early.
    ResponseStreamDisconnected,
    /// The last of many tries failed.
    ResponseTooManyFailedAttempts,
    /// The provider refused the request.
    BadRequest,
    /// No valid credentials.
    Unauthorized,
    /// The sandbox cannot enforce the policy. Only turns fail with it, no request.
    SandboxError,
    /// The provider is overloaded.
    ServerOverloaded,
    /// The provider refused the request for reasons of cyber security.
    CyberPolicy,
    /// A failure of this program.
    InternalServerError,
    /// Anything else.
    Other,
}

impl<U> Failure<U> {
    /// A failure that no retry helps.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
            http_status: None,
            retry: Retry::Never,
            retry_after: None,
            usage: None,
        }
    }

    /// A stream that ended or broke early; worth a retry.
    pub fn disconnected(message: impl Into<String>) -> Self {
        Self { retry: Retry::Stream, ..Self::new(FailureKind::ResponseStreamDisconnected, message) }
    }

    /// The same failure with the tokens counted in another type.
    #[must_use]
    pub fn map_usage<V>(self, convert: impl FnOnce(U) -> V) -> Failure<V> {
        let Self { kind, message, details, http_status, retry, retry_after, usage } = self;
        let usage = usage.map(|usage| Box::new(convert(*usage)));
        Failure { kind, message, details, http_status, retry, retry_after, usage }
    }
}
