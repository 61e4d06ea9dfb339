//! The content of the screen, and the bytes that change it.
//!
//! The screen ends with a *live region* of a few rows, which each frame may change. Finished lines are
//! printed above it, once, and scroll into the terminal's own history. No absolute position is ever used:
//! everything is relative to the first row of the live region, so the terminal need not say where that
//! is, and the same code draws a full screen, whose live region is all of it.
//!
//! Lines are printed by inserting rows above the live region: line feeds at its end make room (and scroll
//! the screen where they must, so that history is written by the terminal as for any program), inserted
//! rows push the live region back to the end. It is not drawn again for that.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use crate::palette::Palette;
use crate::terminal::encode::Pen;
use crate::terminal::residue::{Change, Residue, WHERE};
use crate::text::{Line, Style, width};

/// Erases the row of the cursor, which stands in its first column, and all below. Not from that column on:
/// where this is the whole screen, tmux would copy the live region into its history.
const ERASE: &[u8] = b"\x1b[K\x1b[2G\x1b[J\r";

/// Columns and rows of a terminal, at least one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Cells of a row.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// The content of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Finished lines, to be printed above the live region. The terminal wraps those that are longer than
    /// a row.
    pub printed: Vec<Line>,
    /// The live region. Longer lines are cut; rows beyond the height of the screen are left out at the top.
    pub live: Vec<Line>,
    /// Row and column of the cursor in `live`; hidden without.
    pub cursor: Option<(usize, usize)>,
}

/// The content of the screen.
#[derive(Debug)]
pub struct Screen {
    size: Size,
    pen: Pen,
    /// The rows of the live region as the terminal shows them; never empty.
    live: Vec<Line>,
    /// Where the terminal's cursor is, from the first row of the live region.
    row: usize,
    column: usize,
    is_cursor_shown: bool,
    /// True if the terminal shows a frame as a whole (mode 2026).
    is_synchronized: bool,
    /// True if the rows have colours of before, so that all are drawn again.
    is_stale: bool,
    /// The part of the live region that tmux has in its history; `None` where the terminal is
    /// another one.
    residue: Option<Residue>,
}

impl Screen {
    /// A screen whose cursor stands in an empty row, where the live region begins.
    #[must_use]
    pub fn new(size: Size, palette: impl Into<Palette>) -> Self {
        Self {
            size,
            pen: Pen::new(palette.into()),
            live: vec![Line::default()],
            row: 0,
            column: 0,
            is_cursor_shown: true,
            is_synchronized: true,
            is_stale: false,
            residue: None,
        }
    }

    /// The same in tmux, whose history takes and gives rows when the size changes. tmux is asked at once
    /// ([`WHERE`]) for the row of the cursor.
    #[must_use]
    pub fn in_tmux(self, is_tmux: bool) -> Self {
        let mut residue = is_tmux.then(Residue::default);
        residue.iter_mut().for_each(Residue::asks);
        Self { residue, ..self }
    }

    /// tmux says in which row the cursor was when it was asked, from 0 on.
    pub fn set_cursor_row(&mut self, row: usize) {
        self.residue.iter_mut().for_each(|residue| residue.answered(row));
    }

    /// Returns whether tmux has not yet said where the cursor is.
    #[must_use]
    pub fn awaits_row(&self) -> bool {
        self.residue.as_ref().is_some_and(Residue::is_asking)
    }

    /// Everything was erased, and the cursor is in the first cell.
    pub fn set_cleared(&mut self) {
        self.residue.iter_mut().for_each(Residue::cleared);
    }

    /// The live region goes down by `rows`, and at the end of the screen all else goes up.
    fn moved(&mut self, rows: usize, height: usize) {
        let at_most = self.size.rows.saturating_sub(height);
        self.residue.iter_mut().for_each(|residue| residue.moved(rows, at_most));
    }

    /// A screen of the same terminal that is empty.
    #[must_use]
    pub fn blank(&self, size: Size) -> Self {
        Self {
            size,
            pen: self.pen.blank(),
            live: vec![Line::default()],
            row: 0,
            column: 0,
            is_cursor_shown: self.is_cursor_shown,
            is_synchronized: self.is_synchronized,
            is_stale: false,
            // The alternate screen, which has no history.
            residue: None,
        }
    }

    /// The size that frames are drawn for.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns whether the cursor was shown last.
    #[must_use]
    pub fn shows_cursor(&self) -> bool {
        self.is_cursor_shown
    }

