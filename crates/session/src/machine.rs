//! The state machine of one loaded thread: routes each input to the part that it concerns.

mod requests;
mod turn_inputs;

use std::sync::Arc;

use crate::approvals::{
    ApprovalRequest, Approvals, Question, ReviewEnd, Withdrawn, allows_prompts,
};
use crate::concessions::Concessions;
use crate::configuration::Configuration;
use crate::conversation::Conversation;
use crate::cx::Cx;
use crate::goal::{self, GoalTracker};
use crate::outputs::Outputs;
use crate::port::approval::{Decision, NetworkTarget};
use crate::port::auto_review::{ApprovalReview, ReviewResponse};
use crate::port::effect::{Effect, Record};
use crate::port::event::{Status, TurnStatus, TurnView};
use crate::port::fragment::Fragment;
use crate::port::goal::Goal;
use crate::port::input::Input;
use crate::port::item::Item;
use crate::port::model::{Failure, FailureKind, Usage};
use crate::port::permission::Permissions;
use crate::port::settings::{Mode, Settings};
use crate::port::thread::{Configured, Ids, Restored};
use crate::port::tool::ProcessEnd;
use crate::processes::{AfterExit, Processes};
use crate::spending::Spending;
use crate::terms::CHANGED;
use crate::thread::{Phase, Thread};
use crate::turn::{Beginning, Kind, Put, Turn};
use crate::unstored_text::Portions;
use crate::{Id, Millis};

/// One loaded thread.
pub struct Machine {
    thread: Thread,
    turn: Option<Turn>,
}

/// The unfinished part of a running turn, for a client that joins in the middle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Live {
    /// The running turn, then those that joined it.
    pub turns: Vec<TurnView>,
    /// Items in the order in which they began, as far as is known; later deltas continue their
    /// text. Each with the id of its turn.
    pub items: Vec<(Id, Item)>,
}

impl Machine {
    /// A thread, new or restored. A history that a crash cut short is completed.
    pub fn new(configured: Configured, ids: Box<dyn Ids>, restored: Restored) -> Self {
        let status = if restored.failed { Status::SystemError } else { Status::Idle };
        let spending = Spending::new(&restored);
        let mut thread = Thread {
            cx: Cx::new(ids, configured.limits, status),
            configuration: Configuration::new(configured),
            conversation: Conversation::new(
                restored.introduced,
                restored.previewed,
                restored.documents,
            ),
            goal: GoalTracker::new(restored.goal),
            processes: Processes::default(),
            approvals: Approvals::new(restored.approved_actions),
            outputs: Outputs::default(),
            spending,
            concessions: Concessions::new(restored.concessions),
            phase: Phase::Open,
            id: restored.thread,
            start: restored.start,
            has_started: false,
            messages_wait: false,
        };
        if let Some(history) = restored.history {
            thread.conversation.restore(history, |_| false, &mut thread.cx);
        }
        Self { thread, turn: None }
    }

    /// Returns whether the history must be restored before any turn.
    pub fn needs_history(&self) -> bool {
        !self.thread.conversation.is_restored()
    }

    /// Takes over the stored history, and completes one that a crash cut short. `is_set`: whether commands of
    /// the thread have this variable that the user gave for a skill.
    pub fn restore(&mut self, history: Vec<Fragment>, is_set: impl Fn(&str) -> bool) {
        self.thread.conversation.restore(history, is_set, &mut self.thread.cx);
    }

    /// Drops the history, because stored turns were removed: it is restored before the next turn,
    /// which introduces the model to the settings again.
    pub fn forget_history(&mut self) {
        self.thread.conversation.forget();
    }

    /// The settings that the model was last introduced to.
    pub fn introduced(&self) -> Option<&Settings> {
        self.thread.conversation.introduced()
    }

    /// Returns the number of introductions in the history; `None` before it is restored.
    pub fn introductions(&self) -> Option<usize> {
        let conversation = &self.thread.conversation;
        conversation.is_restored().then(|| conversation.introductions())
    }

