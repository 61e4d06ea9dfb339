//! Reads the data of server-sent events incrementally. It stores no event, and does not interpret
//! its data.

use http_client::sse::{Parser, Token};

use super::walk::{Seen, Walk};

/// Longest event name that is kept, in bytes.
const MAX_NAME: usize = 64;
/// The data that ends a chat stream.
const DONE: &[u8] = b"[DONE]";

/// The observations of one event.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) seen: Seen,
    /// True if its data is `[DONE]`.
    pub(super) done: bool,
    /// The field `event`; empty when absent.
    pub(super) name: String,
    /// True if it has no data.
    pub(super) is_empty: bool,
}

#[derive(Debug)]
pub(super) struct Events {
    parser: Parser,
    walk: Walk,
    name: Vec<u8>,
    /// The first bytes of the data.
    start: [u8; DONE.len()],
    /// Length of the data, without the line feeds between its lines.
    data_bytes: u64,
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            parser: Parser::new(),
            walk: Walk::new(false),
            name: Vec::new(),
            start: [0; DONE.len()],
            data_bytes: 0,
        }
    }

    /// The observations so far of the incomplete event.
    pub(super) fn coming(&self) -> &Seen {
        &self.walk.seen
    }

    /// Returns whether the event that is being read has data or a name so far.
    pub(super) fn has_begun(&self) -> bool {
        self.data_bytes > 0 || !self.name.is_empty()
    }

    /// Bytes of the input that are held.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.walk.held_bytes() + self.name.capacity()
    }

    /// Returns whether a line feed that follows belongs to the line ending already read.
    pub(super) fn awaits_line_feed(&self) -> bool {
        self.parser.expects_line_feed()
    }

    /// Reads until an event ends or `bytes` end. Returns the number of bytes read, and the event. A
    /// line feed after the last carriage return of the event is consumed if it is in `bytes`.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (usize, Option<Event>) {
        let mut at = 0;
        loop {
            let (read, token) = self.parser.next(&bytes[at..]);
            at += read;
            match token {
                Some(Token::Data(piece)) => self.data(piece),
                Some(Token::DataLineEnd) => self.walk.feed(b"\n"),
                Some(Token::Name(piece)) => {
                    let room = MAX_NAME.saturating_sub(self.name.len());
                    self.name.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                Some(Token::EventEnd) => return (at, Some(self.end_event())),
                None => return (at, None),
            }
        }
    }

    fn data(&mut self, piece: &[u8]) {
        let from = usize::try_from(self.data_bytes).unwrap_or(usize::MAX).min(DONE.len());
        let room = &mut self.start[from..];
        let kept = room.len().min(piece.len());
        room[..kept].copy_from_slice(&piece[..kept]);
        self.data_bytes += piece.len() as u64;
        self.walk.feed(piece);
    }

    fn end_event(&mut self) -> Event {
        let done = self.data_bytes == DONE.len() as u64 && self.start == *DONE;
        let is_empty = std::mem::take(&mut self.data_bytes) == 0;
        let name = String::from_utf8_lossy(&self.name).into_owned();
        self.name.clear();
        Event { seen: self.walk.restart(), done, name, is_empty }
    }
}
