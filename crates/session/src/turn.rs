//! One running turn: its kind, and when the model is asked again.
//!
//! `input` takes what the model has not seen yet, `response` reads what the model sends, `steps` carries
//! tool calls out, and only `ending` emits the turn's end.

mod agent_calls;
mod approval;
mod apps;
mod compacting;
mod compaction;
mod ending;
mod hooking;
mod input;
mod kind;
mod permissions;
mod questions;
mod received_calls;
mod response;
mod review;
mod review_findings;
mod server_tools;
mod skills;
mod steps;
mod typing;
mod user_command;

use std::sync::Arc;

use hooks::CompactionTrigger;

use crate::Id;
use crate::calls::Calls;
use crate::history::History;
use crate::hook_runs::HookRuns;
use crate::port::effect::{Answer, Record, Refusal};
use crate::port::event::{Event, Status, TurnStatus, TurnView};
use crate::port::fragment::Fragment;
use crate::port::item::{CommandItem, Item};
use crate::sample::retry::Attempts;
use crate::sample::{Sample, Unfinished};
use crate::skill_needs::SkillNeeds;
use crate::thread::{Phase, Thread};
pub(crate) use approval::Put;
use compaction::Compaction;
use ending::Ending;
pub(crate) use input::UserMessage;
pub(crate) use kind::{Beginning, Kind};
use received_calls::ReceivedCalls;
pub(crate) use review::Review;

/// A running turn.
pub(crate) struct Turn {
    view: TurnView,
    /// Turns that were started while this one ran: they end with it.
    joined: Vec<TurnView>,
    /// Turn whose history rows are appended to: the last one whose input the model has received.
    received: Id,
    /// Callers that interrupted: answered when the turn is over, so that they can start the next.
    interrupters: Vec<u64>,
    kind: Kind,
    request: Request,
    /// Texts of the response before, which broke off, until the model is asked again.
    unfinished: Unfinished,
    /// Failed tries of the current request.
    attempts: Attempts,
    calls: Calls,
    received_calls: ReceivedCalls,
    /// True if the model must be asked again though no call was made.
    again: bool,
    /// Number of responses that ended before the model had.
    pauses: u32,
    /// True if a call has ended the work of the turn: the model gets no further request.
    is_finished: bool,
    /// True if the model called a tool.
    made_calls: bool,
    output_schema: Option<Arc<str>>,
    /// In place of the thread's service tier.
    service_tier: Option<Option<String>>,
    /// Input that the model has not seen: sent with the turn's next request, and after the summary
    /// of a compaction.
    pending: Vec<Fragment>,
    compaction: Option<Compaction>,
    hooks: HookRuns,
    skill_needs: SkillNeeds,
    /// Length of the history after the last compaction in this turn.
    compacted_at: Option<usize>,
    /// Set once the turn is to end; its end may still wait for a patch that is being applied.
    ending: Option<Ending>,
}

/// The request to the model.
enum Request {
    /// None.
    None,
    /// Its response streams in.
    Streaming(Sample),
    /// It failed, and is sent again later.
    Waiting {
        /// The request that failed.
        sample: u64,
    },
}

impl Turn {
    /// Begins a turn: stored, answered, reported.
    pub(crate) fn begin(beginning: Beginning, thread: &mut Thread) -> Self {
        let Beginning { kind, reply, asks_model, output_schema, service_tier } = beginning;
        let view = new_view(thread);
        let (turn, at) = (view.id.clone(), view.started_at);
        thread.cx.persist(Record::TurnStarted { turn, at });
        if let Some(reply) = reply {
            thread.cx.reply(reply, Answer::Started(view.clone()));
        }
        thread.cx.set_status(Status::Active {
            waiting_on_approval: false,
            waiting_on_user_input: false,
        });
        thread.cx.emit(Event::TurnStarted(view.clone()));
        thread.goal.start_clock(at);
        thread.conversation.store_repairs(&view.id, &mut thread.cx);
        Self {
            received: view.id.clone(),
            view,
            joined: Vec::new(),
            interrupters: Vec::new(),
            kind,
            request: Request::None,
            unfinished: Unfinished::default(),
            attempts: Attempts::default(),
            calls: Calls::default(),
            received_calls: ReceivedCalls::default(),
            again: asks_model,
            pauses: 0,
            is_finished: false,
            made_calls: false,
            output_schema,
            service_tier,
            pending: Vec::new(),
            compaction: None,
            hooks: HookRuns::default(),
            skill_needs: SkillNeeds::default(),
            compacted_at: None,
            ending: None,
        }
    }

    pub(crate) fn id(&self) -> &Id {
        &self.view.id
    }

    /// The turn, then those that joined it.
    pub(crate) fn views(&self) -> impl Iterator<Item = &TurnView> {
        std::iter::once(&self.view).chain(&self.joined)
    }

