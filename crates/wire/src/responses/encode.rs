//! Encodes events of the internal form as a Responses stream, and whole responses.

use crate::context::EncodeContext;
use crate::event::{End, Event, OutputItem, Stop, Usage, write_text};
use crate::failure::Failure;
use crate::json::{Members, object, push_number, push_str};
use crate::response::Response;
use crate::warning::Warnings;

/// Encodes one response as a stream.
#[derive(Debug)]
pub struct Encoder {
    context: EncodeContext,
    id: String,
    model: String,
    sequence: u64,
    items: Vec<Item>,
    /// JSON of the finished items, by their positions.
    output: Vec<(u32, String)>,
    pub(crate) warnings: Warnings,
}

/// An item under way.
#[derive(Debug)]
struct Item {
    index: u32,
    id: String,
    part: Option<Part>,
}

/// The part that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Text,
    Refusal,
    Summary(u32),
    Reasoning(u32),
}

impl Encoder {
    /// Begins a response.
    #[must_use]
    pub fn new(context: EncodeContext) -> Self {
        Self {
            context,
            id: String::new(),
            model: String::new(),
            sequence: 0,
            items: Vec::new(),
            output: Vec::new(),
            warnings: Warnings::default(),
        }
    }

    /// Goes on with a response of which events were sent.
    #[must_use]
    pub fn resumed(context: EncodeContext, id: &str, events: u64) -> Self {
        let model = context.model.clone();
        Self { id: id.to_owned(), model, sequence: events, ..Self::new(context) }
    }

    /// Appends the stream's bytes for an event.
    pub fn event(&mut self, event: &Event<'_>, out: &mut String) {
        match event {
            Event::Created { id, model, .. } => {
                self.id = self
                    .context
                    .kept
                    .as_ref()
                    .map_or_else(|| response_id(id), |kept| kept.id.clone());
                self.model = self.context.model_of(model).to_owned();
                for kind in ["response.created", "response.in_progress"] {
                    self.write(kind, out, |this, event| {
                        event.object("response", |response| {
                            this.response(response, "in_progress", None, None);
                        });
                    });
                }
            }
            Event::ItemAdded { index, item } => {
                self.items.push(Item { index: *index, id: item.id().to_owned(), part: None });
                self.write("response.output_item.added", out, |_, event| {
                    event.number("output_index", (*index).into());
                    write_item(event, item, "in_progress");
                });
            }
            Event::TextDelta { index, text } => self.delta(*index, Part::Text, text, out),
            Event::RefusalDelta { index, text } => self.delta(*index, Part::Refusal, text, out),
            Event::SummaryDelta { index, part, text } => {
                self.delta(*index, Part::Summary(*part), text, out);
            }
            Event::ReasoningDelta { index, part, text } => {
                self.delta(*index, Part::Reasoning(*part), text, out);
            }
            Event::ArgumentsDelta { index, text } => {
                self.plain_delta("response.function_call_arguments.delta", *index, text, out);
            }
            Event::InputDelta { index, text } => {
                self.plain_delta("response.custom_tool_call_input.delta", *index, text, out);
            }
            Event::Annotation { index, json } => {
                self.open_part(*index, Part::Text, out);
                let id = self.item_id(*index);
                self.write("response.output_text.annotation.added", out, |_, event| {
                    event.text("item_id", &id);
                    event.number("output_index", (*index).into());
                    event.number("content_index", 0);
                    event.raw("annotation", json);
                });
            }
            Event::ItemDone { index, item } => self.item_done(*index, item, out),
            Event::Warning { member, reason } => self.warnings.add((*member).to_owned(), reason),
            Event::Ended(end) => {
                let (kind, status) = match end.stop.incomplete() {
                    Some(_) => ("response.incomplete", "incomplete"),
                    None => ("response.completed", "completed"),
                };
                self.write(kind, out, |this, event| {
                    event.object("response", |response| {
                        this.response(response, status, Some(end), None);
                    });
                });
            }
            Event::Failed { failure, usage } => {
                self.write("response.failed", out, |this, event| {
                    let end = End { usage: *usage, ..End::default() };
                    event.object("response", |response| {
                        this.response(response, "failed", Some(&end), Some(failure));
                    });
                });
            }
        }
    }

