//! Encodes events of the internal form as a Messages stream, and whole responses.

use crate::context::EncodeContext;
use crate::envelope::{Envelope, Payload};
use crate::event::{End, Event, OutputItem, Stop, Usage};
use crate::json::{At, Elements, Members, Object, object, push_escaped, push_number, push_str};
use crate::kind::Wire;
use crate::offer::arguments;
use crate::response::Response;
use crate::warning::Warnings;

/// Encodes one response as a stream.
#[derive(Debug)]
pub struct Encoder {
    context: EncodeContext,
    next: u64,
    open: Vec<Open>,
    /// A search whose own blocks may follow in an envelope: its id and query, and whether it failed.
    search: Option<(String, String, bool)>,
    /// The block for a signature after a text: a message of the API never ends with one, so that it is written before
    /// the next block, or not at all.
    signature: Option<String>,
    pub(crate) warnings: Warnings,
}

/// A block of an item.
#[derive(Debug)]
struct Open {
    item: u32,
    block: u64,
    kind: Kind,
    /// Some of its text was sent.
    has_delta: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// With the part of the summary, or of the raw reasoning, that came last.
    Thinking(u32),
    Call,
    /// A call of a free-form tool: its text is escaped into `{"input": …}`.
    FreeText,
}

impl Encoder {
    /// Begins a response.
    #[must_use]
    pub fn new(context: EncodeContext) -> Self {
        Self {
            context,
            next: 0,
            open: Vec::new(),
            search: None,
            signature: None,
            warnings: Warnings::default(),
        }
    }

    /// Appends the stream's bytes for an event.
    pub fn event(&mut self, event: &Event<'_>, out: &mut String) {
        match event {
            Event::Created { id, model, usage } => {
                let estimate = Usage { input: self.context.input_estimate, ..Usage::default() };
                let usage = usage.unwrap_or(estimate);
                write(out, "message_start", |event| {
                    event.object("message", |message| {
                        write_head(message, id, self.context.model_of(model));
                        message.raw("content", "[]");
                        write_stop(message, None);
                        write_usage(message, &usage, None);
                    });
                });
            }
            Event::ItemAdded { index, item } => {
                if let Some((id, name, _, is_text)) = item.call() {
                    self.flush_search(out);
                    let kind = if is_text { Kind::FreeText } else { Kind::Call };
                    self.start(*index, kind, out, |block| write_tool_use(block, id, &name, "{}"));
                }
            }
            Event::TextDelta { index, text } | Event::RefusalDelta { index, text } => {
                let block = self.text_block(*index, out);
                delta(out, block, "text_delta", "text", text);
            }
            Event::Annotation { index, json } => {
                let block = self.text_block(*index, out);
                write(out, "content_block_delta", |event| {
                    event.number("index", block);
                    event.object("delta", |delta| {
                        delta.text("type", "citations_delta");
                        delta.object("citation", |citation| write_citation(citation, json));
                    });
                });
            }
            Event::SummaryDelta { index, part, text }
            | Event::ReasoningDelta { index, part, text } => {
                self.thinking(*index, *part, text, out);
            }
            Event::ArgumentsDelta { index, text } => {
                if let Some(open) = self.find(*index) {
                    open.has_delta = true;
                    let block = open.block;
                    delta(out, block, "input_json_delta", "partial_json", text);
                }
            }
            Event::InputDelta { index, text } => {
                if let Some(open) = self.find(*index) {
                    let mut json = String::with_capacity(text.len() + 16);
                    if !std::mem::replace(&mut open.has_delta, true) {
                        json.push_str("{\"input\":\"");
                    }
                    push_escaped(&mut json, text);
                    let block = open.block;
                    delta(out, block, "input_json_delta", "partial_json", &json);
                }
            }
            Event::ItemDone { index, item } => self.item_done(*index, item, out),
            Event::Warning { member, reason } => self.warnings.add((*member).to_owned(), reason),
            Event::Ended(end) => {
                self.flush_search(out);
                write(out, "message_delta", |event| {
                    event.object("delta", |delta| {
                        write_stop(delta, Some(&end.stop));
                        delta.raw("container", "null");
                    });
                    write_usage(event, &end.usage, end.service_tier.as_deref());
                });
                write(out, "message_stop", |_| {});
            }
            Event::Failed { failure, .. } => write(out, "error", |event| {
                event.object("error", |error| failure.write(Wire::Messages, error));
            }),
        }
    }

    fn find(&mut self, item: u32) -> Option<&mut Open> {
        self.open.iter_mut().rev().find(|open| open.item == item)
    }

