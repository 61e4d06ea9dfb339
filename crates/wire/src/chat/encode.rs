//! Encodes events of the internal form as a Chat Completions stream, and whole responses.

use crate::context::EncodeContext;
use crate::envelope::{Envelope, Payload};
use crate::event::{End, Event, OutputItem, Stop, Usage};
use crate::json::{At, Members, Object, array_of, object, push_number, push_str};
use crate::kind::Wire;
use crate::response::Response;
use crate::warning::Warnings;

/// Encodes one response as a stream.
#[derive(Debug)]
pub struct Encoder {
    context: EncodeContext,
    /// Everything of a chunk before its delta.
    head: String,
    /// Calls so far, in the order of their indices: their items, ids, and whether some of their text was sent.
    calls: Vec<Call>,
    /// Item of the reasoning and number of its part that came last.
    thought: Option<(u32, u32)>,
    /// Items whose text was sent.
    sent: Vec<u32>,
    pub(crate) warnings: Warnings,
}

#[derive(Debug)]
struct Call {
    item: u32,
    id: String,
    has_delta: bool,
}

const TAIL: &str = ",\"logprobs\":null,\"finish_reason\":null}]}\n\n";

impl Encoder {
    /// Begins a response.
    #[must_use]
    pub fn new(context: EncodeContext) -> Self {
        Self {
            context,
            head: String::new(),
            calls: Vec::new(),
            thought: None,
            sent: Vec::new(),
            warnings: Warnings::default(),
        }
    }

    /// Appends the stream's bytes for an event.
    pub fn event(&mut self, event: &Event<'_>, out: &mut String) {
        match event {
            Event::Created { id, model, .. } => {
                self.head = self.head_of(id, model);
                self.chunk(out, |out| {
                    out.push_str("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}");
                });
            }
            Event::ItemAdded { index, item } => self.begin_call(*index, item, out),
            Event::TextDelta { index, text } => {
                self.mark_sent(*index);
                self.text("content", text, out);
            }
            Event::RefusalDelta { index, text } => {
                self.mark_sent(*index);
                self.text("refusal", text, out);
            }
            Event::SummaryDelta { index, part, text }
            | Event::ReasoningDelta { index, part, text } => {
                self.mark_sent(*index);
                if self.thought.is_some_and(|last| last != (*index, *part)) {
                    self.text("reasoning_content", "\n\n", out);
                }
                self.thought = Some((*index, *part));
                self.text("reasoning_content", text, out);
            }
            Event::Annotation { json, .. } => self.chunk(out, |out| {
                object(out, |delta| write_annotations(delta, &[(*json).to_owned()]));
            }),
            Event::ArgumentsDelta { index, text } => {
                self.call_text(*index, "function", "arguments", text, out);
            }
            Event::InputDelta { index, text } => {
                self.call_text(*index, "custom", "input", text, out);
            }
            Event::ItemDone { index, item } => self.item_done(*index, item, out),
            Event::Warning { member, reason } => self.warnings.add((*member).to_owned(), reason),
            Event::Ended(end) => self.end(end, out),
            Event::Failed { failure, .. } => {
                out.push_str("data: ");
                object(out, |chunk| {
                    chunk.object("error", |error| failure.write(Wire::Chat, error));
                });
                out.push_str("\n\n");
            }
        }
    }

    fn head_of(&self, id: &str, model: &str) -> String {
        let mut head = String::from("data: ");
        object(&mut head, |chunk| {
            write_head(
                chunk,
                id,
                "chat.completion.chunk",
                self.context.created_at,
                self.context.model_of(model),
            );
        });
        head.pop();
        head
    }

    /// Writes a chunk with a delta.
    fn chunk(&self, out: &mut String, delta: impl FnOnce(&mut String)) {
        out.push_str(&self.head);
        out.push_str(",\"choices\":[{\"index\":0,\"delta\":");
        delta(out);
        out.push_str(TAIL);
    }

    fn text(&self, member: &str, text: &str, out: &mut String) {
        self.chunk(out, |out| {
            for piece in ["{\"", member, "\":"] {
                out.push_str(piece);
            }
            push_str(out, text);
            out.push('}');
        });
    }

    fn mark_sent(&mut self, index: u32) {
        if self.sent.last() != Some(&index) {
            self.sent.push(index);
        }
    }

    fn begin_call(&mut self, index: u32, item: &OutputItem, out: &mut String) {
        let Some((id, name, _, is_text)) = item.call() else { return };
        let number = self.calls.len() as u64;
        self.calls.push(Call { item: index, id: id.to_owned(), has_delta: false });
        self.chunk(out, |out| {
            out.push_str("{\"tool_calls\":[");
            object(out, |call| {
                call.number("index", number);
                write_call(call, id, &name, "", is_text);
            });
            out.push_str("]}");
        });
    }

