//! Server-sent events: [`Parser`] splits bytes into the parts of events without keeping any, [`Reader`]
//! assembles the data of whole events. Ids and retry hints are ignored, because the APIs in use send
//! neither.

use memchr::memchr2;

/// Longest data of one event, and longest ignored line, in bytes; a longer one ends the stream.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// Longest name of an event that is kept, in bytes; a longer one is cut.
const MAX_NAME: usize = 128;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// The longest field name that is recognised, with a byte order mark in front of it.
const MAX_FIELD: usize = BYTE_ORDER_MARK.len() + b"event".len();

/// A part of an event. The slices lie in the bytes that were fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'b> {
    /// A piece of a `data` line's value, never empty.
    Data(&'b [u8]),
    /// A `data` line ended. Data lines of one event are joined by line feeds.
    DataLineEnd,
    /// A piece of an `event` line's value.
    Name(&'b [u8]),
    /// A blank line ended the event, whether or not it had data.
    EventEnd,
}

/// Splits a stream into [`Token`]s. It accepts the stream in any pieces and buffers none of them.
#[derive(Clone, Debug)]
pub struct Parser {
    line: Line,
    field: [u8; MAX_FIELD],
    first_line: bool,
    /// A carriage return was the last byte; a line feed that follows belongs to the same line end.
    after_return: bool,
    /// Bytes of the current line that were ignored.
    ignored: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// In a field's name, of which this many bytes are kept.
    Field(usize),
    /// Directly after the colon, where one space is skipped.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Name,
    Ignored,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    /// At the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            line: Line::Field(0),
            field: [0; MAX_FIELD],
            first_line: true,
            after_return: false,
            ignored: 0,
        }
    }

    /// Returns whether a line feed that comes next belongs to the line end that was already read.
    #[must_use]
    pub fn expects_line_feed(&self) -> bool {
        self.after_return
    }

    /// Reads up to the end of the next token: the number of bytes read, and the token; no token when
    /// all bytes were read without one. A line feed after a carriage return is read together with it
    /// if it is in `bytes`.
    #[inline]
    pub fn next<'b>(&mut self, bytes: &'b [u8]) -> (usize, Option<Token<'b>>) {
        let mut at = 0;
        if self.after_return && !bytes.is_empty() {
            self.after_return = false;
            at += usize::from(bytes[0] == b'\n');
        }
        while at < bytes.len() {
            let rest = &bytes[at..];
            let end = match self.line {
                Line::Field(0) if rest.starts_with(b"data:") => {
                    self.line = Line::Colon(Field::Data);
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
                Line::Colon(field) => {
                    self.line = Line::Value(field);
                    at += usize::from(rest[0] == b' ');
                    continue;
                }
                Line::Value(field) => {
                    let end = memchr2(b'\n', b'\r', rest);
                    let value = &rest[..end.unwrap_or(rest.len())];
                    if !value.is_empty() {
                        at += value.len();
                        match field {
                            Field::Data => return (at, Some(Token::Data(value))),
                            Field::Name => return (at, Some(Token::Name(value))),
                            Field::Ignored => self.ignored += value.len(),
                        }
                        continue;
                    }
                    0
                }
            };
            at += end + 1;
            if rest[end] == b'\r' {
                self.after_return = at == bytes.len();
                at += usize::from(bytes.get(at) == Some(&b'\n'));
            }
            if let Some(token) = self.end_line() {
                return (at, Some(token));
            }
        }
        (at, None)
    }

    /// Reads a field's name: the number of bytes, and whether the byte after them ends the line.
    fn field(&mut self, bytes: &[u8], mut kept: usize) -> (usize, bool) {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b':' => {
                    self.line = Line::Colon(self.named(kept));
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
                _ => {
                    // Longer than any known name: make it none of them.
                    self.field[0] = 0;
                    self.ignored += 1;
                }
            }
        }
        self.line = Line::Field(kept);
        (bytes.len(), false)
    }

    fn named(&self, kept: usize) -> Field {
        let name = &self.field[..kept];
        let marked = if self.first_line { name.strip_prefix(BYTE_ORDER_MARK) } else { None };
        match marked.unwrap_or(name) {
            b"data" => Field::Data,
            b"event" => Field::Name,
            _ => Field::Ignored,
        }
    }

    fn end_line(&mut self) -> Option<Token<'static>> {
        let line = std::mem::replace(&mut self.line, Line::Field(0));
        let token = match line {
            Line::Field(0) => Some(Token::EventEnd),
            Line::Field(kept) if self.first_line && self.field[..kept] == *BYTE_ORDER_MARK => {
                Some(Token::EventEnd)
            }
            // `data` without a colon is an empty data line.
            Line::Field(kept) if self.named(kept) == Field::Data => Some(Token::DataLineEnd),
            Line::Colon(Field::Data) | Line::Value(Field::Data) => Some(Token::DataLineEnd),
            Line::Field(_) | Line::Colon(_) | Line::Value(_) => None,
        };
        self.first_line = false;
        self.ignored = 0;
        token
    }
}

