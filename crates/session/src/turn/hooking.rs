//! The hooks of a turn: when they run, and what their answers change.

use hooks::{CompactionTrigger, Event as HookEvent, EventName, Outcome, Permission, StartSource};
use serde_json::Value;

use super::{Kind, Request, Turn};
use crate::calls::HeldQuestion;
use crate::history::{self, CallKind};
use crate::hook_runs::Wait;
use crate::port::effect::Effect;
use crate::port::event::TurnStatus;
use crate::port::fragment::Fragment;
use crate::port::hook::ThreadStart;
use crate::port::item::Item;
use crate::port::model::{Failure, FailureKind};
use crate::port::skill::UsedSkill;
use crate::terms::Terms;
use crate::thread::Thread;
use crate::tools;

impl Turn {
    /// Runs the hooks of the thread's start, with its first turn since it was loaded.
    pub(crate) fn run_start_hooks(&mut self, thread: &mut Thread) {
        if std::mem::replace(&mut thread.has_started, true) {
            return;
        }
        let event = match thread.start {
            ThreadStart::Agent => HookEvent::SubagentStart,
            ThreadStart::User(source) => HookEvent::SessionStart { source },
        };
        self.run_hooks(Wait::Start, event, thread);
    }

    /// Has hooks look at a message of the user before the model gets it. Returns whether it waits for
    /// them.
    pub(super) fn run_prompt_hooks(
        &mut self,
        prompt: String,
        message: &[Fragment],
        skills: Vec<UsedSkill>,
        thread: &mut Thread,
    ) -> bool {
        let wait = Wait::Prompt { message: message.to_vec(), skills };
        self.run_hooks(wait, HookEvent::UserPromptSubmit { prompt }, thread)
    }

    /// Runs the hooks of a request. Returns whether it waits for them.
    pub(super) fn run_request_hooks(&mut self, thread: &mut Thread) -> bool {
        if std::mem::take(&mut self.hooks.admits_request) {
            return false;
        }
        self.run_hooks(Wait::Request, HookEvent::PreModelRequest, thread)
    }

    /// Runs the hooks of a whole response.
    pub(super) fn run_response_hooks(&mut self, thread: &mut Thread) {
        self.hooks.has_response = true;
        self.run_hooks(Wait::Response, HookEvent::PostModelRequest, thread);
    }

    /// Runs the hooks of the turn's end, which may have it go on. Returns whether it waits for them.
    pub(super) fn run_stop_hooks(&mut self, thread: &mut Thread) -> bool {
        let is_ordinary = matches!(self.kind, Kind::Ordinary { .. });
        if !is_ordinary || !self.hooks.has_response || self.hooks.admits_end {
            return false;
        }
        let (last_message, is_continued) =
            (self.hooks.last_message.clone(), self.hooks.is_continued());
        let event = match thread.start {
            ThreadStart::Agent => HookEvent::SubagentStop { last_message, is_continued },
            ThreadStart::User(_) => HookEvent::Stop { last_message, is_continued },
        };
        self.run_hooks(Wait::Stop, event, thread)
    }

    /// Runs the hooks of a compaction. Returns whether it waits for them.
    pub(super) fn run_compaction_hooks(
        &mut self,
        trigger: CompactionTrigger,
        is_needed: bool,
        thread: &mut Thread,
    ) -> bool {
        let wait = Wait::Compaction { trigger, is_needed };
        self.run_hooks(wait, HookEvent::PreCompact { trigger }, thread)
    }

    /// Runs the hooks of a compacted history: the model knows no more of what those of the start added.
    pub(super) fn run_compacted_hooks(&mut self, trigger: CompactionTrigger, thread: &mut Thread) {
        self.run_hooks(Wait::Compacted, HookEvent::PostCompact { trigger }, thread);
        if let ThreadStart::User(_) = thread.start {
            let event = HookEvent::SessionStart { source: StartSource::Compact };
            self.run_hooks(Wait::Start, event, thread);
        }
    }

