//! The interface of a tool: the definition for the model, the reading of its calls, and the steps
//! of a call.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::command::CommandCall;
use super::rejected::RejectedCall;
use super::write_stdin::WriteStdinCall;
use crate::Id;
use crate::cx::Cx;
use crate::goal::GoalTracker;
use crate::history::CallOutput;
use crate::outputs::Outputs;
use crate::port::agent_request::{AgentJob, AgentRequest};
use crate::port::item::{DynamicCall, Item, ItemStatus};
use crate::port::permission::Permissions;
use crate::port::question::UserQuestion;
use crate::port::server_tool::ToolTarget;
use crate::port::settings::{Mode, Settings};
use crate::port::tool::{Assessment, ImageData, JobOutput, PatchPlan, ToolRequest};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{Offer, ToolSet};
use crate::processes::{OutsideCommand, Processes};

/// A tool that the model can call.
pub(crate) trait Tool: Sync {
    /// Returns the model's name for it.
    fn name(&self) -> Cow<'_, str>;

    /// Its definition as JSON; `None` when it is not offered.
    fn definition(&self, tools: &ToolSet) -> Option<String>;

    /// Returns whether its calls are accepted. That can be so even while it is not offered, to
    /// refuse a call with the reason.
    fn is_callable(&self, tools: &ToolSet) -> bool;

    /// Returns whether it is also called as a custom tool, with free text in place of JSON.
    fn takes_text(&self) -> bool {
        false
    }

    /// Reads the arguments of a call.
    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError>;

    /// The item of a call that cannot be read or is one too many.
    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        tool_item(id, None, self.name().into_owned(), call.json())
    }
}

/// A call that was read.
pub(crate) trait ToolCall: fmt::Debug + Send + Sync {
    /// Returns whether nothing may run at the same time.
    fn is_exclusive(&self) -> bool {
        false
    }

    /// The first step.
    fn begin(&self, cx: &mut CallCx<'_>) -> Step;

    /// The step after [`Step::Prepare`]; `None` when `found` is not what was asked for.
    fn prepared(&self, found: Found, cx: &mut CallCx<'_>) -> Option<Step> {
        let (_, _) = (found, cx);
        None
    }
}

/// The next step of a call. Data: the turn carries it out.
#[derive(Debug)]
pub(crate) enum Step {
    /// The driver looks at files or command rules first.
    Prepare(ToolRequest),
    /// A command is decided about, and runs.
    Command(Box<CommandCall>),
    /// A patch is decided about, and applied while nothing else runs.
    Patch(PatchPlan),
    /// Somebody else runs the tool.
    Delegate {
        /// Group of the tool.
        namespace: Option<String>,
        /// The tool.
        tool: String,
        /// Its arguments, JSON.
        arguments: String,
    },
    /// The tool of an MCP server is decided about, and called.
    CallServer {
        /// The tool.
        target: Arc<ToolTarget>,
        /// Its arguments, JSON.
        arguments: String,
    },
    /// The user is asked.
    AskUser {
        /// The tool, and its arguments as JSON: they are shown.
        tool: &'static str,
        arguments: String,
        /// The questions.
        questions: Arc<[UserQuestion]>,
    },
    /// The driver carries out what the call asks of other agents.
    Agents(AgentRequest),
    /// The driver looks at where a job would write its results.
    PlanJob(Box<AgentJob>),
    /// Decide about the file that a job writes, then run the job.
    Job {
        /// The job.
        job: Box<AgentJob>,
        /// The file that it writes.
        output: Box<JobOutput>,
    },
    /// The user is asked for permissions.
    Permissions {
        /// The tool, and its arguments as JSON: they are shown.
        tool: &'static str,
        arguments: String,
        /// The reason why they are needed.
        reason: Option<String>,
        /// Those that the policy does not include.
        permissions: Permissions,
    },
    /// Text for a running command outside of the sandbox is decided about, and typed.
    Type {
        /// The call that types.
        call: WriteStdinCall,
        /// The command.
        command: OutsideCommand,
    },
    /// A running command is given time to answer.
    Await {
        /// The command.
        process: u64,
        /// Time to wait, in milliseconds.
        wait_ms: u64,
    },
    /// The call is answered.
    Finish(CallOutput),
}

/// The driver's result for a call.
#[derive(Debug)]
pub(crate) enum Found {
    /// See [`Prepared::Command`](crate::Prepared::Command).
    Command(Assessment),
    /// See [`Prepared::Patch`](crate::Prepared::Patch).
    Patch(PatchPlan),
    /// See [`Prepared::Image`](crate::Prepared::Image).
    Image(Result<ImageData, ToolError>),
    /// See [`Prepared::Permissions`](crate::Prepared::Permissions).
    Permissions(Result<Permissions, ToolError>),
    /// See [`Prepared::JobOutput`](crate::Prepared::JobOutput).
    JobOutput(Result<JobOutput, ToolError>),
}

/// The context of a call.
pub(crate) struct CallCx<'a> {
    pub(crate) cx: &'a mut Cx,
    /// The running turn.
    pub(crate) turn: &'a Id,
    /// The call's number.
    pub(crate) number: u64,
    pub(crate) settings: &'a Settings,
    /// The tools of an ordinary turn.
    pub(crate) offer: &'a Offer,
    pub(crate) processes: &'a mut Processes,
    pub(crate) goal: &'a mut GoalTracker,
    pub(crate) outputs: &'a mut Outputs,
}

impl CallCx<'_> {
    /// Returns whether the call may change nothing.
    pub(crate) fn is_planning(&self) -> bool {
        self.settings.mode == Mode::Plan
    }

    /// Shows the failed call of a tool that has no item when it succeeds, and answers it.
    pub(crate) fn fail(&mut self, tool: &str, arguments: &Value, message: String) -> Step {
        let item = tool_item(self.cx.item_id(), None, tool.to_owned(), arguments.to_string());
        self.cx.failed_item(self.turn, item, &message);
        Step::Finish(CallOutput::Text(message))
    }
}

/// The definition of a function, as the model is offered it.
pub(crate) fn function(
    name: &str,
    description: &str,
    required: &[&str],
    properties: &Value,
) -> String {
    json!({
        "type": "function",
        "name": name,
        "description": description,
        "strict": false,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        },
    })
    .to_string()
}

/// The definition of a function that somebody else describes; `parameters` is its schema, and stays as it was
/// written.
pub(crate) fn described(name: &str, description: &str, parameters: &str) -> String {
    let [name, description] = [name, description].map(|text| Value::from(text).to_string());
    format!(
        r#"{{"type":"function","name":{name},"description":{description},"strict":false,"parameters":{parameters}}}"#
    )
}

/// The item of a tool that has no kind of item of its own.
pub(crate) fn tool_item(
    id: Id,
    namespace: Option<String>,
    tool: String,
    arguments: String,
) -> Item {
    Item::DynamicCall(started_call(id, namespace, tool, arguments))
}

/// Returns the call that [`tool_item`] shows while it is in progress.
pub(crate) fn started_call(
    id: Id,
    namespace: Option<String>,
    tool: String,
    arguments: String,
) -> DynamicCall {
    DynamicCall {
        id,
        namespace,
        tool,
        arguments,
        status: ItemStatus::InProgress,
        answer: None,
        reason: None,
        duration_ms: None,
    }
}
