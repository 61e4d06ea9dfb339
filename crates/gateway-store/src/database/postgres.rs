//! PostgreSQL, for nodes on several machines: a pool of connections, which are replaced when they
//! break. Transactions run at READ COMMITTED: statements state what they expect, and the update
//! that checks rows also locks them.

use std::borrow::Cow;
use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::{
    GenericClient, Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError,
    RecyclingMethod, Runtime,
};
use futures_util::TryStreamExt;
use tokio::sync::Semaphore;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Config, NoTls};

use super::lane::{ATTEMPTS, Lane, MAX_WAITING, PATIENCE};
use super::postgres_error::{Failure, postgres_error};
use super::statement::{Statement, StatementResult};
use super::value::{Row, Value};
use super::{migrations, tls};
use crate::{Error, ErrorKind};

/// Connections per node.
const CONNECTIONS: usize = 8;
/// Attempts to connect at the start, each as long as [`CONNECT`].
const START_ATTEMPTS: usize = 6;
/// The oldest version, as `server_version_num`.
const LEAST_VERSION: i64 = 120_000;
/// Most concurrent reports: the other connections stay available for quick calls.
const REPORTS: usize = 2;
/// Time limit for opening a connection: below the time limit of a call.
const CONNECT: Duration = Duration::from_millis(1500);

#[derive(Debug)]
pub(super) struct Postgres {
    pool: Pool,
    waiting: Semaphore,
    reports: Semaphore,
}

impl Postgres {
    pub(super) async fn open(url: &str) -> Result<Self, Error> {
        let invalid = |error| Error::failed("[store] url is not usable").caused_by(error);
        let mut config: Config = url.parse().map_err(invalid)?;
        config.connect_timeout(CONNECT).tcp_user_timeout(PATIENCE);
        if config.get_application_name().is_none() {
            config.application_name("gateway");
        }
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        // Without `sslmode=require` the connection is plain, as there is no certificate to verify.
        let manager = match config.get_ssl_mode() {
            SslMode::Require => Manager::from_config(config, tls::Connector::new()?, recycling),
            _ => Manager::from_config(config, NoTls, recycling),
        };
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CONNECT))
            .create_timeout(Some(CONNECT))
            .recycle_timeout(Some(CONNECT))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move {
                    client.batch_execute(&bound(Lane::Write)).await.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| Error::new(ErrorKind::Failed).caused_by(error))?;
        let (waiting, reports) = (Semaphore::new(MAX_WAITING), Semaphore::new(REPORTS));
        let postgres = Self { pool, waiting, reports };
        let mut client = postgres.first_client().await?;
        check_server(&client).await?;
        migrations::postgres(&mut client).await?;
        Ok(postgres)
    }

    pub(super) async fn run(
        &self,
        lane: Lane,
        statements: Vec<Statement>,
    ) -> Result<Vec<StatementResult>, Error> {
        let too_many = |_| Error::unavailable("too many calls are waiting");
        let _place = self.waiting.try_acquire().map_err(too_many)?;
        let calls = async {
            let _turn = match lane {
                Lane::Report => self.reports.acquire().await.ok(),
                Lane::Read | Lane::Write => None,
            };
            let mut attempt = 1;
            loop {
                match self.attempt(lane, &statements).await {
                    Err(Failure::Conflict(_)) if attempt < ATTEMPTS => attempt += 1,
                    other => return other,
                }
            }
        };
        match tokio::time::timeout(lane.patience(), calls).await {
            Ok(result) => result.map_err(Into::into),
            Err(_) => Err(Error::unavailable("it took too long")),
        }
    }

    async fn attempt(
        &self,
        lane: Lane,
        statements: &[Statement],
    ) -> Result<Vec<StatementResult>, Failure> {
        let mut lent = Lent(Some(self.client().await?));
        let Some(client) = &mut lent.0 else { return Ok(Vec::new()) };
        let result = match (lane, statements) {
            (Lane::Read, [only]) => execute(client, only, &[]).await.map(|done| vec![done]),
            _ => transact(client, lane, statements).await,
        };
        lent.give_back();
        result
    }

    async fn client(&self) -> Result<Object, Error> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) => Failure::from(error).into(),
            PoolError::Timeout(_) => {
                Error::unavailable(format!("no connection within {} ms", CONNECT.as_millis()))
            }
            other => Error::new(ErrorKind::Unavailable).caused_by(other),
        })
    }

    /// A slow server gets more time at the start, when no request waits for it.
    async fn first_client(&self) -> Result<Object, Error> {
        for _ in 1..START_ATTEMPTS {
            match self.pool.get().await {
                Ok(client) => return Ok(client),
                Err(PoolError::Timeout(_)) => {}
                Err(_) => break,
            }
        }
        self.client().await
    }
}

