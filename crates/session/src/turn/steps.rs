//! Carries tool calls out: commands and patches are decided about, asked about, run and answered.

use super::approval::{Put, amend, decided_under, grant, reviewed_action};
use super::{Turn, permissions};
use crate::approvals::{ApprovalRequest, CommandRequest, Verdict};
use crate::calls::{AskedAbout, Asking, Begun, FileChange, HeldQuestion, PermissionRequest};
use crate::history::CallOutput;
use crate::plan_mode::CHANGES_NOTHING;
use crate::port::approval::{Ask, Decision};
use crate::port::effect::{Effect, Record};
use crate::port::event::{Event, TurnStatus};
use crate::port::item::{CommandItem, DynamicCall, Item, ItemStatus, ToolAnswer};
use crate::port::permission::{Grant, GrantScope};
use crate::port::settings::ApprovalPolicy;
use crate::port::tool::{Attempted, ExecSpec, PatchPlan, Prepared};
use crate::port::tool_error::ToolError;
use crate::processes::{AgentCommand, output};
use crate::terms::{CHANGED, Terms};
use crate::thread::Thread;
use crate::tools::{CommandCall, Found, Step, command_item, started_call};

impl Turn {
    /// Begins the calls whose turn has come, and asks the model again once all are answered.
    pub(super) fn go_on(&mut self, thread: &mut Thread) {
        loop {
            let next = self.calls.begin_next(&mut thread.call_cx(&self.view.id));
            match next {
                Some((number, Begun::Call(step))) => self.carry_out(number, step, thread),
                Some((number, Begun::Hooks(event))) => self.run_call_hooks(number, event, thread),
                None => break,
            }
        }
        self.run_answer_hooks(thread);
        self.advance(thread);
    }

    pub(super) fn carry_out(&mut self, number: u64, step: Step, thread: &mut Thread) {
        match step {
            Step::Prepare(request) => {
                let turn = self.view.id.clone();
                thread.cx.push(Effect::Prepare { call: number, turn, request });
            }
            Step::Command(command) => self.decide_command(number, command, thread),
            Step::Patch(plan) => self.decide_patch(number, plan, thread),
            Step::Delegate { namespace, tool, arguments } => {
                self.delegate(number, namespace, tool, arguments, thread);
            }
            Step::CallServer { target, arguments } => {
                self.decide_server_call(number, target, arguments, thread);
            }
            Step::AskUser { tool, arguments, questions } => {
                self.ask_user(number, tool, arguments, questions, thread);
            }
            Step::Agents(request) => self.call_agents(number, request, None, thread),
            Step::PlanJob(job) => {
                let turn = self.view.id.clone();
                thread.cx.push(Effect::PlanJob { call: number, turn, job });
            }
            Step::Job { job, output } => self.decide_job(number, job, output, thread),
            Step::Permissions { tool, arguments, reason, permissions } => {
                self.ask_permissions(number, (tool, arguments), reason, permissions, thread);
            }
            Step::Type { call, command } => self.decide_typing(number, call, command, thread),
            Step::Await { process, wait_ms } => {
                self.calls.wait_for(number, process);
                thread.cx.push(Effect::Wait { call: number, ms: wait_ms });
            }
            Step::Finish(output) => {
                self.calls.answer(number, output);
            }
        }
    }

    /// Answers a call, and continues.
    pub(crate) fn answer(&mut self, number: u64, output: String, thread: &mut Thread) {
        if self.calls.answer(number, CallOutput::Text(output)) {
            self.go_on(thread);
        }
    }

    /// Answers a call of a turn that ends.
    pub(crate) fn answer_last(&mut self, number: u64, output: String) {
        self.calls.answer(number, CallOutput::Text(output));
    }

