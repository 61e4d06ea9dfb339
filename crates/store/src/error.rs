//! The error of this crate: what failed, and what to do next. Its kinds are those of any store of
//! threads; where a file or a database failed, the text says so and the cause is opaque.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// A failure of what the store keeps its threads in.
#[derive(Clone)]
pub struct Fault {
    text: Arc<str>,
    cause: Option<Arc<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A failure with a text for people, which contains that of its cause.
    pub(crate) fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), cause: None }
    }

    pub(crate) fn caused_by(self, cause: impl Error + Send + Sync + 'static) -> Self {
        Self { cause: Some(Arc::new(cause)), ..self }
    }

    /// The error of the operating system or of a library that caused it.
    #[must_use]
    pub fn cause(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.cause.as_deref()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("text", &self.text).field("cause", &self.cause).finish()
    }
}

/// Why an operation of the store failed. Cheap to clone: a failed group commit fails many callers.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No space is left to write, or the quota of the store is reached.
    #[error("{0}")]
    Full(Fault),
    /// The store cannot be reached or used now: a lock is held for too long, a file or a folder may
    /// not be used, or its device or its server failed. The operation may succeed later.
    #[error("{0}")]
    Unavailable(Fault),
    /// The stored data is damaged.
    #[error("{0}")]
    Damaged(Fault),
    /// The store was written by a later version of this program.
    #[error("{0}")]
    Newer(Fault),
    /// The tables of the store do not exist yet, or are older than this program can use.
    #[error("{0}")]
    NotMigrated(Fault),
    /// An older version of this program has the store open, so that it cannot be migrated.
    #[error("{0}")]
    OlderInUse(Fault),
    /// There is something else at the place of the store, such as another program's database.
    #[error("{0}")]
    Foreign(Fault),
    /// The store was deleted or replaced while it was open. Nothing is stored any longer.
    #[error("{0}")]
    TakenAway(Fault),
    /// The owner name of the open options is not a valid file name, or in use.
    #[error("owner name `{owner}` {reason}; give every open store a unique name such as a UUID")]
    BadOwner {
        /// The name.
        owner: String,
        /// The fault.
        reason: &'static str,
    },
    /// The thread does not exist.
    #[error("thread {thread} is not stored")]
    ThreadNotFound {
        /// Id of the thread.
        thread: String,
    },
    /// The thread does not have the turn.
    #[error("turn {turn} is not stored in thread {thread}")]
    TurnNotFound {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// A thread with this id exists.
    #[error("thread {thread} is already stored")]
    ThreadExists {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has a turn with this id.
    #[error("turn {turn} is already stored in thread {thread}")]
    TurnExists {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// The turn has ended; it cannot end again.
    #[error("turn {turn} of thread {thread} has already ended")]
    TurnFinished {
        /// Id of the thread.
        thread: String,
        /// Id of the turn.
        turn: String,
    },
    /// Another open store holds the thread's lease.
    #[error(
        "thread {thread} is open in another server ({holder}); use that server, or stop it first"
    )]
    LeasedBy {
        /// Id of the thread.
        thread: String,
        /// The process that holds it.
        holder: String,
        /// The owner that it opened the store as.
        owner: String,
    },
    /// The store does not hold the thread's lease, which writing requires: it never took it, or
    /// another store has taken it, or the turn, since.
    #[error("thread {thread} is not open for writing; resume it first")]
    LeaseLost {
        /// Id of the thread.
        thread: String,
    },
    /// A turn of the thread is in progress.
    #[error("a turn of thread {thread} is still running; wait for its end, or interrupt it")]
    TurnInFlight {
        /// Id of the thread.
        thread: String,
    },
    /// The thread has fewer turns than the rollback drops.
    #[error("thread {thread} has {}", too_few(*asked, *has))]
    TooFewTurns {
        /// Id of the thread.
        thread: String,
        /// Number of turns to drop.
        asked: u32,
        /// Number of turns of the thread.
        has: i64,
    },
    /// The thread has no such job.
    #[error("job {job} does not belong to the thread")]
    JobNotFound {
        /// Key of the job.
        job: i64,
    },
    /// The row of a job has its end, or another worker.
    #[error("row {number} of the job has already ended or been taken")]
    JobItemEnded {
        /// Number of the row.
        number: u32,
    },
    /// The queue of the thread does not have the entry, or has it already.
    #[error(
        "the queue of thread {thread} has changed: message {entry} is not as expected; list it again"
    )]
    QueueChanged {
        /// Id of the thread.
        thread: String,
        /// Id of the entry.
        entry: String,
    },
    /// The cursor is not one of this list.
    #[error(
        "`cursor`: `{cursor}` is not a cursor of this list with these filters; use one that a page of \
         it returned, or start without one"
    )]
    BadCursor {
        /// The cursor.
        cursor: String,
    },
    /// A thread or a turn has the largest number of parts.
    #[error("{what} has reached its limit of {limit}; start a new thread")]
    TooMany {
        /// The full thing, such as a thread's turns or a turn's items.
        what: &'static str,
        /// The limit.
        limit: i64,
    },
    /// A line of an imported thread is invalid.
    #[error("line {line}: {why}")]
    ImportLine {
        /// From 1.
        line: usize,
        /// The fault.
        why: String,
    },
    /// The target of a copy has the thread, with other contents.
    #[error(
        "thread {thread} is in the target with other contents, which stay as they are; delete it \
         there, or choose another target"
    )]
    Differs {
        /// Id of the thread.
        thread: String,
    },
    /// The lines of a thread cannot be read or written.
    #[error("cannot read or write the lines of the thread: {0}")]
    Transfer(Arc<io::Error>),
    /// The store is closed.
    #[error("the thread store is closed; restart the server")]
    Closed,
}

impl StoreError {
    pub(crate) fn queue_changed(thread: &str, entry: &str) -> Self {
        Self::QueueChanged { thread: thread.to_owned(), entry: entry.to_owned() }
    }
}

/// Why turns cannot be dropped from a thread with fewer, and how many can.
fn too_few(asked: u32, has: i64) -> String {
    match has {
        0 => "no turns, so there is nothing to drop".to_owned(),
        1 => format!("only 1 turn, so {asked} cannot be dropped; drop 1"),
        _ => format!("only {has} turns, so {asked} cannot be dropped; drop at most {has}"),
    }
}
