//! The response that a decoder builds: its open items, their texts and the bounds of both. Decoders read their wire's
//! events and call it; it emits the events of the internal form in their right order, with one end.

use std::borrow::Cow;

use crate::envelope::{Envelope, Payload};
use crate::event::{End, Event, OutputItem, Stop, Usage};
use crate::failure::{Failure, FailureKind};
use crate::free_text::FreeText;
use crate::json;
use crate::kind::Wire;
use crate::names::{ToolForm, ToolTable};

/// Receives the events of a response.
pub type Sink<'s> = dyn FnMut(Event<'_>) + 's;

/// The request that a response belongs to, as far as its decoder needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseContext {
    /// Id of the provider and name of the model that was asked: reasoning is bound to them.
    pub provider: String,
    pub model: String,
    /// The tools of [`crate::Encoded`].
    pub tools: ToolTable,
    /// Id of the response where the server sends none. Unique in a thread: ids of items and calls begin with it.
    pub id: String,
}

/// Most bytes of texts, arguments and signatures of one response; a longer one fails. A response of the largest models
/// has less than a tenth.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;
/// Most items of one response; more of them fail it.
pub const MAX_RESPONSE_ITEMS: u32 = 4096;
/// Most items that are open at the same time; more of them fail the response.
pub const MAX_OPEN_ITEMS: usize = 256;
/// Most events in a row that add nothing; more of them fail the response as stalled. A server that only keeps the
/// connection alive sends one a second or less.
pub const MAX_IDLE_EVENTS: u32 = 10_000;

/// Most tokens of a count that is believed. A response with a larger one has no usage.
pub const MAX_COUNTED_TOKENS: u64 = 1_000_000_000;

/// Longest part of a response's id that ids of items begin with.
const MAX_ID: usize = 40;

#[derive(Debug)]
struct Open {
    index: u32,
    item: OutputItem,
    /// Of a free-form tool that is a function on the wire.
    free: Option<FreeText>,
}

/// A response under way.
#[derive(Debug)]
pub(crate) struct Builder {
    wire: Wire,
    pub(crate) context: ResponseContext,
    id: String,
    is_created: bool,
    is_ended: bool,
    open: Vec<Open>,
    /// Calls whose arguments are no JSON: only the end says whether they were cut.
    held: Vec<(u32, OutputItem)>,
    next: u32,
    bytes: usize,
    idle: u32,
    has_calls: bool,
    /// The largest count of output tokens so far.
    most_output: u64,
}

