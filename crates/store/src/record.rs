//! What is stored and what comes back: threads, turns, items and the writes that change them.
//! Fields named "JSON" are kept as given and never looked into.

use std::sync::Arc;

/// A thread's own row, without its turns (specification: Thread).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadRecord {
    /// Unique id.
    pub id: String,
    /// Id of the session tree's root thread; a root's own id.
    pub session_id: String,
    /// Id of the thread that this one was forked from.
    pub forked_from_id: Option<String>,
    /// First text of the user; searched.
    pub preview: String,
    /// Title given by the user; searched.
    pub name: Option<String>,
    /// Provider id; a filter of lists.
    pub model_provider: String,
    /// Model slug.
    pub model: String,
    /// Working folder, absolute; a filter of lists.
    pub cwd: String,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds. Starting a turn raises it; nothing else does by itself.
    pub updated_at: i64,
    /// Kind of client that made the thread (`cli`, `editor`, …): a filter of lists. Lists take time
    /// in proportion to the number of distinct kinds, so keep them few.
    pub source_kind: String,
    /// The whole source, JSON.
    pub source: String,
    /// Whether the thread is archived; a filter of lists.
    pub archived: bool,
    /// `{sha, branch, originUrl}`, JSON.
    pub git_info: Option<String>,
    /// Sticky overrides of later turns, JSON.
    pub settings: String,
    /// Version of the program that made the thread.
    pub cli_version: String,
    /// Totals so far, JSON.
    pub token_usage: Option<String>,
    /// Anything else that belongs to the thread, JSON.
    pub extra: Option<String>,
}

/// A thread as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredThread {
    /// The record as created and changed since.
    pub record: ThreadRecord,
    /// Number of turns started in it, or shared by it when it was forked. A thread with 0 is not
    /// listed.
    pub turn_count: u32,
}

/// New values for some fields of a thread; `None` leaves the field alone, `Some(None)` clears it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadChanges {
    /// See [`ThreadRecord::preview`].
    pub preview: Option<String>,
    /// See [`ThreadRecord::name`].
    pub name: Option<Option<String>>,
    /// See [`ThreadRecord::model_provider`].
    pub model_provider: Option<String>,
    /// See [`ThreadRecord::model`].
    pub model: Option<String>,
    /// See [`ThreadRecord::cwd`].
    pub cwd: Option<String>,
    /// See [`ThreadRecord::updated_at`].
    pub updated_at: Option<i64>,
    /// See [`ThreadRecord::archived`].
    pub archived: Option<bool>,
    /// See [`ThreadRecord::git_info`].
    pub git_info: Option<Option<String>>,
    /// See [`ThreadRecord::settings`].
    pub settings: Option<String>,
    /// See [`ThreadRecord::token_usage`].
    pub token_usage: Option<Option<String>>,
    /// See [`ThreadRecord::extra`].
    pub extra: Option<Option<String>>,
}

/// Status of a turn (specification: States, Turn status).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnStatus {
    /// Started, not ended.
    InProgress,
    /// Ended by itself.
    Completed,
    /// Ended by the user, or found in flight after its process died.
    Interrupted,
    /// Ended by an error.
    Failed,
}

/// How a turn ends: the final ones of [`TurnStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOutcome {
    /// See [`TurnStatus::Completed`].
    Completed,
    /// See [`TurnStatus::Interrupted`].
    Interrupted,
    /// See [`TurnStatus::Failed`].
    Failed,
}

impl From<TurnOutcome> for TurnStatus {
    fn from(outcome: TurnOutcome) -> Self {
        match outcome {
            TurnOutcome::Completed => Self::Completed,
            TurnOutcome::Interrupted => Self::Interrupted,
            TurnOutcome::Failed => Self::Failed,
        }
    }
}