    /// The driver has prepared a call.
    pub(crate) fn prepared(&mut self, number: u64, outcome: Prepared, thread: &mut Thread) {
        let found = match outcome {
            Prepared::Command(assessment) => Found::Command(assessment),
            Prepared::Patch(plan) => Found::Patch(plan),
            Prepared::Image(image) => Found::Image(image),
            Prepared::Permissions(permissions) => Found::Permissions(permissions),
            Prepared::JobOutput(output) => Found::JobOutput(output),
            Prepared::Refused { attempted, message } => {
                if self.calls.preparing(number).is_some() {
                    self.refuse(number, attempted, message, thread);
                    self.go_on(thread);
                }
                return;
            }
        };
        let step = self.calls.prepared(number, found, &mut thread.call_cx(&self.view.id));
        if let Some(step) = step {
            self.carry_out(number, step, thread);
            self.go_on(thread);
        }
    }

    /// Answers a call that cannot be done, and shows it as failed.
    fn refuse(&mut self, number: u64, attempted: Attempted, message: String, thread: &mut Thread) {
        let previewed = self.calls.take_previewed(number);
        let id = previewed.unwrap_or_else(|| thread.cx.item_id());
        let item = match attempted {
            Attempted::Command { display, cwd } => Item::Command(command_item(id, display, cwd)),
            Attempted::Patch { changes } => {
                FileChange { id, changes, targets: Vec::new(), grantable_folder: None }.item()
            }
        };
        thread.cx.failed_item(&self.view.id, item, &message);
        self.calls.answer_unrun(number, message);
    }

    fn decide_command(&mut self, number: u64, command: Box<CommandCall>, thread: &mut Thread) {
        if let Err(error) = thread.processes.check_room(&thread.cx.limits) {
            let display = command.assessment.display.clone();
            let attempted = Attempted::Command { display, cwd: command.assessment.cwd.clone() };
            return self.refuse(number, attempted, error.into_message(), thread);
        }
        let assessment = &command.assessment;
        let id = thread.cx.item_id();
        let request = CommandRequest {
            assessment,
            identity: &command.identity,
            escalate: command.escalate,
            justification: command.justification.as_deref(),
        };
        let settings = thread.configuration.in_mode();
        let verdict = thread.approvals.command(&settings, &request);
        if assessment.is_rule_required {
            self.calls.withdraw_consent(number);
        }
        let verdict = self.weigh(number, verdict, thread);
        let item = CommandItem {
            actions: assessment.actions.clone(),
            process_id: Some(number.to_string()),
            awaits_approval: matches!(verdict, Verdict::Ask { .. }),
            ..command_item(id, assessment.display.clone(), assessment.cwd.clone())
        };
        thread.cx.stored_item_started(&self.view.id, Item::Command(item.clone()));
        match verdict {
            Verdict::Run { unsandboxed } => self.run(number, *command, item, unsandboxed, thread),
            Verdict::Refuse(message) => {
                self.close_call(number, Item::Command(item), ItemStatus::Declined, message, thread);
            }
            Verdict::Fail(message) => {
                self.close_call(number, Item::Command(item), ItemStatus::Failed, message, thread);
            }
            Verdict::Ask { reason, unsandboxed } => {
                // Plan mode permanently allows nothing that the plan may want to do later.
                let amends = !thread.configuration.is_planning();
                let proposed = assessment.amendment.as_deref();
                let amendment = narrower(command.prefix_rule.as_deref(), proposed);
                let amendable = &assessment.amendable;
                let ask = Ask::Command {
                    reason,
                    command: assessment.display.clone(),
                    cwd: assessment.real_cwd.clone(),
                    actions: assessment.actions.clone(),
                    amendment: amendment.filter(|_| amends).map(<[String]>::to_vec),
                    amendable: if amends { amendable.clone() } else { Vec::new() },
                };
                self.ask(number, unsandboxed, AskedAbout::Command(command, item), ask, thread);
            }
        }
    }

