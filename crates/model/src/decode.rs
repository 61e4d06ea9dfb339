//! Decodes the bytes of an event stream to [`Event`]s. The types of frequent deltas are found
//! without parsing, and their JSON is read in one pass; of events that this crate does not use,
//! only the type is read.

use std::{borrow::Cow, sync::Arc};

use http_client::sse::{Reader, TooLong};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::failure::{ProviderError, from_event};
use crate::{Event, Failure, FailureKind, PlanUsage, RateLimits, Usage, excerpt};

mod item;
mod metadata;
mod repair;

pub(crate) use metadata::MODEL_HEADERS;

/// Decodes one response. Ignores all bytes after a terminal event.
#[derive(Debug)]
pub struct Decoder {
    reader: Reader,
    progress: Progress,
}

/// The events of a response so far.
#[derive(Debug, Default)]
struct Progress {
    ended: bool,
    has_items: bool,
    names_model: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    #[must_use]
    pub fn new() -> Self {
        Self { reader: Reader::new(), progress: Progress::default() }
    }

    /// Returns whether the terminal event was returned.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.progress.ended
    }

    /// The model that answers is known from elsewhere: the name in the response's end adds nothing.
    pub(crate) fn model_is_known(&mut self) {
        self.progress.names_model = true;
    }

    /// Reads `chunk`, split at any position of the stream, and appends the events that it completes
    /// to `out`.
    pub fn feed(&mut self, chunk: &[u8], out: &mut Vec<Event>) {
        if self.ended() {
            return;
        }
        let read = self.reader.feed(chunk, |data| self.progress.read(data, out));
        if let Err(error @ TooLong) = read {
            self.fail(Failure::disconnected(error.to_string()), out);
        }
    }

    /// Reads the data of one event that arrives on its own, and appends what it means to `out`.
    pub(crate) fn feed_event(&mut self, data: &[u8], out: &mut Vec<Event>) {
        self.progress.read(data, out);
    }

    /// Ends the response with `failure`, unless it has ended.
    pub fn fail(&mut self, failure: Failure, out: &mut Vec<Event>) {
        self.progress.fail(failure, out);
    }

    /// Ends the stream: a response without its terminal event was cut off.
    pub fn finish(&mut self, out: &mut Vec<Event>) {
        let message = "the model provider closed the stream before the response was complete";
        self.fail(Failure::disconnected(message), out);
    }
}

impl Progress {
    fn read(&mut self, data: &[u8], out: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        match repaired(data, decode) {
            Ok(Some(event)) => {
                match &event {
                    Event::Created { model: Some(_), .. } | Event::ServedBy { .. } => {
                        self.names_model = true;
                    }
                    Event::ItemDone { .. } => self.has_items = true,
                    Event::Completed { .. } => self.complete(data, out),
                    _ => {}
                }
                self.ended = event.is_terminal();
                out.push(event);
            }
            Ok(None) => {}
            Err(failure) => self.fail(failure, out),
        }
    }

    /// Appends what only the whole response at its end has.
    fn complete(&self, data: &[u8], out: &mut Vec<Event>) {
        // Its members were read, so that this cannot fail.
        let Ok(Whole { model, items }) = repaired(data, whole) else { return };
        if !self.names_model {
            out.extend(model.map(|model| Event::ServedBy { model }));
        }
        // Not by index: some providers leave it out, and a call must not run twice.
        if !self.has_items {
            out.extend(items);
        }
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Event>) {
        if !self.ended {
            self.ended = true;
            out.push(Event::Failed(failure));
        }
    }
}

/// Members that deltas and part events share; other members are skipped.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Delta {
    output_index: u32,
    summary_index: u32,
    content_index: u32,
    delta: String,
}

#[derive(Deserialize)]
struct ItemEvent<'a> {
    #[serde(default)]
    output_index: u32,
    #[serde(borrow)]
    item: &'a RawValue,
}

/// `read` of the data, and again with the text repaired if it is not valid Unicode: half a character costs
/// that character, not the response.
fn repaired<T>(data: &[u8], read: fn(&[u8]) -> Result<T, Failure>) -> Result<T, Failure> {
    read(data).or_else(|failure| match repair::unicode(data) {
        Some(repaired) => read(&repaired),
        None => Err(failure),
    })
}

