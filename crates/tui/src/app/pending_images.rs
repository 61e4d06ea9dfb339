//! The searches for images that have not ended, and what was typed behind a pasted path meanwhile.

use std::collections::VecDeque;

use crate::terminal::input::Input;

/// What is being examined.
#[derive(Debug, Default)]
pub(super) struct PendingImages {
    /// The paste whose path is being examined.
    pub(super) pasted: Option<String>,
    /// What came since then.
    pub(super) held: VecDeque<Input>,
    pub(super) reads_clipboard: bool,
}
