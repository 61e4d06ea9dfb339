//! The stored shape of what makes a thread an agent.

use serde::{Deserialize, Serialize};

use super::StoredBound;

/// The identity of an agent in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredAgent {
    pub(crate) parent: String,
    pub(crate) root: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) above: Vec<String>,
    pub(crate) depth: u32,
    pub(crate) nickname: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_parents_history: bool,
    pub(crate) bound: StoredBound,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<StoredLimits>,
}

/// The limits of a tree of agents in their stored shape.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredLimits {
    pub(crate) max_threads: usize,
    pub(crate) max_depth: u32,
}
