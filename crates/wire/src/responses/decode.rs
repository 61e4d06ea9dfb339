//! Decodes the events of a Responses stream to the internal form.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::builder::{MAX_IDLE_EVENTS, MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS, Sink};
use crate::builder::{ResponseContext, believed, event_text, foreign_wire, malformed, other_wire};
use crate::event::{End, Event as Decoded, OutputItem, Stop, Usage};
use crate::failure::{Failure, FailureKind};
use crate::json::{At, Count, Lenient, Object, Tokens};
use crate::kind::Wire;

/// Decodes one response.
#[derive(Debug)]
pub struct Decoder {
    context: ResponseContext,
    is_created: bool,
    is_ended: bool,
    /// Positions of finished items.
    done: Vec<u32>,
    has_calls: bool,
    bytes: usize,
    idle: u32,
    /// Parts of reasoning whose text was streamed raw.
    usage: Usage,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Lenient<'a>,
    output_index: Count,
    summary_index: Count,
    content_index: Count,
    #[serde(borrow)]
    delta: Lenient<'a>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    annotation: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl Decoder {
    /// Decodes the response of a request.
    #[must_use]
    pub fn new(context: ResponseContext) -> Self {
        Self {
            context,
            is_created: false,
            is_ended: false,
            done: Vec::new(),
            has_calls: false,
            bytes: 0,
            idle: 0,
            usage: Usage::default(),
        }
    }

    /// True after the end; later data is ignored.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Reads the data of one event.
    pub fn event(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        if self.is_ended {
            return;
        }
        let read = event_text(data, Wire::Responses).and_then(|text| self.read(&text, sink));
        if let Err(failure) = read {
            self.fail(&failure, sink);
        }
    }

    /// Reads an answer that is no stream.
    pub fn document(&mut self, data: &[u8], sink: &mut Sink<'_>) {
        let read = event_text(data, Wire::Responses).and_then(|text| {
            let raw: &RawValue =
                serde_json::from_str(&text).map_err(|error| malformed(Wire::Responses, error))?;
            self.create(Some(raw), sink);
            self.end("", Some(raw), sink)
        });
        if let Err(failure) = read {
            self.fail(&failure, sink);
        }
    }

    /// Ends the stream.
    pub fn finish(&mut self, sink: &mut Sink<'_>) {
        let message = "The model server closed the stream before the response was complete.";
        self.fail(&Failure::new(FailureKind::Disconnected, message), sink);
    }

    fn fail(&mut self, failure: &Failure, sink: &mut Sink<'_>) {
        if self.is_ended {
            return;
        }
        self.create(None, sink);
        self.is_ended = true;
        let usage = believed(self.usage, sink);
        sink(Decoded::Failed { failure, usage });
    }

