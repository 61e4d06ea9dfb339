//! Encodes events of the internal form as a `streamGenerateContent` stream, and whole responses.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::context::EncodeContext;
use crate::envelope::{Envelope, Payload};
use crate::event::{End, Event, OutputItem, Stop, Usage};
use crate::json::{At, Elements, Members, Object, object, push_str, quoted};
use crate::kind::Wire;
use crate::offer::arguments;
use crate::response::Response;
use crate::warning::Warnings;

/// Encodes one response as a stream.
#[derive(Debug)]
pub struct Encoder {
    context: EncodeContext,
    /// Members at the end of each chunk.
    tail: String,
    /// Items whose text was sent.
    sent: Vec<u32>,
    /// The last part of a summary.
    thought: Option<(u32, u32)>,
    signature: Option<String>,
    grounding: Grounding,
    pub(crate) warnings: Warnings,
}

/// Searches and cited pages.
#[derive(Debug, Default)]
struct Grounding {
    queries: Vec<String>,
    /// Annotations of the Responses wire.
    pages: Vec<String>,
}

impl Encoder {
    /// Begins a response.
    #[must_use]
    pub fn new(context: EncodeContext) -> Self {
        Self {
            context,
            tail: String::new(),
            sent: Vec::new(),
            thought: None,
            signature: None,
            grounding: Grounding::default(),
            warnings: Warnings::default(),
        }
    }

    /// Appends the stream's bytes for an event.
    pub fn event(&mut self, event: &Event<'_>, out: &mut String) {
        match event {
            Event::Created { id, model, .. } => {
                let model = self.context.model_of(model);
                self.tail = format!(
                    ",\"modelVersion\":{},\"responseId\":{}}}\r\n\r\n",
                    quoted(model),
                    quoted(id)
                );
            }
            Event::TextDelta { index, text } | Event::RefusalDelta { index, text } => {
                self.mark_sent(*index);
                self.text("{\"text\":", text, out);
            }
            Event::SummaryDelta { index, part, text }
            | Event::ReasoningDelta { index, part, text } => {
                self.mark_sent(*index);
                let is_next = self.thought.is_some_and(|last| last != (*index, *part));
                self.thought = Some((*index, *part));
                if is_next {
                    self.text("{\"thought\":true,\"text\":", "\n\n", out);
                }
                self.text("{\"thought\":true,\"text\":", text, out);
            }
            Event::Annotation { json, .. } => self.grounding.pages.push((*json).to_owned()),
            Event::ItemDone { index, item } => self.item_done(*index, item, out),
            Event::ItemAdded { .. } | Event::ArgumentsDelta { .. } | Event::InputDelta { .. } => {}
            Event::Warning { member, reason } => self.warnings.add((*member).to_owned(), reason),
            Event::Ended(end) => {
                if end.stop == Stop::Pause {
                    self.warnings.add(
                        "status",
                        "a pause of the provider's tool looks like the answer's end",
                    );
                }
                self.flush_signature(out);
                self.chunk(out, |this, out| {
                    out.push_str("[{\"text\":\"\"}],\"role\":\"model\"},\"finishReason\":");
                    push_str(out, finish_reason(&end.stop));
                    out.push_str(",\"index\":0");
                    let mut members = String::new();
                    object(&mut members, |candidate| this.grounding.write(candidate));
                    if members.len() > 2 {
                        out.push(',');
                        out.push_str(&members[1..members.len() - 1]);
                    }
                    out.push_str("}],");
                    let mut usage = String::new();
                    object(&mut usage, |chunk| write_usage(chunk, &end.usage));
                    out.push_str(&usage[1..usage.len() - 1]);
                });
            }
            Event::Failed { failure, .. } => {
                let error = failure.body(Wire::Gemini);
                // The official client of JavaScript hands out every event unread, and finds errors only where none is:
                // a rest without the end of an event is never one.
                for piece in ["data: ", &error, "\r\n\r\n", &error] {
                    out.push_str(piece);
                }
            }
        }
    }

