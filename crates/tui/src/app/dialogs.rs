//! Dialogs of the program's own, and calls that go on with their answer. Dialogs wait in a queue behind the
//! questions of the server; one is on the screen.

use std::collections::VecDeque;
use std::fmt;

use jsonrpc::ErrorObject;
use serde_json::{Value, json};

use crate::app::App;
use crate::app::then::Then;
use crate::ask::Ask;
use crate::terminal::input::Key;

/// Goes on with the answer of a call.
pub(super) struct Continuation(Box<dyn FnOnce(&mut App, Result<Value, ErrorObject>)>);

impl Continuation {
    pub(super) fn run(self, app: &mut App, result: Result<Value, ErrorObject>) {
        (self.0)(app, result);
    }
}

impl fmt::Debug for Continuation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Continuation")
    }
}

/// The dialogs that are open; the first one is on the screen.
#[derive(Debug, Default)]
pub(super) struct Dialogs {
    open: VecDeque<Dialog>,
    next: DialogId,
}

/// By which a dialog is closed that something else answers.
pub(super) type DialogId = u64;

struct Dialog {
    id: DialogId,
    ask: Ask,
    /// Gets the reply, null where the user left it.
    then: Box<dyn FnOnce(&mut App, Value)>,
    /// Gets the items that are checked after each key.
    preview: Option<fn(&mut App, Vec<String>)>,
}

impl fmt::Debug for Dialog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialog").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Dialogs {
    pub(super) fn front(&self) -> Option<&Ask> {
        self.open.front().map(|dialog| &dialog.ask)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// Closes a dialog without an answer; returns whether it was open.
    pub(super) fn close(&mut self, id: DialogId) -> bool {
        let before = self.open.len();
        self.open.retain(|dialog| dialog.id != id);
        self.open.len() != before
    }
}

impl App {
    /// Opens a dialog that the user asked for, or that the last key led to: before all others.
    pub(super) fn open_dialog(
        &mut self,
        ask: Ask,
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) -> DialogId {
        let dialog = self.new_dialog(ask, then);
        let id = dialog.id;
        self.dialogs.open.push_front(dialog);
        id
    }

    /// Opens a dialog by itself: behind the others, and its first key has to be meant for it.
    pub(super) fn open_dialog_later(
        &mut self,
        ask: Ask,
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) {
        let dialog = self.new_dialog(ask.guarded(self.now, self.last_key), then);
        self.dialogs.open.push_back(dialog);
    }

    /// As [`App::open_dialog`], with a function that shows what the checked items would look like.
    pub(super) fn open_checklist(
        &mut self,
        ask: Ask,
        preview: fn(&mut Self, Vec<String>),
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) {
        let dialog = Dialog { preview: Some(preview), ..self.new_dialog(ask, then) };
        self.dialogs.open.push_front(dialog);
    }

    fn new_dialog(&mut self, ask: Ask, then: impl FnOnce(&mut Self, Value) + 'static) -> Dialog {
        self.dialogs.next += 1;
        Dialog { id: self.dialogs.next, ask, then: Box::new(then), preview: None }
    }

    /// Whether an open dialog takes the key.
    pub(super) fn dialog_key(&mut self, key: Key) -> bool {
        let Some(dialog) = self.dialogs.open.front_mut() else { return false };
        let answer = dialog.ask.key(key, self.now);
        let Some(answer) = answer else {
            if let (Some(preview), Some(checked)) = (dialog.preview, dialog.ask.checked()) {
                preview(self, checked);
            }
            return true;
        };
        let Some(Dialog { then, .. }) = self.dialogs.open.pop_front() else { return true };
        // The next one is as new to the reader as this one was. One that this answer opens is not.
        if let Some(next) = self.dialogs.open.front_mut() {
            next.ask.comes_to_front(self.now);
        }
        then(self, answer.reply.unwrap_or(Value::Null));
        true
    }

    /// Whether an open dialog takes what is pasted.
    pub(super) fn dialog_paste(&mut self, text: &str) -> bool {
        let Some(dialog) = self.dialogs.open.front_mut() else { return false };
        dialog.ask.paste(text, self.now);
        true
    }

    /// Calls a method and goes on with its answer. Without one, since the connection was lost, it does not.
    pub(super) fn call_then(
        &mut self,
        method: &'static str,
        params: Value,
        then: impl FnOnce(&mut Self, Result<Value, ErrorObject>) + 'static,
    ) {
        self.call_with(method, params, Then::Run(Continuation(Box::new(then))));
    }

    /// Stores values in the user's configuration, all of them or none, and goes on with the path of the file,
    /// or with why they were not stored. Null removes a key. A value that another source overrides is stored,
    /// and a warning says so.
    pub(super) fn store_settings(
        &mut self,
        values: Vec<(String, Value)>,
        then: impl FnOnce(&mut Self, Result<String, String>) + 'static,
    ) {
        let edit = |(key, value): (String, Value)| json!({ "keyPath": key, "value": value, "mergeStrategy": "replace" });
        let edits: Vec<Value> = values.into_iter().map(edit).collect();
        let params = json!({ "edits": edits, "reloadUserConfig": true });
        self.call_then("config/batchWrite", params, |app, result| {
            let stored = result.map(|written| {
                if let Some(why) = written["overriddenMetadata"]["message"].as_str() {
                    app.warning(why);
                }
                app.folder(written["filePath"].as_str().unwrap_or("config.toml"))
            });
            then(app, stored.map_err(|error| error.message));
        });
    }
}

/// A part of a dotted key, in quotes.
pub(super) fn quoted(part: &str) -> String {
    format!("\"{}\"", part.replace('\\', r"\\").replace('"', r#"\""#))
}
