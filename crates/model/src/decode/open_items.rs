//! The items of a response that are not whole yet: which item an event belongs to, and what streamed in of
//! it, for servers that leave out indexes, or members at the end of an item.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::item::{self, Streamed};
use crate::{Event, Item, ItemKind, Phase};

/// Most bytes that are kept of items that stream in. What is longer must be whole at its end.
const MAX_STREAMED: usize = 16 << 20;

/// The items that are open, and those that were finished.
#[derive(Debug, Default)]
pub(super) struct OpenItems {
    open: Vec<Open>,
    /// Bytes of their texts.
    bytes: usize,
    /// After the largest index.
    next: u32,
    /// The JSON of finished items, by their ids: some servers end an item twice.
    done: BTreeMap<String, Arc<str>>,
    /// The indexes of finished items.
    indexes: BTreeSet<u32>,
    /// The ids of finished calls.
    calls: BTreeSet<String>,
    has_done: bool,
    /// The item that was finished last may end a response: it is an answer or a call.
    may_end: bool,
    /// A contradiction was found.
    is_contradicted: bool,
    /// The one that is to be reported.
    contradiction: Option<&'static str>,
}

#[derive(Debug)]
struct Open {
    index: u32,
    id: String,
    kind: Kind,
    /// Its JSON at its beginning.
    json: Option<Box<str>>,
    text: String,
    /// The parts of a message that have text: the last one, and those before.
    last_part: Option<u32>,
    parts: BTreeSet<u32>,
    /// The sections of a summary of reasoning, and its blocks.
    summary: BTreeMap<u32, String>,
    content: BTreeMap<u32, String>,
    is_cut: bool,
}

/// A part of an item, by its index, to which text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A text of a message.
    Text(u32),
    /// A section of a summary of reasoning.
    Summary(u32),
    /// A block of reasoning.
    Content(u32),
    /// The input of a call.
    Input,
}

impl Part {
    fn kind(self) -> Kind {
        match self {
            Self::Text(_) => Kind::Message,
            Self::Summary(_) | Self::Content(_) => Kind::Reasoning,
            Self::Input => Kind::Call,
        }
    }
}

/// The kinds of items that deltas belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Message,
    Reasoning,
    Call,
    Other,
}

impl Kind {
    fn of_added(kind: &ItemKind) -> Self {
        match kind {
            ItemKind::Message { .. } => Self::Message,
            ItemKind::Reasoning => Self::Reasoning,
            ItemKind::FunctionCall { .. } | ItemKind::CustomToolCall { .. } => Self::Call,
            ItemKind::Other { kind } if kind == "tool_search_call" => Self::Call,
            ItemKind::WebSearch { .. } | ItemKind::ImageGeneration | ItemKind::Other { .. } => {
                Self::Other
            }
        }
    }

    fn of_done(item: &Item) -> Self {
        match item {
            Item::Message { .. } => Self::Message,
            Item::Reasoning { .. } => Self::Reasoning,
            Item::FunctionCall { .. }
            | Item::CustomToolCall { .. }
            | Item::ToolSearchCall { .. } => Self::Call,
            Item::WebSearch { .. } | Item::ImageGeneration { .. } | Item::Other { .. } => {
                Self::Other
            }
        }
    }
}

/// Where an event says that it belongs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Address<'a> {
    pub(super) index: Option<u32>,
    /// Empty if unknown.
    pub(super) id: &'a str,
}

impl OpenItems {
    /// An item begins. `None` if it has begun already.
    pub(super) fn add(&mut self, index: Option<u32>, json: &str) -> Option<Event> {
        let (id, kind) = item::added(json)?;
        let of_kind = Kind::of_added(&kind);
        let index = index.unwrap_or(self.next);
        let index = match self.open.iter().position(|open| open.index == index) {
            Some(at) => {
                let open = &mut self.open[at];
                // Deltas opened it, or the server repeats itself.
                if open.kind == of_kind
                    && (open.json.is_none() || (open.id == id && !id.is_empty()))
                {
                    if open.json.is_none() {
                        open.json = Some(json.into());
                        open.id = id;
                        return None;
                    }
                    return None;
                }
                if id.is_empty() || open.id.is_empty() {
                    self.remove(at);
                    index
                } else {
                    self.contradict("two items have one `output_index`");
                    self.next
                }
            }
            None => index,
        };
        self.push(index, id.clone(), of_kind, Some(json.into()));
        Some(Event::ItemAdded { index, id, kind })
    }

