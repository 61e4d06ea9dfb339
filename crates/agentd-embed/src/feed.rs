//! Events that wait for one reader, within bounds.
//!
//! Adjacent deltas of one text are merged once many events wait. When more than [`MAX_EVENTS`] events or [`MAX_BYTES`]
//! wait for one reader, the connection is not read until the reader has taken some, so that the server holds back
//! ([`Pressure`]). So that one reader does not hold up the others forever, reading goes on
//!
//! - while a request of this agent waits for its answer, up to twice the bound, and
//! - when the reader has taken nothing for [`STALL`].
//!
//! In either case what waits is reduced first. A turn's reader loses events that only show progress, which the
//! completed items repeat; the reader of a thread's events loses all that wait, and gets one [`Replaced`] for them.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::Error;
use crate::event::{DeltaStream, Event, read};
use crate::pressure::Pressure;
use crate::replaced::Replaced;

/// Events that may wait for a reader before the connection is no longer read.
pub(crate) const MAX_EVENTS: usize = 4096;
/// Their bytes.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// Time without progress of a reader, after which it no longer holds up the connection.
pub(crate) const STALL: Duration = Duration::from_secs(2);
/// Events that wait before deltas are merged: a reader that keeps up gets each as it comes.
const UNMERGED: usize = 64;

/// An event, or a note in place of events.
#[derive(Clone)]
pub(crate) enum Entry {
    Event(Arc<Event>),
    /// In place of events of the reader's turn that are gone.
    Turn(Arc<protocol::Turn>),
    /// In place of events of the thread that are gone.
    Replaced(Arc<Replaced>),
    /// The connection was lost: open the events again from the last cursor.
    Reopen,
    /// The events that waited were dropped: read the thread.
    Lagged,
    /// No event comes any longer.
    Failed(Error),
}

/// The queue of one reader, which goes with the reader: everything else has it as a `Weak`.
pub(crate) struct Feed {
    is_of_turn: bool,
    pressure: Arc<Pressure>,
    inner: Mutex<Inner>,
}

struct Inner {
    entries: VecDeque<Entry>,
    /// Deltas that the last entry goes on by.
    merging: Option<Merging>,
    bytes: usize,
    /// Entries that remain after a reduction may be more than the bound: the items of a turn, which its result holds.
    is_reduced: bool,
    /// Items with deltas that were dropped: without them, later ones would continue another text.
    cut: HashSet<String>,
    /// Events are dropped until the thread was read.
    is_lagging: bool,
    /// The time at which the reader took something, or had nothing to take.
    taken_at: Instant,
    /// The turn that is read from it, once it has started.
    turn_id: Option<String>,
    waker: Option<Waker>,
}

struct Merging {
    stream: DeltaStream,
    text: String,
    newest: Arc<Event>,
    size: usize,
}

impl Feed {
    /// The queue of a turn, or of a thread's events: that decides about what its reader can do without.
    pub(crate) fn new(pressure: Arc<Pressure>, is_of_turn: bool) -> Arc<Self> {
        let inner = Inner {
            entries: VecDeque::new(),
            merging: None,
            bytes: 0,
            is_reduced: false,
            cut: HashSet::new(),
            is_lagging: false,
            taken_at: Instant::now(),
            turn_id: None,
            waker: None,
        };
        Arc::new(Self { is_of_turn, pressure, inner: Mutex::new(inner) })
    }

    pub(crate) fn set_turn(&self, turn_id: &str) {
        self.lock().turn_id = Some(turn_id.to_owned());
    }

    pub(crate) fn turn_id(&self) -> Option<String> {
        self.lock().turn_id.clone()
    }

