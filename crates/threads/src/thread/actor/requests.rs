//! Requests to a thread: each command with what it needs before the machine gets it, the subscriptions of
//! clients, and the questions that those clients may answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hooks::EndReason;
use session::{ApprovalPolicy, Effect, Event, Grant, PatchPlan, Prepared, Status, ToolError};
use tokio::sync::oneshot;

use crate::requests::Settled;
use crate::thread::actor::{Actor, queued};
use crate::thread::step::{Step, append_steps};
use services::allowed::{Allowed, MachineInput};
use services::convert::auto_review;
use services::error::Error;
use services::peer::{ConnectionId, Gate, Peer};
use services::project_doc::nested::NestedDocs;
use services::thread_port::{
    AnswerSender, Command, EventPosition, InputTarget, PlannedPatch, ProviderAccess, QuestionKey,
    ServerQuestion, Snapshot, TurnStart,
};

/// Time that a question to the user waits for a client after the last one that could answer has
/// gone: long enough for one that lost its connection to return.
const AWAIT_CLIENT: Duration = Duration::from_secs(30);

impl Actor {
    pub(super) async fn take(&mut self, command: Command, steps: &mut Vec<Step>) {
        if command.is_activity() {
            self.unload_deadline.restart();
        }
        self.carry_out(command, steps).await;
    }

    async fn carry_out(&mut self, command: Command, steps: &mut Vec<Step>) {
        match command {
            Command::Input(input) => self.step(input, steps),
            Command::StartTurn(start) => self.start_turn(start, steps).await,
            Command::Ask { input, answer, gate, .. } => match self.before_request(steps).await {
                Err(error) => refuse(answer, error),
                Ok(()) => {
                    let reply = self.mailbox.replies().register(answer, gate);
                    self.step(input(reply), steps);
                }
            },
            Command::Interrupt { turn, answer, gate } => self.interrupt(turn, answer, gate, steps),
            Command::Queue { request, gate } => {
                queued::queue_request(self, request, gate, steps).await;
            }
            Command::StartQueued(start) => queued::start_queued(self, *start, steps).await,
            Command::Shell { script, answer, gate } => {
                self.start_user_shell(script, answer, gate, steps).await;
            }
            Command::ProjectDocuments { found } => self.documents_found(found, steps),
            Command::SkillsOpened { files } => self.skills_opened(files, steps),
            Command::SkillNeeds(report) => self.skills_reported(report, steps).await,
            Command::Planned { call, plan, patch } => {
                self.tools.keep_patch(call, patch);
                self.step(prepared_patch(call, plan), steps);
            }
            Command::Applied { call, turn, patch, outcome } => {
                let outcome = self.applied(turn, &patch, outcome);
                self.step(MachineInput::Applied { call, outcome }, steps);
            }
            Command::GrantChecked { call, outcome } => {
                append_steps(self.grant(call, outcome), steps);
            }
            Command::Reach { key, input, answer } => {
                self.commands.wait_for_host(key, answer);
                self.step(input, steps);
            }
            Command::RollBack { turns, files, answer } => {
                self.execute(std::mem::take(steps)).await;
                let _ = answer.send(self.roll_back(turns, files).await);
            }
            Command::Warn { message } => self.broadcast.warn_about_thread(&message),
            Command::Change { changes, answer } => {
                self.execute(std::mem::take(steps)).await;
                let _ = answer.send(self.journal.change(*changes).await);
            }
            Command::SetMemoryMode { mode, answer } => self.change_mode(mode, answer, steps).await,
            Command::Attach { peer, since, overrides, announce, snapshot, gate } => {
                let overrides = self.allow(overrides, Some(&peer));
                append_steps(self.machine.override_settings(overrides), steps);
                self.execute(std::mem::take(steps)).await;
                self.attach(peer, since, announce, snapshot, gate).await;
            }
            Command::ShowQuestions { peer } => self.show_questions(&peer),
            Command::Announce { method, message } => {
                self.execute(std::mem::take(steps)).await;
                self.broadcast.announce(method, message);
            }
            Command::Look { snapshot } => {
                self.execute(std::mem::take(steps)).await;
                self.journal.store_missing_ends().await;
                let _ = snapshot.send(self.snapshot());
            }
            Command::DescribeInput { model, target } => {
                let (config, settings) = (self.configuration.config(), self.machine.settings());
                let model = self.model.describe(config, settings, model.as_deref());
                let overrides = self.configuration.origin().overrides.clone();
                let _ = target.send(InputTarget { model, cwd: settings.cwd.clone(), overrides });
            }
            Command::DescribeProvider { target } => {
                let _ = target.send(self.provider_access());
            }
            Command::ToolAnswered { request, answer } => {
                let context = self.tool_context();
                self.tools.prepare_answer(request, answer, context);
            }
            Command::Unsubscribe { connection, was_subscribed } => {
                let _ = was_subscribed.send(self.unsubscribe(connection, steps));
            }
            Command::Detach { connection } => self.detach(connection, steps),
            Command::RootClientLeft { connection } => self.root_client_left(connection, steps),
            Command::Elicitation { connection, change, answer } => {
                let _ = answer.send(self.commands.elicitations().change(connection, change));
            }
            Command::HookReported(report) => self.broadcast.show_hook(*report),
            Command::Elicit(question) => self.elicit(question),
            Command::WithdrawElicitation { number } => self.withdraw_elicitation(number),
            Command::ElicitationAnswered { number, answer } => {
                self.answer_elicitation(number, answer);
            }
            Command::GiveUp { question, wait } => self.give_up_question(question, wait, steps),
            Command::ReloadServers { done } => {
                self.reload_servers().await;
                // The request may have ended.
                let _ = done.send(());
            }
            Command::Drain => self.drain(steps),
            Command::End(reason) => self.close(reason, steps),
        }
    }

