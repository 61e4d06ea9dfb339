//! One request to the model: reads the streamed response into items and deltas, within its bound.
//!
//! Tool calls, the history and what follows from the end of a response are the turn's.

mod citations;
mod message;
mod plan_tags;
mod reasoning;
pub(crate) mod retry;
mod unfinished;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::Id;
use crate::cx::Cx;
use crate::port::event::Event;
use crate::port::item::{Change, ImageGeneration, Item, ItemStatus, Phase, SearchAction};
use crate::port::memory::MemoryNotes;
use crate::port::model::{Failure, FailureKind, GeneratedImage, ModelItemKind};
use crate::unstored_text::Portions;
use message::Message;
use reasoning::Reasoning;

pub(crate) use reasoning::ReasoningPart;
pub(crate) use unfinished::Unfinished;

/// Why an item fails when another takes its place in the response.
const REPLACED: &str = "the model's response went on with something else";
/// Why an item fails when the response ends before it.
pub(crate) const UNFINISHED: &str = "the model's response ended before this did";

/// The amount that an empty item or section counts of the bound on a response.
const ITEM_BYTES: usize = 64;

/// A response that is being streamed.
pub(crate) struct Sample {
    number: u64,
    turn: Id,
    items: BTreeMap<usize, Streaming>,
    bytes: usize,
    /// The request waits for the provider's rate limit, and is not sent yet.
    is_queued: bool,
    /// The notes that messages may cite.
    notes: Option<Arc<MemoryNotes>>,
    /// Texts of the response before, which broke off.
    unfinished: Unfinished,
}

/// An output item that is not whole yet.
enum Streaming {
    Message(Message),
    Reasoning(Reasoning),
    /// A search by the provider.
    Search {
        id: Id,
        query: String,
    },
    /// An image that the provider generates.
    Image {
        id: Id,
    },
    /// A patch whose changes were shown while it streams in.
    Patch {
        id: Id,
    },
    /// An item that is processed only when it is complete.
    Other,
}

