//! Notifications of the server.

use std::borrow::Cow;

use jsonrpc::{Notification, RequestId};
use protocol::{ErrorNotification, ThreadItem, Turn, TurnStatus, WarningNotification};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::app::{App, Effect, Question};
use crate::ask::{self, Ask};
use crate::cells::{self, Delta, Running};
use crate::link::Arrival;
use crate::session::{ActiveTurn, Open};
use crate::text::Line;

/// The item that a question is about.
#[derive(Deserialize)]
struct About<'m> {
    #[serde(borrow, rename = "itemId")]
    item_id: Option<Cow<'m, str>>,
}

impl App {
    /// Takes what came from the server; returns whether the frame may have changed.
    pub(super) fn arrived(&mut self, arrival: Arrival) -> bool {
        match arrival {
            Arrival::Answer { tag, result } => self.answered(tag, result),
            Arrival::Request { id, method, params } => self.asked(id, &method, &params),
            Arrival::Notification { method, params } => return self.notified(&method, &params),
            // The loop gives it as an event of its own.
            Arrival::Lost(_) => {}
        }
        true
    }

    fn notified(&mut self, method: &str, params: &RawValue) -> bool {
        let notified = self.route(method, params);
        notified.unwrap_or_else(|error| {
            tracing::warn!(target: "tui", "`{method}` cannot be read: {error}");
            false
        })
    }

    fn route(&mut self, method: &str, params: &RawValue) -> serde_json::Result<bool> {
        if let Some(delta) = Delta::read(method, params)? {
            return Ok(self.read_delta(&delta) | self.delta(&delta));
        }
        match method {
            protocol::ItemStarted::NAME => {
                let it = read::<protocol::ItemStarted>(params)?;
                let is_read = self.read_item(&it.thread_id, &it.item);
                Ok((self.is_shown(&it.thread_id) && self.item_started(&it.item, &it.turn_id))
                    || is_read)
            }
            protocol::ItemCompleted::NAME => {
                let it = read::<protocol::ItemCompleted>(params)?;
                let is_read = self.read_item(&it.thread_id, &it.item);
                Ok((self.is_shown(&it.thread_id) && self.item_completed(&it.item, &it.turn_id))
                    || is_read)
            }
            protocol::TurnStarted::NAME => {
                let it = read::<protocol::TurnStarted>(params)?;
                Ok(self.is_shown(&it.thread_id) && self.turn_started(&it.turn))
            }
            protocol::TurnCompleted::NAME => {
                let it = read::<protocol::TurnCompleted>(params)?;
                Ok(self.is_shown(&it.thread_id) && self.turn_completed(&it.turn))
            }
            protocol::TurnErrorEvent::NAME => {
                let it = read::<protocol::TurnErrorEvent>(params)?;
                Ok(self.is_shown(&it.thread_id) && self.turn_error(&it))
            }
            _ => self.route_rest(method, params),
        }
    }

    fn route_rest(&mut self, method: &str, params: &RawValue) -> serde_json::Result<bool> {
        match method {
            protocol::TurnPlanUpdated::NAME => {
                let it = read::<protocol::TurnPlanUpdated>(params)?;
                if !self.is_shown(&it.thread_id) {
                    return Ok(false);
                }
                self.session.plan = it.plan;
            }
            protocol::TurnDiffUpdated::NAME => {
                let it = read::<protocol::TurnDiffUpdated>(params)?;
                if self.is_shown(&it.thread_id) {
                    self.session.diff = it.diff;
                }
                return Ok(false);
            }
            protocol::ThreadTokenUsageUpdated::NAME => {
                let it = read::<protocol::ThreadTokenUsageUpdated>(params)?;
                if !self.is_shown(&it.thread_id) {
                    return Ok(false);
                }
                self.session.usage = Some(it.token_usage);
            }
            protocol::ThreadNameUpdated::NAME => {
                let it = read::<protocol::ThreadNameUpdated>(params)?;
                if !self.is_shown(&it.thread_id) {
                    return Ok(false);
                }
                self.session.name = it.thread_name;
            }
            protocol::ServerRequestResolved::NAME => {
                let it = read::<protocol::ServerRequestResolved>(params)?;
                return Ok(self.resolved(&it.request_id));
            }
            protocol::Warning::NAME => {
                let WarningNotification { message, thread_id } = read::<protocol::Warning>(params)?;
                if thread_id.is_some_and(|id| !self.is_shown(&id)) {
                    return Ok(false);
                }
                self.warning(&message);
            }
            protocol::GuardianWarning::NAME => {
                let it = read::<protocol::GuardianWarning>(params)?;
                self.warning(&it.message);
            }
            protocol::ConfigWarning::NAME => {
                let it = read::<protocol::ConfigWarning>(params)?;
                self.config_warning(it);
            }
            protocol::DeprecationNotice::NAME => {
                let it = read::<protocol::DeprecationNotice>(params)?;
                let details = it.details.map(|text| format!("\n{text}")).unwrap_or_default();
                self.info(&format!("{}{details}", it.summary));
            }
            _ => return self.route_account(method, params),
        }
        Ok(true)
    }

