//! The tool calls of a response: prepared, decided, run in parallel where they may be, answered
//! in order.

use crate::approvals::{self, Ask, CommandRequest, Decision, Verdict};
use crate::effect::{Effect, ExecSpec, Record, ToolRequest};
use crate::event::{Event, Status, TurnStatus};
use crate::history::{self, ABORTED, CallOutput, Fragment};
use crate::input::{Assessment, ImageData, PatchPlan, Prepared};
use crate::item::{CommandItem, Item, ItemStatus};
use crate::machine::Machine;
use crate::processes::Process;
use crate::tools::{self, ExecCall, ShellCall, WriteStdin};
use crate::turn::with_status;
use crate::{Id, output};

/// A call and where it stands.
pub(crate) struct Call {
    pub(crate) number: u64,
    call_id: String,
    custom: bool,
    pub(crate) tool: Option<tools::Call>,
    pub(crate) state: CallState,
    /// The item shown for it, while it is not final and not a running command's.
    pub(crate) item: Option<Item>,
    plan: Option<PatchPlan>,
    assessment: Option<Assessment>,
}

#[derive(Debug)]
pub(crate) enum CallState {
    /// Not begun.
    Queued,
    /// Being looked at.
    Preparing,
    /// The user is asked.
    Asking { request: u64, unsandboxed: bool },
    /// A patch is being applied.
    Applying,
    /// Its command runs; `process` tells which.
    Waiting { process: u64 },
    /// Answered.
    Done(CallOutput),
}

impl Call {
    pub(crate) fn new(
        number: u64,
        call_id: String,
        custom: bool,
        tool: Result<tools::Call, String>,
    ) -> Self {
        let (tool, state) = match tool {
            Ok(tool) => (Some(tool), CallState::Queued),
            Err(message) => (None, CallState::Done(CallOutput::Text(message))),
        };
        Self { number, call_id, custom, tool, state, item: None, plan: None, assessment: None }
    }

    pub(crate) fn refused(number: u64, call_id: String, custom: bool, message: String) -> Self {
        Self::new(number, call_id, custom, Err(message))
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, CallState::Done(_))
    }

    /// Gives it an answer when it has none.
    pub(crate) fn abort(&mut self) {
        if !self.is_done() {
            self.state = CallState::Done(CallOutput::Text(ABORTED.into()));
        }
    }

    /// What the history needs of it.
    pub(crate) fn into_fragment(self) -> Option<Fragment> {
        let CallState::Done(output) = &self.state else { return None };
        Some(history::call_output(&self.call_id, self.custom, output))
    }

    /// A patch changes what others read, so nothing runs beside it.
    fn is_exclusive(&self) -> bool {
        matches!(self.tool, Some(tools::Call::Patch { .. })) || self.plan.is_some()
    }
}

impl Machine {
    /// Begins the calls whose turn has come.
    pub(crate) fn pump(&mut self, turn: &Id) {
        while let Some(number) = self.next_call() {
            self.begin(turn, number);
        }
    }

    fn next_call(&self) -> Option<u64> {
        let calls = &self.turn.as_ref()?.calls;
        let at = calls.iter().position(|call| matches!(call.state, CallState::Queued))?;
        let before = &calls[..at];
        let free = if calls[at].is_exclusive() {
            before.iter().all(Call::is_done)
        } else {
            !before.iter().any(|call| call.is_exclusive() && !call.is_done())
        };
        free.then_some(calls[at].number)
    }

    pub(crate) fn find_call(&mut self, number: u64) -> Option<&mut Call> {
        self.turn.as_mut()?.calls.iter_mut().find(|call| call.number == number)
    }

