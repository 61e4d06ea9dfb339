//! Removes the usage chunk from a chat stream whose client did not ask for it, and observes the
//! stream as [`Reader`] does. All other bytes stay unchanged.

use bytes::Bytes;

use super::answer::{Outcome, Reader};
use super::usage::Usage;

/// A longer event is not held back, because it cannot be a chunk with only usage.
const MAX_HELD: usize = 64 << 10;

/// Forwards each event as soon as it is complete, except the chunk with usage and no choices.
#[derive(Debug)]
pub struct UsageFilter {
    reader: Reader,
    /// The received part of the incomplete event.
    held: Vec<Bytes>,
    held_bytes: usize,
    /// True if the event is too long and is being forwarded.
    passing: bool,
    /// True if the last event was removed.
    removed: bool,
}

impl Default for UsageFilter {
    fn default() -> Self {
        Self::new()
    }
}

impl UsageFilter {
    /// Creates a filter for the beginning of a stream.
    pub fn new() -> Self {
        Self {
            reader: Reader::events(),
            held: Vec::new(),
            held_bytes: 0,
            passing: false,
            removed: false,
        }
    }

    /// Reads the next bytes, and appends the bytes to forward to `out`. Pieces share the memory of
    /// the input; at most 64 KiB of an event are held back.
    pub fn feed(&mut self, mut bytes: Bytes, out: &mut Vec<Bytes>) {
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
            self.removed = event.usage_alone && !self.passing;
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

    /// See [`Reader::has_output`].
    pub fn has_output(&self) -> bool {
        self.reader.has_output()
    }

    /// See [`Reader::usage_so_far`].
    pub fn usage_so_far(&self) -> Option<Usage> {
        self.reader.usage_so_far()
    }

    /// See [`Reader::so_far`].
    pub fn so_far(&self) -> Outcome {
        self.reader.so_far()
    }

    /// The id of the completion, once it is received.
    pub fn id(&self) -> Option<&str> {
        self.reader.id()
    }

    /// Appends the rest of an incomplete event to `out`. Returns the observations.
    pub fn finish(mut self, out: &mut Vec<Bytes>) -> Outcome {
        out.append(&mut self.held);
        self.reader.finish()
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
        self.held.push(piece);
        self.passing |= self.held_bytes > MAX_HELD;
        if self.passing {
            out.append(&mut self.held);
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
