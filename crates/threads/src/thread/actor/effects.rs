//! Carries the machine's effects out, each through the owner of what it concerns, and records what they
//! change; also those of a batch that could not be stored, and the end after a panic.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http_client::retry::Wait;
use protocol::ThreadMemoryMode;
use serde_json::value::RawValue;
use session::{
    AgentRequest, Effect, Event, ExecSpec, FailureKind, Id, Item, Prompt, SandboxPolicy,
    ServerCall, Status, TurnError, TurnView,
};
use tokio::sync::oneshot;
use undo::Turn;

use crate::agents::{AgentCaller, CallItem};
use crate::thread::actor::Actor;
use crate::thread::memories::RestingThread;
use crate::thread::running_commands::CommandPlace;
use crate::thread::server_calls::CallPlace;
use crate::thread::step::{Step, append_steps};
use crate::thread::unstored::{UnstoredBatch, UnstoredStep};
use services::allowed::MachineInput;
use services::budget::BudgetLimits;
use services::error::Error;
use services::memories;
use services::panics::Panic;
use services::peer::Peer;
use services::thread_port::Command;
use services::undo::{CallRecorder, FileRollback, RestoredFiles};

impl Actor {
    /// Carries one effect out. Its record is stored.
    pub(super) async fn perform(&mut self, step: Step) {
        let Step { effect, json } = step;
        match effect {
            Effect::Persist(_) => {}
            Effect::Emit(Event::RequestResolved { request }) => {
                self.trace.observe(&Event::RequestResolved { request });
                self.questions.resolve_session(request, self.broadcast.subscribers_mut());
            }
            Effect::Emit(event) => self.emit(&event, json.as_deref()),
            Effect::Reply { reply, result } => self.mailbox.replies().send(reply, result).await,
            Effect::Sample { sample, prompt } => {
                let (config, user_agent) =
                    (self.configuration.config(), self.broadcast.user_agent());
                let failed = self.model.start(sample, prompt, config, user_agent);
                self.take_soon(failed);
            }
            Effect::CancelSample { sample } => self.model.cancel(sample),
            Effect::RetryAfter { sample, wait } => {
                let wait = self.model.retry_wait(wait);
                self.mailbox.deliver_after(wait, MachineInput::RetryDue { sample });
            }
            Effect::Wait { call, ms } => {
                let wait = Duration::from_millis(ms);
                let clock = self.clock();
                self.mailbox.deliver_on(clock, wait, MachineInput::Elapsed { call });
            }
            Effect::Prepare { call, request, .. } => {
                let context = self.tool_context();
                self.tools.prepare(call, request, context);
            }
            Effect::PlanJob { call, job, .. } => {
                let caller = self.agent_caller(None);
                self.agents.plan_job(call, *job, caller);
            }
            Effect::Run { process, spec } => self.run_command(process, spec),
            Effect::Write { process, text } => {
                let failed = self.commands.type_into(process, text);
                self.take_soon(failed);
            }
            Effect::Kill { process } => self.commands.kill(process),
            Effect::Apply { call, turn } => {
                let (context, recorder) = (self.tool_context(), self.recorder());
                let failed = self.tools.apply(call, turn, context, recorder);
                self.take_soon(failed);
            }
            Effect::Discard { call } => self.tools.discard_patch(call),
            Effect::Ask { request, turn, item, ask, at } => {
                let clients = self.asked_clients();
                self.trace.asked(request, &item, &ask);
                self.questions.ask(request, (&turn, &item), ask, at, &clients);
            }
            Effect::Review { review, prompt } => self.begin_review(review, prompt),
            Effect::RetryReviewAfter { review, wait } => self.retry_review(review, wait),
            Effect::CancelReview { review } => self.model.cancel_review(review),
            Effect::ReviewTimeout { review, ms } => self.limit_review(review, ms),
            Effect::CallTool { request, turn, call } => {
                let clients = self.asked_clients();
                self.questions.call_tool(request, &turn, &call, &clients);
            }
            Effect::CheckGrant { call, grant } => {
                let context = self.tool_context();
                self.tools.check_grant(call, grant, context);
            }
            Effect::AskUser { request, turn, item, questions } => {
                let clients = self.asked_clients();
                let unanswered =
                    self.questions.ask_user(request, (&turn, &item), questions, &clients);
                self.take_soon(unanswered);
            }
            Effect::FindSkillNeeds { request, skills, .. } => {
                self.find_skill_needs(request, skills);
            }
            Effect::MeetSkillNeeds { request, answers, unanswered } => {
                self.meet_skill_needs(request, &answers, unanswered.as_deref());
            }
            Effect::ForgetSkillNeeds { request } => self.skill_needs.forget(request),
            Effect::CallAgents { request, turn, item, call } => {
                self.call_agents(request, CallItem { turn, item }, *call).await;
            }
            Effect::CallServer { request, turn, call } => self.call_server(request, &turn, *call),
            Effect::CancelServerCall { request } => self.server_calls.cancel(request),
            Effect::CancelAgents { request } => self.agents.cancel(request),
            Effect::RunHooks { run, turn, event } => self.run_hooks(run, &turn, *event),
            Effect::CancelHooks { run } => self.hooks.cancel(run),
            Effect::NetworkAnswer { key, allowed } => self.commands.answer_host(key, allowed),
            Effect::Allow { cwd, prefix } => {
                let peers = self.broadcast.subscribers().iter().cloned().collect();
                self.tools.allow_prefix(&cwd, prefix.to_vec(), self.tool_context(), peers);
            }
            Effect::TurnContinues { turn } => self.model.turn_continues(&turn),
            Effect::TurnEnded { turn } => {
                self.tools.turn_ended(&turn);
                self.model.turn_ended();
                self.begin_rest(&turn);
            }
        }
    }

