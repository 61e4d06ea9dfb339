//! Sends the session's events to the subscribers. A delta uses a frame that is built once a stream, so
//! that a piece of text costs its escaping and a push.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jsonrpc::{DeltaFrame, Notification};
use protocol::MessageInfo;
use protocol::item_event as item_wire;
use protocol::thread_record as record;
use protocol::turn as wire;
use serde_json::value::RawValue;
use session::{ApprovalReview, Event, Id, Item, ModelNotice, PlanStep, Verification};

use crate::thread::event_log::{EventSubject, ItemPhase};
use crate::thread::subscribers::Subscribers;
use services::convert::event::{self, DeltaParams, ItemCompleted, ItemStarted};
use services::convert::{auto_review, item};
use services::peer::Peer;

/// Sends the events of one thread.
pub(crate) struct EventSender {
    thread: Id,
    usage: UsageContext,
    frames: HashMap<FrameKey, Stream>,
    /// The stream used last, as a cache: streams seldom alternate.
    last: Option<(FrameKey, Stream)>,
}

/// The values of a token report besides the tokens of a response.
#[derive(Clone, Copy, Default)]
struct UsageContext {
    window: Option<i64>,
    tokens_with_agents: Option<i64>,
    cost_with_agents: Option<Option<i64>>,
}

/// Deltas of one kind about one item.
#[derive(Clone)]
struct Stream {
    info: &'static MessageInfo,
    frame: DeltaFrame,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct FrameKey {
    method: &'static str,
    item: Id,
    index: usize,
}

/// A delta of any kind.
struct Delta<'a> {
    method: &'static str,
    turn: &'a Id,
    item: &'a Id,
    summary_index: Option<usize>,
    content_index: Option<usize>,
    member: &'static str,
    text: &'a str,
}

impl EventSender {
    /// Sets the model's context window.
    pub(crate) fn set_context_window(&mut self, window: Option<i64>) {
        self.usage.window = window;
    }

    /// Sets what the running turn and its agents used together.
    pub(crate) fn set_tokens_with_agents(&mut self, tokens: Option<i64>) {
        self.usage.tokens_with_agents = tokens;
    }

    /// Sets what they cost together.
    pub(crate) fn set_cost_with_agents(&mut self, cost: Option<Option<i64>>) {
        self.usage.cost_with_agents = cost;
    }

    pub(crate) fn new(thread: Id, window: Option<i64>) -> Self {
        let usage = UsageContext { window, ..UsageContext::default() };
        Self { thread, usage, frames: HashMap::new(), last: None }
    }

    /// Sends one client the latest plan or use of tokens, which no item of a turn contains.
    pub(crate) fn send_latest(&self, peer: &Peer, event: &Event) {
        let thread_id = self.thread.to_string();
        match event {
            Event::PlanUpdated { turn, explanation, plan } => {
                let params = plan_params(thread_id, turn, explanation.as_deref(), plan);
                peer.notify::<protocol::TurnPlanUpdated>(&params);
            }
            Event::TokenUsage { turn, total, last, cost } => {
                let UsageContext { window, tokens_with_agents, cost_with_agents } = self.usage;
                let mut token_usage = event::usage(*total, *last, window, tokens_with_agents);
                if peer.wants_token_cost() {
                    token_usage.cost = Some(event::cost(*cost, cost_with_agents));
                }
                let turn_id = turn.to_string();
                let params =
                    record::ThreadTokenUsageUpdatedNotification { thread_id, turn_id, token_usage };
                peer.notify::<protocol::ThreadTokenUsageUpdated>(&params);
            }
            _ => {}
        }
    }

