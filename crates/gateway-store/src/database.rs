//! The store: one thin layer over an embedded SQLite file and over PostgreSQL, which accept the
//! same SQL. It handles statements and rows; `records` gives them their meaning.
//!
//! Every call is bounded: at most [`MAX_WAITING`] calls wait at a time, none longer than
//! [`PATIENCE`] (reports: [`REPORT_PATIENCE`]). When the store is unreachable, a call returns an
//! error and the next call tries again. Placeholders are `$1`, `$2` …; sums are cast (`CAST(SUM(x)
//! AS BIGINT)`).

mod lane;
mod migrations;
mod postgres;
mod postgres_error;
mod sqlite;
mod sqlite_error;
mod statement;
mod tls;
mod value;

pub use lane::{MAX_WAITING, PATIENCE, REPORT_PATIENCE};
pub use statement::{Statement, StatementResult};
pub use value::{Row, Value};

use lane::Lane;

use crate::Error;
use gateway_policy::settings::StoreUrl;

/// Advice about a store that cannot be opened.
const UNREACHABLE: &str = "check `url` in [store], and that this program can reach and write it";

/// A store. Cheap to share behind an `Arc`; calls may run concurrently.
#[derive(Debug)]
pub struct Database(Backend);

#[derive(Debug)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

impl Database {
    /// Opens the store and migrates its tables to the version of this program; several nodes may do
    /// so at once. The folder of a SQLite file must exist.
    ///
    /// # Errors
    /// The store is unreachable, is not a store of this kind, or was written by a later version.
    pub async fn open(url: &StoreUrl) -> Result<Self, Error> {
        let opened = match url {
            StoreUrl::Sqlite(file) => sqlite::Sqlite::open(file).await.map(Backend::Sqlite),
            StoreUrl::Postgres(url) => postgres::Postgres::open(url).await.map(Backend::Postgres),
        };
        match opened {
            Ok(backend) => Ok(Self(backend)),
            Err(error) if error.is_unavailable() => Err(error.next_step(UNREACHABLE)),
            Err(error) => Err(error),
        }
    }

    /// Runs a query.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn query(&self, statement: Statement) -> Result<Vec<Row>, Error> {
        self.only(Lane::Read, statement).await
    }

    /// Runs a query that may take long, in a lane of its own, so that it does not delay other
    /// calls.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn report(&self, statement: Statement) -> Result<Vec<Row>, Error> {
        self.only(Lane::Report, statement).await
    }

    /// Runs all statements or none, in order. Retries after a conflict with another transaction.
    ///
    /// # Errors
    /// See [`Error`]. After [`crate::ErrorKind::Unavailable`], the transaction may or may not have been
    /// committed.
    pub async fn transact(
        &self,
        statements: Vec<Statement>,
    ) -> Result<Vec<StatementResult>, Error> {
        self.run(Lane::Write, statements).await
    }

    async fn only(&self, lane: Lane, statement: Statement) -> Result<Vec<Row>, Error> {
        let done = self.run(lane, vec![statement]).await?;
        Ok(done.into_iter().next().unwrap_or_default().rows)
    }

    async fn run(
        &self,
        lane: Lane,
        statements: Vec<Statement>,
    ) -> Result<Vec<StatementResult>, Error> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.run(lane, statements).await,
            Backend::Postgres(postgres) => postgres.run(lane, statements).await,
        }
    }
}

#[cfg(test)]
#[path = "database/database_tests.rs"]
mod tests;