    /// Sends an event to the clients, and to the owners that count or follow it.
    fn emit(&mut self, event: &Event, json: Option<&RawValue>) {
        match event {
            Event::StatusChanged(status) => return self.show_status(*status),
            Event::TurnStarted(view) => {
                let agents = &self.configuration.config().agents;
                let (limits, clock) = (BudgetLimits::new(agents), self.clock());
                self.model.turn_started(&view.id, limits, clock);
                self.begin_trace(view);
                self.memories.stop();
                self.mark_turn(&view.id);
            }
            Event::TokenUsage { .. } => {
                self.broadcast.set_tokens_with_agents(self.model.used_with_agents());
                self.broadcast.set_cost_with_agents(self.model.cost_with_agents());
            }
            _ => {}
        }
        self.trace.observe(event);
        self.send_event(event, json);
        if matches!(
            event,
            Event::ItemCompleted { item: Item::UserMessage { .. }, .. }
                | Event::GoalUpdated { .. }
                | Event::GoalCleared
        ) {
            self.agents.publish_words(false, || self.machine.user_words());
        }
        if matches!(event, Event::ApprovalReview(_) | Event::ReviewerWarning { .. }) {
            self.broadcast.show_review(event, self.agents.root_clients());
        }
    }

    fn send_event(&mut self, event: &Event, json: Option<&RawValue>) {
        if let Event::Warning { message } = event {
            self.broadcast.warn_about_thread(message);
        }
        let (config, cwd) = (self.configuration.config(), &self.machine.settings().cwd);
        self.broadcast.emit(event, json, config, cwd);
        self.agents.observe(event);
    }

    /// Sends the thread's status if it is not the last that was sent.
    pub(super) fn show_status(&mut self, status: Status) {
        let status = self.shown_status(status);
        if self.mailbox.status() != Some(status) {
            self.mailbox.set_status(status);
            self.send_event(&Event::StatusChanged(status), None);
        }
    }

    /// From now on what happens belongs to the turn's trace.
    fn begin_trace(&mut self, view: &TurnView) {
        let config = self.configuration.config();
        self.trace.turn_started(view, config, self.machine.settings());
        self.model.set_trace(self.trace.of_turn());
    }

