//! `update_goal`: the model reports the goal of the thread as reached.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::plan_mode::CHANGES_NOTHING;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const NAME: &str = "update_goal";

pub(super) struct UpdateGoal;

#[derive(Debug)]
struct CompleteGoal;

impl Tool for UpdateGoal {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        if !tools.goal || tools.reads_only {
            return None;
        }
        let description = "Says that the goal of this thread is reached: everything that it asks \
             for is done and checked.";
        let status = json!({ "type": "string", "enum": ["complete"] });
        Some(function(NAME, description, &["status"], &json!({ "status": status })))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.goal
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        match arguments.needed_text("status", "`complete`")?.as_str() {
            "complete" | "completed" => Ok(Box::new(CompleteGoal)),
            other => {
                let message = format!("update_goal: `status` must be `complete`, not `{other}`");
                Err(ToolError::new(message))
            }
        }
    }
}

impl ToolCall for CompleteGoal {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        if cx.is_planning() {
            let arguments = json!({ "status": "complete" });
            return cx.fail(NAME, &arguments, CHANGES_NOTHING.to_owned());
        }
        let output = cx.goal.complete(cx.turn, cx.cx);
        Step::Finish(CallOutput::Text(output.to_owned()))
    }
}