    fn read(&mut self, text: &str, sink: &mut Sink<'_>) -> Result<(), Failure> {
        let event: Event<'_> = match serde_json::from_str(text) {
            Ok(event) => event,
            Err(_) if text.trim() == "[DONE]" => return Ok(()),
            Err(error) => return Err(malformed(Wire::Responses, error)),
        };
        let number = |count: Count| u32::try_from(count.0.unwrap_or_default()).unwrap_or(u32::MAX);
        let index = number(event.output_index);
        let delta = event.delta.as_str();
        self.bytes = self.bytes.saturating_add(delta.len());
        if self.bytes > MAX_RESPONSE_BYTES {
            let message = format!("The model's response exceeds {} MiB.", MAX_RESPONSE_BYTES >> 20);
            return Err(Failure::new(FailureKind::Malformed, &message));
        }
        self.idle += 1;
        if self.idle > MAX_IDLE_EVENTS {
            let message = "The model's response has stalled: too many events in a row add nothing.";
            return Err(Failure::new(FailureKind::Timeout, message));
        }
        self.idle = if delta.is_empty() && event.item.is_none() { self.idle } else { 0 };
        match event.kind.as_str() {
            "response.output_text.delta" => sink(Decoded::TextDelta { index, text: delta }),
            "response.refusal.delta" => sink(Decoded::RefusalDelta { index, text: delta }),
            "response.reasoning_summary_text.delta" => {
                sink(Decoded::SummaryDelta {
                    index,
                    part: number(event.summary_index),
                    text: delta,
                });
            }
            "response.reasoning_text.delta" => {
                sink(Decoded::ReasoningDelta {
                    index,
                    part: number(event.content_index),
                    text: delta,
                });
            }
            "response.function_call_arguments.delta" => {
                sink(Decoded::ArgumentsDelta { index, text: delta });
            }
            "response.custom_tool_call_input.delta" => {
                sink(Decoded::InputDelta { index, text: delta });
            }
            "response.output_text.annotation.added" => {
                if let Some(json) = event.annotation {
                    sink(Decoded::Annotation { index, json: json.get() });
                }
            }
            "response.output_item.added" => {
                if index >= MAX_RESPONSE_ITEMS {
                    let message = "The model's response has too many items.";
                    return Err(Failure::new(FailureKind::Malformed, message));
                }
                self.create(None, sink);
                if let Some(item) = event.item.and_then(output_item) {
                    sink(Decoded::ItemAdded { index, item: &item });
                }
            }
            "response.output_item.done" => self.item_done(index, event.item, sink)?,
            "response.created" => self.create(event.response, sink),
            kind @ ("response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.done") => {
                return self.end(kind, event.response, sink);
            }
            "error" => return Err(reported(text)),
            // Servers that also speak Chat Completions report errors in its form.
            "" if event.error.is_some() => return Err(reported(text)),
            _ => match foreign_wire(text) {
                Some(wire) if wire != Wire::Responses => {
                    return Err(other_wire(Wire::Responses, wire, !self.is_created));
                }
                _ => {}
            },
        }
        Ok(())
    }

    fn create(&mut self, response: Option<&RawValue>, sink: &mut Sink<'_>) {
        if std::mem::replace(&mut self.is_created, true) {
            return;
        }
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Head<'a> {
            #[serde(borrow)]
            id: Lenient<'a>,
            #[serde(borrow)]
            model: Lenient<'a>,
        }
        let head: Option<Head<'_>> = response.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let head = head.unwrap_or_default();
        let or = |text: &Lenient<'_>, other: &str| match text.as_str() {
            "" => other.to_owned(),
            text => text.to_owned(),
        };
        let (id, model) = (or(&head.id, &self.context.id), or(&head.model, &self.context.model));
        sink(Decoded::Created { id: &id, model: &model, usage: None });
    }

    fn item_done(
        &mut self,
        index: u32,
        raw: Option<&RawValue>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        if self.done.contains(&index) {
            return Err(malformed(Wire::Responses, format!("item {index} is finished twice")));
        }
        let Some(item) = raw.and_then(output_item) else {
            return Err(malformed(Wire::Responses, "an item has no type"));
        };
        if index >= MAX_RESPONSE_ITEMS {
            let message = "The model's response has too many items.";
            return Err(Failure::new(FailureKind::Malformed, message));
        }
        self.done.push(index);
        self.has_calls |= item.call().is_some();
        sink(Decoded::ItemDone { index, item: &item });
        Ok(())
    }

    fn end(
        &mut self,
        kind: &str,
        raw: Option<&RawValue>,
        sink: &mut Sink<'_>,
    ) -> Result<(), Failure> {
        let at = At::Root;
        self.create(raw, sink);
        let mut response = raw.and_then(|raw| Object::read(raw, &at).ok()).unwrap_or_default();
        self.usage = response.take("usage").map(read_usage).unwrap_or_default();
        let is_other = kind.is_empty() && response.peek("output").is_none();
        if is_other && response.peek("error").is_none() {
            return Err(malformed(Wire::Responses, "it has no `output`"));
        }
        // Items that only the end has.
        let output = response.opt_array(&at, "output").ok().flatten().unwrap_or_default();
        for (index, raw) in (0..).zip(output) {
            if !self.done.contains(&index)
                && let Some(item) = output_item(raw)
            {
                sink(Decoded::ItemAdded { index, item: &item });
                self.item_done(index, Some(raw), sink)?;
            }
        }
        let status = response.opt_text(&at, "status").ok().flatten().unwrap_or_default();
        if kind == "response.failed" || status == "failed" || response.peek("error").is_some() {
            let failure = Failure::from_object(None, response);
            let unknown = || Failure::new(FailureKind::Server, "The model server gave no reason.");
            return Err(failure.unwrap_or_else(unknown));
        }
        let details = response.opt_object(&at, "incomplete_details").ok().flatten();
        let reason = details.and_then(|mut details| details.opt_text(&at, "reason").ok().flatten());
        let is_incomplete = kind == "response.incomplete" || status == "incomplete";
        let is_paused = response.opt_bool(&at, "end_turn").ok().flatten() == Some(false);
        let stop = match (is_incomplete, reason.as_deref()) {
            (true, Some("content_filter")) => Stop::Filter,
            (true, _) => Stop::MaxTokens,
            (false, _) if is_paused => Stop::Pause,
            (false, _) if self.has_calls => Stop::ToolUse,
            (false, _) => Stop::EndTurn,
        };
        let service_tier = response.opt_text(&at, "service_tier").ok().flatten();
        let service_tier = service_tier.map(std::borrow::Cow::into_owned);
        self.is_ended = true;
        let usage = believed(self.usage, sink);
        sink(Decoded::Ended(&End { stop, usage, service_tier }));
        Ok(())
    }
}

