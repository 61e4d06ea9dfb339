//! The text, its chips, the kill ring and the view of them: what both sets of keys act on.

use std::cell::Cell;
use std::ops::Range;

use crate::palette::Palette;
use crate::text::Line;
use crate::view::View;

use super::buffer::{Buffer, Pos};
use super::chip::{Chip, ChipKind, Chips, is_chip};
use super::complete::Insertion;
use super::draft::{Draft, DraftElement};
use super::layout::{self, Row};
use super::motion;

/// Texts that were killed, of which Alt+Y brings back the earlier ones.
const MAX_KILLS: usize = 30;
/// The sign before the first row; the others are indented by as much.
const PROMPT: &str = "› ";
const PROMPT_CELLS: usize = 2;

/// The text and everything that belongs to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Editor {
    buffer: Buffer,
    chips: Chips,
    /// The killed texts, the last one at the end.
    kills: Vec<String>,
    /// The part of `kills` that the last key inserted, and its origin.
    yanked: Option<(Range<Pos>, usize)>,
    /// True if the last key killed a text, which the next kill is added to.
    killed: bool,
    /// The column that moves up and down keep to.
    goal: Option<usize>,
    /// Columns for text and the first row, as they were drawn last.
    columns: Cell<usize>,
    top: Cell<(usize, usize)>,
}

impl Editor {
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(super) fn cursor(&self) -> Pos {
        self.buffer.cursor()
    }

    /// A key is about to act: kills and moves up and down of the key before are over unless it is one, too.
    pub(super) fn begin(&mut self) -> Previous {
        Previous {
            killed: std::mem::take(&mut self.killed),
            yanked: self.yanked.take(),
            goal: self.goal.take(),
        }
    }

    /// Lets the next key know what the key before left, moves up and down only.
    pub(super) fn resume(&mut self, previous: &Previous) {
        self.goal = previous.goal;
    }

    pub(super) fn seal(&mut self) {
        self.buffer.seal();
    }

    /// See [`Buffer::open_group`].
    pub(super) fn open_group(&mut self) {
        self.buffer.open_group();
    }

    pub(super) fn close_group(&mut self) {
        self.buffer.close_group();
    }

    pub(super) fn move_to(&mut self, pos: Pos) {
        self.buffer.set_cursor(pos);
    }

    /// A character that was typed.
    pub(super) fn type_char(&mut self, c: char) {
        self.begin();
        let text = self.chips.admit(c.encode_utf8(&mut [0; 4]));
        self.buffer.type_text(&text);
    }

    /// Text at the cursor.
    pub(super) fn insert(&mut self, text: &str) {
        self.begin();
        let text = self.chips.admit(text);
        let at = self.cursor();
        self.buffer.replace(at..at, &text);
    }

    /// Pasted text as a chip at the cursor.
    pub(super) fn insert_pasted(&mut self, text: String) {
        self.begin();
        let at = self.cursor();
        let number = self.chips.count(|kind| *kind == ChipKind::Pasted) + 1;
        self.replace_with_chip(at..at, Chip::pasted(number, text));
    }

    /// An image at the cursor.
    pub(super) fn insert_image(&mut self, path: &str, size: Option<(u32, u32)>) {
        self.begin();
        let at = self.cursor();
        let number = self.chips.count(|kind| matches!(kind, ChipKind::Image { .. })) + 1;
        self.replace_with_chip(at..at, Chip::image(number, path.to_owned(), size));
    }

    fn replace_with_chip(&mut self, range: Range<Pos>, chip: Chip) {
        let text = match self.chips.add(chip) {
            Ok(c) => c.to_string(),
            Err(chip) => chip.text,
        };
        self.buffer.replace(range, &text);
    }

    /// Makes the text of the range a chip if `is_long` holds for it.
    pub(super) fn fold(&mut self, range: Range<Pos>, is_long: impl Fn(&str) -> bool) {
        let text = self.buffer.slice(range.clone());
        if is_long(&text) {
            let text = self.chips.expand(&text);
            let number = self.chips.count(|kind| *kind == ChipKind::Pasted) + 1;
            self.replace_with_chip(range, Chip::pasted(number, text));
        }
    }

    /// Puts what was chosen from a list in the place of what was typed.
    pub(super) fn complete(&mut self, range: Range<Pos>, insertion: Insertion) {
        self.begin();
        match insertion {
            Insertion::Text(text) => {
                let text = self.chips.admit(&text);
                self.buffer.replace(range, &text);
            }
            Insertion::Skill { name, path } => {
                self.replace_with_chip(range, Chip::skill(name, path));
                self.buffer.type_text(" ");
            }
            Insertion::Mention { name, path } => {
                self.replace_with_chip(range, Chip::mention(name, path));
                self.buffer.type_text(" ");
            }
        }
    }

