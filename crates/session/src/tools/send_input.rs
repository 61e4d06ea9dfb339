//! `send_input`: gives an agent further input.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::agents::{self, AgentsCall};
use super::arguments::Arguments;
use super::tool::{Tool, ToolCall, function};
use crate::Id;
use crate::port::agent_request::AgentRequest;
use crate::port::agents::AgentTool;
use crate::port::item::Item;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;
use crate::tools::rejected::RejectedCall;

const NAME: &str = "send_input";
const MEMBERS: [&str; 4] = ["target", "message", "items", "interrupt"];

pub(super) struct Send;

impl Tool for Send {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Sends further input to one of your agents. An agent that works takes \
             it in with its next step, or stops first with `interrupt`; an idle one starts again.";
        let mut properties: Map<String, Value> = agents::input_definitions()
            .into_iter()
            .map(|(name, definition)| (name.to_owned(), definition))
            .collect();
        properties.insert("target".into(), agents::target_definition());
        properties.insert(
            "interrupt".into(),
            json!({ "type": "boolean", "description": "Stop the agent's present work first." }),
        );
        let definition =
            || function(NAME, description, &["target"], &Value::Object(properties.clone()));
        agents::are_offered(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        agents::are_callable(tools)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        arguments.check_names(&MEMBERS)?;
        let target = agents::target(&mut arguments, "target")?;
        let interrupt = arguments.flag("interrupt")?;
        let content = agents::input(&mut arguments)?;
        Ok(Box::new(AgentsCall(AgentRequest::Send { target, content, interrupt })))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        agents::rejected_item(AgentTool::Send, id, call)
    }
}
