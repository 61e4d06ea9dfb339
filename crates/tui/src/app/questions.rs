//! The questions of the server: approvals, permissions, forms.

use std::borrow::Cow;

use jsonrpc::RequestId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::events::Effect;
use crate::app::program::App;
use crate::ask::{self, Answer, Ask};
use crate::terminal::input::Key;
use crate::text::Line;

/// The item that a question is about.
#[derive(Deserialize)]
struct About<'m> {
    #[serde(borrow, rename = "itemId")]
    item_id: Option<Cow<'m, str>>,
}

pub(super) fn asked(app: &mut App, id: RequestId, method: &str, params: &RawValue) {
    if app.asks.is_open(&id) {
        return;
    }
    let about = serde_json::from_str::<About<'_>>(params.get()).ok();
    let item_id = about.and_then(|about| about.item_id);
    let item = item_id.and_then(|id| app.session.open.iter().find(|it| *it.id == *id));
    let item = item.map(|open| open.running.item());
    let params = serde_json::from_str::<Value>(params.get()).unwrap_or_default();
    let context = ask::Context { now_ms: app.now, last_key_ms: app.writing.last_key(), item };
    match Ask::new(method, params, context) {
        Ok(ask) => {
            app.notify("approval-requested", "The agent waits for your answer");
            app.asks.push_question(id, ask);
        }
        Err(answer) => {
            app.print([answer.summary, Line::default()]);
            app.output.emit(Effect::Respond { id, outcome: answer.reply });
        }
    }
}

pub(super) fn resolved(app: &mut App, id: &RequestId) -> bool {
    let was_open = app.asks.resolve(id, app.now);
    if was_open {
        app.notice("That question was answered elsewhere, or its turn ended.");
    }
    was_open
}

/// Offers a key to the question in front. Returns whether there is one.
pub(super) fn question_key(app: &mut App, key: Key) -> bool {
    if !app.asks.has_question() {
        return false;
    }
    if let Some((id, answer)) = app.asks.question_key(key, app.now) {
        answered(app, id, answer);
    }
    true
}

fn answered(app: &mut App, id: RequestId, answer: Answer) {
    app.output.emit(Effect::Respond { id, outcome: answer.reply });
    if let Some(address) = answer.open {
        app.output.emit(Effect::Browse(address));
    }
    app.print(answer.summary.wrapped(app.output.columns(), &Line::plain("  ")));
    app.print([Line::default()]);
}
