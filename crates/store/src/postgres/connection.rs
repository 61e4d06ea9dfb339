//! A bounded pool of connections, and statements on one of them.
//!
//! With PgBouncer in transaction mode, the next transaction of a client can run in another session.
//! So statements are unnamed unless the configuration wants them prepared, and no
//! setting outlives its transaction.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, NoTls, Row, Statement};

use crate::StoreError;
use crate::error::Fault;

use super::config::PostgresConfig;
use super::failure::{Failure, described};
use super::tls::Connector;
use super::value::Value;

/// Time limit for opening a connection, and for waiting for a free one.
const CONNECT: Duration = Duration::from_secs(3);
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
        let mut options: Config = config.url.parse().map_err(|error| {
            let why = described(&error);
            bad_url(&format!("it is not the URL of a PostgreSQL database ({why})"))
        })?;
        let place: Arc<str> = place_of(&options).into();
        if let Some(password) = &config.password {
            options.password(password);
        }
        options.connect_timeout(CONNECT).tcp_user_timeout(Duration::from_secs(10));
        if options.get_application_name().is_none() {
            options.application_name("agentd");
        }
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match (options.get_ssl_mode(), &config.tls) {
            (SslMode::Disable, _) | (SslMode::Prefer, None) => {
                Manager::from_config(options, NoTls, recycling)
            }
            (_, Some(tls)) => Manager::from_config(options, Connector(Arc::clone(tls)), recycling),
            (_, None) => return Err(bad_url("it requires TLS, for which no roots are given")),
        };
        let pool = Pool::builder(manager)
            .max_size(config.connections.max(2))
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
        Ok(Connection { client: Some(client), prefix, prepares })
    }

    /// A failure as an error about this database.
    pub(super) fn error(&self, failure: Failure) -> StoreError {
        failure.at(&self.place)
    }
}

fn bad_url(why: &str) -> StoreError {
    StoreError::Unavailable(Fault::new(format!(
        "the URL of the thread store cannot be used: {why}; write \
         postgres://USER:PASSWORD@HOST/DATABASE?sslmode=require"
    )))
}

fn place_of(options: &Config) -> String {
    let mut place = "PostgreSQL at".to_owned();
    let ports = options.get_ports();
    for (at, host) in options.get_hosts().iter().enumerate() {
        let separator = if at > 0 { "," } else { " " };
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        // A `String` takes any text.
        let _ = match host {
            Host::Tcp(name) => write!(place, "{separator}{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => write!(place, "{separator}{}:{port}", path.display()),
        };
    }
    let _ = write!(place, "/{}", options.get_dbname().unwrap_or_default());
    place
}

/// A connection in use. Dropped halfway through a transaction or a statement, it is closed: the rest
/// of that would delay the next user.
pub(super) struct Connection {
    client: Option<Object>,
    prefix: Arc<str>,
    prepares: bool,
}

impl Connection {
    /// Runs a statement. `#` in it stands for the schema.
    pub(super) async fn rows(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Failure> {
        let client = self.client()?;
        let sql = sql.replace('#', &self.prefix);
        if self.prepares {
            let statement = self.prepared(&sql, values).await?;
            return Ok(client.query(&statement, &parameters(values)).await?);
        }
        Ok(client.query_typed(&sql, &typed(values)).await?)
    }

    pub(super) async fn row(&self, sql: &str, values: &[Value]) -> Result<Option<Row>, Failure> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a statement, and returns the number of rows that it changed.
    pub(super) async fn execute(&self, sql: &str, values: &[Value]) -> Result<u64, Failure> {
        let client = self.client()?;
        let sql = sql.replace('#', &self.prefix);
        if self.prepares {
            let statement = self.prepared(&sql, values).await?;
            return Ok(client.execute(&statement, &parameters(values)).await?);
        }
        Ok(client.execute_typed(&sql, &typed(values)).await?)
    }

    /// The statement with the types of these values, prepared on this connection.
    async fn prepared(&self, sql: &str, values: &[Value]) -> Result<Statement, Failure> {
        let types: Vec<Type> = values.iter().map(Value::kind).collect();
        Ok(self.client()?.prepare_typed_cached(sql, &types).await?)
    }

    /// Runs statements without values.
    pub(super) async fn batch(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.client()?.batch_execute(&sql.replace('#', &self.prefix)).await?)
    }

    pub(super) async fn begin(&self) -> Result<(), Failure> {
        self.batch(&format!("BEGIN ISOLATION LEVEL READ COMMITTED; {LIMITS}")).await
    }

    /// Begins a transaction whose reads see one state.
    pub(super) async fn begin_snapshot(&self) -> Result<(), Failure> {
        self.batch(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {LIMITS}")).await
    }

    pub(super) async fn end(&self) -> Result<(), Failure> {
        self.batch("COMMIT").await
    }

    pub(super) async fn roll_back(&self) -> Result<(), Failure> {
        self.batch("ROLLBACK").await
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
