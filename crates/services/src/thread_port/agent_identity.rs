//! The identity of an agent's thread. It is stored with the thread.

use session::PolicyBound;

use crate::stored::{StoredAgent, StoredBound, StoredLimits};
use crate::thread_port::TreeLimits;

/// The facts that make a thread an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentIdentity {
    /// The thread that started it.
    pub parent: String,
    /// The thread at the root of its tree.
    pub root: String,
    /// The threads above it, the root first and its parent last: who it belongs to is known without
    /// them. Empty in what earlier versions stored.
    pub above: Vec<String>,
    /// Its distance from the root.
    pub depth: u32,
    /// A name for people, unique in its tree.
    pub nickname: String,
    /// Its role in the configuration.
    pub role: Option<String>,
    /// The job whose row it works on.
    pub job: Option<String>,
    /// True if it began with the history of its parent.
    pub has_parents_history: bool,
    /// The policies of its parent when it was started: no configuration gives it more.
    pub bound: PolicyBound,
    /// Those of its tree when it was started: the file of its role does not raise them.
    pub limits: Option<TreeLimits>,
}

impl AgentIdentity {
    /// The threads above it, the root first and its parent last.
    pub fn above(&self) -> Vec<&str> {
        match self.above.is_empty() {
            false => self.above.iter().map(String::as_str).collect(),
            true if self.root == self.parent => vec![&self.root],
            true => vec![&self.root, &self.parent],
        }
    }

    /// Returns whether `thread` started it, directly or not.
    pub fn descends_from(&self, thread: &str) -> bool {
        self.above().contains(&thread)
    }
}

impl From<&AgentIdentity> for StoredAgent {
    fn from(agent: &AgentIdentity) -> Self {
        let AgentIdentity {
            parent,
            root,
            above,
            depth,
            nickname,
            role,
            job,
            has_parents_history,
            bound,
            limits,
        } = agent.clone();
        let limits = limits
            .map(|TreeLimits { max_threads, max_depth }| StoredLimits { max_threads, max_depth });
        let bound = StoredBound::from(&bound);
        Self { parent, root, above, depth, nickname, role, job, has_parents_history, bound, limits }
    }
}

impl From<StoredAgent> for AgentIdentity {
    fn from(agent: StoredAgent) -> Self {
        let StoredAgent {
            parent,
            root,
            above,
            depth,
            nickname,
            role,
            job,
            has_parents_history,
            bound,
            limits,
        } = agent;
        let limits = limits
            .map(|StoredLimits { max_threads, max_depth }| TreeLimits { max_threads, max_depth });
        Self {
            parent,
            root,
            above,
            depth,
            nickname,
            role,
            job,
            has_parents_history,
            bound: bound.into(),
            limits,
        }
    }
}
