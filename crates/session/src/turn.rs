//! A turn while it runs: starting, steering, joining, interrupting, going on.

use std::sync::Arc;

use crate::Id;
use crate::calls::Call;
use crate::compaction::Compaction;
use crate::effect::{Answer, Effect, NotSteerable, Record, Refusal, RefusalCause};
use crate::event::{Event, TurnError, TurnStatus, TurnView};
use crate::history::{self, Fragment};
use crate::input::same;
use crate::item::{Item, ItemStatus, UserContent};
use crate::machine::Machine;
use crate::retry::Attempts;
use crate::review::Review;
use crate::sampling::Sample;
use crate::settings::Overrides;

/// Characters of a preview.
const MAX_PREVIEW: usize = 1000;

/// The running turn.
pub(crate) struct Turn {
    pub(crate) view: TurnView,
    /// Turns that were started while this one ran: they end with it.
    pub(crate) joined: Vec<TurnView>,
    pub(crate) output_schema: Option<Arc<str>>,
    pub(crate) sample: Option<Sample>,
    /// Tries of the current request that failed.
    pub(crate) attempts: Attempts,
    /// The sample whose retry is being waited for.
    pub(crate) retry: Option<u64>,
    /// The model must be asked again though no call was made.
    pub(crate) again: bool,
    pub(crate) calls: Vec<Call>,
    /// Input that the model has not seen: sent with the turn's next request, and behind the summary
    /// of a compaction.
    pub(crate) pending: Vec<Fragment>,
    /// Set once the turn is to end; its end may still wait for a patch that is being applied.
    pub(crate) ending: Option<(TurnStatus, Option<TurnError>)>,
    /// Callers that interrupted: answered when the turn is over, so that they can start the next.
    pub(crate) interrupters: Vec<u64>,
    pub(crate) kind: Kind,
    pub(crate) compaction: Option<Compaction>,
    /// Length of the history after a compaction in this turn.
    pub(crate) compacted_at: Option<usize>,
    /// How many kept parts the history had when the turn began: those are finished business.
    pub(crate) kept_before: usize,
    /// Whether the model called a tool.
    pub(crate) made_calls: bool,
}

/// What a turn is for.
pub(crate) enum Kind {
    /// The user's input is worked on.
    Ordinary,
    /// The history is compacted.
    Compaction,
    /// A change is reviewed.
    Review(Box<Review>),
    /// A command of the user's runs.
    Shell {
        /// Its number.
        process: u64,
    },
}

impl Machine {
    pub(crate) fn start(
        &mut self,
        reply: u64,
        content: Vec<UserContent>,
        overrides: Overrides,
        output_schema: Option<Arc<str>>,
    ) {
        if content.is_empty() {
            return self.refuse(reply, "input must not be empty".into());
        }
        if self.closed {
            return self.refuse(reply, "the server is shutting down".into());
        }
        if self.turn.is_some() {
            return self.join(reply, content, overrides, output_schema);
        }
        let view = self.new_turn();
        self.override_settings(overrides);
        let kept_before = self.kept_fragments();
        let turn =
            Turn { output_schema, again: true, kept_before, ..Turn::new(view, Kind::Ordinary) };
        let turn = self.begin_turn(reply, turn);
        self.store_repairs(&turn);
        self.introduce(&turn);
        self.preview(&content);
        let fragment = history::user_message(&content);
        self.remember(&turn, vec![fragment]);
        self.show_user_message(&turn, content);
        self.advance();
    }

    pub(crate) fn new_turn(&mut self) -> TurnView {
        TurnView {
            id: self.ids.turn(),
            status: TurnStatus::InProgress,
            error: None,
            started_at: self.now,
            completed_at: None,
        }
    }

    /// A turn started while another runs: its input joins that one, and it ends with it. Its
    /// overrides and its schema hold from the next request to the model on.
    fn join(
        &mut self,
        reply: u64,
        content: Vec<UserContent>,
        overrides: Overrides,
        output_schema: Option<Arc<str>>,
    ) {
        if let Err(refusal) = self.check_takes_input() {
            return self.refuse_with(reply, refusal);
        }
        let view = self.new_turn();
        self.override_settings(overrides);
        let joined = view.id.clone();
        if let Some(turn) = &mut self.turn {
            turn.joined.push(view.clone());
            turn.output_schema = output_schema.or(turn.output_schema.take());
        }
        self.persist(Record::TurnStarted { turn: joined.clone(), at: self.now });
        self.effect(Effect::Reply { reply, result: Ok(Answer::Started(view.clone())) });
        self.emit(Event::TurnStarted(view));
        self.add_pending(&joined, content);
    }

