//! The queue of the thread on the server: adding to it, editing, removing, moving and starting what waits in it. What
//! the server cannot take waits here, see `queue`.

use protocol::{
    QueuedSubmission, ThreadQueueAddParams, ThreadQueueChangedNotification,
    ThreadQueueDeleteParams, ThreadQueueListParams, ThreadQueueReorderParams,
    ThreadQueueStartParams,
};

use crate::app::filling::What;
use crate::app::program::App;
use crate::app::{lists, messages, transcript};
use crate::composer::Draft;
use crate::picker::{Picker, Row};
use crate::server_queue::Move;
use crate::session::ActiveTurn;
use crate::terminal::input::{Code, Key};

const HELP: &str =
    "Enter edits, Delete removes, Alt+↑↓ move, Alt+Home puts first, Tab starts, Esc closes";

/// Keeps a message for the end of the turn; without a turn, sends it.
pub(super) fn enqueue(app: &mut App, draft: Draft) {
    match app.session.turn {
        Some(_) if !draft.is_blank() => queue(app, draft),
        Some(_) => {}
        None => messages::submit(app, draft),
    }
}

/// Puts a message into the queue of the thread. Commands are for this program, and run here after the turn; what
/// follows one of them comes after it, and so does what is sent with new settings.
pub(super) fn queue(app: &mut App, draft: Draft) {
    let is_for_here = draft.command().is_some() || draft.shell().is_some();
    let is_after_others = !app.outbox.queue().is_empty() || app.outbox.has_overrides();
    let is_cut_off = app.login.holds() || app.server.is_lost();
    match app.session.id.clone().filter(|_| !is_for_here && !is_after_others && !is_cut_off) {
        Some(thread_id) => add(app, thread_id, draft),
        None => messages::wait_for_end(app, draft),
    }
}

fn add(app: &mut App, thread_id: String, draft: Draft) {
    let sending = app.outbox.sent_mut().add(draft.clone());
    let params = ThreadQueueAddParams {
        thread_id: thread_id.clone(),
        input: draft.inputs(),
        // Unlike that of any other client, and of this one in another run.
        client_user_message_id: format!(
            "terminal-{}-{}-{sending}",
            app.environment.started_at, app.environment.process_id
        ),
        responsesapi_client_metadata: None,
    };
    let place = app.session.queue.take_edited();
    app.session.queue.adds(sending, draft.clone());
    app.keep_soon();
    app.call::<protocol::ThreadQueueAdd>(&params, move |app, result| {
        app.outbox.sent_mut().answered(sending);
        app.session.queue.answered(sending);
        app.keep_soon();
        match result {
            Ok(_) if !app.is_shown(&thread_id) => {}
            Ok(added) => {
                let id = added.queued_submission.id.clone();
                app.session.queue.added(added.queued_submission, draft);
                if let Some(order) = app.session.queue.placed(&id, &place) {
                    reorder(app, order);
                }
            }
            Err(error) => {
                messages::give_back(app, vec![draft]);
                app.error(&format!("The message was not queued: {}", error.message));
            }
        }
    });
}

/// The server's word that the queue has changed. An empty one needs no list.
pub(super) fn changed(app: &mut App, it: ThreadQueueChangedNotification) {
    app.session.queue.set_state(it.length, it.pause);
    if it.length > 0 || app.session.queue.is_listing() {
        return list(app);
    }
    listed(app);
}

fn list(app: &mut App) {
    let Some(thread_id) = app.session.id.clone() else { return };
    if !app.session.queue.begins_listing() {
        return;
    }
    let params = ThreadQueueListParams { thread_id: thread_id.clone(), cursor: None, limit: None };
    app.call::<protocol::ThreadQueueList>(&params, move |app, result| {
        if !app.is_shown(&thread_id) {
            return;
        }
        let is_outdated = app.session.queue.ends_listing();
        match result {
            Ok(_) if is_outdated => return list(app),
            Ok(page) => {
                page.data.iter().for_each(|message| {
                    app.outbox.sent_mut().received(&Draft::text_of(&message.input));
                });
                let length = u32::try_from(page.data.len()).unwrap_or(u32::MAX);
                app.session.queue.set_messages(page.data);
                app.session.queue.set_state(length, page.pause);
            }
            Err(error) => app.error(&format!("The queue cannot be listed: {}", error.message)),
        }
        listed(app);
    });
}

/// The queue is known as it is: what waits here goes on after it, and not while it is paused.
fn listed(app: &mut App) {
    messages::return_unanswered(app);
    if app.session.turn.is_some() || app.session.is_loading {
        return;
    }
    match app.session.queue.pause() {
        Some(_) => messages::give_queue_back(app),
        None => app.outbox.release_queue(),
    }
}

/// The message in the composer is a new one.
pub(super) fn forget_edited(app: &mut App) {
    app.outbox.queue_mut().forget_edited();
    app.session.queue.take_edited();
}

pub(super) fn has_queued(app: &App) -> bool {
    !app.session.queue.is_empty() || !app.outbox.queue().is_empty()
}

/// `/queue`.
pub(super) fn show_queue(app: &mut App, _: &str) {
    match has_queued(app) {
        true => choose_queued(app),
        false => app.notice("No queued messages. Tab queues one instead of sending it."),
    }
}

/// Opens the list of the messages that wait.
pub(super) fn choose_queued(app: &mut App) {
    let picker = Picker::fixed("Queued messages", rows(app)).with_help(HELP);
    lists::choose(app, picker, What::Queue);
}