    /// A command that turned out to be a patch may have to wait until it is alone.
    fn decide_patch(&mut self, number: u64, plan: PatchPlan, thread: &mut Thread) {
        if !self.calls.hides_patch(number) {
            thread.cx.push(Effect::Discard { call: number });
            return;
        }
        let verdict = thread.approvals.patch(thread.configuration.settings(), &plan);
        let verdict = self.weigh(number, verdict, thread);
        let previewed = self.calls.take_previewed(number);
        let item = previewed.clone().unwrap_or_else(|| thread.cx.item_id());
        let mut change = FileChange::new(item.clone(), plan);
        if thread.configuration.settings().approval == ApprovalPolicy::UnlessTrusted {
            // Changes in writable folders are asked about, too.
            change.grantable_folder = None;
        }
        if previewed.is_some() {
            // Clients that show the growing patch now have what is going to be applied.
            let (turn, changes) = (self.view.id.clone(), change.changes.clone());
            thread.cx.emit(Event::PatchUpdated { turn, item, changes });
        }
        thread.cx.stored_item_started(&self.view.id, change.item());
        match verdict {
            Verdict::Run { .. } => self.apply(number, change, thread),
            Verdict::Refuse(message) => {
                thread.cx.push(Effect::Discard { call: number });
                self.close_call(number, change.item(), ItemStatus::Declined, message, thread);
            }
            Verdict::Fail(message) => {
                thread.cx.push(Effect::Discard { call: number });
                self.close_call(number, change.item(), ItemStatus::Failed, message, thread);
            }
            Verdict::Ask { reason, unsandboxed } => {
                let ask = Ask::Patch { reason, grant_root: change.grantable_folder.clone() };
                self.ask(number, unsandboxed, AskedAbout::Patch(change), ask, thread);
            }
        }
    }

    /// Completes the item of a call that does not run, and answers the call, with the reason.
    pub(super) fn close_call(
        &mut self,
        number: u64,
        item: Item,
        status: ItemStatus,
        reason: String,
        thread: &mut Thread,
    ) {
        thread.cx.item_completed(&self.view.id, item.closed(status, Some(&reason)));
        self.calls.answer_unrun(number, reason);
    }

    pub(super) fn ask(
        &mut self,
        number: u64,
        unsandboxed: bool,
        about: AskedAbout,
        ask: Ask,
        thread: &mut Thread,
    ) {
        let action = reviewed_action(&about, unsandboxed, thread);
        if thread.approvals.take_approved(&action, &mut thread.cx) {
            return self.carry_out_approved(number, about, unsandboxed, thread);
        }
        let terms = Terms::new(decided_under(&about, thread));
        let held = HeldQuestion { unsandboxed, about, ask, terms };
        if let Some(held) = self.hold_question(number, held, thread) {
            self.put_question(number, held, thread);
        }
    }

    /// Asks the client or the reviewer.
    pub(super) fn put_question(&mut self, number: u64, held: HeldQuestion, thread: &mut Thread) {
        let HeldQuestion { unsandboxed, about, ask, .. } = held;
        let action = reviewed_action(&about, unsandboxed, thread);
        let (request, item) = (thread.cx.number(), about.item());
        let put = ApprovalRequest { number: request, item: item.id().clone(), ask, action };
        let is_reviewed = match self.put(put, thread) {
            Put::ToClients => false,
            Put::ToReviewer => true,
            Put::Refused(reason) => {
                thread.cx.push(Effect::Discard { call: number });
                return self.close_call(number, item, ItemStatus::Declined, reason, thread);
            }
        };
        let terms = Terms::new(decided_under(&about, thread));
        self.calls.ask(number, Asking { request, is_reviewed, unsandboxed, about, terms });
    }

    /// A client or a reviewer answered a request about a call; the first answer counts.
    pub(crate) fn decided(&mut self, request: u64, decision: Decision, thread: &mut Thread) {
        let Some((number, asking)) = self.calls.take_asked(request) else { return };
        let Asking { is_reviewed, unsandboxed, about, terms, .. } = asking;
        if !is_reviewed {
            thread.cx.emit(Event::RequestResolved { request });
        }
        let is_same = terms == Terms::new(decided_under(&about, thread));
        let decision = match decision {
            Decision::Accept if is_reviewed && !is_same => Decision::Undecided(CHANGED.into()),
            decision => decision,
        };
        if let AskedAbout::Permissions(request) = &about
            && let Some(grant) = permissions::granted(&decision, request)
        {
            return self.check_grant(number, request.item.clone(), grant, terms, thread);
        }
        let is_for_session = decision == Decision::AcceptForSession;
        match decision {
            Decision::Accept => {}
            Decision::AcceptForSession => grant(&about, unsandboxed, thread),
            Decision::AcceptWithAmendment(prefix) => amend(&about, prefix, thread),
            Decision::Grant(_) => {
                let why = "the answer grants permissions that were not requested".to_owned();
                return self.decline(number, &about, Some(why), thread);
            }
            Decision::Decline => return self.decline(number, &about, None, thread),
            Decision::Undecided(why) => return self.decline(number, &about, Some(why), thread),
            Decision::Cancel => {
                thread.cx.push(Effect::Discard { call: number });
                let item = about.item().closed(ItemStatus::Declined, None);
                thread.cx.item_completed(&self.view.id, item);
                self.answer_last(number, "the user cancelled the turn".into());
                return self.end(TurnStatus::Interrupted, None, thread);
            }
        }
        self.show_waiting(thread);
        match about {
            AskedAbout::Patch(change) if is_for_session && change.grantable_folder.is_some() => {
                self.check_folder(number, change, thread);
            }
            about => self.carry_out_approved(number, about, unsandboxed, thread),
        }
        self.go_on(thread);
    }