    /// The index of the item that a delta belongs to, which opens one if there is none.
    pub(super) fn delta(&mut self, address: Address<'_>, part: Part, text: &str) -> u32 {
        let kind = part.kind();
        let at = self.find(address, kind).unwrap_or_else(|| {
            let is_taken = |index: &u32| self.open.iter().any(|open| open.index == *index);
            let index = address.index.filter(|index| !is_taken(index)).unwrap_or(self.next);
            self.push(index, address.id.to_owned(), kind, None);
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        if !open.is_cut && !text.is_empty() {
            if self.bytes + text.len() > MAX_STREAMED {
                self.bytes -= open.clear();
                open.is_cut = true;
            } else {
                self.bytes += text.len();
                open.push(part, text);
            }
        }
        open.index
    }

    /// The whole text of an item that stays open.
    pub(super) fn whole(&mut self, address: Address<'_>, part: Part, text: &str) {
        let kind = part.kind();
        if text.is_empty() || self.bytes + text.len() > MAX_STREAMED {
            return;
        }
        let Some(at) = self.find(address, kind) else {
            let is_done = address.index.is_some_and(|index| self.indexes.contains(&index));
            if !is_done && !self.done.contains_key(address.id) {
                self.delta(address, part, text);
            }
            return;
        };
        let open = &mut self.open[at];
        if part == Part::Input {
            let differs = !open.text.is_empty() && open.text != text;
            self.bytes = self.bytes - open.text.len() + text.len();
            text.clone_into(&mut open.text);
            if differs {
                self.contradict("the input of a call differs from its deltas");
            }
        } else if !open.is_cut && !open.has(part) {
            self.bytes += text.len();
            open.push(part, text);
        }
    }

    /// An item is finished. `None` if it cannot be read, or was finished before.
    pub(super) fn finish(&mut self, index: Option<u32>, json: &str) -> Option<Event> {
        let head = item::added(json);
        let id = head.as_ref().map(|(id, _)| &**id).unwrap_or_default();
        let kind = head.as_ref().map(|(_, kind)| Kind::of_added(kind));
        let address = Address { index, id };
        let at = match kind {
            Some(kind) => self.find(address, kind).or_else(|| self.at(address)),
            // Without its own members it is the item that is open.
            None => self.at(address).or_else(|| self.open.len().checked_sub(1)),
        };
        let done = self.done.get(id).filter(|_| !id.is_empty() && at.is_none());
        if kind.is_some_and(|kind| kind != Kind::Call) && done.is_some_and(|done| **done == *json) {
            return None;
        }
        match at {
            Some(at) => self.close(at, json),
            None => {
                let finished = item::done(json, &Streamed::default())?;
                let index = index.unwrap_or(self.next);
                Some(self.record(index, finished, json))
            }
        }
    }

    /// Finishes the open item at `at`; `json` is what its end has, maybe nothing.
    fn close(&mut self, at: usize, json: &str) -> Option<Event> {
        let open = self.remove(at);
        // Deltas without a beginning are those of a message; a call would have no name.
        const MESSAGE: &str = r#"{"type":"message","role":"assistant"}"#;
        let begun = open.json.as_deref().or((open.kind == Kind::Message).then_some(MESSAGE));
        let streamed = Streamed {
            added: begun,
            text: &open.text,
            summary: open.summary.into_values().collect(),
            content: open.content.into_values().collect(),
        };
        let finished = item::done(json, &streamed)?;
        let whole = match &finished.item {
            Item::FunctionCall { arguments: input, .. } | Item::CustomToolCall { input, .. } => {
                Some((input, "the input of a call differs from its deltas"))
            }
            Item::Message { text, .. } => Some((text, "a message differs from its deltas")),
            _ => None,
        };
        if let Some((text, what)) = whole
            && !open.text.is_empty()
            && *text != open.text
            && Kind::of_done(&finished.item) == open.kind
        {
            self.contradict(what);
        }
        Some(self.record(open.index, finished, json))
    }

    fn record(&mut self, index: u32, finished: item::Finished, json: &str) -> Event {
        let item::Finished { item, raw, id } = finished;
        let raw: Arc<str> = raw.into();
        self.has_done = true;
        self.may_end = match &item {
            Item::Message { phase, text } => *phase != Some(Phase::Commentary) && !text.is_empty(),
            Item::FunctionCall { .. }
            | Item::CustomToolCall { .. }
            | Item::ToolSearchCall { .. } => true,
            Item::Reasoning { .. }
            | Item::WebSearch { .. }
            | Item::ImageGeneration { .. }
            | Item::Other { .. } => false,
        };
        self.indexes.insert(index);
        self.next = self.next.max(index.saturating_add(1));
        if let Some(id) = id {
            let json = if *raw == *json { raw.clone() } else { json.into() };
            self.done.insert(id, json);
        }
        if let Item::FunctionCall { call_id, .. }
        | Item::CustomToolCall { call_id, .. }
        | Item::ToolSearchCall { call_id, .. } = &item
        {
            self.calls.insert(call_id.clone());
        }
        Event::ItemDone { index, raw, item }
    }

    /// Returns whether an item was finished.
    pub(super) fn has_finished(&self) -> bool {
        self.has_done
    }

    /// Returns whether nothing is open, and the last item may be that of a response.
    pub(super) fn are_whole(&self) -> bool {
        self.may_end && self.open.is_empty()
    }

    /// The items that only the end of the whole response has, or that were never ended.
    pub(super) fn complete(&mut self, output: &[&str]) -> Vec<Event> {
        let is_first = !self.has_done;
        let mut events = Vec::new();
        for (position, json) in (0..).zip(output) {
            let Some((id, kind)) = item::added(json) else {
                let json = crate::excerpt(json);
                tracing::warn!(json, "the output of a response has an item that cannot be read");
                continue;
            };
            let of_kind = Kind::of_added(&kind);
            let is_of_id = |open: &Open| !id.is_empty() && open.id == id;
            let at = self
                .open
                .iter()
                .position(is_of_id)
                .or_else(|| self.open.iter().position(|open| open.kind == of_kind));
            let call_id = match &kind {
                ItemKind::FunctionCall { call_id, .. }
                | ItemKind::CustomToolCall { call_id, .. } => Some(call_id),
                _ => None,
            };
            // Not by index: some providers leave it out, and a call must not run twice.
            let is_new = call_id.is_some_and(|id| !id.is_empty() && !self.calls.contains(id));
            let is_known = !id.is_empty() && self.done.contains_key(&id);
            match at {
                Some(at) if is_first || !is_known => events.extend(self.close(at, json)),
                _ if is_first || (is_new && !is_known) => {
                    let finished = item::done(json, &Streamed::default());
                    let index = if is_first && self.next == 0 { position } else { self.next };
                    events.extend(finished.map(|it| self.record(index, it, json)));
                }
                _ => {}
            }
        }
        while let Some(at) = self.open.iter().position(Open::is_meant) {
            events.extend(self.close(at, "{}"));
        }
        events
    }

    fn push(&mut self, index: u32, id: String, kind: Kind, json: Option<Box<str>>) {
        self.next = self.next.max(index.saturating_add(1));
        let (summary, content) = (BTreeMap::new(), BTreeMap::new());
        let (text, parts) = (String::new(), BTreeSet::new());
        self.open.push(Open {
            index,
            id,
            kind,
            json,
            text,
            last_part: None,
            parts,
            summary,
            content,
            is_cut: false,
        });
    }

    fn remove(&mut self, at: usize) -> Open {
        let open = self.open.remove(at);
        self.bytes -= open.bytes();
        open
    }

    /// The open item of this kind that an event is about: by its id, by its index, or else the last one.
    fn find(&self, address: Address<'_>, kind: Kind) -> Option<usize> {
        match self.at(address) {
            Some(at) if self.open[at].kind == kind => Some(at),
            None if address.index.is_some() => None,
            // The index is missing, or is that of something else.
            Some(_) | None => self.open.iter().rposition(|open| open.kind == kind),
        }
    }

    fn at(&self, address: Address<'_>) -> Option<usize> {
        // Almost every delta: whatever its id says, it can be no other item.
        if let [open] = &*self.open
            && address.index == Some(open.index)
        {
            return Some(0);
        }
        let mut of_id = self.open.iter().enumerate().filter(|(_, open)| open.id == address.id);
        // An id that two items have names none.
        let by_id = match (address.id.is_empty(), of_id.next(), of_id.next()) {
            (false, Some((at, _)), None) => Some(at),
            _ => None,
        };
        let by_index = || self.open.iter().position(|open| Some(open.index) == address.index);
        by_id.or_else(by_index)
    }

    /// Keeps what contradicts itself, once in a response.
    fn contradict(&mut self, what: &'static str) {
        if !std::mem::replace(&mut self.is_contradicted, true) {
            self.contradiction = Some(what);
        }
    }

    /// A contradiction that was not reported yet.
    pub(super) fn contradiction(&mut self) -> Option<&'static str> {
        self.contradiction.take()
    }
}

impl Open {
    /// Adds text to a part.
    fn push(&mut self, part: Part, text: &str) {
        match part {
            Part::Text(index) => {
                if self.last_part != Some(index) {
                    self.parts.extend(self.last_part.replace(index));
                }
                self.text.push_str(text);
            }
            Part::Input => self.text.push_str(text),
            Part::Summary(index) => self.summary.entry(index).or_default().push_str(text),
            Part::Content(index) => self.content.entry(index).or_default().push_str(text),
        }
    }

    /// Returns whether a part has text.
    fn has(&self, part: Part) -> bool {
        match part {
            Part::Text(index) => self.last_part == Some(index) || self.parts.contains(&index),
            Part::Input => !self.text.is_empty(),
            Part::Summary(index) => self.summary.contains_key(&index),
            Part::Content(index) => self.content.contains_key(&index),
        }
    }

    /// Forgets the texts. Returns their bytes.
    fn clear(&mut self) -> usize {
        let bytes = self.bytes();
        self.text.clear();
        self.last_part = None;
        self.parts.clear();
        self.summary.clear();
        self.content.clear();
        bytes
    }

    fn bytes(&self) -> usize {
        let parts = self.summary.values().chain(self.content.values());
        self.text.len() + parts.map(String::len).sum::<usize>()
    }

    /// Returns whether the end of the response ends it, too: what it is, is known.
    fn is_meant(&self) -> bool {
        match self.kind {
            Kind::Message => !self.text.is_empty(),
            Kind::Call => self.json.is_some() && !self.is_cut,
            Kind::Reasoning | Kind::Other => false,
        }
    }
}
