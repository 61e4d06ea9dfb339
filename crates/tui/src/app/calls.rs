//! The calls of the server without an answer, and what takes the typed result of each.

use crate::link::Tag;
use jsonrpc::{ErrorObject, Method};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Takes the answer of a call.
pub(super) type OnAnswer<A> = Box<dyn FnOnce(&mut A, Result<Value, ErrorObject>)>;

/// The calls without an answer. `A` takes the answers: the program.
pub(super) struct Calls<A> {
    open: BTreeMap<Tag, OnAnswer<A>>,
    next: Tag,
}

impl<A> Default for Calls<A> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), next: 0 }
    }
}

impl<A> fmt::Debug for Calls<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("open", &self.open.keys()).finish_non_exhaustive()
    }
}

impl<A: 'static> Calls<A> {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds a call of `M`; `then` takes its result, or why there is none.
    pub(super) fn add<M: Method>(
        &mut self,
        then: impl FnOnce(&mut A, Result<M::Result, ErrorObject>) + 'static,
    ) -> Tag {
        let tag = self.next;
        self.next += 1;
        let typed: OnAnswer<A> = Box::new(move |app, answer| {
            let read = answer.and_then(|value| {
                serde_json::from_value(value)
                    .map_err(|error| ErrorObject::internal(format!("{}: {error}", M::NAME)))
            });
            then(app, read);
        });
        self.open.insert(tag, typed);
        tag
    }

    /// Takes a call out that is answered; `None` if the connection was lost since it was sent.
    pub(super) fn answered(&mut self, tag: Tag) -> Option<OnAnswer<A>> {
        self.open.remove(&tag)
    }

    /// The connection is lost: no call gets an answer.
    pub(super) fn reset(&mut self) {
        self.open.clear();
    }
}