    /// Takes what the terminal shows by now, after another screen was drawn.
    pub fn set_cursor_shown(&mut self, is_shown: bool) {
        self.is_cursor_shown = is_shown;
    }

    /// Sets whether the terminal shows a frame as a whole; otherwise the cursor is hidden while it
    /// is drawn.
    pub fn set_synchronized(&mut self, is_synchronized: bool) {
        self.is_synchronized = is_synchronized;
    }

    /// Chooses other colours. The next frame draws the whole live region again; what was printed stays as it is.
    pub fn set_palette(&mut self, palette: Palette) {
        if self.pen.palette() != palette {
            self.pen.set_palette(palette);
            self.is_stale = true;
        }
    }

    /// Draws a frame: the bytes for the terminal, none where nothing changes.
    pub fn draw(&mut self, frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        let live = self.fitted(frame);
        if !frame.printed.is_empty() {
            self.print(&mut out, &frame.printed);
        }
        self.change(&mut out, &live.rows);
        self.pen.reset(&mut out);
        if let Some((row, column)) = live.cursor {
            self.go(&mut out, row, column);
        }
        let shows_cursor = live.cursor.is_some();
        if shows_cursor != self.is_cursor_shown {
            self.is_cursor_shown = shows_cursor;
            out.extend_from_slice(if shows_cursor { b"\x1b[?25h" } else { b"\x1b[?25l" });
        }
        if out.is_empty() {
            return out;
        }
        let (begin, end): (&[u8], &[u8]) = match (self.is_synchronized, shows_cursor) {
            (true, _) => (b"\x1b[?2026h", b"\x1b[?2026l"),
            (false, true) => (b"\x1b[?25l", b"\x1b[?25h"),
            (false, false) => (b"", b""),
        };
        [begin, &out, end].concat()
    }

    /// Takes a new size: the bytes that remove the live region, which the next frame draws again. What was
    /// printed stays as the terminal arranges it. `reflows` says whether the terminal breaks rows that are
    /// too long now, as most do, or cuts them.
    pub fn resize(&mut self, size: Size, reflows: bool) -> Vec<u8> {
        let columns = size.columns.max(1);
        let above: usize = match reflows && columns < self.size.columns {
            true => {
                let broken = |line: &Line| line.width().max(1).div_ceil(columns);
                let rows: usize = self.live[..self.row].iter().map(broken).sum();
                rows + self.column.saturating_sub(1) / columns
            }
            false => self.row,
        };
        let change = match &mut self.residue {
            Some(residue) => residue.resized(&self.live, self.row, self.size, size),
            None => Change::default(),
        };
        self.size = size;
        let mut out = Vec::new();
        self.pen.reset(&mut out);
        out.push(b'\r');
        up(&mut out, (above + change.above).min(size.rows.saturating_sub(1)));
        out.extend_from_slice(ERASE);
        if change.is_split {
            // An empty row ends the line that the history has a part of: it would be continued.
            out.extend(std::iter::repeat_n(b'\n', size.rows));
            up(&mut out, size.rows.saturating_sub(1));
        }
        if let Some(residue) = &mut self.residue {
            residue.asks();
            out.extend_from_slice(WHERE);
        }
        (self.row, self.column) = (0, 0);
        self.live = vec![Line::default()];
        out
    }

    /// Removes the live region, for a program that writes to the terminal itself or for the end.
    pub fn clear(&mut self) -> Vec<u8> {
        self.residue.iter_mut().for_each(Residue::forget);
        let mut out = self.draw(&Frame { cursor: Some((0, 0)), ..Frame::default() });
        if !std::mem::replace(&mut self.is_cursor_shown, true) {
            out.extend_from_slice(b"\x1b[?25h");
        }
        out
    }

    fn fitted(&self, frame: &Frame) -> Fitted {
        let left_out = frame.live.len().saturating_sub(self.size.rows);
        let mut rows: Vec<Line> =
            frame.live[left_out..].iter().map(|line| line.truncated(self.size.columns)).collect();
        if rows.is_empty() {
            rows.push(Line::default());
        }
        let cursor = frame.cursor.filter(|(row, _)| *row >= left_out).map(|(row, column)| {
            ((row - left_out).min(rows.len() - 1), column.min(self.size.columns - 1))
        });
        Fitted { rows, cursor }
    }

