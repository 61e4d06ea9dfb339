//! The keys of the dialogs of the program's own.

use serde_json::Value;

use crate::app::program::App;
use crate::ask::Answer;
use crate::terminal::input::Key;

/// Offers a key to the dialog in front. Returns whether there is one.
pub(super) fn dialog_key(app: &mut App, key: Key) -> bool {
    let now = app.now;
    let Some(dialog) = app.asks.dialogs_mut().front_mut() else { return false };
    let answer = dialog.ask.key(key, now);
    let Some(answer) = answer else {
        if let (Some(preview), Some(checked)) = (dialog.preview, dialog.ask.checked()) {
            preview(app, checked);
        }
        return true;
    };
    close(app, answer);
    true
}

/// Takes the answer of a letter after which nothing was typed.
pub(super) fn settle(app: &mut App) {
    let now = app.now;
    let answer = app.asks.dialogs_mut().front_mut().and_then(|dialog| dialog.ask.settle(now));
    if let Some(answer) = answer {
        close(app, answer);
    }
}

fn close(app: &mut App, answer: Answer) {
    let now = app.now;
    let words = app.asks.dialogs_mut().front_mut().map(|dialog| dialog.ask.take_words());
    app.writing.type_words(&words.unwrap_or_default());
    if let Some(then) = app.asks.dialogs_mut().close_front(now) {
        then(app, answer.reply.unwrap_or(Value::Null));
    }
}

/// Offers pasted text to the dialog in front. Returns whether there is one.
pub(super) fn dialog_paste(app: &mut App, text: &str) -> bool {
    let now = app.now;
    let Some(dialog) = app.asks.dialogs_mut().front_mut() else { return false };
    dialog.ask.paste(text, now);
    true
}
