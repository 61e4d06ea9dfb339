//! Tools that the client runs: shown, called, answered (specification: Dynamic tool call).

use crate::Id;
use crate::calls::CallState;
use crate::effect::Effect;
use crate::event::Event;
use crate::history::CallOutput;
use crate::item::{DynamicCall, Item, ItemStatus, ToolAnswer};
use crate::machine::Machine;

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
        let (answer, output) = match outcome {
            Ok(answer) => {
                let content = answer.content.clone();
                (Some(answer), CallOutput::Parts(content))
            }
            Err(message) => (None, CallOutput::Text(message)),
        };
        let duration_ms = Some((now - since).max(0));
        let item = DynamicCall { status, answer, duration_ms, ..call };
        self.item_completed(&turn, Item::DynamicCall(item));
        self.answer_with(number, output);
    }
}
