//! The breaking of the composer's lines into rows of the screen, and the place of the cursor in
//! them.

use crate::palette::Palette;
use crate::text::{Line, Span, Style, width};

use super::buffer::{Buffer, Pos};
use super::chip::{Chips, is_chip};
use super::motion::first_len;

/// A row: bytes of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The rows of one line that fit into `columns`, broken between words where that is possible. There is
/// always at least one; a space at which a row is broken may stand beyond the columns.
pub(super) fn rows(buffer: &Buffer, chips: &Chips, line: usize, columns: usize) -> Vec<Row> {
    let text = buffer.line(line);
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    // After the last space of the row, and the cells up to there.
    let mut space = (0, 0);
    let mut at = 0;
    while at < text.len() {
        let cluster = &text[at..at + first_len(&text[at..])];
        let cells = cells(cluster, chips).min(columns);
        let is_space = cluster == " ";
        if used + cells > columns && !is_space && at > start {
            let (end, before) = if space.0 > start { space } else { (at, used) };
            rows.push(Row { line, start, end });
            start = end;
            used -= before;
        }
        at += cluster.len();
        used += cells;
        if is_space {
            space = (at, used);
        }
    }
    rows.push(Row { line, start, end: text.len() });
    rows
}

/// The cells that a character takes.
fn cells(cluster: &str, chips: &Chips) -> usize {
    if let [0x20..0x7f] = cluster.as_bytes() {
        return 1;
    }
    width(&shown(cluster, chips).0)
}

/// Returns the display of a character.
fn shown(cluster: &str, chips: &Chips) -> (String, Style) {
    let chip = cluster.chars().next().filter(|c| is_chip(*c)).and_then(|c| chips.get(c));
    match chip {
        Some(chip) => (chip.label.clone(), Palette::ACCENT),
        // The same as spans do, so that what is measured is what is drawn.
        None => (visible::prose(&cluster.replace('\t', "    ")).into_owned(), Style::PLAIN),
    }
}

/// The row as it is drawn in `columns`.
pub(super) fn draw(buffer: &Buffer, chips: &Chips, row: Row, columns: usize) -> Line {
    let mut line = Line::default();
    let mut plain = String::new();
    let text = &buffer.line(row.line)[row.start..row.end];
    let mut at = 0;
    while at < text.len() {
        let cluster = &text[at..at + first_len(&text[at..])];
        at += cluster.len();
        if cluster.chars().next().is_some_and(is_chip) {
            if !plain.is_empty() {
                line.spans.push(Span::prose(std::mem::take(&mut plain), Style::PLAIN));
            }
            let (label, style) = shown(cluster, chips);
            line.spans.extend(Line::new(label, style).truncated(columns).spans);
        } else {
            plain.push_str(cluster);
        }
    }
    if !plain.is_empty() {
        line.spans.push(Span::prose(plain, Style::PLAIN));
    }
    line.truncated(columns + 1)
}

/// The cells between the start of a row and a place in it.
pub(super) fn column_of(
    buffer: &Buffer,
    chips: &Chips,
    row: Row,
    byte: usize,
    columns: usize,
) -> usize {
    let text = &buffer.line(row.line)[row.start..byte.clamp(row.start, row.end)];
    let (mut at, mut used) = (0, 0);
    while at < text.len() {
        let cluster = &text[at..at + first_len(&text[at..])];
        used += cells(cluster, chips).min(columns);
        at += cluster.len();
    }
    used.min(columns)
}

/// The place in a row that is nearest to a column.
pub(super) fn place_at(
    buffer: &Buffer,
    chips: &Chips,
    row: Row,
    column: usize,
    columns: usize,
) -> Pos {
    let text = &buffer.line(row.line)[row.start..row.end];
    let (mut at, mut used) = (0, 0);
    let mut last = 0;
    while at < text.len() {
        let cluster = &text[at..at + first_len(&text[at..])];
        used += cells(cluster, chips).min(columns);
        if used > column {
            return Pos { line: row.line, byte: row.start + at };
        }
        last = at;
        at += cluster.len();
    }
    // The end of a row that is broken is the start of the next one.
    let is_broken = row.end < buffer.line(row.line).len();
    Pos { line: row.line, byte: row.start + if is_broken { last } else { at } }
}

/// The index of the row that holds a byte of its line.
pub(super) fn row_of(rows: &[Row], byte: usize) -> usize {
    rows.iter().rposition(|row| row.start <= byte).unwrap_or(0)
}
