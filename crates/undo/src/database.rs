//! The database of the home: contents by digest, the index of each folder, and the record of what
//! turns changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::error::Error;
use crate::folder::Keeper;
use crate::index::{Change, Index, Row, StoredEntry};
use crate::kernel::Stamp;
use crate::state::{Digest, State, path_from_bytes};
use crate::turn::Turn;

/// The version of the tables.
const VERSION: u32 = 1;
/// How long a write waits for one of another process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Level of compression: contents are written once, and rarely read.
const COMPRESSION: i32 = 1;
/// How long changes, and the index of a folder that is not used, are kept.
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
        has_met_others INTEGER NOT NULL DEFAULT 0
    ) STRICT;
";

/// Whose changes: those of a whole tree of agents, or of one thread of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'s> {
    pub(crate) tree: &'s str,
    pub(crate) thread: Option<&'s str>,
}

impl<'s> Scope<'s> {
    /// What going back to the beginning of `turn` concerns.
    pub(crate) fn of(turn: &'s Turn) -> Self {
        let thread = (turn.thread != turn.tree).then_some(&*turn.thread);
        Self { tree: &turn.tree, thread }
    }

    pub(crate) fn contains(&self, turn: &Turn) -> bool {
        turn.tree == self.tree && self.thread.is_none_or(|thread| thread == turn.thread)
    }
}

/// A stored change of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) path: PathBuf,
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
    /// Whether others may have made it: threads whose calls ran at the same time, or whoever changed
    /// something before the end of a crashed process was noticed.
    pub(crate) is_uncertain: bool,
}

/// See the module.
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
            // An entry that cannot be read is looked at anew.
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

    /// Whether a call within `scope` from `seq` on was not recorded.
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

/// A transaction.
pub(crate) struct Writer<'d> {
    path: &'d Path,
    transaction: Transaction<'d>,
}

