//! Decodes the events of a Messages stream. The type in the data decides; names of events are not needed.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::document;
use super::usage::{MessagesUsage, service_tier};
use crate::builder::{
    Builder, ResponseContext, Sink, event_text, foreign_wire, is_believed, malformed, other_wire,
    stop_with_calls,
};
use crate::envelope::Payload;
use crate::event::{End, Event as Decoded, OutputItem, Stop};
use crate::failure::{Failure, FailureKind};
use crate::json::{At, Count, Lenient, Members, Object, object};
use crate::kind::Wire;

/// Decodes one response.
#[derive(Debug)]
pub struct Decoder {
    pub(super) builder: Builder,
    blocks: Vec<(u64, Block)>,
    /// The message of the last text block, which the next one continues.
    message: Option<u32>,
    /// A server's tool that waits for its result, as its JSON.
    server_use: Vec<String>,
    pub(super) usage: MessagesUsage,
    stop: Option<Stop>,
    service_tier: Option<String>,
}

#[derive(Debug)]
enum Block {
    Text(u32),
    Thinking {
        index: u32,
        signature: String,
        text: String,
    },
    Call {
        index: u32,
        has_delta: bool,
        input: String,
    },
    ServerUse {
        start: String,
        input: String,
    },
    /// An unknown block, or one without deltas.
    Whole,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Lenient<'a>,
    index: Count,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Delta<'a> {
    #[serde(borrow, rename = "type")]
    kind: Lenient<'a>,
    #[serde(borrow)]
    text: Lenient<'a>,
    #[serde(borrow)]
    partial_json: Lenient<'a>,
    #[serde(borrow)]
    thinking: Lenient<'a>,
    #[serde(borrow)]
    signature: Lenient<'a>,
    #[serde(borrow)]
    citation: Option<&'a RawValue>,
    #[serde(borrow)]
    stop_reason: Lenient<'a>,
    #[serde(borrow)]
    stop_sequence: Lenient<'a>,
}

impl Decoder {
    /// Decodes the response of a request.
    #[must_use]
    pub fn new(context: ResponseContext) -> Self {
        Self {
            builder: Builder::new(Wire::Messages, context),
            blocks: Vec::new(),
            message: None,
            server_use: Vec::new(),
            usage: MessagesUsage::default(),
            stop: None,
            service_tier: None,
        }
    }

