//! The store: one thin layer over an embedded SQLite file and over PostgreSQL, which take the same
//! SQL. It knows statements and rows; what they mean is said in `records`.
//!
//! Every call is bounded: at most [`MOST_WAITING`] wait at once and none longer than [`PATIENCE`]
//! (a report: [`REPORT_PATIENCE`]). A store that is away is an error, and is tried again by the next
//! call. Placeholders are `$1`, `$2` …; sums are cast (`CAST(SUM(x) AS BIGINT)`).

mod migrations;
mod postgres;
mod sqlite;
mod tls;
mod value;

use std::borrow::Cow;
use std::time::Duration;

pub use value::{Row, Value};

use gateway_policy::settings::StoreUrl;

/// How long a call may take in all.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long a report may take.
pub const REPORT_PATIENCE: Duration = Duration::from_secs(30);
/// Most calls that wait; the next one is refused.
pub const MOST_WAITING: usize = 1024;
/// How often a transaction that lost against another one is tried.
const ATTEMPTS: u32 = 6;

/// What a call answers instead.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DatabaseError {
    /// It is away, too slow, or has too much to do. A change that was under way may have happened.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The statement of that index did not touch as many rows as expected: nothing was changed.
    #[error("statement {0} of a transaction found something else than it expects")]
    Unmet(usize),
    /// There is such a row already, or one that is referred to is missing.
    #[error("the store refuses a row: {0}")]
    Conflict(String),
    /// Anything else: the statement, the file or its contents are wrong.
    #[error("the store cannot do that: {0}")]
    Failed(String),
    /// A later version has written it.
    #[error(
        "the store has version {found}, this program knows {known}: run the later program, or restore a backup"
    )]
    Newer {
        /// The store's.
        found: i64,
        /// Ours.
        known: i64,
    },
}

impl DatabaseError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// A statement with its values.
#[derive(Clone, Debug)]
pub struct Statement {
    sql: Cow<'static, str>,
    values: Vec<Value>,
    expected: Option<u64>,
}

impl Statement {
    /// Of a text that is always the same: it is prepared once a connection.
    #[must_use]
    pub fn new(sql: &'static str, values: impl Into<Vec<Value>>) -> Self {
        Self { sql: Cow::Borrowed(sql), values: values.into(), expected: None }
    }

    /// Of a text put together for this call; never from what a client said.
    #[must_use]
    pub fn composed(sql: String, values: Vec<Value>) -> Self {
        Self { sql: Cow::Owned(sql), values, expected: None }
    }

    /// Fails the transaction unless it touches or yields that many rows.
    #[must_use]
    pub fn expecting(mut self, rows: u64) -> Self {
        self.expected = Some(rows);
        self
    }

    fn is_met(&self, done: &Done) -> bool {
        self.expected.is_none_or(|expected| done.affected == expected)
    }
}

/// A statement's result.
#[derive(Debug, Default)]
pub struct Done {
    /// Rows changed, or yielded.
    pub affected: u64,
    /// Rows yielded.
    pub rows: Vec<Row>,
}

/// A store. Cheap to share behind an `Arc`; all calls may run at once.
#[derive(Debug)]
pub struct Database(Backend);

#[derive(Debug)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

/// Which of the lanes takes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Read,
    Report,
    Write,
}

impl Lane {
    fn patience(self) -> Duration {
        match self {
            Self::Report => REPORT_PATIENCE,
            Self::Read | Self::Write => PATIENCE,
        }
    }
}

impl Database {
    /// Opens it and brings its tables to the version of this program; several nodes may do so at
    /// once. The folder of a SQLite file must exist.
    ///
    /// # Errors
    /// It is away, is no store of this kind, or a later version's.
    pub async fn open(url: &StoreUrl) -> Result<Self, DatabaseError> {
        Ok(Self(match url {
            StoreUrl::Sqlite(file) => Backend::Sqlite(sqlite::Sqlite::open(file).await?),
            StoreUrl::Postgres(url) => Backend::Postgres(postgres::Postgres::open(url).await?),
        }))
    }

    /// Reads.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub async fn query(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        self.only(Lane::Read, statement).await
    }

    /// Reads what may take long, without keeping others waiting.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub async fn report(&self, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        self.only(Lane::Report, statement).await
    }

    /// Runs all statements or none, in order, and again if another transaction was in the way.
    ///
    /// # Errors
    /// See [`DatabaseError`]. After `Unavailable` it is not known whether it happened.
    pub async fn transact(&self, statements: Vec<Statement>) -> Result<Vec<Done>, DatabaseError> {
        self.run(Lane::Write, statements).await
    }

    async fn only(&self, lane: Lane, statement: Statement) -> Result<Vec<Row>, DatabaseError> {
        let done = self.run(lane, vec![statement]).await?;
        Ok(done.into_iter().next().unwrap_or_default().rows)
    }

    async fn run(
        &self,
        lane: Lane,
        statements: Vec<Statement>,
    ) -> Result<Vec<Done>, DatabaseError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.run(lane, statements).await,
            Backend::Postgres(postgres) => postgres.run(lane, statements).await,
        }
    }
}

#[cfg(test)]
#[path = "database/database_tests.rs"]
mod tests;
