//! Jobs: a thread gives each row of a table to an agent. A job and its rows are stored, so that a
//! job that a crash or an interruption cut short is continued without repeating a finished row.
//!
//! What a row is for is the caller's business: its values and its result are opaque JSON text.

mod apply;
mod keys;
pub(crate) mod read;
mod record;

pub(crate) use apply::{apply, remove_of, sweep};
pub use keys::MAX_JOB_ITEMS;
pub(crate) use keys::job_of;
pub use record::{
    Job, JobItem, JobItemCounts, JobItemOutcome, JobItemStatus, JobStatus, JobWrite, NewJobItem,
};
