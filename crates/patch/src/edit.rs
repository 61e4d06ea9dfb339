//! A file while hunks are applied to it: which of its lines are done, and the new ones.

use crate::lines::{self, FileLine};
use crate::parse::{Hunk, Sign};
use crate::seek::Haystack;

/// Where a hunk stands.
pub(crate) struct Place {
    /// The first line of the file that belongs to it and is not done. Behind the file when it only
    /// adds lines and nothing says where.
    pub(crate) start: usize,
    /// How many of the hunk's lines count; the others are blank lines behind it.
    pub(crate) lines: usize,
    /// How many context lines at its beginning are lines that the hunk before it left.
    pub(crate) known: usize,
}

/// A file on its way from its old to its new lines.
pub(crate) struct Edit<'t> {
    pub(crate) file: &'t [FileLine<'t>],
    pub(crate) haystack: Haystack<'t>,
    pub(crate) new: Vec<FileLine<'t>>,
    /// How many lines of the file are in `new` or removed.
    pub(crate) done: usize,
    /// The first line of the file after the hunk before, whose last lines may be unchanged and
    /// not yet in `new`.
    pub(crate) next: usize,
    /// Whether a blank last line may be seen behind the last line end.
    pub(crate) is_ended: bool,
    /// New lines for the end of the file.
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

    pub(crate) fn apply(&mut self, hunk: &'t Hunk, place: &Place) {
        let lines = &hunk.lines[..place.lines];
        if place.start > self.file.len() {
            // Hunks that follow may still be anywhere.
            let end = self.usual_end;
            return self.last.extend(lines.iter().map(|line| FileLine { text: &line.text, end }));
        }
        self.keep(place.start);
        let changed = lines.iter().rposition(|line| line.sign != Sign::Context);
        let mut at = place.start;
        let mut known = place.known;
        for (index, line) in lines.iter().enumerate() {
            match line.sign {
                Sign::Context if known > 0 => known -= 1,
                Sign::Context => {
                    at += 1;
                    // What comes after the last change is kept when the next hunk is found.
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

    /// Takes over the file's own lines up to `end`: a loose match must not change what only stands
    /// around. Behind the last line is the blank one that its line end begins.
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
