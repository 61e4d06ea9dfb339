//! A text that is read on the whole screen: the transcript of a thread or of an agent, a long diff.

use protocol::{
    SortDirection, ThreadIdParams, ThreadItem, ThreadResumeParams, ThreadTurnsListParams,
    ThreadTurnsListResponse, TurnItemsView,
};

use crate::app::filling::{Of, Reading};
use crate::app::program::App;
use crate::cells::Delta;
use crate::pager::{Block, Outcome, Pager};
use crate::terminal::input::Key;
use crate::text::Line;
use crate::view::View;

/// Turns that are read at once.
const PAGE: u32 = 30;

/// Opens the transcript of the thread on the screen.
pub(super) fn read_transcript(app: &mut App, _: &str) {
    let Some(id) = app.thread_id() else { return };
    let name = app.session.name.as_deref().unwrap_or("this thread");
    read_thread(app, id, format!("Transcript of {name}"), false);
}

/// Opens the transcript of an agent's thread, with what comes from now on.
pub(super) fn read_agent(app: &mut App, id: String) {
    let params = ThreadResumeParams { thread_id: id.clone(), ..ThreadResumeParams::default() };
    app.call_or_report::<protocol::ThreadResume>(&params, "The agent's events are not shown");
    let title = format!("Agent {id}");
    read_thread(app, id, title, true);
}

fn read_thread(app: &mut App, id: String, title: String, is_subscribed: bool) {
    let mut pager = Pager::new(title);
    pager.set_has_earlier();
    app.filling.open_reading(Reading { pager, of: Of::Thread { id, cursor: None, is_subscribed } });
    read_earlier(app);
}

/// Opens lines, from the first on.
pub(super) fn read_lines(app: &mut App, title: &str, lines: Vec<Line>) {
    app.filling.open_reading(Reading { pager: Pager::of_lines(title, lines), of: Of::Lines });
}

/// Offers a key to the open view. Returns whether there is one.
pub(super) fn reads(app: &mut App, key: Key) -> bool {
    let context = app.context();
    let Some(reading) = app.filling.reading_mut() else { return false };
    match reading.pager.key(key, &context) {
        Outcome::Changed | Outcome::Ignored => read_earlier(app),
        Outcome::Closed => close_reading(app),
    }
    true
}

fn close_reading(app: &mut App) {
    let Some(Reading { of, .. }) = app.filling.close_reading() else { return };
    if let Of::Thread { id, is_subscribed: true, .. } = of {
        let params = ThreadIdParams { thread_id: id };
        app.call_or_report::<protocol::ThreadUnsubscribe>(
            &params,
            "The agent's events could not \
            be stopped",
        );
    }
}

/// Takes pasted text into the search of the open view; false where there is none.
pub(super) fn paste_into_reading(app: &mut App, text: &str) -> bool {
    let context = app.context();
    let Some(reading) = app.filling.reading_mut() else { return false };
    reading.pager.paste(text, &context);
    true
}

pub(super) fn reading_view(app: &mut App) -> Option<View> {
    let (context, rows) = (app.context(), app.output.size().rows);
    Some(app.filling.reading_mut()?.pager.view(&context, rows))
}

/// Asks for the turns before those that are there, if the reader comes near.
fn read_earlier(app: &mut App) {
    let Some(Reading { pager, of: Of::Thread { id, cursor, .. } }) = app.filling.reading_mut()
    else {
        return;
    };
    if !pager.needs_earlier() {
        return;
    }
    let params = ThreadTurnsListParams {
        thread_id: id.clone(),
        cursor: cursor.clone(),
        limit: Some(PAGE),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::Full),
    };
    let id = id.clone();
    app.call::<protocol::ThreadTurnsList>(&params, move |app, result| match result {
        Ok(page) => earlier_read(app, &id, page),
        Err(error) => earlier_failed(app, &id, &error.message),
    });
}

fn earlier_read(app: &mut App, thread: &str, page: ThreadTurnsListResponse) {
    let context = app.context();
    let Some(pager) = reading_of(app, thread) else { return };
    let items =
        page.data.into_iter().rev().flat_map(|turn| ThreadItem::without_attempts(turn.items));
    let new = items.filter(|item| !pager.has_item(item.id()));
    let blocks = new.map(|item| Block::Item(Box::new(item))).collect();
    pager.prepend(blocks, page.next_cursor.is_some());
    pager.go_on_searching(&context);
    if let Some(Reading { of: Of::Thread { cursor, .. }, .. }) = app.filling.reading_mut() {
        *cursor = page.next_cursor;
    }
    read_earlier(app);
}

fn earlier_failed(app: &mut App, thread: &str, why: &str) {
    if let Some(pager) = reading_of(app, thread) {
        pager.set_failure(format!("Earlier turns cannot be read: {why}"));
    }
}

/// An item of the thread that is read has begun, or is complete. Returns whether it is displayed.
pub(super) fn read_item(app: &mut App, thread: &str, item: &ThreadItem) -> bool {
    reading_of(app, thread).map(|pager| pager.set_item(item)).is_some()
}

pub(super) fn read_delta(app: &mut App, delta: &Delta) -> bool {
    reading_of(app, delta.thread_id()).is_some_and(|pager| pager.delta(delta))
}

fn reading_of<'a>(app: &'a mut App, thread: &str) -> Option<&'a mut Pager> {
    match app.filling.reading_mut() {
        Some(Reading { pager, of: Of::Thread { id, .. } }) if id == thread => Some(pager),
        _ => None,
    }
}
