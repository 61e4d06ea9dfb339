//! `get_goal`: gives the model the goal of the thread and its cost.

use std::borrow::Cow;

use serde_json::json;

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::history::CallOutput;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;

const NAME: &str = "get_goal";

pub(super) struct GetGoal;

#[derive(Debug)]
struct GetGoalCall;

impl Tool for GetGoal {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Gives the goal of this thread and what it has cost.";
        self.is_callable(tools).then(|| function(NAME, description, &[], &json!({})))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        tools.goal
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        Arguments::read(NAME, arguments)?;
        Ok(Box::new(GetGoalCall))
    }
}

impl ToolCall for GetGoalCall {
    fn begin(&self, cx: &mut CallCx<'_>) -> Step {
        let goal = cx.goal.goal().and_then(|goal| serde_json::to_string(goal).ok());
        let output = goal.unwrap_or_else(|| "There is no goal".to_owned());
        Step::Finish(CallOutput::Text(output))
    }
}
