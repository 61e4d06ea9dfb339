//! The state of a file while hunks are applied to it.

use crate::lines::{self, FileLine};
use crate::parse::{Hunk, Sign};
use crate::seek::Haystack;

/// The position of a hunk in its file.
pub(crate) struct HunkPosition {
    /// The first unprocessed line of the file that belongs to the hunk. Beyond the end of the file
    /// for a hunk that only adds lines and has no context.
    pub(crate) start: usize,
    /// Number of the hunk's lines that are used; the others are blank lines after it.
    pub(crate) lines: usize,
    /// Number of context lines at its beginning that the previous hunk produced.
    pub(crate) known: usize,
}

/// The old and the new lines of a file.
pub(crate) struct Edit<'t> {
    pub(crate) file: &'t [FileLine<'t>],
    pub(crate) haystack: Haystack<'t>,
    pub(crate) new: Vec<FileLine<'t>>,
    /// Number of lines of the file that are in `new` or removed.
    pub(crate) done: usize,
    /// The first line of the file after the previous hunk, whose last lines may be unchanged and
    /// not yet in `new`.
    pub(crate) next: usize,
    /// True if the last line end can be read as the start of a blank last line.
    pub(crate) is_ended: bool,
    /// Lines to append to the end of the file.
    last: Vec<FileLine<'t>>,
    usual_end: &'static str,
}

impl<'t> Edit<'t> {
    pub(crate) fn new(file: &'t [FileLine<'t>], text: &str) -> Self {
        let usual_end = match file.first() {
            Some(FileLine { end: "\r\n", .. }) => "\r\n",
            _ => "\n",
        };
        Self {
            file,
            haystack: Haystack::new(file),
            new: Vec::with_capacity(file.len()),
            done: 0,
            next: 0,
            is_ended: text.is_empty() || text.ends_with('\n'),
            last: Vec::new(),
            usual_end,
        }
    }

    pub(crate) fn apply(&mut self, hunk: &'t Hunk, position: &HunkPosition) {
        let lines = &hunk.lines[..position.lines];
        if position.start > self.file.len() {
            // Following hunks can still be anywhere in the file.
            let end = self.usual_end;
            return self.last.extend(lines.iter().map(|line| FileLine { text: &line.text, end }));
        }
        self.keep(position.start);
        let changed = lines.iter().rposition(|line| line.sign != Sign::Context);
        let mut at = position.start;
        let mut known = position.known;
        for (index, line) in lines.iter().enumerate() {
            match line.sign {
                Sign::Context if known > 0 => known -= 1,
                Sign::Context => {
                    at += 1;
                    // Lines after the last change are copied when the next hunk is found.
                    if changed.is_some_and(|changed| index < changed) {
                        self.keep(at);
                    }
                }
                Sign::Remove => {
                    at += 1;
                    self.done = at.min(self.file.len());
                }
                Sign::Add => self.new.push(FileLine { text: &line.text, end: self.usual_end }),
            }
        }
        self.next = at.min(self.file.len());
    }

    /// Copies the file's own lines up to `end`, because a loose match must not change context
    /// lines. An `end` beyond the last line also copies the blank line that its line end starts.
    fn keep(&mut self, end: usize) {
        let length = self.file.len();
        self.new.extend_from_slice(&self.file[self.done.min(length)..end.min(length)]);
        if end > length {
            self.new.push(FileLine { text: "", end: self.usual_end });
        }
        self.done = end.min(length);
    }

    pub(crate) fn finish(mut self, text: &mut String) {
        self.keep(self.file.len());
        self.new.append(&mut self.last);
        lines::append(text, &self.new, self.usual_end);
    }
}
