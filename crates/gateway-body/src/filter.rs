//! Takes the usage chunk out of a chat stream whose client did not ask for it, and watches the
//! stream as [`Reader`] does. All other bytes stay as they are.

use bytes::Bytes;

use super::answer::{Outcome, Reader};

/// An event that is longer than this is not held back: it is no chunk with usage alone.
const MAX_HELD: usize = 64 << 10;

/// Forwards each event as soon as it is complete, but the chunk that has no choices and tells the
/// usage.
#[derive(Debug)]
pub struct UsageFilter {
    reader: Reader,
    /// What came of the event that is not complete.
    held: Vec<Bytes>,
    held_bytes: usize,
    /// The event is too long, and is being forwarded.
    passing: bool,
    /// The last event was taken out.
    removed: bool,
}

impl Default for UsageFilter {
    fn default() -> Self {
        Self::new()
    }
}

impl UsageFilter {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self {
            reader: Reader::events(),
            held: Vec::new(),
            held_bytes: 0,
            passing: false,
            removed: false,
        }
    }

    /// Takes the next bytes, and adds to `out` what is to be forwarded. Pieces share the memory of
    /// what came; at most 64 KiB of an event are held back.
    pub fn feed(&mut self, mut bytes: Bytes, out: &mut Vec<Bytes>) {
        if self.reader.awaits_line_feed() && bytes.first() == Some(&b'\n') {
            // It belongs to the event that came before.
            let feed = bytes.split_to(1);
            self.reader.feed(&feed);
            self.line_feed(feed, out);
        }
        // Events that stay and lie side by side are forwarded as one piece.
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

    /// The id of the completion, as soon as it has come.
    pub fn id(&self) -> Option<&str> {
        self.reader.id()
    }

    /// Adds to `out` what is left of an event that was cut; what was seen.
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
