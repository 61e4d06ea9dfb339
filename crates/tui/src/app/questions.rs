//! The questions of the server: approvals, permissions, forms.

use std::borrow::Cow;

use jsonrpc::{ErrorObject, RequestId};
use protocol::{TurnInterruptParams, TurnSteerParams};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::asks::{Answered, Subject};
use crate::app::events::Effect;
use crate::app::program::App;
use crate::app::{access, messages};
use crate::ask::{self, Ask, FollowUp};
use crate::cells;
use crate::composer::Draft;
use crate::session::Open;
use crate::terminal::input::Key;
use crate::text::Line;

/// The ids in the parameters of a request.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct About<'m> {
    #[serde(borrow, default)]
    thread_id: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    turn_id: Option<Cow<'m, str>>,
    #[serde(borrow, default)]
    item_id: Option<Cow<'m, str>>,
}

pub(super) fn asked(app: &mut App, id: RequestId, method: &str, params: &RawValue) {
    if app.asks.is_open(&id) {
        return;
    }
    let about = serde_json::from_str::<About<'_>>(params.get()).unwrap_or_default();
    let own = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
    let params = serde_json::from_str::<Value>(params.get()).unwrap_or_default();
    let item = own(about.item_id).or_else(|| ask::item_of_call(&params).map(str::to_owned));
    let subject = Subject { thread: own(about.thread_id), turn: own(about.turn_id), item };
    let open = subject.item.as_ref().and_then(|id| app.session.open.iter().find(|it| it.id == *id));
    let context = ask::Context {
        now_ms: app.now,
        last_key_ms: app.writing.last_key(),
        is_writing: !app.writing.composer().is_empty(),
        cwd: app.cwd(),
        item: open.map(|open| open.running.item()),
    };
    match Ask::new(method, params, context) {
        Ok(ask) => {
            app.notify("approval-requested", "The agent is waiting for your answer");
            app.asks.push_question(id, subject, ask);
        }
        Err(answer) => {
            app.print([answer.summary, Line::default()]);
            app.output.emit(Effect::Respond { id, outcome: answer.reply });
        }
    }
}

pub(super) fn resolved(app: &mut App, id: &RequestId) -> bool {
    let Some(words) = app.asks.resolve(id, app.now) else { return false };
    app.writing.type_words(&words);
    app.notice("That question was answered elsewhere, or its turn ended.");
    true
}

/// Offers a key to the question in front. Returns whether there is one.
pub(super) fn question_key(app: &mut App, key: Key) -> bool {
    if !app.asks.has_question() {
        return false;
    }
    if let Some(answered) = app.asks.question_key(key, app.now) {
        carry_out(app, answered);
    }
    true
}

/// Takes the answer of a letter after which nothing was typed.
pub(super) fn settle(app: &mut App) {
    if let Some(answered) = app.asks.question_settled(app.now) {
        carry_out(app, answered);
    }
}

fn carry_out(app: &mut App, answered: Answered) {
    let Answered { id, subject, answer, words } = answered;
    app.writing.type_words(&words);
    if let Some(address) = answer.open {
        app.output.emit(Effect::Browse(address));
    }
    // The answers are printed with the questions, when these are complete.
    if !is_printed_with_item(app, &subject) {
        app.print(answer.summary.wrapped(app.output.columns(), &Line::plain("  ")));
        app.print([Line::default()]);
    }
    match answer.follow_up {
        FollowUp::None => respond(app, id, answer.reply),
        FollowUp::Instruct(text) => instruct(app, &subject, text, id, answer.reply),
        FollowUp::StopTurn => {
            respond(app, id, answer.reply);
            stop(app, &subject);
        }
        FollowUp::AllowEdits => {
            respond(app, id, answer.reply);
            if subject.thread.as_ref().is_some_and(|thread| app.is_shown(thread)) {
                access::allow_edits(app);
            }
        }
    }
}

fn is_printed_with_item(app: &App, subject: &Subject) -> bool {
    let is_it = |open: &&Open| Some(&open.id) == subject.item.as_ref();
    let open = app.session.open.iter().find(is_it);
    open.is_some_and(|open| cells::asks_user(open.running.item()))
}

fn respond(app: &mut App, id: RequestId, outcome: Result<Value, ErrorObject>) {
    app.output.emit(Effect::Respond { id, outcome });
}

/// Tells the agent what to do instead. The refusal is sent when the turn has the text: the model sees both
/// at once. A turn that takes no text any longer gets the refusal, and the text is a message of its own.
fn instruct(
    app: &mut App,
    subject: &Subject,
    text: String,
    id: RequestId,
    outcome: Result<Value, ErrorObject>,
) {
    let (Some(thread), Some(turn)) = (subject.thread.clone(), subject.turn.clone()) else {
        respond(app, id, outcome);
        return app.writing.type_words(&text);
    };
    let draft = Draft::plain(text);
    if app.is_shown(&thread) {
        return messages::steer(app, draft, turn, move |app| respond(app, id, outcome));
    }
    let params = TurnSteerParams {
        thread_id: thread,
        input: draft.inputs(),
        expected_turn_id: turn,
        responsesapi_client_metadata: None,
    };
    app.call::<protocol::TurnSteer>(&params, move |app, result| {
        respond(app, id, outcome);
        if let Err(error) = result {
            app.error(&format!("The agent did not get your instructions: {}", error.message));
        }
    });
}

/// Interrupts the turn that asked.
fn stop(app: &mut App, subject: &Subject) {
    let (Some(thread_id), Some(turn_id)) = (subject.thread.clone(), subject.turn.clone()) else {
        return;
    };
    if app.is_shown(&thread_id) && app.session.turn_id() == Some(&turn_id) {
        return messages::interrupt(app);
    }
    let params = TurnInterruptParams { thread_id, turn_id };
    app.call_or_report::<protocol::TurnInterrupt>(&params, "The turn was not interrupted");
}
