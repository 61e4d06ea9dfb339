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
        Self { id, text: String::new(), phase, plan, citations, unstored: UnstoredText::default() }
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
        if delta.is_empty() && self.citations.is_some() {
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
