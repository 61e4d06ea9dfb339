//! The messages of the model: streamed events, finished items, failures, and their costs.

use std::sync::Arc;
use std::time::Duration;

use http_client::retry::Wait;
pub use http_client::{FailureKind, Retry};

use super::item::{Change, Phase, SearchAction};

/// Tokens of a response, or of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens.
    pub input: i64,
    /// Those read from the provider's prompt cache.
    pub cached_input: i64,
    /// Those written to the provider's prompt cache.
    pub cache_write_input: i64,
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
        add(&mut self.cache_write_input, other.cache_write_input);
        add(&mut self.output, other.output);
        add(&mut self.reasoning_output, other.reasoning_output);
        add(&mut self.total, other.total);
    }
}

/// The usage and cost of one response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseUsage {
    /// Its tokens.
    pub tokens: Usage,
    /// In picodollars; `None`: the price is not known.
    pub cost: Option<i64>,
    /// Who answered.
    pub source: ResponseSource,
}

/// Who answered a request, and how it is billed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseSource {
    /// Provider id.
    pub provider: Arc<str>,
    /// Model id.
    pub model: Arc<str>,
    /// Service tier; `None` is the provider's default.
    pub service_tier: Option<Arc<str>>,
}

impl From<Usage> for ResponseUsage {
    fn from(tokens: Usage) -> Self {
        Self { tokens, ..Self::default() }
    }
}

/// The amount spent so far, in picodollars; `None`: the price of a part is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// For the last response.
    pub last: Option<i64>,
    /// For the turn.
    pub turn: Option<i64>,
    /// For the thread.
    pub thread: Option<i64>,
}

/// A provider's notice about the model that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelNotice {
    /// Another model than that of the request answers.
    Rerouted { from: Arc<str>, to: Arc<str> },
    /// The provider asks the user to be verified, in these ways.
    Verification(Vec<Verification>),
    /// The request waits for the provider's rate limit before it is sent. [`ModelEvent::Sent`] follows.
    Queued {
        /// Provider id.
        provider: Arc<str>,
        /// The wait that is expected.
        wait: Duration,
        /// Requests with the same key that are sent before.
        ahead: usize,
    },
    /// A response contradicts itself. Reported once in a turn.
    Contradiction {
        /// Provider id.
        provider: Arc<str>,
        /// The contradiction, as a clause.
        what: &'static str,
    },
    /// The translation into or from the provider's wire left out a part. Reported once in a thread.
    LeftOut {
        /// Provider id.
        provider: Arc<str>,
        /// The part's member, and the reason.
        what: Arc<str>,
    },
}

/// A way in which a user can be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// For access to work on computer security.
    TrustedAccessForCyber,
}

/// A failed model call, or another reason why a turn fails.
pub type Failure = http_client::Failure<ResponseUsage>;

/// The attempt that follows a failed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrying {
    /// Its number, from 1.
    pub attempt: u32,
    /// Most attempts of this kind.
    pub limit: u32,
    /// The wait before it.
    pub wait: Wait,
}

/// The kind of output item that the model opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelItemKind {
    /// A message.
    Message { phase: Option<Phase> },
    /// Reasoning.
    Reasoning,
    /// A search by the provider, with its query where that is known already.
    WebSearch { query: String },
    /// An image that the provider generates.
    ImageGeneration,
    /// A call or another item that is processed only when it is complete.
    Other,
}

/// An image as the provider returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedImage {
    /// The provider's word for its state, if it said one.
    pub status: Option<String>,
    /// Its base64; empty: there is no image.
    pub result: String,
    /// The prompt that the provider made of the model's.
    pub revised_prompt: Option<String>,
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
    /// A call of `tool_search` as a kind of item of its own; the arguments are JSON.
    ToolSearchCall { call_id: String, arguments: String },
    /// A search by the provider.
    WebSearch { query: String, action: Option<SearchAction>, failed: bool },
    /// An image that the provider generated.
    ImageGeneration(GeneratedImage),
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
    /// A call of `apply_patch` at `index` streams in: the changes that have come so far, as the patch
    /// writes them, with absolute paths or relative ones.
    PatchPreview { index: usize, changes: Vec<Change> },
    /// An output item is whole; `raw` goes into the history as it is.
    ItemDone { index: usize, raw: Arc<str>, item: ModelItem },
    /// The provider said something about the model.
    Notice(ModelNotice),
    /// The request waits for the provider's rate limit. [`ModelEvent::Sent`] follows.
    Held,
    /// A request that waited for the provider's rate limit is sent.
    Sent,
    /// The response ends before the model has: a tool of the provider ran long. It goes on when it is sent back.
    /// [`ModelEvent::Completed`] follows.
    Paused,
    /// The response is whole.
    Completed { usage: ResponseUsage },
    /// The response failed.
    Failed(Failure),
}
