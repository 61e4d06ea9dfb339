//! Rows of the live region that tmux took into its history, because the screen became too small for them.
//!
//! Nothing can remove them there. When the screen grows, tmux takes rows back from its history, these first,
//! and then they are erased: no copy of the live region stays among what is printed. Heights are never taken
//! for more than they are: a copy that stays is bad, the loss of something printed is worse.
//!
//! How many rows go depends on the empty rows below the live region, and so on its place on the screen. tmux
//! is asked for that after each change of the size ([`WHERE`]); what is drawn since is added.

use crate::terminal::screen::Size;
use crate::text::Line;

/// Asks for the row of the cursor.
pub const WHERE: &[u8] = b"\x1b[6n";

/// The rows of the live region in the history of tmux.
#[derive(Clone, Debug, Default)]
pub(super) struct Residue {
    /// The live region's first row stood right below these lines, in the first row of the screen.
    lines: Vec<Kept>,
    place: Place,
}

/// A line in the history, or its first rows.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// In cells.
    width: usize,
    /// True if the rest of the line is not there. An empty row below ends it, or what is drawn next would continue it.
    is_cut: bool,
}

impl Kept {
    fn height(self, columns: usize) -> usize {
        height(self.width, columns) + usize::from(self.is_cut)
    }
}

/// The row of the screen in which the live region begins: where it was when tmux was asked, and what was
/// drawn since.
#[derive(Clone, Copy, Debug)]
struct Place {
    asked: Option<usize>,
    /// Replies that are still to come; only the last one counts.
    awaited: usize,
    down: usize,
    at_most: usize,
}

/// The effect of a size change on the live region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Rows above the live region that are erased, too.
    pub(super) above: usize,
    /// True if the first row of the screen continues a line of the history.
    pub(super) is_split: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self { asked: None, awaited: 0, down: 0, at_most: usize::MAX }
    }
}

impl Residue {
    /// tmux is asked for the row of the cursor, which stands at the beginning of the live region.
    pub(super) fn asks(&mut self) {
        let awaited = self.place.awaited + 1;
        self.place = Place { awaited, ..Place::default() };
    }

    /// It answered, counting from 0.
    pub(super) fn answered(&mut self, row: usize) {
        self.place.awaited = self.place.awaited.saturating_sub(1);
        if self.place.awaited == 0 {
            self.place.asked.get_or_insert(row);
        }
    }

    /// The screen is empty.
    pub(super) fn cleared(&mut self) {
        self.forget();
        self.place = Place { asked: Some(0), awaited: self.place.awaited, ..Place::default() };
    }

    /// Returns whether tmux has not answered yet.
    pub(super) fn is_asking(&self) -> bool {
        self.place.awaited > 0
    }

    /// The live region went `rows` down, as far as its height lets it.
    pub(super) fn moved(&mut self, rows: usize, at_most: usize) {
        let place = &mut self.place;
        place.down += rows;
        place.at_most = place.at_most.saturating_add(rows).min(at_most);
    }

    /// Something else comes between what is in the history and the live region.
    pub(super) fn forget(&mut self) {
        self.lines.clear();
    }

    fn top(&self) -> Option<usize> {
        Some((self.place.asked? + self.place.down).min(self.place.at_most))
    }

    /// Takes a change of the size from `old` to `new`, with the cursor in the row `row` of `live`.
    pub(super) fn resized(&mut self, live: &[Line], row: usize, old: Size, new: Size) -> Change {
        if live.iter().any(Line::has_doubtful_width) {
            self.forget();
            return Change::default();
        }
        let top = if self.lines.is_empty() { self.top() } else { Some(0) };
        let empty = top.map_or(0, |top| old.rows.saturating_sub(top + live.len()));
        // Rows below the cursor go first, from the last one on.
        let fewer = old.rows.saturating_sub(new.rows);
        let gone = fewer.saturating_sub(empty).min(live.len() - 1 - row);
        let empty = empty.saturating_sub(fewer);
        let widths: Vec<usize> =
            live[..live.len() - gone].iter().map(|line| line.width()).collect();
        let rows: usize = widths.iter().map(|width| height(*width, new.columns)).sum();
        match (rows + empty).checked_sub(new.rows) {
            None | Some(0) => self.take_back(new.rows - rows - empty, old, new),
            // All of it, and an empty screen below.
            Some(over) if over >= rows => {
                Change { is_split: self.push(&widths, rows, new.columns), ..Change::default() }
            }
            Some(over) => {
                Change { is_split: self.push(&widths, over, new.columns), ..Change::default() }
            }
        }
    }

    /// The first `over` rows of lines of these widths are in the history.
    fn push(&mut self, widths: &[usize], mut over: usize, columns: usize) -> bool {
        for &width in widths {
            let height = height(width, columns);
            if height > over {
                if over > 0 {
                    self.lines.push(Kept { width: over * columns, is_cut: true });
                }
                return over > 0;
            }
            over -= height;
            self.lines.push(Kept { width, is_cut: false });
        }
        false
    }

    /// There are `free` rows for what comes back.
    fn take_back(&mut self, free: usize, old: Size, new: Size) -> Change {
        let rows: usize = self.lines.iter().map(|line| line.height(new.columns)).sum();
        // Where lines are not rewrapped, it is known how many come.
        let comes = match new.columns == old.columns {
            true => new.rows.saturating_sub(old.rows),
            false => free,
        };
        let mut taken = rows.min(comes);
        let change = Change { above: taken, is_split: false };
        while let Some(line) = self.lines.pop() {
            let rows = line.height(new.columns);
            if rows > taken {
                if taken == 0 {
                    self.lines.push(line);
                    return change;
                }
                let width = line.width.min((rows - taken) * new.columns);
                self.lines.push(Kept { width, is_cut: true });
                return Change { is_split: true, ..change };
            }
            taken -= rows;
        }
        change
    }
}

/// The rows of a line of this width; wide characters may need one more.
fn height(width: usize, columns: usize) -> usize {
    width.div_ceil(columns.max(1)).max(1)
}
