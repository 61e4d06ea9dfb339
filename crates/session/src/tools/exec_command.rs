//! `exec_command`: runs a shell command, which may outlive the call.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::command::{self, CommandCall};
use super::tool::{CallCx, Found, Step, Tool, ToolCall, function};
use crate::Id;
use crate::port::item::Item;
use crate::port::tool::{Assessment, ToolRequest};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{CommandTool, ToolSet};
use crate::tools::rejected::RejectedCall;

const NAME: &str = "exec_command";

pub(super) struct ExecCommand;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ExecCall {
    pub(super) cmd: String,
    pub(super) workdir: Option<String>,
    pub(super) shell: Option<String>,
    pub(super) login: bool,
    pub(super) tty: bool,
    pub(super) yield_time_ms: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) sandbox_permissions: Option<String>,
    pub(super) justification: Option<String>,
    pub(super) prefix_rule: Option<Vec<String>>,
}

impl Tool for ExecCommand {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        if !self.is_callable(tools) {
            return None;
        }
        let mut properties = json!({
            "cmd": { "type": "string", "description": "The shell command." },
            "workdir": { "type": "string", "description": "Where to run it; default: the working folder." },
            "shell": { "type": "string", "description": "Shell to use; default: the user's." },
            "login": { "type": "boolean", "description": "Run the shell as a login shell." },
            "tty": { "type": "boolean", "description": "Give it a terminal, for interactive programs." },
            "yield_time_ms": { "type": "number", "description": "How long to wait for output, in milliseconds." },
            "max_output_tokens": { "type": "number", "description": "How much output to give back." },
            "sandbox_permissions": { "type": "string", "description": "`use_default`, or `require_escalated` to run outside the sandbox after approval." },
            "justification": { "type": "string", "description": "With `require_escalated`: one sentence to the user." },
            "prefix_rule": { "type": "array", "items": { "type": "string" }, "description": "With `require_escalated`: a command prefix that the user may allow permanently." },
        });
        if !tools.login_shell
            && let Some(properties) = properties.as_object_mut()
        {
            properties.shift_remove("login");
        }
        if tools.reads_only {
            command::remove_escalation(&mut properties);
        }
        let description =
            "Runs a shell command and gives its output, or a session id when it is still running.";
        Some(function(NAME, description, &["cmd"], &properties))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.commands == CommandTool::Terminal
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Ok(Box::new(ExecCall::read(arguments)?))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        command::rejected_item(id, call)
    }
}

impl ExecCall {
    pub(super) fn read(arguments: &str) -> Result<Self, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let (cmd, shell) = arguments.script("cmd")?;
        if cmd.trim().is_empty() {
            return Err(ToolError::new("exec_command: `cmd` is empty; give a shell command"));
        }
        Ok(Self {
            cmd,
            workdir: arguments.text("workdir")?,
            shell: arguments.text("shell")?.or(shell),
            login: arguments.flag("login")?,
            tty: arguments.flag("tty")?,
            yield_time_ms: arguments.number("yield_time_ms")?,
            max_output_tokens: arguments.number("max_output_tokens")?,
            sandbox_permissions: arguments.text("sandbox_permissions")?,
            justification: arguments.text("justification")?,
            prefix_rule: arguments.words("prefix_rule")?,
        })
    }

    fn request(&self) -> ToolRequest {
        let Self { cmd, workdir, shell, login, .. } = self.clone();
        ToolRequest::Script { script: cmd, workdir, shell, login }
    }

    /// The shell, and the script: in its normal form where it has one, so that scripts that do the
    /// same are the same.
    fn identity(&self, assessment: &Assessment) -> Vec<String> {
        let (kind, script) = match &assessment.normal_form {
            Some(form) => ("form", form.clone()),
            None => ("script", vec![self.cmd.clone()]),
        };
        let shell = self.shell.clone().unwrap_or_default();
        [vec![kind.to_owned(), shell, self.login.to_string()], script].concat()
    }
}

impl ToolCall for ExecCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::Prepare(self.request())
    }

    fn prepared(&self, found: Found, _: &mut CallCx<'_>) -> Option<Step> {
        match found {
            Found::Command(assessment) => Some(Step::Command(Box::new(CommandCall {
                identity: self.identity(&assessment),
                assessment,
                escalate: command::asks_to_escalate(self.sandbox_permissions.as_deref()),
                justification: self.justification.clone(),
                prefix_rule: self.prefix_rule.clone(),
                request: self.request(),
                tty: self.tty,
                timeout_ms: None,
                yield_ms: Some(self.yield_time_ms.unwrap_or(10_000).clamp(250, 30_000)),
                max_output_tokens: self.max_output_tokens,
            }))),
            Found::Patch(plan) => Some(Step::Patch(plan)),
            Found::Image(_) | Found::Permissions(_) | Found::JobOutput(_) => None,
        }
    }
}
