//! The tool calls of a response: prepared, decided, run in parallel where they may be, answered
//! in order.

use serde_json::json;

use crate::approvals::{self, Ask, CommandRequest, Verdict};
use crate::effect::{Effect, ExecSpec, Record, ToolRequest};
use crate::event::Event;
use crate::history::{self, ABORTED, CallKind, CallOutput, Fragment};
use crate::input::{Assessment, Attempted, ImageData, PatchPlan, Prepared};
use crate::item::{CommandItem, CommandSource, Item, ItemStatus};
use crate::machine::Machine;
use crate::planning::CHANGES_NOTHING;
use crate::processes::Process;
use crate::tools::{self, ExecCall, ShellCall, WriteStdin};
use crate::turn::closed_item;
use crate::{Id, Millis};

/// The tool that types into a running command.
const WRITE: &str = "write_stdin";

/// A call and where it stands.
pub(crate) struct Call {
    pub(crate) number: u64,
    call_id: String,
    kind: CallKind,
    pub(crate) tool: Option<tools::Call>,
    pub(crate) state: CallState,
    /// The item shown for it, while it is not final and not a running command's.
    pub(crate) item: Option<Item>,
    pub(crate) plan: Option<PatchPlan>,
    /// Its command is known to be a patch.
    pub(crate) hides_patch: bool,
    pub(crate) assessment: Option<Assessment>,
}

#[derive(Debug)]
pub(crate) enum CallState {
    /// Not begun.
    Queued,
    /// Being looked at.
    Preparing,
    /// The user is asked.
    Asking { request: u64, unsandboxed: bool },
    /// A client runs its tool.
    AtClient { request: u64, since: Millis },
    /// A patch is being applied.
    Applying,
    /// Its command runs; `process` tells which.
    Waiting { process: u64 },
    /// Answered.
    Done(CallOutput),
}

impl Call {
    pub(crate) fn new(number: u64, call_id: String, kind: CallKind, tool: tools::Call) -> Self {
        Self {
            number,
            call_id,
            kind,
            tool: Some(tool),
            state: CallState::Queued,
            item: None,
            plan: None,
            hides_patch: false,
            assessment: None,
        }
    }

    /// A call that is answered already, because it cannot be read.
    pub(crate) fn failed(number: u64, call_id: String, kind: CallKind, message: String) -> Self {
        Self {
            number,
            call_id,
            kind,
            tool: None,
            state: CallState::Done(CallOutput::Text(message)),
            item: None,
            plan: None,
            hides_patch: false,
            assessment: None,
        }
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
        Some(history::call_output(&self.call_id, &self.kind, output))
    }

