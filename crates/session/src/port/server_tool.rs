//! Tools of MCP servers: what a thread offers of them, and their calls (wire: `mcpToolCall`).

use std::sync::Arc;

use super::tool_content::{ItemStatus, ToolContent};
use crate::Id;

/// A tool of an MCP server, as a thread offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTool {
    /// The model's name for it; unique among the tools of the thread.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: String,
    /// The target that its calls are bound to.
    pub target: Arc<ToolTarget>,
}

/// The tool that a name stands for. A call goes there or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolTarget {
    /// The server's name in the configuration.
    pub server: String,
    /// The server's name of the tool.
    pub tool: String,
    /// A title for people.
    pub title: Option<String>,
    /// Identifies the definition that was offered: a call of a tool that has changed since fails.
    pub digest: [u8; 16],
    /// Identifies the server as the configuration defines it: a grant does not hold for another program
    /// under the same name.
    pub server_digest: [u8; 16],
    /// The effect of a call, as far as the server is believed.
    pub effect: ToolEffect,
    /// When the user is asked about a call.
    pub approval: ToolApproval,
    /// The connected app that the tool belongs to.
    pub connector: Option<Connector>,
    /// Address of a user interface that shows results of the tool.
    pub app_resource: Option<String>,
}

/// The effect of a tool's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// It changes nothing: a trusted server says so.
    ReadOnly,
    /// It destroys nothing: a trusted server says so.
    Additive,
    /// It is not known.
    Unknown,
    /// It can destroy something: the server says so.
    Destructive,
}

/// When the user is asked about the call of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolApproval {
    /// When its effect demands it.
    #[default]
    Auto,
    /// Always.
    Prompt,
    /// When it can destroy something.
    Approve,
}

/// An app that an MCP server connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connector {
    /// Names it in the configuration.
    pub id: String,
    /// For people.
    pub name: Option<String>,
}

/// A call of a server's tool, as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerCall {
    /// Item id.
    pub id: Id,
    /// The tool.
    pub target: Arc<ToolTarget>,
    /// Its arguments, JSON.
    pub arguments: String,
    /// Its status.
    pub status: ItemStatus,
    /// The server's result.
    pub result: Option<ServerResult>,
    /// Why it failed.
    pub error: Option<String>,
    /// Duration of the call.
    pub duration_ms: Option<i64>,
}

/// The result of a server, each part as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerResult {
    /// An array.
    pub content: String,
    /// An object.
    pub structured: Option<String>,
    /// An object.
    pub meta: Option<String>,
}

/// The answer to a call of a server's tool.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerAnswer {
    /// For clients.
    pub result: ServerResult,
    /// For the model, as data.
    pub content: Vec<ToolContent>,
    /// True if the tool succeeded.
    pub success: bool,
}

impl ServerCall {
    /// A call that has begun.
    pub(crate) fn started(id: Id, target: Arc<ToolTarget>, arguments: String) -> Self {
        Self {
            id,
            target,
            arguments,
            status: ItemStatus::InProgress,
            result: None,
            error: None,
            duration_ms: None,
        }
    }

    /// The call in its final state.
    pub(crate) fn closed(self, status: ItemStatus, reason: Option<&str>) -> Self {
        // Clients have no state for a declined call: the reason is in its error.
        let error = match (status, reason) {
            (_, Some(reason)) => Some(reason.to_owned()),
            (ItemStatus::Declined, None) => Some("the user declined the call".to_owned()),
            _ => None,
        };
        Self { status, error, ..self }
    }
}