/// Why items end before they are whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Closed<'r> {
    /// The response is over, or went on without them: what came of a text is all that there is.
    Over(&'r str),
    /// The response failed. If it is asked for again, another item takes the place of a text.
    Failed(&'r str),
}

/// The response is longer than [`Limits::response_bytes`](crate::Limits::response_bytes).
#[derive(Debug)]
pub(crate) struct TooLong {
    limit: usize,
}

impl From<TooLong> for Failure {
    fn from(TooLong { limit }: TooLong) -> Self {
        let message = format!("the model's response is longer than {limit} bytes");
        Self::new(FailureKind::Other, message)
    }
}

impl Sample {
    pub(crate) fn new(number: u64, turn: Id, notes: Option<Arc<MemoryNotes>>) -> Self {
        let (items, unfinished) = (BTreeMap::new(), Unfinished::default());
        Self { number, turn, items, bytes: 0, is_queued: false, notes, unfinished }
    }

    /// Goes on with these texts where it begins as they do.
    pub(crate) fn continuing(self, unfinished: Unfinished) -> Self {
        Self { unfinished, ..self }
    }

    /// The texts that it would have gone on with, when it is not sent.
    pub(crate) fn into_unfinished(self) -> Unfinished {
        self.unfinished
    }

    /// Names the request to the driver.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether the request is not sent yet.
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued
    }

    /// The request waits for the provider's rate limit, or does no longer.
    pub(crate) fn set_queued(&mut self, is_queued: bool) {
        self.is_queued = is_queued;
    }

    /// The items as far as they have come.
    pub(crate) fn items(&self) -> Vec<Item> {
        let unfinished = self.unfinished.items();
        unfinished.into_iter().chain(self.items.values().flat_map(Streaming::items)).collect()
    }

    /// The items with text to store.
    pub(crate) fn with_new_text(&mut self, portions: Portions) -> Vec<Item> {
        let mut items = self.unfinished.with_new_text(portions);
        items.extend(self.items.values_mut().flat_map(|it| it.with_new_text(portions)));
        items
    }

    /// Counts streamed bytes.
    pub(crate) fn count(&mut self, bytes: usize, cx: &Cx) -> Result<(), TooLong> {
        let limit = cx.limits.response_bytes;
        self.bytes += bytes;
        if self.bytes <= limit { Ok(()) } else { Err(TooLong { limit }) }
    }

    /// An output item opened. In plan mode (`planning`) a message may hold a plan.
    pub(crate) fn open(
        &mut self,
        index: usize,
        kind: ModelItemKind,
        planning: bool,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        self.replace(index, cx);
        self.count(ITEM_BYTES, cx)?;
        let turn = &self.turn;
        let streaming = match kind {
            ModelItemKind::Message { phase } => {
                Streaming::Message(self.begin_message(phase, planning, cx))
            }
            ModelItemKind::Reasoning => Streaming::Reasoning(self.begin_reasoning(cx)),
            ModelItemKind::WebSearch { query } => {
                let id = cx.item_id();
                cx.item_started(turn, search(&id, &query));
                Streaming::Search { id, query }
            }
            ModelItemKind::ImageGeneration => {
                let id = cx.item_id();
                cx.item_started(turn, image(&id));
                Streaming::Image { id }
            }
            ModelItemKind::Other => Streaming::Other,
        };
        self.items.insert(index, streaming);
        Ok(())
    }

    /// A message, which may go on with one that broke off. A plan does not: its text has two items.
    fn begin_message(&mut self, phase: Option<Phase>, planning: bool, cx: &mut Cx) -> Message {
        let earlier = if planning { None } else { self.unfinished.take_message() };
        match earlier {
            Some(message) => message.go_on(phase, self.notes.clone()),
            None => Message::start(&self.turn, phase, (planning, self.notes.clone()), cx),
        }
    }

    fn begin_reasoning(&mut self, cx: &mut Cx) -> Reasoning {
        let earlier = self.unfinished.take_reasoning();
        earlier.unwrap_or_else(|| Reasoning::start(&self.turn, cx))
    }

    /// Closes the item at `index`, because something else takes its place.
    pub(crate) fn replace(&mut self, index: usize, cx: &mut Cx) {
        if let Some(streaming) = self.items.remove(&index) {
            streaming.close(&self.turn, Closed::Over(REPLACED), cx);
        }
    }

    /// The changes of a patch that streams in. Paths are relative to `cwd`.
    pub(crate) fn patch_preview(
        &mut self,
        index: usize,
        mut changes: Vec<Change>,
        cwd: &Path,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        self.count(ITEM_BYTES, cx)?;
        let id = match self.items.get(&index) {
            Some(Streaming::Patch { id }) => id.clone(),
            Some(Streaming::Other) => cx.item_id(),
            // Deltas that do not fit the item.
            Some(_) | None => return Ok(()),
        };
        self.items.insert(index, Streaming::Patch { id: id.clone() });
        for change in &mut changes {
            change.resolve_paths(cwd);
        }
        cx.emit(Event::PatchUpdated { turn: self.turn.clone(), item: id, changes });
        Ok(())
    }

    /// The item of the patch at `index`, when its changes were shown already.
    pub(crate) fn take_previewed(&mut self, index: usize) -> Option<Id> {
        match self.items.get(&index)? {
            Streaming::Patch { id } => {
                let id = id.clone();
                self.items.remove(&index);
                Some(id)
            }
            _ => None,
        }
    }

    /// Text of a message.
    pub(crate) fn text_delta(
        &mut self,
        index: usize,
        text: String,
        planning: bool,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        self.count(text.len(), cx)?;
        if !self.items.contains_key(&index) {
            self.open(index, ModelItemKind::Message { phase: None }, planning, cx)?;
        }
        if let Some(Streaming::Message(message)) = self.items.get_mut(&index) {
            message.push(&self.turn, text, cx);
        }
        Ok(())
    }

    /// A section of a reasoning summary opened.
    pub(crate) fn summary_part(
        &mut self,
        index: usize,
        part: usize,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        self.open_reasoning(index, cx)?;
        self.count(ITEM_BYTES, cx)?;
        if let Some(Streaming::Reasoning(reasoning)) = self.items.get_mut(&index) {
            reasoning.open_section(&self.turn, part, cx);
        }
        Ok(())
    }

    /// Text of reasoning.
    pub(crate) fn reasoning_delta(
        &mut self,
        index: usize,
        part: ReasoningPart,
        text: String,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        self.count(text.len().max(ITEM_BYTES), cx)?;
        self.open_reasoning(index, cx)?;
        if let Some(Streaming::Reasoning(reasoning)) = self.items.get_mut(&index) {
            reasoning.push(&self.turn, part, text, cx);
        }
        Ok(())
    }

    /// A delta without an item before it opens one.
    fn open_reasoning(&mut self, index: usize, cx: &mut Cx) -> Result<(), TooLong> {
        if self.items.contains_key(&index) {
            return Ok(());
        }
        self.open(index, ModelItemKind::Reasoning, false, cx)
    }

    /// A message is whole. Returns its text without the plan.
    pub(crate) fn complete_message(
        &mut self,
        index: usize,
        text: String,
        phase: Option<Phase>,
        planning: bool,
        cx: &mut Cx,
    ) -> Result<String, TooLong> {
        let message = match self.items.remove(&index) {
            Some(Streaming::Message(message)) => message,
            other => {
                self.reopen(other, cx)?;
                self.begin_message(phase, planning, cx)
            }
        };
        Ok(message.complete(&self.turn, text, phase, cx))
    }

    /// Reasoning is whole.
    pub(crate) fn complete_reasoning(
        &mut self,
        index: usize,
        summary: Vec<String>,
        content: Vec<String>,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        let reasoning = match self.items.remove(&index) {
            Some(Streaming::Reasoning(reasoning)) => reasoning,
            other => {
                self.reopen(other, cx)?;
                self.begin_reasoning(cx)
            }
        };
        reasoning.complete(&self.turn, summary, content, cx);
        Ok(())
    }

    /// A search by the provider is over.
    pub(crate) fn complete_search(
        &mut self,
        index: usize,
        query: String,
        action: Option<SearchAction>,
        failed: bool,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        let id = match self.items.remove(&index) {
            Some(Streaming::Search { id, .. }) => id,
            other => {
                self.reopen(other, cx)?;
                let id = cx.item_id();
                cx.item_started(&self.turn, search(&id, &query));
                id
            }
        };
        let reason = failed.then(|| "the provider reports that the search failed".into());
        cx.item_completed(&self.turn, Item::WebSearch { id, query, action, reason });
        Ok(())
    }

    /// The generation of an image is over.
    pub(crate) fn complete_image(
        &mut self,
        index: usize,
        generated: GeneratedImage,
        cx: &mut Cx,
    ) -> Result<(), TooLong> {
        let id = match self.items.remove(&index) {
            Some(Streaming::Image { id }) => id,
            other => {
                self.reopen(other, cx)?;
                let id = cx.item_id();
                cx.item_started(&self.turn, image(&id));
                id
            }
        };
        let item = Item::ImageGeneration(Box::new(generated_image(id, generated)));
        cx.item_completed(&self.turn, item);
        Ok(())
    }

    /// Closes what an item that came whole replaces, and counts the new item.
    fn reopen(&mut self, replaced: Option<Streaming>, cx: &mut Cx) -> Result<(), TooLong> {
        if let Some(replaced) = replaced {
            replaced.close(&self.turn, Closed::Over(REPLACED), cx);
        }
        self.count(ITEM_BYTES, cx)
    }

    /// Completes the items that were cut with what came of them: that is what the user saw.
    pub(crate) fn close(self, closed: Closed<'_>, cx: &mut Cx) {
        self.unfinished.close(&self.turn, cx);
        for streaming in self.items.into_values() {
            streaming.close(&self.turn, closed, cx);
        }
    }
}

