//! The shared parts of the tools for other agents: the condition for offering them, and the reading
//! of their input. The driver carries the calls out.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::tool::{CallCx, Step, Tool, ToolCall, function};
use crate::Id;
use crate::port::agent_request::AgentRequest;
use crate::port::agents::{AgentCall, AgentTool};
use crate::port::item::{Item, ItemStatus, UserContent};
use crate::port::tool_error::ToolError;
use crate::port::tool_set::ToolSet;
use crate::tools::rejected::RejectedCall;

/// Longest input for an agent, in characters: that of a turn.
const MAX_INPUT: usize = 1_048_576;

/// Returns whether the tools are offered. Calls of tools that are not are refused with the reason.
pub(super) fn are_offered(tools: &ToolSet) -> bool {
    tools.agents.as_ref().is_some_and(|agents| agents.are_offered)
}

pub(super) fn are_callable(tools: &ToolSet) -> bool {
    tools.agents.is_some()
}

/// A call that was read.
#[derive(Debug)]
pub(super) struct AgentsCall(pub(super) AgentRequest);

impl ToolCall for AgentsCall {
    fn begin(&self, _: &mut CallCx<'_>) -> Step {
        Step::Agents(self.0.clone())
    }
}

/// A tool whose one argument is an agent.
pub(super) struct TargetTool {
    pub(super) name: &'static str,
    /// The argument.
    pub(super) member: &'static str,
    /// For the model.
    pub(super) description: &'static str,
    /// As items show it.
    pub(super) kind: AgentTool,
    /// The request of a call to the driver.
    pub(super) request: fn(String) -> AgentRequest,
}

impl Tool for TargetTool {
    fn name(&self) -> Cow<'_, str> {
        self.name.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let properties = json!({ self.member: target_definition() });
        let definition = || function(self.name, self.description, &[self.member], &properties);
        are_offered(tools).then(definition)
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        are_callable(tools)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(self.name, arguments)?;
        arguments.check_names(&[self.member])?;
        let target = target(&mut arguments, self.member)?;
        Ok(Box::new(AgentsCall((self.request)(target))))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        rejected_item(self.kind, id, call)
    }
}

/// The definition of an agent that a call is about.
pub(super) fn target_definition() -> Value {
    json!({ "type": "string", "description": "The agent's id or nickname." })
}

/// The agent that a call is about.
pub(super) fn target(arguments: &mut Arguments<'_>, name: &str) -> Result<String, ToolError> {
    let target = arguments.needed_text(name, "the id or nickname of one of your agents")?;
    checked_target(arguments, name, &target)
}

/// A target without the spaces around it.
pub(super) fn checked_target(
    arguments: &Arguments<'_>,
    name: &str,
    target: &str,
) -> Result<String, ToolError> {
    let target = target.trim();
    // Far above the length of any id.
    if target.is_empty() || target.len() > 200 {
        let wanted = "the id or nickname of one of your agents";
        return Err(arguments.wrong(name, &Value::from(target), wanted));
    }
    Ok(target.to_owned())
}

/// The definitions of the two members that hold an agent's input.
pub(super) fn input_definitions() -> [(&'static str, Value); 2] {
    let message = json!({ "type": "string", "description": "The input for the agent." });
    let items = json!({
        "type": "array",
        "description": "The input in parts, in place of `message`.",
        "items": {
            "type": "object",
            "properties": {
                "type": { "type": "string", "enum": ["text", "image"] },
                "text": { "type": "string" },
                "image_url": { "type": "string" },
            },
            "required": ["type"],
        },
    });
    [("message", message), ("items", items)]
}

/// The input for an agent: `message`, or `items`.
pub(super) fn input(arguments: &mut Arguments<'_>) -> Result<Vec<UserContent>, ToolError> {
    let message = arguments.text("message")?;
    let items = arguments.optional_objects("items")?;
    let content = match (message, items.as_slice()) {
        (Some(text), []) => vec![UserContent::Text { text, elements: Vec::new() }],
        (Some(_), _) => return Err(arguments.fault("give `message` or `items`, not both")),
        (None, []) => return Err(arguments.missing("message", "the input for the agent")),
        (None, _) => items.into_iter().map(part).collect::<Result<_, _>>()?,
    };
    let is_blank = |part: &UserContent| match part {
        UserContent::Text { text, .. } => text.trim().is_empty(),
        UserContent::Image { .. }
        | UserContent::LocalImage { .. }
        | UserContent::App { .. }
        | UserContent::Skill { .. } => false,
    };
    if content.iter().all(is_blank) {
        return Err(arguments.fault("the input is empty; write what the agent is to do"));
    }
    let length: usize = content.iter().map(text_length).sum();
    if length > MAX_INPUT {
        return Err(arguments.fault(&format!(
            "the input has {length} characters, more than the {MAX_INPUT} that an agent takes; \
             write long texts to a file and name it"
        )));
    }
    Ok(content)
}

fn text_length(part: &UserContent) -> usize {
    match part {
        UserContent::Text { text, .. } => text.chars().count(),
        UserContent::Image { url } => url.len(),
        UserContent::LocalImage { .. } | UserContent::App { .. } | UserContent::Skill { .. } => 0,
    }
}

fn part(mut item: Arguments<'_>) -> Result<UserContent, ToolError> {
    item.check_names(&["type", "text", "image_url"])?;
    let kind = item.needed_text("type", "`text` or `image`")?;
    let part = match kind.as_str() {
        "text" => {
            let text = item.needed_text("text", "the text of the item")?;
            UserContent::Text { text, elements: Vec::new() }
        }
        "image" => {
            let url = item.needed_text("image_url", "an `https:` or `data:image/` URL")?;
            let is_image = ["https://", "data:image/"];
            if !is_image.iter().any(|scheme| url.starts_with(scheme)) {
                let wanted = "an `https:` or `data:image/` URL";
                return Err(item.wrong("image_url", &Value::from(url), wanted));
            }
            UserContent::Image { url }
        }
        _ => return Err(item.wrong("type", &Value::from(kind), "`text` or `image`")),
    };
    Ok(part)
}

/// The item of a call that cannot be read or is one too many.
pub(super) fn rejected_item(tool: AgentTool, id: Id, call: &RejectedCall<'_>) -> Item {
    let target = call.text("target").or_else(|| call.text("id"));
    Item::AgentCall(Box::new(AgentCall {
        id,
        tool,
        status: ItemStatus::InProgress,
        sender: call.thread.clone(),
        receivers: target.into_iter().map(Id::from).collect(),
        spawned: None,
        prompt: call.text("message"),
        model: None,
        effort: None,
        states: Vec::new(),
        reason: None,
    }))
}
