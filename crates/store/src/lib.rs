//! Stores threads, turns, items and model history durably in one SQLite file. Items and history are
//! opaque JSON text: this crate knows neither the protocol nor the turn loop, and reads no
//! environment.
//!
//! [`Store`] is the handle. One thread writes, in group commits; reads run on a small pool and
//! never block a write. [`Write`] lists the changes, and the methods of [`Store`] the reads.

mod apply;
pub mod check;
mod connection;
mod content;
mod cursor;
mod error;
mod failure;
mod identity;
mod integrity;
mod jobs;
mod joined;
mod keys;
mod lease;
mod lineage;
mod opening;
mod owner;
mod paths;
mod pool;
mod preflight;
mod query;
mod read;
mod record;
mod recovery;
mod removal;
mod rows;
pub mod salvage;
mod schema;
mod search;
mod store;
mod synchronous;
mod threads;
pub mod transfer;
mod usage;
mod writer;

pub use cursor::query_tag;
pub use error::{Fault, StoreError};
pub use jobs::{
    Job, JobItem, JobItemCounts, JobItemOutcome, JobItemStatus, JobStatus, JobWrite, MAX_JOB_ITEMS,
    NewJobItem,
};
pub use query::{Direction, ListQuery, Page, SortKey, TurnsQuery};
pub use record::{
    Fragment, ItemRow, OpenedThread, OrphanedTurn, Place, StoredThread, ThreadChanges, ThreadRecord, TurnOutcome,
    TurnRow, TurnStatus, Write,
};
pub use salvage::{Kept, Salvage, ThreadLoss};
pub use store::{OpenOptions, Store};
pub use synchronous::Synchronous;
pub use usage::{UsageQuery, UsageRecord, UsageRow};
