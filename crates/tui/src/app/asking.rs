//! How the program asks the user and the server: dialogs of its own, behind the questions of the server, and
//! calls that go on with their answer.

use jsonrpc::ErrorObject;
use serde_json::{Value, json};

use crate::app::App;
use crate::app::dialogs::{Dialog, DialogId};
use crate::app::then::Then;
use crate::ask::Ask;
use crate::terminal::input::Key;

impl App {
    /// Opens a dialog that the user asked for, or that the last key led to: before all others.
    pub(super) fn open_dialog(
        &mut self,
        ask: Ask,
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) -> DialogId {
        let dialog = self.dialogs.dialog(ask, Box::new(then));
        let id = dialog.id();
        self.dialogs.push_front(dialog);
        id
    }

    /// Opens a dialog by itself: behind the others, and its first key has to be meant for it.
    pub(super) fn open_dialog_later(
        &mut self,
        ask: Ask,
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) {
        let ask = ask.guarded(self.now, self.last_key);
        let dialog = self.dialogs.dialog(ask, Box::new(then));
        self.dialogs.push_back(dialog);
    }

    /// As [`App::open_dialog`], with a function that shows what the checked items would look like.
    pub(super) fn open_checklist(
        &mut self,
        ask: Ask,
        preview: fn(&mut Self, Vec<String>),
        then: impl FnOnce(&mut Self, Value) + 'static,
    ) {
        let mut dialog = self.dialogs.dialog(ask, Box::new(then));
        dialog.preview = Some(preview);
        self.dialogs.push_front(dialog);
    }

    /// Whether an open dialog takes the key.
    pub(super) fn dialog_key(&mut self, key: Key) -> bool {
        let Some(dialog) = self.dialogs.front_mut() else { return false };
        let answer = dialog.ask.key(key, self.now);
        let Some(answer) = answer else {
            if let (Some(preview), Some(checked)) = (dialog.preview, dialog.ask.checked()) {
                preview(self, checked);
            }
            return true;
        };
        let Some(Dialog { then, .. }) = self.dialogs.pop_front() else { return true };
        // The next one is as new to the reader as this one was. One that this answer opens is not.
        if let Some(next) = self.dialogs.front_mut() {
            next.ask.comes_to_front(self.now);
        }
        then(self, answer.reply.unwrap_or(Value::Null));
        true
    }

    /// Whether an open dialog takes what is pasted.
    pub(super) fn dialog_paste(&mut self, text: &str) -> bool {
        let Some(dialog) = self.dialogs.front_mut() else { return false };
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
        self.dialogs.when_answered(self.next_tag, Box::new(then));
        self.call_with(method, params, Then::Run);
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
