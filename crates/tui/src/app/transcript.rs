//! The items of the thread as they come, and how its turns end.

use protocol::{AgentErrorInfo, ThreadItem, Turn, TurnStatus, UserInput, UserMessageItem};

use crate::app::printing;
use crate::app::program::App;
use crate::cells::{Delta, Running};
use crate::palette::Palette;
use crate::session::{ActiveTurn, Open};

/// The texts of a turn that has ended are complete, whatever the server said of them.
pub(super) fn end_texts(app: &mut App, turn_id: &str) {
    let texts = app.session.open.iter_mut().filter(|open| open.running.is_text());
    for open in texts.filter(|open| open.turn_id == turn_id && !open.is_complete) {
        open.running.end();
        open.is_complete = true;
    }
}

/// Says once how a turn ended that did not end as it should.
pub(super) fn report_end(app: &mut App, turn: &Turn) {
    app.print_explored();
    if !app.session.ended.insert(turn.id.clone()) {
        return;
    }
    let took = printing::duration(app, turn);
    match turn.status {
        TurnStatus::Failed => {
            if let Some(took) = took {
                printing::print_end(app, format!("· The turn failed after {took}."));
            }
            let error = turn.error.as_ref();
            let message = error.map_or("the turn failed", |error| error.message.as_str());
            let details = error.and_then(|error| error.additional_details.as_deref());
            let text = details.map_or(message.to_owned(), |more| format!("{message}\n{more}"));
            app.error(&text);
            if error.is_some_and(|it| it.agent_error_info == Some(AgentErrorInfo::Unauthorized)) {
                app.info("/login chooses another account, key or model.");
            }
        }
        TurnStatus::Interrupted => {
            let after = took.map(|took| format!(" after {took}")).unwrap_or_default();
            app.output.message("■ ", Palette::QUIET, &format!("Interrupted{after}."));
        }
        TurnStatus::Completed | TurnStatus::InProgress => {
            // It ended as it should while there was no connection.
            if app.session.left.as_ref() == Some(&turn.id) {
                app.session.left = None;
            }
            if let Some(took) = took {
                printing::print_end(app, format!("· Worked for {took}"));
            }
        }
    }
}

pub(super) fn delta(app: &mut App, delta: &Delta) -> bool {
    if !app.is_shown(delta.thread_id()) {
        return false;
    }
    let Some(open) = app.session.open(delta.item_id()) else { return false };
    open.running.delta(delta);
    true
}

pub(super) fn item_started(app: &mut App, item: &ThreadItem, turn_id: &str) -> bool {
    let id = item.id();
    if app.session.printed.contains(id) {
        return false;
    }
    if let Some(open) = app.session.open(id) {
        open.is_confirmed = true;
        if !open.is_complete {
            open.running.catch_up(item);
        }
        return true;
    }
    app.session.has_worked |= printing::is_work(item);
    // A request that failed is followed by another one.
    decide_texts(app, turn_id, true);
    if let Some(turn) = &mut app.session.turn
        && !matches!(item, ThreadItem::UserMessage(_))
    {
        turn.retry = None;
    }
    app.session.open.push(Open {
        id: id.to_owned(),
        turn_id: turn_id.to_owned(),
        started_ms: app.now,
        running: Running::start(item),
        is_complete: false,
        is_undecided: false,
        is_confirmed: true,
    });
    true
}

pub(super) fn item_completed(app: &mut App, item: &ThreadItem, turn_id: &str) -> bool {
    match item {
        ThreadItem::CollabToolCall(call) => {
            app.session.agents.extend(call.agents_states.clone());
        }
        ThreadItem::AgentMessage(message) => app.session.answer = Some(message.text.clone()),
        ThreadItem::UserMessage(message) => received(app, message),
        ThreadItem::Plan(_) if app.session.turn_id() == Some(turn_id) => {
            app.session.has_proposed = true;
        }
        _ => {}
    }
    item_started(app, item, turn_id);
    let Some(open) = app.session.open(item.id()) else { return false };
    if open.is_complete {
        return false;
    }
    open.running.complete(item);
    open.is_complete = true;
    open.is_undecided = item.cut_off().is_some();
    if let Some(turn) = &mut app.session.turn {
        let is_whole = item.cut_off().is_none();
        turn.has_message = matches!(item, ThreadItem::AgentMessage(_)) && is_whole;
    }
    app.session.has_turns = true;
    true
}

/// The texts of the turn that were cut off stay where they are, or are those of an attempt: the model is
/// asked again, and its next response takes their place.
pub(super) fn decide_texts(app: &mut App, turn_id: &str, is_attempt: bool) {
    let texts = app.session.open.iter_mut().filter(|open| open.is_undecided);
    for open in texts.filter(|open| open.turn_id == turn_id) {
        open.is_undecided = false;
        if is_attempt {
            open.running.replace();
        }
    }
}

pub(super) fn turn_started(app: &mut App, turn: &Turn) -> bool {
    let before = app.session.turn.as_ref();
    let (started_ms, before_ms) =
        before.map_or((app.now, 0), |turn| (turn.started_ms, turn.before_ms));
    app.session.turn = Some(ActiveTurn {
        id: Some(turn.id.clone()),
        started_ms,
        before_ms,
        retry: None,
        has_message: false,
        is_interrupting: false,
    });
    app.session.has_turns = true;
    app.session.plan.clear();
    app.session.has_proposed = false;
    app.session.has_worked = false;
    app.session.diff.clear();
    true
}

/// The server has this message.
fn received(app: &mut App, message: &UserMessageItem) {
    let text = message.content.iter().find_map(|input| match input {
        UserInput::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    // The same words from earlier are printed already.
    if app.session.printed.contains(&message.id) {
        return;
    }
    app.outbox.sent_mut().received(text.unwrap_or_default());
}