    /// Reports that the turn is interrupted; nothing waits for these hooks.
    pub(super) fn run_interrupt_hooks(&self, thread: &mut Thread) {
        if thread.configuration.hooks().has(EventName::Interrupt) {
            let (run, turn) = (thread.cx.number(), self.view.id.clone());
            thread.cx.push(Effect::RunHooks { run, turn, event: Box::new(HookEvent::Interrupt) });
        }
    }

    /// Has hooks look at a call; see [`Wait`].
    pub(super) fn run_call_hooks(&mut self, number: u64, event: HookEvent, thread: &mut Thread) {
        self.run_hooks(Wait::Call { number }, event, thread);
    }

    /// Has hooks look at the answers of calls.
    pub(super) fn run_answer_hooks(&mut self, thread: &mut Thread) {
        while let Some((number, event)) = self.calls.next_answered() {
            self.run_hooks(Wait::Answer { number }, event, thread);
        }
    }

    /// Lets hooks decide in place of the user. Returns the question when none does.
    pub(super) fn hold_question(
        &mut self,
        number: u64,
        held: HeldQuestion,
        thread: &mut Thread,
    ) -> Option<HeldQuestion> {
        let has_hooks = thread.configuration.hooks().has(EventName::PermissionRequest);
        let Some(tool) = self.calls.tool_use(number).filter(|_| has_hooks) else {
            return Some(held);
        };
        let event = HookEvent::PermissionRequest(tool.clone());
        self.calls.hold_question(number, held);
        self.run_hooks(Wait::Approval { number }, event, thread);
        None
    }

    fn run_hooks(&mut self, wait: Wait, event: HookEvent, thread: &mut Thread) -> bool {
        let has_hooks = thread.configuration.hooks().has(event.name());
        if has_hooks {
            self.hooks.run(&self.view.id, wait, event, &mut thread.cx);
        }
        has_hooks
    }

    /// The hooks of an event have run.
    pub(crate) fn hooks_answered(&mut self, run: u64, outcome: Outcome, thread: &mut Thread) {
        if self.is_ending() {
            return;
        }
        let Some((event, wait)) = self.hooks.take(run) else { return };
        let refused = outcome.refused();
        let Outcome { stops, refusals, permission, updated_input, updated_output, context } =
            outcome;
        if let Some(stop) = stops.first() {
            if let Wait::Call { number } = wait {
                let message = format!("a hook ended the turn: {}", stop.reason);
                self.refuse_call(number, message, thread);
            }
            self.show_hooks(stops, thread);
            // What still runs is cut short, and the status says so.
            let is_done = self.calls.are_done() && !matches!(self.request, Request::Streaming(_));
            let status = if is_done { TurnStatus::Completed } else { TurnStatus::Interrupted };
            return self.end(status, None, thread);
        }
        let is_dropped = matches!(wait, Wait::Prompt { .. }) && refused.is_some();
        if !is_dropped {
            self.hooks.add_context(event.as_str(), context);
        }
        match wait {
            Wait::Start | Wait::Response | Wait::Compacted => {}
            Wait::Prompt { message, skills } if refused.is_none() => {
                self.find_skill_needs(skills, thread);
                self.add_pending(message, thread);
                self.renew_queued_request(thread);
            }
            Wait::Prompt { .. } => self.show_hooks(refusals, thread),
            Wait::Call { number } => {
                return self.call_hooks_answered(number, permission, updated_input, thread);
            }
            Wait::Approval { number } => {
                return self.approval_hooks_answered(number, permission, thread);
            }
            Wait::Answer { number } => {
                self.calls.finish(number, updated_output, refused);
                return self.go_on(thread);
            }
            Wait::Request => match refused {
                Some(reason) => {
                    return self.refuse_by_hook("a request to the model", &reason, thread);
                }
                None => self.hooks.admits_request = true,
            },
            Wait::Compaction { trigger, is_needed } => match refused {
                Some(reason) if is_needed => {
                    return self.refuse_by_hook("the compaction of the history", &reason, thread);
                }
                Some(_) => {
                    self.compacted_at = Some(thread.conversation.history().fragments().len());
                }
                None => return self.start_compaction(trigger, thread),
            },
            Wait::Stop => self.stop_hooks_answered(refusals, thread),
        }
        self.advance(thread);
    }