    /// Sends one event; `json` is the item of an item event.
    pub(crate) fn send(&mut self, to: &mut Subscribers, event: &Event, json: Option<&RawValue>) {
        if let Some(delta) = delta(event) {
            return self.send_delta(to, &delta);
        }
        let thread_id = self.thread.to_string();
        match event {
            Event::StatusChanged(status) => {
                let status = event::status(*status);
                let params = record::ThreadStatusChangedNotification { thread_id, status };
                to.notify::<protocol::ThreadStatusChanged>(&params);
            }
            Event::TurnStarted(view) => {
                let turn = event::turn(view);
                let params = wire::TurnStartedNotification { thread_id, turn };
                let subject = EventSubject { turn: Some(&view.id), item: None };
                to.notify_about::<protocol::TurnStarted>(&params, subject);
            }
            Event::TurnCompleted(view) => {
                let turn = event::turn(view);
                let params = wire::TurnCompletedNotification { thread_id, turn };
                to.notify::<protocol::TurnCompleted>(&params);
            }
            Event::ItemStarted { .. } | Event::ItemCompleted { .. } => {
                self.send_item(to, event, json);
            }
            Event::PlanUpdated { .. }
            | Event::DiffUpdated { .. }
            | Event::TokenUsage { .. }
            | Event::ModelNotice { .. }
            | Event::Error { .. } => send_progress(to, thread_id, self.usage, event),
            Event::SummaryPartAdded { turn, item, index } => {
                let params = item_wire::ReasoningSummaryPartAddedNotification {
                    thread_id,
                    turn_id: turn.to_string(),
                    item_id: item.to_string(),
                    summary_index: i64::try_from(*index).unwrap_or(i64::MAX),
                };
                to.notify::<protocol::ItemReasoningSummaryPartAdded>(&params);
            }
            Event::CommandRuns { turn, item } => send_running(to, thread_id, turn, item),
            Event::TerminalInteraction { turn, item, process, stdin } => {
                let params = item_wire::TerminalInteractionNotification {
                    thread_id,
                    turn_id: turn.to_string(),
                    item_id: item.to_string(),
                    process_id: process.clone(),
                    stdin: stdin.clone(),
                };
                to.notify::<protocol::ItemCommandExecutionTerminalInteraction>(&params);
            }
            Event::CallProgress { turn, item, message } => {
                let params = protocol::item_event::McpToolCallProgressNotification {
                    thread_id,
                    turn_id: turn.to_string(),
                    item_id: item.to_string(),
                    message: message.clone(),
                };
                to.notify::<protocol::ItemMcpToolCallProgress>(&params);
            }
            Event::PatchUpdated { turn, item, changes } => {
                let params = item_wire::FileChangePatchUpdatedNotification {
                    thread_id,
                    turn_id: turn.to_string(),
                    item_id: item.to_string(),
                    changes: changes.iter().map(item::change).collect(),
                };
                let subject = EventSubject { turn: Some(turn), item: None };
                to.notify_about::<protocol::ItemFileChangePatchUpdated>(&params, subject);
            }
            Event::GoalUpdated { turn, goal } => {
                let params = protocol::goal::ThreadGoalUpdatedNotification {
                    goal: event::goal(&thread_id, goal),
                    thread_id,
                    turn_id: turn.as_ref().map(ToString::to_string),
                };
                to.notify::<protocol::ThreadGoalUpdated>(&params);
            }
            Event::GoalCleared => {
                let params = record::ThreadIdNotification { thread_id };
                to.notify::<protocol::ThreadGoalCleared>(&params);
            }
            Event::ApprovalReview(review) => send_review(to, thread_id, review),
            Event::ReviewerWarning { message } => {
                let message = message.clone();
                let params = protocol::guardian::GuardianWarningNotification { thread_id, message };
                to.notify::<protocol::GuardianWarning>(&params);
            }
            // Sent by `Questions`, which knows the request's wire id, and by the broadcast, once a client.
            Event::RequestResolved { .. } | Event::Warning { .. } => {}
            // Sent above.
            Event::MessageDelta { .. }
            | Event::PlanDelta { .. }
            | Event::SummaryDelta { .. }
            | Event::ReasoningDelta { .. }
            | Event::CommandOutput { .. } => {}
        }
    }

    fn send_item(&mut self, to: &mut Subscribers, event: &Event, json: Option<&RawValue>) {
        let (Event::ItemStarted { turn, item, at } | Event::ItemCompleted { turn, item, at }) =
            event
        else {
            return;
        };
        let (made, id) = (json.is_none().then(|| item::json(item)), item.id());
        let Some(json) = json.or(made.as_deref()) else { return };
        let subject = |phase| EventSubject { turn: Some(turn), item: Some((id, phase)) };
        if matches!(event, Event::ItemStarted { .. }) {
            let (thread_id, turn_id, started_at_ms) = (&*self.thread, &**turn, *at);
            let params = ItemStarted { item: json, thread_id, turn_id, started_at_ms };
            to.notify_about::<protocol::ItemStarted>(&params, subject(ItemPhase::Started));
        } else {
            self.forget_frames(item);
            let (thread_id, turn_id, completed_at_ms) = (&*self.thread, &**turn, *at);
            let params = ItemCompleted { item: json, thread_id, turn_id, completed_at_ms };
            to.notify_about::<protocol::ItemCompleted>(&params, subject(ItemPhase::Completed));
        }
        if let (Event::ItemCompleted { .. }, Item::ContextCompaction { reason: None, .. }) =
            (event, item)
        {
            let (thread_id, turn_id) = (self.thread.to_string(), turn.to_string());
            let params = record::ThreadCompactedNotification { thread_id, turn_id };
            to.notify::<protocol::ThreadCompacted>(&params);
        }
    }

