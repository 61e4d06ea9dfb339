//! The state of a thread. All objects for the same thread share one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::{ThreadTokenUsage, ThreadTokenUsageUpdated, TurnStatus};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::Error;
use crate::context::UserValue;
use crate::ends::End;
use crate::event::Event;
use crate::feed::{Entry, Feed, alive};
use crate::order::ThreadOrder;
use crate::replaced::{Replaced, ReplacedReason};
use crate::transcript::UsageRecord;

/// It lives as long as a thread or a turn, or something that runs, holds it.
pub(crate) struct ThreadState {
    pub(crate) id: String,
    pub(crate) order: ThreadOrder,
    /// Held while the events of the thread are asked for, until what the server sends again has arrived.
    pub(crate) asking: tokio::sync::Mutex<()>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// The number of the connection that is subscribed. On another one, resume first.
    subscribed_on: u32,
    /// The newest cursor that was received.
    position: Option<String>,
    /// The newest cursor that was handed out, and the order of its event.
    handed_out: Option<(String, u64)>,
    turns: Vec<Weak<Feed>>,
    followers: Vec<Weak<Feed>>,
    /// The turn or compaction that runs, whether it is read or not.
    running: Option<Arc<End>>,
    replays: VecDeque<Replay>,
    usage: UsageRecord,
    /// The application's own values, of the thread and of its turns.
    context: Option<UserValue>,
    turn_contexts: HashMap<String, UserValue>,
}

/// Events that the server sends again for one reader.
struct Replay {
    feed: Weak<Feed>,
    left: u64,
    /// The cursor of the last of them.
    until: Option<String>,
    /// Dropped at the end.
    _done: oneshot::Sender<()>,
}

/// The result of `thread/resume` or `thread/read`, as far as it is of use here. The rest may be of a later version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opened {
    pub(crate) thread: OpenedThread,
    #[serde(default)]
    pub(crate) event_cursor: Option<String>,
    #[serde(default)]
    pub(crate) event_replay: Option<ReplayKind>,
}

#[derive(Deserialize)]
pub(crate) struct OpenedThread {
    pub(crate) id: String,
    #[serde(default)]
    turns: Vec<Value>,
}

/// The way in which missed events arrive.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum ReplayKind {
    Replayed {
        events: u64,
        #[serde(default)]
        open_request_ids: Vec<i64>,
    },
    Snapshot {
        #[serde(default)]
        reason: String,
        #[serde(default)]
        from_turn_id: Option<String>,
        #[serde(default)]
        is_complete: bool,
        #[serde(default)]
        open_request_ids: Vec<i64>,
    },
}

impl ReplayKind {
    pub(crate) fn open_request_ids(&self) -> &[i64] {
        let (Self::Replayed { open_request_ids, .. } | Self::Snapshot { open_request_ids, .. }) =
            self;
        open_request_ids
    }
}

impl OpenedThread {
    /// The turns, without the items that this version does not know.
    pub(crate) fn turns(&self) -> Vec<protocol::Turn> {
        self.turns.iter().filter_map(known_part).collect()
    }
}

fn known_part(turn: &Value) -> Option<protocol::Turn> {
    let mut turn = turn.clone();
    if let Some(Value::Array(items)) = turn.get_mut("items") {
        items.retain(|item| protocol::ThreadItem::deserialize(item).is_ok());
    }
    serde_json::from_value(turn).ok()
}