    fn drain(&mut self, steps: &mut Vec<Step>) {
        self.queue.stop();
        self.step(MachineInput::Drain {}, steps);
    }

    fn close(&mut self, reason: EndReason, steps: &mut Vec<Step>) {
        self.queue.stop();
        self.step(MachineInput::Shutdown {}, steps);
        self.mailbox.close(reason);
    }

    fn interrupt(&mut self, turn: String, answer: AnswerSender, gate: Gate, steps: &mut Vec<Step>) {
        let reply = self.mailbox.replies().register(answer, gate);
        self.step(MachineInput::Interrupt { reply, turn }, steps);
    }

    fn provider_access(&self) -> ProviderAccess {
        ProviderAccess {
            config: self.configuration.config().clone(),
            provider: self.machine.settings().provider.to_string(),
        }
    }

    /// A call works in folders with project documents.
    fn documents_found(&mut self, found: NestedDocs, steps: &mut Vec<Step>) {
        let NestedDocs { documents, problems } = found;
        problems.iter().for_each(|problem| self.broadcast.warn_about_thread(problem));
        self.step(MachineInput::ProjectDocuments { documents }, steps);
    }

    async fn start_turn(&mut self, start: TurnStart, steps: &mut Vec<Step>) {
        let TurnStart {
            author,
            content,
            overrides,
            permissions,
            output_schema,
            budget,
            trace,
            answer,
            gate,
            ..
        } = start;
        let overrides = match self.before_turn(*overrides, permissions, steps).await {
            Ok(overrides) => overrides,
            Err(error) => return refuse(answer, error),
        };
        let reply = self.mailbox.replies().register(answer, gate);
        let effects = self.machine.start_turn(reply, author, content, overrides, output_schema);
        if let Some(turn) = started_turn(&effects) {
            self.trace.request(turn.clone(), trace);
            self.model.request_budget(turn, budget);
        }
        append_steps(effects, steps);
    }

    /// Records what a patch changed.
    fn applied(
        &mut self,
        turn: session::Id,
        patch: &PlannedPatch,
        outcome: Result<(), Error>,
    ) -> Result<String, ToolError> {
        let cwd = &self.machine.settings().cwd;
        let outcome = self.tools.applied(turn, &patch.changes, outcome, cwd);
        outcome.map_err(|error| ToolError::new(error.to_string()))
    }