impl Streaming {
    /// The items as far as they have come.
    fn items(&self) -> Vec<Item> {
        match self {
            Self::Message(message) => message.items().collect(),
            Self::Reasoning(reasoning) => vec![reasoning.item()],
            Self::Search { id, query } => vec![search(id, query)],
            Self::Image { id } => vec![image(id)],
            Self::Patch { .. } | Self::Other => Vec::new(),
        }
    }

    fn with_new_text(&mut self, portions: Portions) -> Vec<Item> {
        let is_to_store = match self {
            Self::Message(message) => message.is_to_store(portions),
            Self::Reasoning(reasoning) => reasoning.is_to_store(portions),
            Self::Search { .. } | Self::Image { .. } | Self::Patch { .. } | Self::Other => false,
        };
        if is_to_store { self.items() } else { Vec::new() }
    }

    fn close(self, turn: &Id, closed: Closed<'_>, cx: &mut Cx) {
        let (reason, failure) = match closed {
            Closed::Over(reason) => (reason, None),
            Closed::Failed(reason) => (reason, Some(reason)),
        };
        match self {
            Self::Message(message) => message.close(turn, failure, cx),
            Self::Reasoning(reasoning) => reasoning.close(turn, failure, cx),
            Self::Search { id, query } => {
                let item = search(&id, &query).closed(ItemStatus::Failed, Some(reason));
                cx.item_completed(turn, item);
            }
            Self::Image { id } => {
                let item = image(&id).closed(ItemStatus::Failed, Some(reason));
                cx.item_completed(turn, item);
            }
            Self::Patch { .. } | Self::Other => {}
        }
    }
}

/// An image whose generation has begun.
fn image(id: &Id) -> Item {
    Item::ImageGeneration(Box::new(ImageGeneration::begun(id.clone())))
}

/// Returns the item for the provider's result of an image. It reports some whole ones as
/// `generating`.
fn generated_image(id: Id, generated: GeneratedImage) -> ImageGeneration {
    let GeneratedImage { status, result, revised_prompt } = generated;
    let reason = match status.as_deref() {
        Some(ImageGeneration::FAILED) => {
            Some("the provider reports that the generation of the image failed")
        }
        _ if result.is_empty() => Some("the provider returned no image"),
        _ => None,
    };
    let status = if reason.is_some() { ImageGeneration::FAILED } else { "completed" };
    let (status, reason) = (status.to_owned(), reason.map(str::to_owned));
    ImageGeneration { id, status, result, revised_prompt, reason }
}

/// A search that has begun.
fn search(id: &Id, query: &str) -> Item {
    Item::WebSearch { id: id.clone(), query: query.to_owned(), action: None, reason: None }
}
