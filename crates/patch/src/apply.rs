//! Applies the hunks of one file to its text. Touches nothing but the lines that the hunks
//! remove and add: everything else stays as it is to the byte, line ends included. A last line
//! that is new ends with a line end.

use crate::lines::{self, FileLine};
use crate::locate::Place;
use crate::mismatch::Failure;
use crate::parse::{Hunk, Sign};
use crate::plan::ApplyError;
use crate::seek::Haystack;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text of `path` after `hunks`, which stand in the order of the file.
pub(crate) fn apply_hunks(path: &str, old: &str, hunks: &[Hunk]) -> Result<String, ApplyError> {
    let mut text = String::new();
    let mut body = old;
    // A byte order mark stays before whatever the first line becomes, unless the patch names it.
    if let Some(rest) = old.strip_prefix(BYTE_ORDER_MARK)
        && !names_byte_order_mark(hunks)
    {
        text.push(BYTE_ORDER_MARK);
        body = rest;
    }
    let file = lines::lines(body);
    let mut edit = Edit::new(&file, body);
    for (at, hunk) in hunks.iter().enumerate() {
        match edit.locate(hunk) {
            Ok(place) => edit.apply(hunk, &place),
            Err(Failure::TooCostly) => return Err(ApplyError::TooCostly(path.to_owned())),
            Err(Failure::NotFound { line, why }) => {
                return Err(ApplyError::NotFound {
                    path: path.to_owned(),
                    hunk: at + 1,
                    line,
                    why,
                });
            }
        }
    }
    edit.finish(&mut text);
    Ok(text)
}

fn names_byte_order_mark(hunks: &[Hunk]) -> bool {
    let mut lines = hunks.iter().flat_map(|hunk| &hunk.lines);
    lines.any(|line| line.text.starts_with(BYTE_ORDER_MARK))
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
    fn new(file: &'t [FileLine<'t>], text: &str) -> Self {
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

    fn apply(&mut self, hunk: &'t Hunk, place: &Place) {
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

    fn finish(mut self, text: &mut String) {
        self.keep(self.file.len());
        self.new.append(&mut self.last);
        lines::append(text, &self.new, self.usual_end);
    }
}
