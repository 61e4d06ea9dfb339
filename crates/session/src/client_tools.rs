//! Tools that the client runs: shown, called, answered (specification: Dynamic tool call).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Id;
use crate::calls::CallState;
use crate::effect::Effect;
use crate::event::Event;
use crate::history::CallOutput;
use crate::item::{DynamicCall, Item, ItemStatus, ToolAnswer};
use crate::machine::Machine;

/// A tool that the client runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DynamicTool {
    /// Group of tools that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name in the group.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: String,
}

impl DynamicTool {
    /// What the model calls it.
    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}__{}", self.name),
            None => self.name.clone(),
        }
    }

    pub(crate) fn offered(&self) -> Value {
        let schema: Value = serde_json::from_str(&self.schema).unwrap_or_else(|_| json!({}));
        json!({
            "type": "function",
            "name": self.full_name(),
            "description": self.description,
            "strict": false,
            "parameters": schema,
        })
    }
}

/// Names that tools of this program have, or may have.
pub const BUILT_IN_TOOLS: [&str; 14] = [
    "apply_patch",
    "close_agent",
    "exec_command",
    "get_goal",
    "request_user_input",
    "resume_agent",
    "send_input",
    "shell",
    "spawn_agent",
    "update_goal",
    "update_plan",
    "view_image",
    "wait_agent",
    "write_stdin",
];

impl Machine {
    pub(crate) fn call_client(
        &mut self,
        turn: &Id,
        number: u64,
        namespace: Option<String>,
        tool: String,
        arguments: String,
    ) {
        let request = self.number();
        let call = DynamicCall {
            id: self.ids.item(),
            namespace,
            tool,
            arguments,
            status: ItemStatus::InProgress,
            answer: None,
            reason: None,
            duration_ms: None,
        };
        let item = Item::DynamicCall(call.clone());
        let since = self.now;
        let Some(waiting) = self.find_call(number) else { return };
        waiting.state = CallState::AtClient { request, since };
        waiting.item = Some(item.clone());
        self.begin_item(turn, item);
        self.effect(Effect::CallTool { request, turn: turn.clone(), call });
    }

    /// The first answer counts.
    pub(crate) fn tool_answered(&mut self, request: u64, outcome: Result<ToolAnswer, String>) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let now = self.now;
        let found = self.turn.as_mut().and_then(|turn| {
            turn.calls.iter_mut().find_map(|call| match call.state {
                CallState::AtClient { request: asked, since } if asked == request => {
                    Some((call.number, call.item.take(), since))
                }
                _ => None,
            })
        });
        let Some((number, Some(Item::DynamicCall(call)), since)) = found else { return };
        self.emit(Event::RequestResolved { request });
        let success = outcome.as_ref().is_ok_and(|answer| answer.success);
        let status = if success { ItemStatus::Completed } else { ItemStatus::Failed };
        let (answer, reason, output) = match outcome {
            Ok(answer) => {
                let content = answer.content.clone();
                (Some(answer), None, CallOutput::Parts(content))
            }
            Err(message) => (None, Some(message.clone()), CallOutput::Text(message)),
        };
        let duration_ms = Some((now - since).max(0));
        let item = DynamicCall { status, answer, reason, duration_ms, ..call };
        self.item_completed(&turn, Item::DynamicCall(item));
        self.answer_with(number, output);
    }
}
