//! Observes a response, as one JSON body or as a stream of events: its usage, its id, and whether
//! it is complete. It keeps no other part of the response, and changes nothing.

use super::estimate::eighths;
use super::progress::Progress;
use super::scanned::{Kind, SERVER_TOOLS};
use super::sse::{Event, Events};
use super::usage::{Draft, Usage};
use super::walk::{Seen, Walk};

/// The observations of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The last plausible usage.
    pub usage: Option<Usage>,
    /// True if a usage was implausible: a number that is not an integer from 0 to 10⁹ - 1, or more
    /// cached than input tokens.
    pub usage_invalid: bool,
    /// True if the whole JSON value, or the event that ends the stream, was received.
    pub complete: bool,
    /// True if the server reported an error in place of the answer, or of the rest of it.
    pub failed: bool,
    /// The id of the response or chat completion.
    pub id: Option<String>,
    /// Its progress, by its last `status`.
    pub progress: Option<Progress>,
    /// Estimated tokens of the received output, in eighths: see [`crate::tokens`].
    pub output_eighths: u64,
    /// Of these, what was received after the last usage, which does not count it.
    pub eighths_after_usage: u64,
    /// Entries of `data`: images or embeddings.
    pub data_entries: Option<u64>,
    /// Duration of audio or video in milliseconds, from `duration`, `seconds` or the seconds in `usage`.
    pub duration_ms: Option<u64>,
    /// Tokens that a fine-tuning job has trained.
    pub trained_tokens: Option<u64>,
    /// The service tier that it tells.
    pub service_tier: Option<Box<str>>,
    /// The size of images or of a video that it tells.
    pub size: Option<Box<str>>,
    /// The quality of images that it tells.
    pub quality: Option<Box<str>>,
    /// Calls of the server's own tools among the items of its output, by [`crate::SERVER_TOOLS`].
    pub calls: [u32; SERVER_TOOLS.len()],
}

/// Reads a response in pieces of any size, in memory that does not grow with the response.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    outcome: Outcome,
    /// The numbers of all usage objects so far.
    usage: Option<Draft>,
    /// Images that events have completed.
    images: u64,
    /// Estimated output of completed items, in eighths of a token. They repeat the text of deltas, but some servers send no deltas.
    item_eighths: u64,
}

#[derive(Debug)]
enum Source {
    Json(Box<Walk>),
    Events(Box<Events>),
    /// Text, such as a transcript.
    Text,
    /// The beginning of a body whose type is not known yet.
    Unknown(Vec<u8>),
}

/// The beginnings of lines of a stream of events.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// Length of a beginning that tells the type of a body.
const BEGINNING: usize = 6;

/// The properties of an event that the filter uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventShape {
    /// True if its `choices` are an empty list, and its `usage` is not null.
    pub(super) usage_alone: bool,
    /// The wire that it is of, as far as it shows.
    pub(super) wire: Option<Kind>,
    /// True if it has no data.
    pub(super) is_empty: bool,
    /// True if it only says that the server is alive.
    pub(super) is_ping: bool,
    /// True if it is the last one of Messages.
    pub(super) is_stop: bool,
}

impl Reader {
    /// A reader for a JSON body.
    pub fn json() -> Self {
        Self::new(Source::Json(Box::new(Walk::new(true))))
    }

    /// A reader for a body of server-sent events.
    pub fn events() -> Self {
        Self::new(Source::Events(Box::new(Events::new())))
    }

    /// A reader for the `Content-Type`; `None` when the body is not text. Of a text, and without a type, the first
    /// bytes decide.
    pub fn for_content_type(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match &*kind {
            "text/event-stream" => Some(Self::events()),
            "application/json" => Some(Self::json()),
            _ if kind.ends_with("+json") => Some(Self::json()),
            "" | "application/x-subrip" => Some(Self::new(Source::Unknown(Vec::new()))),
            _ if kind.starts_with("text/") => Some(Self::new(Source::Unknown(Vec::new()))),
            _ => None,
        }
    }

    fn new(source: Source) -> Self {
        Self { source, outcome: Outcome::default(), usage: None, images: 0, item_eighths: 0 }
    }

