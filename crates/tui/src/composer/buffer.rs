//! The text of the composer: lines, the cursor, undo and redo. Every change goes through
//! [`Buffer::replace`] and costs as much as the text it changes and the line it is in.

use std::ops::Range;

/// Changes that can be undone.
const MAX_EDITS: usize = 2000;

/// A place in the text: between two characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pos {
    /// Index of the line.
    pub(super) line: usize,
    /// Bytes of the line before the place.
    pub(super) byte: usize,
}

impl Pos {
    /// The end of `text` that begins here.
    fn after(self, text: &str) -> Self {
        match text.rfind('\n') {
            None => Self { byte: self.byte + text.len(), ..self },
            Some(at) => Self {
                line: self.line + text.bytes().filter(|byte| *byte == b'\n').count(),
                byte: text.len() - at - 1,
            },
        }
    }
}

/// A change: at `at`, `removed` became `inserted`.
#[derive(Clone, Debug)]
struct Edit {
    at: Pos,
    /// The end of `inserted`.
    end: Pos,
    removed: String,
    inserted: String,
    /// The cursor before the change.
    cursor: Pos,
    /// Changes of one group are undone together.
    group: Option<u64>,
}

/// Lines of text and a cursor.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    /// Never empty; no line holds a line break.
    lines: Vec<String>,
    cursor: Pos,
    undo: Vec<Edit>,
    redo: Vec<Edit>,
    /// True if the next change may be undone together with the last.
    joins: bool,
    /// The group of the changes that follow, and how many groups there were.
    group: Option<u64>,
    groups: u64,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new("")
    }
}