/// An event exceeds [`MAX_EVENT_BYTES`]; the rest of the stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the model provider sent an event longer than {} MiB", MAX_EVENT_BYTES >> 20)]
pub struct TooLong;

/// Assembles the data of whole events. Data that lies within one chunk is handed out without a copy;
/// of an unfinished event at most [`MAX_EVENT_BYTES`] are kept.
#[derive(Debug, Default)]
pub struct Reader {
    parser: Parser,
    /// Data of the event under way that earlier chunks held, with its lines joined by `\n`.
    data: Vec<u8>,
    /// The event under way has a data line.
    has_data: bool,
    /// The last data line has ended: the next one is joined to it.
    line_ended: bool,
    /// The name of the event under way, cut at [`MAX_NAME`].
    name: Vec<u8>,
}

impl Reader {
    /// At the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads `chunk` and calls `on_data` with the name and the data of each event that ends in it. Most events have
    /// no name: theirs is empty.
    ///
    /// # Errors
    /// When an event is too long.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut on_data: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), TooLong> {
        let mut rest = chunk;
        // All data of the event under way, while it lies in `chunk` and is not in `self.data`.
        let mut pending: Option<&[u8]> = None;
        loop {
            let (read, token) = self.parser.next(rest);
            rest = &rest[read..];
            match token {
                Some(Token::Data(piece)) => {
                    if self.line_ended {
                        self.join(pending.take())?;
                        self.keep(piece)?;
                    } else if self.has_data {
                        self.keep(piece)?;
                    } else {
                        pending = Some(piece);
                    }
                    (self.has_data, self.line_ended) = (true, false);
                }
                Some(Token::DataLineEnd) => {
                    if self.line_ended {
                        self.join(pending.take())?;
                    }
                    (self.has_data, self.line_ended) = (true, true);
                }
                Some(Token::EventEnd) => self.end_event(pending.take(), &mut on_data),
                Some(Token::Name(piece)) => {
                    let room = MAX_NAME - self.name.len();
                    self.name.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                None => break,
            }
        }
        if let Some(data) = pending {
            self.keep(data)?;
        }
        // Bounded too: a line that never ends would keep the connection busy for nothing.
        if self.parser.ignored + MAX_FIELD > MAX_EVENT_BYTES { Err(TooLong) } else { Ok(()) }
    }

    /// The data of an event that the stream ended in; empty if the end is in another line. `None` if the stream
    /// ended between events.
    #[must_use]
    pub fn rest(&self) -> Option<&[u8]> {
        let is_in_line = self.parser.line != Line::Field(0);
        (self.has_data || is_in_line).then_some(&*self.data)
    }

    /// The name of that event.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Keeps the lines so far, and begins another one.
    fn join(&mut self, pending: Option<&[u8]>) -> Result<(), TooLong> {
        self.keep(pending.unwrap_or_default())?;
        self.keep(b"\n")
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.data.len() + bytes.len() > MAX_EVENT_BYTES {
            return Err(TooLong);
        }
        self.data.extend_from_slice(bytes);
        Ok(())
    }

