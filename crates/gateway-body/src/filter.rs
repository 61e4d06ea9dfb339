//! Forwards a stream event by event, and observes it as [`Reader`] does. It may remove the usage chunk of a chat whose
//! client did not ask for it, and stops at an event of another wire. All other bytes stay unchanged.

use bytes::Bytes;

use super::answer::{EventShape, Outcome, Reader};
use super::scanned::Kind;
use super::usage::Usage;

/// A longer event is not held back until it is complete.
const MAX_HELD: usize = 64 << 10;

/// The last event of Messages.
const STOP: &[u8] = b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// Forwards each event as soon as it is complete.
#[derive(Debug)]
pub struct EventFilter {
    reader: Reader,
    /// True if the chunk with usage and no choices is removed.
    removes_usage: bool,
    /// The wire that all events are of; `None` if that does not matter.
    wire: Option<Kind>,
    /// The other wire that an event was of: nothing is forwarded from it on.
    other: Option<Kind>,
    /// Events that had data.
    events: u64,
    /// True if an event has arrived that is more than a sign of life.
    has_progress: bool,
    /// True once the last event of Messages has arrived.
    has_stop: bool,
    /// The received part of the incomplete event.
    held: Vec<Bytes>,
    held_bytes: usize,
    /// True if the event is too long and is being forwarded.
    passing: bool,
    /// True if the last event was removed.
    removed: bool,
}

/// The end of a stream.
#[derive(Debug)]
pub struct FilterEnd {
    /// The observations.
    pub outcome: Outcome,
    /// True if a part of an event was forwarded, and the rest is missing.
    pub is_inside: bool,
    /// True if the answer has its end, or an error in its place.
    pub is_over: bool,
}

impl EventFilter {
    /// Creates a filter for the beginning of a stream, whose events are all of `wire`, if that matters.
    pub fn new(removes_usage: bool, wire: Option<Kind>) -> Self {
        Self {
            reader: Reader::events(),
            removes_usage,
            wire,
            other: None,
            events: 0,
            has_progress: false,
            has_stop: false,
            held: Vec::new(),
            held_bytes: 0,
            passing: false,
            removed: false,
        }
    }

    /// Reads the next bytes, and appends the bytes to forward to `out`. Pieces share the memory of
    /// the input; at most 64 KiB of an event are held back.
    pub fn feed(&mut self, mut bytes: Bytes, out: &mut Vec<Bytes>) {
        if self.other.is_some() {
            return;
        }
        if self.reader.awaits_line_feed() && bytes.first() == Some(&b'\n') {
            // The line feed belongs to the previous event.
            let feed = bytes.split_to(1);
            self.reader.feed(&feed);
            self.line_feed(feed, out);
        }
        // Adjacent events are forwarded as one piece.
        let (mut kept, mut at) = (0, 0);
        while at < bytes.len() {
            let (read, event) = self.reader.feed_event(&bytes[at..]);
            let end = at + read;
            let Some(event) = event else {
                push(out, bytes.slice(kept..at));
                self.hold(bytes.slice(at..end), out);
                return;
            };
            if self.is_of_other_wire(event) {
                push(out, bytes.slice(kept..at));
                self.held.clear();
                return;
            }
            self.note(event);
            self.removed = self.removes_usage && event.usage_alone && !self.passing;
            if self.removed {
                push(out, bytes.slice(kept..at));
                self.held.clear();
                kept = end;
            } else {
                out.append(&mut self.held);
            }
            (self.held_bytes, self.passing) = (0, false);
            at = end;
        }
        push(out, bytes.slice(kept..));
    }

    /// Returns whether an event is of another wire than the stream, which it then notes.
    fn is_of_other_wire(&mut self, event: EventShape) -> bool {
        let (Some(wire), Some(found)) = (self.wire, event.wire) else { return false };
        if found != wire {
            self.other = Some(found);
        }
        found != wire
    }

    fn note(&mut self, event: EventShape) {
        self.events += u64::from(!event.is_empty);
        self.has_progress |= !event.is_empty && !event.is_ping;
        self.has_stop |= event.is_stop;
    }

    /// The observations so far.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The other wire that an event was of: nothing is forwarded from it on.
    pub fn other_wire(&self) -> Option<Kind> {
        self.other
    }

    /// The number of events that had data.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns whether an event has arrived since the last call that is more than a sign of life.
    pub fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.has_progress)
    }

    /// See [`Reader::usage_so_far`].
    pub fn usage_so_far(&self) -> Option<Usage> {
        self.reader.usage_so_far()
    }

    /// The rest of a stream that has ended, or was cut off, is appended to `out`. Where the wire matters, a last event
    /// without the blank line after it is forwarded if it ends the answer; any other beginning of an event is not. An
    /// answer of Messages that has given its `stop_reason` gets its last event where the server leaves it out.
    pub fn finish(mut self, out: &mut Vec<Bytes>) -> FilterEnd {
        let is_inside = self.passing;
        if self.wire.is_none() || is_inside {
            out.append(&mut self.held);
        } else if self.held_bytes > 0
            && self.other.is_none()
            && self.reader.is_at_end_of_value()
            && let (_, Some(event)) = self.reader.feed_event(b"\n\n")
        {
            self.is_of_other_wire(event);
            self.note(event);
            if self.is_over() {
                out.append(&mut self.held);
                if self.lacks_stop() {
                    out.push(Bytes::from_static(b"\n\n"));
                }
            }
        }
        let lacks_stop = self.lacks_stop();
        if lacks_stop && !is_inside {
            out.push(Bytes::from_static(STOP));
        }
        let is_over = self.is_over() && !(lacks_stop && is_inside);
        FilterEnd { outcome: self.reader.finish(), is_inside, is_over }
    }

    /// Returns whether the answer has its end, or an error in its place.
    fn is_over(&self) -> bool {
        let so_far = self.reader.so_far();
        self.other.is_none() && (so_far.failed || so_far.complete)
    }

    /// Returns whether the answer is complete but for the last event of Messages.
    fn lacks_stop(&self) -> bool {
        let is_messages = self.wire == Some(Kind::Messages);
        is_messages && self.is_over() && !self.has_stop && !self.reader.so_far().failed
    }

    fn line_feed(&mut self, feed: Bytes, out: &mut Vec<Bytes>) {
        if self.held_bytes > 0 {
            self.hold(feed, out);
        } else if !self.removed {
            out.push(feed);
        }
    }

    fn hold(&mut self, piece: Bytes, out: &mut Vec<Bytes>) {
        self.held_bytes += piece.len();
        let is_line = piece.ends_with(b"\n");
        self.held.push(piece);
        self.passing |= self.held_bytes > MAX_HELD;
        if self.passing {
            out.append(&mut self.held);
        } else if is_line && !self.removes_usage && !self.reader.is_in_event() {
            // Comments, which some servers send to keep a connection alive, without the blank line that ends an event.
            out.append(&mut self.held);
            self.held_bytes = 0;
        }
    }
}

fn push(out: &mut Vec<Bytes>, piece: Bytes) {
    if !piece.is_empty() {
        out.push(piece);
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
