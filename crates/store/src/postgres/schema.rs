//! The tables of a schema, as steps that only go forward, and the check that this program can use
//! what it finds.
//!
//! Nodes of adjacent versions run at the same time during an upgrade, so a step only adds what the
//! version before does not read (expand). What an old version needs is removed by a later step
//! (contract), which names the oldest program that it leaves working.

use crate::StoreError;
use crate::error::Fault;

use super::config::PostgresConfig;
use super::connection::{Connection, Database};
use super::failure::Failure;
use super::value::Columns;

/// A version of the tables.
struct Step {
    /// Never changes once it is released.
    sql: &'static str,
    /// The oldest version that a program may know to work with these tables.
    oldest_program: i64,
}

/// All versions, from 1 on.
const STEPS: &[Step] = &[Step { sql: include_str!("schema/1.sql"), oldest_program: 1 }];
/// The oldest version that this program works with.
const OLDEST: i64 = 1;
/// The oldest server, as `server_version_num`.
const OLDEST_SERVER: i64 = 140_000;
/// The lock of a migration; any number that is otherwise unused.
const LOCK: i64 = 0x6167_656e_7464_0001;

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS #schema_version (
    version         BIGINT PRIMARY KEY,
    oldest_program  BIGINT NOT NULL,
    applied_at      TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp()
)";

/// Large columns, which are compressed with lz4 where the server can.
const LARGE: [(&str, &str); 3] =
    [("item", "payload"), ("history", "fragment"), ("job_item", "result")];

/// The outcome of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// Describes the database: hosts, ports and its name.
    pub place: String,
    /// The version that was found; 0 for an empty schema.
    pub from: i64,
    /// The version that the schema has now.
    pub to: i64,
    /// True if names and previews have a trigram index, which needs the extension `pg_trgm`.
    pub has_trigrams: bool,
}

/// Creates the tables of a schema, or brings them to the version of this program. Several processes
/// may do so at once.
///
/// # Errors
/// The database cannot be used, or its schema is newer than this program.
pub(super) async fn migrate(
    database: &Database,
    config: &PostgresConfig,
) -> Result<Migration, Failure> {
    // Indexes of large tables take their time.
    let connection = database.connection().await?.without_limit();
    check_server(&connection, database).await?;
    connection.batch("BEGIN; SET LOCAL statement_timeout = 0").await?;
    connection.rows("SELECT pg_advisory_xact_lock($1)", &[LOCK.into()]).await?;
    let schema = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    if connection.row(schema, &[config.schema.as_str().into()]).await?.is_none() {
        let name = config.schema.replace('"', "\"\"");
        connection.raw_batch(&format!("CREATE SCHEMA \"{name}\"")).await?;
    }
    connection.batch(VERSIONS).await?;
    let (from, oldest_program) = version(&connection).await?;
    if oldest_program > latest() {
        return Err(newer(database, config, from, oldest_program).into());
    }
    let done = usize::try_from(from).unwrap_or(0);
    for (number, step) in (1_i64..).zip(STEPS).skip(done) {
        connection.batch(step.sql).await?;
        let record = "INSERT INTO #schema_version (version, oldest_program) VALUES ($1, $2)";
        connection.execute(record, &[number.into(), step.oldest_program.into()]).await?;
    }
    if from == 0 && can_compress_with_lz4(&connection).await? {
        for (table, column) in LARGE {
            let set = format!("ALTER TABLE #{table} ALTER COLUMN {column} SET COMPRESSION lz4");
            connection.batch(&set).await?;
        }
    }
    connection.end().await?;
    let has_trigrams = index_trigrams(&connection).await?;
    connection.give_back();
    let place = database.place.to_string();
    Ok(Migration { place, from, to: from.max(latest()), has_trigrams })
}

async fn can_compress_with_lz4(connection: &Connection) -> Result<bool, Failure> {
    let found = "SELECT 1 FROM pg_settings
                 WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)";
    Ok(connection.row(found, &[]).await?.is_some())
}

/// Creates the index of names and previews where the extension is installed, without a lock that
/// writes wait for. Returns whether the index can be used.
async fn index_trigrams(connection: &Connection) -> Result<bool, Failure> {
    let found = "SELECT nspname::text FROM pg_extension JOIN pg_namespace
                 ON pg_namespace.oid = extnamespace WHERE extname = 'pg_trgm'";
    let Some(row) = connection.row(found, &[]).await? else { return Ok(false) };
    let schema = Columns::of(&row).text()?.replace('"', "\"\"");
    if trigram_index(connection).await? == Index::Unfinished {
        // Of a migration that was ended in the middle.
        connection.batch("DROP INDEX CONCURRENTLY IF EXISTS #thread_searched").await?;
    }
    let prefix = &connection.prefix;
    let create = format!(
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS thread_searched ON {prefix}thread
         USING gin (searched \"{schema}\".gin_trgm_ops)"
    );
    let created = connection.raw_batch(&create).await;
    match trigram_index(connection).await? {
        // Another process may create it at the same time, and finish it later.
        Index::Usable | Index::InWork => Ok(true),
        Index::Missing | Index::Unfinished => created.map(|()| false),
    }
}

/// The index of names and previews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Index {
    Missing,
    Usable,
    /// Somebody creates it now.
    InWork,
    /// Its creation was ended in the middle.
    Unfinished,
}