fn decode(data: &[u8]) -> Result<Option<Event>, Failure> {
    if data.trim_ascii().is_empty() || data == b"[DONE]" || is_other_json(data) {
        return Ok(None);
    }
    let kind = event_type(data)?;
    let event = match kind.as_ref() {
        "response.output_text.delta" => {
            let Delta { output_index: index, delta: text, .. } = read(data)?;
            Event::TextDelta { index, text }
        }
        "response.reasoning_summary_text.delta" => {
            let Delta { output_index: index, summary_index, delta: text, .. } = read(data)?;
            Event::SummaryDelta { index, summary_index, text }
        }
        "response.reasoning_text.delta" => {
            let Delta { output_index: index, content_index, delta: text, .. } = read(data)?;
            Event::ReasoningDelta { index, content_index, text }
        }
        "response.function_call_arguments.delta" => {
            let Delta { output_index: index, delta: text, .. } = read(data)?;
            Event::ArgumentsDelta { index, text }
        }
        "response.custom_tool_call_input.delta" => {
            let Delta { output_index: index, delta: text, .. } = read(data)?;
            Event::CustomInputDelta { index, text }
        }
        "response.reasoning_summary_part.added" => {
            let Delta { output_index: index, summary_index, .. } = read(data)?;
            Event::SummaryPartAdded { index, summary_index }
        }
        "response.output_item.added" => {
            let event: ItemEvent<'_> = read(data)?;
            let (id, kind) = item::added(event.item.get()).map_err(|e| malformed(&e, data))?;
            Event::ItemAdded { index: event.output_index, id, kind }
        }
        "response.output_item.done" => {
            let event: ItemEvent<'_> = read(data)?;
            let item = item::done(event.item.get()).map_err(|e| malformed(&e, data))?;
            let raw: Arc<str> = item::as_input(event.item.get(), &item).into();
            Event::ItemDone { index: event.output_index, raw, item }
        }
        "response.created" => created(data)?,
        "response.completed" => completed(data)?,
        "response.failed" => Event::Failed(failed(data)?),
        "response.incomplete" => Event::Failed(incomplete(data)?),
        "error" => Event::Failed(error(data)?),
        "response.metadata" => return Ok(metadata::decode(&read(data)?)),
        "rate_limits.updated" => {
            return Ok(RateLimits::of_event(&read(data)?).map(Event::RateLimits));
        }
        kind if kind.ends_with(".rate_limits") => {
            let usage = PlanUsage::of_event(&read(data)?);
            return Ok(usage.map(|usage| Event::PlanUsage(Box::new(usage))));
        }
        _ => return Ok(None),
    };
    Ok(Some(event))
}

/// Returns whether the data is JSON but no object, so that it has no type.
fn is_other_json(data: &[u8]) -> bool {
    !data.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(data).is_ok()
}

/// The `type` of an event. Providers write it first; at another position it costs a parse.
fn event_type(data: &[u8]) -> Result<Cow<'_, str>, Failure> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    if let Some(rest) = data.strip_prefix(br#"{"type":""#)
        && let Some(end) = memchr::memchr(b'"', rest)
        && let Ok(kind) = std::str::from_utf8(&rest[..end])
        && !kind.contains('\\')
    {
        return Ok(Cow::Borrowed(kind));
    }
    Ok(read::<Head<'_>>(data)?.kind)
}

fn read<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(data).map_err(|error| malformed(&error, data))
}

fn malformed(error: &serde_json::Error, data: &[u8]) -> Failure {
    let start = &data[..data.len().min(2048)];
    let excerpt = excerpt(&String::from_utf8_lossy(start));
    Failure::disconnected(format!(
        "the model provider sent an event that cannot be read ({error}): {excerpt}"
    ))
}

/// `{"response": …}` around the members that a response event carries.
#[derive(Deserialize)]
struct Wrapped<T> {
    response: T,
}

fn created(data: &[u8]) -> Result<Event, Failure> {
    #[derive(Deserialize)]
    struct Response {
        #[serde(default)]
        id: String,
        #[serde(default)]
        model: Value,
        #[serde(default)]
        headers: Value,
    }
    let Wrapped::<Response> { response } = read(data)?;
    // The header names the model even where the body repeats the name that was asked for.
    let model = metadata::model(&response.headers).or_else(|| metadata::name(&response.model));
    Ok(Event::Created { response_id: response.id, model })
}

fn completed(data: &[u8]) -> Result<Event, Failure> {
    #[derive(Deserialize)]
    struct Response {
        #[serde(default)]
        usage: Value,
        #[serde(default)]
        service_tier: Value,
    }
    let Wrapped::<Response> { response } = read(data)?;
    let usage = usage(&response.usage).unwrap_or_default();
    Ok(Event::Completed { usage, service_tier: metadata::name(&response.service_tier) })
}