impl Writer<'_> {
    fn failed(&self, cause: rusqlite::Error) -> Error {
        Error::Database { path: self.path.to_owned(), cause }
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, Error> {
        let statement = self.transaction.prepare_cached(sql);
        statement.and_then(|mut statement| statement.execute(values)).map_err(|e| self.failed(e))
    }

    fn folder(&self, root: &Path) -> Result<i64, Error> {
        let path = bytes_of(root);
        self.run(
            "INSERT INTO folder (path, used_at) VALUES (?, ?)
             ON CONFLICT (path) DO UPDATE SET used_at = excluded.used_at",
            params![path, seconds()],
        )?;
        let query = "SELECT id FROM folder WHERE path = ?";
        self.transaction
            .query_row(query, [path], |row| row.get(0))
            .map_err(|error| self.failed(error))
    }

    /// Stores what has changed in the index of a folder.
    pub(crate) fn store_rows(&self, folder: i64, rows: &[Row]) -> Result<(), Error> {
        for (path, stored) in rows {
            let path = bytes_of(path);
            match stored {
                Some(entry) => self.run(
                    "INSERT OR REPLACE INTO entry (folder, path, stamp, state, is_ignored)
                     VALUES (?, ?, ?, ?, ?)",
                    params![
                        folder,
                        path,
                        &entry.stamp.to_bytes()[..],
                        entry.state.to_bytes(),
                        entry.is_ignored
                    ],
                )?,
                None => self.run(
                    "DELETE FROM entry WHERE folder = ? AND path = ?",
                    params![folder, path],
                )?,
            };
        }
        Ok(())
    }

    /// Marks the beginning of a turn, unless it is marked.
    pub(crate) fn begin_turn(&self, turn: &Turn) -> Result<(), Error> {
        self.run(
            "INSERT INTO event (tree, thread, turn, at) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS
                 (SELECT 1 FROM event WHERE tree = ?1 AND thread = ?2 AND turn = ?3)",
            params![turn.tree, turn.thread, turn.turn, seconds()],
        )
        .map(drop)
    }

    /// Records what a turn changed.
    pub(crate) fn record(
        &self,
        turn: &Turn,
        folder: i64,
        changes: &[Change],
        is_uncertain: bool,
    ) -> Result<(), Error> {
        for change in changes {
            let state = |state: &Option<State>| state.as_ref().map(State::to_bytes);
            self.run(
                "INSERT INTO event
                     (tree, thread, turn, at, folder, path, before, after, is_uncertain)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    turn.tree,
                    turn.thread,
                    turn.turn,
                    seconds(),
                    folder,
                    bytes_of(&change.path),
                    state(&change.before),
                    state(&change.after),
                    is_uncertain
                ],
            )?;
        }
        Ok(())
    }

    /// Notes that a call of a turn is not recorded.
    pub(crate) fn note_unrecorded(&self, turn: &Turn) -> Result<(), Error> {
        self.run(
            "INSERT INTO event (tree, thread, turn, at, is_unrecorded) VALUES (?, ?, ?, ?, 1)",
            params![turn.tree, turn.thread, turn.turn, seconds()],
        )
        .map(drop)
    }

    /// Whether calls of other processes ran in `folder` while those of this one that still run did.
    pub(crate) fn has_met_others(&self, folder: i64) -> Result<bool, Error> {
        let query = "SELECT coalesce(max(has_met_others), 0) FROM window
                     WHERE folder = ? AND process = ?";
        self.transaction
            .query_row(query, params![folder, std::process::id()], |row| row.get(0))
            .map_err(|error| self.failed(error))
    }

    /// Notes that a tool call runs in `folder`; returns its number.
    pub(crate) fn open_window(&self, folder: i64, turn: &Turn) -> Result<i64, Error> {
        let met = self.run(
            "UPDATE window SET has_met_others = 1 WHERE folder = ? AND process != ?",
            params![folder, std::process::id()],
        )?;
        self.run(
            "INSERT INTO window (folder, process, tree, thread, turn, has_met_others)
             VALUES (?, ?, ?, ?, ?, ?)",
            params![folder, std::process::id(), turn.tree, turn.thread, turn.turn, met > 0],
        )?;
        Ok(self.transaction.last_insert_rowid())
    }

    pub(crate) fn close_window(&self, window: i64) -> Result<(), Error> {
        self.run("DELETE FROM window WHERE id = ?", [window]).map(drop)
    }

    /// The turns whose calls run in `folder` in other processes, with the process and the window.
    pub(crate) fn windows_elsewhere(&self, folder: i64) -> Result<Vec<(i64, u32, Turn)>, Error> {
        let query = "SELECT id, process, tree, thread, turn FROM window
             WHERE folder = ? AND process != ?";
        let mut statement =
            self.transaction.prepare_cached(query).map_err(|error| self.failed(error))?;
        let rows = statement.query_map(params![folder, std::process::id()], |row| {
            let turn = Turn { tree: row.get(2)?, thread: row.get(3)?, turn: row.get(4)? };
            Ok((row.get(0)?, row.get(1)?, turn))
        });
        rows.and_then(Iterator::collect).map_err(|error| self.failed(error))
    }

    /// Forgets the windows of an earlier process with this process's number.
    pub(crate) fn close_all_windows(&self) -> Result<(), Error> {
        self.run("DELETE FROM window WHERE process = ?", [std::process::id()]).map(drop)
    }

    /// Forgets the changes within `scope` from `seq` on.
    pub(crate) fn forget(&self, scope: &Scope<'_>, seq: i64) -> Result<(), Error> {
        self.run(
            "DELETE FROM event WHERE tree = ? AND ifnull(?, thread) = thread AND seq >= ?",
            params![scope.tree, scope.thread, seq],
        )
        .map(drop)
    }

    /// Forgets all changes of a thread, and of the agents below it where it is the root of a tree.
    pub(crate) fn forget_thread(&self, thread: &str) -> Result<(), Error> {
        self.run("DELETE FROM event WHERE tree = ?1 OR thread = ?1", [thread])?;
        self.remove_unused()
    }

    fn stored_bytes(&self) -> Result<i64, Error> {
        let query = "SELECT coalesce(sum(length(data)), 0) FROM content";
        self.transaction.query_row(query, [], |row| row.get(0)).map_err(|error| self.failed(error))
    }

    /// Removes the contents that no state refers to.
    pub(crate) fn remove_unused(&self) -> Result<(), Error> {
        self.run("DELETE FROM entry WHERE folder NOT IN (SELECT id FROM folder)", [])?;
        self.run(
            "DELETE FROM content WHERE digest NOT IN (
                SELECT substr(state, 14) FROM entry WHERE substr(state, 1, 1) = x'01'
                UNION SELECT substr(before, 14) FROM event WHERE substr(before, 1, 1) = x'01'
                UNION SELECT substr(after, 14) FROM event WHERE substr(after, 1, 1) = x'01')",
            [],
        )
        .map(drop)
    }
}

/// Keeps contents in a transaction.
pub(crate) struct ContentKeeper<'w>(pub(crate) &'w Writer<'w>);

impl Keeper for ContentKeeper<'_> {
    fn keep(&mut self, contents: &[u8]) -> Result<Digest, Error> {
        let digest = Digest::of(contents);
        let Self(writer) = self;
        let query = "SELECT 1 FROM content WHERE digest = ?";
        let is_known = writer
            .transaction
            .prepare_cached(query)
            .and_then(|mut statement| statement.exists([&digest.0[..]]))
            .map_err(|error| writer.failed(error))?;
        if !is_known {
            let data = zstd::bulk::compress(contents, COMPRESSION)
                .map_err(Error::io(writer.path, "compressing contents for"))?;
            writer.run(
                "INSERT INTO content (digest, data) VALUES (?, ?)",
                params![&digest.0[..], data],
            )?;
        }
        Ok(digest)
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

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Seconds since 1970.
fn seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