    fn route_account(&mut self, method: &str, params: &RawValue) -> serde_json::Result<bool> {
        match method {
            protocol::AccountLoginCompleted::NAME => {
                let it = read::<protocol::AccountLoginCompleted>(params)?;
                Ok(self.login_completed(it))
            }
            protocol::AccountUpdated::NAME => {
                let it = read::<protocol::AccountUpdated>(params)?;
                Ok(self.account_updated(it.auth_mode.is_some()))
            }
            protocol::AccountRateLimitsUpdated::NAME => {
                let it = read::<protocol::AccountRateLimitsUpdated>(params)?;
                Ok(self.limits_updated(it.rate_limits))
            }
            protocol::McpServerOauthLoginCompleted::NAME => {
                let it = read::<protocol::McpServerOauthLoginCompleted>(params)?;
                self.mcp_login_completed(it);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn is_shown(&self, thread: &str) -> bool {
        self.session.id.as_deref() == Some(thread)
    }

    fn delta(&mut self, delta: &Delta) -> bool {
        if !self.is_shown(delta.thread_id()) {
            return false;
        }
        let Some(open) = self.session.open(delta.item_id()) else { return false };
        open.running.delta(delta);
        true
    }

    pub(super) fn item_started(&mut self, item: &ThreadItem, turn_id: &str) -> bool {
        let id = cells::item_id(item);
        if self.session.printed.contains(id) {
            return false;
        }
        if let Some(open) = self.session.open(id) {
            open.is_confirmed = true;
            if !open.is_complete {
                open.running.catch_up(item);
            }
            return true;
        }
        // A request that failed is followed by another one.
        self.decide_texts(turn_id, true);
        self.session.open.push(Open {
            id: id.to_owned(),
            turn_id: turn_id.to_owned(),
            started_ms: self.now,
            running: Running::start(item),
            is_complete: false,
            is_undecided: false,
            is_confirmed: true,
        });
        true
    }

    pub(super) fn item_completed(&mut self, item: &ThreadItem, turn_id: &str) -> bool {
        match item {
            ThreadItem::CollabToolCall(call) => {
                self.session.agents.extend(call.agents_states.clone());
            }
            ThreadItem::AgentMessage(message) => self.session.answer = Some(message.text.clone()),
            ThreadItem::UserMessage(message) => self.received(message),
            _ => {}
        }
        self.item_started(item, turn_id);
        let Some(open) = self.session.open(cells::item_id(item)) else { return false };
        if open.is_complete {
            return false;
        }
        open.running.complete(item);
        open.is_complete = true;
        open.is_undecided = item.cut_off().is_some();
        if let Some(turn) = &mut self.session.turn {
            let is_whole = item.cut_off().is_none();
            turn.has_message = matches!(item, ThreadItem::AgentMessage(_)) && is_whole;
        }
        self.session.has_turns = true;
        true
    }

    /// The texts of the turn that were cut off stay where they are, or are those of an attempt: the model is
    /// asked again, and its next response takes their place.
    pub(super) fn decide_texts(&mut self, turn_id: &str, is_attempt: bool) {
        let texts = self.session.open.iter_mut().filter(|open| open.is_undecided);
        for open in texts.filter(|open| open.turn_id == turn_id) {
            open.is_undecided = false;
            if is_attempt {
                open.running.replace();
            }
        }
    }

    /// Prints what can be: finished items, and the finished part of a text that is being written. While
    /// such a text stands half in the terminal, others wait, so that it stays in one piece; and what began
    /// after a text comes after it, as in the thread.
    pub(super) fn print_finished(&mut self) {
        if self.session.is_loading {
            return;
        }
        let context = self.context();
        let mut open = std::mem::take(&mut self.session.open);
        let is_open = |open: &Open| !open.is_complete || open.is_undecided;
        let is_streaming = |open: &Open| open.running.is_text() && open.running.has_begun();
        if let Some(at) = open.iter().position(|it| is_open(it) && is_streaming(it)) {
            if !open[at].is_undecided {
                let lines = open[at].running.finished(&context);
                self.printed.extend(lines);
            }
            self.session.open = open;
            return;
        }
        // One that is complete and half printed comes before the others.
        open.sort_by_key(|it| !(it.is_complete && it.running.has_begun()));
        let mut waits = false;
        open.retain_mut(|it| {
            waits |= is_open(it) && it.running.is_text();
            if waits || is_open(it) {
                return true;
            }
            let lines = it.running.finished(&context);
            if !lines.is_empty() {
                self.printed.extend(lines);
                self.printed.push(Line::default());
            }
            self.session.printed.insert(std::mem::take(&mut it.id));
            false
        });
        let is_text = |it: &&mut Open| it.running.is_text() && !it.is_undecided;
        if let Some(text) = open.iter_mut().find(is_text) {
            let lines = text.running.finished(&context);
            self.printed.extend(lines);
        }
        self.session.open = open;
    }

    pub(super) fn turn_started(&mut self, turn: &Turn) -> bool {
        let before = self.session.turn.as_ref();
        let (started_ms, before_ms) =
            before.map_or((self.now, 0), |turn| (turn.started_ms, turn.before_ms));
        self.session.turn = Some(ActiveTurn {
            id: Some(turn.id.clone()),
            started_ms,
            before_ms,
            retry: None,
            has_message: false,
            is_interrupting: false,
        });
        self.session.has_turns = true;
        self.session.plan.clear();
        self.session.diff.clear();
        true
    }

    fn turn_completed(&mut self, turn: &Turn) -> bool {
        self.end_texts(&turn.id);
        self.decide_texts(&turn.id, false);
        self.print_finished();
        self.report_end(turn);
        let elapsed =
            self.session.turn.take().map(|turn| {
                self.now.saturating_sub(turn.started_ms).saturating_add(turn.before_ms)
            });
        self.notify(
            "agent-turn-complete",
            &match elapsed {
                Some(ms) => format!("The turn ended after {}", cells::duration(ms)),
                None => "The turn ended".to_owned(),
            },
        );
        match turn.status {
            TurnStatus::Completed => self.next_queued(),
            _ => self.give_queue_back(),
        }
        true
    }

    fn turn_error(&mut self, it: &ErrorNotification) -> bool {
        // The end of the turn says it again.
        if !it.will_retry {
            return false;
        }
        self.decide_texts(&it.turn_id, true);
        let turn = self.session.turn.as_mut();
        if turn.is_some_and(|turn| std::mem::take(&mut turn.has_message)) {
            // The message counts, and the model may say the same again.
            self.print_finished();
            self.info("The response broke off after this message: the model is asked to continue.");
        }
        if let Some(turn) = &mut self.session.turn {
            let attempt = it
                .retry
                .map(|retry| format!(" (attempt {} of {})", retry.attempt, retry.max_attempts));
            turn.retry = Some(format!("{}{}", it.error.message, attempt.unwrap_or_default()));
        }
        true
    }

    fn asked(&mut self, id: RequestId, method: &str, params: &RawValue) {
        if self.questions.iter().any(|question| question.id == id) {
            return;
        }
        let about = serde_json::from_str::<About<'_>>(params.get()).ok();
        let item_id = about.and_then(|about| about.item_id);
        let item = item_id.and_then(|id| self.session.open.iter().find(|it| *it.id == *id));
        let item = item.map(|open| open.running.item());
        let params = serde_json::from_str::<Value>(params.get()).unwrap_or_default();
        let context = ask::Context { now_ms: self.now, last_key_ms: self.last_key, item };
        match Ask::new(method, params, context) {
            Ok(ask) => {
                self.notify("approval-requested", "The agent waits for your answer");
                self.questions.push_back(Question { id, ask });
            }
            Err(answer) => {
                self.print([answer.summary, Line::default()]);
                self.effects.push_back(Effect::Respond { id, outcome: answer.reply });
            }
        }
    }

    fn resolved(&mut self, id: &RequestId) -> bool {
        let before = self.questions.len();
        self.questions.retain(|question| question.id != *id);
        let is_gone = self.questions.len() != before;
        if is_gone {
            if let Some(next) = self.questions.front_mut() {
                next.ask.comes_to_front(self.now);
            }
            self.notice("That question was answered elsewhere, or its turn ended.");
        }
        is_gone
    }
}

fn read<N>(params: &RawValue) -> serde_json::Result<N::Params>
where
    N: Notification,
    N::Params: serde::de::DeserializeOwned,
{
    serde_json::from_str(params.get())
}