/// The parts of a response that its end repeats.
struct Whole {
    model: Option<String>,
    /// [`Event::ItemDone`]s.
    items: Vec<Event>,
}

fn whole(data: &[u8]) -> Result<Whole, Failure> {
    #[derive(Deserialize)]
    struct Response<'a> {
        #[serde(default)]
        model: Value,
        #[serde(default)]
        headers: Value,
        #[serde(borrow)]
        output: Option<&'a RawValue>,
    }
    let Wrapped::<Response<'_>> { response } = read(data)?;
    let model = metadata::model(&response.headers).or_else(|| metadata::name(&response.model));
    let output = response.output.map(|output| serde_json::from_str(output.get()));
    let output: Vec<&RawValue> = output.and_then(Result::ok).unwrap_or_default();
    let items = (0..).zip(output).filter_map(|(index, json)| match item::done(json.get()) {
        Ok(item) => {
            let raw = item::as_input(json.get(), &item).into();
            Some(Event::ItemDone { index, raw, item })
        }
        Err(error) => {
            let json = excerpt(json.get());
            tracing::warn!(%error, json, "the output of a response has an item that cannot be read");
            None
        }
    });
    Ok(Whole { model, items: items.collect() })
}

/// The tokens of a response. `None` when they are unknown: a count that cannot be read costs no response.
fn usage(value: &Value) -> Option<Usage> {
    match Option::<WireUsage>::deserialize(value) {
        Ok(wire) => wire.map(Usage::from),
        Err(error) => {
            let value = excerpt(&value.to_string());
            tracing::warn!(%error, value, "the model provider sent a `usage` that cannot be read");
            None
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    input_tokens: u64,
    input_tokens_details: Option<WireInputDetails>,
    output_tokens: u64,
    output_tokens_details: Option<WireOutputDetails>,
    total_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireInputDetails {
    cached_tokens: u64,
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireOutputDetails {
    reasoning_tokens: u64,
}

impl From<WireUsage> for Usage {
    fn from(wire: WireUsage) -> Self {
        let sum = wire.input_tokens.saturating_add(wire.output_tokens);
        let input = wire.input_tokens_details.unwrap_or_default();
        Self {
            input: wire.input_tokens,
            cached_input: input.cached_tokens,
            cache_write: input.cache_write_tokens.unwrap_or_default(),
            output: wire.output_tokens,
            reasoning_output: wire.output_tokens_details.unwrap_or_default().reasoning_tokens,
            total: wire.total_tokens.unwrap_or(sum),
        }
    }
}

fn failed(data: &[u8]) -> Result<Failure, Failure> {
    #[derive(Deserialize)]
    struct Response {
        #[serde(default)]
        error: Value,
        #[serde(default)]
        usage: Value,
    }
    let Wrapped::<Response> { response } = read(data)?;
    let usage = usage(&response.usage).map(Box::new);
    Ok(Failure { usage, ..from_event(&ProviderError::from_value(&response.error)) })
}

fn incomplete(data: &[u8]) -> Result<Failure, Failure> {
    #[derive(Deserialize)]
    struct Response {
        incomplete_details: Option<Details>,
        #[serde(default)]
        usage: Value,
    }
    #[derive(Deserialize)]
    struct Details {
        reason: Option<String>,
    }
    let Wrapped::<Response> { response } = read(data)?;
    let reason = response.incomplete_details.and_then(|details| details.reason);
    let message = match reason.as_deref() {
        Some("max_output_tokens") => "the response was cut off at the model's output limit; ask \
                                      for a shorter answer or smaller steps"
            .to_owned(),
        Some("content_filter") => {
            "the response was stopped by the provider's content filter; rephrase the request"
                .to_owned()
        }
        Some(reason) => format!("the response is incomplete: {}", excerpt(reason)),
        None => "the response is incomplete; the provider gave no reason".to_owned(),
    };
    let usage = usage(&response.usage).map(Box::new);
    Ok(Failure { usage, ..Failure::new(FailureKind::Other, message) })
}

/// An `error` event: members at its top, or inside an `error` object.
fn error(data: &[u8]) -> Result<Failure, Failure> {
    let mut event: Value = read(data)?;
    let error = match event.get_mut("error").map(Value::take) {
        Some(error @ (Value::Object(_) | Value::String(_))) => error,
        _ => {
            // The type of the event is not that of the error.
            event.as_object_mut().map(|members| members.shift_remove("type"));
            event
        }
    };
    Ok(from_event(&ProviderError::from_value(&error)))
}

#[cfg(test)]
mod tests;
