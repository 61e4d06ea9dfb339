//! The model's requests to other agents, their results, and the parts of them that clients are
//! shown.

use serde_json::Value;

use super::fragment::Fragment;
use super::item::{DynamicCall, Item, ItemStatus, UserContent};
use super::tool::{JobOutput, ToolError};
use crate::Id;

/// The tool that runs a job.
pub(crate) const RUN_JOB: &str = "spawn_agents_on_csv";
/// The tool by which an agent of a job reports its result.
pub(crate) const REPORT: &str = "report_agent_job_result";

/// A call that concerns other agents. The driver owns the threads, so it carries the call out.
#[derive(Clone, Debug)]
pub enum AgentRequest {
    /// Start an agent.
    Spawn(SpawnAgent),
    /// Give an agent further input.
    Send {
        /// Its id or nickname.
        target: String,
        /// The input.
        content: Vec<UserContent>,
        /// True if its running turn is interrupted first; otherwise the input joins that turn.
        interrupt: bool,
    },
    /// Load a closed agent again.
    Resume {
        /// Its id or nickname.
        target: String,
    },
    /// Wait until one of these agents has ended its work.
    Wait {
        /// Their ids or nicknames.
        targets: Vec<String>,
        /// The longest wait.
        timeout_ms: u64,
    },
    /// End an agent and those that it started.
    Close {
        /// Its id or nickname.
        target: String,
    },
    /// Give each row of a table to an agent of its own.
    RunJob {
        /// The job.
        job: Box<AgentJob>,
        /// The file that it may write.
        output: Box<JobOutput>,
    },
    /// The result of the row that the calling agent works on.
    ReportJobResult(JobReport),
}

/// A job: each row of a CSV file is the work of one agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentJob {
    /// The call's arguments as JSON: they are shown.
    pub arguments: String,
    /// The file.
    pub csv_path: String,
    /// The task of an agent, with `{column}` for the values of its row.
    pub instruction: String,
    /// The column with the ids of the rows.
    pub id_column: Option<String>,
    /// Where the results go.
    pub output_csv_path: Option<String>,
    /// JSON Schema of a result.
    pub output_schema: Option<Value>,
    /// Maximum number of agents that work at once.
    pub max_concurrency: usize,
    /// The time of an agent for its row.
    pub max_runtime_seconds: Option<u64>,
}

/// An agent's report about its row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobReport {
    /// The call's arguments as JSON: they are shown.
    pub arguments: String,
    /// The job, when the agent names it.
    pub job: Option<String>,
    /// The row, when the agent names it.
    pub item: Option<String>,
    /// A JSON object.
    pub result: Value,
    /// True if the job should end here.
    pub stop: bool,
}

/// The agent to start.
#[derive(Clone, Debug, Default)]
pub struct SpawnAgent {
    /// Its role in the configuration.
    pub role: Option<String>,
    /// Its first input.
    pub content: Vec<UserContent>,
    /// Its model, in place of the caller's.
    pub model: Option<String>,
    /// Its reasoning effort, in place of the caller's.
    pub effort: Option<String>,
    /// True if it begins with the history of its caller.
    pub fork_context: bool,
    /// That history, up to the response that called.
    pub history: Vec<Fragment>,
}

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

impl AgentRequest {
    /// The item that shows the call while it runs.
    pub(crate) fn item(&self, id: Id, sender: Id) -> Item {
        let call = |tool| AgentCall {
            id: id.clone(),
            tool,
            status: ItemStatus::InProgress,
            sender,
            receivers: Vec::new(),
            spawned: None,
            prompt: None,
            model: None,
            effort: None,
            states: Vec::new(),
            reason: None,
        };
        let named = |target: &String| vec![Id::from(target.as_str())];
        let call = match self {
            Self::Spawn(agent) => AgentCall {
                prompt: Some(plain_text(&agent.content)),
                model: agent.model.clone(),
                effort: agent.effort.clone(),
                ..call(AgentTool::Spawn)
            },
            Self::Send { target, content, .. } => AgentCall {
                receivers: named(target),
                prompt: Some(plain_text(content)),
                ..call(AgentTool::Send)
            },
            Self::Wait { targets, .. } => {
                let receivers = targets.iter().flat_map(named).collect();
                AgentCall { receivers, ..call(AgentTool::Wait) }
            }
            Self::Resume { target } => {
                AgentCall { receivers: named(target), ..call(AgentTool::Resume) }
            }
            Self::Close { target } => {
                AgentCall { receivers: named(target), ..call(AgentTool::Close) }
            }
            Self::RunJob { job, .. } => return job_item(id, RUN_JOB, &job.arguments),
            Self::ReportJobResult(report) => return job_item(id, REPORT, &report.arguments),
        };
        Item::AgentCall(Box::new(call))
    }

    /// Returns whether the turn ends with the call, when it succeeds.
    pub(crate) fn ends_turn(&self) -> bool {
        matches!(self, Self::ReportJobResult(_))
    }
}

/// The calls of jobs have no kind of item of their own.
fn job_item(id: Id, tool: &str, arguments: &str) -> Item {
    Item::DynamicCall(DynamicCall {
        id,
        namespace: None,
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
        status: ItemStatus::InProgress,
        answer: None,
        reason: None,
        duration_ms: None,
    })
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

fn plain_text(content: &[UserContent]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        UserContent::Text { text, .. } => Some(text.as_str()),
        UserContent::Image { .. }
        | UserContent::LocalImage { .. }
        | UserContent::App { .. }
        | UserContent::Skill { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