impl ThreadState {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            order: ThreadOrder::default(),
            asking: tokio::sync::Mutex::default(),
            now: Mutex::default(),
        }
    }

    /// Returns whether connection `link` gets the events of the thread, and the newest position.
    pub(crate) fn subscription(&self, link: u32) -> (bool, Option<String>) {
        let now = self.lock();
        (now.subscribed_on == link, now.position.clone())
    }

    /// Connection `link` is subscribed. Its first event comes after `position`, which is kept if `None`.
    pub(crate) fn subscribed(&self, link: u32, position: Option<String>) {
        let mut now = self.lock();
        now.subscribed_on = link;
        if let Some(position) = position {
            now.handed_out.get_or_insert_with(|| (position.clone(), 0));
            now.position = Some(position);
        }
    }

    pub(crate) fn position(&self) -> Option<String> {
        self.lock().position.clone()
    }

    pub(crate) fn cursor(&self) -> Option<String> {
        self.lock().handed_out.as_ref().map(|(cursor, _)| cursor.clone())
    }

    /// Remembers the cursor of an event that the application got.
    pub(crate) fn hand_out(&self, cursor: Option<&str>, order: u64) {
        let Some(cursor) = cursor else { return };
        let mut now = self.lock();
        if now.handed_out.as_ref().is_none_or(|(_, newest)| order >= *newest) {
            now.handed_out = Some((cursor.to_owned(), order));
        }
    }

    pub(crate) fn usage(&self) -> Option<ThreadTokenUsage> {
        let now = self.lock();
        let usage = now.usage.tokens.clone()?;
        Some(ThreadTokenUsage { cost: now.usage.cost.clone(), ..usage })
    }

    pub(crate) fn context(&self) -> Option<UserValue> {
        self.lock().context.clone()
    }

    pub(crate) fn set_context(&self, value: Option<UserValue>) {
        if let Some(value) = value {
            self.lock().context = Some(value);
        }
    }

    pub(crate) fn set_turn_context(&self, turn_id: &str, value: UserValue) {
        self.lock().turn_contexts.insert(turn_id.to_owned(), value);
    }

    pub(crate) fn forget_turn_context(&self, turn_id: &str) {
        self.lock().turn_contexts.remove(turn_id);
    }

    /// The application's value for a turn of the thread.
    pub(crate) fn user_value(&self, turn_id: Option<&str>) -> Option<UserValue> {
        let now = self.lock();
        let of_turn = turn_id.and_then(|turn_id| now.turn_contexts.get(turn_id));
        of_turn.or(now.context.as_ref()).cloned()
    }

    pub(crate) fn add_turn(&self, feed: &Arc<Feed>) {
        self.lock().turns.push(Arc::downgrade(feed));
    }

    pub(crate) fn add_follower(&self, feed: &Arc<Feed>) {
        self.lock().followers.push(Arc::downgrade(feed));
    }

    pub(crate) fn remove_follower(&self, feed: &Arc<Feed>) {
        let feed = Arc::downgrade(feed);
        self.lock().followers.retain(|known| !known.ptr_eq(&feed));
    }

    /// Returns whether a feed gets events, new ones or those that are sent again.
    pub(crate) fn is_follower(&self, feed: &Arc<Feed>) -> bool {
        let (feed, now) = (Arc::downgrade(feed), self.lock());
        let is_replayed = now.replays.iter().any(|replay| replay.feed.ptr_eq(&feed));
        is_replayed || now.followers.iter().any(|known| known.ptr_eq(&feed))
    }

    pub(crate) fn remove_turn(&self, feed: &Weak<Feed>) {
        self.lock().turns.retain(|known| !known.ptr_eq(feed));
    }

    pub(crate) fn run(&self, end: &Arc<End>) {
        self.lock().running = Some(end.clone());
    }

    pub(crate) fn stop_running(&self, end: &Arc<End>) {
        let mut now = self.lock();
        if now.running.as_ref().is_some_and(|running| Arc::ptr_eq(running, end)) {
            now.running = None;
        }
    }

    /// Returns whether a lost connection holds up a turn or a compaction.
    pub(crate) fn is_awaited(&self) -> bool {
        let mut now = self.lock();
        now.running.is_some() || !alive(&mut now.turns).is_empty()
    }

    /// The server sends events again for one reader, which follows the thread afterwards.
    pub(crate) fn begin_replay(
        &self,
        feed: Weak<Feed>,
        left: u64,
        until: Option<String>,
    ) -> oneshot::Receiver<()> {
        let (done, over) = oneshot::channel();
        self.lock().replays.push_back(Replay { feed, left, until, _done: done });
        over
    }

    /// Ends the replays of a lost connection, and detaches the followers: both open their events again.
    pub(crate) fn interrupt(&self) {
        let feeds = {
            let mut now = self.lock();
            let replayed: Vec<_> =
                now.replays.drain(..).filter_map(|replay| replay.feed.upgrade()).collect();
            let feeds = alive(&mut now.followers);
            now.followers.clear();
            feeds.into_iter().chain(replayed)
        };
        feeds.for_each(|feed| feed.put(Entry::Reopen));
    }

    /// Ends the replay that is under way: notifications that the client opted out of were counted, but not sent.
    pub(crate) fn end_replay(&self) {
        let mut now = self.lock();
        if let Some(Replay { feed, .. }) = now.replays.pop_front() {
            now.followers.push(feed);
        }
    }

    /// Takes a notification. Returns the event, whether it is a new one, and the turn that has to be interrupted
    /// because of it.
    pub(crate) fn take(&self, mut event: Event) -> (Arc<Event>, bool, Option<String>) {
        let mut now = self.lock();
        if event.notification.cursor.is_some()
            && let Some(replay) = now.replays.front_mut()
        {
            replay.left = replay.left.saturating_sub(1);
            let is_last = replay.left == 0 || event.notification.cursor == replay.until;
            let weak = replay.feed.clone();
            let feed = weak.upgrade();
            if is_last {
                now.replays.pop_front();
                now.followers.push(weak);
            }
            drop(now);
            let event = Arc::new(event);
            if let Some(feed) = feed {
                feed.put(Entry::Event(event.clone()));
            }
            return (event, false, None);
        }
        match &event.notification.cursor {
            Some(cursor) => now.position = Some(cursor.clone()),
            // It has no position of its own: after it, events go on as after the one before.
            None => event.notification.cursor.clone_from(&now.position),
        }
        if let Some(Ok(updated)) = event.notification.read::<ThreadTokenUsageUpdated>() {
            now.usage.take(updated.token_usage);
        }
        drop(now);
        let event = Arc::new(event);
        let stops = self.put(&Entry::Event(event.clone()));
        (event, true, stops)
    }

    /// Hands an entry to all readers. Returns the turn that has to be interrupted because of it.
    pub(crate) fn put(&self, entry: &Entry) -> Option<String> {
        let (feeds, running) = {
            let mut now = self.lock();
            let mut feeds = alive(&mut now.turns);
            feeds.extend(alive(&mut now.followers));
            (feeds, now.running.clone())
        };
        for feed in feeds {
            feed.put(entry.clone());
        }
        running.filter(|running| running.put(entry)).and_then(|running| running.turn_id())
    }

    /// Ends everything that is awaited.
    pub(crate) fn fail(&self, error: &Error) {
        let replays: Vec<_> = self.lock().replays.drain(..).collect();
        for feed in replays.iter().filter_map(|replay| replay.feed.upgrade()) {
            feed.put(Entry::Failed(error.clone()));
        }
        self.put(&Entry::Failed(error.clone()));
    }

    /// Hands each turn that is awaited its state, and returns whether one of them is missing in `turns`.
    pub(crate) fn replace(&self, turns: &[protocol::Turn], is_final: bool) -> bool {
        let (feeds, running) = {
            let mut now = self.lock();
            (alive(&mut now.turns), now.running.clone())
        };
        let mut lacks = false;
        let missing = || {
            let why = "the turn is no longer part of its thread";
            is_final.then(|| Entry::Failed(Error::lost(why)))
        };
        let found = |id: &str| {
            let turn = turns.iter().find(|turn| turn.id == id);
            turn.map(|turn| Entry::Turn(Arc::new(turn.clone())))
        };
        for feed in feeds {
            // One that has not started yet is of a request that failed with the connection.
            let Some(id) = feed.turn_id() else { continue };
            match found(&id) {
                Some(entry) => feed.put(entry),
                None => {
                    lacks = true;
                    missing().into_iter().for_each(|entry| feed.put(entry));
                }
            }
        }
        if let Some(running) = running {
            let entry = match running.turn_id() {
                Some(id) => found(&id).or_else(|| {
                    lacks = true;
                    missing()
                }),
                None => Some(Entry::Replaced(Arc::new(Replaced::lagged(Vec::new(), None, 0)))),
            };
            entry.into_iter().for_each(|entry| {
                running.put(&entry);
            });
        }
        lacks
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        // Nothing under this lock leaves the state half changed.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replaced {
    /// The snapshot in a result; `None` if it has none.
    pub(crate) fn of_snapshot(opened: &Opened, order: u64) -> Option<Self> {
        let Some(ReplayKind::Snapshot { reason, from_turn_id, is_complete, .. }) =
            &opened.event_replay
        else {
            return None;
        };
        let reason = match reason.as_str() {
            "reloaded" => ReplacedReason::Reloaded,
            "tooOld" => ReplacedReason::TooOld,
            _ => ReplacedReason::Other,
        };
        Some(Self {
            turns: opened.thread.turns(),
            from_turn_id: from_turn_id.clone(),
            is_complete: *is_complete,
            reason,
            cursor: opened.event_cursor.clone(),
            order,
        })
    }
}

/// The turn in progress of a thread.
pub(crate) fn in_progress(turns: Vec<protocol::Turn>) -> Option<protocol::Turn> {
    turns.into_iter().rev().find(|turn| turn.status == TurnStatus::InProgress)
}