impl Buffer {
    /// A text with the cursor at its end and nothing to undo.
    pub(super) fn new(text: &str) -> Self {
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let mut buffer = Self {
            lines,
            cursor: Pos::default(),
            undo: vec![],
            redo: vec![],
            joins: false,
            group: None,
            groups: 0,
        };
        buffer.cursor = buffer.end();
        buffer
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    pub(super) fn line(&self, index: usize) -> &str {
        self.lines.get(index).map_or("", String::as_str)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.len() == 1 && self.lines[0].is_empty()
    }

    pub(super) fn cursor(&self) -> Pos {
        self.cursor
    }

    /// Moves the cursor. What is typed next is undone apart from what was typed before.
    pub(super) fn set_cursor(&mut self, cursor: Pos) {
        if cursor != self.cursor {
            self.cursor = cursor;
            self.joins = false;
        }
    }

    /// The place after the last character.
    pub(super) fn end(&self) -> Pos {
        let line = self.lines.len() - 1;
        Pos { line, byte: self.lines[line].len() }
    }

    /// The text between two places.
    pub(super) fn slice(&self, range: Range<Pos>) -> String {
        let (start, end) = (range.start, range.end);
        if start.line == end.line {
            return self.line(start.line)[start.byte..end.byte].to_owned();
        }
        let mut text = self.line(start.line)[start.byte..].to_owned();
        for line in &self.lines[start.line + 1..end.line] {
            text.push('\n');
            text.push_str(line);
        }
        text.push('\n');
        text.push_str(&self.line(end.line)[..end.byte]);
        text
    }

    /// Replaces the range by `text`, and puts the cursor after it.
    pub(super) fn replace(&mut self, range: Range<Pos>, text: &str) {
        if range.is_empty() && text.is_empty() {
            return;
        }
        let removed = self.slice(range.clone());
        let edit = Edit {
            at: range.start,
            end: range.start.after(text),
            removed,
            inserted: text.to_owned(),
            cursor: self.cursor,
            group: self.group,
        };
        self.splice(range, text);
        self.cursor = edit.end;
        self.redo.clear();
        self.record(edit);
        self.joins = false;
    }

    /// As [`Buffer::replace`] of nothing at the cursor; undone together with what was inserted before it
    /// if nothing else came between.
    pub(super) fn type_text(&mut self, text: &str) {
        let joins = self.joins;
        let at = self.cursor;
        match self.undo.last_mut() {
            Some(last) if joins && last.removed.is_empty() && last.end == at => {
                last.inserted.push_str(text);
                last.end = at.after(text);
                self.cursor = last.end;
                self.redo.clear();
                self.splice(at..at, text);
            }
            _ => self.replace(at..at, text),
        }
        self.joins = true;
    }

    /// Separates further typing from earlier typing for undo.
    pub(super) fn seal(&mut self) {
        self.joins = false;
    }

    /// The changes that follow are undone together, up to [`Buffer::close_group`].
    pub(super) fn open_group(&mut self) {
        self.groups += 1;
        self.group = Some(self.groups);
        self.joins = false;
    }

    /// Ends a group.
    pub(super) fn close_group(&mut self) {
        self.group = None;
        self.joins = false;
    }

    /// Takes the last change or group back. Returns whether there was one.
    pub(super) fn undo(&mut self) -> bool {
        let Some(group) = self.undo.last().map(|edit| edit.group) else { return false };
        while let Some(edit) = self.undo.pop() {
            self.splice(edit.at..edit.end, &edit.removed);
            self.cursor = edit.cursor;
            self.redo.push(edit);
            if group.is_none() || self.undo.last().is_none_or(|edit| edit.group != group) {
                break;
            }
        }
        self.joins = false;
        true
    }

    /// Makes the change or group again that was taken back last. Returns whether there was one.
    pub(super) fn redo(&mut self) -> bool {
        let Some(group) = self.redo.last().map(|edit| edit.group) else { return false };
        while let Some(edit) = self.redo.pop() {
            self.splice(edit.at..edit.at.after(&edit.removed), &edit.inserted);
            self.cursor = edit.end;
            self.undo.push(edit);
            if group.is_none() || self.redo.last().is_none_or(|edit| edit.group != group) {
                break;
            }
        }
        self.joins = false;
        true
    }

    fn record(&mut self, edit: Edit) {
        if self.undo.len() >= MAX_EDITS {
            self.undo.drain(..MAX_EDITS / 2);
        }
        self.undo.push(edit);
    }

    fn splice(&mut self, range: Range<Pos>, text: &str) {
        let (start, end) = (range.start, range.end);
        if start.line == end.line && !text.contains('\n') {
            self.lines[start.line].replace_range(start.byte..end.byte, text);
            return;
        }
        let tail = self.lines[end.line][end.byte..].to_owned();
        let mut first = std::mem::take(&mut self.lines[start.line]);
        first.truncate(start.byte);
        first.push_str(text);
        first.push_str(&tail);
        let lines: Vec<String> = first.split('\n').map(str::to_owned).collect();
        self.lines.splice(start.line..=end.line, lines);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Buffer {
        pub(crate) fn text(&self) -> String {
            self.lines.join("\n")
        }
    }

    fn pos_at(buffer: &Buffer, chars: usize) -> Pos {
        let text = buffer.text();
        let count = text.chars().count().max(1);
        let prefix: String = text.chars().take(chars % (count + 1)).collect();
        Pos::default().after(&prefix)
    }

    proptest! {
        #[test]
        fn undo_and_redo_lead_back(
            edits in proptest::collection::vec((0usize..50, 0usize..50, "[a\n é日]{0,6}"), 1..30)
        ) {
            let mut buffer = Buffer::default();
            let mut states = vec![buffer.text()];
            for (from, to, text) in edits {
                let (a, b) = (pos_at(&buffer, from), pos_at(&buffer, to));
                let range = a.min(b)..a.max(b);
                if range.is_empty() && text.is_empty() {
                    continue;
                }
                buffer.replace(range, &text);
                states.push(buffer.text());
            }
            for state in states.iter().rev().skip(1) {
                prop_assert!(buffer.undo());
                prop_assert_eq!(&buffer.text(), state);
            }
            prop_assert!(!buffer.undo());
            for state in &states[1..] {
                prop_assert!(buffer.redo());
                prop_assert_eq!(&buffer.text(), state);
                prop_assert!(buffer.cursor() <= buffer.end());
            }
        }
    }

    #[test]
    fn typing_is_undone_as_a_whole_until_the_cursor_moves() {
        let mut buffer = Buffer::default();
        "one".chars().for_each(|c| buffer.type_text(&c.to_string()));
        buffer.set_cursor(Pos::default());
        "two\n".chars().for_each(|c| buffer.type_text(&c.to_string()));
        assert_eq!(buffer.text(), "two\none");
        assert!(buffer.undo());
        assert_eq!(buffer.text(), "one");
        assert!(buffer.undo() && !buffer.undo());
        assert!(buffer.redo() && buffer.redo() && !buffer.redo());
        assert_eq!(buffer.text(), "two\none");
    }
}
