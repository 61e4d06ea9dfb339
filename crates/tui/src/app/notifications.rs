//! Notifications of the server.

use jsonrpc::{ErrorObject, Notification};
use protocol::{ErrorNotification, Turn, TurnStatus, WarningNotification};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::program::App;
use crate::app::{
    login, mcp, messages, notices, plan, printing, questions, queueing, reading, transcript, trust,
};
use crate::cells::{self, Delta};
use crate::link::{Arrival, Tag};
use crate::session::Retry;

pub(super) fn answered(app: &mut App, tag: Tag, result: Result<Value, ErrorObject>) {
    if let Some(then) = app.server.answered(tag) {
        then(app, result);
    }
}

/// Takes what came from the server; returns whether the frame may have changed.
pub(super) fn arrived(app: &mut App, arrival: Arrival) -> bool {
    match arrival {
        Arrival::Answer { tag, result } => answered(app, tag, result),
        Arrival::Request { id, method, params } => questions::asked(app, id, &method, &params),
        Arrival::Notification { method, params } => return notified(app, &method, &params),
        // The loop gives it as an event of its own.
        Arrival::Lost(_) => {}
    }
    true
}

fn notified(app: &mut App, method: &str, params: &RawValue) -> bool {
    let notified = route(app, method, params);
    notified.unwrap_or_else(|error| {
        tracing::warn!(target: "tui", "`{method}` cannot be read: {error}");
        false
    })
}

fn route(app: &mut App, method: &str, params: &RawValue) -> serde_json::Result<bool> {
    if let Some(delta) = Delta::read(method, params)? {
        return Ok(reading::read_delta(app, &delta) | transcript::delta(app, &delta));
    }
    match method {
        protocol::ItemStarted::NAME => {
            let it = read::<protocol::ItemStarted>(params)?;
            let is_read = reading::read_item(app, &it.thread_id, &it.item);
            Ok((app.is_shown(&it.thread_id)
                && transcript::item_started(app, &it.item, &it.turn_id))
                || is_read)
        }
        protocol::ItemCompleted::NAME => {
            let it = read::<protocol::ItemCompleted>(params)?;
            let is_read = reading::read_item(app, &it.thread_id, &it.item);
            Ok((app.is_shown(&it.thread_id)
                && transcript::item_completed(app, &it.item, &it.turn_id))
                || is_read)
        }
        protocol::TurnStarted::NAME => {
            let it = read::<protocol::TurnStarted>(params)?;
            Ok(app.is_shown(&it.thread_id) && transcript::turn_started(app, &it.turn))
        }
        protocol::TurnCompleted::NAME => {
            let it = read::<protocol::TurnCompleted>(params)?;
            Ok(app.is_shown(&it.thread_id) && turn_completed(app, &it.turn))
        }
        protocol::TurnErrorEvent::NAME => {
            let it = read::<protocol::TurnErrorEvent>(params)?;
            Ok(app.is_shown(&it.thread_id) && turn_error(app, &it))
        }
        _ => route_rest(app, method, params),
    }
}

