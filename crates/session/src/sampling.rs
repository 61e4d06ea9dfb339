//! Reads a streamed response of the model into items, deltas, history and tool calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::calls::Call;
use crate::effect::{Effect, Record};
use crate::event::{Event, TurnError};
use crate::history::Fragment;
use crate::input::{Failure, FailureKind, ModelEvent, ModelItem, ModelItemKind, Usage};
use crate::item::{Item, Phase};
use crate::machine::Machine;
use crate::plan_tags::{self, Piece, Splitter};
use crate::settings::Mode;
use crate::turn::Turn;
use crate::{Id, tools};

/// What an empty item or section counts of the bound on a response.
const ITEM_BYTES: usize = 64;

/// A response that is being streamed.
pub(crate) struct Sample {
    pub(crate) number: u64,
    items: BTreeMap<usize, Streaming>,
    bytes: usize,
}

/// An output item that is not whole yet.
enum Streaming {
    Message { id: Id, text: String, phase: Option<Phase>, plan: Option<Plan> },
    Reasoning { id: Id, summary: Vec<String>, content: Vec<String> },
    Other,
}

/// The plan inside a message of plan mode.
#[derive(Default)]
struct Plan {
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
                Streaming::Reasoning { id, summary, content } => {
                    let (summary, content) = (summary.clone(), content.clone());
                    shown.push(Item::Reasoning { id: id.clone(), summary, content });
                }
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
            if turn.compaction.is_some() {
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

    fn streaming(&mut self, index: usize) -> Option<&mut Streaming> {
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
        self.fail(Failure {
            kind: FailureKind::Other,
            message: format!("the model's response is longer than {limit} bytes"),
            http_status: None,
            retryable: false,
            retry_after_ms: None,
        });
        false
    }

    fn open_item(&mut self, turn: &Id, index: usize, kind: ModelItemKind) {
        self.close_item(turn, index);
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
                let id = self.ids.item();
                let item =
                    Item::Reasoning { id: id.clone(), summary: Vec::new(), content: Vec::new() };
                self.item_started(turn, item);
                Streaming::Reasoning { id, summary: Vec::new(), content: Vec::new() }
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

    fn summary_part(&mut self, turn: &Id, index: usize, part: usize) {
        if self.streaming(index).is_none() {
            self.open_item(turn, index, ModelItemKind::Reasoning);
        }
        if !self.within_bound(ITEM_BYTES) {
            return;
        }
        let Some(Streaming::Reasoning { id, summary, .. }) = self.streaming(index) else { return };
        let item = id.clone();
        if slot(summary, part).is_none() {
            return;
        }
        // The first section needs no boundary before it.
        if part > 0 {
            self.emit(Event::SummaryPartAdded { turn: turn.clone(), item, index: part });
        }
    }

    fn reasoning_delta(
        &mut self,
        turn: &Id,
        index: usize,
        part: usize,
        text: String,
        is_summary: bool,
    ) {
        if !self.within_bound(text.len().max(ITEM_BYTES)) {
            return;
        }
        if self.streaming(index).is_none() {
            self.open_item(turn, index, ModelItemKind::Reasoning);
        }
        let Some(Streaming::Reasoning { id, summary, content }) = self.streaming(index) else {
            return;
        };
        let (turn, item) = (turn.clone(), id.clone());
        let parts = if is_summary { summary } else { content };
        let Some(target) = slot(parts, part) else { return };
        target.push_str(&text);
        self.emit(if is_summary {
            Event::SummaryDelta { turn, item, index: part, text }
        } else {
            Event::ReasoningDelta { turn, item, index: part, text }
        });
    }

    fn item_done(&mut self, turn: &Id, index: usize, raw: Arc<str>, item: ModelItem) {
        if !self.within_bound(raw.len()) {
            return;
        }
        self.remember(turn, vec![Fragment::passing(raw)]);
        match item {
            ModelItem::Message { text, phase } => self.message_done(turn, index, text, phase),
            ModelItem::Reasoning { summary, content } => {
                let id = match self.take_streaming(index) {
                    Some(Streaming::Reasoning { id, .. }) => id,
                    other => {
                        self.close_streaming(turn, other);
                        self.started_reasoning(turn)
                    }
                };
                self.item_completed(turn, Item::Reasoning { id, summary, content });
            }
            ModelItem::FunctionCall { call_id, name, arguments } => {
                self.close_item(turn, index);
                let call = tools::read_function(&self.toolset(), &name, &arguments);
                self.call(turn, call_id, false, call);
            }
            ModelItem::CustomToolCall { call_id, name, input } => {
                self.close_item(turn, index);
                let call = tools::read_custom(&self.toolset(), &name, &input);
                self.call(turn, call_id, true, call);
            }
            ModelItem::WebSearch { query, action } => {
                self.close_item(turn, index);
                let item = Item::WebSearch { id: self.ids.item(), query, action };
                self.item_started(turn, item.clone());
                self.item_completed(turn, item);
            }
            ModelItem::Other => self.close_item(turn, index),
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

    fn take_streaming(&mut self, index: usize) -> Option<Streaming> {
        self.turn.as_mut()?.sample.as_mut()?.items.remove(&index)
    }

    fn started_reasoning(&mut self, turn: &Id) -> Id {
        let id = self.ids.item();
        let item = Item::Reasoning { id: id.clone(), summary: Vec::new(), content: Vec::new() };
        self.item_started(turn, item);
        id
    }

    fn call(
        &mut self,
        turn: &Id,
        call_id: String,
        custom: bool,
        call: Result<tools::Call, String>,
    ) {
        let number = self.number();
        let limit = self.limits.calls;
        let Some(active) = &mut self.turn else { return };
        if active.calls.len() >= limit {
            let message = format!("more than {limit} tool calls in one response");
            active.calls.push(Call::refused(number, call_id, custom, message));
            return;
        }
        active.calls.push(Call::new(number, call_id, custom, call));
        self.pump(turn);
    }

    fn sample_completed(&mut self, turn: &Id, usage: Usage) {
        let sample = self.turn.as_mut().and_then(|turn| {
            turn.attempts = 0;
            turn.sample.take()
        });
        if let Some(sample) = sample {
            self.close_sample(turn, sample);
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

    /// A broken stream is tried again, with what came of it in the history; a request that is too
    /// long, with a history that is compacted.
    pub(crate) fn sample_failed(&mut self, turn: &Id, failure: Failure) {
        let limit = self.limits.stream_retries;
        let too_long = failure.kind == FailureKind::ContextWindowExceeded && self.may_compact();
        let Some(active) = &mut self.turn else { return };
        let Some(sample) = active.sample.take() else { return };
        if too_long {
            active.again = true;
            self.close_sample(turn, sample);
            return self.begin_compaction(turn);
        }
        let number = sample.number;
        active.attempts += 1;
        let attempt = active.attempts;
        if !failure.retryable || attempt > limit {
            self.close_sample(turn, sample);
            return self.fail(failure);
        }
        active.retry = Some(number);
        active.again = true;
        self.close_sample(turn, sample);
        let at_least_ms = failure.retry_after_ms;
        let error = TurnError {
            message: format!("{} (try {attempt} of {limit})", failure.message),
            kind: failure.kind,
            http_status: failure.http_status,
        };
        self.emit(Event::Error { turn: turn.clone(), error, will_retry: true });
        self.effect(Effect::RetryAfter { sample: number, attempt, at_least_ms });
    }

    pub(crate) fn retry_due(&mut self, sample: u64) {
        let Some(turn) = &mut self.turn else { return };
        if turn.retry == Some(sample) {
            turn.retry = None;
            self.advance();
        }
    }

    /// Items that were cut are final with what came of them: that is what the user saw.
    pub(crate) fn close_sample(&mut self, turn: &Id, sample: Sample) {
        for streaming in sample.items.into_values() {
            self.close_streaming(turn, Some(streaming));
        }
    }

    /// Closes the item at `index`, which goes on as something else, or not at all.
    fn close_item(&mut self, turn: &Id, index: usize) {
        let streaming = self.take_streaming(index);
        self.close_streaming(turn, streaming);
    }

    fn close_streaming(&mut self, turn: &Id, streaming: Option<Streaming>) {
        match streaming {
            Some(Streaming::Message { id, text, phase, plan }) => {
                if let Some((id, text)) = plan.and_then(|plan| plan.item) {
                    self.item_completed(turn, Item::Plan { id, text });
                }
                self.item_completed(turn, Item::AgentMessage { id, text, phase });
            }
            Some(Streaming::Reasoning { id, summary, content }) => {
                self.item_completed(turn, Item::Reasoning { id, summary, content });
            }
            Some(Streaming::Other) | None => {}
        }
    }
}

/// The part at `index`, made when it is the next one or near it; far ones are refused, so that a
/// number in the stream cannot make us allocate.
fn slot(parts: &mut Vec<String>, index: usize) -> Option<&mut String> {
    const MAX_GAP: usize = 16;
    if index >= parts.len() + MAX_GAP {
        return None;
    }
    while parts.len() <= index {
        parts.push(String::new());
    }
    parts.get_mut(index)
}
