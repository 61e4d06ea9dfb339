//! A bounded pool of connections, and statements on one of them.
//!
//! With PgBouncer in transaction mode, the next transaction of a client can run in another session.
//! So statements are unnamed unless the configuration wants them prepared, and no
//! setting outlives its transaction.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Row, Statement};

use crate::StoreError;

use super::config::PostgresConfig;
use super::connect::{Servers, bad_url};
use super::failure::Failure;
use super::value::Value;

/// Time limit for opening a connection, and for waiting for a free one.
const CONNECT: Duration = Duration::from_secs(3);
/// Time limit for the answer to a statement: longer than the server's own, so that only a connection
/// without an end reaches it.
const ANSWER: Duration = Duration::from_secs(11);
/// The same of a statement that does little. A slower one goes on, if it does, while its outcome is
/// looked for on another connection.
const PROMPT: Duration = Duration::from_secs(3);
/// Bytes that are sent in a second at least.
const SLOWEST: usize = 1 << 20;
/// Time limit of a statement and of a wait for a lock inside of a transaction, for the server.
const LIMITS: &str = "SET LOCAL statement_timeout = 10000; SET LOCAL lock_timeout = 5000; \
     SET LOCAL idle_in_transaction_session_timeout = 10000";

/// A pool of connections to one database.
#[derive(Clone)]
pub(super) struct Database {
    pool: Pool,
    /// The prefix of tables: a quoted schema and a dot.
    prefix: Arc<str>,
    /// True if statements are prepared.
    prepares: bool,
    /// Describes the database in messages, without a password.
    pub(super) place: Arc<str>,
}

impl Database {
    /// Opens no connection yet.
    pub(super) fn new(config: &PostgresConfig) -> Result<Self, StoreError> {
        let servers = Servers::of(&config.url, config.password.as_deref(), config.tls.as_ref())?;
        let (options, place) = (servers.options.clone(), Arc::clone(&servers.place));
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_connect(options, servers, recycling);
        let pool = Pool::builder(manager)
            .max_size(config.connections())
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT))
            .create_timeout(Some(CONNECT))
            .recycle_timeout(Some(CONNECT))
            .build()
            .map_err(|error| bad_url(&error.to_string()))?;
        let prefix = format!("\"{}\".", config.schema.replace('"', "\"\"")).into();
        Ok(Self { pool, prefix, prepares: config.prepares, place })
    }

    pub(super) async fn connection(&self) -> Result<Connection, Failure> {
        let client = self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Failure::Database(error),
            PoolError::Timeout(_) => {
                Failure::NoConnection(format!("no connection within {} s", CONNECT.as_secs()))
            }
            other => Failure::NoConnection(other.to_string()),
        })?;
        let (prefix, prepares) = (Arc::clone(&self.prefix), self.prepares);
        Ok(Connection { client: Some(client), prefix, prepares, limit: Some(ANSWER) })
    }

    /// Closes the connections that are not in use after one of them gave no answer: if its server
    /// failed, they lead there, too.
    pub(super) fn note(&self, failure: &Failure) {
        if matches!(failure, Failure::Late) {
            self.close_idle();
        }
    }

    /// Closes the connections that are not in use.
    pub(super) fn close_idle(&self) {
        drop(self.pool.retain(|_, _| false));
    }

    /// A failure as an error about this database.
    pub(super) fn error(&self, failure: Failure) -> StoreError {
        failure.at(&self.place)
    }
}

/// A connection in use. Dropped halfway through a transaction or a statement, it is closed: the rest
/// of that would delay the next user.
pub(super) struct Connection {
    client: Option<Object>,
    /// The prefix of tables: a quoted schema and a dot.
    pub(super) prefix: Arc<str>,
    prepares: bool,
    /// Time limit for the answer to a statement.
    limit: Option<Duration>,
}

impl Connection {
    /// Waits for answers as long as it takes from now on.
    pub(super) fn without_limit(mut self) -> Self {
        self.limit = None;
        self
    }

    /// Runs a statement. `#` in it stands for the schema.
    pub(super) async fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Failure> {
        within(self.limit, self.query(sql, values)).await
    }

