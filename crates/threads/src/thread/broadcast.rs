//! The events of a thread for its clients, in one order for all subscribers, and for hooks of the
//! user.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use config::Config;
use protocol::connection::ConfigWarningNotification;
use protocol::hooks::{HookRunNotification, HookRunStatus};
use protocol::{
    ConfigWarning, HookCompleted, HookStarted, ThreadQueueChanged, ThreadQueueChangedNotification,
    ThreadSettings, ThreadSettingsUpdated, ThreadSettingsUpdatedNotification,
};
use serde_json::value::RawValue;
use session::{
    ApprovalReview, Event, Id, Live, Millis, ReviewStatus, TurnError, TurnStatus, TurnView,
};

use tracing::Span;

use crate::thread::event_log::{EventLog, EventSubject, ItemPhase, Replay};
use crate::thread::event_sender::{self, EventSender};
use crate::thread::subscribers::Subscribers;
use crate::thread::turn_hooks::TurnHooks;
use services::connections::Connections;
use services::convert::event::ItemCompleted;
use services::peer::{ConnectionId, Peer};
use services::recovery::ClosedItem;
use services::thread_hooks::HookReport;
use services::thread_port::{EventPosition, Snapshot, wire};
use services::warnings;

/// The events of a thread for its clients.
pub struct Broadcast {
    thread: Id,
    subscribers: Subscribers,
    events: EventSender,
    /// Turns whose beginning clients were sent, and whose end they were not.
    open_turns: Vec<TurnView>,
    /// Reviews of approvals in the same state; as many as the session has at once.
    open_reviews: Vec<ApprovalReview>,
    /// Clients of the thread at the root that were sent the start of a review, by its id.
    review_clients: HashMap<Id, Vec<Weak<Peer>>>,
    /// Of the client that subscribed last.
    user_agent: Option<String>,
    hooks: TurnHooks,
    /// The plan of the latest turn, and the use of tokens, as they were sent last: a client that
    /// subscribes later finds them in no item.
    latest_plan: Option<Event>,
    latest_usage: Option<Event>,
    /// The settings that the subscribers know; `None` before any.
    settings: Option<ThreadSettings>,
    connections: Arc<Connections>,
}

impl Broadcast {
    pub fn new(
        thread: Id,
        context_window: Option<i64>,
        hooks: TurnHooks,
        connections: Arc<Connections>,
    ) -> Self {
        Self {
            events: EventSender::new(thread.clone(), context_window),
            thread,
            subscribers: Subscribers::default(),
            open_turns: Vec::new(),
            open_reviews: Vec::new(),
            review_clients: HashMap::new(),
            user_agent: None,
            hooks,
            latest_plan: None,
            latest_usage: None,
            settings: None,
            connections,
        }
    }

    pub(super) fn subscribers(&self) -> &Subscribers {
        &self.subscribers
    }

    pub(super) fn subscribers_mut(&mut self) -> &mut Subscribers {
        &mut self.subscribers
    }

