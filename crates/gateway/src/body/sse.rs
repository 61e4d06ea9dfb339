//! Cuts a stream of server-sent events into its lines and events as they come, and walks the data
//! of each. It keeps no event, and does not know what one means.

use memchr::memchr2;

use super::walk::{Seen, Walk};

/// The longest name of an event that is kept.
const MAX_NAME: usize = 64;
/// A field's name is at most so long, a byte order mark included.
const MAX_FIELD: usize = 8;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// The data that ends a chat stream.
const DONE: &[u8] = b"[DONE]";

/// What one event was.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) seen: Seen,
    /// Its data was `[DONE]`.
    pub(super) done: bool,
    /// The field `event`, empty when there was none.
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// In the name of a field; so many bytes of it were kept.
    Field(usize),
    /// Right behind the colon, where one space is passed.
    Colon(Target),
    Value(Target),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Data,
    Name,
    Nothing,
}

#[derive(Debug)]
pub(super) struct Events {
    walk: Walk,
    line: Line,
    field: [u8; MAX_FIELD],
    first_line: bool,
    /// A carriage return ended the last line; a line feed right behind it is part of that end.
    returned: bool,
    name: Vec<u8>,
    /// The first bytes of the data, and how long it is.
    start: [u8; DONE.len()],
    data: u64,
}

impl Events {
    pub(super) fn new() -> Self {
        Self {
            walk: Walk::new(false),
            line: Line::Field(0),
            field: [0; MAX_FIELD],
            first_line: true,
            returned: false,
            name: Vec::new(),
            start: [0; DONE.len()],
            data: 0,
        }
    }

    /// What is known of the event that is coming.
    pub(super) fn coming(&self) -> &Seen {
        &self.walk.seen
    }

    /// Bytes that are kept of what came.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.walk.held_bytes() + self.name.capacity()
    }

    /// Whether a line feed that comes next belongs to what came before.
    pub(super) fn awaits_line_feed(&self) -> bool {
        self.returned
    }

    /// Reads until an event ends, or all of `bytes`; how many bytes that were, and the event. A
    /// line feed behind the last carriage return of the event is read with it when it is there.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> (usize, Option<Event>) {
        let mut at = 0;
        if self.returned && !bytes.is_empty() {
            self.returned = false;
            at += usize::from(bytes[0] == b'\n');
        }
        while at < bytes.len() {
            let rest = &bytes[at..];
            let end = match self.line {
                Line::Field(0) if rest.starts_with(b"data:") => {
                    self.line = Line::Colon(Target::Data);
                    at += 5;
                    continue;
                }
                Line::Field(kept) => match self.field(rest, kept) {
                    (read, false) => {
                        at += read;
                        continue;
                    }
                    (read, true) => read,
                },
                Line::Colon(target) => {
                    self.line = Line::Value(target);
                    at += usize::from(rest[0] == b' ');
                    continue;
                }
                Line::Value(target) => {
                    let end = memchr2(b'\n', b'\r', rest);
                    self.value(&rest[..end.unwrap_or(rest.len())], target);
                    match end {
                        Some(end) => end,
                        None => return (bytes.len(), None),
                    }
                }
            };
            at += end + 1;
            if rest[end] == b'\r' {
                self.returned = at == bytes.len();
                at += usize::from(bytes.get(at) == Some(&b'\n'));
            }
            if let Some(event) = self.end_line() {
                return (at, Some(event));
            }
        }
        (at, None)
    }

    /// Reads of a field's name; how many bytes, and whether the byte behind them ends the line.
    fn field(&mut self, bytes: &[u8], mut kept: usize) -> (usize, bool) {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b':' => {
                    self.line = Line::Colon(self.target(kept));
                    return (at + 1, false);
                }
                b'\n' | b'\r' => {
                    self.line = Line::Field(kept);
                    return (at, true);
                }
                _ if kept < MAX_FIELD => {
                    self.field[kept] = *byte;
                    kept += 1;
                }
                // Longer than any that is known.
                _ => self.field[0] = 0,
            }
        }
        self.line = Line::Field(kept);
        (bytes.len(), false)
    }

    fn target(&self, kept: usize) -> Target {
        let name = &self.field[..kept];
        let marked = if self.first_line { name.strip_prefix(BYTE_ORDER_MARK) } else { None };
        match marked.unwrap_or(name) {
            b"data" => Target::Data,
            b"event" => Target::Name,
            _ => Target::Nothing,
        }
    }

    fn value(&mut self, bytes: &[u8], target: Target) {
        match target {
            Target::Data => {
                let from = usize::try_from(self.data).unwrap_or(usize::MAX).min(DONE.len());
                let room = &mut self.start[from..];
                let kept = room.len().min(bytes.len());
                room[..kept].copy_from_slice(&bytes[..kept]);
                self.data += bytes.len() as u64;
                self.walk.feed(bytes);
            }
            Target::Name => {
                let room = MAX_NAME.saturating_sub(self.name.len());
                self.name.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            Target::Nothing => {}
        }
    }

    /// Ends the line; the event, when the line was empty.
    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::replace(&mut self.line, Line::Field(0));
        let first = std::mem::replace(&mut self.first_line, false);
        match line {
            Line::Field(0) => Some(self.end_event()),
            Line::Field(kept) if first && self.field[..kept] == *BYTE_ORDER_MARK => {
                Some(self.end_event())
            }
            Line::Colon(Target::Data) | Line::Value(Target::Data) => {
                // Lines of data are joined by line feeds.
                self.walk.feed(b"\n");
                None
            }
            Line::Field(_) | Line::Colon(_) | Line::Value(_) => None,
        }
    }

    fn end_event(&mut self) -> Event {
        let done = self.data == DONE.len() as u64 && self.start == *DONE;
        self.data = 0;
        let name = String::from_utf8_lossy(&self.name).into_owned();
        self.name.clear();
        Event { seen: self.walk.restart(), done, name }
    }
}
