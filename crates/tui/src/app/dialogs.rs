//! The dialogs of the program's own that are open. `A` is what gets the answers: the program.

use std::collections::VecDeque;
use std::fmt;

use serde_json::Value;

use crate::ask::Ask;

/// Gets the reply of a dialog, null where the user left it.
pub(super) type OnReply<A> = Box<dyn FnOnce(&mut A, Value)>;

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
    then: OnReply<A>,
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

    /// Takes the dialog in front away. Returns what gets its reply.
    pub(super) fn close_front(&mut self, now: u64) -> Option<OnReply<A>> {
        let dialog = self.open.pop_front()?;
        // The next one is as new to the reader as this one was. One that this answer opens is not.
        if let Some(next) = self.open.front_mut() {
            next.ask.comes_to_front(now);
        }
        Some(dialog.then)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Opens a dialog before the others. `preview` gets the items that are checked after each key.
    pub(super) fn open(
        &mut self,
        ask: Ask,
        then: OnReply<A>,
        preview: Option<fn(&mut A, Vec<String>)>,
    ) -> DialogId {
        let dialog = Dialog { preview, ..self.dialog(ask, then) };
        let id = dialog.id;
        self.open.push_front(dialog);
        id
    }

    /// Opens a dialog after the others.
    pub(super) fn open_later(&mut self, ask: Ask, then: OnReply<A>) {
        let dialog = self.dialog(ask, then);
        self.open.push_back(dialog);
    }

    fn dialog(&mut self, ask: Ask, then: OnReply<A>) -> Dialog<A> {
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
