//! The store in PostgreSQL, which several nodes share.
//!
//! - **Fence** (`append.rs`, `commit.rs`): a thread has one owner. The row of the thread in `lease`
//!   holds the owner, how often it changed (the epoch) and the number of the last append. A commit
//!   changes that row first, on the condition that it is as the owner knows it; so a node that lost
//!   the thread changes nothing. The writes of a running turn are one statement; others are a
//!   transaction. A commit whose answer was lost is recognized by a random number (`outcome.rs`), and
//!   not repeated.
//! - **Nodes** (`node.rs`): an open store has one row, renewed while it lives, by the clock of the
//!   database. The threads of a node whose row is too old are free. A node that cannot renew its
//!   row stops before that, by its own clock.
//! - **Rows** (`schema/`): the tables are those of the SQLite store without its compression, which
//!   PostgreSQL does itself. Forks and rollbacks write segments (`lineage.rs`) and copy no turn.
//!   Payloads are bytes as given; texts that can be compared are escaped (`value.rs`).
//! - **Search** (`lists.rs`, `text_index.rs`): names and previews with `LIKE`, over trigrams where the
//!   extension `pg_trgm` is installed; the words of turns with the built-in text search.
//! - **Connections** (`connect.rs`, `connection.rs`, `permits.rs`): a bounded pool, with turns that
//!   slow reads leave to writes. Each statement has a time limit here, too. No statement has a name unless the configuration
//!   says so, and no setting outlives its transaction, so that PgBouncer can pool transactions.
//! - **Migrations** (`schema.rs`) run by a command of their own, and leave the programs of the version
//!   before working.

mod append;
mod apply;
mod branches;
mod commit;
mod config;
mod connect;
mod connection;
mod failure;
mod inner;
mod jobs;
mod lineage;
mod lists;
mod node;
mod outcome;
mod owned;
mod permits;
mod queue;
mod read;
mod recovery;
mod retry;
mod rows;
mod schema;
mod store;
mod text_index;
mod tls;
mod usage;
mod value;

pub use config::PostgresConfig;
pub use schema::Migration;
pub(crate) use store::PostgresStore;
pub use store::{FoundDatabase, find_database, migrate};