/// Refuses a server that would fail later, or store other texts than it is sent.
async fn check_server(client: &Object) -> Result<(), Error> {
    const FACTS: &str = "SELECT current_setting('server_version_num')::bigint, \
                         current_setting('server_version'), pg_is_in_recovery(), getdatabaseencoding()";
    let facts = client.query_one(FACTS, &[]).await.map_err(postgres_error)?;
    let number: i64 = facts.try_get(0).map_err(postgres_error)?;
    let version: &str = facts.try_get(1).map_err(postgres_error)?;
    let is_standby: bool = facts.try_get(2).map_err(postgres_error)?;
    let encoding: &str = facts.try_get::<_, &str>(3).map_err(postgres_error)?;
    match refusal(number, version, is_standby, encoding) {
        Some((what, next_step)) => Err(Error::failed(what).next_step(next_step)),
        None => Ok(()),
    }
}

/// The fault of a server that cannot be used, and the next step.
fn refusal(
    number: i64,
    version: &str,
    is_standby: bool,
    encoding: &str,
) -> Option<(String, &'static str)> {
    if number < LEAST_VERSION {
        return Some((format!("PostgreSQL has version {version}"), "use version 12 or newer"));
    }
    if is_standby {
        let what = "PostgreSQL is a standby, which cannot be written".to_owned();
        return Some((what, "name the primary in [store] url"));
    }
    (encoding != "UTF8").then(|| {
        let what = format!("the database has the encoding {encoding}");
        (what, "create it with ENCODING 'UTF8' TEMPLATE template0")
    })
}

/// A connection in use. When a call is abandoned halfway, the connection is closed, not reused:
/// otherwise the rest of that call would delay the next one.
struct Lent(Option<Object>);

impl Lent {
    fn give_back(mut self) {
        self.0.take();
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
    }
}

/// The server's timeout of a statement, a little longer than the caller's.
fn bound(lane: Lane) -> String {
    format!("SET statement_timeout = {}", lane.patience().as_millis())
}

async fn transact(
    client: &mut Object,
    lane: Lane,
    statements: &[Statement],
) -> Result<Vec<StatementResult>, Failure> {
    let transaction = client.transaction().await?;
    if lane == Lane::Report {
        transaction.batch_execute(&bound(lane).replacen("SET", "SET LOCAL", 1)).await?;
    }
    let mut results = Vec::with_capacity(statements.len());
    for (index, statement) in statements.iter().enumerate() {
        let done = execute(&transaction, statement, &results).await?;
        if !statement.is_met(&done) {
            transaction.rollback().await?;
            return Err(Error::unmet(index).into());
        }
        results.push(done);
    }
    transaction.commit().await?;
    Ok(results)
}

async fn execute<C: GenericClient>(
    client: &C,
    statement: &Statement,
    earlier: &[StatementResult],
) -> Result<StatementResult, Failure> {
    let prepared = match &statement.sql {
        // A transaction of SQLite that writes has the file to itself: only this server needs the words.
        sql if statement.locks => client.prepare(&format!("{sql} FOR UPDATE")).await?,
        Cow::Borrowed(sql) => client.prepare_cached(sql).await?,
        Cow::Owned(sql) => client.prepare(sql).await?,
    };
    let stream = client.query_raw(&prepared, statement.values(earlier).iter()).await?;
    futures_util::pin_mut!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.try_next().await? {
        rows.push(read(&row)?);
    }
    let affected = stream.rows_affected().unwrap_or(rows.len() as u64);
    Ok(StatementResult { affected, rows })
}

fn read(row: &tokio_postgres::Row) -> Result<Row, Failure> {
    let mut values = Vec::with_capacity(row.len());
    for (index, column) in row.columns().iter().enumerate() {
        let value = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index)?.into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(index)?.map(i64::from).into(),
            Type::BOOL => row.try_get::<_, Option<bool>>(index)?.into(),
            Type::TEXT | Type::VARCHAR => row.try_get::<_, Option<&str>>(index)?.into(),
            Type::BYTEA => row.try_get::<_, Option<&[u8]>>(index)?.into(),
            ref other => {
                let why = format!("column {index} has the type {other}, which no record has");
                return Err(Error::failed(why).into());
            }
        };
        values.push(value);
    }
    Ok(Row(values))
}

impl ToSql for Value {
    fn to_sql(
        &self,
        target: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, target) {
            (Self::Null, _) => Ok(IsNull::Yes),
            (Self::Integer(value), &Type::INT4) => i32::try_from(*value)?.to_sql(target, out),
            (Self::Integer(value), &Type::INT8) => value.to_sql(target, out),
            (Self::Text(text), &(Type::TEXT | Type::VARCHAR)) => {
                without_nul(text).to_sql(target, out)
            }
            (Self::Bytes(bytes), &Type::BYTEA) => (&**bytes).to_sql(target, out),
            _ => Err(format!("{self:?} is not a value for a column of type {target}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

/// PostgreSQL's texts cannot contain NUL: the replacement character is stored instead.
fn without_nul(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::refusal;

    #[test]
    fn servers_that_would_fail_later_are_refused() {
        assert_eq!(refusal(150_018, "15.18", false, "UTF8"), None);
        for (number, is_standby, encoding, expected) in [
            (110_022, false, "UTF8", "PostgreSQL has version"),
            (150_018, true, "UTF8", "is a standby"),
            (150_018, false, "SQL_ASCII", "the encoding SQL_ASCII"),
        ] {
            let (what, _) = refusal(number, "x", is_standby, encoding).unwrap();
            assert!(what.contains(expected), "{what}");
        }
    }
}