    fn end_event(&mut self, pending: Option<&[u8]>, on_data: &mut impl FnMut(&[u8], &[u8])) {
        match pending {
            Some(data) => on_data(&self.name, data),
            None if self.has_data => {
                on_data(&self.name, &self.data);
                self.data.clear();
            }
            None => {}
        }
        self.name.clear();
        (self.has_data, self.line_ended) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut reader = Reader::new();
        let mut events = Vec::new();
        for chunk in chunks {
            reader
                .feed(chunk, |_, data| events.push(String::from_utf8_lossy(data).into()))
                .unwrap();
        }
        events
    }

    #[test]
    fn events_follow_the_format() {
        let check = |text: &str, expect: &[&str]| {
            assert_eq!(read([text.as_bytes()]), expect, "{text:?}");
        };
        check("data: a\n\n", &["a"]);
        check("data:a\r\n\r\ndata:  b\r\r", &["a", " b"]);
        check("event: x\nid: 1\nretry: 5\ndata: a\n: comment\ndata: b\n\n", &["a\nb"]);
        check("data\n\n", &[""]);
        check("data\ndata\n\n", &["\n"]);
        check("\n\n: hi\n\nevent: only\n\n", &[]);
        check("dataset: no\n\n", &[]);
        check("\u{feff}data: a\n\n", &["a"]);
        check("\u{feff}\u{feff}data: a\n\n", &[]);
        check("data: cut", &[]);
        check("data: a\n", &[]);
    }

    #[test]
    fn the_name_of_an_event_goes_with_its_data() {
        for size in [1, 2, 100] {
            let (mut reader, mut events) = (Reader::new(), Vec::new());
            let long = "x".repeat(2 * MAX_NAME);
            let text = format!(
                "event: a.b\ndata: 1\n\ndata: 2\nevent:c\n\ndata: 3\n\nevent: {long}\ndata: 4\n\n"
            );
            for chunk in text.as_bytes().chunks(size) {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                reader.feed(chunk, |name, data| events.push((text(name), text(data)))).unwrap();
            }
            let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(names, ["a.b", "c", "", &long[..MAX_NAME]]);
        }
    }

    #[test]
    fn the_rest_of_a_stream_is_known() {
        let check = |text: &str, expect: Option<&str>| {
            let mut reader = Reader::new();
            reader.feed(text.as_bytes(), |_, _| ()).unwrap();
            assert_eq!(reader.rest(), expect.map(str::as_bytes), "{text:?}");
        };
        check("", None);
        check("data: a\n\n", None);
        check("data: a\n\n: comment\n", None);
        check("data: a\n\ndata: b", Some("b"));
        check("data: a\n\ndata: b\ndata: c\n", Some("b\nc"));
        check("data: a\n\ndat", Some(""));
        check("data: a\n\nevent: b", Some(""));
    }

    #[test]
    fn a_line_over_the_bound_is_refused() {
        let mut reader = Reader::new();
        let chunk = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        assert_eq!(reader.feed(&chunk, |_, _| ()), Ok(()));
        assert_eq!(reader.feed(&chunk, |_, _| ()), Err(TooLong));
    }

    fn split_at<'a>(mut text: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
        let mut chunks = Vec::new();
        for &size in sizes {
            let (head, tail) = text.split_at(size.min(text.len()));
            chunks.push(head);
            text = tail;
        }
        chunks.push(text);
        chunks
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            text in "(\u{feff})?(data|data:|data: |event: |: |x|é|\n|\r|\r\n){0,40}",
            sizes in prop::collection::vec(0_usize..6, 0..60),
        ) {
            let whole = read([text.as_bytes()]);
            prop_assert_eq!(read(split_at(text.as_bytes(), &sizes)), whole);
        }

        #[test]
        fn any_bytes_are_parsed_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            sizes in prop::collection::vec(0_usize..9, 0..40),
        ) {
            let whole = read([bytes.as_slice()]);
            prop_assert_eq!(read(split_at(&bytes, &sizes)), whole);
        }
    }
}
