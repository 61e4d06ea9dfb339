//! `/archive` and `/delete`: the thread goes away, and a new one takes its place.

use protocol::{ThreadIdParams, ThreadStartParams};

use crate::app::opening;
use crate::app::program::App;
use crate::ask::{Ask, Offer};
use crate::text::Line;

/// `/archive`.
pub(super) fn archive(app: &mut App, _: &str) {
    let Some(thread_id) = app.thread_id() else { return };
    let params = ThreadIdParams { thread_id: thread_id.clone() };
    app.call::<protocol::ThreadArchive>(&params, move |app, result| match result {
        Ok(_) => {
            app.info(&format!("Archived: agentd threads unarchive {thread_id} brings it back."));
            start_another(app);
        }
        Err(error) => app.error(&format!("The thread was not archived: {}", error.message)),
    });
}

/// `/delete`, after a question.
pub(super) fn delete(app: &mut App, _: &str) {
    let Some(thread_id) = app.thread_id() else { return };
    let name = app.session.name.clone().unwrap_or_else(|| thread_id.clone());
    let facts = vec![Line::plain(format!(
        "{name} is deleted permanently, with its messages and its record of changes. Files \
         in the folder are not changed. /archive keeps it."
    ))];
    let offers =
        vec![Offer::new("yes", 'y', "Delete it"), Offer::new("no", 'n', "Keep it").on_escape()];
    app.open_dialog(Ask::offer("Delete this thread?", facts, offers), move |app, reply| {
        if reply == "yes" {
            delete_now(app, thread_id);
        }
    });
}

fn delete_now(app: &mut App, thread_id: String) {
    let params = ThreadIdParams { thread_id };
    app.call::<protocol::ThreadDelete>(&params, |app, result| match result {
        Ok(_) => {
            app.info("The thread is deleted.");
            start_another(app);
        }
        Err(error) => app.error(&format!("The thread was not deleted: {}", error.message)),
    });
}

/// In the same folder: a server that runs elsewhere has another one.
fn start_another(app: &mut App) {
    let cwd = Some(app.working_folder());
    opening::start_thread(app, &ThreadStartParams { cwd, ..ThreadStartParams::default() });
}
