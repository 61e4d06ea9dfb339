//! Jobs: a thread gives each row of a table to an agent. A job and its rows are stored, so that a
//! job that a crash or an interruption cut short is continued without repeating a finished row.
//!
//! What a row is for is the caller's business: its values and its result are opaque JSON text.

mod codes;

/// The largest number of a row.
pub const MAX_JOB_ITEMS: u32 = (1 << 20) - 1;

/// A stored job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its key, which the rows of the job refer to.
    pub key: i64,
    /// Id of the job.
    pub id: String,
    /// Status.
    pub status: JobStatus,
    /// Unix milliseconds.
    pub created_at_ms: i64,
    /// Unix milliseconds; `None` while it runs.
    pub ended_at_ms: Option<i64>,
    /// The caller's data about the job, JSON.
    pub detail: String,
}

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// It runs, or its process died while it ran.
    Running,
    /// Each row has its end.
    Completed,
    /// The job could not be carried on.
    Failed,
    /// It was interrupted, or some of its rows were stopped: it can go on.
    Cancelled,
}

/// A row of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobItem {
    /// Position in the job, from 1.
    pub number: u32,
    /// Id, unique in its job.
    pub id: String,
    /// Its values, JSON.
    pub row: String,
    /// Status.
    pub status: JobItemStatus,
    /// Id of the thread that works or worked on it.
    pub worker: Option<String>,
    /// The result of a completed row, JSON.
    pub result: Option<String>,
    /// Why the row failed or was stopped.
    pub error: Option<String>,
}

/// The status of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobItemStatus {
    /// No worker has it.
    Pending,
    /// A worker has it.
    Running,
    /// It has a result.
    Completed,
    /// It has an error in place of a result.
    Failed,
    /// Its work was cut off: it is pending again when the job goes on.
    Stopped,
    /// A worker ended the whole job before the row had its end. As final as a result.
    Cancelled,
}

/// The number of a job's rows in each status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobItemCounts {
    /// See [`JobItemStatus::Pending`].
    pub pending: u32,
    /// See [`JobItemStatus::Running`].
    pub running: u32,
    /// See [`JobItemStatus::Completed`].
    pub completed: u32,
    /// See [`JobItemStatus::Failed`].
    pub failed: u32,
    /// See [`JobItemStatus::Stopped`].
    pub stopped: u32,
    /// See [`JobItemStatus::Cancelled`].
    pub cancelled: u32,
    /// Bytes of all results.
    pub result_bytes: u64,
}

/// A row to add to a job.
#[derive(Debug, Clone)]
pub struct NewJobItem {
    /// See [`JobItem::number`].
    pub number: u32,
    /// See [`JobItem::id`].
    pub id: String,
    /// See [`JobItem::row`].
    pub row: String,
}

/// The outcome of a worker's row.
#[derive(Debug, Clone)]
pub enum JobItemOutcome {
    /// Its result, JSON.
    Completed {
        /// The result.
        result: String,
        /// True if the whole job ends with it: the other rows without an end are cancelled.
        ends_job: bool,
    },
    /// Why it has none, for good.
    Failed(String),
    /// Why the work was cut off.
    Stopped(String),
}

/// A change of a job. The thread of the job must be leased.
#[derive(Debug, Clone)]
pub enum JobWrite {
    /// Creates a job that runs.
    Create {
        /// Id of the job.
        id: String,
        /// The hash of the job's task: see [`crate::Store::latest_job`].
        fingerprint: [u8; 32],
        /// Unix milliseconds.
        created_at_ms: i64,
        /// See [`Job::detail`].
        detail: String,
    },
    /// Adds rows. A row that is there already is kept as it is.
    AddItems {
        /// Key of the job.
        job: i64,
        /// The rows.
        items: Vec<NewJobItem>,
    },
    /// The job runs again: its running and stopped rows are pending again.
    Reopen {
        /// Key of the job.
        job: i64,
        /// See [`Job::detail`].
        detail: String,
    },
    /// Replaces what is known of a job, and leaves its rows and its status as they are.
    Describe {
        /// Key of the job.
        job: i64,
        /// See [`Job::detail`].
        detail: String,
    },
    /// A worker gets a pending row.
    StartItem {
        /// Key of the job.
        job: i64,
        /// Number of the row.
        number: u32,
        /// Id of the worker's thread.
        worker: String,
    },
    /// Ends the work on a row. Refused when another worker has the row by now, or when it has its
    /// end. A result is also taken from the last worker of a row that was stopped.
    FinishItem {
        /// Key of the job.
        job: i64,
        /// Number of the row.
        number: u32,
        /// Id of the worker's thread.
        worker: String,
        /// Its end.
        outcome: JobItemOutcome,
    },
    /// Ends a job, or interrupts it. Its rows without an end are stopped.
    Finish {
        /// Key of the job.
        job: i64,
        /// The final status.
        status: JobStatus,
        /// Unix milliseconds.
        ended_at_ms: i64,
    },
}