    pub(super) async fn row(&self, sql: &str, values: &[Value]) -> Result<Option<Row>, Failure> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// The same for a statement that only adds `bytes`.
    pub(super) async fn prompt_row(
        &self,
        sql: &str,
        values: &[Value],
        bytes: usize,
    ) -> Result<Option<Row>, Failure> {
        let seconds = u64::try_from(bytes / SLOWEST).unwrap_or(u64::MAX);
        let limit = PROMPT.saturating_add(Duration::from_secs(seconds));
        let rows = within(Some(limit), self.query(sql, values)).await?;
        Ok(rows.into_iter().next())
    }

    /// Runs a statement, and returns the number of rows that it changed.
    pub(super) async fn execute(&self, sql: &str, values: &[Value]) -> Result<u64, Failure> {
        let client = self.client()?;
        let sql = sql.replace('#', &self.prefix);
        let execute = async {
            if self.prepares {
                let statement = self.prepared(&sql, values).await?;
                return Ok(client.execute(&statement, &parameters(values)).await?);
            }
            Ok(client.execute_typed(&sql, &typed(values)).await?)
        };
        within(self.limit, execute).await
    }

    async fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Failure> {
        let client = self.client()?;
        let sql = sql.replace('#', &self.prefix);
        if self.prepares {
            let statement = self.prepared(&sql, values).await?;
            return Ok(client.query(&statement, &parameters(values)).await?);
        }
        Ok(client.query_typed(&sql, &typed(values)).await?)
    }

    /// The statement with the types of these values, prepared on this connection.
    async fn prepared(&self, sql: &str, values: &[Value]) -> Result<Statement, Failure> {
        let types: Vec<Type> = values.iter().map(Value::kind).collect();
        Ok(self.client()?.prepare_typed_cached(sql, &types).await?)
    }

    /// Runs statements without values. `#` in them stands for the schema.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        self.raw_batch(&sql.replace('#', &self.prefix)).await
    }

    /// Runs statements without values, which may contain names with `#`.
    pub(super) async fn raw_batch(&self, sql: &str) -> Result<(), Failure> {
        self.batch_within(self.limit, sql).await
    }

    async fn batch_within(&self, limit: Option<Duration>, sql: &str) -> Result<(), Failure> {
        let client = self.client()?;
        within(limit, async { Ok(client.batch_execute(sql).await?) }).await
    }

    pub(super) async fn begin(&self) -> Result<(), Failure> {
        let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {LIMITS}");
        self.batch_within(Some(PROMPT), &begin).await
    }

    /// Begins a transaction whose reads see one state.
    pub(super) async fn begin_snapshot(&self) -> Result<(), Failure> {
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {LIMITS}");
        self.batch_within(Some(PROMPT), &begin).await
    }

    pub(super) async fn end(&self) -> Result<(), Failure> {
        self.raw_batch("COMMIT").await
    }

    pub(super) async fn roll_back(&self) -> Result<(), Failure> {
        self.batch_within(Some(PROMPT), "ROLLBACK").await
    }

    /// Returns the connection to the pool.
    pub(super) fn give_back(mut self) {
        self.client.take();
    }

    /// Returns the connection to the pool after a transaction, which a refused write leaves open.
    pub(super) async fn give_back_after<T>(
        self,
        outcome: Result<T, Failure>,
    ) -> Result<T, Failure> {
        match &outcome {
            Ok(_) => self.give_back(),
            Err(failure) if failure.taints_connection() => drop(self),
            Err(_) => {
                self.roll_back().await?;
                self.give_back();
            }
        }
        outcome
    }

    fn client(&self) -> Result<&Object, Failure> {
        let missing = || Failure::NoConnection("the connection was given back".to_owned());
        self.client.as_ref().ok_or_else(missing)
    }
}

/// The answer, if it comes in time.
async fn within<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, answer).await.unwrap_or(Err(Failure::Late)),
        None => answer.await,
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn typed(values: &[Value]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (value as &(dyn ToSql + Sync), value.kind())).collect()
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}