    fn send_delta(&mut self, to: &mut Subscribers, delta: &Delta<'_>) {
        if to.has_no_audience() {
            return;
        }
        let index = delta.summary_index.or(delta.content_index).unwrap_or(0);
        let is_last = self.last.as_ref().is_some_and(|(key, _)| {
            key.method == delta.method && key.index == index && key.item == *delta.item
        });
        if !is_last {
            let key = FrameKey { method: delta.method, item: delta.item.clone(), index };
            let Some(info) = protocol::lookup_notification(delta.method) else { return };
            let stream = || Stream { info, frame: frame(&self.thread, delta) };
            let stream = self.frames.entry(key.clone()).or_insert_with(stream).clone();
            self.last = Some((key, stream));
        }
        let Some((_, Stream { info, frame })) = &self.last else { return };
        let subject =
            EventSubject { turn: Some(delta.turn), item: Some((delta.item, ItemPhase::Going)) };
        to.send(info, &frame.delta(delta.text), subject);
    }

    fn forget_frames(&mut self, item: &Item) {
        let id = item.id();
        self.frames.retain(|key, _| key.item != *id);
        if self.last.as_ref().is_some_and(|(key, _)| key.item == *id) {
            self.last = None;
        }
    }
}

/// A command that waited for an approval runs.
fn send_running(to: &mut Subscribers, thread_id: String, turn: &Id, item: &Id) {
    let (turn_id, item_id) = (turn.to_string(), item.to_string());
    let params = item_wire::CommandExecutionRunningNotification { thread_id, turn_id, item_id };
    to.notify::<protocol::ItemCommandExecutionRunning>(&params);
}

/// Sends an event of a turn that is not about an item.
fn send_progress(to: &mut Subscribers, thread_id: String, usage: UsageContext, event: &Event) {
    match event {
        Event::PlanUpdated { turn, explanation, plan } => {
            let params = plan_params(thread_id, turn, explanation.as_deref(), plan);
            let subject = EventSubject { turn: Some(turn), item: None };
            to.notify_about::<protocol::TurnPlanUpdated>(&params, subject);
        }
        Event::DiffUpdated { turn, diff } => {
            let (turn_id, diff) = (turn.to_string(), diff.clone());
            let params = wire::TurnDiffUpdatedNotification { thread_id, turn_id, diff };
            let subject = EventSubject { turn: Some(turn), item: None };
            to.notify_about::<protocol::TurnDiffUpdated>(&params, subject);
        }
        Event::TokenUsage { turn, total, last, cost } => {
            let token_usage = event::usage(*total, *last, usage.window, usage.tokens_with_agents);
            let turn_id = turn.to_string();
            let mut params =
                record::ThreadTokenUsageUpdatedNotification { thread_id, turn_id, token_usage };
            let plain = to.encoded::<protocol::ThreadTokenUsageUpdated>(&params);
            params.token_usage.cost = Some(event::cost(*cost, usage.cost_with_agents));
            let priced = to.encoded::<protocol::ThreadTokenUsageUpdated>(&params);
            if let (Some(plain), Some(priced)) = (plain, priced) {
                to.send_token_usage(&plain, &priced);
            }
        }
        Event::ModelNotice { turn, notice } => send_model_notice(to, thread_id, turn, notice),
        Event::Error { turn, error, retry } => {
            let params = wire::ErrorNotification {
                error: event::turn_error(error),
                will_retry: retry.is_some(),
                retry: retry.map(event::retrying),
                thread_id,
                turn_id: turn.to_string(),
            };
            to.notify::<protocol::TurnErrorEvent>(&params);
        }
        _ => {}
    }
}

fn plan_params(
    thread_id: String,
    turn: &Id,
    explanation: Option<&str>,
    plan: &[PlanStep],
) -> wire::TurnPlanUpdatedNotification {
    wire::TurnPlanUpdatedNotification {
        thread_id,
        turn_id: turn.to_string(),
        explanation: explanation.map(str::to_owned),
        plan: plan.iter().cloned().map(event::plan_step).collect(),
    }
}

