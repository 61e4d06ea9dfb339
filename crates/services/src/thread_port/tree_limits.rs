//! Limits of a tree: the number of agents that work at once, and its depth.

use config::Config;
use session::ToolError;

/// The limits of a tree of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// `agents.max_threads`.
    pub max_threads: usize,
    /// `agents.max_depth`.
    pub max_depth: u32,
}

impl TreeLimits {
    pub fn of(config: &Config) -> Self {
        Self {
            max_threads: usize::try_from(*config.agents.max_threads).unwrap_or(usize::MAX),
            max_depth: u32::try_from(*config.agents.max_depth).unwrap_or(u32::MAX),
        }
    }

    /// The smaller of each: the configuration of an agent's role does not raise the limits of its
    /// tree.
    pub fn within(self, other: Self) -> Self {
        Self {
            max_threads: self.max_threads.min(other.max_threads),
            max_depth: self.max_depth.min(other.max_depth),
        }
    }

    /// Refuses an agent at this depth.
    pub fn check_depth(self, depth: u32) -> Result<(), ToolError> {
        if depth <= self.max_depth {
            return Ok(());
        }
        Err(ToolError::new(format!(
            "no agent can be started here: it would have depth {depth}, and `agents.max_depth` is \
             {}; do the work yourself",
            self.max_depth
        )))
    }

    /// Refuses a further agent that works, in addition to `working` others.
    pub fn check_threads(self, working: usize) -> Result<(), ToolError> {
        if working < self.max_threads {
            return Ok(());
        }
        Err(ToolError::new(format!(
            "{working} agents are working, and `agents.max_threads` is {}; wait until one has \
             ended its work (`wait_agent`), or close one",
            self.max_threads
        )))
    }
}
