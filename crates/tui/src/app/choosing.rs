//! Choices in lists: each kind of row leads to its own flow.

use protocol::ThreadStartParams;

use crate::app::filling::{Choosing, What};
use crate::app::program::App;
use crate::app::{
    appearance, earlier, lists, login, model_choice, opening, other_server, queueing, reading,
    taking, terminals, worktrees,
};
use crate::picker::{Outcome, Row};
use crate::terminal::input::{Code, Key};

/// A list of what changes by itself shows it as it is.
pub(super) fn refresh_list(app: &mut App) {
    let rows = match app.filling.list().map(|choosing| &choosing.what) {
        Some(What::Queue) => queueing::rows(app),
        Some(What::Terminals) => terminals::terminal_rows(app),
        _ => return,
    };
    if rows.is_empty() {
        app.filling.close_list();
        return;
    }
    let Some(choosing) = app.filling.list_mut() else { return };
    choosing.picker.set_rows(rows);
    let selected = choosing.picker.selected().map(|row| row.id.clone());
    if let (What::Terminals, Some(id)) = (&choosing.what, selected) {
        let rows = app.output.size().rows;
        let lines = terminals::terminal_output(app, &id, rows);
        if let Some(choosing) = app.filling.list_mut() {
            choosing.picker.set_preview(id, lines);
        }
    }
}

/// Delete, in lists from which something can be removed.
fn removes(app: &mut App, key: Key) {
    let Some(choosing) = app.filling.list() else { return };
    let selected = choosing.picker.selected().map(|row| row.id.clone());
    match (&choosing.what, selected) {
        (What::Terminals, Some(id)) if key.code == Code::Delete => {
            terminals::stop_terminal(app, &id);
        }
        _ => lists::provide(app),
    }
}

/// Offers a key to the open list. Returns whether there is one.
pub(super) fn chooses(app: &mut App, key: Key) -> bool {
    if queueing::list_key(app, key) {
        return true;
    }
    let Some(choosing) = app.filling.list_mut() else { return false };
    match choosing.picker.key(key) {
        Outcome::Changed => lists::provide(app),
        Outcome::Ignored => removes(app, key),
        Outcome::Chosen(row) => {
            if let Some(Choosing { what, .. }) = app.filling.close_list() {
                chosen(app, what, row);
            }
        }
        Outcome::Cancelled => {
            let closed = app.filling.close_list();
            if let Some(Choosing { what: What::ServerModels(server), .. }) = closed {
                other_server::enter_address(app, login::OTHER_SERVER, &server.address, None);
                return true;
            }
            // There has to be a thread.
            if app.session.id.is_none()
                && let Some(overrides) = app.beginning.start_overrides()
            {
                opening::start_thread(app, &ThreadStartParams::from(overrides));
            }
        }
    }
    true
}

fn chosen(app: &mut App, what: What, row: Row) {
    match what {
        What::Threads => {
            let overrides = app.beginning.take_start().map(|start| start.overrides);
            opening::resume_thread(app, row.id, overrides.unwrap_or_default());
        }
        What::Models(_) => model_choice::chosen(app, &row),
        What::ServerModels(server) => {
            other_server::keep(app, login::OTHER_SERVER, &server, &row.id);
        }
        What::Themes => appearance::set_theme(app, &row.id),
        What::Agents => reading::read_agent(app, row.id),
        What::Queue => queueing::edit_queued(app, &row.id),
        What::Terminals => terminals::print_terminal(app, &row.id),
        What::Messages(messages) => earlier::message_chosen(app, &row, messages),
        What::Code(texts) => {
            if let Some(text) = row.id.parse::<usize>().ok().and_then(|at| texts.get(at)) {
                taking::copy_text(app, text);
            }
        }
        What::Worktrees(worktrees) => {
            if let Some(found) = worktrees.into_iter().find(|it| it.path == row.id) {
                worktrees::chosen(app, found);
            }
        }
    }
}