    /// Grants permissions within the requirements, as far as the folders are still the same.
    fn grant(&mut self, call: u64, checked: Result<Grant, Error>) -> Vec<Effect> {
        let settings = self.machine.settings();
        let (config, cwd) = (self.configuration.config(), &settings.cwd);
        let outcome = checked
            .and_then(|grant| Allowed::grant(grant, &settings.sandbox, config, cwd))
            .map_err(|error| ToolError::new(format!("not granted: {error}")));
        self.machine.grant(call, outcome)
    }

    async fn start_user_shell(
        &mut self,
        script: String,
        answer: AnswerSender,
        gate: Gate,
        steps: &mut Vec<Step>,
    ) {
        if let Err(error) = self.ensure_history(steps).await {
            return refuse(answer, error);
        }
        match self.tools.user_shell(&script, self.tool_context()).await {
            Err(error) => refuse(answer, error),
            Ok(actions) => {
                let cwd = self.machine.settings().cwd.clone();
                let reply = self.mailbox.replies().register(answer, gate);
                self.step(MachineInput::Shell { reply, script, cwd, actions }, steps);
            }
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let nested = self.machine.project_documents().iter().map(PathBuf::from);
        let of_thread = self.configuration.instruction_sources().iter().cloned();
        Snapshot {
            record: self.journal.record().clone(),
            ephemeral: self.journal.is_ephemeral(),
            settings: self.machine.settings().clone(),
            granted: self.machine.granted(),
            status: self.shown_status(self.machine.status()),
            instruction_sources: of_thread.chain(nested).collect(),
            live: self.machine.live(),
            goal: self.machine.goal().cloned(),
            cursor: self.broadcast.cursor(),
            replay: None,
            open_requests: Vec::new(),
        }
    }

    /// Subscribes a connection once its response is queued, and sends it the open requests.
    pub(super) async fn attach(
        &mut self,
        peer: Arc<Peer>,
        since: Option<EventPosition>,
        announce: bool,
        sender: oneshot::Sender<Snapshot>,
        gate: Gate,
    ) {
        if peer.wants_cursors() && !self.broadcast.has_event_log() {
            self.begin_event_log().await;
        }
        let mut snapshot = self.snapshot();
        let replay = self.broadcast.replay(since.as_ref());
        snapshot.replay =
            replay.as_ref().map(|replay| replay.as_ref().map(Vec::len).map_err(|gap| *gap));
        snapshot.open_requests = self.questions.open_ids(&peer);
        if sender.send(snapshot.clone()).is_err() {
            return;
        }
        gate.opened().await;
        let is_replayed = matches!(replay, Some(Ok(_)));
        self.broadcast.subscribe(&peer, announce.then_some(&snapshot), replay);
        self.mcp.show_states(&peer);
        self.questions.send_open(&peer);
        if !is_replayed {
            self.broadcast.show_latest(&peer);
            queued::show_queue_to(self, &peer);
            let thread = self.journal.id();
            for review in self.machine.open_reviews() {
                let params = auto_review::started(thread.to_string(), review);
                peer.notify::<protocol::ItemAutoApprovalReviewStarted>(&params);
            }
        }
        self.agents.show_questions(&peer);
    }

    async fn begin_event_log(&mut self) {
        let live = self.machine.live();
        let turn = match live.turns.last() {
            Some(turn) => Some(turn.id.clone()),
            None => self.journal.last_turn().await,
        };
        self.broadcast.begin_event_log(&self.journal.new_id(), turn, live);
    }

    /// Sends a client of the tree the open requests, unless it has them as a subscriber.
    pub(super) fn show_questions(&mut self, peer: &Arc<Peer>) {
        if !self.broadcast.subscribers().contains(peer.id) {
            self.questions.send_open(peer);
        }
    }

    /// Ends the subscription of a connection; returns whether it had one.
    pub(super) fn unsubscribe(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) -> bool {
        let was_subscribed = self.remove_subscriber(connection);
        let settled = self.questions.unsubscribed(connection);
        self.client_left(settled, steps);
        was_subscribed
    }

    /// A connection has ended.
    pub(super) fn detach(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) {
        self.commands.elicitations().disconnected(connection);
        self.remove_subscriber(connection);
        let settled = self.questions.disconnected(connection);
        self.client_left(settled, steps);
    }

    /// A client has left the thread at the root. It may still subscribe to this one.
    pub(super) fn root_client_left(&mut self, connection: ConnectionId, steps: &mut Vec<Step>) {
        let settled = match self.broadcast.subscribers().contains(connection) {
            true => Vec::new(),
            false => self.questions.unsubscribed(connection),
        };
        self.client_left(settled, steps);
    }

    /// A question to the user has waited for a client.
    pub(super) fn give_up_question(
        &mut self,
        question: QuestionKey,
        wait: u64,
        steps: &mut Vec<Step>,
    ) {
        let unanswered = self.questions.give_up((question, wait), &self.asked_clients());
        unanswered.into_iter().for_each(|settled| self.settle(settled, steps));
    }

    /// Asks the user for an MCP server, unless the approval policy lets no such question through.
    pub(super) fn elicit(&mut self, question: ServerQuestion) {
        if let ApprovalPolicy::Granular(granular) = &self.machine.settings().approval
            && !granular.mcp_elicitations
        {
            let declined = mcp::Answer::without_content(mcp::Action::Decline);
            // The server may have withdrawn its question.
            let _ = question.answer.send(declined);
            return;
        }
        let clients = self.asked_clients();
        self.questions.ask_for_server(question, &clients);
        self.begin_waits();
        self.server_questions_changed();
    }

    /// The question of an MCP server has its answer.
    pub(super) fn answer_elicitation(&mut self, number: u64, answer: mcp::Answer) {
        self.questions.answer_server(number, answer, self.broadcast.subscribers_mut());
        self.server_questions_changed();
    }

    /// An MCP server no longer waits for an answer.
    pub(super) fn withdraw_elicitation(&mut self, number: u64) {
        self.questions.withdraw(number, self.broadcast.subscribers_mut());
        self.server_questions_changed();
    }

    /// While the running turn waits for the answer to a question of an MCP server, it waits for the user.
    pub(super) fn shown_status(&self, status: Status) -> Status {
        match status {
            Status::Active { waiting_on_approval, .. }
                if self.questions.has_server_question_of_turn() =>
            {
                Status::Active { waiting_on_approval, waiting_on_user_input: true }
            }
            status => status,
        }
    }

    /// Meanwhile its clock stands still.
    fn server_questions_changed(&mut self) {
        let is_asking = self.questions.has_server_question_of_turn();
        self.commands.elicitations().set_asking(is_asking);
        self.show_status(self.machine.status());
    }

    fn settle(&mut self, settled: Settled, steps: &mut Vec<Step>) {
        match settled {
            Settled::Session(input) => self.step(input, steps),
            Settled::Elicitation { number, answer } => self.answer_elicitation(number, answer),
        }
    }

    fn remove_subscriber(&mut self, connection: ConnectionId) -> bool {
        let was_subscribed = self.broadcast.unsubscribe(connection);
        if was_subscribed {
            self.agents.client_left(connection);
        }
        was_subscribed
    }

    /// Applies the effects of a client's leaving. Questions to the user that no other client can
    /// answer wait a while for one.
    fn client_left(&mut self, settled: Vec<Settled>, steps: &mut Vec<Step>) {
        settled.into_iter().for_each(|settled| self.settle(settled, steps));
        self.begin_waits();
    }

    fn begin_waits(&mut self) {
        let clients = self.asked_clients();
        for (question, wait) in self.questions.begin_waits(&clients) {
            self.mailbox.send_after(AWAIT_CLIENT, Command::GiveUp { question, wait });
        }
    }
}

pub(super) fn refuse(answer: AnswerSender, error: Error) {
    // The handler may have ended with its connection.
    let _ = answer.send(Err(error));
}

fn prepared_patch(call: u64, plan: PatchPlan) -> MachineInput {
    MachineInput::Prepared { call, outcome: Prepared::Patch(plan) }
}

/// The turn that these effects start.
pub(super) fn started_turn(effects: &[Effect]) -> Option<session::Id> {
    effects.iter().find_map(|effect| match effect {
        Effect::Emit(Event::TurnStarted(view)) => Some(view.id.clone()),
        _ => None,
    })
}
