//! The stored records: threads, turns, items, and the writes that change them. Fields documented as
//! JSON are stored as given and never parsed.

use std::sync::Arc;

/// A thread without its turns (specification: Thread).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThreadRecord {
    /// Unique id.
    pub id: String,
    /// Id of the root thread of the session tree; for a root, its own id.
    pub session_id: String,
    /// Id of the thread that this one was forked from.
    pub forked_from_id: Option<String>,
    /// The first text of the user; searched.
    pub preview: String,
    /// The title that the user gave; searched.
    pub name: Option<String>,
    /// Provider id; a filter of lists.
    pub model_provider: String,
    /// Model slug.
    pub model: String,
    /// Working folder, absolute; a filter of lists.
    pub cwd: String,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds. Starting a turn raises it.
    pub updated_at: i64,
    /// Kind of client that created the thread (`cli`, `editor`, …); a filter of lists. The time of
    /// a list is proportional to the number of distinct kinds.
    pub source_kind: String,
    /// The complete source, JSON.
    pub source: String,
    /// True if the thread is archived; a filter of lists.
    pub archived: bool,
    /// `{sha, branch, originUrl}`, JSON.
    pub git_info: Option<String>,
    /// Overrides that apply to all later turns, JSON.
    pub settings: String,
    /// Version of the program that created the thread.
    pub cli_version: String,
    /// Token totals, JSON.
    pub token_usage: Option<String>,
    /// Further data of the thread, JSON.
    pub extra: Option<String>,
}

/// A stored thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredThread {
    /// The current record.
    pub record: ThreadRecord,
    /// Number of turns that were started in it or inherited by the fork. A thread with 0 is not
    /// listed.
    pub turn_count: u32,
}

/// New values of some fields of a thread; `None` keeps a field, `Some(None)` clears it.
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
    /// In progress.
    InProgress,
    /// Completed by itself.
    Completed,
    /// Interrupted by the user, or by the death of its process.
    Interrupted,
    /// Failed with an error.
    Failed,
}

/// The final states of [`TurnStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOutcome {
    /// See [`TurnStatus::Completed`].
    Completed,
    /// See [`TurnStatus::Interrupted`].
    Interrupted,
    /// See [`TurnStatus::Failed`].
    Failed,
}

impl TurnStatus {
    /// The status in a column.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::InProgress => 0,
            Self::Completed => 1,
            Self::Interrupted => 2,
            Self::Failed => 3,
        }
    }

    /// The reverse of [`TurnStatus::code`].
    pub(crate) fn from_code(code: i64) -> Option<Self> {
        let all = [Self::InProgress, Self::Completed, Self::Interrupted, Self::Failed];
        all.into_iter().find(|status| status.code() == code)
    }
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

/// A stored turn without its items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Id, unique in its thread.
    pub id: String,
    /// Position in the thread, from 1.
    pub ordinal: u32,
    /// Status.
    pub status: TurnStatus,
    /// Unix milliseconds.
    pub started_at_ms: i64,
    /// Unix milliseconds; `None` while in progress.
    pub completed_at_ms: Option<i64>,
    /// Duration in milliseconds.
    pub duration_ms: Option<i64>,
    /// Error of a failed turn, JSON.
    pub error: Option<String>,
    /// Token usage, JSON.
    pub usage: Option<String>,
}

/// A stored item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemRow {
    /// Id, unique in its turn.
    pub id: String,
    /// Type of the item.
    pub kind: String,
    /// Status, for items that have one.
    pub status: Option<String>,
    /// The item, JSON.
    pub payload: String,
}

/// One model item of a thread's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The item, JSON.
    pub text: Arc<str>,
    /// A mark of the caller; 0 in threads stored by the first version of this program.
    pub mark: u8,
}

/// A place of a thread: a turn with its items and history, or history outside of any turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The order of the place in the thread.
    pub ordinal: u32,
    /// The turn, if it is one.
    pub turn: Option<TurnRow>,
    /// Its items in order.
    pub items: Vec<ItemRow>,
    /// Its part of the model's history, and whether the history starts over at each fragment.
    pub history: Vec<(Fragment, bool)>,
}

