//! The tables, as a list of migrations, and the check that a file is a store of a known version.
//! Opens nothing.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::{Connection, Row};
use sha2::{Digest, Sha256};

use crate::StoreError;
use crate::sqlite::failure::Failure;
use crate::sqlite::search;

/// Identifies a database as a thread store ("agtd").
const APPLICATION_ID: i64 = 0x6167_7464;

/// A version of the tables.
struct Version {
    /// Migrates a file from the version before. Never changes once it is released.
    migration: &'static str,
    /// Fingerprint of the tables after it, see [`fingerprint`]. A test has the value for a new one.
    fingerprint: &'static str,
}

/// All versions, from 1 on.
const VERSIONS: &[Version] = &[
    Version { migration: VERSION_1, fingerprint: "00ab4a939a2d2564" },
    Version { migration: VERSION_2, fingerprint: "0e93b13fffd82c28" },
    Version { migration: VERSION_3, fingerprint: "2aa0a65a7954d4c0" },
    Version { migration: VERSION_4, fingerprint: "b41a130cf214fcb1" },
    Version { migration: VERSION_5, fingerprint: "05f548f3a46fd4df" },
    Version { migration: VERSION_6, fingerprint: "9d3c47572ae0da4c" },
    Version { migration: VERSION_7, fingerprint: "522299feb018a463" },
];

/// The tables of all versions. A file can have others: the search index, which is created later, and
/// those of other programs.
const TABLES: &[&str] = &[
    "thread",
    "turn",
    "item",
    "history",
    "segment",
    "chunk",
    "thread_text",
    "joined",
    "job",
    "job_item",
    "usage",
    "searched_text",
    "queued",
    "unindexed",
    "turn_words",
];

/// A larger version is damage of the header.
const UNLIKELY: i64 = 1 << 16;

// `turn.pk` contains thread and ordinal, `item.pk` and `history.pk` contain turn and position: see
// `keys`. `parent` and `fork_point` are for forks that share the turns of their parent up to an
// ordinal; such a thread's own turns follow it.
//
// Lists walk an index on the source kind (or the folder) and the sort key, so a page costs the same
// with 300 and with 100,000 threads. The indexes are partial, because threads without a turn are
// not listed.
const VERSION_1: &str = "
CREATE TABLE thread (
    pk              INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    parent          INTEGER,
    fork_point      INTEGER,
    turn_count      INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    archived        INTEGER NOT NULL,
    source_kind     TEXT NOT NULL,
    model_provider  TEXT NOT NULL,
    cwd             TEXT NOT NULL,
    name            TEXT,
    preview         TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    forked_from_id  TEXT,
    model           TEXT NOT NULL,
    cli_version     TEXT NOT NULL,
    source          TEXT NOT NULL,
    git_info        TEXT,
    settings        TEXT NOT NULL,
    token_usage     TEXT,
    extra           TEXT
) STRICT;
CREATE INDEX thread_source_created ON thread (source_kind, archived, created_at) WHERE turn_count > 0;
CREATE INDEX thread_source_updated ON thread (source_kind, archived, updated_at) WHERE turn_count > 0;
CREATE INDEX thread_cwd_created ON thread (cwd, archived, created_at) WHERE turn_count > 0;
CREATE INDEX thread_cwd_updated ON thread (cwd, archived, updated_at) WHERE turn_count > 0;

CREATE TABLE turn (
    pk              INTEGER PRIMARY KEY,
    thread          INTEGER NOT NULL,
    id              TEXT NOT NULL,
    status          INTEGER NOT NULL,  -- 0 in progress, 1 completed, 2 interrupted, 3 failed
    owner           TEXT,              -- who runs it; NULL once it has ended
    started_at_ms   INTEGER NOT NULL,
    completed_at_ms INTEGER,
    duration_ms     INTEGER,
    error           TEXT,
    usage           TEXT,
    UNIQUE (thread, id)
) STRICT;
CREATE INDEX turn_in_flight ON turn (owner) WHERE status = 0;

