//! Checks a database without changing it, for `agentd doctor`.

use std::collections::HashMap;
use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags};

use crate::StoreError;
use crate::sqlite::failure::Failure;
use crate::sqlite::opening::Opening;
use crate::sqlite::paths::{OWNERS, database_path};
use crate::sqlite::{content, owner, preflight, salvage, schema};

/// The result of a check.
#[derive(Debug, Default)]
pub struct Report {
    /// Schema version of the database.
    pub version: i64,
    /// Number of threads.
    pub threads: u64,
    /// Number of turns, including those of deleted threads that forks share.
    pub turns: u64,
    /// Size of the database and its log, in bytes.
    pub bytes: u64,
    /// The processes that have the folder open.
    pub open_elsewhere: Vec<String>,
    /// The problems; empty for an intact database.
    pub problems: Vec<String>,
}

/// Problems reported of one kind.
const MAX_PROBLEMS: usize = 20;

/// Returns whether `dir` has a database. Opens nothing.
#[must_use]
pub fn has_database(dir: &Path) -> bool {
    database_path(dir).is_file()
}

/// Checks the database in `dir`; `None` if it does not exist.
///
/// # Errors
/// The error of [`crate::Store::open`] if a server could not open the database.
pub fn check(dir: &Path) -> Result<Option<Report>, StoreError> {
    let path = database_path(dir);
    preflight::check(dir)?;
    if !dir.exists() {
        return Ok(None);
    }
    if salvage::is_begun(&path)? {
        let problem = "its salvage was not completed; the next server completes it".to_owned();
        return Ok(Some(Report { problems: vec![problem], ..Report::default() }));
    }
    // The checks of a server that opens the store.
    Opening::inspect(dir)?.examine(open)?;
    if !path.exists() {
        return Ok(None);
    }
    examine(&path, dir).map(Some).map_err(|failure| failure.at(&path))
}

fn examine(path: &Path, dir: &Path) -> Result<Report, Failure> {
    let conn = open(path)?;
    conn.busy_timeout(crate::sqlite::connection::BUSY_TIMEOUT)?;
    let current = schema::is_current(&conn, path)?;
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0));
    let mut report = Report {
        version: number("PRAGMA user_version")?,
        bytes: size(path) + size(&path.with_extension("db-wal")),
        ..Report::default()
    };
    report.open_elsewhere = owner::living(&dir.join(OWNERS), "")?;
    report.problems = texts(&conn, &format!("PRAGMA integrity_check({MAX_PROBLEMS})"))?;
    report.problems.retain(|line| line != "ok");
    if !current {
        // The next server migrates an older schema, whose tables are not checked here.
        return Ok(report);
    }
    report.threads = count(number("SELECT count(*) FROM thread WHERE deleted = 0")?);
    report.turns = count(number("SELECT count(*) FROM turn")?);
    for (what, sql) in CHECKS {
        let found = texts(&conn, &format!("{sql} LIMIT {MAX_PROBLEMS}"))?;
        report.problems.extend(found.iter().map(|id| format!("{what}: {id}")));
    }
    check_chunks(&conn, &mut report.problems)?;
    Ok(report)
}

/// Characters that are encoded in a path inside of a URI.
const RESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Opens the database for reading. If no process has it open, opens it as immutable, which does not
/// even create the shared index.
fn open(path: &Path) -> Result<Connection, Failure> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if path.with_extension("db-wal").exists() {
        return Ok(Connection::open_with_flags(path, flags)?);
    }
    let path = percent_encode(path.as_os_str().as_encoded_bytes(), RESERVED);
    let name = format!("file:{path}?immutable=1");
    Ok(Connection::open_with_flags(name, flags | OpenFlags::SQLITE_OPEN_URI)?)
}

/// Queries for rows with missing references.
const CHECKS: [(&str, &str); 9] = [
    (
        "a turn belongs to no thread",
        "SELECT id FROM turn WHERE thread NOT IN (SELECT pk FROM thread)",
    ),
    ("an item belongs to no turn", "SELECT id FROM item WHERE turn NOT IN (SELECT pk FROM turn)"),
    (
        "a thread shows turns of a missing thread",
        "SELECT thread || '' FROM segment WHERE source NOT IN (SELECT pk FROM thread)",
    ),
    (
        "a thread is not in the search index",
        "SELECT id FROM thread WHERE deleted = 0 AND preview <> ''
             AND pk NOT IN (SELECT pk FROM searched_text)",
    ),
    (
        "a deleted thread has turns that no fork shows",
        "SELECT id FROM thread WHERE deleted = 1 AND pk NOT IN (SELECT source FROM segment)",
    ),
    (
        "a job belongs to no thread",
        "SELECT id FROM job WHERE thread NOT IN (SELECT pk FROM thread WHERE deleted = 0)",
    ),
    (
        "a row belongs to no job",
        "SELECT id FROM job_item WHERE job NOT IN (SELECT pk FROM job) OR pk >> 20 <> job",
    ),
    (
        "a queued message belongs to no thread",
        "SELECT id FROM queued WHERE thread NOT IN (SELECT pk FROM thread WHERE deleted = 0)",
    ),
    (
        "an index of words has a missing turn",
        "SELECT turn || '' FROM turn_words WHERE turn NOT IN (SELECT pk FROM turn)",
    ),
];

/// Reads each chunk and compares its reference count with the references.
fn check_chunks(conn: &Connection, problems: &mut Vec<String>) -> Result<(), Failure> {
    let mut counted: HashMap<i64, i64> = HashMap::new();
    for table in ["item", "history"] {
        let mut packed =
            conn.prepare(&format!("SELECT packed FROM {table} WHERE packed IS NOT NULL"))?;
        let mut rows = packed.query([])?;
        while let Some(row) = rows.next()? {
            for id in content::references(row.get_ref(0)?.as_blob().unwrap_or_default()) {
                *counted.entry(id).or_default() += 1;
            }
        }
    }
    let mut found = 0;
    let mut chunks = conn.prepare("SELECT id, refs FROM chunk")?;
    let mut rows = chunks.query([])?;
    while let Some(row) = rows.next()? {
        let (id, refs): (i64, i64) = (row.get(0)?, row.get(1)?);
        let used = counted.remove(&id).unwrap_or_default();
        let readable = content::is_readable(conn, id);
        if (used != refs || !readable) && found < MAX_PROBLEMS {
            found += 1;
            problems.push(if readable {
                format!("chunk {id} has {used} references and a reference count of {refs}")
            } else {
                format!("chunk {id} of long text is damaged")
            });
        }
    }
    for id in counted.into_keys().take(MAX_PROBLEMS) {
        problems.push(format!("chunk {id} of long text is missing"));
    }
    Ok(())
}

fn texts(conn: &Connection, sql: &str) -> Result<Vec<String>, Failure> {
    let texts = conn.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(texts)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