    /// The thread as its calls to other agents see it.
    fn agent_caller(&self, item: Option<&Id>) -> AgentCaller {
        let record = self.journal.record();
        AgentCaller {
            id: self.journal.id().to_string(),
            session_id: record.session_id.clone(),
            git_info: record.git_info.clone(),
            ephemeral: self.journal.is_ephemeral(),
            settings: self.machine.allowed_chosen_settings(),
            config: self.configuration.config().clone(),
            origin: self.configuration.origin().clone(),
            extra: self.journal.extra().clone(),
            may_have_stored_agents: self.agents.may_have_stored_agents(),
            budget: self.model.shared_budget(),
            trace: item.and_then(|item| self.trace.of_item(item)),
        }
    }

    /// The clients that may answer a question: the subscribers, and those of the thread at the root
    /// of an agent's tree.
    pub(super) fn asked_clients(&self) -> Vec<Arc<Peer>> {
        let mut clients: Vec<Arc<Peer>> = self.broadcast.subscribers().iter().cloned().collect();
        for peer in self.agents.root_clients() {
            if clients.iter().all(|known| known.id != peer.id) {
                clients.push(peer);
            }
        }
        clients
    }

    async fn call_agents(&mut self, request: u64, place: CallItem, call: AgentRequest) {
        self.turn_marked().await;
        self.agents.publish_words(true, || self.machine.user_words());
        let caller = self.agent_caller(Some(&place.item));
        self.agents.call(request, call, caller, place);
    }

    fn call_server(&mut self, request: u64, turn: &Id, call: ServerCall) {
        let images = self.tools.answer_images(self.tool_context());
        let server = self.mcp.of_turn(&call.target.server);
        let place = CallPlace {
            turn: turn.to_string(),
            recorder: self.recorder(),
            trace: self.trace.of_item(&call.id),
        };
        self.server_calls.start(request, call, place, server, images);
    }

    fn run_command(&mut self, process: u64, spec: ExecSpec) {
        let (config, cwd) = (self.configuration.config(), &self.machine.settings().cwd);
        let place = CommandPlace {
            clock: self.clock(),
            span: self.broadcast.turn_span(),
            variables: self.skill_needs.variables().clone(),
            recorder: self.recorder(),
            trace: self.trace.of_process(process),
        };
        let failed = self.commands.start(process, spec, cwd, config, place);
        self.take_soon(failed);
    }

    fn begin_review(&mut self, review: u64, prompt: Prompt) {
        let (config, user_agent) = (self.configuration.config(), self.broadcast.user_agent());
        let failed = self.model.review(review, prompt, config, user_agent);
        self.take_soon(failed);
    }

    fn retry_review(&self, review: u64, wait: Wait) {
        let wait = self.model.retry_wait(wait);
        self.mailbox.deliver_after(wait, MachineInput::ReviewRetryDue { review });
    }

    fn limit_review(&self, review: u64, ms: u64) {
        let wait = Duration::from_millis(ms);
        self.mailbox.deliver_after(wait, MachineInput::ReviewOverdue { review });
    }

    pub(super) fn take_soon(&mut self, input: Option<MachineInput>) {
        if let Some(input) = input {
            self.mailbox.push_soon(input);
        }
    }

