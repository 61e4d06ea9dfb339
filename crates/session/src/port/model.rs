//! What the model sends: streamed events, finished items, failures, and what they cost.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::item::{Phase, SearchAction};

/// Tokens of a response, or of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// All input tokens.
    pub input: i64,
    /// Those read from the provider's prompt cache.
    pub cached_input: i64,
    /// All output tokens.
    pub output: i64,
    /// Those spent on reasoning.
    pub reasoning_output: i64,
    /// Input and output.
    pub total: i64,
}

impl Usage {
    /// The numbers are the provider's, so that they may be anything.
    pub(crate) fn add(&mut self, other: Self) {
        let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
        add(&mut self.input, other.input);
        add(&mut self.cached_input, other.cached_input);
        add(&mut self.output, other.output);
        add(&mut self.reasoning_output, other.reasoning_output);
        add(&mut self.total, other.total);
    }
}

/// What kind of failure a model call had (specification: Errors, `agentErrorInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The sandbox cannot enforce the policy.
    SandboxError,
    /// The provider has too much to do.
    ServerOverloaded,
    /// The provider held the request back for reasons of cyber security.
    CyberPolicy,
    /// A failure of the server.
    InternalServerError,
    /// Anything else.
    Other,
}

/// A failed model call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For a program.
    pub kind: FailureKind,
    /// For a person.
    pub message: String,
    /// What else the provider said, such as its error code and request id.
    pub details: Option<String>,
    /// The provider's HTTP status.
    pub http_status: Option<u16>,
    /// Whether the same request may succeed later.
    pub retry: Retry,
    /// How long the provider asks to wait, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// Tokens that the response cost before it failed.
    pub usage: Option<Usage>,
}

impl Failure {
    /// A failure that no retry helps.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
            http_status: None,
            retry: Retry::Never,
            retry_after_ms: None,
            usage: None,
        }
    }
}

/// Whether a failed request is sent again, and by which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again.
    Never,
    /// The response did not begin: [`Limits::request_retries`](crate::Limits::request_retries).
    Request,
    /// The response broke off: [`Limits::stream_retries`](crate::Limits::stream_retries).
    Stream,
}

/// What kind of output item the model opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelItemKind {
    /// A message.
    Message { phase: Option<Phase> },
    /// Reasoning.
    Reasoning,
    /// A search by the provider, with its query where that is known already.
    WebSearch { query: String },
    /// A call or another item that is processed only when it is complete.
    Other,
}

/// A finished output item of the model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelItem {
    /// A message.
    Message { text: String, phase: Option<Phase> },
    /// Reasoning.
    Reasoning { summary: Vec<String>, content: Vec<String> },
    /// A call of a function tool.
    FunctionCall { call_id: String, name: String, arguments: String },
    /// A call of a custom tool.
    CustomToolCall { call_id: String, name: String, input: String },
    /// A search by the provider.
    WebSearch { query: String, action: Option<SearchAction>, failed: bool },
    /// An item of a type that this version cannot carry out; the model waits for the output of one
    /// with a call id.
    Other { kind: String, call_id: Option<String> },
}

/// One event of a streamed response; `index` is the output item's place in it.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// An output item opened.
    ItemAdded { index: usize, kind: ModelItemKind },
    /// Text of a message.
    TextDelta { index: usize, text: String },
    /// A section of the reasoning summary opened.
    SummaryPartAdded { index: usize, part: usize },
    /// Text of the reasoning summary.
    SummaryDelta { index: usize, part: usize, text: String },
    /// Raw reasoning text.
    ReasoningDelta { index: usize, part: usize, text: String },
    /// An output item is whole; `raw` goes into the history as it is.
    ItemDone { index: usize, raw: Arc<str>, item: ModelItem },
    /// The response is whole.
    Completed { usage: Usage },
    /// The response failed.
    Failed(Failure),
}
