//! What handlers ask of a thread: each command, and what it needs before the machine gets it.

use session::{Effect, Event, Grant, PatchPlan, Prepared, ToolError};

use crate::allowed::{Allowed, MachineInput};
use crate::connection::Gate;
use crate::error::Error;
use crate::project_doc::nested::NestedDocs;
use crate::thread::actor::Actor;
use crate::thread::handle::{AnswerSender, Command, InputTarget, ProviderAccess, TurnStart};
use crate::thread::patches::PlannedPatch;
use crate::thread::step::{Step, append_steps};

impl Actor {
    pub(super) async fn take(&mut self, command: Command, steps: &mut Vec<Step>) {
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
            Command::GiveUp { question, wait } => {
                self.give_up_question(question, wait, steps);
            }
            Command::ReloadServers { done } => {
                self.reload_servers().await;
                // The request may have ended.
                let _ = done.send(());
            }
            Command::Drain => self.step(MachineInput::Drain {}, steps),
            Command::End(reason) => {
                self.step(MachineInput::Shutdown {}, steps);
                self.mailbox.close(reason);
            }
        }
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