    /// True after the end; later data is ignored.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.builder.is_ended()
    }

    /// Reads the data of one event.
    pub fn event(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        if self.is_ended() {
            return;
        }
        let read = event_text(data, Wire::Messages).and_then(|text| self.read(&text, sink));
        if let Err(failure) = read {
            let usage = self.usage.total();
            self.builder.fail(&failure, usage, sink);
        }
    }

    /// Reads an answer that is no stream.
    pub fn document(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        let read =
            event_text(data, Wire::Messages).and_then(|text| document::read(self, &text, sink));
        if let Err(failure) = read {
            let usage = self.usage.total();
            self.builder.fail(&failure, usage, sink);
        }
    }

    /// Ends the stream. One that closed after its stop reason, with no block open, has lost nothing.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        if self.stop.is_some() && self.blocks.is_empty() {
            return self.end(sink);
        }
        let usage = self.usage.total();
        self.builder.cut_off(usage, sink);
    }

    fn read(&mut self, text: &str, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let event: Event<'_> = match serde_json::from_str(text) {
            Ok(event) => event,
            // `[DONE]` of servers that also speak Chat Completions.
            Err(_) if text.trim() == "[DONE]" => return Ok(()),
            Err(error) => return Err(malformed(Wire::Messages, error)),
        };
        match event.kind.as_str() {
            "content_block_delta" => self.delta(&event, sink),
            "content_block_start" => {
                let at = At::Root;
                let raw = event.content_block.ok_or_else(|| missing("content_block"))?;
                let block =
                    Object::read(raw, &at).map_err(|error| malformed(Wire::Messages, error))?;
                self.start(event.index.0, block, raw.get(), sink)
            }
            "content_block_stop" => self.stop_block(event.index.0, sink),
            "message_start" => {
                self.message_start(event.message.ok_or_else(|| missing("message"))?, sink)
            }
            "message_delta" => {
                self.builder.keep(0)?;
                self.usage.merge(event.usage);
                self.builder.see_usage(self.usage.total());
                if let Some(delta) = &event.delta {
                    self.set_stop(delta.stop_reason.as_str(), delta.stop_sequence.as_str())?;
                }
                Ok(())
            }
            "message_stop" => {
                if !self.blocks.is_empty() {
                    let reason = "the message stops inside a content block";
                    return Err(malformed(Wire::Messages, reason));
                }
                self.end(sink);
                Ok(())
            }
            "error" => {
                let object = Object::read_str(text, &At::Root);
                let failure = object.ok().and_then(|object| Failure::from_object(None, object));
                let unknown =
                    || Failure::new(FailureKind::Server, "The model server reported an error.");
                Err(failure.unwrap_or_else(unknown))
            }
            "" if event.error.is_some() => {
                let object = Object::read_str(text, &At::Root);
                let failure = object.ok().and_then(|object| Failure::from_object(None, object));
                Err(failure.unwrap_or_else(|| malformed(Wire::Messages, "it has no type")))
            }
            _ => match foreign_wire(text) {
                Some(wire) if wire != Wire::Messages => {
                    Err(other_wire(Wire::Messages, wire, !self.builder.is_created()))
                }
                // `ping`, and what later versions add.
                _ => self.builder.idle(),
            },
        }
    }

    pub(super) fn message_start(
        &mut self,
        raw: &RawValue,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Message<'a> {
            #[serde(borrow)]
            id: Lenient<'a>,
            #[serde(borrow)]
            model: Lenient<'a>,
            #[serde(borrow)]
            usage: Option<&'a RawValue>,
        }
        if self.builder.is_created() {
            return Err(malformed(Wire::Messages, "the message starts twice"));
        }
        let message: Message<'_> =
            serde_json::from_str(raw.get()).map_err(|error| malformed(Wire::Messages, error))?;
        self.usage.merge(message.usage);
        self.builder.see_usage(self.usage.total());
        self.service_tier = message.usage.and_then(service_tier);
        let usage = Some(self.usage.total()).filter(|usage| is_believed(*usage));
        self.builder.create(message.id.as_str(), message.model.as_str(), usage, sink);
        Ok(())
    }

    pub(super) fn start(
        &mut self,
        index: Option<u64>,
        mut block: Object<'_>,
        raw: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let index = index.unwrap_or(self.blocks.len() as u64);
        if self.blocks.iter().any(|(open, _)| *open == index) {
            return Err(malformed(Wire::Messages, format!("content block {index} starts twice")));
        }
        if self.blocks.len() >= crate::builder::MAX_OPEN_ITEMS {
            return Err(malformed(Wire::Messages, "too many content blocks are open"));
        }
        self.builder.create("", "", None, sink);
        let at = At::Root;
        let mut text = |name: &str| {
            block.opt_text(&at, name).ok().flatten().map(Cow::into_owned).unwrap_or_default()
        };
        let kind = text("type");
        if kind != "text" {
            self.close_message(sink);
        }
        let opened = match kind.as_str() {
            "text" => {
                let message = match self.message {
                    Some(message) => message,
                    None => self.builder.open_message(sink)?,
                };
                self.message = Some(message);
                self.builder.text(message, &text("text"), sink)?;
                // In a response that is no stream.
                let citations = block.opt_array(&at, "citations").ok().flatten();
                for citation in citations.unwrap_or_default() {
                    self.cite(message, Some(citation), sink)?;
                }
                Block::Text(message)
            }
            "thinking" => {
                let (thinking, signature) = (text("thinking"), text("signature"));
                let index = self.builder.open_reasoning(sink)?;
                self.builder.summary(index, &thinking, sink)?;
                Block::Thinking { index, signature, text: thinking }
            }
            "redacted_thinking" => {
                self.builder.opaque(Payload::Blocks(vec![raw.to_owned()]), sink)?;
                Block::Whole
            }
            "tool_use" => {
                let input = block.take("input").map(RawValue::get).unwrap_or_default();
                let input = if input == "{}" { String::new() } else { input.to_owned() };
                let (id, name) = (block.opt_text(&at, "id"), block.opt_text(&at, "name"));
                let (Ok(id), Ok(Some(name))) = (id, name) else {
                    return Err(malformed(Wire::Messages, "a tool use has no name"));
                };
                let index = self.builder.open_call(&id.unwrap_or_default(), &name, sink)?;
                Block::Call { index, has_delta: false, input }
            }
            "server_tool_use" => {
                self.builder.keep(raw.len())?;
                Block::ServerUse { start: raw.to_owned(), input: String::new() }
            }
            kind if kind.ends_with("_tool_result") => {
                self.server_result(raw, sink)?;
                Block::Whole
            }
            _ => {
                let reason = "a content block of an unknown type is left out";
                sink(Decoded::Warning { member: "content[]", reason });
                Block::Whole
            }
        };
        self.blocks.push((index, opened));
        Ok(())
    }

    fn delta(&mut self, event: &Event<'_>, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let delta = event.delta.as_ref().ok_or_else(|| missing("delta"))?;
        // Without an index it is the block that is open.
        let found = match event.index.0 {
            Some(index) => self.blocks.iter_mut().rev().find(|(open, _)| *open == index),
            None => self.blocks.last_mut(),
        };
        let Some((_, block)) = found else {
            return Err(malformed(Wire::Messages, "a delta is of no open content block"));
        };
        match (block, delta.kind.as_str()) {
            (Block::Text(index), "text_delta") => {
                self.builder.text(*index, delta.text.as_str(), sink)
            }
            (Block::Text(index), "citations_delta") => {
                let index = *index;
                self.cite(index, delta.citation, sink)
            }
            (Block::Thinking { index, text, .. }, "thinking_delta") => {
                text.push_str(delta.thinking.as_str());
                self.builder.summary(*index, delta.thinking.as_str(), sink)
            }
            (Block::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(delta.signature.as_str());
                self.builder.keep(delta.signature.as_str().len())
            }
            (Block::Call { index, has_delta, .. }, "input_json_delta") => {
                *has_delta |= !delta.partial_json.is_empty();
                self.builder.arguments(*index, delta.partial_json.as_str(), sink)
            }
            (Block::ServerUse { input, .. }, "input_json_delta") => {
                input.push_str(delta.partial_json.as_str());
                self.builder.keep(delta.partial_json.as_str().len())
            }
            (
                _,
                kind @ ("text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta"),
            ) => Err(malformed(
                Wire::Messages,
                format!("a `{kind}` is of a content block of another type"),
            )),
            _ => self.builder.idle(),
        }
    }

    fn cite(
        &mut self,
        index: u32,
        citation: Option<&RawValue>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Citation<'a> {
            #[serde(borrow)]
            url: Lenient<'a>,
            #[serde(borrow)]
            title: Lenient<'a>,
        }
        let citation: Citation<'_> =
            citation.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        if citation.url.is_empty() {
            let reason = "a citation of a document is left out";
            sink(Decoded::Warning { member: "content[].citations", reason });
            return Ok(());
        }
        self.builder.cite(index, citation.url.as_str(), citation.title.as_str(), sink)
    }

    pub(super) fn stop_block(
        &mut self,
        index: Option<u64>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let position = match index {
            Some(index) => self.blocks.iter().position(|(open, _)| *open == index),
            None => self.blocks.len().checked_sub(1),
        };
        let Some(position) = position else {
            return Err(malformed(Wire::Messages, "a content block that is not open stops"));
        };
        match self.blocks.remove(position).1 {
            Block::Text(_) | Block::Whole => {}
            Block::Thinking { index, signature, text } => {
                // Servers of open models sign nothing: such a block must not be sent to one that checks.
                if !signature.is_empty() {
                    let block = thinking_block(&text, &signature);
                    self.builder.seal(index, Payload::Blocks(vec![block]))?;
                }
                self.builder.close(index, sink);
            }
            Block::Call { index, has_delta, input } => {
                if !has_delta {
                    self.builder.arguments(index, &input, sink)?;
                }
                self.builder.close(index, sink);
            }
            Block::ServerUse { start, input } => self.server_use.push(with_input(&start, &input)),
        }
        Ok(())
    }

    /// The result of a server's tool: a search is an item, and both blocks are kept to be sent again.
    fn server_result(&mut self, raw: &str, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let mut blocks = std::mem::take(&mut self.server_use);
        let search = blocks.iter().find_map(|block| searched(block));
        if let Some(query) = search {
            let is_failed = raw.contains("\"web_search_tool_result_error\"");
            self.builder.whole(
                |id| OutputItem::WebSearchCall { id, query, is_failed },
                "ws",
                sink,
            )?;
        }
        blocks.push(raw.to_owned());
        self.builder.opaque(Payload::Blocks(blocks), sink)
    }

    fn close_message(&mut self, sink: &mut Sink<'_>) {
        if let Some(message) = self.message.take() {
            self.builder.close(message, sink);
        }
    }

    pub(super) fn set_stop(&mut self, reason: &str, sequence: &str) -> Result<(), Failure> {
        self.stop = match reason {
            "" => return Ok(()),
            "end_turn" => Some(Stop::EndTurn),
            "tool_use" => Some(Stop::ToolUse),
            "max_tokens" => Some(Stop::MaxTokens),
            "stop_sequence" => Some(Stop::StopSequence(sequence.to_owned())),
            "pause_turn" => Some(Stop::Pause),
            "refusal" => Some(Stop::Filter),
            "model_context_window_exceeded" => {
                let message = "The response reached the end of the model's context window.";
                return Err(Failure::new(FailureKind::ContextWindow, message));
            }
            other => {
                let message = format!("The response stopped for an unknown reason: {other}.");
                return Err(Failure::new(FailureKind::Malformed, &message));
            }
        };
        Ok(())
    }

    pub(super) fn end(&mut self, sink: &mut Sink<'_>) {
        self.close_message(sink);
        let usage = self.usage.total();
        let Some(stop) = self.stop.take() else { return self.builder.cut_off(usage, sink) };
        if !self.server_use.is_empty() {
            let blocks = std::mem::take(&mut self.server_use);
            if let Err(failure) = self.builder.opaque(Payload::Blocks(blocks), sink) {
                return self.builder.fail(&failure, usage, sink);
            }
        }
        let has_calls = self.builder.has_calls();
        let stop = match stop_with_calls(stop, has_calls) {
            Stop::ToolUse if !has_calls => {
                let reason = "the answer stops for a tool that it does not call";
                sink(Decoded::Warning { member: "stop_reason", reason });
                Stop::EndTurn
            }
            stop => stop,
        };
        let end = End { stop, usage, service_tier: self.service_tier.take() };
        self.builder.end(&end, sink);
    }
}