fn route_rest(app: &mut App, method: &str, params: &RawValue) -> serde_json::Result<bool> {
    match method {
        protocol::TurnPlanUpdated::NAME => {
            let it = read::<protocol::TurnPlanUpdated>(params)?;
            if !app.is_shown(&it.thread_id) {
                return Ok(false);
            }
            printing::take_plan(app, it.explanation, it.plan);
        }
        protocol::TurnDiffUpdated::NAME => {
            let it = read::<protocol::TurnDiffUpdated>(params)?;
            if app.is_shown(&it.thread_id) {
                app.session.diff = it.diff;
            }
            return Ok(false);
        }
        protocol::ThreadTokenUsageUpdated::NAME => {
            let it = read::<protocol::ThreadTokenUsageUpdated>(params)?;
            if !app.is_shown(&it.thread_id) {
                return Ok(false);
            }
            app.session.usage = Some(it.token_usage);
        }
        protocol::ThreadNameUpdated::NAME => {
            let it = read::<protocol::ThreadNameUpdated>(params)?;
            if !app.is_shown(&it.thread_id) {
                return Ok(false);
            }
            app.session.name = it.thread_name;
        }
        protocol::ThreadQueueChanged::NAME => {
            let it = read::<protocol::ThreadQueueChanged>(params)?;
            if !app.is_shown(&it.thread_id) {
                return Ok(false);
            }
            queueing::changed(app, it);
        }
        protocol::ServerRequestResolved::NAME => {
            let it = read::<protocol::ServerRequestResolved>(params)?;
            return Ok(questions::resolved(app, &it.request_id));
        }
        protocol::Warning::NAME => {
            let WarningNotification { message, thread_id } = read::<protocol::Warning>(params)?;
            if thread_id.is_some_and(|id| !app.is_shown(&id)) {
                return Ok(false);
            }
            app.warning(&message);
        }
        protocol::GuardianWarning::NAME => {
            let it = read::<protocol::GuardianWarning>(params)?;
            app.warning(&it.message);
        }
        protocol::ConfigWarning::NAME => {
            let it = read::<protocol::ConfigWarning>(params)?;
            trust::config_warning(app, it);
        }
        protocol::DeprecationNotice::NAME => {
            let it = read::<protocol::DeprecationNotice>(params)?;
            let details = it.details.map(|text| format!("\n{text}")).unwrap_or_default();
            app.info(&format!("{}{details}", it.summary));
        }
        _ => return route_account(app, method, params),
    }
    Ok(true)
}

fn route_account(app: &mut App, method: &str, params: &RawValue) -> serde_json::Result<bool> {
    match method {
        protocol::AccountLoginCompleted::NAME => {
            let it = read::<protocol::AccountLoginCompleted>(params)?;
            Ok(login::login_completed(app, it))
        }
        protocol::AccountUpdated::NAME => {
            let it = read::<protocol::AccountUpdated>(params)?;
            Ok(login::account_updated(app, it.auth_mode.is_some()))
        }
        protocol::AccountRateLimitsUpdated::NAME => {
            let it = read::<protocol::AccountRateLimitsUpdated>(params)?;
            Ok(notices::limits_updated(app, it.rate_limits))
        }
        protocol::McpServerStartupStatusUpdated::NAME => {
            let it = read::<protocol::McpServerStartupStatusUpdated>(params)?;
            mcp::mcp_server_status(app, it);
            Ok(true)
        }
        protocol::McpServerOauthLoginCompleted::NAME => {
            let it = read::<protocol::McpServerOauthLoginCompleted>(params)?;
            mcp::mcp_login_completed(app, it);
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn turn_completed(app: &mut App, turn: &Turn) -> bool {
    transcript::end_texts(app, &turn.id);
    transcript::decide_texts(app, &turn.id, false);
    printing::print_finished(app);
    transcript::report_end(app, turn);
    let elapsed = app
        .session
        .turn
        .take()
        .map(|turn| app.now.saturating_sub(turn.started_ms).saturating_add(turn.before_ms));
    app.notify(
        "agent-turn-complete",
        &match elapsed {
            Some(ms) => format!("The turn ended after {}", cells::duration(ms)),
            None => "The turn ended".to_owned(),
        },
    );
    match turn.status {
        TurnStatus::Completed => {
            plan::offer_to_implement(app);
            app.outbox.release_queue();
        }
        _ => messages::give_queue_back(app),
    }
    true
}

fn turn_error(app: &mut App, it: &ErrorNotification) -> bool {
    // The end of the turn says it again.
    if !it.will_retry {
        return false;
    }
    transcript::decide_texts(app, &it.turn_id, true);
    let turn = app.session.turn.as_mut();
    if turn.is_some_and(|turn| std::mem::take(&mut turn.has_message)) {
        // The message counts, and the model may say the same again.
        printing::print_finished(app);
        app.info("The response broke off after this message. The model continues.");
    }
    if let Some(turn) = &mut app.session.turn {
        turn.retry = Some(Retry {
            reason: it.error.message.clone(),
            attempt: it.retry.map(|retry| (retry.attempt, retry.max_attempts)),
            begins_ms: it.retry.map(|retry| app.now.saturating_add(retry.wait_ms)),
            wait_ms: it.retry.map_or(0, |retry| retry.wait_ms),
        });
    }
    true
}

fn read<N>(params: &RawValue) -> serde_json::Result<N::Params>
where
    N: Notification,
    N::Params: serde::de::DeserializeOwned,
{
    serde_json::from_str(params.get())
}