    /// The paths of the project documents of folders below the working folder that the model has.
    pub fn project_documents(&self) -> &[String] {
        self.thread.conversation.documents()
    }

    /// The model knows these settings after all.
    pub fn keep_introduced(&mut self, settings: Option<Settings>) {
        self.thread.conversation.set_introduced(settings);
    }

    /// The settings in force, with what the user granted.
    pub fn settings(&self) -> &Settings {
        self.thread.configuration.settings()
    }

    /// The settings as they were chosen, without what the user granted.
    pub fn chosen_settings(&self) -> &Settings {
        self.thread.configuration.chosen()
    }

    /// The chosen settings within the thread's bound.
    pub fn bounded_settings(&self) -> Settings {
        self.thread.configuration.bounded()
    }

    /// Counts the changes of the settings.
    pub fn settings_version(&self) -> u64 {
        self.thread.configuration.version()
    }

    /// Returns the user's grants beyond the chosen sandbox policy.
    pub fn granted(&self) -> Permissions {
        self.thread.configuration.granted()
    }

    /// The runtime status.
    pub fn status(&self) -> Status {
        self.thread.cx.status()
    }

    /// The running turn's id.
    pub fn active_turn(&self) -> Option<&Id> {
        self.turn.as_ref().map(Turn::id)
    }

    /// Returns whether messages of the user wait for the end of the turn; see [`Input::MessagesWait`].
    pub fn messages_wait(&self) -> bool {
        self.thread.messages_wait
    }

    /// Returns whether the running turn has not asked the model yet, because skills need something:
    /// the tools that the model is offered can still change.
    pub fn awaits_skills_first(&self) -> bool {
        self.turn.as_ref().is_some_and(Turn::awaits_skills_first)
    }

    /// Returns whether nothing runs: no turn and no command.
    pub fn is_quiet(&self) -> bool {
        self.turn.is_none() && self.thread.processes.is_empty()
    }

    /// Tokens of the thread so far.
    pub fn usage(&self) -> Usage {
        self.thread.spending.usage()
    }

    /// The goal, if there is one.
    pub fn goal(&self) -> Option<&Goal> {
        self.thread.goal.goal()
    }

    /// The last turn ended, but its end could not be stored: it has failed.
    pub fn turn_failed_to_end(&mut self) {
        if self.status() == Status::Idle {
            self.thread.cx.correct_status(Status::SystemError);
        }
    }

    /// Returns the user's messages in the thread, as JSON for reviewers of its agents; `None`
    /// before its history is restored.
    pub fn user_words(&self) -> Option<Arc<str>> {
        let pending = self.turn.as_ref().map(Turn::pending_input).unwrap_or_default();
        let is_restored = self.thread.conversation.is_restored();
        is_restored.then(|| self.thread.user_words(pending).json())
    }

    /// The reviews of approvals that are under way.
    pub fn open_reviews(&self) -> impl Iterator<Item = &ApprovalReview> {
        self.thread.approvals.open_reviews()
    }

    /// See [`Live`].
    pub fn live(&self) -> Live {
        let Some(turn) = &self.turn else { return Live::default() };
        let of_turn = |item| (turn.id().clone(), item);
        let mut items: Vec<(Id, Item)> = turn.call_items().map(of_turn).collect();
        items.extend(self.thread.processes.items(self.thread.cx.now));
        items.extend(turn.streaming_items().into_iter().map(of_turn));
        Live { turns: turn.views().cloned().collect(), items }
    }

    /// Takes one input at the time `now`.
    pub fn step(&mut self, now: Millis, input: Input) -> Vec<Effect> {
        self.thread.cx.now = now;
        self.route(input);
        self.finish_turn();
        if let Some(turn) = &mut self.turn {
            turn.end_at_safe_point(&mut self.thread);
        }
        self.finish_turn();
        if self.thread.cx.unstored.take_due() {
            self.store_texts(Portions::Whole);
        }
        self.thread.cx.take_effects()
    }