    fn print(&mut self, out: &mut Vec<u8>, lines: &[Line]) {
        self.residue.iter_mut().for_each(Residue::forget);
        let columns = self.size.columns;
        // What the terminal would make of these cannot be known: they are broken here.
        let is_doubtful = |line: &Line| line.has_doubtful_width() && line.width() > columns;
        let lines: Cow<'_, [Line]> = match lines.iter().any(is_doubtful) {
            false => Cow::Borrowed(lines),
            true => lines.iter().flat_map(|line| broken(line, columns)).collect(),
        };
        let rows: usize = lines.iter().map(|line| rows(line, self.size.columns)).sum();
        let fits = rows + self.live.len() <= self.size.rows;
        self.moved(rows, if fits { self.live.len() } else { 1 });
        if fits {
            self.go(out, self.live.len() - 1, 0);
            out.extend(std::iter::repeat_n(b'\n', rows));
            up(out, rows + self.live.len() - 1);
            if rows > 0 {
                let _ = write!(out, "\x1b[{rows}L");
            }
        } else {
            self.go(out, 0, 0);
            out.extend_from_slice(ERASE);
            self.live = vec![Line::default()];
        }
        for line in lines.iter() {
            for span in &line.spans {
                self.pen.write(out, span, span.text());
            }
            self.pen.reset(out);
            out.extend_from_slice(b"\r\n");
        }
        (self.row, self.column) = (0, 0);
    }

    /// Makes the live region show `rows`.
    fn change(&mut self, out: &mut Vec<u8>, rows: &[Line]) {
        let is_stale = self.is_stale;
        let same = |pair: &(&Line, &Line)| !is_stale && pair.0 == pair.1;
        let before = self.live.iter().zip(rows).take_while(same).count();
        let most = self.live.len().min(rows.len()) - before;
        let after =
            self.live.iter().rev().zip(rows.iter().rev()).take(most).take_while(same).count();
        let (had, has) = (self.live.len() - before - after, rows.len() - before - after);
        if has > had {
            self.insert(out, before + had, has - had);
        } else if had > has {
            self.remove(out, before + has, had - has);
        }
        for (at, row) in rows.iter().enumerate().skip(before).take(has) {
            self.rewrite(out, at, row);
        }
        self.is_stale = false;
    }

    /// Adds empty rows before the one at `at`.
    fn insert(&mut self, out: &mut Vec<u8>, at: usize, count: usize) {
        let last = self.live.len() - 1;
        self.moved(0, self.live.len() + count);
        self.go(out, last, 0);
        out.extend(std::iter::repeat_n(b'\n', count));
        self.row = last + count;
        self.live.splice(at..at, std::iter::repeat_n(Line::default(), count));
        if at <= last {
            self.go(out, at, 0);
            let _ = write!(out, "\x1b[{count}L");
        }
    }

    /// Takes rows out; those below move up.
    fn remove(&mut self, out: &mut Vec<u8>, at: usize, count: usize) {
        let is_end = at + count == self.live.len();
        self.live.drain(at..at + count);
        self.go(out, at, 0);
        match is_end {
            true => out.extend_from_slice(b"\x1b[J"),
            false => {
                let _ = write!(out, "\x1b[{count}M");
            }
        }
    }

    /// Writes the part of a row that differs.
    fn rewrite(&mut self, out: &mut Vec<u8>, at: usize, row: &Line) {
        let (had, has) = (self.live[at].width(), row.width());
        let is_doubtful =
            self.is_stale || self.live[at].has_doubtful_width() || row.has_doubtful_width();
        // Where the terminal's columns are not known, only the first one is.
        let same = match is_doubtful {
            true if self.live[at] == *row && !self.is_stale => return,
            true => Common { columns: 0, bytes: 0 },
            false => common(&self.live[at], row),
        };
        if same.columns == had && had == has {
            return;
        }
        self.go(out, at, same.columns);
        if is_doubtful {
            self.pen.reset(out);
            out.extend_from_slice(b"\x1b[K");
        }
        // The text after the change stays where it is, such as after the elapsed seconds.
        let stays = match had == has && !is_doubtful {
            true => common_end(&self.live[at], row, same.columns),
            false => Common { columns: 0, bytes: 0 },
        };
        let mut skip = same.bytes;
        let mut left: usize = row.spans.iter().map(|span| span.text().len()).sum::<usize>();
        left -= same.bytes + stays.bytes;
        for span in &row.spans {
            let text = span.text();
            let from = skip.min(text.len());
            skip -= from;
            let to = text.len().min(from + left);
            if from < to {
                self.pen.write(out, span, &text[from..to]);
                left -= to - from;
            }
        }
        if had > has && !is_doubtful {
            self.pen.reset(out);
            out.extend_from_slice(b"\x1b[K");
        }
        // Where the cursor is after the last column, or a doubtful character, differs: the next movement
        // names a column.
        self.column = if is_doubtful { self.size.columns } else { has - stays.columns };
        self.live[at] = row.clone();
    }

    fn go(&mut self, out: &mut Vec<u8>, row: usize, column: usize) {
        if row < self.row {
            up(out, self.row - row);
        } else if row > self.row {
            let _ = write!(out, "\x1b[{}B", row - self.row);
        }
        if column != self.column || self.column >= self.size.columns {
            match column {
                0 => out.push(b'\r'),
                _ => {
                    let _ = write!(out, "\x1b[{}G", column + 1);
                }
            }
        }
        (self.row, self.column) = (row, column);
    }
}