    /// Reads the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        match &mut self.source {
            Source::Json(walk) => walk.feed(bytes),
            Source::Events(_) => {
                while !bytes.is_empty() {
                    let (read, _) = self.feed_event(bytes);
                    bytes = &bytes[read..];
                }
            }
            Source::Text => self.outcome.output_eighths += eighths(bytes),
            Source::Unknown(begun) => {
                begun.extend_from_slice(bytes);
                let space = begun.len() - begun.trim_ascii_start().len();
                begun.drain(..space);
                if begun.len() >= BEGINNING {
                    self.begin();
                }
            }
        }
    }

    /// Chooses the reader by the beginning of the body, and reads that.
    fn begin(&mut self) {
        let Source::Unknown(begun) = &mut self.source else { return };
        let begun = std::mem::take(begun);
        self.source = match begun.first() {
            Some(b'{' | b'[') => Source::Json(Box::new(Walk::new(true))),
            _ if FIELDS.iter().any(|field| begun.starts_with(field)) => {
                Source::Events(Box::new(Events::new()))
            }
            _ => Source::Text,
        };
        self.feed(&begun);
    }

    /// The id of the response, once it is received.
    pub fn id(&self) -> Option<&str> {
        let coming = match &self.source {
            Source::Json(walk) => walk.seen.id.as_deref(),
            Source::Events(events) => events.coming().id.as_deref(),
            Source::Text | Source::Unknown(_) => None,
        };
        self.outcome.id.as_deref().or(coming)
    }

    /// The usage so far of a stream that goes on: its input is known then, and not all of its output.
    pub fn usage_so_far(&self) -> Option<Usage> {
        self.outcome.usage.filter(|_| !self.outcome.complete)
    }

    /// The observations if the response were cut off here, without its id. A usage counts the text before it.
    pub fn so_far(&self) -> Outcome {
        let known = &self.outcome;
        let mut seen = Outcome {
            usage: known.usage,
            usage_invalid: known.usage_invalid,
            complete: known.complete,
            failed: known.failed,
            id: None,
            progress: known.progress,
            output_eighths: known.output_eighths,
            eighths_after_usage: known.eighths_after_usage,
            data_entries: known.data_entries,
            duration_ms: known.duration_ms,
            trained_tokens: known.trained_tokens,
            service_tier: known.service_tier.clone(),
            size: known.size.clone(),
            quality: known.quality.clone(),
            calls: known.calls,
        };
        let (coming, text) = match &self.source {
            Source::Json(walk) => (Some(&walk.seen), 0),
            Source::Events(events) => (Some(events.coming()), self.item_eighths),
            Source::Text => (None, 0),
            Source::Unknown(begun) => (None, eighths(begun)),
        };
        if let Some(coming) = coming
            && !coming.kind.as_deref().is_some_and(is_item)
        {
            let text = coming.output_eighths + coming.delta_eighths;
            seen.output_eighths += text;
            seen.eighths_after_usage += text;
            if let Some(reported) = coming.usage.filter(|_| !self.is_events())
                && let Ok(usage) = reported.finish()
            {
                seen.usage = usage;
                if reported.tells_output() {
                    seen.eighths_after_usage = 0;
                }
            }
        }
        if seen.usage.is_none() {
            seen.output_eighths = seen.output_eighths.max(text);
            seen.eighths_after_usage = seen.output_eighths;
        }
        seen
    }

    /// Returns whether the body is a stream of events, as far as that is known.
    pub fn is_events(&self) -> bool {
        matches!(self.source, Source::Events(_))
    }

    /// Returns whether a part of an event was read that has data or a name.
    pub(super) fn is_in_event(&self) -> bool {
        matches!(&self.source, Source::Events(events) if events.has_begun())
    }

    /// Returns whether the data of the event that is being read is a whole value.
    pub(super) fn is_at_end_of_value(&self) -> bool {
        matches!(&self.source, Source::Events(events) if events.coming().closed)
    }

    /// Returns whether events so far have output of the model.
    pub fn has_output(&self) -> bool {
        self.outcome.output_eighths > 0 || self.item_eighths > 0
    }

    /// The progress of the answer by the events so far; `None` for one JSON body, which tells it at its end.
    pub fn progress(&self) -> Option<Progress> {
        self.outcome.progress
    }

    /// Returns the observations. The response has ended, or is cut off here.
    pub fn finish(mut self) -> Outcome {
        self.begin();
        match &mut self.source {
            Source::Json(walk) => {
                let seen = walk.restart();
                self.outcome.complete = seen.closed;
                self.outcome.failed = seen.has_error;
                self.outcome.data_entries = seen.data_entries;
                let text = seen.output_eighths + seen.delta_eighths;
                self.take(seen, text);
            }
            Source::Text | Source::Unknown(_) => {
                self.outcome.complete = true;
                self.outcome.eighths_after_usage = self.outcome.output_eighths;
            }
            // An incomplete event does not count, but its text was forwarded.
            Source::Events(events) => {
                let seen = events.coming();
                let text = seen.output_eighths + seen.delta_eighths;
                match seen.kind.as_deref().is_some_and(is_item) {
                    true => self.item_eighths += text,
                    false => {
                        self.outcome.output_eighths += text;
                        self.outcome.eighths_after_usage += text;
                    }
                }
                if self.outcome.usage.is_none() {
                    let text = self.outcome.output_eighths.max(self.item_eighths);
                    self.outcome.output_eighths = text;
                    self.outcome.eighths_after_usage = text;
                }
            }
        }
        self.outcome
    }

    /// Reads until an event ends or the bytes end. Returns the number of bytes read.
    pub(super) fn feed_event(&mut self, bytes: &[u8]) -> (usize, Option<EventShape>) {
        let Source::Events(events) = &mut self.source else { return (bytes.len(), None) };
        let (read, event) = events.feed(bytes);
        (read, event.map(|event| self.end_event(event)))
    }

    pub(super) fn awaits_line_feed(&self) -> bool {
        matches!(&self.source, Source::Events(events) if events.awaits_line_feed())
    }

    fn end_event(&mut self, event: Event) -> EventShape {
        let Event { mut seen, done, name, is_empty } = event;
        let wire = wire_of(&seen);
        let kind = seen.kind.take().unwrap_or(name);
        let is_stop = kind == "message_stop";
        let is_ping = matches!(kind.as_str(), "ping" | "keepalive");
        self.outcome.failed |= seen.has_error || is_failure(&kind);
        // Some servers send nothing after the reason.
        self.outcome.complete |= done || seen.has_finish || ends_stream(&kind);
        if matches!(kind.as_str(), "image_generation.completed" | "image_edit.completed") {
            self.images += 1;
            self.outcome.data_entries = Some(self.images);
        }
        seen.progress = Progress::of_event(&kind).or(seen.progress);
        let usage_alone = seen.choices == Some(0) && seen.has_usage;
        // Audio is not text.
        let delta = if kind.ends_with("audio.delta") { 0 } else { seen.delta_eighths };
        if !is_item(&kind) {
            // Other events repeat the items.
            seen.calls = Default::default();
        }
        let text = match is_item(&kind) {
            true => {
                self.item_eighths += seen.output_eighths;
                0
            }
            false => seen.output_eighths + delta,
        };
        self.take(seen, text);
        EventShape { usage_alone, wire, is_empty, is_ping, is_stop }
    }

    fn take(&mut self, seen: Seen, text: u64) {
        let outcome = &mut self.outcome;
        outcome.eighths_after_usage += text;
        outcome.usage_invalid |= seen.usage_invalid;
        if let Some(new) = seen.usage {
            let whole = self.usage.map_or(new, |earlier| earlier.then(new));
            match whole.finish() {
                Ok(usage) => {
                    self.usage = Some(whole);
                    outcome.usage = usage;
                    if new.tells_output() {
                        outcome.eighths_after_usage = 0;
                    }
                }
                Err(()) => outcome.usage_invalid = true,
            }
        }
        if outcome.id.is_none() {
            outcome.id = seen.id;
        }
        outcome.progress = seen.progress.or(outcome.progress);
        outcome.output_eighths += text;
        outcome.duration_ms = seen.duration_ms.or(outcome.duration_ms);
        outcome.trained_tokens = seen.trained_tokens.or(outcome.trained_tokens);
        outcome.service_tier = seen.service_tier.or(outcome.service_tier.take());
        outcome.size = seen.size.or(outcome.size.take());
        outcome.quality = seen.quality.or(outcome.quality.take());
        for (all, new) in outcome.calls.iter_mut().zip(seen.calls) {
            *all = all.saturating_add(new);
        }
        // Each event lists all of them.
        let searches = u32::try_from(seen.queries.unwrap_or(0)).unwrap_or(u32::MAX);
        outcome.calls[0] = outcome.calls[0].max(searches);
    }
}

