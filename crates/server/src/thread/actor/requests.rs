//! What handlers ask of a thread: each command, and what it needs before the machine gets it.

use std::sync::Arc;

use protocol::permission::PermissionProfileSelectionParams;
use session::{Effect, Event, Grant, Overrides, PatchPlan, Prepared, ToolError};
use tokio::sync::oneshot;

use crate::allowed::{Allowed, MachineInput};
use crate::connection::{Gate, Peer};
use crate::convert::auto_review;
use crate::error::Error;
use crate::thread::actor::Actor;
use crate::thread::configuration::Reconfigured;
use crate::thread::event_log::EventPosition;
use crate::thread::handle::{AnswerSender, Command, Snapshot};
use crate::thread::step::{Step, append_steps};
use crate::warnings;

impl Actor {
    pub(super) async fn take(&mut self, command: Command, steps: &mut Vec<Step>) {
        match command {
            Command::Input(input) => self.step(input, steps),
            Command::StartTurn {
                content,
                overrides,
                permissions,
                output_schema,
                budget,
                answer,
                gate,
                ..
            } => match self.before_turn(*overrides, permissions, steps).await {
                Err(error) => refuse(answer, error),
                Ok(overrides) => {
                    let reply = self.mailbox.replies().register(answer, gate);
                    let effects = self.machine.start_turn(reply, content, overrides, output_schema);
                    if let Some(turn) = started_turn(&effects) {
                        self.model.request_budget(turn, budget);
                    }
                    append_steps(effects, steps);
                }
            },
            Command::Ask { input, answer, gate, .. } => match self.ensure_history(steps).await {
                Err(error) => refuse(answer, error),
                Ok(()) => {
                    let reply = self.mailbox.replies().register(answer, gate);
                    self.step(input(reply), steps);
                }
            },
            Command::Shell { script, answer, gate } => {
                self.start_user_shell(script, answer, gate, steps).await;
            }
            Command::Planned { call, plan, patch } => {
                self.tools.keep_patch(call, patch);
                self.step(prepared_patch(call, plan), steps);
            }
            Command::Applied { call, turn, patch, outcome } => {
                let cwd = &self.machine.settings().cwd;
                let outcome = self.tools.applied(turn, &patch.changes, outcome, cwd);
                let outcome = outcome.map_err(|error| ToolError::new(error.to_string()));
                self.step(MachineInput::Applied { call, outcome }, steps);
            }
            Command::GrantChecked { call, outcome } => {
                append_steps(self.grant(call, outcome), steps);
            }
            Command::Reach { key, input, answer } => {
                self.commands.wait_for_host(key, answer);
                self.step(input, steps);
            }
            Command::RollBack { turns, answer } => {
                self.execute(std::mem::take(steps)).await;
                let _ = answer.send(self.roll_back(turns).await);
            }
            Command::Change { changes, answer } => {
                self.execute(std::mem::take(steps)).await;
                let _ = answer.send(self.journal.change(*changes).await);
            }
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
            Command::Unsubscribe { connection, was_subscribed } => {
                let _ = was_subscribed.send(self.unsubscribe(connection, steps));
            }
            Command::Detach { connection } => self.detach(connection, steps),
            Command::RootClientLeft { connection } => self.root_client_left(connection, steps),
            Command::Elicitation { connection, change, answer } => {
                let _ = answer.send(self.commands.elicitations().change(connection, change));
            }
            Command::GiveUp { request, wait } => {
                self.give_up_question(request, wait, steps);
            }
            Command::Drain => self.step(MachineInput::Drain {}, steps),
            Command::Shutdown => {
                self.step(MachineInput::Shutdown {}, steps);
                self.mailbox.close();
            }
        }
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

    /// Prepares a turn: the configuration as it is now, the model's history, and overrides that the
    /// requirements allow.
    async fn before_turn(
        &mut self,
        mut overrides: Overrides,
        permissions: Option<PermissionProfileSelectionParams>,
        steps: &mut Vec<Step>,
    ) -> Result<Allowed<Overrides>, Error> {
        let above = self.agents.read_above(self.machine.unloaded_above()).await?;
        self.machine.set_stored_above(above);
        let is_idle = self.machine.active_turn().is_none();
        let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
        let followed = self.configuration.follow(settings, is_idle, extra, &self.broadcast).await?;
        self.reconfigure(followed, steps);
        if is_idle {
            let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
            let adapted =
                self.configuration.adapt_to_model(settings, &overrides, extra, &self.broadcast);
            let adapted = adapted.await;
            self.reconfigure(adapted, steps);
        }
        if let Some(selection) = permissions {
            overrides.sandbox = Some(self.configuration.profile_policy(&selection)?);
        }
        self.ensure_history(steps).await?;
        Ok(self.allow(overrides, None))
    }

    fn reconfigure(&mut self, changed: Option<Reconfigured>, steps: &mut Vec<Step>) {
        let Some(Reconfigured { configured, context_window }) = changed else { return };
        self.broadcast.set_context_window(context_window);
        self.warn_of_changes(self.machine.exceeding(&configured.settings));
        let config = self.configuration.config();
        append_steps(self.machine.configure(configured, config), steps);
    }

    /// Overrides that the requirements allow. The machine keeps what follows from them within the
    /// bound of an agent. The clients learn what was replaced, and so does `sender`.
    fn allow(&self, overrides: Overrides, sender: Option<&Peer>) -> Allowed<Overrides> {
        let cwd = &self.machine.settings().cwd;
        let (overrides, mut replaced) = self.configuration.allow(overrides, cwd);
        let mut settings = self.machine.chosen_settings().clone();
        if settings.apply(overrides.clone().into_inner()) {
            replaced.extend(self.machine.exceeding(&settings));
        }
        let subscribers = self.broadcast.subscribers();
        if let Some(peer) = sender.filter(|peer| !subscribers.contains(peer.id)) {
            replaced.iter().for_each(|sentence| warnings::send_plain(peer, sentence.clone()));
        }
        self.warn_of_changes(replaced);
        overrides
    }

    fn warn_of_changes(&self, replaced: Vec<String>) {
        for sentence in replaced {
            self.broadcast.warn_of_change(&warnings::plain(sentence));
        }
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

    /// Reads the model's history unless it is loaded: loading a thread leaves it out.
    async fn ensure_history(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        if !self.machine.needs_history() {
            return Ok(());
        }
        // Records that wait to be stored are part of it.
        self.execute(std::mem::take(steps)).await;
        let history = self.journal.history().await;
        self.machine.restore(history.map_err(|error| error.within("the history cannot be read"))?);
        Ok(())
    }

    /// Drops the last turns.
    async fn roll_back(&mut self, turns: u32) -> Result<(), Error> {
        if self.machine.active_turn().is_some() && !self.journal.is_ephemeral() {
            return Err(Error::wrong_state("a turn is running")
                .next_step("wait for its end, or interrupt it, then roll back"));
        }
        let (introduced, introductions) =
            (self.machine.introduced().cloned(), self.machine.introductions());
        self.journal.roll_back(turns).await?;
        self.machine.forget_history();
        self.broadcast.cut_event_log();
        // The model is informed of the settings again, unless its history shows that the message with
        // them is still there. A history that cannot be read now is read before the next turn.
        if introductions.is_some_and(|count| count > 0)
            && let Ok(history) = self.journal.history().await
        {
            self.machine.restore(history);
            if self.machine.introductions() == introductions {
                self.machine.keep_introduced(introduced);
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            record: self.journal.record().clone(),
            ephemeral: self.journal.is_ephemeral(),
            settings: self.machine.settings().clone(),
            granted: self.machine.granted(),
            status: self.machine.status(),
            instruction_sources: self.configuration.instruction_sources().to_vec(),
            live: self.machine.live(),
            goal: self.machine.goal().cloned(),
            cursor: self.broadcast.cursor(),
            replay: None,
            open_requests: Vec::new(),
        }
    }

    /// Subscribes a connection once its response is queued, and sends it the open requests.
    async fn attach(
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
        self.questions.send_open(&peer);
        if !is_replayed {
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
}

fn refuse(answer: AnswerSender, error: Error) {
    // The handler may have ended with its connection.
    let _ = answer.send(Err(error));
}

fn prepared_patch(call: u64, plan: PatchPlan) -> MachineInput {
    MachineInput::Prepared { call, outcome: Prepared::Patch(plan) }
}

/// The turn that these effects start.
fn started_turn(effects: &[Effect]) -> Option<session::Id> {
    effects.iter().find_map(|effect| match effect {
        Effect::Emit(Event::TurnStarted(view)) => Some(view.id.clone()),
        _ => None,
    })
}
