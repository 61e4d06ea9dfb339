//! Decodes the bytes of an event stream to [`Event`]s. The types of frequent deltas are found
//! without parsing, and their JSON is read in one pass; of events that this crate does not use,
//! only the type is read.

use std::borrow::Cow;

use http_client::sse::{MAX_EVENT_BYTES, Reader, TooLong};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::stream_text::{is_stream, without_mark};
use crate::{Event, Failure, PlanUsage, RateLimits, Usage, excerpt};
use lenient::Text;
use open_items::{Address, OpenItems, Part};
use wire::{Delta, ItemEvent, WholeText, bare_item, event_name, input_delta, is_of_response};

mod ending;
mod item;
mod lenient;
mod metadata;
mod open_items;
mod repair;
mod wire;

pub(crate) use metadata::MODEL_HEADERS;

/// Decodes one response. Ignores all bytes after a terminal event.
#[derive(Debug)]
pub struct Decoder {
    reader: Reader,
    progress: Progress,
    /// The whole of an answer that is no stream, though it came as one.
    document: Option<Vec<u8>>,
    has_begun: bool,
}

/// The events of a response so far.
#[derive(Debug, Default)]
struct Progress {
    ended: bool,
    names_model: bool,
    items: OpenItems,
    /// The reason that an event without effect gives, if the response has no end.
    reason: Option<Failure>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    #[must_use]
    pub fn new() -> Self {
        Self {
            reader: Reader::new(),
            progress: Progress::default(),
            document: None,
            has_begun: false,
        }
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
        let is_before =
            |byte: &u8| byte.is_ascii_whitespace() || "\u{feff}".as_bytes().contains(byte);
        if !self.has_begun
            && let Some(first) = chunk.iter().find(|byte| !is_before(byte))
        {
            self.has_begun = true;
            // No line of a stream begins so.
            self.document = (*first == b'{').then(Vec::new);
        }
        if let Some(document) = &mut self.document {
            match document.len() + chunk.len() > MAX_EVENT_BYTES {
                true => self.fail(Failure::disconnected(TooLong.to_string()), out),
                false => document.extend_from_slice(chunk),
            }
            return;
        }
        let read = self.reader.feed(chunk, |name, data| self.progress.read(name, data, out));
        if let Err(error @ TooLong) = read {
            self.fail(Failure::disconnected(error.to_string()), out);
        }
    }

    /// Reads the data of one event that arrives on its own, and appends what it means to `out`.
    pub(crate) fn feed_event(&mut self, data: &[u8], out: &mut Vec<Event>) {
        self.progress.read(b"", data, out);
    }

    /// Ends the response with `failure`, unless it has ended.
    pub fn fail(&mut self, failure: Failure, out: &mut Vec<Event>) {
        self.progress.fail(failure, out);
    }

    /// Reads an answer that is no stream: the JSON of a whole response, or a stream that arrived as a whole.
    pub(crate) fn feed_document(&mut self, document: &[u8], out: &mut Vec<Event>) {
        match is_stream(document) {
            true => self.feed(document, out),
            false => self.document = Some(document.to_vec()),
        }
        self.finish(out);
    }

    /// The connection broke: a response without its terminal event is not complete.
    pub fn cut_off(&mut self, out: &mut Vec<Event>) {
        self.progress.cut_off(out);
    }

    /// Ends the stream. A response without its terminal event was cut off, unless its items are whole and
    /// nothing can be missing.
    pub fn finish(&mut self, out: &mut Vec<Event>) {
        if let Some(document) = self.document.take() {
            let document = without_mark(&document);
            // Several objects are events, one a line.
            match serde_json::from_slice::<IgnoredAny>(document) {
                Ok(_) => self.progress.read(b"", document, out),
                Err(_) => document
                    .split(|byte| *byte == b'\n')
                    .for_each(|line| self.progress.read(b"", line, out)),
            }
        }
        let name = self.reader.name();
        match self.reader.rest() {
            None => self.progress.finish(out),
            // Some servers leave out the blank line after the last event.
            Some(rest) if is_object(rest) => {
                self.progress.read(name, rest, out);
                self.progress.finish(out);
            }
            Some(_) => self.progress.cut_off(out),
        }
    }
}

/// Returns whether a document in place of a stream has a response.
pub(crate) fn is_response(document: &[u8]) -> bool {
    let document = without_mark(document);
    is_stream(document) || ending::is_end(document)
}

