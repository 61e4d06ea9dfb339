//! The store in one SQLite file. One thread writes, in group commits; reads run on a small pool and
//! never block a write.
//!
//! # How a thread is stored
//!
//! A thread's model history is loaded only when a turn needs it: loading a thread reads one row.
//! The store keeps three things for each thread: turns with their items (for clients), fragments
//! of the model's history (for the provider), and the thread's own row.
//!
//! - **Keys** hold thread, turn ordinal and position, so that the rows of a thread are adjacent
//!   and a page is a range. **Segments** (`lineage.rs`) list the runs of turns, of one or several
//!   threads, that a thread shows: a fork or a rollback writes a few of them and copies nothing.
//!   Ordinals only grow along a lineage. The turns of a deleted thread that forks show are kept
//!   until the last of those forks is deleted (`removal.rs`).
//! - **Joined history** (`joined.rs`): every 16 turns, the fragments added since the last time are
//!   stored again as one compressed piece, so that a long history loads from few rows. The rows
//!   remain authoritative.
//! - **Text** (`content.rs`) of 512 bytes and more is compressed; from 8 KiB on it is cut into
//!   chunks at content-defined boundaries, and equal chunks are stored once.
//! - **Search** (`search.rs`): a narrow table with a trigram index holds case-folded names and
//!   previews. A term that matches few threads is looked up there; for one that matches many, the
//!   list is scanned.
//! - **Words** (`text_index.rs`, `text_search.rs`): an index of the words of ended turns, filled after
//!   their end and, for a file of an earlier version, from the newest turn back to the oldest.
//! - **Queues** (`queue.rs`): the messages of a thread that wait for a turn of their own.
//! - **Jobs** (`jobs.rs`): the rows of a table, each with the worker's result. A row's key holds
//!   job and number. `threads/src/agents/jobs/` runs them.
//! - **Leases** (`lease.rs`): a store writes only to threads whose lease it holds. The lock file
//!   of a holder shows whether it is alive; the lease of a dead holder is free, and its next
//!   holder also takes over its orphaned turns.
//! - **Opening** (`opening.rs`): `threads.lock` serializes the stores of a home and records how
//!   the last one ended. A database that was closed properly and has not changed since is used at
//!   once; otherwise it is checked first, and its log is compared with the index next to it.
//!   `agentd doctor` (`check.rs`) runs the same checks.
//! - **Identity** (`identity.rs`): before and after each write the writer checks that the database
//!   and its log are still at their paths and have not become shorter. If not, nothing further is
//!   stored or reported as stored, and the log is kept for the next start.
//! - **The log** (`log_writes.rs`): what a commit appends to the write-ahead log is written in one
//!   piece, not frame by frame.
//! - **Salvage** (`salvage/`) reads the pages of a damaged database itself, recognizes rows by
//!   their shape and keys, and fills a new database under the same keys, which replaces the
//!   damaged one when complete. Lost rows of threads and turns are reconstructed from the rows
//!   that name them.
//! - **Migrations** (`schema.rs`) only go forward; a database of each released version is kept in
//!   `tests/old/` and opened by a test.

mod apply;
mod branches;
pub mod check;
mod connection;
mod content;
mod failure;
mod identity;
mod integrity;
mod jobs;
mod joined;
mod keys;
mod lease;
mod lineage;
mod log_writes;
mod opening;
mod owner;
mod paths;
mod pool;
mod preflight;
mod queue;
mod read;
mod recovery;
mod removal;
mod rows;
pub mod salvage;
mod schema;
mod search;
mod store;
mod synchronous;
mod text_index;
mod text_search;
mod threads;
mod usage;
mod writer;

pub use store::SqliteConfig;
pub(crate) use store::SqliteStore;
pub use synchronous::Synchronous;
