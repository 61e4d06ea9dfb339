//! Text that the model types into a running command outside of the sandbox. Each is an action of its
//! own, because the approver of the command saw nothing of it.

use serde_json::json;

use super::Turn;
use crate::approvals::Verdict;
use crate::calls::{AskedAbout, TypingRequest};
use crate::port::approval::Ask;
use crate::port::item::{DynamicCall, Item, ItemStatus, ToolAnswer, ToolContent};
use crate::processes::OutsideCommand;
use crate::thread::Thread;
use crate::tools::{WriteStdinCall, started_call, write_stdin};

impl Turn {
    /// Decides about a call that types into `command`.
    pub(super) fn decide_typing(
        &mut self,
        number: u64,
        call: WriteStdinCall,
        command: OutsideCommand,
        thread: &mut Thread,
    ) {
        let arguments = json!({ "session_id": call.session_id, "chars": call.chars }).to_string();
        let name = write_stdin::NAME.to_owned();
        let item = started_call(thread.cx.item_id(), None, name, arguments);
        thread.cx.stored_item_started(&self.view.id, Item::DynamicCall(item.clone()));
        let settings = thread.configuration.settings();
        let verdict = thread.approvals.typing(settings, call.session_id, &command.display);
        match self.weigh(number, verdict, thread) {
            Verdict::Run { .. } => {
                self.type_text(number, TypingRequest { item, call, command }, thread);
            }
            Verdict::Refuse(reason) | Verdict::Fail(reason) => {
                let item = Item::DynamicCall(item);
                self.close_call(number, item, ItemStatus::Declined, reason, thread);
            }
            Verdict::Ask { reason, unsandboxed } => {
                let ask = Ask::Command {
                    reason,
                    command: visible::exact(&call.chars),
                    cwd: command.cwd.clone(),
                    actions: Vec::new(),
                    amendment: None,
                    amendable: Vec::new(),
                };
                let about = AskedAbout::Typing(TypingRequest { item, call, command });
                self.ask(number, unsandboxed, about, ask, thread);
            }
        }
    }

    /// Types what was approved.
    pub(super) fn type_text(&mut self, number: u64, request: TypingRequest, thread: &mut Thread) {
        let TypingRequest { item, call, .. } = request;
        let mut cx = thread.call_cx(&self.view.id);
        cx.number = number;
        let step = match call.take_ended(&mut cx) {
            Some(output) => Err(format!("nothing was typed: the command has ended\n{output}")),
            None => call.carry_out(&mut cx),
        };
        match step {
            Ok(step) => {
                let content = vec![ToolContent::Text("typed".to_owned())];
                let answer = Some(ToolAnswer { content, success: true });
                let item = DynamicCall { status: ItemStatus::Completed, answer, ..item };
                thread.cx.item_completed(&self.view.id, Item::DynamicCall(item));
                self.carry_out(number, step, thread);
            }
            Err(reason) => {
                let item = Item::DynamicCall(item);
                self.close_call(number, item, ItemStatus::Failed, reason, thread);
            }
        }
    }

    /// Fails the call whose typed text did not reach the command.
    pub(crate) fn not_typed(&mut self, process: u64, thread: &mut Thread) {
        let Some(call) = thread.processes.not_typed(process) else { return };
        let arguments = json!({ "session_id": process });
        let message = write_stdin::not_typed(process);
        let mut cx = thread.call_cx(&self.view.id);
        cx.fail(write_stdin::NAME, &arguments, message.clone());
        self.answer(call, message, thread);
    }
}
