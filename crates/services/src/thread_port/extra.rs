//! The stored state of a thread beyond its settings.

use std::sync::Arc;

use config::Config;
use protocol::{ThreadQueuePause, ThreadSource, ThreadWorktree};
use session::{ApprovedAction, Conceded, DynamicTool, Settings};
use store::ThreadRecord;

use crate::error::Error;
use crate::stored::{
    self, StoredAgent, StoredApproval, StoredConcession, StoredExtra, StoredGoal, StoredPause,
    StoredSettings, StoredSource, StoredTool, StoredWorktree,
};
use crate::thread_port::AgentIdentity;

/// The stored state of a thread beyond its settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub service_name: Option<String>,
    pub thread_source: Option<ThreadSource>,
    /// The thread leaves no notes for later ones, and gets none.
    pub without_memories: bool,
    /// The settings that the model was last informed of.
    pub introduced: Option<Settings>,
    pub goal: Option<session::Goal>,
    /// Actions that the user approved after a review refused them, and that have not run.
    pub approved_actions: Vec<ApprovedAction>,
    /// Parts of requests that its providers refused.
    pub concessions: Vec<Conceded>,
    /// The project documents below the working folder that the model has, by path.
    pub documents: Vec<String>,
    /// Tools that the client runs.
    pub dynamic_tools: Arc<[DynamicTool]>,
    /// The identity that makes the thread an agent.
    pub agent: Option<AgentIdentity>,
    /// Why its queue waits although no turn runs.
    pub queue_pause: Option<ThreadQueuePause>,
    /// The worktree that was made for it, or for the thread that it was forked from.
    pub worktree: Option<ThreadWorktree>,
}

impl Extra {
    /// That of a stored thread.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(record: &ThreadRecord) -> Result<Self, Error> {
        Ok(stored::extra(record)?.into())
    }

    /// Returns whether the thread leaves notes and gets those of others. Agents, and threads that a
    /// client starts to work on notes, do not.
    pub fn takes_part_in_memories(&self, config: &Config) -> bool {
        let is_own = !matches!(
            self.thread_source,
            Some(ThreadSource::Subagent | ThreadSource::MemoryConsolidation)
        );
        config.features.memories && !self.without_memories && self.agent.is_none() && is_own
    }

    pub fn json(&self) -> String {
        serde_json::to_string(&StoredExtra::from(self)).expect("plain data")
    }
}

impl From<&Extra> for StoredExtra {
    fn from(extra: &Extra) -> Self {
        let Extra {
            base_instructions,
            developer_instructions,
            service_name,
            thread_source,
            without_memories,
            introduced,
            goal,
            approved_actions,
            concessions,
            documents,
            dynamic_tools,
            agent,
            queue_pause,
            worktree,
        } = extra;
        Self {
            base_instructions: base_instructions.clone(),
            developer_instructions: developer_instructions.clone(),
            service_name: service_name.clone(),
            thread_source: thread_source.clone().map(StoredSource),
            without_memories: *without_memories,
            introduced: introduced.clone().map(StoredSettings),
            goal: goal.clone().map(StoredGoal),
            approved_actions: approved_actions.iter().cloned().map(StoredApproval).collect(),
            concessions: concessions.iter().cloned().map(StoredConcession).collect(),
            documents: documents.clone(),
            dynamic_tools: dynamic_tools.iter().cloned().map(StoredTool).collect(),
            agent: agent.as_ref().map(StoredAgent::from),
            queue_pause: queue_pause.clone().map(StoredPause),
            worktree: worktree.clone().map(StoredWorktree),
        }
    }
}

impl From<StoredExtra> for Extra {
    fn from(stored: StoredExtra) -> Self {
        let StoredExtra {
            base_instructions,
            developer_instructions,
            service_name,
            thread_source,
            without_memories,
            introduced,
            goal,
            approved_actions,
            concessions,
            documents,
            dynamic_tools,
            agent,
            queue_pause,
            worktree,
        } = stored;
        Self {
            base_instructions,
            developer_instructions,
            service_name,
            thread_source: thread_source.map(|StoredSource(source)| source),
            without_memories,
            introduced: introduced.map(|StoredSettings(settings)| settings),
            goal: goal.map(|StoredGoal(goal)| goal),
            approved_actions: approved_actions
                .into_iter()
                .map(|StoredApproval(action)| action)
                .collect(),
            concessions: concessions.into_iter().map(|StoredConcession(one)| one).collect(),
            documents,
            dynamic_tools: dynamic_tools.into_iter().map(|StoredTool(tool)| tool).collect(),
            agent: agent.map(Into::into),
            queue_pause: queue_pause.map(|StoredPause(pause)| pause),
            worktree: worktree.map(|StoredWorktree(worktree)| worktree),
        }
    }
}