/// The live region of a frame as it fits on the screen.
struct Fitted {
    rows: Vec<Line>,
    cursor: Option<(usize, usize)>,
}

fn up(out: &mut Vec<u8>, rows: usize) {
    if rows > 0 {
        let _ = write!(out, "\x1b[{rows}A");
    }
}

/// The rows of a line whose width is doubtful; otherwise the line.
fn broken(line: &Line, columns: usize) -> Vec<Line> {
    match line.has_doubtful_width() {
        true => {
            let rows = line.wrapped(columns, &Line::default());
            rows.iter().map(|row| row.truncated(columns)).collect()
        }
        false => vec![line.clone()],
    }
}

/// Rows that a terminal uses for a line that it wraps.
fn rows(line: &Line, columns: usize) -> usize {
    if line.width() <= columns {
        return 1;
    }
    let (mut rows, mut used) = (1, 0);
    for span in &line.spans {
        for grapheme in span.text().graphemes(true) {
            let cells = width(grapheme);
            // A wide character that no longer fits goes to the next row.
            if used + cells > columns {
                rows += 1;
                used = 0;
            }
            used += cells;
        }
    }
    rows
}

/// The common part of two lines, from their beginning.
struct Common {
    columns: usize,
    /// Of the text of the second.
    bytes: usize,
}

fn common(old: &Line, new: &Line) -> Common {
    let mut same = Common { columns: 0, bytes: 0 };
    for (old, new) in cells(old).zip(cells(new)) {
        if old != new {
            break;
        }
        same.columns += width(new.0);
        same.bytes += new.0.len();
    }
    same
}

/// Returns the common end of both rows, of the same width, not counting their first `columns`.
fn common_end(old: &Line, new: &Line, columns: usize) -> Common {
    let (old, new): (Vec<Cell<'_>>, Vec<Cell<'_>>) = (cells(old).collect(), cells(new).collect());
    let mut same = Common { columns: 0, bytes: 0 };
    let room: usize = new.iter().map(|cell| width(cell.0)).sum::<usize>() - columns;
    for (old, new) in old.iter().rev().zip(new.iter().rev()) {
        let cells = width(new.0);
        if old != new || same.columns + cells > room {
            break;
        }
        same.columns += cells;
        same.bytes += new.0.len();
    }
    same
}

type Cell<'l> = (&'l str, Style, Option<&'l Arc<str>>);

fn cells(line: &Line) -> impl Iterator<Item = Cell<'_>> {
    line.spans.iter().flat_map(move |span| {
        let (style, link) = (span.style(), span.link());
        span.text().graphemes(true).map(move |text| (text, style, link))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `ESC [ J` with what stands before it.
    fn erasures(bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let parts: Vec<&str> = text.split("\x1b[J").collect();
        parts[..parts.len() - 1].iter().map(|part| (*part).to_owned()).collect()
    }

    #[test]
    fn a_live_region_that_fills_the_screen_is_not_erased_from_its_first_cell() {
        let size = Size { columns: 20, rows: 3 };
        let mut screen = Screen::new(size, crate::palette::Depth::Full);
        let live: Vec<Line> = ["a", "b", "c"].map(Line::plain).to_vec();
        let frame = Frame { live, cursor: Some((2, 0)), ..Frame::default() };
        screen.draw(&frame);
        let printed = vec![Line::plain("printed")];
        let mut bytes = screen.draw(&Frame { printed, ..frame });
        bytes.extend(screen.resize(Size { columns: 10, rows: 3 }, true));
        let erasures = erasures(&bytes);
        assert_eq!(erasures.len(), 2);
        assert!(erasures.iter().all(|before| before.ends_with("\x1b[K\x1b[2G")), "{erasures:?}");
    }
}
