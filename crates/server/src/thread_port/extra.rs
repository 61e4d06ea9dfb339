//! The stored state of a thread beyond its settings, as JSON of our own.

use std::sync::Arc;

use config::Config;
use protocol::ThreadSource;
use serde::{Deserialize, Serialize};
use session::{ApprovedAction, DynamicTool, Settings};
use store::ThreadRecord;

use crate::thread_port::AgentIdentity;

/// The stored state of a thread beyond its settings.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Extra {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) developer_instructions: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread_source: Option<ThreadSource>,
    /// The thread leaves no notes for later ones, and gets none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) without_memories: bool,
    /// The settings that the model was last informed of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) introduced: Option<Settings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<session::Goal>,
    /// Actions that the user approved after a review refused them, and that have not run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) approved_actions: Vec<ApprovedAction>,
    /// The project documents below the working folder that the model has, by path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) documents: Vec<String>,
    /// Tools that the client runs.
    #[serde(skip_serializing_if = "<[DynamicTool]>::is_empty")]
    pub(crate) dynamic_tools: Arc<[DynamicTool]>,
    /// The identity that makes the thread an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<AgentIdentity>,
}

impl Extra {
    /// That of a stored thread; the default when the record has none that can be read.
    pub(crate) fn read(record: &ThreadRecord) -> Self {
        let extra = record.extra.as_deref().and_then(|json| serde_json::from_str(json).ok());
        extra.unwrap_or_default()
    }

    /// Returns whether the thread leaves notes and gets those of others. Agents, and threads that a
    /// client starts to work on notes, do not.
    pub(crate) fn takes_part_in_memories(&self, config: &Config) -> bool {
        let is_own = !matches!(
            self.thread_source,
            Some(ThreadSource::Subagent | ThreadSource::MemoryConsolidation)
        );
        config.features.memories && !self.without_memories && self.agent.is_none() && is_own
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}