CREATE TABLE item (
    pk              INTEGER PRIMARY KEY,
    turn            INTEGER NOT NULL,
    id              TEXT NOT NULL,
    kind            TEXT NOT NULL,
    status          TEXT,
    payload         TEXT NOT NULL,
    UNIQUE (turn, id)
) STRICT;

CREATE TABLE history (
    pk              INTEGER PRIMARY KEY,
    fragment        TEXT NOT NULL
) STRICT;
";

// A thread shows the turns of its *segments*, in order, and then its own from `open_from` on: see
// `lineage`. Long text is in `packed`, with an empty text column: see `content`. `lease` names the
// open store that may write to the thread: see `lease`. `mark` belongs to the caller; with `anew`
// the model's history starts over at the fragment.
//
// `thread_text` contains case-folded names and previews; its index is created with the first of
// them: see `search`.
const VERSION_2: &str = "
DROP INDEX thread_source_created;
DROP INDEX thread_source_updated;
DROP INDEX thread_cwd_created;
DROP INDEX thread_cwd_updated;
ALTER TABLE thread DROP COLUMN parent;
ALTER TABLE thread DROP COLUMN fork_point;
ALTER TABLE thread ADD COLUMN last_ordinal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE thread ADD COLUMN open_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE thread ADD COLUMN lease TEXT;
ALTER TABLE thread ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
UPDATE thread SET last_ordinal = turn_count;
CREATE INDEX thread_source_created ON thread (source_kind, archived, created_at) WHERE turn_count > 0;
CREATE INDEX thread_source_updated ON thread (source_kind, archived, updated_at) WHERE turn_count > 0;
CREATE INDEX thread_cwd_created ON thread (cwd, archived, created_at) WHERE turn_count > 0;
CREATE INDEX thread_cwd_updated ON thread (cwd, archived, updated_at) WHERE turn_count > 0;
CREATE INDEX thread_leased ON thread (lease) WHERE lease IS NOT NULL;

CREATE TABLE segment (
    thread          INTEGER NOT NULL,
    first           INTEGER NOT NULL,  -- a place without a turn; the turns come behind it
    last            INTEGER NOT NULL,
    source          INTEGER NOT NULL,  -- the thread whose rows these are
    history_end     INTEGER NOT NULL,  -- the source's history is shown up to this key
    PRIMARY KEY (thread, first)
) STRICT, WITHOUT ROWID;
CREATE INDEX segment_source ON segment (source);

ALTER TABLE item ADD COLUMN packed BLOB;
ALTER TABLE history ADD COLUMN packed BLOB;
ALTER TABLE history ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;
ALTER TABLE history ADD COLUMN anew INTEGER NOT NULL DEFAULT 0;
CREATE INDEX history_anew ON history (pk) WHERE anew = 1;

CREATE TABLE chunk (
    id              INTEGER PRIMARY KEY,
    hash            BLOB NOT NULL UNIQUE,  -- SHA-256 of the text
    refs            INTEGER NOT NULL,
    size            INTEGER NOT NULL,      -- bytes of the text; compressed when `data` has fewer
    data            BLOB NOT NULL
) STRICT;

CREATE TABLE thread_text (
    pk              INTEGER PRIMARY KEY,
    text            TEXT NOT NULL
) STRICT;
";

// Copies of the rows of `history` from `pk` to `last`: see `joined`.
const VERSION_3: &str = "
CREATE TABLE joined (
    pk              INTEGER PRIMARY KEY,
    last            INTEGER NOT NULL,
    packed          BLOB NOT NULL
) STRICT;
";

// Jobs of threads and their rows: see `jobs`. `job_item.pk` contains the job and the number of the
// row. No index of a job has its id: a salvage would take it for that of a thread.
const VERSION_4: &str = "
CREATE TABLE job (
    pk              INTEGER PRIMARY KEY,
    id              TEXT NOT NULL,
    thread          INTEGER NOT NULL,
    fingerprint     BLOB NOT NULL,
    status          INTEGER NOT NULL,  -- 0 running, 1 completed, 2 failed, 3 cancelled
    created_at_ms   INTEGER NOT NULL,
    ended_at_ms     INTEGER,
    detail          TEXT NOT NULL
) STRICT;
CREATE INDEX job_thread ON job (thread);

