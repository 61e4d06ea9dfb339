//! The tables, as migration steps that only go forward. A released step is never edited: a change
//! is a new step. Nodes that start at the same time wait for each other.
//!
//! `{id}` is a text that is compared byte by byte, `{serial}` an auto-incremented key, `{bytes}`
//! binary data, `{audit_triggers}` what keeps the rows of the audit log as they are.

use rusqlite::{Connection, TransactionBehavior};
use tokio_postgres::Client;

use super::postgres_error::postgres_error;
use super::sqlite_error::sqlite_error;
use crate::Error;

/// The steps, oldest first.
const STEPS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
    include_str!("schema/6.sql"),
    include_str!("schema/7.sql"),
    include_str!("schema/8.sql"),
    include_str!("schema/9.sql"),
    include_str!("schema/10.sql"),
    include_str!("schema/11.sql"),
    include_str!("schema/12.sql"),
];

/// The words of one kind of store.
struct Dialect {
    id: &'static str,
    serial: &'static str,
    bytes: &'static str,
    audit_triggers: &'static str,
}

const SQLITE: Dialect = Dialect {
    id: "TEXT",
    serial: "INTEGER PRIMARY KEY",
    bytes: "BLOB",
    audit_triggers: include_str!("schema/audit_triggers.sqlite.sql"),
};
const POSTGRES: Dialect = Dialect {
    id: "TEXT COLLATE \"C\"",
    serial: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    bytes: "BYTEA",
    audit_triggers: include_str!("schema/audit_triggers.postgres.sql"),
};
/// The advisory lock that nodes hold while they migrate; any number that is otherwise unused.
const LOCK: i64 = 0x6761_7465_7761_7901;
/// Longest wait of a node for another one, and longest duration of a step.
const PATIENCE: &str = "SET LOCAL statement_timeout = 60000";
const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)";
const FIND: &str = "SELECT COALESCE(MAX(version), 0) FROM schema_version";

pub(super) fn sqlite(connection: &mut Connection) -> Result<(), Error> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(sqlite_error)?;
    let run = |sql: &str| transaction.execute_batch(sql).map_err(sqlite_error);
    run(VERSIONS)?;
    let found = transaction.query_row(FIND, [], |row| row.get(0)).map_err(sqlite_error)?;
    for (version, step) in missing(found)? {
        run(&translate(step, &SQLITE))?;
        run(&record(version))?;
    }
    transaction.commit().map_err(sqlite_error)
}

pub(super) async fn postgres(client: &mut Client) -> Result<(), Error> {
    let transaction = client.transaction().await.map_err(postgres_error)?;
    let run = async |sql: &str| transaction.batch_execute(sql).await.map_err(postgres_error);
    run(PATIENCE).await?;
    run(&format!("SELECT pg_advisory_xact_lock({LOCK})")).await?;
    run(VERSIONS).await?;
    let found = transaction.query_one(FIND, &[]).await.map_err(postgres_error)?;
    for (version, step) in missing(found.try_get(0).map_err(postgres_error)?)? {
        run(&translate(step, &POSTGRES)).await?;
        run(&record(version)).await?;
    }
    transaction.commit().await.map_err(postgres_error)
}

fn missing(found: i64) -> Result<impl Iterator<Item = (usize, &'static str)>, Error> {
    let done = usize::try_from(found).unwrap_or(0);
    if done > STEPS.len() {
        return Err(Error::newer_schema(found, STEPS.len() as i64));
    }
    Ok(STEPS.iter().enumerate().skip(done).map(|(index, step)| (index + 1, *step)))
}

fn translate(step: &str, dialect: &Dialect) -> String {
    step.replace("{id}", dialect.id)
        .replace("{serial}", dialect.serial)
        .replace("{bytes}", dialect.bytes)
        .replace("{audit_triggers}", dialect.audit_triggers)
}

fn record(version: usize) -> String {
    format!("INSERT INTO schema_version (version) VALUES ({version})")
}