    /// Returns whether clients have received text of running items that is not stored: the driver sends
    /// [`Input::StoreTexts`] within a second.
    pub fn has_unstored_text(&self) -> bool {
        self.thread.cx.unstored.is_any()
    }

    /// Stores the running items with new text as far as they have come, so that a crash does not lose it.
    fn store_texts(&mut self, portions: Portions) {
        self.with_turn(|turn, thread| turn.store_new_text(portions, thread));
        let Thread { processes, cx, .. } = &mut self.thread;
        for (turn, item) in processes.with_new_output(portions, cx.now) {
            cx.persist(Record::Item { turn, item });
        }
    }

    fn route(&mut self, input: Input) {
        match input {
            Input::Start { reply, author, content, overrides, output_schema } => {
                self.start(reply, (author, content), overrides, output_schema);
            }
            Input::StartQueued { reply, content, client_id } => {
                self.start_queued(reply, content, client_id);
            }
            Input::MessagesWait { any } => self.thread.messages_wait = any,
            Input::Steer { reply, content, expected_turn } => {
                self.steer(reply, content, &expected_turn);
            }
            Input::Interrupt { reply, turn } => self.interrupt(reply, &turn),
            Input::Compact { reply } => self.compact(reply),
            Input::Review { reply, subject, prompt, model } => {
                self.review(reply, subject, prompt.as_deref(), model);
            }
            Input::Shell { reply, script, cwd, actions } => {
                self.user_shell(reply, script, cwd, actions);
            }
            Input::Inject { reply, fragments } => self.inject(reply, fragments),
            Input::CleanTerminals { reply } => self.clean_terminals(reply),
            Input::SetGoal { reply, change } => self.set_goal(reply, change),
            Input::ClearGoal { reply } => self.clear_goal(reply),
            Input::Override { overrides } => {
                let Thread { configuration, cx, .. } = &mut self.thread;
                configuration.override_settings(overrides, cx);
            }
            Input::Bound(bound) => self.thread.configuration.set_bound(*bound),
            Input::RootWords { words } => self.thread.approvals.set_root_words(&words),
            Input::Configure(configured) => self.configure(*configured),
            Input::Skills { catalog } => self.thread.configuration.set_skills(catalog),
            Input::SandboxLimits { limits } => {
                self.thread.configuration.set_sandbox_limits(limits);
            }
            Input::ProjectDocuments { documents } => self.thread.offer_documents(&documents),
            Input::Spent { turn, usage } => self.thread.account(&turn, usage),
            Input::Hooks { events } => self.thread.configuration.set_hooks(events),
            Input::Output { process, text } => {
                self.thread.processes.output(process, text, &mut self.thread.cx);
            }
            Input::Exited { process, end } => self.process_exited(process, end),
            // What a reviewer decides is not put to clients.
            Input::Decided { request, .. } if self.thread.approvals.is_under_review(request) => {}
            Input::Decided { request, decision } => self.decided(request, decision),
            Input::NetworkAsk { process, key, target } => self.network_ask(process, key, target),
            Input::Reviewed { review, outcome } => self.reviewed(review, outcome),
            Input::ReviewRetryDue { review } => {
                self.thread.approvals.review_retry_due(review, &mut self.thread.cx);
            }
            Input::ReviewOverdue { review } => {
                let end = self.thread.approvals.review_overdue(review, &mut self.thread.cx);
                self.review_ended(review, end);
            }
            Input::StoreTexts => {
                if self.thread.cx.unstored.take_any() {
                    self.store_texts(Portions::Begun);
                }
            }
            Input::ApproveDenied { reply, review, action } => {
                self.approve_denied(reply, &review, &action);
            }
            Input::NetworkWithdrawn { key } => {
                let withdrawn = self.thread.approvals.network_withdrawn(key, &mut self.thread.cx);
                self.after_withdrawal(withdrawn);
            }
            Input::Drain => self.thread.phase = Phase::Draining,
            Input::Shutdown => self.shutdown(),
            Input::DropGrants => self.thread.configuration.drop_grants(),
            about_turn => {
                self.with_turn(|turn, thread| turn_inputs::route(about_turn, turn, thread));
            }
        }
    }