    fn call_text(&mut self, index: u32, kind: &str, member: &str, text: &str, out: &mut String) {
        let Some(number) = self.calls.iter().rposition(|call| call.item == index) else { return };
        self.calls[number].has_delta = true;
        self.chunk(out, |out| {
            out.push_str("{\"tool_calls\":[{\"index\":");
            push_number(out, number as u64);
            for piece in [",\"", kind, "\":{\"", member, "\":"] {
                out.push_str(piece);
            }
            push_str(out, text);
            out.push_str("}}]}");
        });
    }

    fn item_done(&mut self, index: u32, item: &OutputItem, out: &mut String) {
        match item {
            OutputItem::Message { text, refusal, .. } => {
                if !self.sent.contains(&index) {
                    for (member, text) in [("content", text), ("refusal", refusal)] {
                        if !text.is_empty() {
                            self.text(member, text, out);
                        }
                    }
                }
            }
            OutputItem::Reasoning { summary, content, .. } => {
                let texts: Vec<&str> = summary.iter().chain(content).map(String::as_str).collect();
                if !self.sent.contains(&index) && !texts.is_empty() {
                    self.text("reasoning_content", &texts.join("\n\n"), out);
                }
                match carried(item, &self.context) {
                    Some(Carried::Details(json)) => self.chunk(out, |out| {
                        object(out, |delta| delta.raw("reasoning_details", &json));
                    }),
                    Some(Carried::OfCall { call_id, name, json }) => {
                        let number = self.calls.iter().position(|call| call.id == call_id);
                        self.chunk(out, |out| {
                            object(out, |delta| {
                                delta.array("tool_calls", |list| {
                                    list.object(|call| {
                                        call.number("index", number.unwrap_or_default() as u64);
                                        call.raw(&name, &json);
                                    });
                                });
                            });
                        });
                    }
                    None => {}
                }
            }
            OutputItem::WebSearchCall { .. } => {
                self.warnings.add("output[]", "a search of the web has no place in the answer");
            }
            OutputItem::ImageCall { .. } => {
                self.warnings.add("output[]", "an answer of Chat Completions has no images");
            }
            OutputItem::Other { .. } => {
                self.warnings
                    .add("output[]", "an item of the Responses provider alone is left out");
            }
            _ => {
                if !self.calls.iter().any(|call| call.item == index) {
                    self.begin_call(index, item, out);
                }
                let sent = self.calls.iter().any(|call| call.item == index && call.has_delta);
                if let Some((_, _, input, is_text)) = item.call()
                    && !sent
                {
                    let (kind, member) =
                        if is_text { ("custom", "input") } else { ("function", "arguments") };
                    self.call_text(index, kind, member, input, out);
                }
            }
        }
    }

    fn end(&mut self, end: &End, out: &mut String) {
        out.push_str(&self.head);
        out.push_str(
            ",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"",
        );
        out.push_str(finish_reason(&end.stop));
        out.push_str("\"}]}\n\n");
        if end.stop == Stop::Pause {
            self.warnings
                .add("status", "a pause of the provider's tool looks like the answer's end");
        }
        if self.context.stream_usage {
            out.push_str(&self.head);
            out.push_str(",\"choices\":[],");
            let mut usage = String::new();
            object(&mut usage, |chunk| write_usage(chunk, &end.usage));
            out.push_str(&usage[1..usage.len() - 1]);
            if let Some(tier) = &end.service_tier {
                out.push_str(",\"service_tier\":");
                push_str(out, tier);
            }
            out.push_str("}\n\n");
        }
        out.push_str("data: [DONE]\n\n");
    }
}

/// Reasoning that comes back with the next request.
enum Carried {
    /// A list for `reasoning_details`.
    Details(String),
    OfCall {
        call_id: String,
        name: String,
        json: String,
    },
}

fn carried(item: &OutputItem, context: &EncodeContext) -> Option<Carried> {
    let OutputItem::Reasoning { id, encrypted: Some(encrypted), .. } = item else { return None };
    match Envelope::inside(encrypted) {
        Some(Envelope { wire: Wire::Chat, payload, .. }) => match payload {
            Payload::Member { name, json } if name == "reasoning_details" => {
                Some(Carried::Details(json))
            }
            Payload::CallMember { call_id, name, json } => {
                Some(Carried::OfCall { call_id, name, json })
            }
            // The text itself comes back.
            _ => None,
        },
        _ => {
            let mut out = String::new();
            array_of(&mut out, |list| {
                list.object(|detail| {
                    detail.text("type", "reasoning.encrypted");
                    detail.text("data", &context.sealed(id, encrypted));
                    detail.text("id", id);
                    detail.text("format", "wire");
                    detail.number("index", 0);
                });
            });
            Some(Carried::Details(out))
        }
    }
}