    fn start(
        &mut self,
        item: u32,
        kind: Kind,
        out: &mut String,
        block: impl FnOnce(&mut Members<'_>),
    ) -> u64 {
        if let Some(signature) = self.signature.take() {
            self.raw_block(&signature, out);
        }
        let number = self.next;
        self.next += 1;
        self.open.push(Open { item, block: number, kind, has_delta: false });
        write(out, "content_block_start", |event| {
            event.number("index", number);
            event.object("content_block", block);
        });
        number
    }

    /// The block of a message's text, which begins with the first text: an empty one could not be sent back.
    fn text_block(&mut self, item: u32, out: &mut String) -> u64 {
        if let Some(open) = self.find(item) {
            return open.block;
        }
        self.flush_search(out);
        self.start(item, Kind::Text, out, |block| {
            block.text("type", "text");
            block.text("text", "");
            block.raw("citations", "null");
        })
    }

    fn thinking(&mut self, item: u32, part: u32, text: &str, out: &mut String) {
        let block = match self.find(item) {
            Some(open) => {
                let is_next = open.kind != Kind::Thinking(part);
                open.kind = Kind::Thinking(part);
                let block = open.block;
                if is_next {
                    delta(out, block, "thinking_delta", "thinking", "\n\n");
                }
                block
            }
            None => {
                self.flush_search(out);
                self.start(item, Kind::Thinking(part), out, |block| write_thinking(block, "", ""))
            }
        };
        delta(out, block, "thinking_delta", "thinking", text);
    }

    fn stop(&mut self, item: u32, out: &mut String) {
        if let Some(at) = self.open.iter().position(|open| open.item == item) {
            let open = self.open.remove(at);
            write(out, "content_block_stop", |event| event.number("index", open.block));
        }
    }

    /// A block that is whole at once.
    fn whole(&mut self, out: &mut String, block: impl FnOnce(&mut Members<'_>)) {
        let item = u32::MAX;
        self.start(item, Kind::Text, out, block);
        self.stop(item, out);
    }

    fn raw_block(&mut self, json: &str, out: &mut String) {
        let members = Object::read_str(json, &At::Root).unwrap_or_default();
        self.whole(out, |block| members.copy_rest(block));
    }

    /// Writes a search of another wire's server as the blocks of one.
    fn flush_search(&mut self, out: &mut String) {
        let Some((id, query, is_failed)) = self.search.take() else { return };
        self.whole(out, |block| write_search_use(block, &id, &query));
        self.whole(out, |block| write_search_result(block, &id, is_failed));
    }

    fn item_done(&mut self, index: u32, item: &OutputItem, out: &mut String) {
        match item {
            OutputItem::Message { text, refusal, .. } => {
                if self.find(index).is_none() && !(text.is_empty() && refusal.is_empty()) {
                    let block = self.text_block(index, out);
                    delta(out, block, "text_delta", "text", &format!("{text}{refusal}"));
                }
                self.stop(index, out);
            }
            OutputItem::Reasoning { .. } => self.reasoning_done(index, item, out),
            OutputItem::FunctionCall { .. }
            | OutputItem::CustomToolCall { .. }
            | OutputItem::ToolSearchCall { .. } => {
                let Some((id, name, input, is_text)) = item.call() else { return };
                if self.find(index).is_none() {
                    self.start(index, Kind::Call, out, |block| {
                        write_tool_use(block, id, &name, "{}");
                    });
                }
                let Some(&mut Open { block, has_delta, .. }) = self.find(index) else { return };
                if !has_delta {
                    delta(
                        out,
                        block,
                        "input_json_delta",
                        "partial_json",
                        &arguments(input, is_text),
                    );
                } else if is_text {
                    delta(out, block, "input_json_delta", "partial_json", "\"}");
                }
                self.stop(index, out);
            }
            OutputItem::WebSearchCall { id, query, is_failed } => {
                self.flush_search(out);
                self.search = Some((id.clone(), query.clone(), *is_failed));
            }
            OutputItem::ImageCall { .. } => {
                self.warnings.add("output[]", "an answer of Messages has no images");
            }
            OutputItem::Other { .. } => {
                self.warnings
                    .add("output[]", "an item of the Responses provider alone is left out");
            }
        }
    }

    fn reasoning_done(&mut self, index: u32, item: &OutputItem, out: &mut String) {
        let blocks = blocks_of(item, &self.context);
        let has_server_tool = blocks.iter().any(|block| !block.contains("\"thinking\""));
        if has_server_tool {
            self.search = None;
        }
        self.flush_search(out);
        let Some(block) = self.find(index).map(|open| open.block) else {
            if is_text_signature(item) {
                self.signature = blocks.into_iter().next();
                return;
            }
            return blocks.iter().for_each(|block| self.raw_block(block, out));
        };
        // The text was streamed; its signature ends the block.
        let mut blocks = blocks.iter();
        let signature = blocks.next().and_then(|block| {
            let mut block = Object::read_str(block, &At::Root).ok()?;
            block.opt_text(&At::Root, "signature").ok()?.map(std::borrow::Cow::into_owned)
        });
        if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
            delta(out, block, "signature_delta", "signature", &signature);
        }
        self.stop(index, out);
        blocks.for_each(|block| self.raw_block(block, out));
    }
}

/// The blocks of a reasoning item: its own, or one whose signature holds what another wire needs.
fn blocks_of(item: &OutputItem, context: &EncodeContext) -> Vec<String> {
    let OutputItem::Reasoning { id, summary, content, encrypted } = item else { return Vec::new() };
    let envelope = encrypted.as_deref().and_then(Envelope::inside);
    if let Some(Envelope { wire: Wire::Messages, payload: Payload::Blocks(blocks), .. }) = envelope
    {
        return blocks;
    }
    let texts: Vec<&str> = summary.iter().chain(content).map(String::as_str).collect();
    let signature = encrypted.as_deref().map(|encrypted| context.sealed(id, encrypted));
    if texts.is_empty() && signature.is_none() {
        return Vec::new();
    }
    let mut block = String::new();
    object(&mut block, |block| {
        write_thinking(block, &texts.join("\n\n"), signature.as_deref().unwrap_or_default());
    });
    vec![block]
}

/// Returns whether a reasoning item is only the signature after a text, which its wire can do without.
fn is_text_signature(item: &OutputItem) -> bool {
    let OutputItem::Reasoning { summary, content, encrypted, .. } = item else { return false };
    let envelope = encrypted.as_deref().and_then(Envelope::inside);
    let is_signature = matches!(
        envelope,
        Some(Envelope { wire: Wire::Gemini, payload: Payload::TextSignature(_), .. })
    );
    is_signature && summary.is_empty() && content.is_empty()
}

fn write(out: &mut String, kind: &str, members: impl FnOnce(&mut Members<'_>)) {
    for piece in ["event: ", kind, "\ndata: "] {
        out.push_str(piece);
    }
    object(out, |event| {
        event.text("type", kind);
        members(event);
    });
    out.push_str("\n\n");
}

/// Writes a delta without an allocation.
fn delta(out: &mut String, block: u64, kind: &str, member: &str, text: &str) {
    out.push_str("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":");
    push_number(out, block);
    for piece in [",\"delta\":{\"type\":\"", kind, "\",\"", member, "\":"] {
        out.push_str(piece);
    }
    push_str(out, text);
    out.push_str("}}\n\n");
}

fn write_thinking(block: &mut Members<'_>, text: &str, signature: &str) {
    block.text("type", "thinking");
    block.text("thinking", text);
    block.text("signature", signature);
}

fn write_tool_use(block: &mut Members<'_>, id: &str, name: &str, input: &str) {
    block.text("type", "tool_use");
    block.text("id", id);
    block.text("name", name);
    block.raw("input", input);
    block.raw("caller", "{\"type\":\"direct\"}");
}

fn write_search_use(block: &mut Members<'_>, id: &str, query: &str) {
    block.text("type", "server_tool_use");
    block.text("id", &format!("srvtoolu_{id}"));
    block.text("name", "web_search");
    block.object("input", |input| input.text("query", query));
    block.raw("caller", "{\"type\":\"direct\"}");
}

fn write_search_result(block: &mut Members<'_>, id: &str, is_failed: bool) {
    block.text("type", "web_search_tool_result");
    block.text("tool_use_id", &format!("srvtoolu_{id}"));
    if is_failed {
        block.object("content", |error| {
            error.text("type", "web_search_tool_result_error");
            error.text("error_code", "unavailable");
        });
    } else {
        // Other wires cite the pages that they found, but do not list them.
        block.raw("content", "[]");
    }
    block.raw("caller", "{\"type\":\"direct\"}");
}

fn write_citation(citation: &mut Members<'_>, json: &str) {
    let at = At::Root;
    let mut annotation = Object::read_str(json, &at).unwrap_or_default();
    let mut text = |name| annotation.opt_text(&at, name).ok().flatten().unwrap_or_default();
    citation.text("type", "web_search_result_location");
    citation.text("cited_text", "");
    citation.text("encrypted_index", "");
    citation.text("title", &text("title"));
    citation.text("url", &text("url"));
}

fn write_head(message: &mut Members<'_>, id: &str, model: &str) {
    let id = if id.starts_with("msg_") { id.to_owned() } else { format!("msg_{id}") };
    message.text("id", &id);
    message.text("type", "message");
    message.text("role", "assistant");
    message.text("model", model);
    message.raw("container", "null");
}

fn write_stop(object: &mut Members<'_>, stop: Option<&Stop>) {
    let (reason, sequence) = match stop {
        None => (None, None),
        Some(Stop::EndTurn) => (Some("end_turn"), None),
        Some(Stop::ToolUse) => (Some("tool_use"), None),
        Some(Stop::StopSequence(text)) => (Some("stop_sequence"), Some(text.as_str())),
        Some(Stop::MaxTokens) => (Some("max_tokens"), None),
        Some(Stop::Filter) => (Some("refusal"), None),
        Some(Stop::Pause) => (Some("pause_turn"), None),
    };
    for (name, text) in [("stop_reason", reason), ("stop_sequence", sequence)] {
        match text {
            Some(text) => object.text(name, text),
            None => object.raw(name, "null"),
        }
    }
    object.raw("stop_details", "null");
}

fn write_usage(object: &mut Members<'_>, usage: &Usage, tier: Option<&str>) {
    let plain = usage.input.saturating_sub(usage.cached).saturating_sub(usage.written);
    object.object("usage", |counts| {
        counts.number("input_tokens", plain);
        counts.number("cache_creation_input_tokens", usage.written);
        counts.number("cache_read_input_tokens", usage.cached);
        counts.object("cache_creation", |split| {
            let hour = usage.written_hour.min(usage.written);
            split.number("ephemeral_5m_input_tokens", usage.written - hour);
            split.number("ephemeral_1h_input_tokens", hour);
        });
        counts.number("output_tokens", usage.output);
        counts.object("output_tokens_details", |details| {
            details.number("thinking_tokens", usage.reasoning);
        });
        match usage.searches {
            0 => counts.raw("server_tool_use", "null"),
            searches => counts.object("server_tool_use", |tools| {
                tools.number("web_search_requests", searches);
                tools.number("web_fetch_requests", 0);
            }),
        }
        let tier = match tier {
            Some("priority" | "fast") => "priority",
            Some("batch") => "batch",
            _ => "standard",
        };
        counts.text("service_tier", tier);
        counts.raw("inference_geo", "null");
    });
}

/// The body of a whole response.
pub(crate) fn whole_response(response: &Response, context: &EncodeContext, out: &mut String) {
    let end = match &response.end {
        Some(Ok(end)) => end,
        _ => &End::default(),
    };
    object(out, |body| {
        write_head(body, &response.id, context.model_of(&response.model));
        body.array("content", |list| {
            let is_shown = |item: &OutputItem| !is_text_signature(item);
            let shown = response.items.iter().rposition(|(_, item)| is_shown(item));
            let items = &response.items[..shown.map_or(0, |last| last + 1)];
            for (at, (_, item)) in items.iter().enumerate() {
                let next = response.items.get(at + 1).map(|(_, item)| item);
                write_blocks(item, next, context, list);
            }
        });
        write_stop(body, Some(&end.stop));
        write_usage(body, &end.usage, end.service_tier.as_deref());
    });
}

fn write_blocks(
    item: &OutputItem,
    next: Option<&OutputItem>,
    context: &EncodeContext,
    list: &mut Elements<'_>,
) {
    match item {
        OutputItem::Message { text, refusal, annotations, .. } => {
            if text.is_empty() && refusal.is_empty() {
                return;
            }
            list.object(|block| {
                block.text("type", "text");
                block.text("text", &format!("{text}{refusal}"));
                if annotations.is_empty() {
                    return block.raw("citations", "null");
                }
                block.array("citations", |list| {
                    for json in annotations {
                        list.object(|citation| write_citation(citation, json));
                    }
                });
            });
        }
        OutputItem::Reasoning { .. } => {
            blocks_of(item, context).iter().for_each(|block| list.raw(block));
        }
        OutputItem::WebSearchCall { id, query, is_failed } => {
            // Its own blocks follow in the envelope.
            let own = next.map(|next| blocks_of(next, context)).unwrap_or_default();
            if !own.iter().any(|block| block.contains("\"server_tool_use\"")) {
                list.object(|block| write_search_use(block, id, query));
                list.object(|block| write_search_result(block, id, *is_failed));
            }
        }
        // An answer of Messages has no images.
        OutputItem::ImageCall { .. } | OutputItem::Other { .. } => {}
        _ => {
            if let Some((id, name, input, is_text)) = item.call() {
                list.object(|block| write_tool_use(block, id, &name, &arguments(input, is_text)));
            }
        }
    }
}