    fn begin(&mut self, turn: &Id, number: u64) {
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Preparing;
        let Some(tool) = call.tool.clone() else { return };
        let request = match tool {
            tools::Call::Exec(ExecCall { cmd, workdir, shell, login, .. }) => {
                ToolRequest::Script { script: cmd, workdir, shell, login }
            }
            tools::Call::Shell(ShellCall { command, workdir, .. }) => {
                ToolRequest::Argv { argv: command, workdir }
            }
            tools::Call::Patch { text } => ToolRequest::Patch { text },
            tools::Call::Image { path } => ToolRequest::Image { path },
            tools::Call::Plan { explanation, plan } => {
                self.emit(Event::PlanUpdated { turn: turn.clone(), explanation, plan });
                return self.answer(number, "Plan updated".into());
            }
            tools::Call::WriteStdin(write) => return self.write_stdin(turn, number, &write),
        };
        self.effect(Effect::Prepare { call: number, turn: turn.clone(), request });
    }

    /// Answers a call and goes on.
    pub(crate) fn answer(&mut self, number: u64, text: String) {
        self.answer_with(number, CallOutput::Text(text));
    }

    fn answer_with(&mut self, number: u64, output: CallOutput) {
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Done(output);
        call.plan = None;
        let Some(turn) = self.active_turn().cloned() else { return };
        self.pump(&turn);
        self.advance();
    }

