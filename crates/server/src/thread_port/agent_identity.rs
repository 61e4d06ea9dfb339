//! The identity of an agent's thread. It is stored with the thread.

use serde::{Deserialize, Serialize};
use session::PolicyBound;

use crate::thread_port::TreeLimits;

/// The facts that make a thread an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentIdentity {
    /// The thread that started it.
    pub(crate) parent: String,
    /// The thread at the root of its tree.
    pub(crate) root: String,
    /// The threads above it, the root first and its parent last: who it belongs to is known without
    /// them. Empty in what earlier versions stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) above: Vec<String>,
    /// Its distance from the root.
    pub(crate) depth: u32,
    /// A name for people, unique in its tree.
    pub(crate) nickname: String,
    /// Its role in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// The job whose row it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    /// True if it began with the history of its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_parents_history: bool,
    /// The policies of its parent when it was started: no configuration gives it more.
    pub(crate) bound: PolicyBound,
    /// Those of its tree when it was started: the file of its role does not raise them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limits: Option<TreeLimits>,
}

impl AgentIdentity {
    /// The threads above it, the root first and its parent last.
    pub(crate) fn above(&self) -> Vec<&str> {
        match self.above.is_empty() {
            false => self.above.iter().map(String::as_str).collect(),
            true if self.root == self.parent => vec![&self.root],
            true => vec![&self.root, &self.parent],
        }
    }

    /// Returns whether `thread` started it, directly or not.
    pub(crate) fn descends_from(&self, thread: &str) -> bool {
        self.above().contains(&thread)
    }
}
