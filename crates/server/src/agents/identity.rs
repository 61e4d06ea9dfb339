//! What makes a thread an agent. It is stored with the thread.

use serde::{Deserialize, Serialize};
use session::{ApprovalPolicy, SandboxPolicy};

/// See the module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentIdentity {
    /// The thread that started it.
    pub(crate) parent: String,
    /// The thread at the root of its tree.
    pub(crate) root: String,
    /// Its distance from the root.
    pub(crate) depth: u32,
    /// A name for people, unique in its tree.
    pub(crate) nickname: String,
    /// Its role in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// The policies of its parent when it was started: no configuration gives it more.
    pub(crate) bound: PolicyBound,
}

/// Policies that bound others from above.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyBound {
    pub(crate) approval: ApprovalPolicy,
    pub(crate) sandbox: SandboxPolicy,
}