    pub(crate) fn prepared(&mut self, number: u64, outcome: Prepared) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some(call) = self.find_call(number) else { return };
        if !matches!(call.state, CallState::Preparing) {
            return;
        }
        match outcome {
            Prepared::Refused(message) => self.answer(number, message),
            Prepared::Command(assessment) => self.decide_command(&turn, number, assessment),
            Prepared::Patch(plan) => self.decide_patch(&turn, number, plan),
        }
    }

    fn decide_command(&mut self, turn: &Id, number: u64, assessment: Assessment) {
        let running = self.processes.len();
        let limit = self.limits.processes;
        if running >= limit {
            return self.answer(
                number,
                format!("{running} commands are running, {limit} at most; end one first"),
            );
        }
        let id = self.ids.item();
        let Some(call) = self.find_call(number) else { return };
        let (permissions, justification) = match &call.tool {
            Some(tools::Call::Exec(call)) => {
                (call.sandbox_permissions.clone(), call.justification.clone())
            }
            Some(tools::Call::Shell(call)) => {
                (call.sandbox_permissions.clone(), call.justification.clone())
            }
            _ => (None, None),
        };
        let item = Item::Command(CommandItem {
            id,
            command: assessment.display.clone(),
            cwd: assessment.cwd.clone(),
            status: ItemStatus::InProgress,
            actions: assessment.actions.clone(),
            output: None,
            exit_code: None,
            duration_ms: None,
            process_id: Some(number.to_string()),
        });
        call.item = Some(item.clone());
        call.assessment = Some(assessment.clone());
        let request = CommandRequest {
            assessment: &assessment,
            escalate: tools::wants_escalation(permissions.as_deref()),
            justification: justification.as_deref(),
        };
        let verdict = approvals::command(&self.settings, &self.grants, &request);
        self.begin_item(turn, item);
        match verdict {
            Verdict::Run { unsandboxed } => self.run(turn, number, unsandboxed),
            Verdict::Refuse(message) => self.decline(turn, number, message),
            Verdict::Ask { reason, unsandboxed } => {
                let ask = Ask::Command {
                    reason,
                    command: assessment.display,
                    cwd: assessment.cwd,
                    actions: assessment.actions,
                    amendment: assessment.amendment,
                };
                self.ask(turn, number, unsandboxed, ask);
            }
        }
    }

    fn decide_patch(&mut self, turn: &Id, number: u64, plan: PatchPlan) {
        let id = self.ids.item();
        let item =
            Item::FileChange { id, changes: plan.changes.clone(), status: ItemStatus::InProgress };
        let verdict = approvals::patch(&self.settings, &self.grants, &plan);
        let Some(call) = self.find_call(number) else { return };
        call.item = Some(item.clone());
        call.plan = Some(plan);
        self.begin_item(turn, item);
        match verdict {
            Verdict::Run { .. } => self.apply(turn, number),
            Verdict::Refuse(message) => {
                self.effect(Effect::Discard { call: number });
                self.decline(turn, number, message);
            }
            Verdict::Ask { reason, unsandboxed } => {
                self.ask(turn, number, unsandboxed, Ask::Patch { reason });
            }
        }
    }

    /// Stored when it begins too: what may have happened is never forgotten.
    fn begin_item(&mut self, turn: &Id, item: Item) {
        self.persist(Record::Item { turn: turn.clone(), item: item.clone() });
        self.item_started(turn, item);
    }

    fn ask(&mut self, turn: &Id, number: u64, unsandboxed: bool, ask: Ask) {
        let request = self.number();
        let at = self.now;
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Asking { request, unsandboxed };
        let Some(item) = call.item.as_ref().map(|item| item.id().clone()) else { return };
        self.set_status(Status::Active { waiting_on_approval: true });
        self.effect(Effect::Ask { request, turn: turn.clone(), item, ask, at });
    }

    pub(crate) fn decided(&mut self, request: u64, decision: Decision) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let asked = self.turn.as_ref().and_then(|turn| {
            turn.calls.iter().find_map(|call| match call.state {
                CallState::Asking { request: asked, unsandboxed } if asked == request => {
                    Some((call.number, unsandboxed))
                }
                _ => None,
            })
        });
        let Some((number, unsandboxed)) = asked else { return };
        self.emit(Event::RequestResolved { request });
        let cancel = decision == Decision::Cancel;
        match decision {
            Decision::Accept => {}
            Decision::AcceptForSession => self.grant(number, unsandboxed),
            Decision::AcceptWithAmendment(prefix) => {
                let cwd = self.settings.cwd.clone();
                self.effect(Effect::Allow { cwd, prefix });
            }
            Decision::Decline | Decision::Cancel => {
                self.effect(Effect::Discard { call: number });
                self.close_declined(&turn, number);
            }
        }
        let Some(call) = self.find_call(number) else { return };
        let declined = call.item.is_none();
        call.state = CallState::Preparing;
        let is_patch = call.plan.is_some();
        self.show_waiting();
        if cancel {
            return self.end(TurnStatus::Interrupted, None);
        }
        match (declined, is_patch) {
            (true, _) => self.answer(number, "the user declined this".into()),
            (false, true) => self.apply(&turn, number),
            (false, false) => self.run(&turn, number, unsandboxed),
        }
    }

    fn show_waiting(&mut self) {
        let waiting_on_approval = self.turn.as_ref().is_some_and(|turn| {
            turn.calls.iter().any(|call| matches!(call.state, CallState::Asking { .. }))
        });
        self.set_status(Status::Active { waiting_on_approval });
    }

    fn grant(&mut self, number: u64, unsandboxed: bool) {
        let Some(call) = self
            .turn
            .as_ref()
            .and_then(|turn| turn.calls.iter().find(|call| call.number == number))
        else {
            return;
        };
        if let Some(assessment) = &call.assessment {
            self.grants.allow_command(&assessment.display, &assessment.cwd, unsandboxed);
        }
        if let Some(plan) = &call.plan {
            self.grants.allow_paths(plan.changes.iter().map(|change| change.path.as_str()));
        }
    }

    /// Refused by policy: shown as declined, told to the model.
    fn decline(&mut self, turn: &Id, number: u64, message: String) {
        self.close_declined(turn, number);
        self.answer(number, message);
    }

    fn close_declined(&mut self, turn: &Id, number: u64) {
        let Some(item) = self.find_call(number).and_then(|call| call.item.take()) else { return };
        self.item_completed(turn, with_status(item, ItemStatus::Declined));
    }

    fn apply(&mut self, turn: &Id, number: u64) {
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Applying;
        self.effect(Effect::Apply { call: number, turn: turn.clone() });
    }

    pub(crate) fn applied(&mut self, number: u64, outcome: Result<String, String>) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some(call) = self.find_call(number) else { return };
        if !matches!(call.state, CallState::Applying) {
            return;
        }
        let Some(item) = call.item.take() else { return };
        let names = changed_names(&item);
        let (status, text, diff) = match outcome {
            Ok(diff) => (ItemStatus::Completed, format!("Patch applied.\n{names}"), Some(diff)),
            Err(message) => (ItemStatus::Failed, message, None),
        };
        self.item_completed(&turn, with_status(item, status));
        if let Some(diff) = diff {
            self.emit(Event::DiffUpdated { turn, diff });
        }
        let ending = self.turn.as_mut().and_then(|turn| turn.ending.take());
        if let Some((status, error)) = ending {
            if let Some(call) = self.find_call(number) {
                call.state = CallState::Done(CallOutput::Text(text));
            }
            return self.end(status, error);
        }
        self.answer(number, text);
    }

    pub(crate) fn image_read(&mut self, number: u64, outcome: Result<ImageData, String>) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some(call) = self.find_call(number) else { return };
        if !matches!(call.state, CallState::Preparing) {
            return;
        }
        match outcome {
            Err(message) => self.answer(number, message),
            Ok(ImageData { path, data_url }) => {
                let item = Item::ImageView { id: self.ids.item(), path };
                self.item_started(&turn, item.clone());
                self.item_completed(&turn, item);
                self.answer_with(number, CallOutput::Image { data_url });
            }
        }
    }

    fn run(&mut self, turn: &Id, number: u64, unsandboxed: bool) {
        let limits = self.limits;
        let now = self.now;
        let Some(call) = self.find_call(number) else { return };
        let Some(tool) = call.tool.clone() else { return };
        let (Some(Item::Command(item)), Some(assessment)) =
            (call.item.take(), call.assessment.take())
        else {
            return;
        };
        call.state = CallState::Waiting { process: number };
        let (request, tty, timeout_ms, wait, tokens) = match tool {
            tools::Call::Exec(exec) => {
                let wait = exec.yield_time_ms.unwrap_or(10_000).clamp(250, 30_000);
                let ExecCall { cmd, workdir, shell, login, tty, max_output_tokens, .. } = exec;
                let request = ToolRequest::Script { script: cmd, workdir, shell, login };
                (request, tty, None, Some(wait), max_output_tokens)
            }
            tools::Call::Shell(shell) => {
                let timeout = shell.timeout_ms.unwrap_or(10_000);
                let request = ToolRequest::Argv { argv: shell.command, workdir: shell.workdir };
                (request, false, Some(timeout), None, None)
            }
            _ => return,
        };
        let cwd = assessment.cwd;
        let process = Process::new(turn.clone(), item, now, &limits, number, tokens);
        self.processes.insert(number, process);
        let spec = ExecSpec { call: number, request, cwd, unsandboxed, tty, timeout_ms };
        self.effect(Effect::Run { process: number, spec });
        if let Some(ms) = wait {
            self.effect(Effect::Wait { call: number, ms });
        }
    }

    fn write_stdin(&mut self, turn: &Id, number: u64, write: &WriteStdin) {
        let max_poll = self.limits.max_poll_ms;
        let Some(process) = self.processes.get_mut(&write.session_id) else {
            let message = format!("no command with session id {} is running", write.session_id);
            return self.answer(number, message);
        };
        if process.waiting.is_some() {
            return self.answer(
                number,
                format!("another call waits for session {}; try again", write.session_id),
            );
        }
        process.waiting = Some(number);
        process.set_tokens(write.max_output_tokens);
        process.asked_at = self.now;
        let item = process.item.id.clone();
        let ms = if write.chars.is_empty() {
            write.yield_time_ms.unwrap_or(5_000).clamp(1_000, max_poll.max(1_000))
        } else {
            write.yield_time_ms.unwrap_or(250).clamp(50, 30_000)
        };
        if let Some(call) = self.find_call(number) {
            call.state = CallState::Waiting { process: write.session_id };
        }
        self.emit(Event::TerminalInteraction {
            turn: turn.clone(),
            item,
            process: write.session_id.to_string(),
            stdin: write.chars.clone(),
        });
        if !write.chars.is_empty() {
            self.effect(Effect::Write { process: write.session_id, text: write.chars.clone() });
        }
        self.effect(Effect::Wait { call: number, ms });
    }
}

fn changed_names(item: &Item) -> String {
    let Item::FileChange { changes, .. } = item else { return String::new() };
    let names: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    output::shorten(&names.join("\n"), 4_000)
}
