//! Reasoning while it streams: sections of the summary, each announced once, and raw blocks.

use std::ops::Range;

use crate::Id;
use crate::cx::Cx;
use crate::port::event::Event;
use crate::port::item::Item;
use crate::unstored_text::{Portions, UnstoredText};

/// Reasoning that is not whole yet.
pub(super) struct Reasoning {
    id: Id,
    summary: Vec<String>,
    content: Vec<String>,
    /// Number of summary sections that were announced.
    announced: usize,
    unstored: UnstoredText,
    earlier: Option<Earlier>,
}

/// The reasoning of a response that broke off, of which a new one repeats the beginning.
struct Earlier {
    /// The texts that the new one has repeated.
    summary: Vec<String>,
    content: Vec<String>,
    /// Why the first one broke off.
    reason: String,
}

/// A part of reasoning, by its index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReasoningPart {
    /// A section of the summary.
    Summary(usize),
    /// A raw block.
    Content(usize),
}

impl Reasoning {
    /// Opens reasoning.
    pub(super) fn start(turn: &Id, cx: &mut Cx) -> Self {
        let (summary, content) = (Vec::new(), Vec::new());
        let id = cx.item_id();
        let unstored = UnstoredText::default();
        let reasoning = Self { id, summary, content, announced: 0, unstored, earlier: None };
        cx.item_started(turn, reasoning.item());
        reasoning
    }

    /// The response broke off for this reason.
    pub(super) fn broken_off(self, reason: &str) -> Self {
        let (summary, content, reason) = (Vec::new(), Vec::new(), reason.to_owned());
        Self { earlier: Some(Earlier { summary, content, reason }), ..self }
    }

    /// Takes what the new reasoning repeats off `text`. Reasoning that differs gets an item of its own.
    fn unrepeated(&mut self, turn: &Id, part: ReasoningPart, text: String, cx: &mut Cx) -> String {
        let Some(earlier) = &mut self.earlier else { return text };
        let (shown, repeated) = match part {
            ReasoningPart::Summary(index) => {
                (self.summary.get(index), slot(&mut earlier.summary, index))
            }
            ReasoningPart::Content(index) => {
                (self.content.get(index), slot(&mut earlier.content, index))
            }
        };
        let (shown, Some(repeated)) = (shown.map_or("", String::as_str), repeated) else {
            return text;
        };
        let rest = shown.get(repeated.len()..).unwrap_or_default();
        if rest.starts_with(&text) {
            repeated.push_str(&text);
            return String::new();
        }
        if let Some(more) = text.strip_prefix(rest) {
            repeated.push_str(&text);
            return more.to_owned();
        }
        // What was repeated of this part is shown with that of the others.
        self.replace(turn, cx);
        text
    }

    /// Completes the reasoning that broke off as it is, and begins another item with what was repeated.
    fn replace(&mut self, turn: &Id, cx: &mut Cx) {
        let Some(Earlier { summary, content, reason }) = self.earlier.take() else { return };
        let old = std::mem::replace(self, Self::start(turn, cx));
        old.close(turn, Some(&reason), cx);
        let summary = summary.into_iter().enumerate();
        let summary = summary.map(|(index, text)| (ReasoningPart::Summary(index), text));
        let content = content.into_iter().enumerate();
        let content = content.map(|(index, text)| (ReasoningPart::Content(index), text));
        for (part, text) in summary.chain(content).filter(|(_, text)| !text.is_empty()) {
            self.push(turn, part, text, cx);
        }
    }

    /// See [`UnstoredText::take`].
    pub(super) fn is_to_store(&mut self, portions: Portions) -> bool {
        self.unstored.take(portions)
    }

    /// The item as far as it has come.
    pub(super) fn item(&self) -> Item {
        let Self { id, summary, content, .. } = self;
        let (summary, content) = (summary.clone(), content.clone());
        Item::Reasoning { id: id.clone(), summary, content, reason: None }
    }

    /// A section of the summary opened.
    pub(super) fn open_section(&mut self, turn: &Id, part: usize, cx: &mut Cx) {
        if slot(&mut self.summary, part).is_some() {
            self.announce(turn, cx);
        }
    }

    /// Appends to a part.
    pub(super) fn push(&mut self, turn: &Id, part: ReasoningPart, text: String, cx: &mut Cx) {
        let is_repeated = self.earlier.is_some();
        let text = self.unrepeated(turn, part, text, cx);
        if text.is_empty() && is_repeated {
            return;
        }
        let slot = match part {
            ReasoningPart::Summary(index) => slot(&mut self.summary, index),
            ReasoningPart::Content(index) => slot(&mut self.content, index),
        };
        let Some(block) = slot else { return };
        block.push_str(&text);
        self.unstored.add(text.len(), &mut cx.unstored);
        self.announce(turn, cx);
        let (turn, item) = (turn.clone(), self.id.clone());
        cx.emit(match part {
            ReasoningPart::Summary(index) => Event::SummaryDelta { turn, item, index, text },
            ReasoningPart::Content(index) => Event::ReasoningDelta { turn, item, index, text },
        });
    }

    /// Announces every section that was not yet, so that each has its boundary, whether the
    /// provider sends one or not.
    fn announce(&mut self, turn: &Id, cx: &mut Cx) {
        let sections = self.announced..self.summary.len();
        self.announced = sections.end;
        self.announce_sections(turn, sections, cx);
    }

    fn announce_sections(&self, turn: &Id, sections: Range<usize>, cx: &mut Cx) {
        for index in sections {
            let (turn, item) = (turn.clone(), self.id.clone());
            cx.emit(Event::SummaryPartAdded { turn, item, index });
        }
    }

    /// The reasoning is whole.
    pub(super) fn complete(
        mut self,
        turn: &Id,
        summary: Vec<String>,
        content: Vec<String>,
        cx: &mut Cx,
    ) {
        let extends = |whole: &[String], shown: &[String]| {
            let parts = shown.iter().enumerate();
            parts.into_iter().all(|(at, text)| whole.get(at).is_some_and(|it| it.starts_with(text)))
        };
        // Raw reasoning may be left out.
        let is_same = (summary.is_empty() || extends(&summary, &self.summary))
            && (content.is_empty() || extends(&content, &self.content));
        if self.earlier.is_some() && !is_same {
            self.replace(turn, cx);
        }
        self.announce_sections(turn, self.announced..summary.len(), cx);
        // What was shown stays, where the end of the item does not repeat it.
        let summary = if summary.is_empty() { self.summary } else { summary };
        cx.item_completed(turn, Item::Reasoning { id: self.id, summary, content, reason: None });
    }

    /// The reasoning was cut off, by a failure if there is a reason.
    pub(super) fn close(self, turn: &Id, reason: Option<&str>, cx: &mut Cx) {
        let Self { id, summary, content, .. } = self;
        let reason = reason.map(str::to_owned);
        cx.item_completed(turn, Item::Reasoning { id, summary, content, reason });
    }
}

/// The part at `index`, made when it is the next one or near it. Far ones are refused, so that a
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
