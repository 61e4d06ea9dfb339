//! Reasoning while it streams: sections of the summary, each told of once, and raw blocks.

use std::ops::Range;

use crate::Id;
use crate::event::Event;
use crate::input::ModelItemKind;
use crate::item::Item;
use crate::machine::Machine;
use crate::sampling::{ITEM_BYTES, Streaming};

/// Reasoning that is not whole yet.
pub(crate) struct Reasoning {
    pub(crate) id: Id,
    pub(crate) summary: Vec<String>,
    pub(crate) content: Vec<String>,
    /// How many summary sections were announced.
    pub(crate) announced: usize,
}

impl Reasoning {
    pub(crate) fn new(id: Id) -> Self {
        Self { id, summary: Vec::new(), content: Vec::new(), announced: 0 }
    }

    pub(crate) fn shown(&self) -> Item {
        let Self { id, summary, content, .. } = self;
        Item::Reasoning { id: id.clone(), summary: summary.clone(), content: content.clone() }
    }
}

impl Machine {
    pub(crate) fn summary_part(&mut self, turn: &Id, index: usize, part: usize) {
        if self.streaming(index).is_none() {
            self.open_item(turn, index, ModelItemKind::Reasoning);
        }
        if !self.within_bound(ITEM_BYTES) {
            return;
        }
        let Some(Streaming::Reasoning(reasoning)) = self.streaming(index) else { return };
        if slot(&mut reasoning.summary, part).is_some() {
            self.announce_summary(turn, index);
        }
    }

    /// Tells of every summary section that was not told of, so that each has its boundary, whether
    /// the provider sends one or not.
    fn announce_summary(&mut self, turn: &Id, index: usize) {
        let Some(Streaming::Reasoning(reasoning)) = self.streaming(index) else { return };
        let item = reasoning.id.clone();
        let sections = reasoning.announced..reasoning.summary.len();
        reasoning.announced = sections.end;
        self.announce_sections(turn, &item, sections);
    }

    pub(crate) fn announce_sections(&mut self, turn: &Id, item: &Id, sections: Range<usize>) {
        for index in sections {
            let (turn, item) = (turn.clone(), item.clone());
            self.emit(Event::SummaryPartAdded { turn, item, index });
        }
    }

    pub(crate) fn reasoning_delta(
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
        let Some(Streaming::Reasoning(reasoning)) = self.streaming(index) else { return };
        let item = reasoning.id.clone();
        let parts = if is_summary { &mut reasoning.summary } else { &mut reasoning.content };
        let Some(target) = slot(parts, part) else { return };
        target.push_str(&text);
        self.announce_summary(turn, index);
        let turn = turn.clone();
        self.emit(if is_summary {
            Event::SummaryDelta { turn, item, index: part, text }
        } else {
            Event::ReasoningDelta { turn, item, index: part, text }
        });
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
