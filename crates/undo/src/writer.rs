//! A transaction of the database: the index of folders, what turns changed, and the calls that run.

use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Transaction, params};

use crate::error::Error;
use crate::folder::Keeper;
use crate::index::{Change, Row};
use crate::recovery::Mark;
use crate::state::{Digest, State, path_from_bytes};
use crate::turn::{Scope, Turn};

/// Level of compression: contents are written once, and rarely read.
const COMPRESSION: i32 = 1;

/// A call that runs in another process, or ran in one that died.
pub(crate) struct WindowElsewhere {
    pub(crate) number: i64,
    pub(crate) process: u32,
    pub(crate) turn: Turn,
    pub(crate) has_met_others: bool,
    /// When the process was last known to run, in nanoseconds since 1970.
    pub(crate) alive_at: i64,
}

/// A transaction.
pub(crate) struct Writer<'d> {
    pub(crate) path: &'d Path,
    pub(crate) transaction: Transaction<'d>,
}

impl Writer<'_> {
    fn failed(&self, cause: rusqlite::Error) -> Error {
        Error::Database { path: self.path.to_owned(), cause }
    }

    pub(crate) fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, Error> {
        let statement = self.transaction.prepare_cached(sql);
        statement.and_then(|mut statement| statement.execute(values)).map_err(|e| self.failed(e))
    }

    pub(crate) fn folder(&self, root: &Path) -> Result<i64, Error> {
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

    /// Records a change of a turn.
    pub(crate) fn record(
        &self,
        turn: &Turn,
        folder: i64,
        change: &Change,
        is_uncertain: bool,
    ) -> Result<(), Error> {
        let state = |state: &Option<State>| state.as_ref().map(State::to_bytes);
        self.run(
            "INSERT INTO event (tree, thread, turn, at, folder, path, before, after, is_uncertain)
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
        )
        .map(drop)
    }

    /// Notes that a call of a turn is not recorded.
    pub(crate) fn note_unrecorded(&self, turn: &Turn) -> Result<(), Error> {
        self.run(
            "INSERT INTO event (tree, thread, turn, at, is_unrecorded) VALUES (?, ?, ?, ?, 1)",
            params![turn.tree, turn.thread, turn.turn, seconds()],
        )
        .map(drop)
    }

    /// Returns whether calls of other processes ran in `folder` at the same time as the running
    /// ones of this process.
    pub(crate) fn has_met_others(&self, folder: i64) -> Result<bool, Error> {
        let query = "SELECT coalesce(max(has_met_others), 0) FROM window
                     WHERE folder = ? AND process = ?";
        self.transaction
            .query_row(query, params![folder, std::process::id()], |row| row.get(0))
            .map_err(|error| self.failed(error))
    }

    /// Notes that a tool call runs in `folder`; returns its number.
    pub(crate) fn open_window(&self, folder: i64, turn: &Turn) -> Result<i64, Error> {
        let process = std::process::id();
        let met = self.run(
            "UPDATE window SET has_met_others = 1 WHERE folder = ? AND process != ?",
            params![folder, process],
        )?;
        self.run(
            "INSERT INTO window (folder, process, tree, thread, turn, has_met_others, alive_at)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![folder, process, turn.tree, turn.thread, turn.turn, met > 0, now()],
        )?;
        Ok(self.transaction.last_insert_rowid())
    }

    pub(crate) fn close_window(&self, window: i64) -> Result<(), Error> {
        self.run("DELETE FROM window WHERE id = ?", [window]).map(drop)
    }

    /// Notes that this process still runs.
    pub(crate) fn note_alive(&self) -> Result<(), Error> {
        let values = params![now(), std::process::id()];
        self.run("UPDATE window SET alive_at = ? WHERE process = ?", values).map(drop)
    }

    /// The calls that run in `folder` in other processes.
    pub(crate) fn windows_elsewhere(&self, folder: i64) -> Result<Vec<WindowElsewhere>, Error> {
        let query = "SELECT id, process, tree, thread, turn, has_met_others, alive_at FROM window
             WHERE folder = ? AND process != ?";
        let mut statement =
            self.transaction.prepare_cached(query).map_err(|error| self.failed(error))?;
        let rows = statement.query_map(params![folder, std::process::id()], |row| {
            Ok(WindowElsewhere {
                number: row.get(0)?,
                process: row.get(1)?,
                turn: Turn { tree: row.get(2)?, thread: row.get(3)?, turn: row.get(4)? },
                has_met_others: row.get(5)?,
                alive_at: row.get(6)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(|error| self.failed(error))
    }

    /// An earlier process had this process's number, as it is usual in containers: its windows are
    /// those of a process that died.
    pub(crate) fn disown_windows(&self) -> Result<(), Error> {
        self.run("UPDATE window SET process = 0 WHERE process = ?", [std::process::id()]).map(drop)
    }

    /// Notes the folders that a restoration works in.
    pub(crate) fn begin_restoring(&self, folder: i64, marks: &[Mark]) -> Result<(), Error> {
        for mark in marks {
            self.run(
                "INSERT INTO restoring (folder, process, path, mode_before, mode_after)
                 VALUES (?, ?, ?, ?, ?)",
                params![
                    folder,
                    std::process::id(),
                    bytes_of(&mark.path),
                    mark.mode_before,
                    mark.mode_after
                ],
            )?;
        }
        Ok(())
    }

    /// Returns the marks of restorations of `folder`, with the process of each.
    pub(crate) fn restoring(&self, folder: i64) -> Result<Vec<(u32, Mark)>, Error> {
        let query = "SELECT process, path, mode_before, mode_after FROM restoring WHERE folder = ?";
        let mut statement =
            self.transaction.prepare_cached(query).map_err(|error| self.failed(error))?;
        let rows = statement.query_map([folder], |row| {
            let path = path_from_bytes(row.get(1)?);
            Ok((row.get(0)?, Mark { path, mode_before: row.get(2)?, mode_after: row.get(3)? }))
        });
        rows.and_then(Iterator::collect).map_err(|error| self.failed(error))
    }

    /// The restoration of `folder` by a process has ended, or is cleaned up after.
    pub(crate) fn end_restoring(&self, folder: i64, process: u32) -> Result<(), Error> {
        let values = params![folder, process];
        self.run("DELETE FROM restoring WHERE folder = ? AND process = ?", values).map(drop)
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

    pub(crate) fn stored_bytes(&self) -> Result<i64, Error> {
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

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Seconds since 1970.
pub(crate) fn seconds() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}