    /// The items that are not final, but for those of running commands: calls, then what the model
    /// is writing.
    pub(crate) fn call_items(&self) -> impl Iterator<Item = Item> + '_ {
        self.calls.items().chain(self.skill_needs.items())
    }

    /// The item of a compaction, and what the model is writing.
    pub(crate) fn streaming_items(&self) -> Vec<Item> {
        let mut items: Vec<Item> = self.compaction.iter().map(Compaction::item).collect();
        items.extend(self.unfinished.items());
        if let Request::Streaming(sample) = &self.request {
            items.extend(sample.items());
        }
        items
    }

    /// Refuses a turn id that is neither this turn's nor one that joined it.
    pub(crate) fn check_id(&self, expected: &str) -> Result<(), Refusal> {
        if self.has_id(expected) {
            return Ok(());
        }
        let active = &self.view.id;
        Err(format!("expected active turn id `{expected}` but found `{active}`").into())
    }

    fn has_id(&self, id: &str) -> bool {
        self.views().any(|view| &*view.id == id)
    }

    /// Returns the history that the model knows: the thread's, or a review's own.
    fn history<'h>(&'h self, thread: &'h Thread) -> &'h History {
        match &self.kind {
            Kind::Review(review) => review.history(),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => thread.conversation.history(),
        }
    }

    /// Appends to the model's history, and stores it. A review's history is its own.
    fn remember(&mut self, fragments: Vec<Fragment>, thread: &mut Thread) {
        match &mut self.kind {
            Kind::Review(review) => review.history_mut().extend(fragments),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => {
                thread.conversation.remember(Some(&self.received), fragments, &mut thread.cx);
            }
        }
    }

    /// Takes the prompt of a review that waits for it.
    pub(crate) fn review_prompt(&mut self, turn: &str, prompt: &str, thread: &mut Thread) {
        if !self.has_id(turn) || self.is_ending() {
            return;
        }
        if let Kind::Review(review) = &mut self.kind
            && !review.has_prompt()
        {
            review.set_prompt(prompt);
            self.again = true;
            self.advance(thread);
        }
    }

    /// Returns whether the turn consists of commands of the user.
    pub(crate) fn is_shell(&self) -> bool {
        matches!(self.kind, Kind::Shell)
    }

    /// A command of the user ended: the model learns of it with its next request. A turn that
    /// consists of such commands asks for none, and ends with the last of them; any other continues.
    pub(crate) fn user_command_ended(&mut self, command: &CommandItem, thread: &mut Thread) {
        let fragments = vec![user_command::message(command, &thread.cx.limits)];
        if self.is_ending() {
            // After the outputs of the calls that end with it.
            return self.add_pending(fragments, thread);
        }
        match self.kind {
            Kind::Shell => {
                thread.conversation.remember(Some(&self.received), fragments, &mut thread.cx);
                if !thread.processes.run_for_user(&self.view.id) {
                    self.kind = Kind::Ordinary { kept_before: 0 };
                }
            }
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Review(_) => {
                self.add_pending(fragments, thread);
            }
        }
        self.advance(thread);
    }

    /// Continues when nothing is pending: asks the model again, or ends the turn.
    pub(crate) fn advance(&mut self, thread: &mut Thread) {
        let is_streaming = matches!(self.request, Request::Streaming(_));
        let is_held = is_streaming || self.hooks.hold_turn() || self.skill_needs.hold_turn();
        if self.is_ending() || is_held || !self.calls.are_done() {
            return;
        }
        let outputs = self.calls.take_outputs();
        self.again |= !outputs.is_empty();
        self.again &= !std::mem::take(&mut self.is_finished);
        self.made_calls |= !outputs.is_empty();
        self.remember(outputs, thread);
        if matches!(self.request, Request::Waiting { .. }) {
            return;
        }
        let is_draining = thread.phase == Phase::Draining;
        if self.compaction.is_some() && !is_draining {
            return self.request_summary(thread);
        }
        if self.compaction.is_none() && !self.needs_request() {
            if !self.awaits_outside(thread) && !self.run_stop_hooks(thread) {
                self.end(TurnStatus::Completed, None, thread);
            }
            return;
        }
        if is_draining {
            // See `end_at_safe_point`.
            return;
        }
        if self.must_compact(thread) {
            return self.begin_compaction(CompactionTrigger::Auto, false, thread);
        }
        if self.run_request_hooks(thread) {
            return;
        }
        self.again = false;
        self.hooks.admits_end = false;
        self.receive_pending(thread);
        let mut context = self.hooks.take_context();
        context.extend(self.skill_needs.take_notes());
        self.remember(context, thread);
        self.request_response(thread);
    }

    /// Returns whether the model must be asked: for a result of its calls, or about input that it
    /// has not seen. Input does not prolong a review or a compaction.
    fn needs_request(&self) -> bool {
        self.again || (!self.pending.is_empty() && self.not_steerable().is_none())
    }

    /// Returns whether the turn waits for commands that the user runs in it, or for the change that a
    /// review reads.
    fn awaits_outside(&self, thread: &Thread) -> bool {
        let awaits_prompt = match &self.kind {
            Kind::Review(review) => !review.has_prompt(),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell => false,
        };
        awaits_prompt || thread.processes.run_for_user(&self.view.id)
    }

    /// The requests for approval that clients have.
    pub(crate) fn asked_approvals(&self, thread: &Thread) -> Vec<u64> {
        let mut asked = self.calls.asked_about();
        asked.extend(thread.approvals.prompts_of_clients());
        asked
    }

    /// Reports whether any approval or answer of the user is pending.
    pub(crate) fn show_waiting(&self, thread: &mut Thread) {
        let waiting_on_approval = self.calls.are_asked_about() || thread.approvals.has_prompts();
        let waiting_on_user_input = self.calls.wait_for_user() || self.skill_needs.wait_for_user();
        thread.cx.set_status(Status::Active { waiting_on_approval, waiting_on_user_input });
    }
}

fn new_view(thread: &mut Thread) -> TurnView {
    TurnView {
        id: thread.cx.turn_id(),
        status: TurnStatus::InProgress,
        error: None,
        started_at: thread.cx.now,
        completed_at: None,
    }
}