/// The wire that an event is of, if it has what events of no other wire have.
fn wire_of(seen: &Seen) -> Option<Kind> {
    if seen.choices.is_some() {
        return Some(Kind::Chat);
    }
    if seen.is_of_gemini {
        return Some(Kind::Gemini);
    }
    let kind = seen.kind.as_deref()?;
    let of_messages = ["message_", "content_block_"];
    match kind {
        _ if kind.starts_with("response.") => Some(Kind::Responses),
        _ if of_messages.iter().any(|begin| kind.starts_with(begin)) => Some(Kind::Messages),
        _ => None,
    }
}

/// Returns whether an event of this type has a complete item.
fn is_item(kind: &str) -> bool {
    kind == "response.output_item.done"
}

/// Returns whether an event of this type ends a stream with an error.
fn is_failure(kind: &str) -> bool {
    matches!(kind, "error" | "response.failed")
}

/// Returns whether an event of this type is the last one.
fn ends_stream(kind: &str) -> bool {
    matches!(
        kind,
        "response.completed"
            | "response.incomplete"
            | "response.cancelled"
            | "message_stop"
            | "image_generation.completed"
            | "image_edit.completed"
            | "transcript.text.done"
            | "speech.audio.done"
    )
}

#[cfg(test)]
#[path = "answer_tests.rs"]
pub(super) mod tests;