    /// Takes an entry.
    pub(crate) fn put(self: &Arc<Self>, entry: Entry) {
        let mut inner = self.lock();
        match entry {
            Entry::Event(event) => {
                if inner.is_lagging || inner.drops(self.is_of_turn, &event) {
                    return;
                }
                if inner.entries.is_empty() {
                    inner.taken_at = Instant::now();
                }
                inner.bytes += event.size;
                inner.append(event);
                if inner.is_beyond(2) {
                    inner.reduce(self.is_of_turn);
                }
            }
            other => {
                inner.close_stream();
                inner.entries.push_back(other);
            }
        }
        let (is_full, waker) = (inner.is_full(), inner.waker.take());
        drop(inner);
        if is_full {
            self.pressure.add(Arc::downgrade(self));
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next entry. Cancel safe.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Entry> {
        // A reader that always finds something lets other tasks of its thread go on.
        let coop = ready!(tokio::task::coop::poll_proceed(cx));
        let mut inner = self.lock();
        if inner.entries.len() == 1 {
            inner.close_stream();
        }
        let was_full = inner.is_full();
        let Some(entry) = inner.entries.pop_front() else {
            inner.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        coop.made_progress();
        inner.taken_at = Instant::now();
        if let Entry::Event(event) = &entry {
            inner.bytes -= event.size;
        }
        inner.is_reduced &= inner.is_beyond(1);
        let is_relieved = was_full && !inner.is_full();
        drop(inner);
        if is_relieved {
            self.pressure.wake();
        }
        Poll::Ready(entry)
    }

    /// Returns whether more waits than may, and since when its reader has taken nothing.
    pub(crate) fn full_since(&self) -> Option<Instant> {
        let inner = self.lock();
        inner.is_full().then_some(inner.taken_at)
    }

    /// Drops entries that the reader can do without, so that it is no longer full.
    pub(crate) fn reduce(&self) {
        let waker = {
            let mut inner = self.lock();
            inner.reduce(self.is_of_turn);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Takes events again after [`Entry::Lagged`].
    pub(crate) fn catch_up(self: &Arc<Self>, replaced: Replaced) {
        self.lock().is_lagging = false;
        self.put(Entry::Replaced(Arc::new(replaced)));
    }

    /// Drops what waits on a feed that gets no events, before they are opened again at the reader's cursor.
    pub(crate) fn clear(&self) {
        let mut inner = self.lock();
        inner.close_stream();
        inner.entries.retain(|entry| matches!(entry, Entry::Failed(_)));
        inner.bytes = 0;
        inner.is_lagging = false;
        drop(inner);
        self.pressure.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under this lock leaves the queue half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.pressure.wake();
    }
}

/// The feeds of which `weak` are references, without those that are gone.
pub(crate) fn alive(weak: &mut Vec<Weak<Feed>>) -> Vec<Arc<Feed>> {
    let mut feeds = Vec::with_capacity(weak.len());
    weak.retain(|weak| match weak.upgrade() {
        Some(feed) => {
            feeds.push(feed);
            true
        }
        None => false,
    });
    feeds
}

impl Inner {
    fn is_full(&self) -> bool {
        !self.is_reduced && self.is_beyond(1)
    }

    fn is_beyond(&self, times: usize) -> bool {
        self.entries.len() > MAX_EVENTS * times || self.bytes > MAX_BYTES * times
    }

    fn append(&mut self, event: Arc<Event>) {
        if let Some(merging) = &mut self.merging
            && let Some(delta) = event.delta()
            && delta.stream == merging.stream
        {
            merging.text.push_str(&delta.text);
            merging.size += event.size;
            merging.newest = event;
            return;
        }
        self.close_stream();
        if self.entries.len() >= UNMERGED
            && let Some(delta) = event.delta()
        {
            self.merging = Some(Merging {
                stream: delta.stream.clone(),
                text: delta.text.clone(),
                newest: event.clone(),
                size: event.size,
            });
        }
        self.entries.push_back(Entry::Event(event));
    }

    /// Writes the last entry with the whole of its text.
    fn close_stream(&mut self) {
        let Some(Merging { text, newest, size, .. }) = self.merging.take() else { return };
        if let Some(last) = self.entries.back_mut() {
            *last = Entry::Event(Arc::new(newest.merged(&text, size)));
        }
    }

    /// Returns whether the reader of a turn does without an event. The completed item has the whole text.
    fn drops(&mut self, is_of_turn: bool, event: &Event) -> bool {
        if !is_of_turn || (!self.is_reduced && self.cut.is_empty()) {
            return false;
        }
        if event.notification.method == "item/completed" {
            #[derive(Deserialize)]
            struct WithItem {
                item: Named,
            }
            #[derive(Deserialize)]
            struct Named {
                id: String,
            }
            if let Some(completed) = read::<WithItem>(&event.notification.params) {
                self.cut.remove(&completed.item.id);
            }
            return false;
        }
        let Some(delta) = event.delta() else { return self.is_reduced && event.is_progress() };
        let Some(item_id) = &delta.stream.item_id else { return self.is_reduced };
        if self.is_reduced {
            self.cut.insert(item_id.clone());
        }
        self.cut.contains(item_id)
    }

    fn reduce(&mut self, is_of_turn: bool) {
        self.close_stream();
        if is_of_turn {
            self.is_reduced = true;
            for entry in std::mem::take(&mut self.entries) {
                match entry {
                    Entry::Event(event) if self.drops(true, &event) => self.bytes -= event.size,
                    entry => self.entries.push_back(entry),
                }
            }
        } else if !self.is_lagging {
            self.entries.retain(|entry| !matches!(entry, Entry::Event(_)));
            self.entries.push_back(Entry::Lagged);
            self.bytes = 0;
            self.is_lagging = true;
        }
    }
}