impl Builder {
    pub(crate) fn new(wire: Wire, context: ResponseContext) -> Self {
        Self {
            wire,
            context,
            id: String::new(),
            is_created: false,
            is_ended: false,
            open: Vec::new(),
            held: Vec::new(),
            next: 0,
            bytes: 0,
            idle: 0,
            has_calls: false,
            most_output: 0,
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    pub(crate) fn is_created(&self) -> bool {
        self.is_created
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Begins the response once.
    pub(crate) fn create(
        &mut self,
        id: &str,
        model: &str,
        usage: Option<Usage>,
        sink: &mut Sink<'_>,
    ) {
        if self.is_created {
            return;
        }
        self.is_created = true;
        let id = if id.is_empty() { self.context.id.as_str() } else { id };
        self.id = id[..id.floor_char_boundary(256)].to_owned();
        let model = if model.is_empty() { &self.context.model } else { model };
        sink(Event::Created { id: &self.id, model, usage });
    }

    /// Counts an event without effect.
    pub(crate) fn idle(&mut self) -> Result<(), Failure> {
        self.idle += 1;
        if self.idle < MAX_IDLE_EVENTS {
            return Ok(());
        }
        let message = format!(
            "The model's response has stalled: {MAX_IDLE_EVENTS} events in a row add nothing."
        );
        Err(Failure::new(FailureKind::Timeout, &message))
    }

    /// Counts bytes that are kept.
    pub(crate) fn keep(&mut self, length: usize) -> Result<(), Failure> {
        self.idle = 0;
        self.bytes = self.bytes.saturating_add(length);
        if self.bytes <= MAX_RESPONSE_BYTES {
            return Ok(());
        }
        let message = format!("The model's response exceeds {} MiB.", MAX_RESPONSE_BYTES >> 20);
        Err(Failure::new(FailureKind::Malformed, &message))
    }

    fn item_id(&self, prefix: &str) -> String {
        let start = self.id.len().saturating_sub(MAX_ID);
        let tail = &self.id[self.id.ceil_char_boundary(start)..];
        format!("{prefix}_{tail}_{}", self.next)
    }

    fn add(
        &mut self,
        item: OutputItem,
        free: Option<FreeText>,
        sink: &mut Sink<'_>,
    ) -> Result<u32, Failure> {
        self.idle = 0;
        if self.next >= MAX_RESPONSE_ITEMS || self.open.len() >= MAX_OPEN_ITEMS {
            let message = "The model's response has too many items.";
            return Err(Failure::new(FailureKind::Malformed, message));
        }
        let index = self.next;
        self.next += 1;
        sink(Event::ItemAdded { index, item: &item });
        self.open.push(Open { index, item, free });
        Ok(index)
    }

    pub(crate) fn open_message(&mut self, sink: &mut Sink<'_>) -> Result<u32, Failure> {
        let item = OutputItem::Message {
            id: self.item_id("msg"),
            text: String::new(),
            refusal: String::new(),
            annotations: Vec::new(),
            phase: None,
        };
        self.add(item, None, sink)
    }

    pub(crate) fn open_reasoning(&mut self, sink: &mut Sink<'_>) -> Result<u32, Failure> {
        let item = OutputItem::Reasoning {
            id: self.item_id("rs"),
            summary: Vec::new(),
            content: Vec::new(),
            encrypted: None,
        };
        self.add(item, None, sink)
    }

    /// Opens a call in the form that its tool has in the request.
    pub(crate) fn open_call(
        &mut self,
        call_id: &str,
        name: &str,
        sink: &mut Sink<'_>,
    ) -> Result<u32, Failure> {
        self.has_calls = true;
        self.keep(name.len() + call_id.len())?;
        let call_id = match call_id {
            "" => self.item_id("call"),
            id => id.to_owned(),
        };
        let tool = self.context.tools.find(name);
        let form = tool.map_or(ToolForm::Function, |tool| tool.form);
        let (name, namespace) = match tool {
            Some(tool) => (tool.name.clone(), tool.namespace.clone()),
            None => (name.to_owned(), None),
        };
        match form {
            ToolForm::Function => {
                let (id, arguments) = (self.item_id("fc"), String::new());
                let item = OutputItem::FunctionCall { id, call_id, name, namespace, arguments };
                self.add(item, None, sink)
            }
            ToolForm::Custom => {
                let (id, input) = (self.item_id("ctc"), String::new());
                let item = OutputItem::CustomToolCall { id, call_id, name, input };
                self.add(item, Some(FreeText::default()), sink)
            }
            ToolForm::Search => {
                let (id, arguments) = (self.item_id("ts"), String::new());
                let item = OutputItem::ToolSearchCall { id, call_id, arguments };
                self.add(item, None, sink)
            }
        }
    }

    /// An item that is whole at once.
    pub(crate) fn whole(
        &mut self,
        item: impl FnOnce(String) -> OutputItem,
        prefix: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let item = item(self.item_id(prefix));
        let index = self.add(item, None, sink)?;
        self.close(index, sink);
        Ok(())
    }

    /// Reasoning without text that its wire needs to continue.
    pub(crate) fn opaque(&mut self, payload: Payload, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let encrypted = Some(self.envelope(payload));
        self.keep(encrypted.as_ref().map_or(0, String::len))?;
        let item =
            |id| OutputItem::Reasoning { id, summary: Vec::new(), content: Vec::new(), encrypted };
        self.whole(item, "rs", sink)
    }

    pub(crate) fn envelope(&self, payload: Payload) -> String {
        let (provider, model) = (self.context.provider.clone(), self.context.model.clone());
        Envelope { wire: self.wire, provider, model, payload }.write()
    }

    fn find(&mut self, index: u32) -> Option<&mut Open> {
        self.open.iter_mut().rev().find(|open| open.index == index)
    }

    pub(crate) fn text(
        &mut self,
        index: u32,
        delta: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(delta.len())?;
        if !delta.is_empty()
            && let Some(Open { item: OutputItem::Message { text, .. }, .. }) = self.find(index)
        {
            text.push_str(delta);
            sink(Event::TextDelta { index, text: delta });
        }
        Ok(())
    }

    pub(crate) fn refusal(
        &mut self,
        index: u32,
        delta: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(delta.len())?;
        if !delta.is_empty()
            && let Some(Open { item: OutputItem::Message { refusal, .. }, .. }) = self.find(index)
        {
            refusal.push_str(delta);
            sink(Event::RefusalDelta { index, text: delta });
        }
        Ok(())
    }

    /// A citation of a page, at the end of the text so far.
    pub(crate) fn cite(
        &mut self,
        index: u32,
        url: &str,
        title: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(url.len() + title.len())?;
        if let Some(Open { item: OutputItem::Message { text, annotations, .. }, .. }) =
            self.find(index)
        {
            let position = text.chars().count() as u64;
            let mut out = String::new();
            json::object(&mut out, |citation| {
                citation.text("type", "url_citation");
                citation.text("url", url);
                citation.text("title", title);
                citation.number("start_index", position);
                citation.number("end_index", position);
            });
            sink(Event::Annotation { index, json: &out });
            annotations.push(out);
        }
        Ok(())
    }

    pub(crate) fn summary(
        &mut self,
        index: u32,
        delta: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(delta.len())?;
        if !delta.is_empty()
            && let Some(Open { item: OutputItem::Reasoning { summary, .. }, .. }) = self.find(index)
        {
            push_first(summary, delta);
            sink(Event::SummaryDelta { index, part: 0, text: delta });
        }
        Ok(())
    }

    pub(crate) fn reasoning(
        &mut self,
        index: u32,
        delta: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(delta.len())?;
        if !delta.is_empty()
            && let Some(Open { item: OutputItem::Reasoning { content, .. }, .. }) = self.find(index)
        {
            push_first(content, delta);
            sink(Event::ReasoningDelta { index, part: 0, text: delta });
        }
        Ok(())
    }

    /// Gives a reasoning item what its wire needs to continue.
    pub(crate) fn seal(&mut self, index: u32, payload: Payload) -> Result<(), Failure> {
        let envelope = self.envelope(payload);
        self.keep(envelope.len())?;
        if let Some(Open { item: OutputItem::Reasoning { encrypted, .. }, .. }) = self.find(index) {
            *encrypted = Some(envelope);
        }
        Ok(())
    }

    pub(crate) fn arguments(
        &mut self,
        index: u32,
        delta: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(delta.len())?;
        if delta.is_empty() {
            return Ok(());
        }
        match self.find(index) {
            Some(Open { free: Some(free), .. }) => {
                let text = free.push(delta);
                if !text.is_empty() {
                    sink(Event::InputDelta { index, text: &text });
                }
            }
            Some(Open { item: OutputItem::FunctionCall { arguments, .. }, .. }) => {
                arguments.push_str(delta);
                sink(Event::ArgumentsDelta { index, text: delta });
            }
            Some(Open { item: OutputItem::ToolSearchCall { arguments, .. }, .. }) => {
                arguments.push_str(delta);
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends to the input of a tool that takes free text on this wire, too.
    pub(crate) fn free_text(
        &mut self,
        index: u32,
        delta: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        self.keep(delta.len())?;
        let Some(open) = self.find(index) else { return Ok(()) };
        open.free = None;
        if let OutputItem::FunctionCall { id, call_id, name, .. } = &mut open.item {
            let take = std::mem::take::<String>;
            let (id, call_id, name) = (take(id), take(call_id), take(name));
            open.item = OutputItem::CustomToolCall { id, call_id, name, input: String::new() };
        }
        if !delta.is_empty()
            && let OutputItem::CustomToolCall { input, .. } = &mut open.item
        {
            input.push_str(delta);
            sink(Event::InputDelta { index, text: delta });
        }
        Ok(())
    }

    /// The id of an open call.
    pub(crate) fn call_id(&mut self, index: u32) -> Option<String> {
        self.find(index)?.item.call().map(|(id, ..)| id.to_owned())
    }

    /// Ends an item. A call whose arguments are no JSON waits for the end of the response.
    pub(crate) fn close(&mut self, index: u32, sink: &mut Sink<'_>) {
        let Some(at) = self.open.iter().position(|open| open.index == index) else { return };
        let Open { mut item, free, .. } = self.open.remove(at);
        let is_whole = match &mut item {
            OutputItem::FunctionCall { arguments, .. }
            | OutputItem::ToolSearchCall { arguments, .. } => {
                if arguments.trim_ascii().is_empty() {
                    "{}".clone_into(arguments);
                }
                serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok()
            }
            OutputItem::CustomToolCall { input, .. } => match free.map(FreeText::finish) {
                Some((text, is_whole)) => {
                    *input = text;
                    is_whole
                }
                None => true,
            },
            _ => true,
        };
        if is_whole {
            sink(Event::ItemDone { index, item: &item });
        } else {
            self.held.push((index, item));
        }
    }

    pub(crate) fn close_all(&mut self, sink: &mut Sink<'_>) {
        let open: Vec<u32> = self.open.iter().map(|open| open.index).collect();
        open.into_iter().for_each(|index| self.close(index, sink));
    }

    /// Ends the response. Calls that were cut by the output limit or a filter are left out, so that none of them runs.
    pub(crate) fn end(&mut self, end: &End, sink: &mut Sink<'_>) {
        if self.is_ended {
            return;
        }
        self.create("", "", None, sink);
        self.close_all(sink);
        self.is_ended = true;
        let is_cut = end.stop.incomplete().is_some();
        for (index, item) in std::mem::take(&mut self.held) {
            if is_cut {
                let reason = "a call whose arguments were cut is left out";
                sink(Event::Warning { member: "output[]", reason });
            } else {
                sink(Event::ItemDone { index, item: &item });
            }
        }
        let usage = self.believed(end.usage, sink);
        if usage == end.usage {
            return sink(Event::Ended(end));
        }
        sink(Event::Ended(&End { usage, ..end.clone() }));
    }

    /// Takes note of a usage that grows during the response.
    pub(crate) fn see_usage(&mut self, usage: Usage) {
        if is_believed(usage) {
            self.most_output = self.most_output.max(usage.output);
        }
    }

    /// The usage of a response at its end: none for counts that no response has, and no smaller one than before.
    fn believed(&self, usage: Usage, sink: &mut Sink<'_>) -> Usage {
        let usage = believed(usage, sink);
        if usage == Usage::default() {
            return usage;
        }
        if usage.output < self.most_output {
            let reason = "the count of output tokens shrinks; its largest value is taken";
            sink(Event::Warning { member: "usage", reason });
            return Usage { output: self.most_output, ..usage };
        }
        usage
    }

    /// Fails the response. Open items are dropped.
    pub(crate) fn fail(&mut self, failure: &Failure, usage: Usage, sink: &mut Sink<'_>) {
        if self.is_ended {
            return;
        }
        self.create("", "", None, sink);
        self.is_ended = true;
        self.open.clear();
        self.held.clear();
        let usage = self.believed(usage, sink);
        sink(Event::Failed { failure, usage });
    }

    /// Ends a response whose stream ended before its end.
    pub(crate) fn cut_off(&mut self, usage: Usage, sink: &mut Sink<'_>) {
        let message = "The model server closed the stream before the response was complete.";
        self.fail(&Failure::new(FailureKind::Disconnected, message), usage, sink);
    }
}

/// The usage of a response, or none for counts that no response has.
pub(crate) fn believed(usage: Usage, sink: &mut Sink<'_>) -> Usage {
    if is_believed(usage) {
        return usage;
    }
    let reason = "counts of tokens that no response has are not believed";
    sink(Event::Warning { member: "usage", reason });
    Usage::default()
}

pub(crate) fn is_believed(usage: Usage) -> bool {
    let Usage { input, cached, written, written_hour, output, reasoning, searches } = usage;
    let counts = [input, cached, written, written_hour, output, reasoning, searches];
    counts.iter().all(|count| *count <= MAX_COUNTED_TOKENS)
}

/// The stop of a response: calls that wait for their outputs are one, whatever the server calls it.
pub(crate) fn stop_with_calls(stop: Stop, has_calls: bool) -> Stop {
    if stop == Stop::EndTurn && has_calls { Stop::ToolUse } else { stop }
}

fn push_first(parts: &mut Vec<String>, delta: &str) {
    match parts.last_mut() {
        Some(part) => part.push_str(delta),
        None => parts.push(delta.to_owned()),
    }
}

/// A failure of the form of an event.
pub(crate) fn malformed(wire: Wire, reason: impl std::fmt::Display) -> Failure {
    let message =
        format!("The model server sent an event that is not valid in `{wire}`: {reason}.");
    Failure::new(FailureKind::Malformed, &message)
}

/// The failure of a stream of `wire` with an event of another one. As the first event, it shows what the server speaks.
pub(crate) fn other_wire(wire: Wire, found: Wire, is_first: bool) -> Failure {
    if !is_first {
        return malformed(wire, format!("it is one of `{found}`"));
    }
    let message = format!(
        "The model server answers in `{found}`, not in `{wire}`: set `wire_api` of the model provider, or `wire` of the \
         gateway's backend, to \"{found}\"."
    );
    Failure::new(FailureKind::OtherWire, &message)
}

/// The wire that an event without a known type belongs to, by its members.
pub(crate) fn foreign_wire(data: &str) -> Option<Wire> {
    let members = json::Object::read_str(data, &json::At::Root).ok()?;
    let kind = members.peek("type").map(|raw| raw.get().trim_matches('"'));
    match kind {
        Some(kind) if kind.starts_with("response.") => Some(Wire::Responses),
        Some(kind) if kind.starts_with("content_block") || kind.starts_with("message_") => {
            Some(Wire::Messages)
        }
        _ if members.peek("choices").is_some() => Some(Wire::Chat),
        _ if members.peek("candidates").is_some() => Some(Wire::Gemini),
        _ => None,
    }
}

/// Data of an event as text; a stream of the wires is UTF-8.
pub(crate) fn event_text(data: &[u8], wire: Wire) -> Result<Cow<'_, str>, Failure> {
    match std::str::from_utf8(data) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) => Err(malformed(wire, "it is not UTF-8")),
    }
}
