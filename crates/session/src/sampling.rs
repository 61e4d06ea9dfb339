//! Reads a streamed response of the model into items, deltas, history and tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::calls::Call;
use crate::effect::{Effect, Record};
use crate::event::{Event, TurnError};
use crate::failed_calls::Called;
use crate::history::{CallKind, Fragment};
use crate::input::{Failure, FailureKind, ModelEvent, ModelItem, ModelItemKind, Usage};
use crate::item::{Item, ItemStatus, Phase};
use crate::machine::Machine;
use crate::plan_tags::{self, Piece, Splitter};
use crate::reasoning::Reasoning;
use crate::retry::{self, Attempts, Next};
use crate::settings::Mode;
use crate::turn::{Turn, closed_item};
use crate::{Id, tools};

/// Why an output item comes to nothing when another takes its place in the response.
const REPLACED: &str = "the model's response went on with something else";
/// Why an output item comes to nothing when the response ends without it.
const UNFINISHED: &str = "the model's response ended before this did";

/// What an empty item or section counts of the bound on a response.
pub(crate) const ITEM_BYTES: usize = 64;

/// A response that is being streamed.
pub(crate) struct Sample {
    pub(crate) number: u64,
    items: BTreeMap<usize, Streaming>,
    bytes: usize,
}

/// An output item that is not whole yet.
pub(crate) enum Streaming {
    Message {
        id: Id,
        text: String,
        phase: Option<Phase>,
        plan: Option<Plan>,
    },
    Reasoning(Reasoning),
    /// A search by the provider.
    Search {
        id: Id,
        query: String,
    },
    Other,
}

/// The plan inside a message of plan mode.
#[derive(Default)]
pub(crate) struct Plan {
    splitter: Splitter,
    /// Whether any text came.
    fed: bool,
    item: Option<(Id, String)>,
}

impl Sample {
    pub(crate) fn new(number: u64) -> Self {
        Self { number, items: BTreeMap::new(), bytes: 0 }
    }

    /// The items as far as they have come.
    pub(crate) fn shown(&self) -> Vec<Item> {
        let mut shown = Vec::new();
        for streaming in self.items.values() {
            match streaming {
                Streaming::Message { id, text, phase, plan } => {
                    let (id, text) = (id.clone(), text.clone());
                    shown.push(Item::AgentMessage { id, text, phase: *phase });
                    let plan = plan.as_ref().and_then(|plan| plan.item.clone());
                    shown.extend(plan.map(|(id, text)| Item::Plan { id, text }));
                }
                Streaming::Reasoning(reasoning) => shown.push(reasoning.shown()),
                Streaming::Search { id, query } => shown.push(search(id, query)),
                Streaming::Other => {}
            }
        }
        shown
    }
}

impl Machine {
    pub(crate) fn model(&mut self, sample: u64, events: Vec<ModelEvent>) {
        for event in events {
            let Some(turn) = &self.turn else { return };
            if turn.sample.as_ref().is_none_or(|current| current.number != sample) {
                return;
            }
            let id = turn.view.id.clone();
            let compacts = turn.compaction.is_some();
            if let ModelEvent::Failed(Failure { usage: Some(usage), .. }) = &event {
                self.account(&id, *usage);
            }
            if compacts {
                self.compaction_event(&id, event);
            } else {
                self.model_event(&id, event);
            }
        }
    }

    fn model_event(&mut self, turn: &Id, event: ModelEvent) {
        match event {
            ModelEvent::ItemAdded { index, kind } => self.open_item(turn, index, kind),
            ModelEvent::TextDelta { index, text } => self.text_delta(turn, index, text),
            ModelEvent::SummaryPartAdded { index, part } => self.summary_part(turn, index, part),
            ModelEvent::SummaryDelta { index, part, text } => {
                self.reasoning_delta(turn, index, part, text, true);
            }
            ModelEvent::ReasoningDelta { index, part, text } => {
                self.reasoning_delta(turn, index, part, text, false);
            }
            ModelEvent::ItemDone { index, raw, item } => self.item_done(turn, index, raw, item),
            ModelEvent::Completed { usage } => self.sample_completed(turn, usage),
            ModelEvent::Failed(failure) => self.sample_failed(turn, failure),
        }
    }