    /// For what concerns the running turn only: without one it came too late.
    fn with_turn(&mut self, f: impl FnOnce(&mut Turn, &mut Thread)) {
        if let Some(turn) = &mut self.turn {
            f(turn, &mut self.thread);
        }
    }

    /// Prompts were withdrawn; those that are left of them are put again.
    fn after_withdrawal(&mut self, withdrawn: Withdrawn) {
        if withdrawn.any {
            withdrawn.again.into_iter().for_each(|request| self.put(request));
            self.with_turn(|turn, thread| turn.show_waiting(thread));
        }
    }

    /// Puts a prompt about a host to who decides. One that is decided at once may lead to another for
    /// the commands that it does not cover: to one a command at most.
    fn put(&mut self, request: ApprovalRequest) {
        let number = request.number;
        let Thread { approvals, configuration, cx, .. } = &mut self.thread;
        if !allows_prompts(configuration.settings().approval) {
            return self.decided(number, Decision::Undecided(CHANGED.to_owned()));
        }
        if approvals.take_approved(&request.action, cx) {
            return self.decided(number, Decision::Accept);
        }
        let Some(turn) = &self.turn else { return };
        let put = turn.put(request, &mut self.thread);
        let Thread { approvals, configuration, .. } = &mut self.thread;
        match put {
            Put::ToClients => approvals.prompt_put_to_clients(number),
            Put::ToReviewer => approvals.prompt_put_to_reviewer(number, configuration.settings()),
            Put::Refused(reason) => self.decided(number, Decision::Undecided(reason)),
        }
    }

    /// Returns whether the thread takes no more turns.
    fn is_closed(&self) -> bool {
        self.thread.phase != Phase::Open
    }

    /// Ends a turn that has nothing left to wait for. An active goal may start the next one.
    fn finish_turn(&mut self) {
        let Some(turn) = self.turn.take_if(|turn| turn.can_finish()) else { return };
        let ended = turn.finish(&mut self.thread);
        let is_closed = self.is_closed();
        let Thread { goal, cx, .. } = &mut self.thread;
        let is_active = goal.after_turn(&ended.id, ended.status, is_closed, cx);
        let gets_somewhere = ended.status == TurnStatus::Completed && ended.made_calls;
        let may_go_on = !is_closed && !self.thread.messages_wait;
        if is_active && gets_somewhere && may_go_on && self.settings().mode == Mode::Default {
            self.start_goal_turn(true);
        }
    }

    /// A turn that works on the goal by itself. `continues`: it goes on with the work of the turn
    /// that has just ended.
    fn start_goal_turn(&mut self, continues: bool) {
        let thread = &mut self.thread;
        let kept_before = thread.conversation.kept_fragments();
        let kind = Kind::Ordinary { kept_before };
        let beginning = Beginning {
            kind,
            reply: None,
            asks_model: true,
            output_schema: None,
            service_tier: None,
        };
        let mut turn = Turn::begin(beginning, thread);
        if continues {
            thread.cx.push(Effect::TurnContinues { turn: turn.id().clone() });
        }
        thread.introduce(turn.id());
        turn.run_start_hooks(thread);
        let fragments = vec![goal::continuation()];
        thread.conversation.remember(Some(turn.id()), fragments, &mut thread.cx);
        turn.advance(thread);
        self.turn = Some(turn);
    }

