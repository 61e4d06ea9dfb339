//! The database of the home: contents by digest, the index of each folder, and the record of what
//! turns changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::error::Error;
use crate::event::Event;
use crate::index::{Index, StoredEntry};
use crate::kernel::Stamp;
use crate::state::{Digest, State, path_from_bytes};
use crate::turn::{Scope, Turn};
use crate::writer::{Writer, seconds};

/// The version of the tables.
const VERSION: u32 = 2;
/// Maximum wait of a write for one of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that changes, and the index of a folder that is not used, are kept.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Bytes of contents at which the oldest changes are forgotten.
const MAX_STORED_BYTES: i64 = 8 << 30;

const TABLES: &str = "
    CREATE TABLE folder (
        id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, used_at INTEGER NOT NULL
    ) STRICT;
    -- What each entry was when it was last looked at.
    CREATE TABLE entry (
        folder INTEGER NOT NULL, path BLOB NOT NULL, stamp BLOB NOT NULL, state BLOB NOT NULL,
        is_ignored INTEGER NOT NULL, PRIMARY KEY (folder, path)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE content (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, data BLOB NOT NULL) STRICT;
    -- What turns changed, in order. A row without a path marks the beginning of a turn.
    CREATE TABLE event (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, tree TEXT NOT NULL, thread TEXT NOT NULL,
        turn TEXT NOT NULL, at INTEGER NOT NULL, folder INTEGER, path BLOB, before BLOB, after BLOB,
        is_uncertain INTEGER NOT NULL DEFAULT 0,
        -- Without a path: a call of the turn whose changes were not recorded.
        is_unrecorded INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE INDEX event_of_tree ON event (tree, thread, seq);
    -- Tool calls that run, to know after a crash whose changes are found.
    CREATE TABLE window (
        id INTEGER PRIMARY KEY AUTOINCREMENT, folder INTEGER NOT NULL, process INTEGER NOT NULL,
        tree TEXT NOT NULL, thread TEXT NOT NULL, turn TEXT NOT NULL,
        -- Whether a call of another process ran at any time meanwhile.
        has_met_others INTEGER NOT NULL DEFAULT 0,
        -- When the process was last known to run, in nanoseconds since 1970.
        alive_at INTEGER NOT NULL
    ) STRICT;
    -- Folders that a restoration works in, to clean up after a crash: modes NULL where they stay.
    CREATE TABLE restoring (
        folder INTEGER NOT NULL, process INTEGER NOT NULL, path BLOB NOT NULL,
        mode_before INTEGER, mode_after INTEGER
    ) STRICT;
";

/// The undo database of a home.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    conn: Connection,
}

impl Database {
    /// Opens the database, and creates it if there is none. Only this user can read it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |cause| Error::Database { path: path.to_owned(), cause };
        let conn = Connection::open(path).map_err(failed)?;
        restrict(path)?;
        let version = prepare(&conn).map_err(failed)?;
        if version > VERSION {
            return Err(Error::NewerDatabase { path: path.to_owned() });
        }
        if version < VERSION {
            return Err(Error::OlderDatabase { path: path.to_owned() });
        }
        let mut database = Self { path: path.to_owned(), conn };
        database.collect()?;
        Ok(database)
    }

    /// Runs `work` in one transaction.
    pub(crate) fn write<T>(
        &mut self,
        work: impl FnOnce(&Writer<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let path = self.path.clone();
        let failed = |cause| Error::Database { path: path.clone(), cause };
        let transaction =
            self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let writer = Writer { path: &path, transaction };
        let done = work(&writer)?;
        writer.transaction.commit().map_err(failed)?;
        Ok(done)
    }

    fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        let path = self.path.clone();
        move |cause| Error::Database { path: path.clone(), cause }
    }

    /// The number of a folder, and what its index knows.
    pub(crate) fn load(&mut self, root: &Path) -> Result<(i64, Index), Error> {
        let id = self.write(|writer| writer.folder(root))?;
        let failed = self.failed();
        let mut index = Index::default();
        let mut statement = self
            .conn
            .prepare_cached("SELECT path, stamp, state, is_ignored FROM entry WHERE folder = ?")
            .map_err(&failed)?;
        let rows = statement
            .query_map([id], |row| {
                Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .map_err(&failed)?;
        for row in rows {
            let (path, stamp, state, is_ignored): (_, Vec<u8>, Vec<u8>, bool) =
                row.map_err(&failed)?;
            // An entry that cannot be read is examined again.
            if let (Some(stamp), Some(state)) =
                (Stamp::from_bytes(&stamp), State::from_bytes(&state))
            {
                index.load(path_from_bytes(path), StoredEntry { stamp, state, is_ignored });
            }
        }
        Ok((id, index))
    }

    /// The path of a folder.
    pub(crate) fn root_of(&self, folder: i64) -> Result<PathBuf, Error> {
        let query = "SELECT path FROM folder WHERE id = ?";
        let path = self.conn.query_row(query, [folder], |row| row.get(0)).map_err(self.failed())?;
        Ok(path_from_bytes(path))
    }

    /// The contents of a digest; `None` if they are not there, or not what they were.
    pub(crate) fn contents(&self, digest: Digest) -> Result<Option<Vec<u8>>, Error> {
        let query = "SELECT data FROM content WHERE digest = ?";
        let found: Option<Vec<u8>> = self
            .conn
            .query_row(query, [&digest.0[..]], |row| row.get(0))
            .optional()
            .map_err(self.failed())?;
        let Some(data) = found else { return Ok(None) };
        let limit = usize::try_from(crate::MAX_FILE_BYTES).unwrap_or(usize::MAX);
        let contents = zstd::bulk::decompress(&data, limit).ok();
        Ok(contents.filter(|contents| Digest::of(contents) == digest))
    }

    /// Where the record of a turn begins.
    pub(crate) fn begin_of(&self, turn: &Turn) -> Result<Option<i64>, Error> {
        let query = "SELECT min(seq) FROM event WHERE tree = ? AND thread = ? AND turn = ?";
        self.conn
            .query_row(query, [&turn.tree, &turn.thread, &turn.turn], |row| row.get(0))
            .map_err(self.failed())
    }

    /// The thread that a turn ran in, if any of it is on record.
    pub(crate) fn thread_of(&self, turn: &str) -> Result<Option<String>, Error> {
        self.conn
            .query_row("SELECT min(thread) FROM event WHERE turn = ?", [turn], |row| row.get(0))
            .map_err(self.failed())
    }

    /// Returns whether a call within `scope` from `seq` on was not recorded.
    pub(crate) fn has_unrecorded(&self, scope: &Scope<'_>, seq: i64) -> Result<bool, Error> {
        let query = "SELECT EXISTS (SELECT 1 FROM event WHERE tree = ? AND
                         ifnull(?, thread) = thread AND seq >= ? AND is_unrecorded)";
        let values = params![scope.tree, scope.thread, seq];
        self.conn.query_row(query, values, |row| row.get(0)).map_err(self.failed())
    }

    /// The folders that were changed within `scope` from `seq` on, or that its calls run in.
    pub(crate) fn folders_of(&self, scope: &Scope<'_>, seq: i64) -> Result<BTreeSet<i64>, Error> {
        let failed = self.failed();
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT folder FROM event WHERE tree = ?1 AND ifnull(?2, thread) = thread
                     AND seq >= ?3 AND path IS NOT NULL
                 UNION SELECT folder FROM window WHERE tree = ?1 AND ifnull(?2, thread) = thread",
            )
            .map_err(&failed)?;
        let values = params![scope.tree, scope.thread, seq];
        let rows = statement.query_map(values, |row| row.get(0)).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// The changes of `folder` within `scope` from `seq` on, in order.
    pub(crate) fn events(
        &self,
        folder: i64,
        scope: &Scope<'_>,
        seq: i64,
    ) -> Result<Vec<Event>, Error> {
        let failed = self.failed();
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT path, before, after, is_uncertain FROM event
                 WHERE tree = ? AND ifnull(?, thread) = thread AND seq >= ? AND folder = ?
                     AND path IS NOT NULL ORDER BY seq",
            )
            .map_err(&failed)?;
        let values = params![scope.tree, scope.thread, seq, folder];
        let rows = statement.query_map(values, event).map_err(&failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Forgets what is too old or too much, then the contents that nothing refers to.
    fn collect(&mut self) -> Result<(), Error> {
        let oldest = seconds().saturating_sub_unsigned(KEPT_FOR.as_secs());
        self.write(|writer| {
            let run = |sql: &str, value: i64| writer.run(sql, [value]);
            let mut forgotten = run("DELETE FROM event WHERE at < ?", oldest)?;
            forgotten += run("DELETE FROM folder WHERE used_at < ?", oldest)?;
            if writer.stored_bytes()? > MAX_STORED_BYTES {
                forgotten +=
                    run("DELETE FROM event WHERE seq <= (SELECT avg(seq) FROM event) + ?", 0)?;
                forgotten += run(
                    "DELETE FROM folder WHERE used_at <= (SELECT avg(used_at) FROM folder) + ?",
                    0,
                )?;
            }
            if forgotten > 0 {
                writer.remove_unused()?;
            }
            Ok(())
        })
    }
}

fn event(row: &rusqlite::Row<'_>) -> rusqlite::Result<Event> {
    let state = |column: usize| -> rusqlite::Result<Option<State>> {
        let Some(bytes) = row.get::<_, Option<Vec<u8>>>(column)? else { return Ok(None) };
        match State::from_bytes(&bytes) {
            Some(state) => Ok(Some(state)),
            None => Err(rusqlite::Error::InvalidColumnType(
                column,
                "state".into(),
                rusqlite::types::Type::Blob,
            )),
        }
    };
    Ok(Event {
        path: path_from_bytes(row.get(0)?),
        before: state(1)?,
        after: state(2)?,
        is_uncertain: row.get(3)?,
    })
}

/// Sets the log mode and creates the tables of a new database; returns the version of its tables.
fn prepare(conn: &Connection) -> rusqlite::Result<u32> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.pragma_update(None, "journal_mode", "wal")?;
    // A power loss may cost the last changes; what the folder then differs is no turn's.
    conn.pragma_update(None, "synchronous", "normal")?;
    let version = || conn.query_row("PRAGMA user_version", [], |row| row.get(0));
    if version()? == 0 {
        // Another process may be creating them.
        conn.execute_batch("BEGIN IMMEDIATE")?;
        if version()? == 0 {
            conn.execute_batch(TABLES)?;
            conn.pragma_update(None, "user_version", VERSION)?;
        }
        conn.execute_batch("COMMIT")?;
    }
    version()
}

fn restrict(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
        .map_err(Error::io(path, "making private"))
}