    /// Shows what hooks say, as an item, so that a client that comes later sees it too.
    fn show_hooks(&self, fragments: Vec<hooks::Refusal>, thread: &mut Thread) {
        let item = Item::HookPrompt { id: thread.cx.item_id(), fragments };
        thread.cx.whole_item(&self.view.id, item);
    }

    fn refuse_by_hook(&mut self, what: &str, reason: &str, thread: &mut Thread) {
        let message = format!("a hook refused {what}: {reason}");
        self.fail(Failure::new(FailureKind::Other, message), thread);
    }

    fn stop_hooks_answered(&mut self, refusals: Vec<hooks::Refusal>, thread: &mut Thread) {
        if refusals.is_empty() || !self.hooks.go_on() {
            self.hooks.admits_end = true;
            return;
        }
        let reasons: Vec<&str> = refusals.iter().map(|it| it.reason.as_str()).collect();
        let text = format!("<hook_prompt>\n{}\n</hook_prompt>", reasons.join("\n"));
        let fragment = Fragment::summarized(history::message("user", &text));
        self.show_hooks(refusals, thread);
        self.add_pending(vec![fragment], thread);
    }

    /// A call begins, with what hooks made of it, or is refused.
    fn call_hooks_answered(
        &mut self,
        number: u64,
        permission: Option<Permission>,
        updated: Option<Value>,
        thread: &mut Thread,
    ) {
        if let Some(Permission::Deny(reason)) = permission {
            self.refuse_call(number, format!("a hook refused the call: {reason}"), thread);
        } else if let Err(message) =
            updated.map_or(Ok(()), |it| self.update_call(number, it, thread))
        {
            self.refuse_call(number, message, thread);
        } else {
            self.calls.admit(number, permission);
        }
        self.go_on(thread);
    }

    /// Reads a call again, with the arguments that a hook gave.
    fn update_call(
        &mut self,
        number: u64,
        updated: Value,
        thread: &mut Thread,
    ) -> Result<(), String> {
        let is_review = self.is_review();
        let Some(called) = self.calls.update_input(number, updated) else { return Ok(()) };
        let called = called?;
        let tools = thread.configuration.tools(is_review, thread.goal.is_open());
        let call = match called.kind {
            CallKind::Custom => tools::read_custom(&tools, &called.name, &called.input),
            CallKind::Function | CallKind::ToolSearch | CallKind::Other(_) => {
                tools::read_function(&tools, &called.name, &called.input)
            }
        };
        let call = call.map_err(|error| {
            format!("a hook changed the arguments of the call: {}", error.into_message())
        })?;
        self.calls.replace(number, call);
        Ok(())
    }

    fn refuse_call(&mut self, number: u64, message: String, thread: &mut Thread) {
        if let Some(called) = self.calls.hooking(number) {
            self.show_rejected_call(called, &message, thread);
        }
        self.calls.answer_unrun(number, message);
    }

    /// A question is answered by hooks, or put to the user.
    fn approval_hooks_answered(
        &mut self,
        number: u64,
        permission: Option<Permission>,
        thread: &mut Thread,
    ) {
        let Some(held) = self.calls.take_held(number) else { return };
        let is_same = held.terms == Terms::new(super::approval::decided_under(&held.about, thread));
        match permission {
            Some(Permission::Deny(reason)) => {
                let reason = format!("a hook refused it: {reason}");
                return self.decline(number, &held.about, Some(reason), thread);
            }
            Some(Permission::Allow) if is_same && !held.about.needs_user() => {
                self.carry_out_approved(number, held.about, held.unsandboxed, thread);
            }
            Some(Permission::Allow | Permission::Ask(_)) | None => {
                self.put_question(number, held, thread);
            }
        }
        self.go_on(thread);
    }
}
