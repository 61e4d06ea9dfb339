//! Requests of clients and the driver to a thread: turns, commands of the user, the goal, its end.

use std::path::PathBuf;
use std::sync::Arc;

use hooks::CompactionTrigger;

use super::Machine;
use crate::history;
use crate::port::approval::Decision;
use crate::port::auto_review::ReviewedAction;
use crate::port::effect::{Answer, Effect, Refusal};
use crate::port::event::TurnStatus;
use crate::port::fragment::Fragment;
use crate::port::goal::{GoalChange, GoalStatus};
use crate::port::input::Author;
use crate::port::item::{Action, CommandItem, CommandSource, Item, UserContent};
use crate::port::settings::{Overrides, SandboxPolicy};
use crate::port::thread::Configured;
use crate::port::tool::{ExecSpec, ToolRequest};
use crate::thread::{Phase, Thread};
use crate::tools::command_item;
use crate::turn::{Beginning, Kind, Review, Turn, UserMessage};

/// Why what a client was asked about is not done.
const WITHDRAWN: &str =
    "not approved: the request was withdrawn, because the user sent a new message; it follows";

/// Why nothing starts once the thread is closed.
const CLOSED: &str = "the server is shutting down";

impl Machine {
    pub(super) fn start(
        &mut self,
        reply: u64,
        (author, content): (Author, Vec<UserContent>),
        mut overrides: Overrides,
        output_schema: Option<Arc<str>>,
    ) {
        if content.is_empty() {
            return self.refuse(reply, "input must not be empty");
        }
        if self.is_closed() {
            return self.refuse(reply, CLOSED);
        }
        let thread = &mut self.thread;
        if let Some(turn) = &mut self.turn {
            if let Err(refusal) = turn.check_takes_input(thread) {
                return thread.cx.refuse(reply, refusal);
            }
            // The specification has a turn's start clear what waits for an answer.
            let cleared = match author {
                Author::User => turn.asked_approvals(thread),
                Author::Agent => Vec::new(),
            };
            thread.configuration.override_settings(overrides, &mut thread.cx);
            turn.join(reply, (author, content), output_schema, thread);
            for request in cleared {
                self.decided(request, Decision::Undecided(WITHDRAWN.to_owned()));
            }
            return;
        }
        let service_tier = overrides.turn_service_tier.take();
        thread.configuration.override_settings(overrides, &mut thread.cx);
        let message = UserMessage { author, content, client_id: None };
        self.begin(reply, message, output_schema, service_tier);
    }

    /// Starts the turn of a queued message.
    pub(super) fn start_queued(
        &mut self,
        reply: u64,
        content: Vec<UserContent>,
        client_id: Arc<str>,
    ) {
        if self.turn.is_some() {
            return self.refuse(reply, "thread already has an active or pending turn");
        }
        if content.is_empty() {
            return self.refuse(reply, "input must not be empty");
        }
        if self.is_closed() {
            return self.refuse(reply, CLOSED);
        }
        let client_id = Some(client_id);
        let message = UserMessage { author: Author::User, content, client_id };
        self.begin(reply, message, None, None);
    }

    /// Starts a turn; none runs.
    fn begin(
        &mut self,
        reply: u64,
        message: UserMessage,
        output_schema: Option<Arc<str>>,
        service_tier: Option<Option<String>>,
    ) {
        let thread = &mut self.thread;
        let kept_before = thread.conversation.kept_fragments();
        let kind = Kind::Ordinary { kept_before };
        let beginning =
            Beginning { kind, reply: Some(reply), asks_model: true, output_schema, service_tier };
        let mut turn = Turn::begin(beginning, thread);
        thread.introduce(turn.id());
        turn.run_start_hooks(thread);
        turn.add_user_message(message, thread);
        turn.advance(thread);
        self.turn = Some(turn);
    }

