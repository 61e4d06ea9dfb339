//! A response in the internal form: the events of its stream, its items and its usage. Every wire is decoded to these
//! and encoded from these.

use std::borrow::Cow;

use crate::failure::Failure;
use crate::json::{Members, object};

/// An event of a response. A stream ends with exactly one [`Event::Ended`] or [`Event::Failed`]; nothing follows it.
/// `index` is the item's position in the response.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<'a> {
    Created {
        id: &'a str,
        /// The model that answers, as the server names it.
        model: &'a str,
        /// Tokens that are known at the beginning: those of the input, on Messages.
        usage: Option<Usage>,
    },
    /// An item begins, without its text.
    ItemAdded {
        index: u32,
        item: &'a OutputItem,
    },
    TextDelta {
        index: u32,
        text: &'a str,
    },
    RefusalDelta {
        index: u32,
        text: &'a str,
    },
    /// A citation of a message's text, as a ready annotation of the Responses wire.
    Annotation {
        index: u32,
        json: &'a str,
    },
    SummaryDelta {
        index: u32,
        part: u32,
        text: &'a str,
    },
    /// Raw reasoning, not a summary.
    ReasoningDelta {
        index: u32,
        part: u32,
        text: &'a str,
    },
    ArgumentsDelta {
        index: u32,
        text: &'a str,
    },
    InputDelta {
        index: u32,
        text: &'a str,
    },
    /// An item is finished, and whole.
    ItemDone {
        index: u32,
        item: &'a OutputItem,
    },
    /// A part of the response has no equal and was left out.
    Warning {
        member: &'a str,
        reason: &'static str,
    },
    Ended(&'a End),
    Failed {
        failure: &'a Failure,
        usage: Usage,
    },
}

/// The end of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub stop: Stop,
    pub usage: Usage,
    pub service_tier: Option<String>,
}

/// The reason that a response ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    #[default]
    EndTurn,
    /// The model waits for the outputs of its calls.
    ToolUse,
    StopSequence(String),
    /// The output limit: the response is incomplete.
    MaxTokens,
    /// The provider's filter, or the model's refusal: the response is incomplete.
    Filter,
    /// A tool of the server ran long: the response is sent back as it is, and goes on.
    Pause,
}

impl Stop {
    /// The reason in `incomplete_details`; `None` if the response is complete.
    #[must_use]
    pub fn incomplete(&self) -> Option<&'static str> {
        match self {
            Self::MaxTokens => Some("max_output_tokens"),
            Self::Filter => Some("content_filter"),
            _ => None,
        }
    }
}

/// Tokens of a response. `cached` and `written` are parts of `input`, `reasoning` is part of `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: u64,
    /// Read from the prompt cache.
    pub cached: u64,
    /// Written to the prompt cache.
    pub written: u64,
    /// The part of `written` that stays for an hour, where the server says so.
    pub written_hour: u64,
    pub output: u64,
    pub reasoning: u64,
    /// Searches of the web by the provider.
    pub searches: u64,
}

impl Usage {
    /// Input and output.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Writes the usage of a response of the Responses wire.
    pub(crate) fn write(self, members: &mut Members<'_>) {
        members.object("usage", |usage| {
            usage.number("input_tokens", self.input);
            usage.object("input_tokens_details", |details| {
                details.number("cached_tokens", self.cached);
                if self.written > 0 {
                    details.number("cache_write_tokens", self.written);
                }
                // No member of the API: the part of them that another wire keeps for an hour.
                if self.written_hour > 0 {
                    details.number("cache_write_1h_tokens", self.written_hour);
                }
            });
            usage.number("output_tokens", self.output);
            usage.object("output_tokens_details", |details| {
                details.number("reasoning_tokens", self.reasoning);
            });
            usage.number("total_tokens", self.total());
        });
    }
}

/// An item of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputItem {
    Message {
        id: String,
        text: String,
        refusal: String,
        /// Ready annotations of the Responses wire.
        annotations: Vec<String>,
        phase: Option<String>,
    },
    Reasoning {
        id: String,
        summary: Vec<String>,
        content: Vec<String>,
        encrypted: Option<String>,
    },
    FunctionCall {
        id: String,
        call_id: String,
        name: String,
        namespace: Option<String>,
        arguments: String,
    },
    CustomToolCall {
        id: String,
        call_id: String,
        name: String,
        input: String,
    },
    ToolSearchCall {
        id: String,
        call_id: String,
        arguments: String,
    },
    WebSearchCall {
        id: String,
        query: String,
        is_failed: bool,
    },
    ImageCall {
        id: String,
        result: String,
    },
    /// An item that only the Responses wire has, as its JSON.
    Other {
        id: String,
        json: String,
    },
}

