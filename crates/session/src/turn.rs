//! One running turn: its kind, the input that waits for the model, when the model is asked again,
//! and the only place that emits the turn's end.
//!
//! `response` reads what the model sends, `steps` carries tool calls out.

mod agent_calls;
mod approval;
mod compaction;
mod kind;
mod permissions;
mod questions;
mod response;
mod review;
mod review_findings;
mod steps;
mod typing;
pub(crate) mod user_command;

use std::sync::Arc;

use crate::Id;
use crate::calls::Calls;
use crate::history;
use crate::port::effect::{Answer, Effect, NotSteerable, Record, Refusal, RefusalCause};
use crate::port::event::{Event, Status, TurnError, TurnStatus, TurnView};
use crate::port::fragment::{Fragment, Mark};
use crate::port::item::{CommandItem, Item, UserContent};
use crate::port::model::Failure;
use crate::processes::{AfterExit, Exit};
use crate::sample::Sample;
use crate::sample::retry::Attempts;
use crate::thread::{Phase, Thread};
pub(crate) use approval::Put;
use compaction::Compaction;
pub(crate) use kind::{Beginning, Kind};
pub(crate) use review::Review;

/// See the module.
pub(crate) struct Turn {
    view: TurnView,
    /// Turns that were started while this one ran: they end with it.
    joined: Vec<TurnView>,
    /// Callers that interrupted: answered when the turn is over, so that they can start the next.
    interrupters: Vec<u64>,
    kind: Kind,
    request: Request,
    /// Failed tries of the current request.
    attempts: Attempts,
    calls: Calls,
    /// Whether the model must be asked again though no call was made.
    again: bool,
    /// Whether a call has ended the work of the turn: the model gets no further request.
    is_finished: bool,
    /// Whether the model called a tool.
    made_calls: bool,
    output_schema: Option<Arc<str>>,
    /// In place of the thread's service tier.
    service_tier: Option<Option<String>>,
    /// Input that the model has not seen: sent with the turn's next request, and behind the summary
    /// of a compaction.
    pending: Vec<Fragment>,
    compaction: Option<Compaction>,
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

/// How a turn ends.
struct Ending {
    status: TurnStatus,
    error: Option<TurnError>,
}

/// A turn that is over.
pub(crate) struct Ended {
    pub(crate) id: Id,
    pub(crate) status: TurnStatus,
    /// Whether the model called a tool.
    pub(crate) made_calls: bool,
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
            view,
            joined: Vec::new(),
            interrupters: Vec::new(),
            kind,
            request: Request::None,
            attempts: Attempts::default(),
            calls: Calls::default(),
            again: asks_model,
            is_finished: false,
            made_calls: false,
            output_schema,
            service_tier,
            pending: Vec::new(),
            compaction: None,
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
        self.calls.items()
    }

    /// The item of a compaction, and what the model is writing.
    pub(crate) fn streaming_items(&self) -> Vec<Item> {
        let mut items: Vec<Item> = self.compaction.iter().map(Compaction::item).collect();
        if let Request::Streaming(sample) = &self.request {
            items.extend(sample.items());
        }
        items
    }

    /// Whether the turn is ending.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// Whether nothing is left to wait for before the turn's end.
    pub(crate) fn can_finish(&self) -> bool {
        self.ending.is_some() && !self.calls.is_applying()
    }

    /// Shows the user's message and adds it to the history.
    pub(crate) fn add_user_message(&self, content: Vec<UserContent>, thread: &mut Thread) {
        thread.conversation.preview(&content, &mut thread.cx);
        let fragment = user_message(&content, thread);
        thread.conversation.remember(Some(&self.view.id), vec![fragment], &mut thread.cx);
        show_user_message(&self.view.id, content, thread);
    }

    /// A turn started while this one runs: its input joins this one, and it ends with this one. Its
    /// schema holds from the next request to the model on.
    pub(crate) fn join(
        &mut self,
        reply: u64,
        content: Vec<UserContent>,
        output_schema: Option<Arc<str>>,
        thread: &mut Thread,
    ) {
        let view = new_view(thread);
        let (turn, at) = (view.id.clone(), view.started_at);
        self.joined.push(view.clone());
        self.output_schema = output_schema.or(self.output_schema.take());
        thread.cx.persist(Record::TurnStarted { turn: turn.clone(), at });
        thread.cx.reply(reply, Answer::Started(view.clone()));
        thread.cx.emit(Event::TurnStarted(view));
        self.add_pending_message(&turn, content, thread);
        self.withdraw_questions(thread);
    }

