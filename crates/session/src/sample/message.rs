//! A message while it streams, and in plan mode the plan inside it.

use std::sync::Arc;

use super::citations::CitationReader;
use super::plan_tags::{self, Piece, Splitter};
use crate::Id;
use crate::cx::Cx;
use crate::port::event::Event;
use crate::port::item::{Item, Phase};
use crate::port::memory::MemoryNotes;
use crate::unstored_text::{Portions, UnstoredText};

/// A message that is not whole yet.
pub(super) struct Message {
    id: Id,
    text: String,
    phase: Option<Phase>,
    /// `None` outside of plan mode.
    plan: Option<Plan>,
    /// `None` without notes that it could cite.
    citations: Option<CitationReader>,
    unstored: UnstoredText,
    earlier: Option<Earlier>,
}

/// The text of a response that broke off, of which a new one repeats the beginning.
struct Earlier {
    /// Bytes that the new one has repeated.
    repeated: usize,
    /// Why the first one broke off.
    reason: String,
}

/// The plan inside a message of plan mode.
#[derive(Default)]
struct Plan {
    splitter: Splitter,
    /// True if any text arrived.
    has_text: bool,
    /// The plan's item, while it is open: its id and text.
    item: Option<(Id, String)>,
}

impl Message {
    /// Opens a message.
    pub(super) fn start(
        turn: &Id,
        phase: Option<Phase>,
        (planning, notes): (bool, Option<Arc<MemoryNotes>>),
        cx: &mut Cx,
    ) -> Self {
        let id = cx.item_id();
        let (text, citation) = (String::new(), None);
        cx.item_started(
            turn,
            Item::AgentMessage { id: id.clone(), text, phase, citation, reason: None },
        );
        let plan = planning.then(Plan::default);
        let citations = notes.map(CitationReader::new);
        let (text, unstored) = (String::new(), UnstoredText::default());
        Self { id, text, phase, plan, citations, unstored, earlier: None }
    }

    /// Returns whether a message of another response can go on with this one.
    pub(super) fn can_go_on(&self) -> bool {
        self.plan.is_none() && !self.text.is_empty()
    }

    /// The response broke off for this reason.
    pub(super) fn broken_off(self, reason: &str) -> Self {
        Self { earlier: Some(Earlier { repeated: 0, reason: reason.to_owned() }), ..self }
    }

    /// A message of the next response, which has its text from the beginning.
    pub(super) fn go_on(self, phase: Option<Phase>, notes: Option<Arc<MemoryNotes>>) -> Self {
        Self { phase: phase.or(self.phase), citations: notes.map(CitationReader::new), ..self }
    }

    /// Takes what the new text repeats off `delta`. A text that differs gets an item of its own.
    fn unrepeated(&mut self, turn: &Id, delta: String, cx: &mut Cx) -> String {
        let Some(earlier) = &mut self.earlier else { return delta };
        let rest = &self.text[earlier.repeated..];
        if rest.starts_with(&delta) {
            earlier.repeated += delta.len();
            return String::new();
        }
        if let Some(more) = delta.strip_prefix(rest) {
            let more = more.to_owned();
            self.earlier = None;
            return more;
        }
        let repeated = self.text[..earlier.repeated].to_owned();
        self.replace(turn, cx);
        repeated + &delta
    }

    /// Completes the text that broke off as it is, and begins another item.
    fn replace(&mut self, turn: &Id, cx: &mut Cx) {
        let Some(Earlier { reason, .. }) = self.earlier.take() else { return };
        let (text, id) = (std::mem::take(&mut self.text), cx.item_id());
        let old = std::mem::replace(&mut self.id, id.clone());
        self.unstored = UnstoredText::default();
        let (phase, citation) = (self.phase, None);
        let reason = Some(reason);
        cx.item_completed(turn, Item::AgentMessage { id: old, text, phase, citation, reason });
        let (text, citation) = (String::new(), None);
        cx.item_started(turn, Item::AgentMessage { id, text, phase, citation, reason: None });
    }

    /// Shows what a whole text has after the part that broke off. A text that differs gets an item of its own.
    fn settle(&mut self, turn: &Id, text: &str, cx: &mut Cx) {
        let Some(Earlier { repeated, .. }) = &self.earlier else { return };
        let streams = *repeated > 0;
        match text.strip_prefix(self.text.as_str()) {
            Some(more) => {
                self.earlier = None;
                let more = more.to_owned();
                if !more.is_empty() {
                    self.show(turn, more, cx);
                }
            }
            None => {
                self.replace(turn, cx);
                if streams {
                    self.show(turn, text.to_owned(), cx);
                }
            }
        }
    }

    /// See [`UnstoredText::take`].
    pub(super) fn is_to_store(&mut self, portions: Portions) -> bool {
        self.unstored.take(portions)
    }

