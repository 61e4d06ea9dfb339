//! Handling of keys: the question in front takes them first, then the composer, then the program.

use crate::app::events::Effect;
use crate::app::program::App;
use crate::app::writing::Recall;
use crate::app::{
    asking, choosing, commands, completion, earlier, images, lists, messages, questions, queueing,
    reading,
};
use crate::composer::{Draft, Outcome};
use crate::terminal::input::{Code, Key};

pub(super) fn key(app: &mut App, key: Key) {
    app.writing.pressed(key, app.now);
    if questions::question_key(app, key)
        || asking::dialog_key(app, key)
        || choosing::chooses(app, key)
        || reading::reads(app, key)
        || !app.writing.is_searching() && always(app, key)
    {
        return;
    }
    match app.writing.search_key(key) {
        Recall::Ignored => {}
        Recall::Taken => return,
        Recall::Waits => return app.output.emit(Effect::LoadHistory),
    }
    match app.writing.composer_mut().key(key, app.now) {
        Outcome::Changed => {
            app.keep_soon();
            app.writing.end_walk();
            completion::search(app);
        }
        Outcome::Submitted(draft) => submitted(app, draft),
        Outcome::Ignored => ignored(app, key),
    }
}

/// Ends an unmarked paste whose time is over, and takes an Enter after which nothing came. Returns whether
/// there was anything.
pub(super) fn settle(app: &mut App) -> bool {
    let now = app.now;
    match app.writing.composer_mut().tick(now) {
        Outcome::Changed => true,
        Outcome::Submitted(draft) => {
            submitted(app, draft);
            true
        }
        Outcome::Ignored => false,
    }
}

fn submitted(app: &mut App, draft: Draft) {
    app.keep_soon();
    app.writing.remember(draft.clone());
    match draft.command() {
        Some((name, rest)) => {
            let (name, rest) = (name.to_owned(), rest.to_owned());
            commands::command(app, &name, &rest, draft);
        }
        None => messages::submit(app, draft),
    }
}

pub(super) fn pasted(app: &mut App, text: String) {
    if app.asks.question_paste(&text, app.now) || asking::dialog_paste(app, &text) {
        return;
    }
    if let Some(list) = app.filling.list_mut() {
        list.picker.paste(&text);
        lists::provide(app);
    } else if !reading::paste_into_reading(app, &text) {
        images::paste_into_composer(app, text);
    }
}

/// Keys that mean the same wherever they are pressed.
fn always(app: &mut App, key: Key) -> bool {
    match (key.code, key.ctrl) {
        (Code::Char('c'), true) => ctrl_c(app),
        (Code::Char('d'), true) if app.writing.composer().is_empty() => app.quit(),
        (Code::Char('z'), true) => app.output.emit(Effect::Suspend),
        (Code::Char('t'), true) if app.writing.composer().is_empty() => {
            reading::read_transcript(app, "");
        }
        (Code::Char('v'), true) => images::paste_image(app),
        (Code::Up, false) if key.alt && queueing::has_queued(app) => queueing::choose_queued(app),
        (Code::Char('g'), true) => {
            app.output.emit(Effect::Edit(app.writing.composer().draft().text));
        }
        _ => return false,
    }
    true
}

fn ignored(app: &mut App, key: Key) {
    match key.code {
        Code::Esc if app.session.turn.is_some() => messages::interrupt(app),
        Code::Esc if app.writing.composer().is_empty() => esc(app),
        Code::Tab if !app.writing.composer().is_empty() => {
            let draft = app.writing.composer_mut().take();
            queueing::enqueue(app, draft);
        }
        Code::Tab if app.session.queue.pause().is_some() => queueing::start(app, None),
        Code::Up if queueing::has_queued(app) && app.writing.composer().is_empty() => {
            queueing::edit_last_queued(app);
        }
        Code::Up | Code::Down => walk(app, key.code),
        _ => {}
    }
}

/// The message before or after the one in the composer.
fn walk(app: &mut App, code: Code) {
    if let Recall::Waits = app.writing.walk(code) {
        app.output.emit(Effect::LoadHistory);
    }
}

/// Takes the messages of earlier sessions, and the key that asked for them.
pub(super) fn set_history(app: &mut App, texts: Vec<String>) -> bool {
    if let Some(waiting) = app.writing.set_history(texts) {
        key(app, waiting);
    }
    true
}

/// Pressed twice, it goes back to an earlier message.
fn esc(app: &mut App) {
    if !app.session.has_turns {
        return;
    }
    if app.writing.is_second_esc(app.now) {
        app.output.clear_notice();
        return earlier::choose_message(app, "");
    }
    app.notice("Press Esc again to edit an earlier message.");
}

fn ctrl_c(app: &mut App) {
    if !app.writing.composer().is_empty() {
        app.writing.composer_mut().clear();
        app.notice("Cleared. Ctrl+_ brings it back.");
    } else if app.session.turn.is_some() {
        messages::interrupt(app);
    } else if app.writing.is_second_ctrl_c(app.now) {
        app.quit();
    } else {
        app.notice("Press Ctrl+C again to quit.");
    }
}