    fn mark_sent(&mut self, index: u32) {
        if self.sent.last() != Some(&index) {
            self.sent.push(index);
        }
    }

    /// Writes a chunk; `parts` writes the array of parts and what follows it, up to the end of the candidates.
    fn chunk(&self, out: &mut String, parts: impl FnOnce(&Self, &mut String)) {
        out.push_str("data: {\"candidates\":[{\"content\":{\"parts\":");
        parts(self, out);
        out.push_str(&self.tail);
    }

    fn text(&self, head: &str, text: &str, out: &mut String) {
        self.chunk(out, |_, out| {
            out.push('[');
            out.push_str(head);
            push_str(out, text);
            out.push_str("}],\"role\":\"model\"},\"index\":0}]");
        });
    }

    fn part(&self, out: &mut String, part: impl FnOnce(&mut Members<'_>)) {
        self.chunk(out, |_, out| {
            out.push('[');
            object(out, part);
            out.push_str("],\"role\":\"model\"},\"index\":0}]");
        });
    }

    fn flush_signature(&mut self, out: &mut String) {
        if let Some(signature) = self.signature.take() {
            self.part(out, |part| write_signature(part, &signature));
        }
    }

    fn item_done(&mut self, index: u32, item: &OutputItem, out: &mut String) {
        let is_sent = self.sent.contains(&index);
        match item {
            OutputItem::Message { text, refusal, .. } => {
                for text in [text, refusal].into_iter().filter(|text| !is_sent && !text.is_empty())
                {
                    self.text("{\"text\":", text, out);
                }
            }
            OutputItem::Reasoning { summary, content, .. } => {
                if !is_sent {
                    for text in summary.iter().chain(content) {
                        self.text("{\"thought\":true,\"text\":", text, out);
                    }
                }
                match signature_of(item, &self.context) {
                    Some((signature, true)) => {
                        self.flush_signature(out);
                        self.signature = Some(signature);
                    }
                    Some((signature, false)) => {
                        self.part(out, |part| write_signature(part, &signature));
                    }
                    None => {}
                }
            }
            OutputItem::WebSearchCall { query, .. } => self.grounding.queries.push(query.clone()),
            OutputItem::ImageCall { result, .. } => {
                self.part(out, |part| write_image(part, result));
            }
            OutputItem::Other { .. } => {
                self.warnings
                    .add("output[]", "an item of the Responses provider alone is left out");
            }
            _ => {
                let Some((id, name, input, is_text)) = item.call() else { return };
                let signature = self.signature.take();
                self.part(out, |part| {
                    write_call(part, id, &name, &arguments(input, is_text), signature.as_deref());
                });
            }
        }
    }
}

/// The signature of a reasoning item, and true if it belongs to the next call.
fn signature_of(item: &OutputItem, context: &EncodeContext) -> Option<(String, bool)> {
    let OutputItem::Reasoning { id, encrypted: Some(encrypted), .. } = item else { return None };
    Some(match Envelope::inside(encrypted) {
        Some(Envelope { wire: Wire::Gemini, payload: Payload::CallSignature(text), .. }) => {
            (text, true)
        }
        Some(Envelope { wire: Wire::Gemini, payload: Payload::TextSignature(text), .. }) => {
            (text, false)
        }
        _ => (STANDARD.encode(context.sealed(id, encrypted)), false),
    })
}

fn write_signature(part: &mut Members<'_>, signature: &str) {
    part.text("text", "");
    part.text("thoughtSignature", signature);
}

fn write_image(part: &mut Members<'_>, base64: &str) {
    part.object("inlineData", |data| {
        data.text("mimeType", "image/png");
        data.text("data", base64);
    });
}

fn write_call(part: &mut Members<'_>, id: &str, name: &str, args: &str, signature: Option<&str>) {
    part.object("functionCall", |call| {
        call.text("id", id);
        call.text("name", name);
        call.raw("args", args);
    });
    part.opt_text("thoughtSignature", signature);
}

impl Grounding {
    fn write(&self, candidate: &mut Members<'_>) {
        if self.queries.is_empty() && self.pages.is_empty() {
            return;
        }
        candidate.object("groundingMetadata", |grounding| {
            grounding.texts("webSearchQueries", &self.queries);
            grounding.array("groundingChunks", |list| {
                for json in &self.pages {
                    let at = At::Root;
                    let mut page = Object::read_str(json, &at).unwrap_or_default();
                    let mut text =
                        |name| page.opt_text(&at, name).ok().flatten().unwrap_or_default();
                    let (url, title) = (text("url"), text("title"));
                    list.object(|chunk| {
                        chunk.object("web", |web| {
                            web.text("uri", &url);
                            web.text("title", &title);
                        });
                    });
                }
            });
        });
    }
}

fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::EndTurn | Stop::ToolUse | Stop::StopSequence(_) | Stop::Pause => "STOP",
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Filter => "SAFETY",
    }
}