    pub(crate) fn steer(&mut self, reply: u64, content: Vec<UserContent>, expected: &str) {
        let Some(turn) = &self.turn else {
            return self.refuse(reply, "no active turn to steer".into());
        };
        if !turn.answers_to(expected) {
            let active = turn.view.id.clone();
            let message = format!("expected active turn id `{expected}` but found `{active}`");
            return self.refuse(reply, message);
        }
        if content.is_empty() {
            return self.refuse(reply, "input must not be empty".into());
        }
        if let Err(refusal) = self.check_takes_input() {
            return self.refuse_with(reply, refusal);
        }
        let Some(id) = self.active_turn().cloned() else { return };
        self.effect(Effect::Reply { reply, result: Ok(Answer::Steered { turn: id.clone() }) });
        self.add_pending(&id, content);
    }

    /// Refuses input for a turn that is a review or a compaction, that is ending, or that has as
    /// much waiting input or joined turns as it may.
    fn check_takes_input(&self) -> Result<(), Refusal> {
        let Some(turn) = &self.turn else { return Ok(()) };
        if let Some(kind) = turn.not_steerable() {
            let what = match kind {
                NotSteerable::Review => "a review",
                NotSteerable::Compaction => "a compaction",
            };
            let message = format!(
                "the running turn is {what}, which takes no input; wait for its end, or interrupt it"
            );
            return Err(Refusal { message, cause: RefusalCause::NotSteerable(kind) });
        }
        let limit = self.limits.pending_inputs;
        let full = turn.pending.len() >= limit || turn.joined.len() >= limit;
        if full || turn.ending.is_some() {
            return Err("the running turn takes no more input".to_owned().into());
        }
        Ok(())
    }

    /// Stored at once, seen by the model at its next request.
    fn add_pending(&mut self, turn: &Id, content: Vec<UserContent>) {
        self.preview(&content);
        let fragment = history::user_message(&content);
        self.add_pending_fragments(turn, vec![fragment]);
        self.show_user_message(turn, content);
    }

    /// Adds to the thread's history beside a running turn, stored at once. An ordinary turn sends it
    /// with its next request. A review has a history of its own and a compaction makes no request
    /// after its summary, so there it is first sent by a later turn.
    pub(crate) fn add_pending_fragments(&mut self, turn: &Id, fragments: Vec<Fragment>) {
        let Some(active) = &mut self.turn else { return };
        match active.is_review() {
            true => self.history.extend(fragments.iter().cloned()),
            false => active.pending.extend(fragments.iter().cloned()),
        }
        self.persist(Record::History { turn: Some(turn.clone()), fragments });
    }

    fn show_user_message(&mut self, turn: &Id, content: Vec<UserContent>) {
        let item = Item::UserMessage { id: self.ids.item(), content };
        self.item_started(turn, item.clone());
        self.item_completed(turn, item);
    }

    fn preview(&mut self, content: &[UserContent]) {
        if self.previewed {
            return;
        }
        let text = content.iter().find_map(|part| match part {
            UserContent::Text { text, .. } => Some(text.clone()),
            _ => None,
        });
        if let Some(text) = text {
            self.preview_text(&text);
        }
    }

    /// The first words of a thread name it in lists.
    pub(crate) fn preview_text(&mut self, text: &str) {
        if !self.previewed {
            self.previewed = true;
            self.persist(Record::Preview(text.chars().take(MAX_PREVIEW).collect()));
        }
    }

    pub(crate) fn interrupt(&mut self, reply: u64, expected: &str) {
        let limit = self.limits.pending_inputs;
        let Some(turn) = &mut self.turn else {
            return self.refuse(reply, "no active turn to interrupt".into());
        };
        if !turn.answers_to(expected) {
            let active = turn.view.id.clone();
            let message = format!("expected active turn id `{expected}` but found `{active}`");
            return self.refuse(reply, message);
        }
        if turn.interrupters.len() >= limit {
            return self.refuse(reply, "the turn is being interrupted already".into());
        }
        turn.interrupters.push(reply);
        self.end(TurnStatus::Interrupted, None);
    }

    pub(crate) fn refuse(&mut self, reply: u64, message: String) {
        self.refuse_with(reply, message.into());
    }

    fn refuse_with(&mut self, reply: u64, refusal: Refusal) {
        self.effect(Effect::Reply { reply, result: Err(refusal) });
    }

    /// Goes on when nothing is being waited for: asks the model again, or ends the turn.
    pub(crate) fn advance(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if turn.sample.is_some() || turn.calls.iter().any(|call| !call.is_done()) {
            return;
        }
        let id = turn.view.id.clone();
        let calls = std::mem::take(&mut turn.calls);
        turn.again |= !calls.is_empty();
        turn.made_calls |= !calls.is_empty();
        let outputs: Vec<Fragment> = calls.into_iter().filter_map(Call::into_fragment).collect();
        self.remember(&id, outputs);
        let Some(turn) = &mut self.turn else { return };
        if turn.retry.is_some() {
            return;
        }
        if turn.compaction.is_some() && !self.draining {
            return self.sample_compaction();
        }
        if turn.compaction.is_none() && !turn.needs_request() {
            if turn.awaited().is_none() && !turn.awaits_prompt() {
                self.end(TurnStatus::Completed, None);
            }
            return;
        }
        if self.draining {
            // See `end_at_safe_point`.
            return;
        }
        if self.must_compact() {
            return self.begin_compaction(&id);
        }
        let Some(turn) = &mut self.turn else { return };
        turn.again = false;
        let pending = std::mem::take(&mut turn.pending);
        let output_schema = turn.output_schema.clone();
        self.history.extend(pending);
        self.introduce(&id);
        let number = self.number();
        let prompt = self.prompt(output_schema);
        if let Some(turn) = &mut self.turn {
            turn.sample = Some(Sample::new(number));
        }
        self.effect(Effect::Sample { sample: number, prompt });
    }