impl Progress {
    /// Reads an event: the name from its line `event`, maybe empty, and the data.
    fn read(&mut self, name: &[u8], data: &[u8], out: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        let first = out.len();
        // Half a character costs that character, not the response.
        let name = event_name(name);
        let taken = self.take(name, data, out).or_else(|failure| match repair::unicode(data) {
            Some(repaired) => self.take(name, &repaired, out),
            None => Err(failure),
        });
        if let Err(failure) = taken {
            self.keep_reason(failure);
        }
        if let Some(what) = self.items.contradiction() {
            // Nothing follows the end.
            out.insert(first, Event::Contradiction(what));
        }
        self.fail_unread(first, out);
        for event in &out[first..] {
            self.ended |= event.is_terminal();
            self.names_model |=
                matches!(event, Event::Created { model: Some(_), .. } | Event::ServedBy { .. });
        }
    }

    /// One event that cannot be read does not cost the response: what it had may come again, or be missing.
    fn keep_reason(&mut self, failure: Failure) {
        if self.reason.is_none() {
            // Not its text, which may quote the key.
            tracing::warn!("the model's response has an event that cannot be read");
            self.reason = Some(failure);
        }
    }

    /// A response whose end has arrived, but of which nothing could be read, has failed.
    fn fail_unread(&mut self, first: usize, out: &mut [Event]) {
        let is_whole = self.items.has_finished() || self.reason.is_none();
        if let Some(end @ Event::Completed { .. }) = out[first..].last_mut()
            && !is_whole
            && let Some(reason) = self.reason.take()
        {
            *end = Event::Failed(reason);
        }
    }

    fn finish(&mut self, out: &mut Vec<Event>) {
        if self.ended {
            return;
        }
        if self.items.are_whole() {
            tracing::warn!("the model provider closed the stream without the end of the response");
            self.ended = true;
            out.push(Event::Completed { usage: Usage::default(), service_tier: None });
            return;
        }
        self.cut_off(out);
    }

    fn cut_off(&mut self, out: &mut Vec<Event>) {
        let message = "the model provider closed the stream before the response was complete";
        let reason = self.reason.take();
        self.fail(reason.unwrap_or_else(|| Failure::disconnected(message)), out);
    }

    /// Appends what one event means. An error has no effect.
    fn take(
        &mut self,
        name: Option<&str>,
        data: &[u8],
        out: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        if data.trim_ascii() == b"[DONE]" {
            // The end of a response whose own end is missing: the provider says that nothing follows.
            out.extend(self.items.complete(&[]));
            if self.items.has_finished() {
                out.push(Event::Completed { usage: Usage::default(), service_tier: None });
            }
            return Ok(());
        }
        if data.trim_ascii().is_empty() || is_other_json(data) {
            return Ok(());
        }
        let kind = match (event_type(data)?, name) {
            // The type of an item in place of the event's.
            (Some(kind), Some(name)) if is_of_response(name) && !is_of_response(&kind) => {
                if kind == "error" { kind } else { Cow::Borrowed(name) }
            }
            (Some(kind), _) => kind,
            (None, Some(name)) => Cow::Borrowed(name),
            (None, None) => return self.take_untyped(data, out),
        };
        match kind.as_ref() {
            "response.output_text.delta" | "response.refusal.delta" => {
                let delta: Delta<'_> = read(data)?;
                let index = self.delta(&delta, Part::Text(delta.content_index.or_first()));
                out.push(Event::TextDelta { index, text: delta.delta.into_string() });
            }
            "response.reasoning_summary_text.delta" => {
                let delta: Delta<'_> = read(data)?;
                let summary_index = delta.summary_index.or_first();
                let index = self.delta(&delta, Part::Summary(summary_index));
                let text = delta.delta.into_string();
                out.push(Event::SummaryDelta { index, summary_index, text });
            }
            "response.reasoning_text.delta" => {
                let delta: Delta<'_> = read(data)?;
                let content_index = delta.content_index.or_first();
                let index = self.delta(&delta, Part::Content(content_index));
                let text = delta.delta.into_string();
                out.push(Event::ReasoningDelta { index, content_index, text });
            }
            "response.function_call_arguments.delta" => {
                let delta = input_delta(data)?;
                let index = self.delta(&delta, Part::Input);
                out.push(Event::ArgumentsDelta { index, text: delta.delta.into_string() });
            }
            "response.custom_tool_call_input.delta" => {
                let delta = input_delta(data)?;
                let index = self.delta(&delta, Part::Input);
                out.push(Event::CustomInputDelta { index, text: delta.delta.into_string() });
            }
            "response.reasoning_summary_part.added" => {
                let delta: Delta<'_> = read(data)?;
                let summary_index = delta.summary_index.or_first();
                let index = self.delta(&delta, Part::Summary(summary_index));
                out.push(Event::SummaryPartAdded { index, summary_index });
            }
            kind => return self.take_whole(kind, &repair::whole(data), out),
        }
        Ok(())
    }