    pub(super) fn steer(&mut self, reply: u64, content: Vec<UserContent>, expected: &str) {
        let Some(turn) = &mut self.turn else {
            return self.refuse(reply, "no active turn to steer");
        };
        let thread = &mut self.thread;
        let is_empty =
            || if content.is_empty() { Err("input must not be empty".into()) } else { Ok(()) };
        let checked = turn
            .check_id(expected)
            .and_then(|()| is_empty())
            .and_then(|()| turn.check_takes_input(thread));
        match checked {
            Err(refusal) => thread.cx.refuse(reply, refusal),
            Ok(()) => turn.steer(reply, content, thread),
        }
    }

    pub(super) fn interrupt(&mut self, reply: u64, expected: &str) {
        let Some(turn) = &mut self.turn else {
            return self.refuse(reply, "no active turn to interrupt");
        };
        match turn.check_id(expected) {
            Err(refusal) => self.thread.cx.refuse(reply, refusal),
            Ok(()) => turn.interrupt(reply, &mut self.thread),
        }
    }

    /// `thread/compact/start`.
    pub(super) fn compact(&mut self, reply: u64) {
        if self.turn.is_some() {
            let message = "a turn is running; wait for its end, or interrupt it, then compact";
            return self.refuse(reply, message);
        }
        if self.is_closed() {
            return self.refuse(reply, CLOSED);
        }
        let thread = &mut self.thread;
        if thread.conversation.history().fragments().is_empty() {
            return thread.cx.refuse(reply, "the thread has no history to compact");
        }
        let mut turn = Turn::begin(Beginning::new(Kind::Compaction, reply), thread);
        turn.begin_compaction(CompactionTrigger::Manual, true, thread);
        self.turn = Some(turn);
    }

    /// `review/start`.
    pub(super) fn review(
        &mut self,
        reply: u64,
        subject: String,
        prompt: Option<&str>,
        model: Option<String>,
    ) {
        if self.turn.is_some() {
            let message = "a turn is running; wait for its end, or interrupt it, then review";
            return self.refuse(reply, message);
        }
        if self.is_closed() {
            return self.refuse(reply, CLOSED);
        }
        let thread = &mut self.thread;
        let review = Review::new(subject.clone(), prompt, model, thread);
        let kind = Kind::Review(Box::new(review));
        let beginning = Beginning { asks_model: prompt.is_some(), ..Beginning::new(kind, reply) };
        let mut turn = Turn::begin(beginning, thread);
        thread.conversation.preview_text(&subject, &mut thread.cx);
        let item = Item::EnteredReviewMode { id: thread.cx.item_id(), review: subject };
        thread.cx.whole_item(turn.id(), item);
        turn.advance(thread);
        self.turn = Some(turn);
    }

    /// `thread/shellCommand`: a command of the user, outside of the sandbox, in parallel with a turn, which
    /// waits for its end, or as a turn of its own.
    pub(super) fn user_shell(
        &mut self,
        reply: u64,
        script: String,
        cwd: PathBuf,
        actions: Vec<Action>,
    ) {
        if self.is_closed() {
            return self.refuse(reply, CLOSED);
        }
        let thread = &mut self.thread;
        if let Err(error) = thread.processes.check_room(&thread.cx.limits) {
            return thread.cx.refuse(reply, error.into_message());
        }
        let process = thread.cx.number();
        let turn = match &mut self.turn {
            Some(turn) if turn.is_ending() => {
                return thread.cx.refuse(reply, "the running turn is ending; try again");
            }
            Some(turn) => {
                thread.cx.reply(reply, Answer::Done);
                turn
            }
            none => {
                let turn = Turn::begin(Beginning::new(Kind::Shell, reply), thread);
                thread.conversation.preview_text(&script, &mut thread.cx);
                none.insert(turn)
            }
        }
        .id();
        let item = CommandItem {
            actions,
            process_id: Some(process.to_string()),
            source: CommandSource::User,
            ..command_item(thread.cx.item_id(), script.clone(), cwd.clone())
        };
        thread.cx.stored_item_started(turn, Item::Command(item.clone()));
        thread.processes.start_for_user(process, turn, item, &thread.cx);
        let request = ToolRequest::Script { script, workdir: None, shell: None, login: false };
        let spec = ExecSpec {
            call: process,
            request,
            cwd,
            cwd_is_real: false,
            sandbox: SandboxPolicy::DangerFullAccess,
            granted: Vec::new(),
            tty: false,
            timeout_ms: None,
        };
        thread.cx.push(Effect::Run { process, spec });
    }

