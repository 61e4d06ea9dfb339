//! Calls between agents as clients are shown them, and their results.

use super::item::ItemStatus;
use super::tool_error::ToolError;
use crate::Id;

/// The tool of an [`AgentCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentTool {
    /// `spawn_agent`.
    Spawn,
    /// `send_input`.
    Send,
    /// `resume_agent`.
    Resume,
    /// `wait_agent`.
    Wait,
    /// `close_agent`.
    Close,
}

impl AgentTool {
    /// The tool's name for the model.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spawn => "spawn_agent",
            Self::Send => "send_input",
            Self::Resume => "resume_agent",
            Self::Wait => "wait_agent",
            Self::Close => "close_agent",
        }
    }
}

/// The state of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Loaded, and without a turn so far.
    PendingInit,
    /// It works.
    Running,
    /// Its last turn was interrupted.
    Interrupted,
    /// Its last turn has completed, with this final message.
    Completed(Option<String>),
    /// Its last turn has failed, for this reason.
    Errored(String),
    /// It was closed before a turn completed.
    Shutdown,
    /// There is no such agent.
    NotFound,
}

impl AgentState {
    /// Returns whether the agent has ended its work, so that a wait for it is over.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::PendingInit | Self::Running)
    }
}

/// The item that shows a call.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentCall {
    /// Item id.
    pub id: Id,
    /// The tool.
    pub tool: AgentTool,
    /// Its status.
    pub status: ItemStatus,
    /// The thread that calls.
    pub sender: Id,
    /// The agents that it concerns: as the model named them while the call runs, then their ids.
    pub receivers: Vec<Id>,
    /// The agent that was started.
    pub spawned: Option<Id>,
    /// The input for the agent, as text.
    pub prompt: Option<String>,
    /// The model of the agent that is started.
    pub model: Option<String>,
    /// The reasoning effort of the agent that is started.
    pub effort: Option<String>,
    /// The state of each receiver.
    pub states: Vec<(Id, AgentState)>,
    /// Why the call failed.
    pub reason: Option<String>,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub struct AgentOutcome {
    /// See [`AgentCall::receivers`].
    pub receivers: Vec<Id>,
    /// See [`AgentCall::spawned`].
    pub spawned: Option<Id>,
    /// See [`AgentCall::states`].
    pub states: Vec<(Id, AgentState)>,
    /// See [`AgentCall::model`].
    pub model: Option<String>,
    /// See [`AgentCall::effort`].
    pub effort: Option<String>,
    /// For the model.
    pub output: Result<String, ToolError>,
}

impl AgentOutcome {
    /// The call failed.
    pub fn failed(error: ToolError) -> Self {
        Self {
            receivers: Vec::new(),
            spawned: None,
            states: Vec::new(),
            model: None,
            effort: None,
            output: Err(error),
        }
    }
}

impl AgentCall {
    /// The item in its final state.
    pub(crate) fn answered(self, outcome: &AgentOutcome) -> Self {
        let receivers = match outcome.receivers.is_empty() {
            true => self.receivers,
            false => outcome.receivers.clone(),
        };
        Self {
            status: match outcome.output {
                Ok(_) => ItemStatus::Completed,
                Err(_) => ItemStatus::Failed,
            },
            receivers,
            spawned: outcome.spawned.clone(),
            model: outcome.model.clone().or(self.model),
            effort: outcome.effort.clone().or(self.effort),
            states: outcome.states.clone(),
            reason: outcome.output.as_ref().err().map(|error| error.message().to_owned()),
            ..self
        }
    }
}