async fn trigram_index(connection: &Connection) -> Result<Index, Failure> {
    let table = format!("{}thread_searched", connection.prefix);
    let found = "SELECT indisvalid, EXISTS (SELECT 1 FROM pg_stat_progress_create_index AS work
                     WHERE work.index_relid = pg_index.indexrelid)
                 FROM pg_index WHERE indexrelid = to_regclass($1)";
    let Some(row) = connection.row(found, &[table.as_str().into()]).await? else {
        return Ok(Index::Missing);
    };
    let mut columns = Columns::of(&row);
    Ok(match (columns.flag()?, columns.flag()?) {
        (true, _) => Index::Usable,
        (false, true) => Index::InWork,
        (false, false) => Index::Unfinished,
    })
}

/// Checks that this program can use the schema as it is, and returns the version of its tables.
///
/// # Errors
/// It has no tables, or those of an older or a newer program; the server is too old or a standby.
pub(super) async fn check(
    connection: &Connection,
    database: &Database,
    config: &PostgresConfig,
) -> Result<i64, Failure> {
    check_server(connection, database).await?;
    let table = format!("\"{}\".schema_version", config.schema.replace('"', "\"\""));
    let exists = "SELECT 1 WHERE to_regclass($1) IS NOT NULL";
    let (found, oldest_program) = match connection.row(exists, &[table.as_str().into()]).await? {
        Some(_) => version(connection).await?,
        None => (0, 0),
    };
    if oldest_program > latest() {
        return Err(newer(database, config, found, oldest_program).into());
    }
    if found < OLDEST {
        let (place, schema) = (&database.place, &config.schema);
        let has = match found {
            0 => "has no tables of a thread store".to_owned(),
            _ => format!("has version {found}, this program needs {OLDEST} or later"),
        };
        return Err(StoreError::NotMigrated(Fault::new(format!(
            "schema {schema} of {place} {has}; run `agentd store migrate`"
        )))
        .into());
    }
    Ok(found)
}

fn newer(database: &Database, config: &PostgresConfig, found: i64, oldest: i64) -> StoreError {
    let (place, schema, latest) = (&database.place, &config.schema, latest());
    StoreError::Newer(Fault::new(format!(
        "schema {schema} of {place} has version {found}, for programs that know version {oldest}; \
         this program knows versions up to {latest}: use a newer one"
    )))
}

/// The version of the tables, and the oldest version that a program must know.
async fn version(connection: &Connection) -> Result<(i64, i64), Failure> {
    let found = "SELECT coalesce(max(version), 0), coalesce(max(oldest_program), 0)
                 FROM #schema_version";
    let Some(row) = connection.row(found, &[]).await? else { return Ok((0, 0)) };
    let mut columns = Columns::of(&row);
    Ok((columns.int()?, columns.int()?))
}

fn latest() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Refuses a server that would fail later, or store other texts than it is sent.
async fn check_server(connection: &Connection, database: &Database) -> Result<(), Failure> {
    const FACTS: &str = "SELECT current_setting('server_version_num')::bigint,
        current_setting('server_version'), pg_is_in_recovery(), getdatabaseencoding()::text";
    let Some(row) = connection.row(FACTS, &[]).await? else { return Ok(()) };
    let mut columns = Columns::of(&row);
    let (number, version) = (columns.int()?, columns.text()?);
    let (is_standby, encoding) = (columns.flag()?, columns.text()?);
    match refusal(number, &version, is_standby, &encoding) {
        Some(why) => {
            let text = format!("{} {why}", database.place);
            Err(StoreError::Unavailable(Fault::new(text)).into())
        }
        None => Ok(()),
    }
}

/// Why a server cannot be used, and the next step.
fn refusal(number: i64, version: &str, is_standby: bool, encoding: &str) -> Option<String> {
    if number < OLDEST_SERVER {
        return Some(format!("has version {version}; use PostgreSQL 14 or later"));
    }
    if is_standby {
        return Some(
            "is a standby, which cannot be written; name the primary, or all servers".to_owned(),
        );
    }
    (encoding != "UTF8").then(|| {
        format!(
            "has the encoding {encoding}; create the database with ENCODING 'UTF8' TEMPLATE template0"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_would_fail_later_are_refused() {
        assert_eq!(refusal(150_018, "15.18", false, "UTF8"), None);
        for (number, is_standby, encoding, expected) in [
            (130_022, false, "UTF8", "PostgreSQL 14"),
            (150_018, true, "UTF8", "is a standby"),
            (150_018, false, "SQL_ASCII", "the encoding SQL_ASCII"),
        ] {
            let why = refusal(number, "x", is_standby, encoding).unwrap();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_step_leaves_the_program_before_it_working() {
        for (number, step) in (1_i64..).zip(STEPS) {
            assert!(step.oldest_program <= (number - 1).max(1), "step {number}");
        }
        assert!(OLDEST >= latest() - 1 && OLDEST <= latest());
    }
}
