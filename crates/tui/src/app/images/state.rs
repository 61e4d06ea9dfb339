//! The searches for images that have not ended, and what was typed after a pasted path meanwhile.

use std::collections::VecDeque;

use crate::terminal::input::Input;

/// What is being examined.
#[derive(Debug, Default)]
pub(in crate::app) struct PendingImages {
    /// The paste whose path is being examined.
    pub(super) pasted: Option<String>,
    /// What came since then.
    pub(super) held: VecDeque<Input>,
    /// What was held, and is to be taken now.
    pub(super) released: VecDeque<Input>,
    pub(super) reads_clipboard: bool,
}

impl PendingImages {
    /// The next input that was held until a paste was examined.
    pub(in crate::app) fn next_released(&mut self) -> Option<Input> {
        self.released.pop_front()
    }
}
