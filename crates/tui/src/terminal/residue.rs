//! Rows of the live region that tmux took into its history, because the screen became too small for them.
//!
//! Nothing can remove them there. When the screen grows, tmux takes rows back from its history, these first,
//! and then they are erased: no copy of the live region stays among what is printed. Heights are never taken
//! for more than they are: a copy that stays is bad, the loss of something printed is worse.

use crate::terminal::screen::Size;
use crate::text::Line;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Residue {
    /// The widths of the lines, in cells. The live region's first row stood right below them, in the first
    /// row of the screen.
    widths: Vec<usize>,
}

/// What a change of the size does to the live region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// Rows above the live region that are erased, too.
    pub(super) above: usize,
    /// Whether the first row of the screen continues a line of the history.
    pub(super) is_split: bool,
}

impl Residue {
    pub(super) fn is_empty(&self) -> bool {
        self.widths.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.widths.clear();
    }

    /// Takes a change of the size from `old` to `new`, with the cursor in the row `row` of `live`.
    pub(super) fn resized(&mut self, live: &[Line], row: usize, old: Size, new: Size) -> Change {
        if live.iter().any(Line::has_doubtful_width) {
            self.clear();
            return Change::default();
        }
        // Rows below the cursor go first.
        let free = if self.is_empty() { 0 } else { old.rows.saturating_sub(live.len()) };
        let fewer = old.rows.saturating_sub(new.rows).saturating_sub(free);
        let left = live.len() - fewer.min(live.len() - 1 - row);
        let widths: Vec<usize> = live[..left].iter().map(Line::width).collect();
        let rows: usize = widths.iter().map(|width| height(*width, new.columns)).sum();
        match rows.checked_sub(new.rows) {
            None | Some(0) => self.take_back(new.rows - rows, old, new),
            Some(over) => Change { above: 0, is_split: self.push(&widths, over, new.columns) },
        }
    }

    /// The first `over` rows of lines of these widths are in the history.
    fn push(&mut self, widths: &[usize], mut over: usize, columns: usize) -> bool {
        for &width in widths {
            let height = height(width, columns);
            if height > over {
                if over > 0 {
                    self.widths.push(over * columns);
                    self.end_split();
                }
                return over > 0;
            }
            over -= height;
            self.widths.push(width);
        }
        false
    }

    /// The empty row that ends a line of which the history has a part only.
    fn end_split(&mut self) {
        self.widths.push(0);
    }

    /// There are `free` rows for what comes back.
    fn take_back(&mut self, free: usize, old: Size, new: Size) -> Change {
        let rows: usize = self.widths.iter().map(|width| height(*width, new.columns)).sum();
        // Where lines are not broken anew, it is known how many come.
        let comes = match new.columns == old.columns {
            true => new.rows.saturating_sub(old.rows),
            false => free,
        };
        let mut taken = rows.min(comes);
        let change = Change { above: taken, is_split: false };
        while let Some(width) = self.widths.pop() {
            let height = height(width, new.columns);
            if height > taken {
                if taken == 0 {
                    self.widths.push(width);
                    return change;
                }
                self.widths.push((height - taken) * new.columns);
                self.end_split();
                return Change { is_split: true, ..change };
            }
            taken -= height;
        }
        change
    }
}

/// The rows of a line of this width; wide characters may need one more.
fn height(width: usize, columns: usize) -> usize {
    width.div_ceil(columns.max(1)).max(1)
}