    /// An event that is no delta.
    fn take_whole(&mut self, kind: &str, data: &[u8], out: &mut Vec<Event>) -> Result<(), Failure> {
        match kind {
            "response.output_text.done"
            | "response.refusal.done"
            | "response.content_part.done"
            | "response.reasoning_text.done"
            | "response.reasoning_summary_text.done"
            | "response.reasoning_summary_part.done"
            | "response.function_call_arguments.done"
            | "response.custom_tool_call_input.done" => {
                let whole: WholeText<'_> = read(data)?;
                let (index, id) = (whole.output_index.0, whole.item_id.as_str().to_owned());
                let address = Address { index, id: &id };
                let part = whole.part(kind);
                self.items.whole(address, part, &whole.text());
            }
            "response.output_item.added" => {
                let ItemEvent { output_index, item } = read(data)?;
                let item = item.map(RawValue::get).or_else(|| bare_item(data));
                out.extend(item.and_then(|item| self.items.add(output_index.0, item)));
            }
            "response.output_item.done" => {
                let ItemEvent { output_index, item } = read(data)?;
                let item = item.map(RawValue::get).or_else(|| bare_item(data));
                out.extend(self.items.finish(output_index.0, item.unwrap_or("null")));
            }
            "response.created" => out.push(ending::created(data)?),
            "response.completed" | "response.done" | "response.failed" | "response.incomplete" => {
                let end = ending::read(kind, data)?;
                if let Event::Completed { .. } = &end.event {
                    let model = end.model.filter(|_| !self.names_model);
                    out.extend(model.map(|model| Event::ServedBy { model }));
                    out.extend(self.items.complete(&end.output));
                    out.extend(end.is_paused.then_some(Event::Paused));
                }
                out.push(end.event);
            }
            "error" | "response.error" => out.push(Event::Failed(ending::error(data)?)),
            "response.metadata" => out.extend(metadata::decode(&read(data)?)),
            "rate_limits.updated" => {
                out.extend(RateLimits::of_event(&read(data)?).map(Event::RateLimits));
            }
            kind if kind.ends_with(".rate_limits") => {
                let usage = PlanUsage::of_event(&read(data)?);
                out.extend(usage.map(|usage| Event::PlanUsage(Box::new(usage))));
            }
            // Some servers write the type of an error in place of the event's.
            kind if !kind.starts_with("response.") => {
                out.extend(ending::untyped_error(data)?.map(Event::Failed));
            }
            _ => {}
        }
        Ok(())
    }

    /// An event without a type is an error, the whole response, or unknown.
    fn take_untyped(&mut self, data: &[u8], out: &mut Vec<Event>) -> Result<(), Failure> {
        if let Some(failure) = ending::untyped_error(data)? {
            out.push(Event::Failed(failure));
            return Ok(());
        }
        if ending::is_end(data) {
            return self.take_whole("response.done", &repair::whole(data), out);
        }
        if let Some(reason) = ending::reason(data) {
            self.keep_reason(reason);
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta<'_>, part: Part) -> u32 {
        let address = Address { index: delta.output_index.0, id: delta.item_id.as_str() };
        self.items.delta(address, part, delta.delta.as_str())
    }

    fn fail(&mut self, failure: Failure, out: &mut Vec<Event>) {
        if !self.ended {
            self.ended = true;
            out.push(Event::Failed(failure));
        }
    }
}

/// Returns whether the data is a whole object.
fn is_object(data: &[u8]) -> bool {
    data.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(data).is_ok()
}

/// Returns whether the data is JSON but no object, so that it has no type.
fn is_other_json(data: &[u8]) -> bool {
    !data.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<IgnoredAny>(data).is_ok()
}

/// The `type` of an event, if it has one. Providers write it first; at another position it costs a parse.
fn event_type(data: &[u8]) -> Result<Option<Cow<'_, str>>, Failure> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Text<'a>,
    }
    if let Some(rest) = data.strip_prefix(br#"{"type":""#)
        && let Some(end) = memchr::memchr(b'"', rest)
        && let Ok(kind) = std::str::from_utf8(&rest[..end])
        && !kind.contains('\\')
    {
        return Ok(Some(Cow::Borrowed(kind)));
    }
    Ok(read::<Head<'_>>(data)?.kind.0)
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

#[cfg(test)]
mod odd_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