impl OutputItem {
    /// The item's id.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Message { id, .. }
            | Self::Reasoning { id, .. }
            | Self::FunctionCall { id, .. }
            | Self::CustomToolCall { id, .. }
            | Self::ToolSearchCall { id, .. }
            | Self::WebSearchCall { id, .. }
            | Self::ImageCall { id, .. }
            | Self::Other { id, .. } => id,
        }
    }

    /// The item as JSON of the Responses wire, as it is stored and sent again.
    #[must_use]
    pub fn to_json(&self) -> String {
        if let Self::Other { json, .. } = self {
            return json.clone();
        }
        let mut out = String::new();
        object(&mut out, |members| self.write(members, "completed"));
        out
    }

    /// The call's id, name and text, for calls that the client carries out.
    #[must_use]
    pub(crate) fn call(&self) -> Option<(&str, Cow<'_, str>, &str, bool)> {
        match self {
            Self::FunctionCall { call_id, name, namespace, arguments, .. } => {
                let name = match namespace {
                    Some(namespace) => Cow::Owned(format!("{namespace}__{name}")),
                    None => Cow::Borrowed(name.as_str()),
                };
                Some((call_id, name, arguments, false))
            }
            Self::CustomToolCall { call_id, name, input, .. } => {
                Some((call_id, Cow::Borrowed(name), input, true))
            }
            Self::ToolSearchCall { call_id, arguments, .. } => {
                Some((call_id, Cow::Borrowed("tool_search"), arguments, false))
            }
            _ => None,
        }
    }

    /// Writes the members of an item that is no [`OutputItem::Other`].
    pub(crate) fn write(&self, members: &mut Members<'_>, status: &str) {
        match self {
            Self::Message { id, text, refusal, annotations, phase } => {
                members.text("type", "message");
                members.text("id", id);
                members.text("status", status);
                members.text("role", "assistant");
                members.opt_text("phase", phase.as_deref());
                members.array("content", |list| {
                    if !text.is_empty() {
                        list.object(|part| write_text(part, text, annotations));
                    }
                    if !refusal.is_empty() {
                        list.object(|part| {
                            part.text("type", "refusal");
                            part.text("refusal", refusal);
                        });
                    }
                });
            }
            Self::Reasoning { id, summary, content, encrypted } => {
                members.text("type", "reasoning");
                members.text("id", id);
                write_parts(members, "summary", "summary_text", summary);
                if !content.is_empty() {
                    write_parts(members, "content", "reasoning_text", content);
                }
                members.opt_text("encrypted_content", encrypted.as_deref());
            }
            Self::FunctionCall { id, call_id, name, namespace, arguments } => {
                members.text("type", "function_call");
                members.text("id", id);
                members.text("status", status);
                members.text("call_id", call_id);
                members.text("name", name);
                members.opt_text("namespace", namespace.as_deref());
                members.text("arguments", arguments);
            }
            Self::CustomToolCall { id, call_id, name, input } => {
                members.text("type", "custom_tool_call");
                members.text("id", id);
                members.text("status", status);
                members.text("call_id", call_id);
                members.text("name", name);
                members.text("input", input);
            }
            Self::ToolSearchCall { id, call_id, arguments } => {
                members.text("type", "tool_search_call");
                members.text("id", id);
                members.text("status", status);
                members.text("execution", "client");
                members.text("call_id", call_id);
                let is_object = crate::json::is_object(arguments);
                members.raw("arguments", if is_object { arguments } else { "{}" });
            }
            Self::WebSearchCall { id, query, is_failed } => {
                members.text("type", "web_search_call");
                members.text("id", id);
                members.text("status", if *is_failed { "failed" } else { status });
                members.object("action", |action| {
                    action.text("type", "search");
                    action.text("query", query);
                });
            }
            Self::ImageCall { id, result } => {
                members.text("type", "image_generation_call");
                members.text("id", id);
                members.text("status", status);
                members.text("result", result);
            }
            Self::Other { .. } => {}
        }
    }
}

pub(crate) fn write_text(part: &mut Members<'_>, text: &str, annotations: &[String]) {
    part.text("type", "output_text");
    part.text("text", text);
    part.array("annotations", |list| annotations.iter().for_each(|json| list.raw(json)));
}

fn write_parts(members: &mut Members<'_>, name: &str, kind: &str, texts: &[String]) {
    members.array(name, |list| {
        for text in texts {
            list.object(|part| {
                part.text("type", kind);
                part.text("text", text);
            });
        }
    });
}
