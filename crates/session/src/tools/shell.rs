//! `shell`: runs a program until it ends.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::command::{self, CommandCall};
use super::tool::{CallCx, Found, Step, Tool, ToolCall, function};
use crate::Id;
use crate::port::item::Item;
use crate::port::tool::ToolRequest;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{CommandTool, ToolSet};
use crate::tools::rejected::RejectedCall;

const NAME: &str = "shell";

pub(super) struct Shell;

#[derive(Clone, Debug, Default, PartialEq)]
struct ShellCall {
    command: Vec<String>,
    workdir: Option<String>,
    timeout_ms: Option<u64>,
    sandbox_permissions: Option<String>,
    justification: Option<String>,
}

impl Tool for Shell {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        if tools.commands != CommandTool::OneShot {
            return None;
        }
        let mut properties = json!({
            "command": { "type": "array", "items": { "type": "string" }, "description": "The program and its arguments." },
            "workdir": { "type": "string", "description": "Where to run it; default: the working folder." },
            "timeout_ms": { "type": "number", "description": "How long it may take, in milliseconds." },
            "sandbox_permissions": { "type": "string", "description": "`use_default`, or `require_escalated` to run outside the sandbox after approval." },
            "justification": { "type": "string", "description": "With `require_escalated`: one sentence to the user." },
        });
        if tools.reads_only {
            command::remove_escalation(&mut properties);
        }
        let description = "Runs a program and gives its output.";
        Some(function(NAME, description, &["command"], &properties))
    }

    /// Models that know it call it whether it is offered or not.
    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.commands != CommandTool::Off
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let command = arguments.command("command")?;
        if command.is_empty() {
            let message = "shell: `command` is empty; give a program and its arguments";
            return Err(ToolError::new(message));
        }
        Ok(Box::new(ShellCall {
            command,
            workdir: arguments.text("workdir")?,
            timeout_ms: arguments.number("timeout_ms")?,
            sandbox_permissions: arguments.text("sandbox_permissions")?,
            justification: arguments.text("justification")?,
        }))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        command::rejected_item(id, call)
    }
}

impl ShellCall {
    fn request(&self) -> ToolRequest {
        ToolRequest::Argv { argv: self.command.clone(), workdir: self.workdir.clone() }
    }
}

impl ToolCall for ShellCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::Prepare(self.request())
    }

    fn prepared(&self, found: Found, _: &mut CallCx<'_>) -> Option<Step> {
        match found {
            Found::Command(assessment) => Some(Step::Command(Box::new(CommandCall {
                assessment,
                identity: [vec!["argv".to_owned()], self.command.clone()].concat(),
                escalate: command::asks_to_escalate(self.sandbox_permissions.as_deref()),
                justification: self.justification.clone(),
                prefix_rule: None,
                request: self.request(),
                tty: false,
                timeout_ms: Some(self.timeout_ms.unwrap_or(10_000)),
                yield_ms: None,
                max_output_tokens: None,
            }))),
            Found::Patch(plan) => Some(Step::Patch(plan)),
            Found::Image(_) | Found::Permissions(_) | Found::JobOutput(_) => None,
        }
    }
}
