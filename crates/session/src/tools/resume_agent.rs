//! `resume_agent`: loads a closed agent again.

use std::borrow::Cow;

use serde_json::json;

use super::agents::{self, AgentsCall};
use super::arguments::Arguments;
use super::tool::{RejectedCall, Tool, ToolCall, function};
use crate::Id;
use crate::port::agents::{AgentRequest, AgentTool};
use crate::port::item::Item;
use crate::port::tool::ToolError;
use crate::port::tool_set::ToolSet;

const NAME: &str = "resume_agent";
const TARGET: &str = "id";

pub(super) struct Resume;

impl Tool for Resume {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Loads one of your agents again that was closed or lost with a crash, so that it takes input.";
        let properties = json!({ TARGET: agents::target_definition() });
        let definition = || function(NAME, description, &[TARGET], &properties);
        agents::are_offered(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        agents::are_callable(tools)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        arguments.check_names(&[TARGET])?;
        let target = agents::target(&mut arguments, TARGET)?;
        Ok(Box::new(AgentsCall(AgentRequest::Resume { target })))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        agents::rejected_item(AgentTool::Resume, id, call)
    }
}
