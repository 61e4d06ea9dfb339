//! A line of text that is being written in a dialog.

use unicode_segmentation::UnicodeSegmentation;

use crate::palette::Palette;
use crate::terminal::input::{Code, Key};
use crate::text::{Line, Style, width};

/// Most characters of a field; the protocol takes as many in an answer.
const MAX_CHARS: usize = 65_536;

/// The text and the cursor.
#[derive(Clone, Default)]
pub(super) struct Field {
    before: String,
    after: String,
    is_secret: bool,
}

impl std::fmt::Debug for Field {
    /// Without the text, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Field").field("is_secret", &self.is_secret).finish_non_exhaustive()
    }
}

impl Field {
    pub(super) fn new(text: String, is_secret: bool) -> Self {
        Self { before: text, after: String::new(), is_secret }
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.before, self.after)
    }

    pub(super) fn is_secret(&self) -> bool {
        self.is_secret
    }

    pub(super) fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }

    /// Inserts text at the cursor; returns whether it fits.
    pub(super) fn insert(&mut self, text: &str) -> bool {
        let fits = self.text().chars().count() + text.chars().count() <= MAX_CHARS;
        if fits {
            self.before.push_str(text);
        }
        fits
    }

    /// Takes a key that edits; returns whether it is one.
    pub(super) fn key(&mut self, key: Key) -> bool {
        match key.code {
            Code::Left => self.left(),
            Code::Right => self.right(),
            Code::Home => self.home(),
            Code::End => self.end(),
            Code::Char('a') if key.ctrl => self.home(),
            Code::Char('e') if key.ctrl => self.end(),
            Code::Char('u') if key.ctrl => self.before.clear(),
            Code::Char('k') if key.ctrl => self.after.clear(),
            Code::Char('w') if key.ctrl => {
                let kept = self.before.trim_end();
                let kept = kept.rfind(char::is_whitespace).map_or(0, |at| at + 1);
                self.before.truncate(self.before.floor_char_boundary(kept));
            }
            Code::Backspace => {
                self.before.truncate(last(&self.before));
            }
            Code::Char('h') if key.ctrl => {
                self.before.truncate(last(&self.before));
            }
            Code::Delete => {
                let first = self.after.graphemes(true).next().map_or(0, str::len);
                self.after.drain(..first);
            }
            _ => match key.typed() {
                Some(c) => return self.insert(c.encode_utf8(&mut [0; 4])),
                None => return false,
            },
        }
        true
    }

    fn left(&mut self) {
        let moved = self.before.split_off(last(&self.before));
        self.after.insert_str(0, &moved);
    }

    fn right(&mut self) {
        let first = self.after.graphemes(true).next().map_or(0, str::len);
        self.before.extend(self.after.drain(..first));
    }

    fn home(&mut self) {
        self.after.insert_str(0, &std::mem::take(&mut self.before));
    }

    fn end(&mut self) {
        self.before.push_str(&std::mem::take(&mut self.after));
    }

    /// The text in rows after `label`, and the row and column of the cursor.
    pub(super) fn rows(&self, label: &str, columns: usize) -> (Vec<Line>, (usize, usize)) {
        let columns = columns.max(2);
        let shown = |text: &str| match self.is_secret {
            true => "•".repeat(text.graphemes(true).count()),
            false => visible::line(text).into_owned(),
        };
        let before = format!("{label}{}", shown(&self.before));
        let text = format!("{before}{}", shown(&self.after));
        // Broken anywhere, so that the place of the cursor is known.
        let (mut lines, mut row, mut used, mut at) = (Vec::new(), String::new(), 0, 0);
        let mut cursor = (0, 0);
        for part in text.graphemes(true) {
            if used + width(part) > columns - 1 && !row.is_empty() {
                lines.push(Line::new(std::mem::take(&mut row), Style::PLAIN));
                used = 0;
            }
            if at == before.len() {
                cursor = (lines.len(), used);
            }
            row.push_str(part);
            used += width(part);
            at += part.len();
        }
        if self.after.is_empty() {
            cursor = (lines.len(), used);
        }
        lines.push(Line::new(row, Style::PLAIN));
        if self.is_secret && self.is_empty() {
            lines[0].push("(hidden as you type)", Palette::QUIET);
        }
        (lines, cursor)
    }
}

/// Where the last character begins.
fn last(text: &str) -> usize {
    text.grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
}
