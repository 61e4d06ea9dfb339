//! `wait_agent`: waits for the end of an agent's work, within a time limit.

use std::borrow::Cow;

use serde_json::json;

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

const NAME: &str = "wait_agent";
const MEMBERS: [&str; 2] = ["targets", "timeout_ms"];
/// The wait of a call that names no time.
const DEFAULT_MS: u64 = 30_000;
/// The longest wait; a longer one is cut to it.
const MAX_MS: u64 = 3_600_000;
/// Most agents of one wait.
const MAX_TARGETS: usize = 1000;

pub(super) struct Wait;

impl Tool for Wait {
    fn name(&self) -> Cow<'_, str> {
        NAME.into()
    }

    fn definition(&self, tools: &ToolSet) -> Option<String> {
        let description = "Waits until at least one of these agents has ended its work, and \
             returns the state of each that has, with its final message; `timed_out` when none \
             has in time.";
        let targets = json!({
            "type": "array",
            "items": { "type": "string" },
            "description": "Ids or nicknames of your agents.",
        });
        let timeout = json!({
            "type": "number",
            "description": format!(
                "The longest wait in milliseconds: {DEFAULT_MS} when left out, {MAX_MS} at most."
            ),
        });
        let properties = json!({ "targets": targets, "timeout_ms": timeout });
        agents::are_offered(tools).then(|| function(NAME, description, &["targets"], &properties))
    }

    fn is_callable(&self, tools: &ToolSet) -> bool {
        agents::are_callable(tools)
    }

    fn read(&self, arguments: &str) -> Result<Box<dyn ToolCall>, ToolError> {
        let mut arguments = Arguments::read(NAME, arguments)?;
        arguments.check_names(&MEMBERS)?;
        let timeout_ms = arguments.number("timeout_ms")?.unwrap_or(DEFAULT_MS).min(MAX_MS);
        let wanted = "a list with the id or nickname of each agent to wait for";
        let named = arguments.words("targets")?;
        let named = named.ok_or_else(|| arguments.missing("targets", wanted))?;
        if named.is_empty() || named.len() > MAX_TARGETS {
            return Err(arguments
                .fault(&format!("`targets` has {} agents; name 1 to {MAX_TARGETS}", named.len())));
        }
        let mut targets: Vec<String> = Vec::with_capacity(named.len());
        for target in &named {
            let target = agents::checked_target(&arguments, "targets", target)?;
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(Box::new(AgentsCall(AgentRequest::Wait { targets, timeout_ms })))
    }

    fn rejected_item(&self, id: Id, call: &RejectedCall<'_>) -> Item {
        agents::rejected_item(AgentTool::Wait, id, call)
    }
}
