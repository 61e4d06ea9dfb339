//! Questions of the program to the user: dialogs of its own, after the questions of the server.

use serde_json::Value;

use crate::app::App;
use crate::app::dialogs::{Dialog, DialogId};
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

    /// Opens a dialog by itself: after the others, and its first key has to be meant for it.
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

    /// Returns whether an open dialog takes the key.
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

    /// Returns whether an open dialog takes the pasted text.
    pub(super) fn dialog_paste(&mut self, text: &str) -> bool {
        let Some(dialog) = self.dialogs.front_mut() else { return false };
        dialog.ask.paste(text, self.now);
        true
    }
}

/// A part of a dotted key, in quotes.
pub(super) fn quoted(part: &str) -> String {
    format!("\"{}\"", part.replace('\\', r"\\").replace('"', r#"\""#))
}
