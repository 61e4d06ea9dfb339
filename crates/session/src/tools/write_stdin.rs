//! `write_stdin`: types into a running command, or waits for more of its output.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::plan_mode::CHANGES_NOTHING;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{CommandTool, ToolSet};
use crate::processes::{Interaction, InteractionError};

pub(crate) const NAME: &str = "write_stdin";

pub(super) struct WriteStdin;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteStdinCall {
    pub(crate) session_id: u64,
    pub(crate) chars: String,
    pub(super) yield_time_ms: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
}

impl Tool for WriteStdin {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Types into a running command, or waits for more of its output.";
        let properties = json!({
            "session_id": { "type": "number", "description": "The id that exec_command gave." },
            "chars": { "type": "string", "description": "What to type; empty to wait only." },
            "yield_time_ms": { "type": "number", "description": "How long to wait for output, in milliseconds." },
            "max_output_tokens": { "type": "number", "description": "How much output to give back." },
        });
        let definition = || function(NAME, description, &["session_id"], &properties);
        self.is_callable(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.commands == CommandTool::Terminal
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Ok(Box::new(WriteStdinCall::read(arguments)?))
    }
}

impl WriteStdinCall {
    pub(super) fn read(arguments: &str) -> Result<Self, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let wanted = "the number that exec_command gave";
        Ok(Self {
            session_id: arguments.needed_number("session_id", wanted)?,
            chars: arguments.text("chars")?.unwrap_or_default(),
            yield_time_ms: arguments.number("yield_time_ms")?,
            max_output_tokens: arguments.number("max_output_tokens")?,
        })
    }

    /// Returns the report of a command that has ended in the background.
    pub(crate) fn take_ended(&self, cx: &mut CallCx<'_>) -> Option<String> {
        let limits = cx.cx.limits;
        cx.processes.take_ended(self.session_id, self.max_output_tokens, &limits)
    }

    /// Types what is to be typed, and waits. `Err`: why that is not possible, for the model.
    pub(crate) fn carry_out(&self, cx: &mut CallCx<'_>) -> Result<Step, String> {
        let Self { session_id, chars, yield_time_ms, .. } = self;
        let item = cx
            .processes
            .interact(*session_id, &self.interaction(cx.number, cx.is_planning()), cx.cx.now)
            .map_err(|error| refusal(error, *session_id))?;
        cx.cx.emit(Event::TerminalInteraction {
            turn: cx.turn.clone(),
            item,
            process: session_id.to_string(),
            stdin: chars.clone(),
        });
        let wait_ms = if chars.is_empty() {
            let most = cx.cx.limits.max_poll_ms.max(1_000);
            yield_time_ms.unwrap_or(5_000).clamp(1_000, most)
        } else {
            cx.cx.push(Effect::Write { process: *session_id, text: chars.clone() });
            yield_time_ms.unwrap_or(250).clamp(50, 30_000)
        };
        Ok(Step::Await { process: *session_id, wait_ms })
    }

    fn interaction(&self, call: u64, reads_only: bool) -> Interaction<'_> {
        Interaction { call, chars: &self.chars, reads_only, tokens: self.max_output_tokens }
    }
}

impl ToolCall for WriteStdinCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        if let Some(output) = self.take_ended(cx) {
            return Step::Finish(CallOutput::Text(output));
        }
        let Self { session_id, chars, .. } = self;
        let interaction = self.interaction(cx.number, cx.is_planning());
        let possible = cx.processes.check_interaction(*session_id, &interaction);
        let possible = possible.map_err(|error| refusal(error, *session_id));
        // Where nothing is confined, a command outside of the sandbox is an ordinary one.
        let is_confined = !cx.settings.is_unconfined();
        let outside = cx.processes.outside_command(*session_id, chars).filter(|_| is_confined);
        let step = possible.and_then(|()| match outside {
            Some(command) => Ok(Step::Type { call: self.clone(), command }),
            None => self.carry_out(cx),
        });
        step.unwrap_or_else(|message| {
            let arguments = json!({ "session_id": session_id, "chars": chars });
            cx.fail(NAME, &arguments, message)
        })
    }
}

fn refusal(error: InteractionError, session_id: u64) -> String {
    match error {
        InteractionError::NotRunning => {
            format!("no command with session id {session_id} is running")
        }
        InteractionError::Busy => {
            format!("another call waits for session {session_id}; try again")
        }
        InteractionError::NoInput => {
            "this command has no input; start it again with `tty` set to type into it".to_owned()
        }
        InteractionError::MayWrite => format!("this command may write, and {CHANGES_NOTHING}"),
    }
}

/// Why the call fails whose text did not reach its command.
pub(crate) fn not_typed(session_id: u64) -> String {
    format!(
        "session {session_id} does not read its input: what was typed before still waits, and this \
         was not passed on; wait until it reads, or end it"
    )
}
