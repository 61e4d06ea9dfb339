//! Collaboration modes: presets of model, effort and instructions.

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::model::ReasoningEffort;
use crate::table::methods;

methods! {
    Collaboration, CollaborationMethods;

    /// Lists the presets that `turn/start` accepts.
    CollaborationModeList = "collaborationMode/list",
        collaboration_mode_list(Empty) -> CollaborationModeListResponse,
        Experimental, Ordered, [];
}

/// Result of `collaborationMode/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CollaborationModeListResponse {
    pub data: Vec<CollaborationModeMask>,
}

/// A preset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CollaborationModeMask {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ModeKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
}

/// The mode of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollaborationMode {
    pub mode: ModeKind,
    pub settings: CollaborationSettings,
}

/// Kind of collaboration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModeKind {
    /// Plans before acting.
    Plan,
    Default,
}

/// Settings of a mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollaborationSettings {
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Null: the mode's built-in instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
}
