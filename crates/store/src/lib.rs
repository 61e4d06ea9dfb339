//! Stores threads, turns, items and model history. Items and history are opaque JSON text: this crate
//! knows neither the protocol nor the turn loop, and reads no environment.
//!
//! [`Store`] is the handle, over one of the backends that [`StoreConfig`] names: `sqlite` is durable,
//! in one file; `postgres` is shared by several nodes; `memory` keeps the same contract for what ends
//! with the process. [`Write`] lists the changes, and the methods of [`Store`] the reads. The tests of
//! the contract run on each backend.
//!
//! # Another backend
//!
//! It provides what [`Store`] does: `commit` of a few kinds of [`Write`], which checks the lease of
//! the thread and the owner of the turn in the same transaction; `open_thread`, `write_unloaded` and
//! `release`; `claim_orphaned_turns`; and a dozen paged reads. No other part of the program knows
//! the tables, except `agentd doctor`.

mod cursor;
mod error;
mod jobs;
mod memory;
mod postgres;
mod query;
mod queue;
mod record;
mod sqlite;
mod store;
mod text;
pub mod transfer;
mod usage;

pub use cursor::query_tag;
pub use error::{Fault, StoreError};
pub use jobs::{
    Job, JobItem, JobItemCounts, JobItemOutcome, JobItemStatus, JobStatus, JobWrite, MAX_JOB_ITEMS,
    NewJobItem,
};
pub use postgres::{FoundDatabase, Migration, PostgresConfig, find_database, migrate};
pub use query::{Direction, ListQuery, Page, SortKey, TextMatch, TextQuery, TurnsQuery};
pub use queue::{QueueWrite, QueuedEntry};
pub use record::{
    Fragment, ItemRow, OpenedThread, OrphanedTurn, Place, StoredThread, ThreadChanges,
    ThreadRecord, TurnElsewhere, TurnOutcome, TurnRow, TurnStatus, Write,
};
pub use sqlite::salvage::{Kept, Salvage, ThreadLoss};
pub use sqlite::{SqliteConfig, Synchronous, check, salvage};
pub use store::{Notice, Store, StoreConfig};
pub use text::{ItemTexts, Snippet, snippet};
pub use usage::{UsageQuery, UsageRecord, UsageRow};