    /// Runs a command or applies a patch that was approved.
    pub(super) fn carry_out_approved(
        &mut self,
        number: u64,
        about: AskedAbout,
        unsandboxed: bool,
        thread: &mut Thread,
    ) {
        match about {
            AskedAbout::Command(command, item) => {
                self.run(number, *command, item, unsandboxed, thread);
            }
            AskedAbout::Patch(change) => self.apply(number, change, thread),
            AskedAbout::Typing(request) => self.type_text(number, request, thread),
            AskedAbout::JobOutput(request) => self.run_job(number, request, thread),
            AskedAbout::ServerTool(call) => self.call_server(number, *call, thread),
            AskedAbout::Permissions(request) => {
                let PermissionRequest { item, permissions, .. } = request;
                let grant = Grant { permissions, scope: GrantScope::Turn };
                let terms = Terms::new(thread.configuration.chosen());
                self.check_grant(number, item, grant, terms, thread);
            }
        }
    }

    /// Closes a call that was turned down. Without a reason it is the user's own no.
    pub(super) fn decline(
        &mut self,
        number: u64,
        about: &AskedAbout,
        reason: Option<String>,
        thread: &mut Thread,
    ) {
        thread.cx.push(Effect::Discard { call: number });
        let item = about.item().closed(ItemStatus::Declined, reason.as_deref());
        thread.cx.item_completed(&self.view.id, item);
        self.show_waiting(thread);
        self.calls.answer_unrun(number, reason.unwrap_or_else(|| "the user declined this".into()));
        self.go_on(thread);
    }

    fn run(
        &mut self,
        number: u64,
        command: CommandCall,
        mut item: CommandItem,
        unsandboxed: bool,
        thread: &mut Thread,
    ) {
        // While the user was asked, others may have started.
        if let Err(error) = thread.processes.check_room(&thread.cx.limits) {
            let (item, message) = (Item::Command(item), error.into_message());
            return self.close_call(number, item, ItemStatus::Failed, message, thread);
        }
        if std::mem::take(&mut item.awaits_approval) {
            let (turn, id) = (self.view.id.clone(), item.id.clone());
            let running = Item::Command(item.clone());
            thread.cx.persist(Record::Item { turn: turn.clone(), item: running });
            thread.cx.emit(Event::CommandRuns { turn, item: id });
        }
        self.calls.wait_for(number, number);
        let by = AgentCommand {
            call: number,
            tty: command.tty,
            reads_only: thread.configuration.is_planning(),
            is_outside: thread.configuration.command_policy(unsandboxed).is_unconfined(),
            ends_with_turn: thread.configuration.relies_on_turn_grants(unsandboxed),
            cwd: command.assessment.real_cwd.clone(),
            tokens: command.max_output_tokens,
        };
        thread.processes.start(&self.view.id, item, &by, &thread.cx);
        let spec = ExecSpec {
            call: number,
            request: command.request,
            cwd: command.assessment.real_cwd,
            cwd_is_real: true,
            sandbox: thread.configuration.command_policy(unsandboxed),
            granted: thread.configuration.granted().folders(),
            tty: command.tty,
            timeout_ms: command.timeout_ms,
        };
        thread.cx.push(Effect::Run { process: number, spec });
        if let Some(ms) = command.yield_ms {
            thread.cx.push(Effect::Wait { call: number, ms });
        }
    }