/// The rows of the list: first those of the thread's queue.
pub(super) fn rows(app: &App) -> Vec<Row> {
    let mut rows = app.session.queue.rows();
    rows.extend(app.outbox.queue().rows());
    rows
}

/// Offers the list of what waits a key that moves a message or starts it. Returns whether it is one.
pub(super) fn list_key(app: &mut App, key: Key) -> bool {
    let Some(choosing) = app.filling.list().filter(|list| list.what == What::Queue) else {
        return false;
    };
    let Some(id) = choosing.picker.selected().map(|row| row.id.clone()) else { return false };
    match key.code {
        Code::Home if key.alt => reorder_by(app, &id, Move::First),
        Code::Up if key.alt => reorder_by(app, &id, Move::Up),
        Code::Down if key.alt => reorder_by(app, &id, Move::Down),
        Code::Delete => remove_queued(app, &id),
        Code::Tab => {
            app.filling.close_list();
            start(app, Some(id));
        }
        _ => return false,
    }
    true
}

fn reorder_by(app: &mut App, id: &str, to: Move) {
    if app.session.queue.find(id).is_none() {
        return app.notice("Commands, and what follows them, stay in their order.");
    }
    if let Some(order) = app.session.queue.moved(id, to) {
        reorder(app, order);
    }
}

fn reorder(app: &mut App, order: Vec<String>) {
    let Some(thread_id) = app.session.id.clone() else { return };
    app.session.queue.set_order(&order);
    let params = ThreadQueueReorderParams { thread_id, queued_submission_ids: order };
    app.call::<protocol::ThreadQueueReorder>(&params, |app, result| {
        if let Err(error) = result {
            app.notice(format!("The order is as before: {}", error.message));
            list(app);
        }
    });
}

/// Starts what waits after a pause: the message with this id, or the first one.
pub(super) fn start(app: &mut App, id: Option<String>) {
    if app.session.turn.is_some() {
        return app.notice("A turn runs: queued messages start after it. Esc interrupts it.");
    }
    let Some(thread_id) = app.session.id.clone() else { return };
    if id.as_ref().is_some_and(|id| app.session.queue.find(id).is_none()) {
        return app.notice("That message is not in the queue of the thread.");
    }
    app.session.turn = Some(ActiveTurn::starting(app.now));
    let params = ThreadQueueStartParams { thread_id, queued_submission_id: id };
    app.call::<protocol::ThreadQueueStart>(&params, |app, result| match result {
        Ok(started) => {
            transcript::turn_started(app, &started.turn);
        }
        Err(error) => {
            app.session.turn = None;
            app.error(&format!("The queue was not started: {}", error.message));
        }
    });
}

/// Takes the last message back into the composer.
pub(super) fn edit_last_queued(app: &mut App) {
    let here = app.outbox.queue().last().map(|number| number.to_string());
    let last = here.or_else(|| app.session.queue.last().map(|message| message.id.clone()));
    if let Some(id) = last {
        edit_queued(app, &id);
    }
}

/// Puts a message into the composer; what is there waits in its place.
pub(super) fn edit_queued(app: &mut App, id: &str) {
    let Some(message) = app.session.queue.find(id).cloned() else {
        let draft =
            id.parse().ok().and_then(|number| Some((number, app.outbox.queue_mut().take(number)?)));
        return match draft {
            Some((number, draft)) => {
                edit(app, draft);
                app.outbox.queue_mut().set_edited(number);
            }
            None => app.notice("That message has already been sent."),
        };
    };
    let Some(draft) = app.session.queue.draft(&message) else {
        return app
            .notice("It has an image that was not added here: Delete in the list removes it.");
    };
    let place = app.session.queue.place(id);
    delete(app, message, move |app| {
        edit(app, draft);
        app.session.queue.set_edited(place);
    });
}

fn edit(app: &mut App, draft: Draft) {
    let present = app.writing.composer_mut().take();
    if !present.is_blank() {
        queue(app, present);
    }
    app.writing.composer_mut().restore(draft);
    app.keep_soon();
}

/// Removes a message that waits. It can be found with Ctrl+R.
fn remove_queued(app: &mut App, id: &str) {
    if let Some(message) = app.session.queue.find(id).cloned() {
        let draft = app.session.queue.draft(&message);
        return delete(app, message, |app| removed(app, draft));
    }
    let draft = id.parse().ok().and_then(|number| app.outbox.queue_mut().take(number));
    if draft.is_some() {
        removed(app, draft);
    }
}

fn removed(app: &mut App, draft: Option<Draft>) {
    match draft {
        Some(draft) => {
            app.writing.remember(draft);
            app.notice("Removed. Ctrl+R finds it again.");
        }
        None => app.notice("Removed."),
    }
    app.keep_soon();
}

/// Deletes a message on the server; `then` goes on if it had not started.
fn delete(app: &mut App, message: QueuedSubmission, then: impl FnOnce(&mut App) + 'static) {
    let Some(thread_id) = app.session.id.clone() else { return };
    let QueuedSubmission { id, .. } = message;
    let params = ThreadQueueDeleteParams { thread_id, queued_submission_id: id.clone() };
    app.call::<protocol::ThreadQueueDelete>(&params, move |app, result| match result {
        Ok(answer) => {
            app.session.queue.removed(&id);
            match answer.deleted {
                true => then(app),
                false => app.notice("That message has already been sent."),
            }
        }
        Err(error) => app.error(&format!("The message stays queued: {}", error.message)),
    });
}
