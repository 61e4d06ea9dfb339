//! The dialogs of the program's own that are open, and the calls that go on with their answer. `A` is what
//! gets the answers: the program.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use jsonrpc::ErrorObject;
use serde_json::Value;

use crate::ask::Ask;
use crate::link::Tag;

/// Gets the reply of a dialog, null where the user left it.
type OnReply<A> = Box<dyn FnOnce(&mut A, Value)>;
/// Gets the answer of a call.
type OnAnswer<A> = Box<dyn FnOnce(&mut A, Result<Value, ErrorObject>)>;

/// The dialogs that are open; the first one is on the screen.
pub(super) struct Dialogs<A> {
    open: VecDeque<Dialog<A>>,
    last: DialogId,
    calls: HashMap<Tag, OnAnswer<A>>,
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
        Self { open: VecDeque::new(), last: 0, calls: HashMap::new() }
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

    /// Opens a dialog behind the others.
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

    /// Closes all of them without an answer.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    /// The connection is lost: calls get no answer, and dialogs may be about what no longer holds.
    pub(super) fn reset(&mut self) {
        self.open.clear();
        self.calls.clear();
    }

    /// Goes on with the answer of the call.
    pub(super) fn when_answered(&mut self, tag: Tag, then: OnAnswer<A>) {
        self.calls.insert(tag, then);
    }

    /// What goes on with the answer of the call.
    pub(super) fn answered(&mut self, tag: Tag) -> Option<OnAnswer<A>> {
        self.calls.remove(&tag)
    }
}

impl<A> Dialog<A> {
    pub(super) fn id(&self) -> DialogId {
        self.id
    }
}
