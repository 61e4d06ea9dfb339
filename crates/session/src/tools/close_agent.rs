//! `close_agent`: ends an agent and those that it started.

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

const NAME: &str = "close_agent";
const TARGET: &str = "target";

pub(super) struct Close;

impl Tool for Close {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description =
            "Ends one of your agents and those that it started. Its result stays readable.";
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
        Ok(Box::new(AgentsCall(AgentRequest::Close { target })))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        agents::rejected_item(AgentTool::Close, id, call)
    }
}