    /// Writes an event of the type `kind`.
    fn write(
        &mut self,
        kind: &str,
        out: &mut String,
        members: impl FnOnce(&Self, &mut Members<'_>),
    ) {
        let sequence = self.sequence;
        self.sequence += 1;
        out.push_str("event: ");
        out.push_str(kind);
        out.push_str("\ndata: ");
        object(out, |event| {
            event.text("type", kind);
            event.number("sequence_number", sequence);
            members(self, event);
        });
        out.push_str("\n\n");
    }

    fn item_id(&self, index: u32) -> String {
        self.find(index).map(|item| item.id.clone()).unwrap_or_default()
    }

    fn find(&self, index: u32) -> Option<&Item> {
        self.items.iter().rev().find(|item| item.index == index)
    }

    fn delta(&mut self, index: u32, part: Part, text: &str, out: &mut String) {
        if self.find(index).is_none_or(|item| item.part != Some(part)) {
            self.open_part(index, part, out);
        }
        let (kind, name, number) = match part {
            Part::Text => ("response.output_text.delta", "content_index", 0),
            Part::Refusal => ("response.refusal.delta", "content_index", 0),
            Part::Summary(part) => ("response.reasoning_summary_text.delta", "summary_index", part),
            Part::Reasoning(part) => ("response.reasoning_text.delta", "content_index", part),
        };
        self.frame(kind, index, Some((name, number)), text, out);
        if part == Part::Text {
            // The frame ends with the closed object.
            out.truncate(out.len() - "}\n\n".len());
            out.push_str(",\"logprobs\":[]}\n\n");
        }
    }

    fn plain_delta(&mut self, kind: &str, index: u32, text: &str, out: &mut String) {
        self.frame(kind, index, None, text, out);
    }

    /// Writes a delta without an allocation.
    fn frame(
        &mut self,
        kind: &str,
        index: u32,
        part: Option<(&str, u32)>,
        text: &str,
        out: &mut String,
    ) {
        let sequence = self.sequence;
        self.sequence += 1;
        for piece in ["event: ", kind, "\ndata: {\"type\":\"", kind, "\",\"sequence_number\":"] {
            out.push_str(piece);
        }
        push_number(out, sequence);
        out.push_str(",\"item_id\":");
        push_str(out, self.find(index).map_or("", |item| &item.id));
        out.push_str(",\"output_index\":");
        push_number(out, index.into());
        if let Some((name, number)) = part {
            for piece in [",\"", name, "\":"] {
                out.push_str(piece);
            }
            push_number(out, number.into());
        }
        out.push_str(",\"delta\":");
        push_str(out, text);
        out.push_str("}\n\n");
    }

    fn open_part(&mut self, index: u32, part: Part, out: &mut String) {
        let Some(item) = self.items.iter_mut().rev().find(|item| item.index == index) else {
            return;
        };
        if item.part.replace(part) == Some(part) {
            return;
        }
        let id = item.id.clone();
        let (event_kind, name, number) = match part {
            Part::Summary(number) => {
                ("response.reasoning_summary_part.added", "summary_index", number)
            }
            Part::Reasoning(number) => ("response.content_part.added", "content_index", number),
            Part::Text | Part::Refusal => ("response.content_part.added", "content_index", 0),
        };
        self.write(event_kind, out, |_, event| {
            event.text("item_id", &id);
            event.number("output_index", index.into());
            event.number(name, number.into());
            event.object("part", |object| write_part(object, part, "", &[]));
        });
    }

    fn item_done(&mut self, index: u32, item: &OutputItem, out: &mut String) {
        match item {
            OutputItem::Message { text, refusal, annotations, .. } => {
                if !text.is_empty() {
                    self.part_done(index, Part::Text, text, annotations, out);
                }
                if !refusal.is_empty() {
                    self.part_done(index, Part::Refusal, refusal, &[], out);
                }
            }
            OutputItem::Reasoning { summary, content, .. } => {
                let numbered = |texts: &[String]| -> Vec<(u32, String)> {
                    (0..).zip(texts.to_vec()).collect()
                };
                for (number, text) in numbered(summary) {
                    self.part_done(index, Part::Summary(number), &text, &[], out);
                }
                for (number, text) in numbered(content) {
                    self.part_done(index, Part::Reasoning(number), &text, &[], out);
                }
            }
            OutputItem::FunctionCall { arguments, name, .. } => {
                let id = self.item_id(index);
                self.write("response.function_call_arguments.done", out, |_, event| {
                    event.text("item_id", &id);
                    event.number("output_index", index.into());
                    event.text("name", name);
                    event.text("arguments", arguments);
                });
            }
            OutputItem::CustomToolCall { input, .. } => {
                let id = self.item_id(index);
                self.write("response.custom_tool_call_input.done", out, |_, event| {
                    event.text("item_id", &id);
                    event.number("output_index", index.into());
                    event.text("input", input);
                });
            }
            _ => {}
        }
        self.items.retain(|open| open.index != index);
        self.write("response.output_item.done", out, |_, event| {
            event.number("output_index", index.into());
            write_item(event, item, "completed");
        });
        let at = self.output.partition_point(|(other, _)| *other <= index);
        self.output.insert(at, (index, item.to_json()));
    }

    /// Ends a part, and begins it first if none of it was streamed.
    fn part_done(
        &mut self,
        index: u32,
        part: Part,
        text: &str,
        annotations: &[String],
        out: &mut String,
    ) {
        self.open_part(index, part, out);
        let id = self.item_id(index);
        let (kind, whole_kind, name, number) = match part {
            Part::Text => {
                ("response.output_text.done", "response.content_part.done", "content_index", 0)
            }
            Part::Refusal => {
                ("response.refusal.done", "response.content_part.done", "content_index", 0)
            }
            Part::Summary(number) => (
                "response.reasoning_summary_text.done",
                "response.reasoning_summary_part.done",
                "summary_index",
                number,
            ),
            Part::Reasoning(number) => (
                "response.reasoning_text.done",
                "response.content_part.done",
                "content_index",
                number,
            ),
        };
        self.write(kind, out, |_, event| {
            event.text("item_id", &id);
            event.number("output_index", index.into());
            event.number(name, number.into());
            event.text(if part == Part::Refusal { "refusal" } else { "text" }, text);
            if part == Part::Text {
                event.raw("logprobs", "[]");
            }
        });
        self.write(whole_kind, out, |_, event| {
            event.text("item_id", &id);
            event.number("output_index", index.into());
            event.number(name, number.into());
            event.object("part", |object| write_part(object, part, text, annotations));
        });
    }

    fn response(
        &self,
        response: &mut Members<'_>,
        status: &str,
        end: Option<&End>,
        failure: Option<&Failure>,
    ) {
        write_head(response, (&self.id, &self.model), &self.context, status);
        write_end(response, end, failure);
        response.array("output", |list| self.output.iter().for_each(|(_, json)| list.raw(json)));
    }
}

fn write_part(object: &mut Members<'_>, part: Part, text: &str, annotations: &[String]) {
    match part {
        Part::Text => {
            write_text(object, text, annotations);
            object.raw("logprobs", "[]");
        }
        Part::Refusal => {
            object.text("type", "refusal");
            object.text("refusal", text);
        }
        Part::Summary(_) => {
            object.text("type", "summary_text");
            object.text("text", text);
        }
        Part::Reasoning(_) => {
            object.text("type", "reasoning_text");
            object.text("text", text);
        }
    }
}

fn write_item(event: &mut Members<'_>, item: &OutputItem, status: &str) {
    match item {
        OutputItem::Other { json, .. } => event.raw("item", json),
        item => event.object("item", |object| item.write(object, status)),
    }
}

/// Ids of this wire's responses begin with `resp_`.
fn response_id(id: &str) -> String {
    if id.starts_with("resp") { id.to_owned() } else { format!("resp_{id}") }
}

fn write_head(
    response: &mut Members<'_>,
    (id, model): (&str, &str),
    context: &EncodeContext,
    status: &str,
) {
    response.text("id", id);
    response.text("object", "response");
    response.number("created_at", context.created_at);
    response.text("status", status);
    response.text("model", model);
    // Members that the official clients require.
    for (name, json) in [
        ("instructions", "null"),
        ("metadata", "{}"),
        ("parallel_tool_calls", "true"),
        ("temperature", "null"),
        ("tool_choice", "\"auto\""),
        ("tools", "[]"),
        ("top_p", "null"),
    ] {
        response.raw(name, json);
    }
    response.bool("store", context.kept.is_some());
    if let Some(kept) = &context.kept {
        response.opt_text("previous_response_id", kept.previous.as_deref());
    }
}

fn write_end(response: &mut Members<'_>, end: Option<&End>, failure: Option<&Failure>) {
    match failure {
        Some(failure) => response.object("error", |error| {
            error.text("code", failure.responses_code());
            error.text("message", &failure.message);
        }),
        None => response.raw("error", "null"),
    }
    match end.and_then(|end| end.stop.incomplete()) {
        Some(reason) => {
            response.object("incomplete_details", |details| details.text("reason", reason));
        }
        None => response.raw("incomplete_details", "null"),
    }
    // A response that goes on after a pause: clients that do not know it send it back all the same.
    if end.is_some_and(|end| end.stop == Stop::Pause) {
        response.bool("end_turn", false);
    }
    if let Some(tier) = end.and_then(|end| end.service_tier.as_deref()) {
        response.text("service_tier", tier);
    }
    match end {
        Some(end) if failure.is_none() || end.usage != Usage::default() => {
            end.usage.write(response);
        }
        _ => response.raw("usage", "null"),
    }
}

/// The body of a whole response.
pub(crate) fn whole_response(response: &Response, context: &EncodeContext, out: &mut String) {
    object(out, |body| {
        let (status, end, failure) = match &response.end {
            Some(Ok(end)) if end.stop.incomplete().is_some() => ("incomplete", Some(end), None),
            Some(Ok(end)) => ("completed", Some(end), None),
            Some(Err(failure)) => ("failed", None, Some(failure)),
            None => ("in_progress", None, None),
        };
        let model = context.model_of(&response.model);
        let id = context.kept.as_ref();
        let id = id.map_or_else(|| response_id(&response.id), |kept| kept.id.clone());
        write_head(body, (&id, model), context, status);
        write_end(body, end, failure);
        body.array("output", |list| {
            response.items.iter().for_each(|(_, item)| list.raw(&item.to_json()));
        });
    });
}
