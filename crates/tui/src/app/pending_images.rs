//! The searches for images that have not ended, and the text that was typed after a pasted path in the meantime.

use std::collections::VecDeque;

use crate::terminal::input::Input;

/// The images under examination.
#[derive(Debug, Default)]
pub(super) struct PendingImages {
    /// The paste whose path is being examined.
    pub(super) pasted: Option<String>,
    /// The inputs since then.
    pub(super) held: VecDeque<Input>,
    pub(super) reads_clipboard: bool,
}
