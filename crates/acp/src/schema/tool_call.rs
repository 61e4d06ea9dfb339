//! Calls of tools: their kind, state, content and places.

use serde::Serialize;
use serde_json::Value;

use super::content::ContentBlock;

/// A call, or what of it has changed: absent members stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolCall {
    pub(crate) tool_call_id: String,
    /// Present in the first report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<ToolCallStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Vec<ToolCallContent>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) locations: Option<Vec<ToolCallLocation>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_output: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolKind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolCallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum ToolCallContent {
    Content {
        content: ContentBlock,
    },
    Diff {
        /// Absolute.
        path: String,
        /// Absent for a new file.
        #[serde(skip_serializing_if = "Option::is_none")]
        old_text: Option<String>,
        new_text: String,
    },
    /// The same in version 2.
    #[serde(rename = "diff")]
    Changes {
        changes: Vec<FileChange>,
        #[serde(skip_serializing_if = "Option::is_none")]
        patch: Option<Patch>,
    },
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "operation", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum FileChange {
    Add { path: String },
    Delete { path: String },
    Modify { path: String },
    Move { old_path: String, path: String },
}

/// The text of changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Patch {
    pub(crate) format: &'static str,
    pub(crate) text: String,
}

impl ToolCallContent {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Content { content: ContentBlock::text(text) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ToolCallLocation {
    /// Absolute.
    pub(crate) path: String,
    /// Counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
}
