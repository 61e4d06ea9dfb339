//! Observes a response, as one JSON body or as a stream of events: its usage, its id, and whether
//! it is complete. It keeps no other part of the response, and changes nothing.

use super::sse::{Event, Events};
use super::usage::Usage;
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
    /// The id of the response or chat completion.
    pub id: Option<String>,
    /// Unicode scalar values of the received text of the model.
    pub output_chars: u64,
    /// Those that were received after the last usage, which does not count them.
    pub chars_after_usage: u64,
    /// Entries of `data`: images or embeddings.
    pub data_entries: Option<u64>,
    /// Duration of audio in milliseconds, from `duration` or the seconds in `usage`.
    pub duration_ms: Option<u64>,
}

/// Reads a response in pieces of any size, in memory that does not grow with the response.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    outcome: Outcome,
    /// Images that events have completed.
    images: u64,
    /// Scalar values of completed items. They repeat the text of deltas, but some servers send no deltas.
    item_chars: u64,
}

#[derive(Debug)]
enum Source {
    Json(Box<Walk>),
    Events(Box<Events>),
}

/// The properties of an event that the filter uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventShape {
    /// True if its `choices` are an empty list, and its `usage` is not null.
    pub(super) usage_alone: bool,
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

    /// A reader for the `Content-Type`; `None` when it is neither JSON nor events.
    pub fn for_content_type(content_type: &str) -> Option<Self> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            return Some(Self::events());
        }
        kind.eq_ignore_ascii_case("application/json").then(Self::json)
    }

    fn new(source: Source) -> Self {
        Self { source, outcome: Outcome::default(), images: 0, item_chars: 0 }
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
        }
    }

    /// The id of the response, once it is received.
    pub fn id(&self) -> Option<&str> {
        let coming = match &self.source {
            Source::Json(walk) => walk.seen.id.as_deref(),
            Source::Events(events) => events.coming().id.as_deref(),
        };
        self.outcome.id.as_deref().or(coming)
    }

    /// Returns the observations. The response has ended, or is cut off here.
    pub fn finish(mut self) -> Outcome {
        match &mut self.source {
            Source::Json(walk) => {
                let seen = walk.restart();
                self.outcome.complete = seen.closed;
                self.outcome.data_entries = seen.data_entries;
                let text = seen.output_chars + seen.delta_chars;
                self.take(seen, text);
            }
            // An incomplete event does not count, but its text was forwarded.
            Source::Events(events) => {
                let seen = events.coming();
                let text = seen.output_chars + seen.delta_chars;
                match seen.kind.as_deref().is_some_and(is_item) {
                    true => self.item_chars += text,
                    false => {
                        self.outcome.output_chars += text;
                        self.outcome.chars_after_usage += text;
                    }
                }
                if self.outcome.usage.is_none() {
                    let text = self.outcome.output_chars.max(self.item_chars);
                    self.outcome.output_chars = text;
                    self.outcome.chars_after_usage = text;
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
        let Event { mut seen, done, name } = event;
        let kind = seen.kind.take().unwrap_or(name);
        self.outcome.complete |= done || ends_stream(&kind);
        if matches!(kind.as_str(), "image_generation.completed" | "image_edit.completed") {
            self.images += 1;
            self.outcome.data_entries = Some(self.images);
        }
        let usage_alone = seen.choices == Some(0) && seen.has_usage;
        // Audio is not text.
        let delta = if kind.ends_with("audio.delta") { 0 } else { seen.delta_chars };
        let text = match is_item(&kind) {
            true => {
                self.item_chars += seen.output_chars;
                0
            }
            false => seen.output_chars + delta,
        };
        self.take(seen, text);
        EventShape { usage_alone }
    }

    fn take(&mut self, seen: Seen, text: u64) {
        let outcome = &mut self.outcome;
        outcome.chars_after_usage =
            if seen.usage.is_some() { 0 } else { outcome.chars_after_usage + text };
        outcome.usage = seen.usage.or(outcome.usage);
        outcome.usage_invalid |= seen.usage_invalid;
        if outcome.id.is_none() {
            outcome.id = seen.id;
        }
        outcome.output_chars += text;
        outcome.duration_ms = seen.duration_ms.or(outcome.duration_ms);
    }
}

/// Returns whether an event of this type has a complete item.
fn is_item(kind: &str) -> bool {
    kind == "response.output_item.done"
}

/// Returns whether an event of this type is the last one.
fn ends_stream(kind: &str) -> bool {
    matches!(
        kind,
        "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "error"
            | "image_generation.completed"
            | "image_edit.completed"
            | "transcript.text.done"
            | "speech.audio.done"
    )
}

#[cfg(test)]
#[path = "answer_tests.rs"]
pub(super) mod tests;
