//! Splits a stream of bytes into lines, in bounded memory. It does not interpret them.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt};

/// A line, or the report that one was skipped.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The line without its `\n` or `\r\n`; never blank, possibly not UTF-8.
    Text(&'a [u8]),
    /// A line exceeded the bound. Reported once, as soon as it happens; the rest of the line is
    /// discarded too.
    TooLong,
}

/// Size of one read: the capacity of a pipe, so that one system call returns many lines.
const READ_BYTES: usize = 64 << 10;
/// A buffer that grew beyond this for a long line is released.
const RETAINED_BYTES: usize = 256 << 10;
/// With less room than this the buffer is compacted or grown before the next read.
const LEAST_ROOM: usize = 8 << 10;

/// Reads lines of at most `max_line` bytes. Blank lines are skipped; the last line needs no
/// newline. The buffer never exceeds `max_line` plus one read.
pub struct LineReader<R> {
    reader: R,
    max_line: usize,
    /// Fully initialized; `start..end` was read and not yet returned.
    buffer: Vec<u8>,
    start: usize,
    /// `start..scanned` contains no newline.
    scanned: usize,
    end: usize,
    /// Inside an overlong line.
    skipping: bool,
    at_end: bool,
}

enum Step {
    Line(Range<usize>),
    TooLong,
    NeedsMore,
    End,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Creates a reader of lines of at most `max_line` bytes, newline not counted.
    pub fn new(reader: R, max_line: usize) -> Self {
        Self {
            reader,
            max_line,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            end: 0,
            skipping: false,
            at_end: false,
        }
    }

    /// Returns the next line, `None` at the end of the stream. Cancel safe: no byte is lost.
    ///
    /// # Errors
    /// Those of the underlying reader.
    pub async fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            match self.step() {
                Step::Line(range) => {
                    let range = self.trim(range);
                    if !range.is_empty() {
                        return Ok(Some(Line::Text(&self.buffer[range])));
                    }
                }
                Step::TooLong => return Ok(Some(Line::TooLong)),
                Step::NeedsMore => self.fill().await?,
                Step::End => return Ok(None),
            }
        }
    }

    /// Capacity of the buffer, in bytes.
    pub fn buffer_capacity(&self) -> usize {
        self.buffer.capacity()
    }

    fn step(&mut self) -> Step {
        let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..self.end]) else {
            return self.step_without_newline();
        };
        let line = self.start..self.scanned + at;
        self.start = line.end + 1;
        self.scanned = self.start;
        if std::mem::take(&mut self.skipping) {
            return Step::Line(line.end..line.end);
        }
        if line.len() > self.max_line {
            return Step::TooLong;
        }
        Step::Line(line)
    }

    fn step_without_newline(&mut self) -> Step {
        self.scanned = self.end;
        if self.skipping {
            self.start = self.end;
        } else if self.end - self.start > self.max_line {
            self.skipping = true;
            self.start = self.end;
            return Step::TooLong;
        }
        if !self.at_end {
            return Step::NeedsMore;
        }
        let rest = self.start..self.end;
        self.start = self.end;
        if rest.is_empty() { Step::End } else { Step::Line(rest) }
    }

    /// Removes the `\r` of `\r\n`; returns an empty range for a line of white space only.
    fn trim(&self, range: Range<usize>) -> Range<usize> {
        let line = &self.buffer[range.clone()];
        if line.trim_ascii().is_empty() {
            return range.start..range.start;
        }
        let end = range.end - usize::from(line.ends_with(b"\r"));
        range.start..end
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.make_room();
        let read = self.reader.read(&mut self.buffer[self.end..]).await?;
        self.end += read;
        self.at_end = read == 0;
        Ok(())
    }

    fn make_room(&mut self) {
        let pending = self.end - self.start;
        let shrink = self.buffer.len() > RETAINED_BYTES && pending <= READ_BYTES / 2;
        if shrink || self.buffer.is_empty() {
            self.resize(READ_BYTES);
        } else if pending == 0 {
            (self.start, self.scanned, self.end) = (0, 0, 0);
        } else if self.buffer.len() - self.end < LEAST_ROOM {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let pending = self.end - self.start;
        if self.buffer.len() - pending < READ_BYTES / 2 {
            let most = self.max_line.saturating_add(READ_BYTES);
            self.resize((self.buffer.len() * 2).min(most).max(pending + LEAST_ROOM));
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        (self.scanned, self.end) = (self.scanned - self.start, pending);
        self.start = 0;
    }

    /// Moves the pending bytes to the front of a new buffer. Zeroed memory costs nothing until it
    /// is written to.
    fn resize(&mut self, bytes: usize) {
        let pending = self.end - self.start;
        let mut fresh = vec![0; bytes];
        fresh[..pending].copy_from_slice(&self.buffer[self.start..self.end]);
        self.buffer = fresh;
        (self.scanned, self.end) = (self.scanned - self.start, pending);
        self.start = 0;
    }
}