    pub(crate) fn streaming(&mut self, index: usize) -> Option<&mut Streaming> {
        self.turn.as_mut()?.sample.as_mut()?.items.get_mut(&index)
    }

    /// Counts streamed bytes; past the bound the turn fails.
    pub(crate) fn within_bound(&mut self, bytes: usize) -> bool {
        let limit = self.limits.response_bytes;
        let sample = self.turn.as_mut().and_then(|turn| turn.sample.as_mut());
        let Some(sample) = sample else { return false };
        sample.bytes += bytes;
        if sample.bytes <= limit {
            return true;
        }
        let message = format!("the model's response is longer than {limit} bytes");
        self.fail(Failure::new(FailureKind::Other, message));
        false
    }

    pub(crate) fn open_item(&mut self, turn: &Id, index: usize, kind: ModelItemKind) {
        self.close_item(turn, index, REPLACED);
        if !self.within_bound(ITEM_BYTES) {
            return;
        }
        let streaming = match kind {
            ModelItemKind::Message { phase } => {
                let plan = (self.settings.mode == Mode::Plan).then(Plan::default);
                let id = self.ids.item();
                self.item_started(
                    turn,
                    Item::AgentMessage { id: id.clone(), text: String::new(), phase },
                );
                Streaming::Message { id, text: String::new(), phase, plan }
            }
            ModelItemKind::Reasoning => {
                let reasoning = Reasoning::new(self.ids.item());
                self.item_started(turn, reasoning.shown());
                Streaming::Reasoning(reasoning)
            }
            ModelItemKind::WebSearch { query } => {
                let id = self.ids.item();
                self.item_started(turn, search(&id, &query));
                Streaming::Search { id, query }
            }
            ModelItemKind::Other => Streaming::Other,
        };
        if let Some(sample) = self.turn.as_mut().and_then(|turn| turn.sample.as_mut()) {
            sample.items.insert(index, streaming);
        }
    }

    fn text_delta(&mut self, turn: &Id, index: usize, delta: String) {
        if !self.within_bound(delta.len()) {
            return;
        }
        if self.streaming(index).is_none() {
            self.open_item(turn, index, ModelItemKind::Message { phase: None });
        }
        let Some(Streaming::Message { id, text, plan, .. }) = self.streaming(index) else {
            return;
        };
        let item = id.clone();
        match plan {
            None => {
                text.push_str(&delta);
                self.emit(Event::MessageDelta { turn: turn.clone(), item, text: delta });
            }
            Some(plan) => {
                plan.fed = true;
                let pieces = plan.splitter.push(&delta);
                self.plan_pieces(turn, index, pieces);
            }
        }
    }

    fn plan_pieces(&mut self, turn: &Id, index: usize, pieces: Vec<Piece>) {
        for piece in pieces {
            let new_id = matches!(piece, Piece::Open).then(|| self.ids.item());
            let Some(Streaming::Message { id, text, plan: Some(plan), .. }) = self.streaming(index)
            else {
                return;
            };
            match (piece, new_id) {
                (Piece::Text(delta), _) => {
                    text.push_str(&delta);
                    let item = id.clone();
                    self.emit(Event::MessageDelta { turn: turn.clone(), item, text: delta });
                }
                (Piece::Open, Some(id)) => {
                    plan.item = Some((id.clone(), String::new()));
                    self.item_started(turn, Item::Plan { id, text: String::new() });
                }
                (Piece::Plan(delta), _) => {
                    let Some((id, text)) = &mut plan.item else { continue };
                    text.push_str(&delta);
                    let item = id.clone();
                    self.emit(Event::PlanDelta { turn: turn.clone(), item, text: delta });
                }
                (Piece::Close, _) => {
                    let Some((id, text)) = plan.item.take() else { continue };
                    let text = text.trim().to_owned();
                    self.item_completed(turn, Item::Plan { id, text });
                }
                (Piece::Open, None) => {}
            }
        }
    }