    /// Removes a backslash before the cursor; returns whether there was one.
    pub(super) fn take_backslash(&mut self) -> bool {
        let at = self.cursor();
        let has = self.buffer.line(at.line)[..at.byte].ends_with('\\');
        if has {
            self.buffer.replace(Pos { byte: at.byte - 1, ..at }..at, "");
        }
        has
    }

    /// Removes a range without keeping it. Returns whether there was anything.
    pub(super) fn delete(&mut self, range: Range<Pos>) -> bool {
        let any = range.start < range.end;
        if any {
            self.buffer.replace(range, "");
        }
        any
    }

    /// Replaces a range by text that may hold chips.
    pub(super) fn replace(&mut self, range: Range<Pos>, text: &str) {
        self.buffer.replace(range, text);
    }

    /// Removes a range and keeps it in the kill ring: at the end of the last kill if the key before killed,
    /// too, or before it if the text stood before the cursor.
    pub(super) fn kill(&mut self, range: Range<Pos>, previous: &Previous) {
        self.killed = true;
        if range.start >= range.end {
            return;
        }
        let text = self.buffer.slice(range.clone());
        let is_before = range.start < self.cursor();
        match self.kills.last_mut() {
            Some(last) if previous.killed && is_before => last.insert_str(0, &text),
            Some(last) if previous.killed => last.push_str(&text),
            _ => self.keep(text),
        }
        self.buffer.replace(range, "");
    }

    /// Keeps text in the kill ring.
    pub(super) fn keep(&mut self, text: String) {
        if self.kills.len() == MAX_KILLS {
            self.kills.remove(0);
        }
        self.kills.push(text);
    }

    /// Returns the text that was killed last.
    pub(super) fn kept(&self) -> Option<&str> {
        self.kills.last().map(String::as_str)
    }

    /// Inserts what was killed last; after another yank, what was killed before that in its place.
    pub(super) fn yank(&mut self, earlier: bool, previous: Previous) -> bool {
        let (range, index) = match previous.yanked {
            Some((range, index)) if earlier => {
                (range, (index + self.kills.len() - 1) % self.kills.len())
            }
            _ if earlier => return false,
            _ => (self.cursor()..self.cursor(), self.kills.len().wrapping_sub(1)),
        };
        let Some(text) = self.kills.get(index).cloned() else { return true };
        let start = range.start;
        self.buffer.replace(range, &text);
        self.yanked = Some((start..self.cursor(), index));
        true
    }

    pub(super) fn undo(&mut self) -> bool {
        self.buffer.undo()
    }

    pub(super) fn redo(&mut self) -> bool {
        self.buffer.redo()
    }

    /// Moves a row up or down; returns whether there is one.
    pub(super) fn vertical(&mut self, down: bool, previous: &Previous) -> bool {
        let columns = self.columns.get().max(1);
        let at = self.cursor();
        let rows = self.rows(at.line, columns);
        let index = layout::row_of(&rows, at.byte);
        let column = |row| layout::column_of(&self.buffer, &self.chips, row, at.byte, columns);
        let goal = previous.goal.unwrap_or_else(|| column(rows[index]));
        let target = match down {
            false if index > 0 => Some(rows[index - 1]),
            false => at.line.checked_sub(1).and_then(|line| self.rows(line, columns).pop()),
            true if index + 1 < rows.len() => Some(rows[index + 1]),
            true if at.line + 1 < self.buffer.lines().len() => {
                self.rows(at.line + 1, columns).first().copied()
            }
            true => None,
        };
        let Some(row) = target else { return false };
        self.goal = Some(goal);
        let pos = layout::place_at(&self.buffer, &self.chips, row, goal, columns);
        self.buffer.set_cursor(pos);
        true
    }

    fn rows(&self, line: usize, columns: usize) -> Vec<Row> {
        layout::rows(&self.buffer, &self.chips, line, columns)
    }