/// A turn in progress with its items, owned by this store: one that it runs, or one that it claimed
/// after the process that ran it died.
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

/// A turn in progress that another open store runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnElsewhere {
    /// Id of the thread.
    pub thread: String,
    /// Working folder of the thread.
    pub cwd: String,
    /// The process that runs it, for messages.
    pub holder: String,
}

/// A thread whose lease was just taken (see [`crate::Store::open_thread`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedThread {
    /// The thread as it is under the lease.
    pub stored: StoredThread,
    /// Its newest turn. One in progress is among the orphans.
    pub last_turn: Option<TurnRow>,
    /// Its turns in progress, whose process is dead. The caller ends each with
    /// [`Write::FinishTurn`].
    pub orphans: Vec<OrphanedTurn>,
    /// Its queue, in order.
    pub queue: Vec<crate::QueuedEntry>,
}

/// A change. The changes of one commit are atomic.
#[derive(Debug, Clone)]
pub enum Write {
    /// Creates a thread with a new id, and takes its lease.
    CreateThread(Box<ThreadRecord>),
    /// Changes some fields of a thread.
    UpdateThread {
        /// Id of the thread.
        thread: String,
        /// The new values.
        changes: Box<ThreadChanges>,
    },
    /// Adds a turn in progress, owned by the committing store, and raises the thread's `updated_at`
    /// to the start of the turn. Lists contain the thread from its first turn on.
    StartTurn {
        /// Id of the thread.
        thread: String,
        /// Id of the turn, which is new in its thread.
        turn: String,
        /// Unix milliseconds.
        started_at_ms: i64,
    },
    /// Adds an item, or replaces the one with this id. The first write determines its position.
    PutItem {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
        /// Id of the item.
        item: String,
        /// Type of the item.
        kind: String,
        /// Status, for items that have one.
        status: Option<String>,
        /// The item, JSON.
        payload: String,
    },
    /// Appends model items to the history of a turn.
    AppendHistory {
        /// Id of the thread.
        thread: String,
        /// Id of the turn; `None` appends to the end of the thread, even without turns.
        turn: Option<String>,
        /// Model items.
        fragments: Vec<Fragment>,
        /// True if the model's history starts over with the first of them. Earlier history remains
        /// stored, and applies again if this turn is rolled back.
        anew: bool,
    },
    /// Creates a thread that shows the turns of another one, without copying them. Another store
    /// may hold the lease of that thread.
    Fork {
        /// The new thread. Its id must be new.
        record: Box<ThreadRecord>,
        /// Id of the thread that it is forked from.
        parent: String,
        /// Id of the last turn to show; `None` shows all that have ended.
        last_turn: Option<String>,
    },
    /// Hides the last turns of a thread, also from the model's history.
    RollBack {
        /// Id of the thread, which must have no turn in progress.
        thread: String,
        /// Number of turns.
        turns: u32,
    },
    /// Changes a job of a thread.
    Job {
        /// Id of the thread.
        thread: String,
        /// The change.
        write: crate::JobWrite,
    },
    /// Changes the queue of a thread.
    Queue {
        /// Id of the thread.
        thread: String,
        /// The change.
        write: crate::QueueWrite,
    },
    /// Adds what a response of a model used, and the totals of its thread.
    AddUsage {
        /// Id of the thread.
        thread: String,
        /// New value of [`ThreadRecord::token_usage`].
        token_usage: String,
        /// The usage of the response.
        usage: Box<crate::UsageRecord>,
    },
    /// Deletes a thread, its jobs and its queue, except turns that its forks show.
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
        /// The final state.
        outcome: TurnOutcome,
        /// Error of a failed turn, JSON.
        error: Option<String>,
        /// Unix milliseconds.
        completed_at_ms: i64,
        /// Duration in milliseconds.
        duration_ms: i64,
        /// Token usage, JSON.
        usage: Option<String>,
    },
}
