//! The dialogs of the program's own that are open. `A` is what gets the answers: the program.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

use crate::ask::Ask;

/// Gets the reply of a dialog, null where the user left it.
type OnReply<A> = Box<dyn FnOnce(&mut A, Value)>;

/// The dialogs that are open; the first one is on the screen.
pub(super) struct Dialogs<A> {
    open: VecDeque<Dialog<A>>,
    last: DialogId,
}

/// By which a dialog is closed that something else answers.
pub(super) type DialogId = u64;

/// An open dialog.
pub(super) struct Dialog<A> {
    id: DialogId,
    pub(super) ask: Ask,
    pub(super) then: OnReply<A>,
    /// Gets the items that are checked after each key.
    pub(super) preview: Option<fn(&mut A, Vec<String>)>,
}

impl<A> Default for Dialogs<A> {
    fn default() -> Self {
        Self { open: VecDeque::new(), last: 0 }
    }
}

impl<A> fmt::Debug for Dialogs<A> {
    /// Without what is written in them, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialogs").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl<A> Dialogs<A> {
    pub(super) fn front(&self) -> Option<&Ask> {
        self.open.front().map(|dialog| &dialog.ask)
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Dialog<A>> {
        self.open.front_mut()
    }

    pub(super) fn pop_front(&mut self) -> Option<Dialog<A>> {
        self.open.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a dialog before the others.
    pub(super) fn push_front(&mut self, dialog: Dialog<A>) {
        self.open.push_front(dialog);
    }

    /// Opens a dialog after the others.
    pub(super) fn push_back(&mut self, dialog: Dialog<A>) {
        self.open.push_back(dialog);
    }

    /// A dialog that is not open yet.
    pub(super) fn dialog(&mut self, ask: Ask, then: OnReply<A>) -> Dialog<A> {
        self.last += 1;
        Dialog { id: self.last, ask, then, preview: None }
    }

    /// Closes a dialog without an answer.
    pub(super) fn close(&mut self, id: DialogId) {
        self.open.retain(|dialog| dialog.id != id);
    }

    /// Closes all of them without an answer. After a loss of the connection they may be about what no longer
    /// holds.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }
}

impl<A> Dialog<A> {
    pub(super) fn id(&self) -> DialogId {
        self.id
    }
}
