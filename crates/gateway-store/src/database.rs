//! The store: one thin layer over an embedded SQLite file and over PostgreSQL, which take the same
//! SQL. It knows statements and rows; what they mean is said in `records`.
//!
//! Every call is bounded: at most [`MAX_WAITING`] wait at once and none longer than [`PATIENCE`]
//! (a report: [`REPORT_PATIENCE`]). A store that is away is an error, and is tried again by the next
//! call. Placeholders are `$1`, `$2` …; sums are cast (`CAST(SUM(x) AS BIGINT)`).

mod error;
mod lane;
mod migrations;
mod postgres;
mod postgres_error;
mod sqlite;
mod statement;
mod tls;
mod value;

pub use error::DatabaseError;
pub use lane::{MAX_WAITING, PATIENCE, REPORT_PATIENCE};
pub use statement::{Statement, StatementResult};
pub use value::{Row, Value};

use lane::Lane;

use gateway_policy::settings::StoreUrl;

/// A store. Cheap to share behind an `Arc`; all calls may run at once.
#[derive(Debug)]
pub struct Database(Backend);

#[derive(Debug)]
enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
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
    pub async fn transact(
        &self,
        statements: Vec<Statement>,
    ) -> Result<Vec<StatementResult>, DatabaseError> {
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
    ) -> Result<Vec<StatementResult>, DatabaseError> {
        match &self.0 {
            Backend::Sqlite(sqlite) => sqlite.run(lane, statements).await,
            Backend::Postgres(postgres) => postgres.run(lane, statements).await,
        }
    }
}

#[cfg(test)]
#[path = "database/database_tests.rs"]
mod tests;
