//! `write_stdin`: types into a running command, or waits for more of its output.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::plan_mode::CHANGES_NOTHING;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::tool::ToolError;
use crate::port::tool_set::{CommandTool, ToolSet};
use crate::processes::{Interaction, InteractionError};

pub(crate) const NAME: &str = "write_stdin";

pub(super) struct WriteStdin;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WriteStdinCall {
    pub(super) session_id: u64,
    pub(super) chars: String,
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
}

impl ToolCall for WriteStdinCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        let Self { session_id, chars, yield_time_ms, max_output_tokens } = self;
        let limits = cx.cx.limits;
        if let Some(output) = cx.processes.take_ended(*session_id, *max_output_tokens, &limits) {
            return Step::Finish(CallOutput::Text(output));
        }
        let interaction = Interaction {
            call: cx.number,
            chars,
            reads_only: cx.is_planning(),
            tokens: *max_output_tokens,
        };
        let item = match cx.processes.interact(*session_id, &interaction, cx.cx.now) {
            Ok(item) => item,
            Err(error) => {
                let arguments = json!({ "session_id": session_id, "chars": chars });
                return cx.fail(NAME, &arguments, refusal(error, *session_id));
            }
        };
        cx.cx.emit(Event::TerminalInteraction {
            turn: cx.turn.clone(),
            item,
            process: session_id.to_string(),
            stdin: chars.clone(),
        });
        let wait_ms = if chars.is_empty() {
            yield_time_ms.unwrap_or(5_000).clamp(1_000, limits.max_poll_ms.max(1_000))
        } else {
            cx.cx.push(Effect::Write { process: *session_id, text: chars.clone() });
            yield_time_ms.unwrap_or(250).clamp(50, 30_000)
        };
        Step::Await { process: *session_id, wait_ms }
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