    /// Adds to the input that the model has not seen.
    pub(crate) fn steer(&mut self, reply: u64, content: Vec<UserContent>, thread: &mut Thread) {
        let turn = self.view.id.clone();
        thread.cx.reply(reply, Answer::Steered { turn: turn.clone() });
        self.add_pending_message(&turn, content, thread);
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

    /// Refuses input for a turn that is a review or a compaction, that is ending, or that has as
    /// much waiting input or joined turns as it may.
    pub(crate) fn check_takes_input(&self, thread: &Thread) -> Result<(), Refusal> {
        if let Some(kind) = self.not_steerable() {
            let what = match kind {
                NotSteerable::Review => "a review",
                NotSteerable::Compaction => "a compaction",
            };
            let message = format!(
                "the running turn is {what}, which takes no input; wait for its end, or interrupt it"
            );
            return Err(Refusal { message, cause: RefusalCause::NotSteerable(kind) });
        }
        let limit = thread.cx.limits.pending_inputs;
        let is_full = self.pending.len() >= limit || self.joined.len() >= limit;
        if is_full || self.is_ending() {
            return Err("the running turn takes no more input".into());
        }
        Ok(())
    }

    /// What the turn is, when that takes no input. An ordinary turn takes it also while its history
    /// is compacted.
    fn not_steerable(&self) -> Option<NotSteerable> {
        match self.kind {
            Kind::Review(_) => Some(NotSteerable::Review),
            Kind::Compaction => Some(NotSteerable::Compaction),
            Kind::Ordinary { .. } | Kind::Shell { .. } => None,
        }
    }

    /// What joined the turn and the model has not seen yet.
    pub(crate) fn pending_input(&self) -> &[Fragment] {
        &self.pending
    }

    fn add_pending_message(&mut self, turn: &Id, content: Vec<UserContent>, thread: &mut Thread) {
        thread.conversation.preview(&content, &mut thread.cx);
        self.add_pending(turn, vec![user_message(&content, thread)], thread);
        show_user_message(turn, content, thread);
    }

    /// Adds to the thread's history beside the running turn, stored at once. An ordinary turn sends
    /// it with its next request. A review has a history of its own and a compaction makes no
    /// request after its summary, so there a later turn is the first to send it.
    pub(crate) fn add_pending(&mut self, turn: &Id, fragments: Vec<Fragment>, thread: &mut Thread) {
        match self.kind {
            Kind::Review(_) => {
                thread.conversation.history_mut().extend(fragments.iter().cloned());
            }
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell { .. } => {
                self.pending.extend(fragments.iter().cloned());
            }
        }
        thread.cx.persist(Record::History { turn: Some(turn.clone()), fragments });
    }

    /// Appends to the model's history, and stores it. A review's history is its own.
    fn remember(&mut self, fragments: Vec<Fragment>, thread: &mut Thread) {
        match &mut self.kind {
            Kind::Review(review) => review.history_mut().extend(fragments),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell { .. } => {
                thread.conversation.remember(Some(&self.view.id), fragments, &mut thread.cx);
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

    /// The command that a turn of the user's shell consists of, while it runs.
    pub(crate) fn awaited_process(&self) -> Option<u64> {
        match self.kind {
            Kind::Shell { process } => Some(process),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Review(_) => None,
        }
    }

    /// A command of the user ended: the model learns of it with its next request. A turn that
    /// consisted of the command continues.
    pub(crate) fn user_command_ended(
        &mut self,
        process: u64,
        turn: &Id,
        command: &CommandItem,
        thread: &mut Thread,
    ) {
        let fragment = user_command::message(command, &thread.cx.limits);
        let active = self.view.id.clone();
        match (self.is_ending(), &self.kind) {
            // The thread's own history, not the review's: the review is about something else.
            (false, _) if self.awaited_process() == Some(process) => {
                let fragments = vec![fragment];
                thread.conversation.remember(Some(&active), fragments, &mut thread.cx);
                self.kind = Kind::Ordinary { kept_before: 0 };
                self.advance(thread);
            }
            (false, _) => self.add_pending(&active, vec![fragment], thread),
            // Behind the outputs of the calls that end with the turn.
            (true, _) => self.add_pending(turn, vec![fragment], thread),
        }
    }

    /// Stops the turn for a caller, who is answered when it is over.
    pub(crate) fn interrupt(&mut self, reply: u64, thread: &mut Thread) {
        if self.interrupters.len() >= thread.cx.limits.pending_inputs {
            return thread.cx.refuse(reply, "the turn is being interrupted already");
        }
        self.interrupters.push(reply);
        self.end(TurnStatus::Interrupted, None, thread);
    }

    /// Continues when nothing is pending: asks the model again, or ends the turn.
    pub(crate) fn advance(&mut self, thread: &mut Thread) {
        let is_streaming = matches!(self.request, Request::Streaming(_));
        if self.is_ending() || is_streaming || !self.calls.are_done() {
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
            if !self.awaits_outside() {
                self.end(TurnStatus::Completed, None, thread);
            }
            return;
        }
        if is_draining {
            // See `end_at_safe_point`.
            return;
        }
        if self.must_compact(thread) {
            return self.begin_compaction(thread);
        }
        self.again = false;
        let pending = std::mem::take(&mut self.pending);
        thread.conversation.history_mut().extend(pending);
        self.request_response(thread);
    }

    /// Whether the model is to be asked: for a result of its calls, or about input that it has not
    /// seen. Input does not prolong a review or a compaction.
    fn needs_request(&self) -> bool {
        self.again || (!self.pending.is_empty() && self.not_steerable().is_none())
    }

    /// Whether the turn waits for the user's command, or for the change that a review reads.
    fn awaits_outside(&self) -> bool {
        match &self.kind {
            Kind::Shell { .. } => true,
            Kind::Review(review) => !review.has_prompt(),
            Kind::Ordinary { .. } | Kind::Compaction => false,
        }
    }

    /// Reports whether any approval or answer of the user is pending.
    pub(crate) fn show_waiting(&self, thread: &mut Thread) {
        let waiting_on_approval = self.calls.are_asked_about() || thread.approvals.has_prompts();
        let waiting_on_user_input = self.calls.wait_for_user();
        thread.cx.set_status(Status::Active { waiting_on_approval, waiting_on_user_input });
    }

    /// While the thread drains: ends the turn where nothing is cut short. Whoever is asked
    /// something just now may take for ever to answer, so that is such a point too.
    pub(crate) fn end_at_safe_point(&mut self, thread: &mut Thread) {
        let is_streaming = matches!(self.request, Request::Streaming(_));
        let is_busy = is_streaming || self.awaited_process().is_some();
        if thread.phase == Phase::Draining && !is_busy && !self.calls.are_working() {
            self.end(TurnStatus::Interrupted, None, thread);
        }
    }

    /// Ends the turn for a failure that no retry helps.
    pub(crate) fn fail(&mut self, failure: impl Into<Failure>, thread: &mut Thread) {
        self.end(TurnStatus::Failed, Some(failure.into().into()), thread);
    }

    /// Begins the turn's end: what still runs is stopped at once. A patch that is being applied is
    /// waited for, because it is never cut in half; see [`Turn::can_finish`].
    pub(crate) fn end(
        &mut self,
        status: TurnStatus,
        error: Option<TurnError>,
        thread: &mut Thread,
    ) {
        if self.is_ending() {
            return;
        }
        let why = match &error {
            Some(error) => error.message.clone(),
            None => "the turn was interrupted".to_owned(),
        };
        self.ending = Some(Ending { status, error });
        let id = self.view.id.clone();
        if let Request::Streaming(sample) = std::mem::replace(&mut self.request, Request::None) {
            thread.cx.push(Effect::CancelSample { sample: sample.number() });
            sample.close(&why, &mut thread.cx);
        }
        self.drop_compaction(&why, thread);
        thread.approvals.close_prompts(&mut thread.cx);
        self.calls.abandon(&id, status, &why, &mut thread.cx);
        if status != TurnStatus::Completed {
            for process in thread.processes.of_turn(&id) {
                let exit = thread.processes.kill(process, &mut thread.cx);
                if let Some(Exit { turn, then: AfterExit::TellUserCommand(item) }) = exit {
                    self.user_command_ended(process, &turn, &item, thread);
                }
            }
            thread.processes.stop_waiting();
        }
        thread.processes.end_with_turn(&mut thread.cx);
        if self.calls.is_applying() {
            self.show_waiting(thread);
        }
    }

    /// The end itself: the callers that interrupted are answered, and the end is reported.
    pub(crate) fn finish(mut self, thread: &mut Thread) -> Ended {
        let Ending { status, error } =
            self.ending.take().unwrap_or(Ending { status: TurnStatus::Interrupted, error: None });
        let id = self.view.id.clone();
        let outputs = self.calls.take_outputs();
        match self.kind {
            Kind::Review(review) => review.leave(&id, status, error.as_ref(), thread),
            Kind::Ordinary { .. } | Kind::Compaction | Kind::Shell { .. } => {
                thread.conversation.remember(Some(&id), outputs, &mut thread.cx);
                thread.conversation.history_mut().extend(self.pending);
            }
        }
        for reply in self.interrupters {
            thread.cx.reply(reply, Answer::Interrupted);
        }
        for mut view in std::iter::once(self.view).chain(self.joined) {
            if let Some(error) = &error {
                let (turn, error) = (view.id.clone(), error.clone());
                thread.cx.emit(Event::Error { turn, error, retry: None });
            }
            view.status = status;
            view.error.clone_from(&error);
            view.completed_at = Some(thread.cx.now);
            thread.cx.persist(Record::TurnFinished { view: view.clone(), status });
            thread.cx.emit(Event::TurnCompleted(view));
        }
        thread.configuration.end_turn_grants();
        let failed = status == TurnStatus::Failed;
        thread.cx.set_status(if failed { Status::SystemError } else { Status::Idle });
        thread.cx.push(Effect::TurnEnded { turn: id.clone() });
        Ended { id, status, made_calls: self.made_calls }
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

/// Input as part of the history. That of an agent is kept like the user's, and not taken for it.
fn user_message(content: &[UserContent], thread: &Thread) -> Fragment {
    let fragment = history::user_message(content);
    match thread.configuration.context().input_is_from_agent {
        true => Fragment { mark: Mark::Pinned, ..fragment },
        false => fragment,
    }
}

fn show_user_message(turn: &Id, content: Vec<UserContent>, thread: &mut Thread) {
    let item = Item::UserMessage { id: thread.cx.item_id(), content };
    thread.cx.whole_item(turn, item);
}