CREATE TABLE job_item (
    pk              INTEGER PRIMARY KEY,
    job             INTEGER NOT NULL,
    id              TEXT NOT NULL,
    row             TEXT NOT NULL,
    status          INTEGER NOT NULL,  -- 0 pending, 1 running, 2 completed, 3 failed, 4 cancelled
    worker          TEXT,
    result          TEXT,
    error           TEXT
) STRICT;
";

// What responses used and cost: see `usage`. Threads from before this table have one row: what a
// fork used includes what its parent did, so it is not known. A total that is not a number counts
// as 0, because other programs can have changed the file.
const VERSION_5: &str = "
CREATE TABLE usage (
    pk              INTEGER PRIMARY KEY,
    thread          TEXT,
    turn            TEXT,
    at_ms           INTEGER NOT NULL,
    project         TEXT NOT NULL,
    provider        TEXT NOT NULL,
    model           TEXT NOT NULL,
    service_tier    TEXT,
    input           INTEGER,
    cached_input    INTEGER,
    cache_write     INTEGER,
    output          INTEGER,
    reasoning_output INTEGER,
    cost            INTEGER
) STRICT;
INSERT INTO usage (thread, at_ms, project, provider, model, input, cached_input, output,
    reasoning_output)
SELECT id, CAST(updated_at * 1000 AS INTEGER), cwd, model_provider, model,
    CAST(json_extract(total, '$.total.input') AS INTEGER),
    CAST(json_extract(total, '$.total.cachedInput') AS INTEGER),
    CAST(json_extract(total, '$.total.output') AS INTEGER),
    CAST(json_extract(total, '$.total.reasoningOutput') AS INTEGER)
FROM (
    SELECT *, CASE WHEN forked_from_id IS NULL AND json_valid(token_usage) THEN token_usage END
        AS total
    FROM thread WHERE deleted = 0 AND turn_count > 0
) ORDER BY pk;
";

// The index of names and previews has their last letters at the beginning of a trigram, too, so that it
// is rebuilt: see `search`.
const VERSION_6: &str = "
DROP TABLE IF EXISTS thread_search;
DROP TABLE thread_text;
CREATE TABLE searched_text (
    pk              INTEGER PRIMARY KEY,
    text            TEXT NOT NULL
) STRICT;
";

// Messages that wait for a turn: see `queue`. The index of words, which is created with the first of
// them, lacks the turns of `unindexed`, ranges of keys: see `text_index`. A file of an earlier version
// has one range, of all turns.
const VERSION_7: &str = "
CREATE TABLE queued (
    pk              INTEGER PRIMARY KEY,  -- contains the thread
    thread          INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    id              TEXT NOT NULL,
    payload         TEXT NOT NULL
) STRICT;

CREATE TABLE turn_words (
    turn            INTEGER PRIMARY KEY,
    packed          BLOB NOT NULL
) STRICT;

CREATE TABLE unindexed (
    last            INTEGER PRIMARY KEY,
    first           INTEGER NOT NULL
) STRICT;
INSERT INTO unindexed (last, first) SELECT max(pk), 0 FROM turn HAVING max(pk) IS NOT NULL;
";

/// Returns whether the file has the latest version.
///
/// # Errors
/// The file is not a store, is newer, or is damaged: its header and its tables do not agree.
pub(crate) fn is_current(conn: &Connection, path: &Path) -> Result<bool, Failure> {
    is_latest_of(VERSIONS, conn, path)
}