    fn item_done(&mut self, turn: &Id, index: usize, raw: Arc<str>, item: ModelItem) {
        if !self.within_bound(raw.len()) {
            return;
        }
        self.remember(turn, vec![Fragment::passing(raw.clone())]);
        match item {
            ModelItem::Message { text, phase } => self.message_done(turn, index, text, phase),
            ModelItem::Reasoning { summary, content } => {
                self.reasoning_done(turn, index, summary, content);
            }
            ModelItem::FunctionCall { call_id, name, arguments } => {
                self.close_item(turn, index, REPLACED);
                let call = tools::read_function(&self.toolset(), &name, &arguments);
                let input = arguments;
                self.call(turn, Called { call_id, kind: CallKind::Function, name, input }, call);
            }
            ModelItem::CustomToolCall { call_id, name, input } => {
                self.close_item(turn, index, REPLACED);
                let call = tools::read_custom(&self.toolset(), &name, &input);
                self.call(turn, Called { call_id, kind: CallKind::Custom, name, input }, call);
            }
            ModelItem::WebSearch { query, action, failed } => {
                if !matches!(self.streaming(index), Some(Streaming::Search { .. })) {
                    let query = query.clone();
                    self.open_item(turn, index, ModelItemKind::WebSearch { query });
                }
                let Some(Streaming::Search { id, .. }) = self.take_streaming(index) else { return };
                let reason = failed.then(|| "the provider reports that the search failed".into());
                self.item_completed(turn, Item::WebSearch { id, query, action, reason });
            }
            ModelItem::Other { kind, call_id } => {
                self.close_item(turn, index, REPLACED);
                self.unknown_item(turn, kind, call_id, &raw);
            }
        }
    }

    fn message_done(&mut self, turn: &Id, index: usize, text: String, done: Option<Phase>) {
        if !matches!(self.streaming(index), Some(Streaming::Message { .. })) {
            self.open_item(turn, index, ModelItemKind::Message { phase: done });
        }
        self.whole_plan(turn, index, &text);
        self.finish_plan(turn, index);
        let Some(Streaming::Message { id, phase, plan, .. }) = self.take_streaming(index) else {
            return;
        };
        let text = if plan.is_some() { plan_tags::split(&text).0 } else { text };
        if let Some(review) = self.turn.as_mut().and_then(Turn::review_mut) {
            review.text = Some(text.clone());
        }
        self.item_completed(turn, Item::AgentMessage { id, text, phase: done.or(phase) });
    }

    /// A message that came without deltas still shows its plan.
    fn whole_plan(&mut self, turn: &Id, index: usize, text: &str) {
        let Some(Streaming::Message { plan: Some(plan), .. }) = self.streaming(index) else {
            return;
        };
        if std::mem::replace(&mut plan.fed, true) {
            return;
        }
        let pieces = plan.splitter.push(text);
        self.plan_pieces(turn, index, pieces);
    }

    fn finish_plan(&mut self, turn: &Id, index: usize) {
        let Some(Streaming::Message { plan: Some(plan), .. }) = self.streaming(index) else {
            return;
        };
        let pieces = plan.splitter.finish();
        self.plan_pieces(turn, index, pieces);
    }

    fn reasoning_done(
        &mut self,
        turn: &Id,
        index: usize,
        summary: Vec<String>,
        content: Vec<String>,
    ) {
        if !matches!(self.streaming(index), Some(Streaming::Reasoning(_))) {
            self.open_item(turn, index, ModelItemKind::Reasoning);
        }
        let Some(Streaming::Reasoning(reasoning)) = self.take_streaming(index) else { return };
        self.announce_sections(turn, &reasoning.id, reasoning.announced..summary.len());
        self.item_completed(turn, Item::Reasoning { id: reasoning.id, summary, content });
    }

    fn take_streaming(&mut self, index: usize) -> Option<Streaming> {
        self.turn.as_mut()?.sample.as_mut()?.items.remove(&index)
    }

    fn call(&mut self, turn: &Id, called: Called, call: Result<tools::Call, String>) {
        let number = self.number();
        let limit = self.limits.calls;
        let Some(active) = &mut self.turn else { return };
        let is_full = active.calls.len() >= limit;
        match call {
            Ok(_) if is_full => {
                let message = format!("more than {limit} tool calls in one response");
                self.reject_call(turn, number, called, message);
            }
            Ok(call) => {
                active.calls.push(Call::new(number, called.call_id, called.kind, call));
                self.pump(turn);
            }
            Err(message) => self.reject_call(turn, number, called, message),
        }
    }