/// The failure that an event reports.
fn reported(text: &str) -> Failure {
    let object = Object::read_str(text, &At::Root).ok();
    let failure = object.and_then(|object| Failure::from_object(None, object));
    let unknown = || Failure::new(FailureKind::Server, "The model server reported an error.");
    failure.unwrap_or_else(unknown)
}

fn read_usage(raw: &RawValue) -> Usage {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Counts {
        input_tokens: Tokens,
        input_tokens_details: Option<InputDetails>,
        output_tokens: Tokens,
        output_tokens_details: Option<OutputDetails>,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct InputDetails {
        cached_tokens: Tokens,
        cache_write_tokens: Tokens,
        cache_write_1h_tokens: Tokens,
    }
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct OutputDetails {
        reasoning_tokens: Tokens,
    }
    let counts: Counts = serde_json::from_str(raw.get()).unwrap_or_default();
    let input = counts.input_tokens_details.unwrap_or_default();
    let output = counts.output_tokens_details.unwrap_or_default();
    let number = |count: Tokens| count.0.unwrap_or_default();
    Usage {
        input: number(counts.input_tokens),
        cached: number(input.cached_tokens),
        written: number(input.cache_write_tokens),
        written_hour: Tokens::part(
            number(input.cache_write_1h_tokens),
            number(input.cache_write_tokens),
        ),
        output: number(counts.output_tokens),
        reasoning: number(output.reasoning_tokens),
        ..Usage::default()
    }
}

/// An item of a response; `None` if it has no type.
fn output_item(raw: &RawValue) -> Option<OutputItem> {
    let at = At::Root;
    let mut item = Object::read(raw, &at).ok()?;
    let kind = item.opt_text(&at, "type").ok()??;
    let mut text = |name: &str| -> String {
        item.opt_text(&at, name).ok().flatten().unwrap_or_default().into_owned()
    };
    let id = text("id");
    Some(match kind.as_ref() {
        "message" => {
            let phase = Some(text("phase")).filter(|phase| !phase.is_empty());
            let content = item.opt_array(&at, "content").ok().flatten().unwrap_or_default();
            let (mut text, mut refusal, mut annotations) =
                (String::new(), String::new(), Vec::new());
            for raw in content {
                let mut part = Object::read(raw, &at).ok()?;
                let read = |part: &mut Object<'_>, name| {
                    part.opt_text(&at, name).ok().flatten().unwrap_or_default().into_owned()
                };
                text.push_str(&read(&mut part, "text"));
                refusal.push_str(&read(&mut part, "refusal"));
                let list = part.opt_array(&at, "annotations").ok().flatten().unwrap_or_default();
                annotations.extend(list.into_iter().map(|raw| raw.get().to_owned()));
            }
            OutputItem::Message { id, text, refusal, annotations, phase }
        }
        "reasoning" => {
            let encrypted = Some(text("encrypted_content")).filter(|text| !text.is_empty());
            let mut texts = |name| -> Vec<String> {
                let list = item.opt_array(&at, name).ok().flatten().unwrap_or_default();
                let text = |raw: &RawValue| {
                    Object::read(raw, &at)
                        .ok()?
                        .opt_text(&at, "text")
                        .ok()?
                        .map(|text| text.into_owned())
                };
                list.into_iter().filter_map(text).collect()
            };
            let (summary, content) = (texts("summary"), texts("content"));
            OutputItem::Reasoning { id, summary, content, encrypted }
        }
        "function_call" => OutputItem::FunctionCall {
            id,
            call_id: text("call_id"),
            name: text("name"),
            namespace: Some(text("namespace")).filter(|name| !name.is_empty()),
            arguments: text("arguments"),
        },
        "custom_tool_call" => OutputItem::CustomToolCall {
            id,
            call_id: text("call_id"),
            name: text("name"),
            input: text("input"),
        },
        "web_search_call" => {
            let is_failed = text("status") == "failed";
            let action = item.opt_object(&at, "action").ok().flatten();
            let query = action.and_then(|mut action| action.opt_text(&at, "query").ok().flatten());
            let query = query.unwrap_or_default().into_owned();
            OutputItem::WebSearchCall { id, query, is_failed }
        }
        "image_generation_call" => OutputItem::ImageCall { id, result: text("result") },
        "tool_search_call" if item.peek("call_id").is_some() => {
            let arguments = item.take("arguments").map_or("{}", RawValue::get).to_owned();
            let call_id = item.opt_text(&at, "call_id").ok().flatten().unwrap_or_default();
            OutputItem::ToolSearchCall { id, call_id: call_id.into_owned(), arguments }
        }
        _ => OutputItem::Other { id, json: raw.get().to_owned() },
    })
}