/// Sends what the provider says about the model of a turn.
fn send_model_notice(to: &mut Subscribers, thread_id: String, turn: &Id, notice: &ModelNotice) {
    let turn_id = turn.to_string();
    match notice {
        ModelNotice::Rerouted { from, to: other } => {
            let params = protocol::ModelReroutedNotification {
                thread_id,
                turn_id,
                from_model: from.to_string(),
                to_model: other.to_string(),
                // The protocol has no other reason.
                reason: protocol::ModelRerouteReason::HighRiskCyberActivity,
            };
            to.notify::<protocol::ModelRerouted>(&params);
        }
        ModelNotice::Queued { provider, wait, ahead } => {
            let params = protocol::connection::WarningNotification {
                thread_id: Some(thread_id),
                message: queued(provider, *wait, *ahead),
            };
            to.notify::<protocol::Warning>(&params);
        }
        ModelNotice::LeftOut { provider, what } => {
            let message = format!(
                "the API of the model provider `{provider}` cannot carry all of a request or response: {what}. The \
                 thread goes on without it"
            );
            let thread_id = Some(thread_id);
            let params = protocol::connection::WarningNotification { thread_id, message };
            to.notify::<protocol::Warning>(&params);
        }
        ModelNotice::Contradiction { provider, what } => {
            let message = format!(
                "a response of the model provider `{provider}` contradicts itself: {what}; what the \
                 end of the item has counts"
            );
            let thread_id = Some(thread_id);
            let params = protocol::connection::WarningNotification { thread_id, message };
            to.notify::<protocol::Warning>(&params);
        }
        ModelNotice::Verification(verifications) => {
            let verifications = verifications.iter().map(|verification| match verification {
                Verification::TrustedAccessForCyber => {
                    protocol::ModelVerification::TrustedAccessForCyber
                }
            });
            let verifications = verifications.collect();
            let params =
                protocol::ModelVerificationNotification { thread_id, turn_id, verifications };
            to.notify::<protocol::ModelVerificationRequested>(&params);
        }
    }
}

/// The warning about a request that waits for the rate limit.
fn queued(provider: &str, wait: Duration, ahead: usize) -> String {
    let seconds = wait.as_millis().div_ceil(1000);
    let others = match ahead {
        0 => String::new(),
        1 => ", and another request with the same key is sent before it".to_owned(),
        _ => format!(", and {ahead} other requests with the same key are sent before it"),
    };
    format!(
        "the request waits about {seconds} s because the rate limit of the provider `{provider}` is \
         used up{others}; input that you add meanwhile goes along with it"
    )
}

/// Sends the start or the end of the review of an approval.
fn send_review(to: &mut Subscribers, thread_id: String, review: &ApprovalReview) {
    match auto_review::completed(thread_id.clone(), review) {
        Some(params) => to.notify::<protocol::ItemAutoApprovalReviewCompleted>(&params),
        None => {
            let params = auto_review::started(thread_id, review);
            to.notify::<protocol::ItemAutoApprovalReviewStarted>(&params);
        }
    }
}

/// Sends what concerns the review of an approval to clients that do not subscribe to the thread.
pub(super) fn send_review_to(clients: &[Arc<Peer>], thread: &Id, event: &Event) {
    let thread_id = thread.to_string();
    match event {
        Event::ApprovalReview(review) => match auto_review::completed(thread_id.clone(), review) {
            Some(params) => clients
                .iter()
                .for_each(|peer| peer.notify::<protocol::ItemAutoApprovalReviewCompleted>(&params)),
            None => {
                let params = auto_review::started(thread_id, review);
                for peer in clients {
                    peer.notify::<protocol::ItemAutoApprovalReviewStarted>(&params);
                }
            }
        },
        Event::ReviewerWarning { message } => {
            let message = message.clone();
            let params = protocol::guardian::GuardianWarningNotification { thread_id, message };
            clients.iter().for_each(|peer| peer.notify::<protocol::GuardianWarning>(&params));
        }
        _ => {}
    }
}

fn frame(thread: &Id, delta: &Delta<'_>) -> DeltaFrame {
    let params = DeltaParams {
        thread_id: thread,
        turn_id: delta.turn,
        item_id: delta.item,
        summary_index: delta.summary_index,
        content_index: delta.content_index,
    };
    DeltaFrame::new(delta.method, &params, delta.member)
        .expect("the parameters of a delta are an object of strings and numbers")
}

fn delta(event: &Event) -> Option<Delta<'_>> {
    let make = |method, turn, item, text| Delta {
        method,
        turn,
        item,
        summary_index: None,
        content_index: None,
        member: "delta",
        text,
    };
    Some(match event {
        Event::MessageDelta { turn, item, text } => {
            make(protocol::ItemAgentMessageDelta::NAME, turn, item, text)
        }
        Event::PlanDelta { turn, item, text } => {
            make(protocol::ItemPlanDelta::NAME, turn, item, text)
        }
        Event::CommandOutput { turn, item, text } => {
            make(protocol::ItemCommandExecutionOutputDelta::NAME, turn, item, text)
        }
        Event::SummaryDelta { turn, item, index, text } => Delta {
            summary_index: Some(*index),
            ..make(protocol::ItemReasoningSummaryTextDelta::NAME, turn, item, text)
        },
        Event::ReasoningDelta { turn, item, index, text } => Delta {
            content_index: Some(*index),
            ..make(protocol::ItemReasoningTextDelta::NAME, turn, item, text)
        },
        _ => return None,
    })
}