    fn sample_completed(&mut self, turn: &Id, usage: Usage) {
        let sample = self.turn.as_mut().and_then(|turn| {
            turn.attempts = Attempts::default();
            turn.sample.take()
        });
        if let Some(sample) = sample {
            self.close_sample(turn, sample, UNFINISHED);
        }
        let review = self.turn.as_mut().and_then(Turn::review_mut);
        review.map_or(&mut self.history, |review| &mut review.history).count(usage.total);
        self.account(turn, usage);
        self.advance();
    }

    /// Counts what a response cost.
    pub(crate) fn account(&mut self, turn: &Id, usage: Usage) {
        self.usage.add(usage);
        let total = self.usage;
        self.persist(Record::TokenUsage { total, last: usage });
        self.emit(Event::TokenUsage { turn: turn.clone(), total, last: usage });
        self.charge_goal(turn, usage);
    }

    /// A request that failed is sent again where that can help, with what came of it in the
    /// history; one that is too long, with a history that is compacted.
    pub(crate) fn sample_failed(&mut self, turn: &Id, failure: Failure) {
        let limits = self.limits;
        let too_long = failure.kind == FailureKind::ContextWindowExceeded && self.may_compact();
        let Some(active) = &mut self.turn else { return };
        let Some(sample) = active.sample.take() else { return };
        let number = sample.number;
        if too_long {
            active.again = true;
            self.close_sample(turn, sample, &failure.message);
            return self.begin_compaction(turn);
        }
        match active.attempts.failed(&failure, &limits) {
            Next::GiveUp { tries } => {
                let failure = retry::given_up(failure, tries);
                self.close_sample(turn, sample, &failure.message);
                self.fail(failure);
            }
            Next::Again { attempt, limit, wait_ms } => {
                active.retry = Some(number);
                active.again = true;
                self.close_sample(turn, sample, &failure.message);
                self.retry_shown(turn, retry::passing(&failure, attempt, limit, wait_ms));
                self.effect(Effect::RetryAfter { sample: number, wait_ms });
            }
        }
    }

    /// Reports a failure after which the turn goes on.
    pub(crate) fn retry_shown(&mut self, turn: &Id, failure: Failure) {
        let error = TurnError::from(failure);
        self.emit(Event::Error { turn: turn.clone(), error, will_retry: true });
    }

    pub(crate) fn retry_due(&mut self, sample: u64) {
        let Some(turn) = &mut self.turn else { return };
        if turn.retry == Some(sample) {
            turn.retry = None;
            self.advance();
        }
    }

    /// Items that were cut are final with what came of them: that is what the user saw.
    pub(crate) fn close_sample(&mut self, turn: &Id, sample: Sample, why: &str) {
        for streaming in sample.items.into_values() {
            self.close_streaming(turn, Some(streaming), why);
        }
    }

    /// Closes the item at `index`, which goes on as something else, or not at all.
    fn close_item(&mut self, turn: &Id, index: usize, why: &str) {
        let streaming = self.take_streaming(index);
        self.close_streaming(turn, streaming, why);
    }

    fn close_streaming(&mut self, turn: &Id, streaming: Option<Streaming>, why: &str) {
        match streaming {
            Some(Streaming::Message { id, text, phase, plan }) => {
                if let Some((id, text)) = plan.and_then(|plan| plan.item) {
                    self.item_completed(turn, Item::Plan { id, text });
                }
                self.item_completed(turn, Item::AgentMessage { id, text, phase });
            }
            Some(Streaming::Reasoning(Reasoning { id, summary, content, .. })) => {
                self.item_completed(turn, Item::Reasoning { id, summary, content });
            }
            Some(Streaming::Search { id, query }) => {
                let item = closed_item(search(&id, &query), ItemStatus::Failed, Some(why));
                self.item_completed(turn, item);
            }
            Some(Streaming::Other) | None => {}
        }
    }
}

/// A search that has begun.
fn search(id: &Id, query: &str) -> Item {
    Item::WebSearch { id: id.clone(), query: query.to_owned(), action: None, reason: None }
}
