//! `/memory`: whether this thread uses and leaves notes, and the removal of all notes.

use protocol::{Empty, ThreadMemoryMode, ThreadMemoryModeSetParams};

use crate::app::program::App;
use crate::ask::{Ask, Offer};
use crate::text::Line;

/// `/memory on|off|reset`.
pub(super) fn memory(app: &mut App, rest: &str) {
    match rest {
        "on" => set_memory(
            app,
            ThreadMemoryMode::Enabled,
            "This thread uses notes of earlier threads, and leaves notes.",
        ),
        "off" => set_memory(
            app,
            ThreadMemoryMode::Disabled,
            "This thread neither uses nor leaves notes.",
        ),
        "reset" => reset_memory(app),
        _ => app.info(
            "/memory on: this thread uses notes of earlier threads, and leaves notes\n\
             /memory off: it does neither\n\
             /memory reset: deletes the notes of all threads",
        ),
    }
}

fn set_memory(app: &mut App, mode: ThreadMemoryMode, done: &'static str) {
    let Some(thread_id) = app.thread_id() else { return };
    let params = ThreadMemoryModeSetParams { thread_id, mode };
    app.call::<protocol::ThreadMemoryModeSet>(&params, move |app, result| match result {
        Ok(_) => app.info(done),
        Err(error) => app.error(&format!("Nothing was changed: {}", error.message)),
    });
}

fn reset_memory(app: &mut App) {
    let facts = vec![Line::plain("The notes of all threads are deleted. They cannot be restored.")];
    let offers = vec![
        Offer::new("yes", 'y', "Delete all notes"),
        Offer::new("no", 'n', "Keep them").on_escape(),
    ];
    app.open_dialog(Ask::offer("Delete all notes?", facts, offers), |app, reply| {
        if reply != "yes" {
            return app.info("All notes are kept.");
        }
        app.call::<protocol::MemoryReset>(&Empty {}, |app, result| match result {
            Ok(_) => app.info("All notes are deleted."),
            Err(error) => app.error(&format!("The notes were not deleted: {}", error.message)),
        });
    });
}
