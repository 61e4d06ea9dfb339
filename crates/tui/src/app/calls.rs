//! Calls of the server: typed parameters go out, and what takes the typed result waits for the answer.

use std::collections::BTreeMap;
use std::fmt;

use jsonrpc::{ErrorObject, Method};
use protocol::{ConfigBatchWriteParams, ConfigEdit, MergeStrategy};
use serde_json::Value;

use crate::app::{App, Effect};
use crate::link::Tag;

/// Takes the answer of a call.
type OnAnswer<A> = Box<dyn FnOnce(&mut A, Result<Value, ErrorObject>)>;

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
    fn add<M: Method>(
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

impl App {
    /// Calls a method; `then` takes the answer, unless the connection is lost before it comes.
    pub(super) fn call<M: Method>(
        &mut self,
        params: &M::Params,
        then: impl FnOnce(&mut Self, Result<M::Result, ErrorObject>) + 'static,
    ) {
        match serde_json::to_value(params) {
            Ok(params) => {
                let tag = self.calls.add::<M>(then);
                self.effects.push_back(Effect::Call { tag, method: M::NAME, params });
            }
            Err(error) => then(self, Err(ErrorObject::internal(format!("{}: {error}", M::NAME)))),
        }
    }

    /// Calls a method whose result is of no interest. A refusal is printed: `what` did not happen.
    pub(super) fn call_or_report<M: Method>(&mut self, params: &M::Params, what: &'static str) {
        self.call::<M>(params, move |app, result| {
            if let Err(error) = result {
                app.error(&format!("{what}: {}", error.message));
            }
        });
    }

    /// Calls a method and prints what `text` makes of its result.
    pub(super) fn call_and_show<M: Method>(
        &mut self,
        params: &M::Params,
        text: impl FnOnce(M::Result) -> String + 'static,
    ) {
        self.call::<M>(params, |app, result| match result {
            Ok(result) => app.info(&text(result)),
            Err(error) => app.error(&format!("The server refused: {}", error.message)),
        });
    }

    /// The id of the thread; without one, a notice says so.
    pub(super) fn thread_id(&mut self) -> Option<String> {
        let id = self.session.id.clone();
        if id.is_none() {
            self.notice("The thread is still being opened.");
        }
        id
    }

    /// Stores values in the user's configuration, all of them or none, and goes on with the path of the file,
    /// or with why they were not stored. Null removes a key. A value that another source overrides is stored,
    /// and a warning says so.
    pub(super) fn store_settings(
        &mut self,
        values: Vec<(String, Value)>,
        then: impl FnOnce(&mut Self, Result<String, String>) + 'static,
    ) {
        let edit = |(key_path, value)| ConfigEdit {
            key_path,
            value,
            merge_strategy: MergeStrategy::Replace,
        };
        let params = ConfigBatchWriteParams {
            edits: values.into_iter().map(edit).collect(),
            file_path: None,
            expected_version: None,
            reload_user_config: true,
        };
        self.call::<protocol::ConfigBatchWrite>(&params, |app, result| {
            let stored = result.map(|written| {
                if let Some(overridden) = &written.overridden_metadata {
                    app.warning(&overridden.message);
                }
                app.folder(&written.file_path)
            });
            then(app, stored.map_err(|error| error.message));
        });
    }
}