    /// Performs the effects that do not depend on the lost records, then fails the turn.
    pub(super) async fn execute_unstored(&mut self, steps: Vec<Step>, error: &Error) {
        let mut batch = UnstoredBatch::new(format!("the thread cannot be stored: {error}"));
        tracing::warn!(target: "server::store", "{}", batch.message());
        for step in steps {
            match batch.filter(step) {
                UnstoredStep::Perform(step) => self.perform(step).await,
                UnstoredStep::Fail(input) => {
                    if let MachineInput::Applied { call, .. } = &input {
                        self.tools.discard_patch(*call);
                    }
                    self.mailbox.push_soon(input);
                }
                UnstoredStep::Withhold => {}
            }
        }
        let mut steps = batch.take_again();
        if batch.has_failed_end() {
            self.machine.turn_failed_to_end();
        }
        let message = batch.message().to_owned();
        append_steps(self.machine.step(MachineInput::StoreFailed { message }), &mut steps);
        // The second attempt may store the turn's end. If not, the end is sent all the same, as the
        // failure that it is, and stored as soon as the store works again.
        let stored = self.journal.store(&steps).await;
        if let Some(taken) = self.journal.taken() {
            self.queue.take(&taken);
        }
        if let Err(error) = &stored {
            tracing::warn!(
                target: "server::store",
                "the end of the turn cannot be stored: {error}"
            );
        }
        for step in steps {
            if batch.lets_follow(&step, stored.is_ok()) {
                if let (Effect::Emit(Event::TurnCompleted(view)), Err(_)) = (&step.effect, &stored)
                {
                    self.journal.add_missing_end(view);
                }
                self.perform(step).await;
            }
        }
        self.show_status(self.machine.status());
    }

    /// Ends the thread after a panic. The machine may be half changed, so it is not used.
    pub(super) async fn end_after_panic(mut self, Panic(panic): Panic) {
        let id = self.journal.id().clone();
        tracing::error!(target: "server::thread", "thread {id} panicked: {panic}");
        let error = broken_off(format!(
            "an error in the server ended the thread ({panic}); call thread/resume to continue"
        ));
        self.stop_work();
        let now = self.journal.now();
        match self.journal.fail_stored_turns(&error).await {
            Ok(items) => self.broadcast.complete_items(items, now),
            Err(error) => {
                tracing::warn!(
                    target: "server::store",
                    "the turn of thread {id} cannot be closed: {error}"
                );
            }
        }
        self.broadcast.fail_open_turns(&error, now);
        self.mailbox.threads().unload(&id);
    }

    /// Ends the thread after another server has taken it over. That server closes what is stored of
    /// the thread's turns.
    pub(super) async fn end_after_lost_lease(mut self) {
        let id = self.journal.id().clone();
        let message = self.journal.lost_lease_error().to_string();
        tracing::warn!(target: "server::store", "{message}");
        self.broadcast.warn_about_thread(&message);
        self.stop_work();
        self.broadcast.fail_open_turns(&broken_off(message), self.journal.now());
        self.mailbox.threads().unload(&id);
    }

    /// Ends all that works for the thread: commands, calls, agents, and the questions to clients.
    fn stop_work(&mut self) {
        self.mailbox.clear();
        self.model.clear();
        self.commands.clear();
        self.mailbox.replies().clear();
        self.questions.resolve_all(self.broadcast.subscribers_mut());
        self.server_calls.clear();
        self.agents.close_all();
        self.broadcast.abort_open_reviews(self.journal.now());
    }

    /// Records a call of the running turn; `None` without a turn, and where undo is off.
    pub(super) fn recorder(&self) -> Option<CallRecorder> {
        self.recorder_of(self.machine.active_turn()?)
    }

    fn recorder_of(&self, turn: &Id) -> Option<CallRecorder> {
        let config = self.configuration.config();
        if !config.features.undo || self.journal.is_ephemeral() {
            return None;
        }
        Some(CallRecorder {
            records: self.undo.records.clone(),
            home: config.sqlite_home.clone(),
            roots: self.recorded_folders(),
            turn: self.recorded_turn(turn.to_string()),
            warn: self.warner(),
        })
    }