fn missing(member: &str) -> Failure {
    malformed(Wire::Messages, format!("`{member}` is missing"))
}

fn thinking_block(text: &str, signature: &str) -> String {
    let mut out = String::with_capacity(text.len() + signature.len() + 64);
    object(&mut out, |block| {
        block.text("type", "thinking");
        block.text("thinking", text);
        block.text("signature", signature);
    });
    out
}

/// The start of a server's tool use with its input.
fn with_input(start: &str, input: &str) -> String {
    let at = At::Root;
    let Ok(mut block) = Object::read_str(start, &at) else { return start.to_owned() };
    let own = block.take("input").map_or("{}", RawValue::get);
    let input = if crate::json::is_object(input) { input } else { own };
    let mut out = String::with_capacity(start.len() + input.len());
    object(&mut out, |members: &mut Members<'_>| {
        block.copy_rest(members);
        members.raw("input", input);
    });
    out
}

/// The query of a search in a server's tool use.
fn searched(block: &str) -> Option<String> {
    let at = At::Root;
    let mut block = Object::read_str(block, &at).ok()?;
    if block.opt_text(&at, "name").ok()?? != "web_search" {
        return None;
    }
    let mut input = block.opt_object(&at, "input").ok()??;
    let query = input.opt_text(&at, "query").ok()?;
    Some(query.unwrap_or_default().into_owned())
}