    /// A patch changes what others read, so nothing runs beside it.
    fn is_exclusive(&self) -> bool {
        let is_patch = matches!(self.tool, Some(tools::Call::Patch { .. }));
        is_patch || self.hides_patch || self.plan.is_some()
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
        let turn = self.turn.as_ref()?;
        let is_queued = |call: &Call| matches!(call.state, CallState::Queued);
        let next = turn.calls.iter().find(|call| is_queued(call))?;
        let mut running = turn.calls.iter().filter(|call| !call.is_done() && !is_queued(call));
        let free = if next.is_exclusive() {
            running.next().is_none()
        } else {
            !running.any(Call::is_exclusive)
        };
        free.then_some(next.number)
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
            tools::Call::GetGoal => {
                let goal = self.goal().and_then(|goal| serde_json::to_string(goal).ok());
                return self.answer(number, goal.unwrap_or_else(|| "There is no goal".into()));
            }
            tools::Call::CompleteGoal if self.is_planning() => {
                let arguments = json!({ "status": "complete" });
                let message = CHANGES_NOTHING.to_owned();
                return self.fail_tool(turn, number, "update_goal", &arguments, message);
            }
            tools::Call::CompleteGoal => {
                let told = self.complete_goal();
                return self.answer(number, told);
            }
            tools::Call::Dynamic { namespace, tool, arguments } => {
                return self.call_client(turn, number, namespace, tool, arguments);
            }
            tools::Call::WriteStdin(write) => return self.write_stdin(turn, number, &write),
        };
        self.effect(Effect::Prepare { call: number, turn: turn.clone(), request });
    }

    /// Answers a call and goes on.
    pub(crate) fn answer(&mut self, number: u64, text: String) {
        self.answer_with(number, CallOutput::Text(text));
    }

    pub(crate) fn answer_with(&mut self, number: u64, output: CallOutput) {
        let Some(call) = self.find_call(number) else { return };
        call.state = CallState::Done(output);
        call.plan = None;
        let Some(turn) = self.active_turn().cloned() else { return };
        self.pump(&turn);
        self.advance();
    }

    /// Answers a call of a turn that ends.
    pub(crate) fn answer_last(&mut self, number: u64, text: String) {
        if let Some(call) = self.find_call(number) {
            call.state = CallState::Done(CallOutput::Text(text));
        }
    }

    pub(crate) fn prepared(&mut self, number: u64, outcome: Prepared) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some(call) = self.find_call(number) else { return };
        if !matches!(call.state, CallState::Preparing) {
            return;
        }
        let is_command =
            matches!(call.tool, Some(tools::Call::Exec(_)) | Some(tools::Call::Shell(_)));
        let is_patch = matches!(call.tool, Some(tools::Call::Patch { .. }));
        match outcome {
            Prepared::Refused { attempted, message } => {
                self.refuse_call(&turn, number, attempted, message);
            }
            Prepared::Command(assessment) if is_command => {
                self.decide_command(&turn, number, assessment);
            }
            Prepared::Patch(plan) if is_command => self.found_patch(&turn, number, plan),
            Prepared::Patch(plan) if is_patch => self.decide_patch(&turn, number, plan),
            // Not what was asked for: the answer is still to come.
            Prepared::Command(_) | Prepared::Patch(_) => {}
        }
    }

    fn decide_command(&mut self, turn: &Id, number: u64, assessment: Assessment) {
        if let Some(message) = self.too_many_processes() {
            let Assessment { display, cwd, .. } = assessment;
            let attempted = Attempted::Command { display, cwd };
            return self.refuse_call(turn, number, attempted, message);
        }
        let id = self.ids.item();
        let Some(call) = self.find_call(number) else { return };
        let identity = call
            .tool
            .as_ref()
            .map(|tool| tool.identity(assessment.normal_form.as_deref()))
            .unwrap_or_default();
        let (permissions, justification, prefix_rule) = match call.tool.clone() {
            Some(tools::Call::Exec(call)) => {
                (call.sandbox_permissions, call.justification, call.prefix_rule)
            }
            Some(tools::Call::Shell(call)) => (call.sandbox_permissions, call.justification, None),
            _ => (None, None, None),
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
            source: CommandSource::Agent,
        });
        call.item = Some(item.clone());
        call.assessment = Some(assessment.clone());
        let request = CommandRequest {
            assessment: &assessment,
            identity: &identity,
            escalate: tools::wants_escalation(permissions.as_deref()),
            justification: justification.as_deref(),
        };
        let verdict = approvals::command(&self.settings.in_force(), &self.grants, &request);
        // In plan mode nothing is allowed from now on that the plan may want to do later.
        let amends = !self.is_planning();
        self.begin_item(turn, item);
        match verdict {
            Verdict::Run { unsandboxed } => self.run(turn, number, unsandboxed),
            Verdict::Refuse(message) => self.decline(turn, number, message),
            Verdict::Fail(message) => self.fail_item(turn, number, message),
            Verdict::Ask { reason, unsandboxed } => {
                let ask = Ask::Command {
                    reason,
                    command: assessment.display,
                    cwd: assessment.cwd,
                    actions: assessment.actions,
                    amendment: narrower(prefix_rule, assessment.amendment).filter(|_| amends),
                    amendable: if amends { assessment.amendable } else { Vec::new() },
                };
                self.ask(turn, number, unsandboxed, ask);
            }
        }
    }

    pub(crate) fn too_many_processes(&self) -> Option<String> {
        let (running, limit) = (self.processes.len(), self.limits.processes);
        let message = || format!("{running} commands are running, {limit} at most; end one first");
        (running >= limit).then(message)
    }

    /// Stored when it begins too: what may have happened is never forgotten.
    pub(crate) fn begin_item(&mut self, turn: &Id, item: Item) {
        self.persist(Record::Item { turn: turn.clone(), item: item.clone() });
        self.item_started(turn, item);
    }

    pub(crate) fn image_read(&mut self, number: u64, outcome: Result<ImageData, String>) {
        let Some(turn) = self.active_turn().cloned() else { return };
        let Some(call) = self.find_call(number) else { return };
        let Some(tools::Call::Image { path: asked }) = call.tool.clone() else { return };
        if !matches!(call.state, CallState::Preparing) {
            return;
        }
        match outcome {
            Err(message) => {
                let path = self.settings.cwd.join(asked);
                let item = self.image_item(path.display().to_string());
                self.show_failed(&turn, item, &message);
                self.answer(number, message);
            }
            Ok(ImageData { path, data_url }) => {
                let item = self.image_item(path);
                self.item_started(&turn, item.clone());
                self.item_completed(&turn, item);
                self.answer_with(number, CallOutput::Image { data_url });
            }
        }
    }

    pub(crate) fn run(&mut self, turn: &Id, number: u64, unsandboxed: bool) {
        // While the user was asked, others may have started.
        if let Some(message) = self.too_many_processes() {
            return self.fail_item(turn, number, message);
        }
        let limits = self.limits;
        let now = self.now;
        let sandbox = self.policy_of_command(unsandboxed);
        let reads_only = self.is_planning();
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
        let mut process = Process::new(turn.clone(), item, tty, now, &limits, number, tokens);
        process.reads_only = reads_only;
        self.processes.insert(number, process);
        let spec = ExecSpec { call: number, request, cwd, sandbox, tty, timeout_ms };
        self.effect(Effect::Run { process: number, spec });
        if let Some(ms) = wait {
            self.effect(Effect::Wait { call: number, ms });
        }
    }

    pub(crate) fn fail_item(&mut self, turn: &Id, number: u64, message: String) {
        if let Some(item) = self.find_call(number).and_then(|call| call.item.take()) {
            self.item_completed(turn, closed_item(item, ItemStatus::Failed, Some(&message)));
        }
        self.answer(number, message);
    }

    fn write_stdin(&mut self, turn: &Id, number: u64, write: &WriteStdin) {
        let max_poll = self.limits.max_poll_ms;
        let planning = self.is_planning();
        let arguments = || json!({ "session_id": write.session_id, "chars": write.chars });
        if let Some(answer) = self.take_ended(write.session_id, write.max_output_tokens) {
            return self.answer(number, answer);
        }
        let Some(process) = self.processes.get_mut(&write.session_id) else {
            let message = format!("no command with session id {} is running", write.session_id);
            return self.fail_tool(turn, number, WRITE, &arguments(), message);
        };
        if process.waiting.is_some() {
            let message = format!("another call waits for session {}; try again", write.session_id);
            return self.fail_tool(turn, number, WRITE, &arguments(), message);
        }
        if !write.chars.is_empty() && !process.tty {
            let message =
                "this command has no input; start it again with `tty` set to type into it".into();
            return self.fail_tool(turn, number, WRITE, &arguments(), message);
        }
        if planning && !write.chars.is_empty() && !process.reads_only {
            let message = format!("this command may write, and {CHANGES_NOTHING}");
            return self.fail_tool(turn, number, WRITE, &arguments(), message);
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

/// The prefix that the model proposes, when it allows no more than what the rules propose.
fn narrower(asked: Option<Vec<String>>, proposed: Option<Vec<String>>) -> Option<Vec<String>> {
    let proposed = proposed?;
    Some(asked.filter(|asked| asked.starts_with(&proposed)).unwrap_or(proposed))
}