    /// Sends the clients a warning, from wherever it is called.
    fn warner(&self) -> Arc<dyn Fn(String) + Send + Sync> {
        let thread = self.mailbox.sender();
        Arc::new(move |message| {
            let thread = thread.clone();
            // A thread that has ended needs no warning, and a runtime that ends has no clients.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    drop(thread.send(Command::Warn { message }).await);
                });
            }
        })
    }

    /// The project, and the other folders that the sandbox lets commands write; none below another.
    fn recorded_folders(&self) -> Vec<PathBuf> {
        let settings = self.machine.settings();
        let project = &self.configuration.config().project_root;
        let first = if settings.cwd.starts_with(project) { project } else { &settings.cwd };
        let mut roots = vec![first.clone()];
        if let SandboxPolicy::WorkspaceWrite { writable_roots, .. } = &settings.sandbox {
            roots.extend(writable_roots.iter().cloned());
        }
        let all = roots.clone();
        let mut seen = Vec::new();
        roots.retain(|root| {
            let is_new = !seen.contains(root);
            seen.push(root.clone());
            is_new && !all.iter().any(|other| other != root && root.starts_with(other))
        });
        roots
    }

    fn recorded_turn(&self, turn: String) -> Turn {
        let thread = self.journal.id().to_string();
        Turn { tree: self.agents.root().unwrap_or(&thread).to_owned(), thread, turn }
    }

    /// A turn begins: what agents below do from now on belongs to it. Its folders are read meanwhile.
    pub(super) fn mark_turn(&mut self, turn: &Id) {
        let Some(recorder) = self.recorder_of(turn) else { return };
        self.undo.marking = Some(tokio::spawn(async move {
            recorder.begin_turn().await;
            // The call that comes first need not read all files.
            tokio::spawn(async move { drop(recorder.begin().await) });
        }));
    }

    /// Waits until the beginning of the turn is marked: agents that start now come after it.
    pub(super) async fn turn_marked(&mut self) {
        if let Some(marking) = self.undo.marking.take() {
            // A panic there was reported by the runtime.
            let _ = marking.await;
        }
    }

    /// Undoes what the last turns changed.
    pub(super) async fn restore_files(
        &mut self,
        turns: u32,
        how: FileRollback,
    ) -> Result<RestoredFiles, Error> {
        if self.agents.are_working() {
            return Err(Error::wrong_state("agents of the thread still work")
                .next_step("wait for them, or interrupt them, then roll back"));
        }
        let Some(turn) = self.journal.turn_from_end(turns).await? else {
            return Err(Error::wrong_state("the thread has no turns, so there is nothing to undo"));
        };
        let home = self.configuration.config().sqlite_home.clone();
        self.undo.records.go_back(&home, self.recorded_turn(turn), how).await
    }

    /// The turn has ended.
    pub(super) fn begin_rest(&mut self, turn: &Id) {
        let config = self.configuration.config();
        if self.journal.is_ephemeral() || !self.journal.extra().takes_part_in_memories(config) {
            return;
        }
        let resting = RestingThread {
            id: self.journal.id().clone(),
            turn: turn.clone(),
            settings: self.machine.settings().clone(),
            asker: self.model.note_asker(config, self.broadcast.user_agent()),
            project: config.project_root.clone(),
            rest: config.memories.rest_after_seconds.duration(),
            max_bytes: memories::max_bytes(config),
        };
        self.memories.rest(resting);
    }

    /// `thread/memoryMode/set`. The model's context follows with the next turn.
    pub(super) async fn change_mode(
        &mut self,
        mode: ThreadMemoryMode,
        answer: oneshot::Sender<Result<(), Error>>,
        steps: &mut Vec<Step>,
    ) {
        self.execute(std::mem::take(steps)).await;
        // The caller may have left.
        let _ = answer.send(self.set_memory_mode(mode).await);
    }

    async fn set_memory_mode(&mut self, mode: ThreadMemoryMode) -> Result<(), Error> {
        if mode == ThreadMemoryMode::Enabled
            && self.journal.extra().without_memories
            && let Some(turn) = self.journal.last_turn().await
        {
            let thread = self.journal.id().to_string();
            self.memories.shared().skip(thread, turn.to_string()).await?;
        }
        self.journal.set_without_memories(mode == ThreadMemoryMode::Disabled).await?;
        self.memories.mode_changed();
        Ok(())
    }
}

/// The error of a turn that its server could not carry on.
fn broken_off(message: String) -> TurnError {
    let kind = FailureKind::InternalServerError;
    TurnError { message, kind, http_status: None, details: None }
}
