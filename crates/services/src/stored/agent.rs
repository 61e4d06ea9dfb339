//! The stored shape of what makes a thread an agent.

use serde::{Deserialize, Serialize};

use super::StoredBound;

/// The identity of an agent in its stored shape.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredAgent {
    pub parent: String,
    pub root: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub above: Vec<String>,
    pub depth: u32,
    pub nickname: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_parents_history: bool,
    pub bound: StoredBound,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<StoredLimits>,
}

/// The limits of a tree of agents in their stored shape.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredLimits {
    pub max_threads: usize,
    pub max_depth: u32,
}