    /// A command ended by itself.
    fn process_exited(&mut self, process: u64, end: ProcessEnd) {
        let withdrawn = self.thread.approvals.command_ended(process, &mut self.thread.cx);
        self.after_withdrawal(withdrawn);
        let active = self.turn.as_ref().map(Turn::id);
        let Thread { processes, cx, .. } = &mut self.thread;
        if let Some(then) = processes.exited(process, end, active, cx) {
            self.after_exit(then);
        }
    }

    fn after_exit(&mut self, then: AfterExit) {
        match then {
            AfterExit::Nothing => {}
            AfterExit::TellUserCommand(item) => {
                self.with_turn(|turn, thread| turn.user_command_ended(&item, thread));
            }
            AfterExit::Answer { call, output } => {
                self.with_turn(|turn, thread| turn.answer(call, output, thread));
            }
            AfterExit::FailTurn { message, call } => self.with_turn(|turn, thread| {
                if let Some((call, output)) = call {
                    turn.answer_last(call, output);
                }
                turn.fail(Failure::new(FailureKind::SandboxError, message), thread);
            }),
        }
    }

    /// Ends these commands now.
    fn kill(&mut self, processes: Vec<u64>) {
        for process in processes {
            let withdrawn = self.thread.approvals.command_ended(process, &mut self.thread.cx);
            self.after_withdrawal(withdrawn);
            let exit = self.thread.processes.kill(process, &mut self.thread.cx);
            if let Some(then) = exit {
                self.after_exit(then);
            }
        }
    }

    /// A running command wants to reach a host.
    fn network_ask(&mut self, process: u64, key: u64, target: NetworkTarget) {
        // Between turns no client would wait for the answer.
        let has_turn = self.turn.as_ref().is_some_and(|turn| !turn.is_ending());
        let Thread { approvals, configuration, processes, cx, .. } = &mut self.thread;
        let policy = configuration.settings().approval;
        let command = processes.in_folder(process);
        let question = Question { process, key, target };
        let request = approvals.network_asked(question, policy, has_turn, command, cx);
        if let Some(request) = request {
            self.put(request);
        }
    }

    /// A reviewer's model answered, or did not. Its cost counts, even when it is too late.
    fn reviewed(&mut self, review: u64, outcome: Result<ReviewResponse, Failure>) {
        let usage = match &outcome {
            Ok(response) => Some(response.usage.clone()),
            Err(failure) => failure.usage.as_deref().cloned(),
        };
        if let Some(usage) = usage {
            self.with_turn(|turn, thread| thread.account(turn.id(), usage));
        }
        // Only a running turn has reviews.
        let Some(turn) = &self.turn else { return };
        let words = turn.words_for_reviewers(&self.thread);
        let Thread { approvals, configuration, cx, .. } = &mut self.thread;
        let facts = configuration.facts_for_reviewers(&words);
        let end = approvals.reviewed(review, outcome.as_ref(), &facts, cx);
        self.review_ended(review, end);
    }

    /// Applies a reviewer's decision, which has the effect of the same decision of a client.
    fn review_ended(&mut self, review: u64, end: Option<ReviewEnd>) {
        match end {
            Some(Ok(())) => self.decided(review, Decision::Accept),
            Some(Err(reason)) => self.decided(review, Decision::Undecided(reason)),
            None => {}
        }
    }

    /// A client answered a request: about a host, or about a call.
    fn decided(&mut self, request: u64, decision: Decision) {
        let Thread { approvals, configuration, processes, cx, .. } = &mut self.thread;
        let settings = configuration.settings();
        let Some(mut answered) = approvals.network_decided(request, &decision, settings, cx) else {
            return self.with_turn(|turn, thread| turn.decided(request, decision, thread));
        };
        for (process, text) in answered.notes() {
            processes.output(process, text, cx);
        }
        answered.answer(cx);
        if let Some(again) = answered.again.take() {
            self.put(again);
        }
        self.with_turn(|turn, thread| match answered.cancels {
            true => turn.end(TurnStatus::Interrupted, None, thread),
            false => turn.show_waiting(thread),
        });
    }
}
