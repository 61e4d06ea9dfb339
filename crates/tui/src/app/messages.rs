//! Starting turns, adding to them, interrupting them, and messages that wait here.

use protocol::{ThreadShellCommandParams, TurnInterruptParams, TurnStartParams, TurnSteerParams};

use crate::app::program::App;
use crate::app::queue::MAX_QUEUED;
use crate::app::{queueing, transcript};
use crate::composer::Draft;
use crate::session::ActiveTurn;

/// A message from the composer: to the running turn, or as a new one.
pub(super) fn submit(app: &mut App, draft: Draft) {
    if draft.is_blank() {
        return;
    }
    queueing::forget_edited(app);
    if let Some(command) = draft.shell() {
        return shell(app, command.to_owned());
    }
    match app.session.turn_id() {
        Some(turn) => {
            let turn = turn.to_owned();
            steer(app, draft, turn, |_| {});
        }
        None if app.session.turn.is_some() => queueing::queue(app, draft),
        None => start_turn(app, draft),
    }
}

pub(super) fn start_turn(app: &mut App, draft: Draft) {
    let Some(thread_id) = app.session.id.clone().filter(|_| !app.login.holds()) else {
        // It is sent as soon as there is a thread, and a model that can be asked.
        return wait_for_end(app, draft);
    };
    // Shown at once: the notification follows.
    app.session.turn = Some(ActiveTurn::starting(app.now));
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
        queueing::queue(app, draft);
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

/// Keeps a message here until it can be sent, or puts it back into the composer where the queue is full.
pub(super) fn wait_for_end(app: &mut App, draft: Draft) {
    if app.outbox.queue().is_full() {
        app.notice(format!("The queue is full ({MAX_QUEUED} messages); this one was not added."));
        return give_back(app, vec![draft]);
    }
    app.outbox.queue_mut().push(draft);
    app.keep_soon();
}

/// A turn that did not end by itself takes no message with it that was written for afterwards: those that wait here
/// are in the composer again, and those in the queue of the thread wait on the server.
pub(super) fn give_queue_back(app: &mut App) {
    let drafts = app.outbox.queue_mut().take_all();
    if drafts.len() > 1 {
        let count = drafts.len();
        app.notice(format!("The {count} queued messages are back in the composer."));
    }
    give_back(app, drafts);
}

/// Puts messages into the composer, before what is being written there.
pub(super) fn give_back(app: &mut App, mut drafts: Vec<Draft>) {
    if drafts.is_empty() {
        return;
    }
    drafts.push(app.writing.composer().draft());
    app.writing.composer_mut().restore(Draft::joined(drafts));
    app.keep_soon();
}

/// Puts messages that the server turned out not to have into the composer again, once its queue and the turns are
/// known.
pub(super) fn return_unanswered(app: &mut App) {
    if app.session.is_loading || app.session.queue.is_listing() {
        return;
    }
    let drafts = app.outbox.sent_mut().take_unanswered();
    give_back(app, drafts);
}

/// Everything that was written and not sent, as one message.
pub(super) fn written(app: &App) -> Draft {
    let composer = app.writing.composer().draft();
    let adding = app.session.queue.adding();
    Draft::joined(app.outbox.unreceived().chain(adding).cloned().chain([composer]))
}
