//! The searches for images that have not ended, and what was typed after a pasted path meanwhile.

use std::collections::VecDeque;

use crate::terminal::input::Input;

/// The paths and the clipboard that are being examined.
#[derive(Debug, Default)]
pub(super) struct PendingImages {
    /// The paste whose path is being examined.
    pasted: Option<String>,
    /// The inputs since then.
    held: VecDeque<Input>,
    /// Inputs that were held, and are to be taken now.
    released: VecDeque<Input>,
    reads_clipboard: bool,
}

impl PendingImages {
    /// A paste is examined, since it may be a path.
    pub(super) fn examine(&mut self, text: String) {
        self.pasted = Some(text);
    }

    pub(super) fn is_examining(&self) -> bool {
        self.pasted.is_some()
    }

    /// The paste is examined. Returns whether it is the one that is waited for.
    pub(super) fn examined(&mut self, text: &str) -> bool {
        self.pasted.take_if(|pasted| pasted == text).is_some()
    }

    /// The paste is no longer waited for.
    pub(super) fn give_up(&mut self) -> Option<String> {
        self.pasted.take()
    }

    /// Keeps an input until the paste is examined. Returns how many are kept.
    pub(super) fn hold(&mut self, input: Input) -> usize {
        self.held.push_back(input);
        self.held.len()
    }

    /// Lets the inputs since the paste be taken now, before later ones.
    pub(super) fn release(&mut self) {
        let mut released = std::mem::take(&mut self.held);
        released.append(&mut self.released);
        self.released = released;
    }

    /// The clipboard is to be read. Returns whether that is not being done already.
    pub(super) fn begin_clipboard(&mut self) -> bool {
        !std::mem::replace(&mut self.reads_clipboard, true)
    }

    pub(super) fn end_clipboard(&mut self) {
        self.reads_clipboard = false;
    }

    /// The next input that was held until a paste was examined.
    pub(super) fn next_released(&mut self) -> Option<Input> {
        self.released.pop_front()
    }
}