    /// `thread/inject_items`.
    pub(super) fn inject(&mut self, reply: u64, fragments: Vec<Fragment>) {
        let thread = &mut self.thread;
        match &mut self.turn {
            Some(turn) if turn.is_ending() => {
                thread.cx.refuse(reply, "the running turn is ending; try again");
            }
            Some(turn) => {
                thread.cx.reply(reply, Answer::Done);
                turn.add_pending(fragments, thread);
            }
            None => {
                thread.conversation.remember(None, fragments, &mut thread.cx);
                thread.cx.reply(reply, Answer::Done);
            }
        }
    }

    /// `thread/approveGuardianDeniedAction`: the user lets an action that a review refused run once.
    /// The model learns of it, because only its next attempt runs the action.
    pub(super) fn approve_denied(&mut self, reply: u64, review: &str, action: &ReviewedAction) {
        let Thread { approvals, cx, .. } = &mut self.thread;
        if let Err(message) = approvals.approve_denied(review, action, cx) {
            return cx.refuse(reply, message);
        }
        cx.reply(reply, Answer::Done);
        let text = format!(
            "<approval>\nThe user approved an action that the approvals reviewer had refused: {}. If it \
             is still needed, ask for it again exactly as before; it may run once.\n</approval>",
            action.described()
        );
        let fragment = Fragment::summarized(history::message("developer", &text));
        match &mut self.turn {
            Some(turn) => turn.add_pending(vec![fragment], &mut self.thread),
            None => {
                let Thread { conversation, cx, .. } = &mut self.thread;
                conversation.remember(None, vec![fragment], cx);
            }
        }
    }

    /// `thread/backgroundTerminals/clean`: ends the commands that no call waits for.
    pub(super) fn clean_terminals(&mut self, reply: u64) {
        // A turn of the user's commands is interrupted instead.
        let is_shell = self.turn.as_ref().is_some_and(Turn::is_shell);
        self.kill(self.thread.processes.without_call(!is_shell));
        self.thread.processes.forget_ended();
        self.thread.cx.reply(reply, Answer::Done);
    }

    /// `thread/goal/set`.
    pub(super) fn set_goal(&mut self, reply: u64, change: GoalChange) {
        let thread = &mut self.thread;
        let Some(announcement) = thread.goal.set(reply, change, &mut thread.cx) else { return };
        thread.announce_goal(announcement);
        if self.turn.is_some() {
            thread.goal.start_clock(thread.cx.now);
        }
        let goal = thread.goal.goal().filter(|goal| goal.status == GoalStatus::Active);
        if let (Some(goal), None, Phase::Open) = (goal, &self.turn, thread.phase) {
            thread.conversation.preview_text(&goal.objective, &mut thread.cx);
            self.start_goal_turn(false);
        }
    }

    /// `thread/goal/clear`.
    pub(super) fn clear_goal(&mut self, reply: u64) {
        let Thread { goal, conversation, cx, .. } = &mut self.thread;
        if let Some(announcement) = goal.clear(reply, cx) {
            conversation.announce(announcement);
        }
    }

    /// Applies a changed configuration; the model is informed of it with the next turn.
    pub(super) fn configure(&mut self, configured: Configured) {
        let Thread { configuration, conversation, cx, .. } = &mut self.thread;
        cx.limits = configured.limits;
        let announcement = configuration.replace(configured, cx);
        if let Some(announcement) = announcement
            && conversation.introduced().is_some()
        {
            conversation.announce(announcement);
        }
    }

    /// Ends the turn and every command; no turn starts after it.
    pub(super) fn shutdown(&mut self) {
        self.thread.phase = Phase::Closed;
        self.with_turn(|turn, thread| turn.end(TurnStatus::Interrupted, None, thread));
        self.finish_turn();
        self.kill(self.thread.processes.all());
    }

    fn refuse(&mut self, reply: u64, refusal: impl Into<Refusal>) {
        self.thread.cx.refuse(reply, refusal);
    }
}
