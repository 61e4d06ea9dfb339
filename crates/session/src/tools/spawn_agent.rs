//! `spawn_agent`: starts an agent of its own thread.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::agents::{self, AgentsCall};
use super::arguments::Arguments;
use super::tool::{Tool, ToolCall, function};
use crate::Id;
use crate::port::agent_request::{AgentRequest, SpawnAgent};
use crate::port::agents::AgentTool;
use crate::port::item::Item;
use crate::port::tool_error::ToolError;
use crate::port::tool_set::{AgentRole, ToolSet};
use crate::tools::rejected::RejectedCall;

const NAME: &str = "spawn_agent";
const MEMBERS: [&str; 6] =
    ["agent_type", "message", "items", "fork_context", "model", "reasoning_effort"];

pub(super) struct Spawn;

impl Tool for Spawn {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let offered = tools.agents.as_ref().filter(|agents| agents.are_offered)?;
        let description = "Starts an agent that works in parallel with you, with the same \
             permissions, and returns its id at once. Use `wait_agent` for its final message.";
        let mut properties: Map<String, Value> = agents::input_definitions()
            .into_iter()
            .map(|(name, definition)| (name.to_owned(), definition))
            .collect();
        let text = |description: &str| json!({ "type": "string", "description": description });
        properties.insert("agent_type".into(), text(&roles(&offered.roles)));
        let fork = "Whether the agent begins with the conversation so far.";
        properties.insert("fork_context".into(), json!({ "type": "boolean", "description": fork }));
        properties.insert("model".into(), text("Its model; leave it out for your own."));
        properties.insert("reasoning_effort".into(), text("Its reasoning effort."));
        Some(function(NAME, description, &[], &Value::Object(properties)))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        agents::are_callable(tools)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        let agent = SpawnAgent {
            role: arguments.text("agent_type")?,
            model: arguments.text("model")?,
            effort: arguments.text("reasoning_effort")?,
            fork_context: arguments.flag("fork_context")?,
            content: Vec::new(),
            history: Vec::new(),
        };
        // Before the input: a misspelt name is the better reason for input that is missing.
        arguments.check_names(&MEMBERS)?;
        let content = agents::input(&mut arguments)?;
        Ok(Box::new(AgentsCall(AgentRequest::Spawn(SpawnAgent { content, ..agent }))))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        agents::rejected_item(AgentTool::Spawn, id, call)
    }
}

/// The roles with their descriptions, for the model.
fn roles(roles: &[AgentRole]) -> String {
    let mut text = "The role of the agent; leave it out for an agent like you.".to_owned();
    for AgentRole { name, description } in roles {
        let description = description.as_deref().unwrap_or("no description");
        // Writing to a string cannot fail.
        let _ = write!(text, "\n`{name}`: {description}");
    }
    text
}