    /// See [`super::Composer::draft`].
    pub(super) fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        for (index, line) in self.buffer.lines().iter().enumerate() {
            if index > 0 {
                draft.text.push('\n');
            }
            let mut rest = line.as_str();
            while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_chip(*c)) {
                draft.text.push_str(&rest[..at]);
                rest = &rest[at + c.len_utf8()..];
                let Some(chip) = self.chips.get(c) else { continue };
                let start = draft.text.len();
                draft.text.push_str(&chip.text);
                draft.elements.push(DraftElement {
                    range: start..draft.text.len(),
                    label: chip.label.clone(),
                    kind: chip.kind.clone(),
                });
            }
            draft.text.push_str(rest);
        }
        draft
    }

    /// See [`super::Composer::clear`].
    pub(super) fn clear(&mut self) {
        self.begin();
        self.delete(Pos::default()..self.buffer.end());
    }

    /// See [`super::Composer::restore`].
    pub(super) fn restore(&mut self, draft: Draft) {
        self.begin();
        self.buffer = Buffer::default();
        let kills = std::mem::take(&mut self.kills);
        self.chips.retain(kills.iter().map(String::as_str));
        self.kills = kills;
        let mut text = String::with_capacity(draft.text.len());
        let mut done = 0;
        for DraftElement { range, label, kind } in draft.elements {
            let Some(before) = draft.text.get(done..range.start) else { continue };
            let Some(sent) = draft.text.get(range.clone()).filter(|it| !it.is_empty()) else {
                continue;
            };
            text.push_str(&self.chips.admit(before));
            done = range.end;
            match self.chips.add(Chip { kind, label, text: sent.to_owned() }) {
                Ok(c) => text.push(c),
                Err(chip) => text.push_str(&chip.text),
            }
        }
        text.push_str(&self.chips.admit(&draft.text[done..]));
        self.buffer = Buffer::new(&text);
        self.top.set((0, 0));
    }

    /// See [`super::Composer::view`].
    pub(super) fn view(&self, columns: usize, max_rows: usize) -> View {
        if max_rows == 0 {
            return View::default();
        }
        let prompt = if columns > PROMPT_CELLS + 2 { PROMPT_CELLS } else { 0 };
        // One cell stays free, for the cursor after the last character.
        let text_columns = columns.saturating_sub(prompt + 1).max(1);
        self.columns.set(text_columns);
        let (rows, cursor) = self.rows_around_cursor(text_columns, max_rows);
        let mut view = View::default();
        for row in &rows {
            let sign = if row.line == 0 && row.start == 0 { PROMPT } else { "  " };
            let mut line = Line::default();
            if prompt > 0 {
                line.push(sign, Palette::ACCENT);
            }
            let drawn = layout::draw(&self.buffer, &self.chips, *row, text_columns);
            line.spans.extend(drawn.spans);
            view.lines.push(line.truncated(columns));
        }
        let row = rows[cursor];
        let byte = self.cursor().byte;
        let column = layout::column_of(&self.buffer, &self.chips, row, byte, text_columns);
        view.cursor = Some((cursor, (prompt + column).min(columns.saturating_sub(1))));
        view
    }

    /// At most `max` rows and the index of the cursor's. The first row stays where it was as long as the
    /// cursor is within.
    fn rows_around_cursor(&self, columns: usize, max: usize) -> (Vec<Row>, usize) {
        let at = self.cursor();
        let mut rows = self.rows(at.line, columns);
        let mut cursor = layout::row_of(&rows, at.byte);
        let top = self.top.get();
        // Rows above, up to the first one that was drawn last.
        let mut line = at.line;
        while line > 0 && cursor + 1 < max && (line, 0) > top {
            line -= 1;
            let mut above = self.rows(line, columns);
            cursor += above.len();
            above.append(&mut rows);
            rows = above;
        }
        let kept = rows.iter().position(|row| (row.line, row.start) >= top).unwrap_or(0);
        let mut first = kept.min(cursor).max((cursor + 1).saturating_sub(max));
        let mut last = rows.last().map_or(0, |row| row.line);
        while rows.len() < first + max && last + 1 < self.buffer.lines().len() {
            last += 1;
            rows.extend(self.rows(last, columns));
        }
        // Where text was removed at the end, more of the beginning fits.
        while rows.len() < first + max && line > 0 {
            line -= 1;
            let mut above = self.rows(line, columns);
            (cursor, first) = (cursor + above.len(), first + above.len());
            above.append(&mut rows);
            rows = above;
        }
        first = first.min(rows.len().saturating_sub(max));
        rows.truncate(first + max);
        rows.drain(..first);
        self.top.set(rows.first().map_or((0, 0), |row| (row.line, row.start)));
        (rows, cursor - first)
    }

    /// The place one character on, and one back.
    pub(super) fn right(&self) -> Pos {
        motion::right(&self.buffer, self.cursor())
    }

    pub(super) fn left(&self) -> Pos {
        motion::left(&self.buffer, self.cursor())
    }
}

/// The state that the previous key left.
#[derive(Clone, Debug, Default)]
pub(super) struct Previous {
    killed: bool,
    yanked: Option<(Range<Pos>, usize)>,
    goal: Option<usize>,
}
