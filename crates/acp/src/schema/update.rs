//! `session/update`: what happens in a session.

use serde::Serialize;

use super::content::ContentBlock;
use super::session::ConfigOption;
use super::tool_call::ToolCall;

/// Parameters of `session/update`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionNotification<'a, U> {
    pub(crate) session_id: &'a str,
    /// Of the shape that the version has.
    pub(crate) update: &'a U,
}

/// One update.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum SessionUpdate {
    UserMessageChunk(Chunk),
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    ToolCall(ToolCall),
    ToolCallUpdate(ToolCall),
    /// Replaces the plan.
    Plan {
        entries: Vec<PlanEntry>,
    },
    AvailableCommandsUpdate {
        available_commands: Vec<AvailableCommand>,
    },
    CurrentModeUpdate {
        current_mode_id: &'static str,
    },
    ConfigOptionUpdate {
        config_options: Vec<ConfigOption>,
    },
    SessionInfoUpdate {
        title: Option<String>,
    },
    UsageUpdate {
        /// Tokens in the context.
        used: u64,
        /// Tokens that fit into it.
        size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<Cost>,
    },
    /// Of clients with the capability `session.notices`.
    Notice {
        severity: &'static str,
        title: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// Of clients with the capability `session.compaction`.
    CompactionUpdate {
        compaction_id: String,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Chunk {
    pub(crate) content: ContentBlock,
    pub(crate) message_id: String,
}

impl Chunk {
    pub(crate) fn text(message_id: &str, text: impl Into<String>) -> Self {
        Self { content: ContentBlock::text(text), message_id: message_id.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PlanEntry {
    pub(crate) content: String,
    pub(crate) priority: &'static str,
    pub(crate) status: &'static str,
}

/// A command that can be typed after a slash.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct AvailableCommand {
    pub(crate) name: String,
    pub(crate) description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<CommandInput>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CommandInput {
    pub(crate) hint: String,
}

/// The cost of a session so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) amount: f64,
    pub(crate) currency: String,
}
