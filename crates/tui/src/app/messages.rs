//! Starting turns, adding to them, interrupting them, and messages that wait.

use protocol::{ThreadShellCommandParams, TurnInterruptParams, TurnStartParams, TurnSteerParams};

use crate::app::filling::What;
use crate::app::program::App;
use crate::app::queue::MAX_QUEUED;
use crate::app::{lists, transcript};
use crate::composer::Draft;
use crate::picker::Picker;
use crate::session::ActiveTurn;

/// Opens the list of the messages that wait.
pub(super) fn choose_queued(app: &mut App) {
    let picker = Picker::fixed("Queued messages", app.outbox.queue().rows());
    let picker = picker.with_help("Enter edits, Delete removes, Esc closes");
    lists::choose(app, picker, What::Queue);
}

/// A message from the composer: to the running turn, or as a new one.
pub(super) fn submit(app: &mut App, draft: Draft) {
    if draft.is_blank() {
        return;
    }
    app.outbox.queue_mut().forget_edited();
    if let Some(command) = draft.shell() {
        return shell(app, command.to_owned());
    }
    match app.session.turn_id() {
        Some(turn) => {
            let turn = turn.to_owned();
            steer(app, draft, turn, |_| {});
        }
        None if app.session.turn.is_some() => wait_for_end(app, draft),
        None => start_turn(app, draft),
    }
}

pub(super) fn start_turn(app: &mut App, draft: Draft) {
    let Some(thread_id) = app.session.id.clone().filter(|_| !app.login.holds()) else {
        // It is sent as soon as there is a thread, and a model that can be asked.
        return wait_for_end(app, draft);
    };
    // Shown at once: the notification follows.
    app.session.turn = Some(ActiveTurn {
        id: None,
        started_ms: app.now,
        before_ms: 0,
        retry: None,
        has_message: false,
        is_interrupting: false,
    });
    let params =
        TurnStartParams { thread_id, input: draft.inputs(), ..app.outbox.take_overrides() };
    let sending = app.outbox.sent_mut().add(draft);
    app.call::<protocol::TurnStart>(&params, move |app, result| {
        let draft = app.outbox.sent_mut().answered(sending);
        match result {
            // The notification may be later than the answer, and the next key earlier than both.
            Ok(started) => {
                transcript::turn_started(app, &started.turn);
            }
            Err(error) => {
                app.session.turn = None;
                give_back(app, draft.into_iter().collect());
                app.error(&format!("The message was not sent: {}", error.message));
            }
        }
    });
}

/// Adds a message to the turn; `then` goes on when the turn has it, or takes it no longer.
pub(super) fn steer(
    app: &mut App,
    draft: Draft,
    expected_turn_id: String,
    then: impl FnOnce(&mut App) + 'static,
) {
    let Some(thread_id) = app.session.id.clone() else { return };
    let params = TurnSteerParams {
        thread_id,
        input: draft.inputs(),
        expected_turn_id,
        responsesapi_client_metadata: None,
    };
    let sending = app.outbox.sent_mut().add(draft);
    app.call::<protocol::TurnSteer>(&params, move |app, result| {
        then(app);
        let (Some(draft), Err(_)) = (app.outbox.sent_mut().answered(sending), result) else {
            return;
        };
        // The turn has just ended: the message starts the next one.
        if app.session.turn.is_none() {
            return start_turn(app, draft);
        }
        wait_for_end(app, draft);
        app.notice("The turn no longer accepts input. The message is queued.");
    });
}

fn shell(app: &mut App, command: String) {
    let Some(thread_id) = app.session.id.clone() else { return };
    let params = ThreadShellCommandParams { thread_id, command };
    app.call_or_report::<protocol::ThreadShellCommand>(&params, "The command was not run");
}

pub(super) fn interrupt(app: &mut App) {
    let Some(thread_id) = app.session.id.clone() else { return };
    let Some(turn) = &mut app.session.turn else { return };
    let Some(turn_id) = turn.id.clone() else { return };
    if std::mem::replace(&mut turn.is_interrupting, true) {
        return;
    }
    let params = TurnInterruptParams { thread_id, turn_id };
    app.call_or_report::<protocol::TurnInterrupt>(&params, "The turn was not interrupted");
}

pub(super) fn edited(app: &mut App, result: Result<String, String>) -> bool {
    match result {
        Ok(text) => app.writing.composer_mut().restore(Draft::plain(text)),
        Err(why) => app.error(&why),
    }
    true
}

/// Keeps a message for the end of the turn.
pub(super) fn enqueue(app: &mut App, draft: Draft) {
    match app.session.turn {
        Some(_) if !draft.is_blank() => wait_for_end(app, draft),
        Some(_) => {}
        None => submit(app, draft),
    }
}

/// Puts a message into the queue, or back into the composer where the queue is full.
pub(super) fn wait_for_end(app: &mut App, draft: Draft) {
    if app.outbox.queue().is_full() {
        app.notice(format!("The queue is full ({MAX_QUEUED} messages); this one was not added."));
        return give_back(app, vec![draft]);
    }
    app.outbox.queue_mut().push(draft);
    app.keep_soon();
}

/// A turn that did not end by itself takes no message with it that was written for afterwards: all of
/// them are in the composer again.
pub(super) fn give_queue_back(app: &mut App) {
    let drafts = app.outbox.queue_mut().take_all();
    if drafts.len() > 1 {
        let count = drafts.len();
        app.notice(format!("The {count} queued messages are back in the composer."));
    }
    give_back(app, drafts);
}

/// Puts messages into the composer, before what is being written there.
fn give_back(app: &mut App, mut drafts: Vec<Draft>) {
    if drafts.is_empty() {
        return;
    }
    drafts.push(app.writing.composer().draft());
    app.writing.composer_mut().restore(Draft::joined(drafts));
    app.keep_soon();
}

/// Puts messages that the server turned out not to have into the composer again.
pub(super) fn return_unanswered(app: &mut App) {
    let drafts = app.outbox.sent_mut().take_unanswered();
    give_back(app, drafts);
}

/// Everything that was written and not sent, as one message.
pub(super) fn written(app: &App) -> Draft {
    let composer = app.writing.composer().draft();
    Draft::joined(app.outbox.unreceived().cloned().chain([composer]))
}

/// Opens the list of the messages that wait.
pub(super) fn show_queue(app: &mut App, _: &str) {
    match app.outbox.queue().is_empty() {
        true => app.notice("No queued messages. Tab queues one instead of sending it."),
        false => choose_queued(app),
    }
}

/// Takes the last message back into the composer.
pub(super) fn edit_last_queued(app: &mut App) {
    if let Some(number) = app.outbox.queue().last() {
        edit_queued(app, number);
    }
}

/// Puts a message into the composer; what is there waits in its place.
pub(super) fn edit_queued(app: &mut App, number: u64) {
    let present = app.writing.composer().draft();
    let Some(draft) = app.outbox.queue_mut().take(number) else {
        return app.notice("That message has already been sent.");
    };
    if !present.is_blank() {
        app.outbox.queue_mut().push(present);
    }
    app.writing.composer_mut().restore(draft);
    app.outbox.queue_mut().set_edited(number);
    app.keep_soon();
}

/// Removes a message that waits. It can be found with Ctrl+R.
pub(super) fn remove_queued(app: &mut App, number: u64) {
    let Some(draft) = app.outbox.queue_mut().take(number) else { return };
    app.writing.remember(draft);
    app.notice("Removed. Ctrl+R finds it again.");
    app.keep_soon();
}