    pub(crate) fn item_started(&mut self, turn: &Id, item: Item) {
        self.emit(Event::ItemStarted { turn: turn.clone(), item, at: self.now });
    }

    /// Stores the item, then tells that it is final.
    pub(crate) fn item_completed(&mut self, turn: &Id, item: Item) {
        self.persist(Record::Item { turn: turn.clone(), item: item.clone() });
        self.emit(Event::ItemCompleted { turn: turn.clone(), item, at: self.now });
    }
}

impl Turn {
    pub(crate) fn new(view: TurnView, kind: Kind) -> Self {
        Self {
            view,
            joined: Vec::new(),
            output_schema: None,
            sample: None,
            attempts: Attempts::default(),
            retry: None,
            again: false,
            calls: Vec::new(),
            pending: Vec::new(),
            ending: None,
            interrupters: Vec::new(),
            kind,
            compaction: None,
            compacted_at: None,
            kept_before: 0,
            made_calls: false,
        }
    }

    pub(crate) fn is_review(&self) -> bool {
        matches!(self.kind, Kind::Review(_))
    }

    pub(crate) fn review(&self) -> Option<&Review> {
        match &self.kind {
            Kind::Review(review) => Some(review),
            _ => None,
        }
    }

    pub(crate) fn review_mut(&mut self) -> Option<&mut Review> {
        match &mut self.kind {
            Kind::Review(review) => Some(review),
            _ => None,
        }
    }

    /// What the turn is, when that takes no input. An ordinary turn takes it also while its history
    /// is compacted.
    fn not_steerable(&self) -> Option<NotSteerable> {
        match self.kind {
            Kind::Review(_) => Some(NotSteerable::Review),
            Kind::Compaction => Some(NotSteerable::Compaction),
            Kind::Ordinary | Kind::Shell { .. } => None,
        }
    }

    /// Whether the model is to be asked: for a result of its calls, or about input that it has not
    /// seen. Input does not prolong a review or a compaction.
    fn needs_request(&self) -> bool {
        self.again || (!self.pending.is_empty() && self.not_steerable().is_none())
    }

    /// The command of the user's that the turn is there for, while it runs.
    pub(crate) fn awaited(&self) -> Option<u64> {
        match self.kind {
            Kind::Shell { process } => Some(process),
            _ => None,
        }
    }

    /// Whether the turn is there for this command.
    pub(crate) fn awaits(&self, process: u64) -> bool {
        self.awaited() == Some(process)
    }

    /// The item of a compaction that is under way.
    pub(crate) fn compaction_item(&self) -> Option<Item> {
        self.compaction.as_ref().map(Compaction::shown)
    }

    /// Whether it is a review whose change is being read.
    pub(crate) fn awaits_prompt(&self) -> bool {
        self.review().is_some_and(|review| !review.has_prompt)
    }

    pub(crate) fn answers_to(&self, id: &str) -> bool {
        std::iter::once(&self.view).chain(&self.joined).any(|view| same(&view.id, id))
    }
}

/// `item` in its final state, with the reason where it did not come to its work.
pub(crate) fn closed_item(item: Item, status: ItemStatus, reason: Option<&str>) -> Item {
    let why = || reason.map(str::to_owned);
    match item {
        Item::Command(command) => {
            let output = command.output.or_else(why);
            Item::Command(crate::CommandItem { status, output, ..command })
        }
        Item::FileChange { id, changes, .. } => {
            Item::FileChange { id, changes, status, reason: why() }
        }
        Item::DynamicCall(call) => {
            Item::DynamicCall(crate::DynamicCall { status, reason: why(), ..call })
        }
        Item::WebSearch { id, query, action, .. } => {
            Item::WebSearch { id, query, action, reason: why() }
        }
        Item::ContextCompaction { id, .. } => Item::ContextCompaction { id, reason: why() },
        Item::ImageView { id, path, .. } => Item::ImageView { id, path, reason: why() },
        Item::UserMessage { .. }
        | Item::AgentMessage { .. }
        | Item::Plan { .. }
        | Item::Reasoning { .. }
        | Item::EnteredReviewMode { .. }
        | Item::ExitedReviewMode { .. } => item,
    }
}