fn is_latest_of(versions: &[Version], conn: &Connection, path: &Path) -> Result<bool, Failure> {
    let latest = number_of(versions);
    let found: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let application: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if application == APPLICATION_ID && found == latest {
        return Ok(true);
    }
    let tables: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let has = |table: &str| tables.iter().any(|name| name == table);
    let ours = ["thread", "turn", "item", "history"].into_iter().all(has);
    if found == 0 && application == 0 && tables.is_empty() {
        return Ok(false);
    }
    if application != APPLICATION_ID && !ours {
        return Err(StoreError::foreign(path).into());
    }
    if found > latest && found < UNLIKELY && application == APPLICATION_ID {
        return Err(StoreError::newer_schema(path, found, latest).into());
    }
    let tables_are_of = version_of_tables(versions, conn)?;
    if application != APPLICATION_ID || tables_are_of != Some(found) {
        let are = match tables_are_of {
            Some(version) => format!("those of version {version}"),
            None => "of no known version".to_owned(),
        };
        let detail = format!("its header has version {found}, its tables are {are}");
        return Err(StoreError::corrupt(path, &detail).into());
    }
    Ok(false)
}

fn number_of(versions: &[Version]) -> i64 {
    i64::try_from(versions.len()).unwrap_or(i64::MAX)
}

/// The version whose tables the file has.
fn version_of_tables(versions: &[Version], conn: &Connection) -> Result<Option<i64>, Failure> {
    let found = fingerprint(conn)?;
    let at = versions.iter().rposition(|version| version.fingerprint == found);
    Ok(at.map(|at| i64::try_from(at + 1).unwrap_or(i64::MAX)))
}

/// A hash of the columns and the indexes of [`TABLES`] in the file.
fn fingerprint(conn: &Connection) -> Result<String, Failure> {
    let is_ours = |row: &Row<'_>| -> rusqlite::Result<bool> {
        Ok(TABLES.contains(&row.get_ref(0)?.as_str()?))
    };
    let mut text = String::new();
    let mut columns = conn.prepare(
        "SELECT tables.name, columns.name, columns.type, columns.\"notnull\", columns.pk,
             columns.dflt_value
         FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
         WHERE tables.type = 'table' AND tables.sql NOT LIKE 'CREATE VIRTUAL%'
         ORDER BY tables.name, columns.cid",
    )?;
    let mut rows = columns.query([])?;
    while let Some(row) = rows.next()? {
        if is_ours(row)? {
            let (name, kind): (String, String) = (row.get(1)?, row.get(2)?);
            let (not_null, key): (i64, i64) = (row.get(3)?, row.get(4)?);
            let (table, default): (String, Option<String>) = (row.get(0)?, row.get(5)?);
            // A `String` takes any text.
            let _ = writeln!(text, "{table} {name} {kind} {not_null} {key} {default:?}");
        }
    }
    let mut indexes = conn.prepare(
        "SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL
         ORDER BY name",
    )?;
    let mut rows = indexes.query([])?;
    while let Some(row) = rows.next()? {
        if is_ours(row)? {
            let _ = writeln!(text, "{}", row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
        }
    }
    Ok(const_hex::encode(&Sha256::digest(text)[..8]))
}

/// Reads a page or two of every table and index, to detect damaged roots.
pub(crate) fn probe(conn: &Connection) -> Result<(), Failure> {
    let mut rows = conn.prepare(
        "SELECT (SELECT max(pk) FROM thread), (SELECT max(pk) FROM turn),
             (SELECT max(pk) FROM item), (SELECT max(pk) FROM history), (SELECT max(pk) FROM joined), (SELECT max(id) FROM chunk),
             (SELECT max(pk) FROM searched_text), (SELECT max(id) FROM thread),
             (SELECT max(hash) FROM chunk), (SELECT max(thread) FROM segment),
             (SELECT max(thread) FROM turn), (SELECT max(turn) FROM item),
             (SELECT max(pk) FROM job), (SELECT max(thread) FROM job),
             (SELECT max(pk) FROM job_item), (SELECT max(pk) FROM usage),
             (SELECT max(pk) FROM queued), (SELECT max(turn) FROM turn_words),
             (SELECT max(last) FROM unindexed)",
    )?;
    rows.query_row([], |_| Ok(()))?;
    Ok(())
}