/// A turn as read back, without its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Id, unique in its thread.
    pub id: String,
    /// Place in the thread, from 1.
    pub ordinal: u32,
    /// Status.
    pub status: TurnStatus,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// Unix milliseconds; `None` while in progress.
    pub completed_at_ms: Option<i64>,
    /// Milliseconds that the turn took.
    pub duration_ms: Option<i64>,
    /// Error of a failed turn, JSON.
    pub error: Option<String>,
    /// Token usage, JSON.
    pub usage: Option<String>,
}

/// An item as read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRow {
    /// Id, unique in its turn.
    pub id: String,
    /// Type of the item.
    pub kind: String,
    /// Status of items that have one.
    pub status: Option<String>,
    /// The item, JSON.
    pub payload: String,
}

/// One model item of a thread's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The item, JSON.
    pub text: Arc<str>,
    /// A note of the caller's; 0 in threads stored by the first version of this program.
    pub mark: u8,
}

/// One place of a thread: a turn with all that belongs to it, or history that was added outside
/// of any turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Orders the places of a thread.
    pub ordinal: u32,
    /// The turn, but outside of one.
    pub turn: Option<TurnRow>,
    /// Its items in order.
    pub items: Vec<ItemRow>,
    /// Its part of the model's history; with each fragment, whether the history begins anew there.
    pub history: Vec<(Fragment, bool)>,
}

/// A turn left in flight by a process that is gone, now owned by the store that claimed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanedTurn {
    /// Id of the thread.
    pub thread: String,
    /// Id of the turn.
    pub turn: String,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// Items in order.
    pub items: Vec<ItemRow>,
}

/// One change. Several given to one `commit` take effect together or not at all.
#[derive(Debug, Clone)]
pub enum Write {
    /// Stores a new thread, and takes its lease. Its id must be new.
    CreateThread(Box<ThreadRecord>),
    /// Changes some fields of a thread.
    UpdateThread {
        /// Id of the thread.
        thread: String,
        /// The new values.
        changes: Box<ThreadChanges>,
    },
    /// Adds a turn in progress, owned by the store that commits it, and raises the thread's
    /// `updated_at` to the turn's start. The thread is listed from its first turn on.
    StartTurn {
        /// Id of the thread.
        thread: String,
        /// Id of the turn, new in its thread.
        turn: String,
        /// Unix milliseconds.
        started_at_ms: i64,
    },
    /// Adds an item, or replaces the one with this id: the first put fixes its place.
    PutItem {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
        /// Id of the item.
        item: String,
        /// Type of the item.
        kind: String,
        /// Status of items that have one.
        status: Option<String>,
        /// The item, JSON.
        payload: String,
    },
    /// Adds raw model items to the end of a turn's part of the history.
    AppendHistory {
        /// Id of the thread.
        thread: String,
        /// Id of the turn; `None` adds after all that is there, also in a thread without turns.
        turn: Option<String>,
        /// Model items.
        fragments: Vec<Fragment>,
        /// The history that the model sees begins anew with the first of them. What came before
        /// stays readable, and comes back when this turn is rolled back.
        anew: bool,
    },
    /// Stores a new thread that shows the turns of another one: no turn is copied. The other thread
    /// may belong to another store.
    Fork {
        /// The new thread. Its id must be new.
        record: Box<ThreadRecord>,
        /// Id of the thread that it is forked from.
        parent: String,
        /// Id of the last turn to show; `None`: all that have ended.
        last_turn: Option<String>,
    },
    /// Drops the last turns from what the thread shows and from the model's history.
    RollBack {
        /// Id of the thread; none of its turns may be in flight.
        thread: String,
        /// How many.
        turns: u32,
    },
    /// Removes a thread for good, but for turns that forks of it show.
    DeleteThread {
        /// Id of the thread.
        thread: String,
    },
    /// Ends a turn. A turn that has ended cannot end again.
    FinishTurn {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
        /// How it ended.
        outcome: TurnOutcome,
        /// Error of a failed turn, JSON.
        error: Option<String>,
        /// Unix milliseconds.
        completed_at_ms: i64,
        /// Milliseconds that the turn took.
        duration_ms: i64,
        /// Token usage, JSON.
        usage: Option<String>,
    },
}
