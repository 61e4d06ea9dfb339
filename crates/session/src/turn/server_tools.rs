//! Calls of tools of MCP servers: decided about, asked about, carried out by the driver, answered.

use std::sync::Arc;

use super::Turn;
use crate::approvals::Verdict;
use crate::calls::{AskedAbout, AtServer};
use crate::history::CallOutput;
use crate::port::approval::Ask;
use crate::port::effect::Effect;
use crate::port::event::Event;
use crate::port::input::ServerOutcome;
use crate::port::item::{Item, ItemStatus, ToolContent};
use crate::port::server_tool::{ServerCall, ToolEffect, ToolTarget};
use crate::thread::Thread;
use crate::tools::bounded_output;

impl Turn {
    /// Decides about a call.
    pub(super) fn decide_server_call(
        &mut self,
        number: u64,
        target: Arc<ToolTarget>,
        arguments: String,
        thread: &mut Thread,
    ) {
        let call = ServerCall::started(thread.cx.item_id(), target, arguments);
        let item = || Item::ServerCall(Box::new(call.clone()));
        thread.cx.stored_item_started(&self.view.id, item());
        let settings = thread.configuration.settings();
        let verdict = thread.approvals.server_tool(settings, &call.target);
        match self.weigh(number, verdict, thread) {
            Verdict::Run { .. } => self.call_server(number, call, thread),
            Verdict::Refuse(reason) => {
                self.close_call(number, item(), ItemStatus::Declined, reason, thread);
            }
            Verdict::Fail(reason) => {
                self.close_call(number, item(), ItemStatus::Failed, reason, thread);
            }
            Verdict::Ask { reason, unsandboxed } => {
                let ask = Ask::ServerTool {
                    reason,
                    target: call.target.clone(),
                    arguments: call.arguments.clone(),
                    can_remember: call.target.effect != ToolEffect::Destructive,
                };
                let about = AskedAbout::ServerTool(Box::new(call));
                self.ask(number, unsandboxed, about, ask, thread);
            }
        }
    }

    /// Has the driver call the tool.
    pub(super) fn call_server(&mut self, number: u64, call: ServerCall, thread: &mut Thread) {
        let request = thread.cx.number();
        let (turn, since) = (self.view.id.clone(), thread.cx.now);
        self.calls.call_server(number, AtServer { request, since, call: call.clone() });
        thread.cx.push(Effect::CallServer { request, turn, call: Box::new(call) });
    }

    /// The server reports how far a call has come.
    pub(crate) fn server_progressed(&self, request: u64, message: String, thread: &mut Thread) {
        let Some(item) = self.calls.server_call_item(request).cloned() else { return };
        let turn = self.view.id.clone();
        thread.cx.emit(Event::CallProgress { turn, item, message });
    }

    /// The server answered, or could not.
    pub(crate) fn server_answered(
        &mut self,
        request: u64,
        outcome: ServerOutcome,
        thread: &mut Thread,
    ) {
        let Some((number, at_server)) = self.calls.take_server_call(request) else { return };
        let AtServer { since, call, .. } = at_server;
        let duration_ms = Some((thread.cx.now - since).max(0));
        let (item, output) = match outcome {
            Ok(answer) => {
                let status = match answer.success {
                    true => ItemStatus::Completed,
                    false => ItemStatus::Failed,
                };
                let error = (!answer.success).then(|| failure(&answer.content));
                let mut content = answer.content;
                if !answer.success {
                    content.insert(0, ToolContent::Text(REPORTS_FAILURE.to_owned()));
                }
                let output = model_output(content, thread);
                (ServerCall { status, result: Some(answer.result), error, ..call }, output)
            }
            Err(error) => {
                let message = error.into_message();
                let item = call.closed(ItemStatus::Failed, Some(&message));
                (item, CallOutput::Text(message))
            }
        };
        let item = ServerCall { duration_ms, ..item };
        thread.cx.item_completed(&self.view.id, Item::ServerCall(Box::new(item)));
        self.calls.answer(number, output);
        self.go_on(thread);
    }
}

/// The text before the result of a failed call, for the model.
const REPORTS_FAILURE: &str = "the tool reports that it failed:";
/// Longest text of a failed call that its error repeats, in bytes.
const MAX_ERROR: usize = 2_000;

/// The error of a call whose tool reports a failure.
fn failure(content: &[ToolContent]) -> String {
    let text = content.iter().find_map(|part| match part {
        ToolContent::Text(text) if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    });
    match text {
        Some(text) => text[..text.floor_char_boundary(MAX_ERROR)].to_owned(),
        None => "the tool reports an error without a text".to_owned(),
    }
}

/// Returns the output for the model: the texts as one, within the budget, then the images.
fn model_output(content: Vec<ToolContent>, thread: &mut Thread) -> CallOutput {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in content {
        match part {
            ToolContent::Text(text) => texts.push(text),
            image @ ToolContent::Image { .. } => images.push(image),
        }
    }
    let text = texts.join("\n");
    let text = bounded_output(text, &mut thread.outputs, &thread.cx.limits);
    if images.is_empty() {
        return CallOutput::Text(text);
    }
    let text = Some(ToolContent::Text(text)).filter(|_| !texts.is_empty());
    CallOutput::Parts(text.into_iter().chain(images).collect())
}
