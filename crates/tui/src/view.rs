//! A part of the screen: its lines and the place of the cursor in them.

use crate::text::Line;

/// Lines that fit into the columns they were made for, from top to bottom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The lines.
    pub lines: Vec<Line>,
    /// Row and column of the cursor, from 0. `None` hides it.
    pub cursor: Option<(usize, usize)>,
}

impl View {
    /// The text without styles, a line each; for snapshots.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| line.text().trim_end().to_owned() + "\n").collect()
    }
}
