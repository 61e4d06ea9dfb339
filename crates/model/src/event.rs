//! The parsed events of a streamed response. These types contain no wire names of the application
//! server and no transport details.

use std::sync::Arc;
use std::time::Duration;

use crate::{Failure, PlanUsage, RateLimits};

/// One event of a streamed response. A stream ends with exactly one [`Event::Completed`] or
/// [`Event::Failed`]; nothing follows it. `index` is the item's position in the response.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Created {
        response_id: String,
        /// The model that answers, as the provider names it.
        model: Option<String>,
    },
    /// The provider names the model that answers, apart from the response.
    ServedBy {
        model: String,
    },
    /// The response contradicts itself: how, as a clause. Once a response.
    Contradiction(&'static str),
    /// The translation into or from the provider's wire left out a part: its member, and the reason.
    LeftOut(String),
    /// Verifications that the provider recommends to the user, by their names.
    VerificationRequested {
        names: Vec<String>,
    },
    /// The provider reported its rate limits.
    RateLimits(RateLimits),
    /// The provider reported how much of the account's plan is used.
    PlanUsage(Box<PlanUsage>),
    /// The request waits for the provider's rate limit before it is sent. [`Event::Sent`] follows.
    Queued {
        /// The wait that is expected.
        wait: Duration,
        /// Requests with the same key that are sent before.
        ahead: usize,
    },
    /// A request that waited is sent.
    Sent,
    /// The request does not go out at once. [`Event::Sent`] follows.
    Held,
    /// An item begins; its deltas follow, then its [`Event::ItemDone`].
    ItemAdded {
        index: u32,
        id: String,
        kind: ItemKind,
    },
    TextDelta {
        index: u32,
        text: String,
    },
    SummaryPartAdded {
        index: u32,
        summary_index: u32,
    },
    SummaryDelta {
        index: u32,
        summary_index: u32,
        text: String,
    },
    /// Raw reasoning, which few providers reveal.
    ReasoningDelta {
        index: u32,
        content_index: u32,
        text: String,
    },
    ArgumentsDelta {
        index: u32,
        text: String,
    },
    CustomInputDelta {
        index: u32,
        text: String,
    },
    /// An item is finished. `raw` is its JSON as received, suitable as an input item: only members
    /// of a `reasoning` item that providers refuse as input (`status`; `id` without
    /// `encrypted_content`) are removed.
    ItemDone {
        index: u32,
        raw: Arc<str>,
        item: Item,
    },
    /// The response ends before the model has: it goes on when it is sent back. [`Event::Completed`] follows.
    Paused,
    Completed {
        usage: Usage,
        /// The service tier that was used, as the provider names it.
        service_tier: Option<String>,
    },
    Failed(Failure),
}

impl Event {
    /// Returns whether the event is a part of the response, and not of what surrounds it.
    #[must_use]
    pub fn is_response(&self) -> bool {
        !matches!(
            self,
            Self::RateLimits(_)
                | Self::PlanUsage(_)
                | Self::LeftOut(_)
                | Self::Queued { .. }
                | Self::Held
                | Self::Sent
        )
    }

    /// Returns whether the event is terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Failed(_))
    }
}

/// The kind of an item that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemKind {
    Message {
        phase: Option<Phase>,
    },
    Reasoning,
    FunctionCall {
        call_id: String,
        name: String,
    },
    CustomToolCall {
        call_id: String,
        name: String,
    },
    /// A search, with its query if known.
    WebSearch {
        query: String,
    },
    /// An image that the provider's own tool generates. Previews of it are not decoded.
    ImageGeneration,
    /// An unknown kind, with its `type`.
    Other {
        kind: String,
    },
}

/// A finished item, reduced to what a turn needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Message {
        text: String,
        phase: Option<Phase>,
    },
    Reasoning {
        summary: Vec<String>,
        content: Vec<String>,
    },
    /// `arguments` is JSON text as the model wrote it; it may be invalid JSON.
    FunctionCall {
        call_id: String,
        name: String,
        arguments: String,
    },
    /// `input` is free text, such as a patch.
    CustomToolCall {
        call_id: String,
        name: String,
        input: String,
    },
    /// A call of `tool_search` that the client carries out; `arguments` is JSON text.
    ToolSearchCall {
        call_id: String,
        arguments: String,
    },
    /// A search by the provider; `action` is the item's `action` member, and `failed` derives from
    /// its `status`.
    WebSearch {
        query: String,
        action: serde_json::Value,
        failed: bool,
    },
    /// An image that the provider's own tool generated; `result` is its base64, empty without an
    /// image, and `status` is the item's, which may be absent.
    ImageGeneration {
        status: Option<String>,
        result: String,
        revised_prompt: Option<String>,
    },
    /// An unknown kind, with its `type`. If it has a call id, the model waits for its output.
    Other {
        kind: String,
        call_id: Option<String>,
    },
}

/// The role of a message in a turn: intermediate commentary, or the final answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Commentary,
    FinalAnswer,
}

impl Phase {
    /// The name used on the wire, `commentary` or `final_answer`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Commentary => "commentary",
            Self::FinalAnswer => "final_answer",
        }
    }

    /// The phase of that name; `None` for unknown names.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "commentary" => Some(Self::Commentary),
            "final_answer" => Some(Self::FinalAnswer),
            _ => None,
        }
    }
}

/// Tokens of a response, as counted by the provider. `cached_input` and `cache_write` are parts of
/// `input`, `reasoning_output` is part of `output`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    /// Read from the prompt cache.
    pub cached_input: u64,
    /// Written to the prompt cache, where the provider counts that.
    pub cache_write: u64,
    /// The part of `cache_write` that stays for an hour.
    pub cache_write_1h: u64,
    pub output: u64,
    pub reasoning_output: u64,
    pub total: u64,
}

impl Usage {
    /// Returns whether a response can have these counts.
    pub(crate) fn is_believed(&self) -> bool {
        let Self { input, cached_input, cache_write, cache_write_1h, output, .. } = *self;
        [
            input,
            cached_input,
            cache_write,
            cache_write_1h,
            output,
            self.reasoning_output,
            self.total,
        ]
        .iter()
        .all(|count| *count <= wire::MAX_COUNTED_TOKENS)
    }
}