fn write_head(chunk: &mut Members<'_>, id: &str, kind: &str, created: u64, model: &str) {
    let id = if id.starts_with("chatcmpl") { id.to_owned() } else { format!("chatcmpl-{id}") };
    chunk.text("id", &id);
    chunk.text("object", kind);
    chunk.number("created", created);
    chunk.text("model", model);
}

fn write_call(call: &mut Members<'_>, id: &str, name: &str, text: &str, is_text: bool) {
    call.text("id", id);
    let (kind, member) = if is_text { ("custom", "input") } else { ("function", "arguments") };
    call.text("type", kind);
    call.object(kind, |object| {
        object.text("name", name);
        object.text(member, text);
    });
}

fn write_annotations(object: &mut Members<'_>, annotations: &[String]) {
    object.array("annotations", |list| {
        for json in annotations {
            let mut citation = Object::read_str(json, &At::Root).unwrap_or_default();
            citation.take("type");
            list.object(|annotation| {
                annotation.text("type", "url_citation");
                annotation.object("url_citation", |members| citation.copy_rest(members));
            });
        }
    });
}

fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::StopSequence(_) | Stop::Pause => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Filter => "content_filter",
    }
}

fn write_usage(object: &mut Members<'_>, usage: &Usage) {
    object.object("usage", |counts| {
        counts.number("prompt_tokens", usage.input);
        counts.number("completion_tokens", usage.output);
        counts.number("total_tokens", usage.total());
        counts.object("prompt_tokens_details", |details| {
            details.number("cached_tokens", usage.cached);
            if usage.written > 0 {
                details.number("cache_write_tokens", usage.written);
            }
        });
        counts.object("completion_tokens_details", |details| {
            details.number("reasoning_tokens", usage.reasoning);
        });
    });
}

/// The body of a whole response.
pub(crate) fn whole_response(response: &Response, context: &EncodeContext, out: &mut String) {
    let end = match &response.end {
        Some(Ok(end)) => end,
        _ => &End::default(),
    };
    let (mut content, mut refusal, mut thoughts) = (String::new(), String::new(), Vec::new());
    let (mut annotations, mut details, mut extras) = (Vec::new(), Vec::new(), Vec::new());
    for (_, item) in &response.items {
        match item {
            OutputItem::Message { text, refusal: no, annotations: list, .. } => {
                content.push_str(text);
                refusal.push_str(no);
                annotations.extend(list.iter().cloned());
            }
            OutputItem::Reasoning { summary, content, .. } => {
                thoughts.extend(summary.iter().chain(content).map(String::as_str));
                match carried(item, context) {
                    Some(Carried::Details(json)) => {
                        details.push(json[1..json.len() - 1].to_owned());
                    }
                    Some(Carried::OfCall { call_id, name, json }) => {
                        extras.push((call_id, name, json));
                    }
                    None => {}
                }
            }
            _ => {}
        }
    }
    let calls: Vec<_> = response.items.iter().filter_map(|(_, item)| item.call()).collect();
    object(out, |body| {
        let model = context.model_of(&response.model);
        write_head(body, &response.id, "chat.completion", context.created_at, model);
        body.array("choices", |choices| {
            choices.object(|choice| {
                choice.number("index", 0);
                choice.object("message", |message| {
                    message.text("role", "assistant");
                    match content.as_str() {
                        "" => message.raw("content", "null"),
                        text => message.text("content", text),
                    }
                    match refusal.as_str() {
                        "" => message.raw("refusal", "null"),
                        text => message.text("refusal", text),
                    }
                    if !thoughts.is_empty() {
                        message.text("reasoning_content", &thoughts.join("\n\n"));
                    }
                    if !details.is_empty() {
                        message.raw("reasoning_details", &format!("[{}]", details.join(",")));
                    }
                    write_annotations(message, &annotations);
                    if !calls.is_empty() {
                        message.array("tool_calls", |list| {
                            for (id, name, text, is_text) in &calls {
                                list.object(|call| {
                                    write_call(call, id, name, text, *is_text);
                                    let own = extras.iter().filter(|(of, ..)| of == id);
                                    own.for_each(|(_, name, json)| call.raw(name, json));
                                });
                            }
                        });
                    }
                });
                choice.raw("logprobs", "null");
                choice.text("finish_reason", finish_reason(&end.stop));
            });
        });
        write_usage(body, &end.usage);
        if let Some(tier) = &end.service_tier {
            body.text("service_tier", tier);
        }
    });
}