    /// Identifies the client that subscribed last to model providers and the user's program.
    pub(super) fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }

    /// Around what is logged of the running turn.
    pub(super) fn turn_span(&self) -> Span {
        self.hooks.turn_span()
    }

    /// Sets the tokens of the running turn and its agents together, for the next report of tokens.
    pub(super) fn set_tokens_with_agents(&mut self, tokens: Option<i64>) {
        self.events.set_tokens_with_agents(tokens);
    }

    /// Sets their cost together.
    pub(super) fn set_cost_with_agents(&mut self, cost: Option<Option<i64>>) {
        self.events.set_cost_with_agents(cost);
    }

    pub(super) fn set_context_window(&mut self, window: Option<i64>) {
        self.events.set_context_window(window);
    }

    /// Sends an event to the subscribers; `json` is the item of an item event.
    pub(super) fn emit(
        &mut self,
        event: &Event,
        json: Option<&RawValue>,
        config: &Arc<Config>,
        cwd: &Path,
    ) {
        match event {
            Event::TurnStarted(view) => {
                self.open_turns.push(view.clone());
                self.latest_plan = None;
            }
            Event::PlanUpdated { .. } => self.latest_plan = Some(event.clone()),
            Event::TokenUsage { .. } => self.latest_usage = Some(event.clone()),
            Event::TurnCompleted(view) => self.open_turns.retain(|open| open.id != view.id),
            Event::ApprovalReview(review) if review.status == ReviewStatus::InProgress => {
                self.open_reviews.push((**review).clone());
            }
            Event::ApprovalReview(review) => {
                self.open_reviews.retain(|open| open.id != review.id);
            }
            _ => {}
        }
        self.events.send(&mut self.subscribers, event, json);
        self.hooks.observe(event, config, cwd, self.user_agent.as_deref());
    }

    /// Sends what concerns the review of an agent's action to clients of the thread at the root,
    /// which need no subscription to the agent. One that was sent the start is sent the end, too,
    /// whatever has become of the root.
    pub(super) fn show_review(&mut self, event: &Event, of_root: Vec<Arc<Peer>>) {
        let mut clients = of_root;
        clients.retain(|peer| !self.subscribers.contains(peer.id));
        match event {
            Event::ApprovalReview(review) if review.status == ReviewStatus::InProgress => {
                let sent = clients.iter().map(Arc::downgrade).collect();
                self.review_clients.insert(review.id.clone(), sent);
            }
            Event::ApprovalReview(review) => {
                for peer in self.review_clients.remove(&review.id).into_iter().flatten() {
                    if let Some(peer) = peer.upgrade()
                        && clients.iter().all(|other| other.id != peer.id)
                    {
                        clients.push(peer);
                    }
                }
            }
            _ => {}
        }
        // One that was sent the start may have subscribed since.
        clients.retain(|peer| !self.subscribers.contains(peer.id));
        event_sender::send_review_to(&clients, &self.thread, event);
    }

    /// Sends the subscribers the thread's settings, when they are not those that they know.
    pub(super) fn show_settings(&mut self, settings: ThreadSettings) {
        if self.settings.as_ref() == Some(&settings) {
            return;
        }
        if self.settings.replace(settings.clone()).is_some() {
            let thread_id = self.thread.to_string();
            let params = ThreadSettingsUpdatedNotification { thread_id, thread_settings: settings };
            self.subscribers.notify::<ThreadSettingsUpdated>(&params);
        }
    }

    /// Sends the subscribers the state of the thread's queue.
    pub(super) fn show_queue(&mut self, params: &ThreadQueueChangedNotification) {
        self.subscribers.notify::<ThreadQueueChanged>(params);
    }

    /// Shows the beginning or the end of a hook.
    pub(super) fn show_hook(&mut self, report: HookReport) {
        let HookReport { turn, run } = report;
        let is_running = run.status == HookRunStatus::Running;
        let params = HookRunNotification { thread_id: self.thread.to_string(), turn_id: turn, run };
        match is_running {
            true => self.subscribers.notify::<HookStarted>(&params),
            false => self.subscribers.notify::<HookCompleted>(&params),
        }
    }

    pub(super) fn has_subscribers(&self) -> bool {
        !self.subscribers.is_empty()
    }

    /// Sends the subscribers a warning that is not an event of the thread; each gets it once.
    pub(super) fn warn(&self, summary: &str) {
        for peer in self.subscribers.iter() {
            warnings::send_plain(peer, summary.to_owned());
        }
    }

    /// Sends the subscribers a warning about the thread; each gets it once.
    pub(super) fn warn_about_thread(&self, message: &str) {
        for peer in self.subscribers.iter() {
            warnings::send_about_thread(peer, &self.thread, message.to_owned());
        }
    }

    /// Sends the subscribers what a change of the configuration led to.
    pub(super) fn warn_of_change(&self, warning: &ConfigWarningNotification) {
        self.subscribers.notify_aside::<ConfigWarning>(warning);
    }

    /// Sends a notification to every client, subscribed or not, in the order of the thread's events.
    pub(super) fn announce(&mut self, method: &'static str, message: Bytes) {
        self.subscribers.send_to_all(&self.connections.all(), method, message);
    }

    pub(super) fn has_event_log(&self) -> bool {
        self.subscribers.event_log().is_some()
    }

    /// From now on events have positions, which the end of `id` makes unlike those of any other log.
    pub(super) fn begin_event_log(&mut self, id: &str, last_turn: Option<Id>, live: Live) {
        let epoch = &id[id.floor_char_boundary(id.len().saturating_sub(12))..];
        let open = live.items.into_iter().map(|(turn, item)| (item.id().clone(), turn)).collect();
        self.subscribers.set_event_log(EventLog::new(epoch.to_owned(), last_turn, open));
    }

    /// Cuts the event log, because the clients' knowledge differs from the store: those that
    /// reconnect get a snapshot.
    pub(super) fn cut_event_log(&mut self) {
        self.latest_plan = None; // its turn may be gone
        self.subscribers.cut_event_log();
    }

    /// Cursor after the newest event.
    pub(super) fn cursor(&self) -> Option<String> {
        self.subscribers.event_log().map(EventLog::cursor)
    }

    /// The events since a position; `None` without one, or without an event log.
    pub(super) fn replay(&self, since: Option<&EventPosition>) -> Option<Replay> {
        Some(self.subscribers.event_log()?.since(since?))
    }

    /// Subscribes a client. With `announced` all subscribers are sent `thread/started`; then the
    /// client is sent the events of `replay`.
    pub(super) fn subscribe(
        &mut self,
        peer: &Arc<Peer>,
        announced: Option<&Snapshot>,
        replay: Option<Replay>,
    ) {
        self.user_agent = peer.user_agent().map(str::to_owned);
        self.subscribers.add(peer.clone());
        if let Some(snapshot) = announced {
            let thread = wire::loaded(snapshot, Vec::new());
            let params = protocol::thread_record::ThreadStartedNotification { thread };
            self.subscribers.notify::<protocol::ThreadStarted>(&params);
        }
        for (info, message) in replay.and_then(Result::ok).unwrap_or_default() {
            peer.send_if_wanted(info, message);
        }
    }

    /// Sends a client that has seen no events the plan of the latest turn and the use of tokens.
    pub(super) fn show_latest(&self, peer: &Peer) {
        for event in [&self.latest_plan, &self.latest_usage].into_iter().flatten() {
            self.events.send_latest(peer, event);
        }
    }

    /// Returns whether the connection had a subscription.
    pub(super) fn unsubscribe(&mut self, connection: ConnectionId) -> bool {
        self.subscribers.remove(connection)
    }

    /// Sends the ends of items that were closed in the store.
    pub(super) fn complete_items(&mut self, items: Vec<ClosedItem>, now: Millis) {
        for closed in items {
            let (item, turn) = (closed.item.as_str().into(), closed.turn.as_str().into());
            let Ok(payload) = serde_json::from_str::<&RawValue>(&closed.payload) else { continue };
            let params = ItemCompleted {
                item: payload,
                thread_id: &self.thread,
                turn_id: &closed.turn,
                completed_at_ms: now,
            };
            let subject =
                EventSubject { turn: Some(&turn), item: Some((&item, ItemPhase::Completed)) };
            self.subscribers.notify_about::<protocol::ItemCompleted>(&params, subject);
        }
    }

    /// Sends the end of every review that clients believe to be under way.
    pub(super) fn abort_open_reviews(&mut self, now: Millis) {
        for mut review in std::mem::take(&mut self.open_reviews) {
            review.status = ReviewStatus::Aborted;
            review.completed_at = Some(now);
            let event = Event::ApprovalReview(Box::new(review));
            self.events.send(&mut self.subscribers, &event, None);
            self.show_review(&event, Vec::new());
        }
    }

    /// Sends the failure and the end of every turn that clients believe to run.
    pub(super) fn fail_open_turns(&mut self, error: &TurnError, now: Millis) {
        for mut view in std::mem::take(&mut self.open_turns) {
            let turn = view.id.clone();
            let event = Event::Error { turn, error: error.clone(), retry: None };
            self.events.send(&mut self.subscribers, &event, None);
            view.status = TurnStatus::Failed;
            view.error = Some(error.clone());
            view.completed_at = Some(now);
            self.events.send(&mut self.subscribers, &Event::TurnCompleted(view), None);
        }
    }
}