fn write_usage(chunk: &mut Members<'_>, usage: &Usage) {
    chunk.object("usageMetadata", |counts| {
        counts.number("promptTokenCount", usage.input);
        counts.number("cachedContentTokenCount", usage.cached);
        counts.number("candidatesTokenCount", usage.output.saturating_sub(usage.reasoning));
        counts.number("thoughtsTokenCount", usage.reasoning);
        counts.number("totalTokenCount", usage.total());
    });
}

/// The body of a whole response.
pub(crate) fn whole_response(response: &Response, context: &EncodeContext, out: &mut String) {
    let end = match &response.end {
        Some(Ok(end)) => end,
        _ => &End::default(),
    };
    let mut grounding = Grounding::default();
    object(out, |body| {
        body.array("candidates", |list| {
            list.object(|candidate| {
                candidate.object("content", |content| {
                    content.array("parts", |parts| {
                        let mut signature = None;
                        for (_, item) in &response.items {
                            write_parts(item, context, &mut signature, &mut grounding, parts);
                        }
                        if let Some(signature) = signature {
                            parts.object(|part| write_signature(part, &signature));
                        }
                    });
                    content.text("role", "model");
                });
                candidate.text("finishReason", finish_reason(&end.stop));
                candidate.number("index", 0);
                grounding.write(candidate);
            });
        });
        write_usage(body, &end.usage);
        body.text("modelVersion", context.model_of(&response.model));
        body.text("responseId", &response.id);
    });
}

fn write_parts(
    item: &OutputItem,
    context: &EncodeContext,
    signature: &mut Option<String>,
    grounding: &mut Grounding,
    parts: &mut Elements<'_>,
) {
    match item {
        OutputItem::Message { text, refusal, annotations, .. } => {
            for text in [text, refusal].into_iter().filter(|text| !text.is_empty()) {
                parts.object(|part| part.text("text", text));
            }
            grounding.pages.extend(annotations.iter().cloned());
        }
        OutputItem::Reasoning { summary, content, .. } => {
            for text in summary.iter().chain(content) {
                parts.object(|part| {
                    part.bool("thought", true);
                    part.text("text", text);
                });
            }
            match signature_of(item, context) {
                Some((own, true)) => *signature = Some(own),
                Some((own, false)) => parts.object(|part| write_signature(part, &own)),
                None => {}
            }
        }
        OutputItem::WebSearchCall { query, .. } => grounding.queries.push(query.clone()),
        OutputItem::ImageCall { result, .. } => parts.object(|part| write_image(part, result)),
        OutputItem::Other { .. } => {}
        _ => {
            let Some((id, name, input, is_text)) = item.call() else { return };
            let own = signature.take();
            parts.object(|part| {
                write_call(part, id, &name, &arguments(input, is_text), own.as_deref());
            });
        }
    }
}
