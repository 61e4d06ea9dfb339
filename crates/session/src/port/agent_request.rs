//! The model's requests to other agents, and the items that show them while they run.

use serde_json::Value;

use super::agents::{AgentCall, AgentTool};
use super::fragment::Fragment;
use super::item::{DynamicCall, Item, ItemStatus, UserContent};
use super::tool::JobOutput;
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