    /// The message, and its plan while that is open, as far as they have come.
    pub(super) fn items(&self) -> impl Iterator<Item = Item> {
        let (id, text) = (self.id.clone(), self.text.clone());
        let message =
            Item::AgentMessage { id, text, phase: self.phase, citation: None, reason: None };
        let plan = self.plan.as_ref().and_then(|plan| plan.item.clone());
        std::iter::once(message).chain(plan.map(|(id, text)| Item::Plan { id, text, reason: None }))
    }

    /// Appends streamed text.
    pub(super) fn push(&mut self, turn: &Id, delta: String, cx: &mut Cx) {
        match &mut self.plan {
            None => self.push_text(turn, delta, cx),
            Some(plan) => {
                plan.has_text = true;
                let pieces = plan.splitter.push(&delta);
                self.push_pieces(turn, pieces, cx);
            }
        }
    }

    fn push_text(&mut self, turn: &Id, delta: String, cx: &mut Cx) {
        let delta = match &mut self.citations {
            Some(citations) => citations.push(&delta),
            None => delta,
        };
        self.show(turn, delta, cx);
    }

    fn show(&mut self, turn: &Id, delta: String, cx: &mut Cx) {
        let is_repeated = self.earlier.is_some();
        let delta = self.unrepeated(turn, delta, cx);
        if delta.is_empty() && (is_repeated || self.citations.is_some()) {
            return;
        }
        self.text.push_str(&delta);
        self.unstored.add(delta.len(), &mut cx.unstored);
        let item = self.id.clone();
        cx.emit(Event::MessageDelta { turn: turn.clone(), item, text: delta });
    }

    fn push_pieces(&mut self, turn: &Id, pieces: Vec<Piece>, cx: &mut Cx) {
        for piece in pieces {
            match piece {
                Piece::Text(delta) => self.push_text(turn, delta, cx),
                Piece::Open => {
                    let id = cx.item_id();
                    let text = String::new();
                    cx.item_started(turn, Item::Plan { id: id.clone(), text, reason: None });
                    self.set_plan_item(Some((id, String::new())));
                }
                Piece::Plan(delta) => {
                    let item = self.plan.as_mut().and_then(|plan| plan.item.as_mut());
                    if let Some((id, text)) = item {
                        text.push_str(&delta);
                        self.unstored.add(delta.len(), &mut cx.unstored);
                        let item = id.clone();
                        cx.emit(Event::PlanDelta { turn: turn.clone(), item, text: delta });
                    }
                }
                Piece::Close => {
                    if let Some((id, text)) = self.set_plan_item(None) {
                        let text = text.trim().to_owned();
                        cx.item_completed(turn, Item::Plan { id, text, reason: None });
                    }
                }
            }
        }
    }

    /// Replaces the open item of the plan, and returns the old one.
    fn set_plan_item(&mut self, item: Option<(Id, String)>) -> Option<(Id, String)> {
        let plan = self.plan.as_mut()?;
        std::mem::replace(&mut plan.item, item)
    }

    /// The message is whole. Returns its text without the plan.
    pub(super) fn complete(
        mut self,
        turn: &Id,
        text: String,
        phase: Option<Phase>,
        cx: &mut Cx,
    ) -> String {
        let phase = phase.or(self.phase);
        if let Some(plan) = &mut self.plan {
            // A message that came without deltas still shows its plan.
            let mut pieces = match plan.has_text {
                true => Vec::new(),
                false => plan.splitter.push(&text),
            };
            pieces.extend(plan.splitter.finish());
            self.push_pieces(turn, pieces, cx);
        }
        let text = if self.plan.is_some() { plan_tags::split(&text).0 } else { text };
        let (text, citation) = match self.citations.take() {
            Some(reader) => {
                let (notes, (rest, _)) = (reader.notes(), reader.finish());
                self.show(turn, rest, cx);
                CitationReader::split(notes, &text)
            }
            None => (text, None),
        };
        self.settle(turn, &text, cx);
        let item =
            Item::AgentMessage { id: self.id, text: text.clone(), phase, citation, reason: None };
        cx.item_completed(turn, item);
        text
    }

    /// The message was cut off, by a failure if there is a reason.
    pub(super) fn close(self, turn: &Id, reason: Option<&str>, cx: &mut Cx) {
        let why = || reason.map(str::to_owned);
        let Self { id, mut text, phase, plan, citations, .. } = self;
        if let Some((id, text)) = plan.and_then(|plan| plan.item) {
            cx.item_completed(turn, Item::Plan { id, text, reason: why() });
        }
        let (rest, citation) = citations.map(CitationReader::finish).unwrap_or_default();
        text.push_str(&rest);
        cx.item_completed(turn, Item::AgentMessage { id, text, phase, citation, reason: why() });
    }
}