    pub(super) fn apply(&mut self, number: u64, change: FileChange, thread: &mut Thread) {
        // While the user was asked, the mode may have changed.
        if thread.configuration.is_planning() {
            thread.cx.push(Effect::Discard { call: number });
            let message = CHANGES_NOTHING.to_owned();
            return self.close_call(number, change.item(), ItemStatus::Failed, message, thread);
        }
        self.calls.apply(number, change);
        thread.cx.push(Effect::Apply { call: number, turn: self.view.id.clone() });
    }

    /// A patch was applied, or was not.
    pub(crate) fn applied(
        &mut self,
        number: u64,
        outcome: Result<String, ToolError>,
        thread: &mut Thread,
    ) {
        let Some(change) = self.calls.take_applied(number) else { return };
        let turn = self.view.id.clone();
        let output = match outcome {
            Ok(diff) => {
                let item = change.item().closed(ItemStatus::Completed, None);
                thread.cx.item_completed(&turn, item);
                thread.cx.emit(Event::DiffUpdated { turn, diff });
                let names: Vec<&str> = change.changes.iter().map(|it| it.path.as_str()).collect();
                format!("Patch applied.\n{}", output::shorten(&names.join("\n"), 4_000))
            }
            Err(error) => {
                let item = change.item().closed(ItemStatus::Failed, Some(error.message()));
                thread.cx.item_completed(&turn, item);
                error.into_message()
            }
        };
        // A turn that is ending has only waited for this.
        self.answer_last(number, output);
        if !self.is_ending() {
            self.go_on(thread);
        }
    }

    fn delegate(
        &mut self,
        number: u64,
        namespace: Option<String>,
        tool: String,
        arguments: String,
        thread: &mut Thread,
    ) {
        let request = thread.cx.number();
        let call = started_call(thread.cx.item_id(), namespace, tool, arguments);
        self.calls.delegate(number, request, call.clone(), thread.cx.now);
        let turn = self.view.id.clone();
        thread.cx.stored_item_started(&turn, Item::DynamicCall(call.clone()));
        thread.cx.push(Effect::CallTool { request, turn, call });
    }

    /// A client ran its tool, or could not; the first answer counts.
    pub(crate) fn tool_answered(
        &mut self,
        request: u64,
        outcome: Result<ToolAnswer, ToolError>,
        thread: &mut Thread,
    ) {
        let Some((number, call, since)) = self.calls.take_delegated(request) else { return };
        thread.cx.emit(Event::RequestResolved { request });
        let is_success = outcome.as_ref().is_ok_and(|answer| answer.success);
        let status = if is_success { ItemStatus::Completed } else { ItemStatus::Failed };
        let (answer, reason, output) = match outcome {
            Ok(answer) => {
                let content = answer.content.clone();
                (Some(answer), None, CallOutput::Parts(content))
            }
            Err(error) => {
                let message = error.into_message();
                (None, Some(message.clone()), CallOutput::Text(message))
            }
        };
        let duration_ms = Some((thread.cx.now - since).max(0));
        let item = DynamicCall { status, answer, reason, duration_ms, ..call };
        thread.cx.item_completed(&self.view.id, Item::DynamicCall(item));
        self.calls.answer(number, output);
        self.go_on(thread);
    }

    /// A call has waited long enough: it is answered with what its command wrote so far.
    pub(crate) fn elapsed(&mut self, number: u64, thread: &mut Thread) {
        let process = self.calls.awaited(number);
        let output = process.and_then(|it| thread.processes.elapsed(it, thread.cx.now));
        if let Some(output) = output {
            self.answer(number, output, thread);
        }
    }
}

/// The prefix that the model proposes, when it allows no more than what the rules propose.
fn narrower<'a>(
    asked: Option<&'a [String]>,
    proposed: Option<&'a [String]>,
) -> Option<&'a [String]> {
    let proposed = proposed?;
    Some(asked.filter(|asked| asked.starts_with(proposed)).unwrap_or(proposed))
}
