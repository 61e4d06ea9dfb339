//! Calls that concern other agents: the driver carries them out, and their items show what came of
//! them.

use super::Turn;
use crate::calls::AgentsCall;
use crate::history::{self, CallOutput};
use crate::port::agents::{AgentOutcome, AgentRequest};
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::processes::output;
use crate::thread::Thread;

/// About how many bytes make a token.
const BYTES_A_TOKEN: u64 = 4;

impl Turn {
    pub(super) fn call_agents(&mut self, number: u64, mut call: AgentRequest, thread: &mut Thread) {
        let request = thread.cx.number();
        let id = thread.cx.item_id();
        let item = call.item(id.clone(), thread.id.clone());
        let ends_turn = call.ends_turn();
        self.calls.call_agents(number, AgentsCall { request, item: item.clone(), ends_turn });
        thread.cx.stored_item_started(&self.view.id, item);
        if let AgentRequest::Spawn(agent) = &mut call
            && agent.fork_context
        {
            let fragments = thread.conversation.history().fragments();
            agent.history = history::before_last_response(fragments).to_vec();
        }
        let (turn, call) = (self.view.id.clone(), Box::new(call));
        thread.cx.push(Effect::CallAgents { request, turn, item: id, call });
    }

    /// The driver reports how far a call has come.
    pub(crate) fn agents_progressed(&self, request: u64, message: String, thread: &mut Thread) {
        let Some(item) = self.calls.agent_call_item(request).cloned() else { return };
        let turn = self.view.id.clone();
        thread.cx.emit(Event::CallProgress { turn, item, message });
    }

    /// The driver carried out what a call asks of other agents.
    pub(crate) fn agents_answered(
        &mut self,
        request: u64,
        outcome: AgentOutcome,
        thread: &mut Thread,
    ) {
        let Some((number, call)) = self.calls.take_agent_call(request) else { return };
        self.is_finished |= call.ends_turn && outcome.output.is_ok();
        thread.cx.item_completed(&self.view.id, call.item.answered(&outcome));
        let most = thread.cx.limits.tool_output_tokens.saturating_mul(BYTES_A_TOKEN);
        let text = match &outcome.output {
            Ok(text) => text,
            Err(error) => error.message(),
        };
        let text = output::shorten(text, usize::try_from(most).unwrap_or(usize::MAX));
        self.calls.answer(number, CallOutput::Text(text));
        self.go_on(thread);
    }
}
