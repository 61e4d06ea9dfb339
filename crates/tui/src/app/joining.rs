//! The thread as it is when it is opened, even in the middle of a turn, and again after a reconnection:
//! what runs comes with the answer that opens it, as it is at that place among the events, and the finished
//! turns come page by page. Until the last page has come, nothing else is printed.

use protocol::describe::ItemStatus;
use protocol::{
    SortDirection, ThreadItem, ThreadTurnsListParams, ThreadTurnsListResponse, Turn, TurnItemsView,
    TurnStatus,
};

use crate::app::program::App;
use crate::app::{messages, printing, transcript};
use crate::session::Open;

/// Turns that are read at once.
const PAGE: u32 = 100;

/// Takes the turns in progress from the answer that opened the thread. What is being written has its
/// text so far; the additions that follow the answer belong after it.
pub(super) fn join(app: &mut App, turns: &[Turn]) {
    for turn in turns.iter().filter(|turn| turn.status == TurnStatus::InProgress) {
        transcript::turn_started(app, turn);
        set_elapsed(app, turn);
        for item in &turn.items {
            // Whether anything else is complete is known when it is read from the store.
            match item {
                ThreadItem::UserMessage(_) | ThreadItem::HookPrompt(_) => {
                    transcript::item_completed(app, item, &turn.id)
                }
                _ => transcript::item_started(app, item, &turn.id),
            };
        }
    }
}

/// The turn may have been running for long.
fn set_elapsed(app: &mut App, turn: &Turn) {
    let now = app.environment.started_at.saturating_add_unsigned(app.now / 1_000);
    let elapsed = turn.started_at.map_or(0, |at| now.saturating_sub(at));
    if let Some(turn) = &mut app.session.turn {
        turn.started_ms = app.now;
        turn.before_ms = u64::try_from(elapsed).unwrap_or(0).saturating_mul(1_000);
    }
}

/// Asks for the first page of turns, or the next.
pub(super) fn load_turns(app: &mut App, cursor: Option<String>) {
    let Some(thread_id) = app.session.id.clone() else { return };
    app.session.is_loading = true;
    let params = ThreadTurnsListParams {
        thread_id,
        cursor,
        limit: Some(PAGE),
        sort_direction: Some(SortDirection::Asc),
        items_view: Some(TurnItemsView::Full),
    };
    app.call::<protocol::ThreadTurnsList>(&params, |app, result| match result {
        Ok(page) => turns(app, page),
        Err(error) => {
            app.error(&format!("The earlier turns cannot be read: {}", error.message));
            loaded(app);
        }
    });
}

fn turns(app: &mut App, page: ThreadTurnsListResponse) {
    app.session.is_loading = false;
    // What is printed in part comes first, and what has come since the opening after all turns.
    let open = std::mem::take(&mut app.session.open);
    let (open, mut newer): (Vec<Open>, Vec<Open>) =
        open.into_iter().partition(|open| open.running.has_begun());
    app.session.open = open;
    for turn in &page.data {
        show_turn(app, turn, &mut newer);
    }
    app.session.open.append(&mut newer);
    match page.next_cursor {
        Some(cursor) => load_turns(app, Some(cursor)),
        None => loaded(app),
    }
}

/// Shows what is stored of a turn. `newer` are the items that are known from elsewhere, some with more
/// text than was stored.
fn show_turn(app: &mut App, turn: &Turn, newer: &mut Vec<Open>) {
    let whole = ThreadItem::without_attempts(turn.items.clone());
    let stands = |id: &str| whole.iter().any(|item| item.id() == id);
    for item in &turn.items {
        let id = item.id();
        if let Some(at) = newer.iter().position(|it| it.id == id) {
            app.session.open.push(newer.remove(at));
        }
        // A command may outlive its turn.
        match item.status() {
            ItemStatus::InProgress => transcript::item_started(app, item, &turn.id),
            _ => transcript::item_completed(app, item, &turn.id),
        };
        if item.cut_off().is_some() && !stands(id) {
            transcript::decide_texts(app, &turn.id, true);
        }
    }
    if turn.status != TurnStatus::InProgress {
        transcript::end_texts(app, &turn.id);
        transcript::decide_texts(app, &turn.id, false);
    }
    printing::print_finished(app);
    if turn.status != TurnStatus::InProgress {
        transcript::report_end(app, turn);
    }
}

/// All turns are there, or cannot be read.
fn loaded(app: &mut App) {
    app.session.is_loading = false;
    // Items that the server no longer knows were cut off by its end.
    for open in app.session.open.iter_mut().filter(|open| !open.is_confirmed) {
        open.running.end();
        (open.is_complete, open.is_undecided) = (true, false);
    }
    printing::print_finished(app);
    printing::print_late_end(app);
    if let Some(arrival) = app.session.arrival.take() {
        app.info(&arrival);
    }
    let was_cut_off = app.session.left.take().is_some();
    messages::return_unanswered(app);
    if app.session.turn.is_some() {
        return;
    }
    match was_cut_off {
        true => messages::give_queue_back(app),
        false => app.outbox.release_queue(),
    }
}