/// Returns whether the file is new.
pub(crate) fn has_no_tables(conn: &Connection) -> Result<bool, Failure> {
    Ok(conn.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?)
}

/// Migrates the file to the latest version, in one transaction. The caller holds the lock.
pub(crate) fn migrate(conn: &mut Connection) -> Result<(), Failure> {
    migrate_to_latest_of(VERSIONS, conn)
}

fn migrate_to_latest_of(versions: &[Version], conn: &mut Connection) -> Result<(), Failure> {
    let transaction = conn.transaction()?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for version in versions.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(version.migration)?;
    }
    if (1..6).contains(&found) {
        search::index_all(&transaction)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", number_of(versions))?;
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with the tables of the first `count` versions.
    fn file(count: usize) -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate_to_latest_of(&VERSIONS[..count], &mut conn).unwrap();
        conn
    }

    #[test]
    fn each_version_has_its_fingerprint() {
        for (at, version) in VERSIONS.iter().enumerate() {
            let found = fingerprint(&file(at + 1)).unwrap();
            assert_eq!(found, version.fingerprint, "version {}", at + 1);
            assert_eq!(VERSIONS.iter().filter(|other| other.fingerprint == found).count(), 1);
        }
    }

    #[test]
    fn files_of_other_tables_or_versions_are_recognized() {
        let path = Path::new("threads.db");
        for count in 1..VERSIONS.len() {
            assert!(!is_current(&file(count), path).unwrap(), "{count}");
            let conn = file(count);
            let other = if count == 5 { 4 } else { 5 };
            conn.pragma_update(None, "user_version", other).unwrap();
            let error = is_current(&conn, path).unwrap_err().at(path).to_string();
            assert!(error.contains(&format!("those of version {count}")), "{error}");
        }
        let conn = file(3);
        conn.execute_batch("ALTER TABLE turn ADD COLUMN mine TEXT").unwrap();
        let error = is_current(&conn, path).unwrap_err().at(path).to_string();
        assert!(error.contains("of no known version"), "{error}");
        // What is not ours does not matter.
        let conn = file(3);
        conn.execute_batch("CREATE TABLE mine (turn TEXT); CREATE INDEX its ON mine (turn)")
            .unwrap();
        assert!(!is_current(&conn, path).unwrap());
    }

    /// Two versions of columns alone, which add no table that would tell them apart.
    #[test]
    fn a_version_may_add_a_column_alone() {
        let path = Path::new("threads.db");
        let mut versions: Vec<Version> =
            VERSIONS.iter().map(|version| Version { ..*version }).collect();
        for migration in [
            "ALTER TABLE thread ADD COLUMN node TEXT",
            "ALTER TABLE turn ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
             CREATE INDEX turn_epoch ON turn (epoch)",
        ] {
            let mut conn = file(6);
            for version in &versions[6..] {
                conn.execute_batch(version.migration).unwrap();
            }
            conn.execute_batch(migration).unwrap();
            let fingerprint = fingerprint(&conn).unwrap().leak();
            versions.push(Version { migration, fingerprint });
            drop(conn);

            for from in 1..versions.len() {
                conn = Connection::open_in_memory().unwrap();
                migrate_to_latest_of(&versions[..from], &mut conn).unwrap();
                assert!(!is_latest_of(&versions, &conn, path).unwrap(), "from {from}");
                migrate_to_latest_of(&versions, &mut conn).unwrap();
                assert!(is_latest_of(&versions, &conn, path).unwrap(), "from {from}");
                assert_eq!(
                    version_of_tables(&versions, &conn).unwrap(),
                    Some(number_of(&versions))
                );
                // This version of the program reports a newer one, not damage.
                let error = is_current(&conn, path).unwrap_err().at(path);
                assert!(matches!(error, StoreError::Newer(_)), "{error}");
            }
        }
    }
}
