//! Checks a database before it is used: quickly if the last store closed it and it has not changed
//! since, thoroughly otherwise. A lock serialises this among stores and processes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::StoreError;
use crate::sqlite::connection::BUSY_TIMEOUT;
use crate::sqlite::failure::Failure;
use crate::sqlite::paths::{DAMAGED, OWNERS, create_private_file, database_path, lock_path};
use crate::sqlite::salvage::{self, Damage, Log, LogIndex, with_suffix};
use crate::sqlite::{integrity, owner, schema};

/// Size up to which a database is read completely after a crash, which takes some tenths of a
/// second. Damage of a larger one is detected when it is read.
const MAX_FULL_CHECK: u64 = 16 << 20;

/// Content of the lock file while a database is in use. Earlier versions wrote nothing.
const OPEN: &str = "open\n";

/// The held lock; other stores wait until it is dropped.
pub(crate) struct Opening {
    /// `None` for an inspection without a lock file.
    lock: Option<File>,
    path: PathBuf,
    database: PathBuf,
    owners: PathBuf,
    /// True if no other store has the database open.
    pub(crate) alone: bool,
    /// See [`Damage::lost_unnamed`].
    lost_unnamed: bool,
}

/// The end of the last store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastUse {
    /// It closed the database, which has not changed since.
    Closed,
    /// It closed the database, which another program has changed since.
    Touched,
    /// It found damage.
    Damaged,
    /// It was killed.
    Killed,
    /// It was an earlier version, or there was none.
    Unknown,
}

impl LastUse {
    /// Returns whether there was a database with tables.
    fn had_tables(self) -> bool {
        self != Self::Unknown
    }

    /// Returns whether nothing indicates damage except that the end is unknown.
    fn is_crash(self) -> bool {
        matches!(self, Self::Killed | Self::Unknown)
    }
}

impl Opening {
    /// Waits for the lock of the store in `dir`, whose files have passed [`preflight::check`].
    pub(crate) fn begin(dir: &Path) -> Result<Self, StoreError> {
        let path = lock_path(dir);
        let lock = create_private_file(&path)?;
        lock.lock().map_err(|error| StoreError::io("lock", &path, error))?;
        Self::of(dir, path, Some(lock))
    }

    /// For [`Opening::examine`] only: neither creates a lock nor waits for one.
    pub(crate) fn inspect(dir: &Path) -> Result<Self, StoreError> {
        let path = lock_path(dir);
        let lock = match files::open(&path) {
            Ok(opened) => Some(opened.file),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(StoreError::io("open", &path, error.into_io())),
        };
        Self::of(dir, path, lock)
    }

    fn of(dir: &Path, path: PathBuf, lock: Option<File>) -> Result<Self, StoreError> {
        let (database, owners) = (database_path(dir), dir.join(OWNERS));
        let alone = owner::living(&owners, "")?.is_empty();
        Ok(Self { lock, path, database, owners, alone, lost_unnamed: false })
    }

    /// Checks the database, and completes an interrupted salvage.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the database must be salvaged.
    pub(crate) fn verify_files(&mut self) -> Result<(), StoreError> {
        if self.alone && salvage::is_begun(&self.database)? && salvage::finish(&self.database)? {
            return self.note("");
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        self.examine(|path| Ok(Connection::open_with_flags(path, flags)?))
    }

    /// As [`Opening::verify_files`], on a connection from `open`, and without changes. Uses SQLite
    /// only if the headers of the database and its log are valid: it deletes the log of an
    /// unreadable database, and overwrites an unreadable log.
    pub(crate) fn examine(
        &mut self,
        open: impl FnOnce(&Path) -> Result<Connection, Failure>,
    ) -> Result<(), StoreError> {
        if !self.alone {
            // Opening and closing the file would release the locks of another store in this
            // process.
            return self.check_there();
        }
        let last = self.last_use()?;
        if last == LastUse::Closed {
            return Ok(());
        }
        let log = Log::read(&with_suffix(&self.database, "-wal"))?;
        self.check_log(&log)?;
        let Some((header, bytes)) = self.header()? else {
            return match (log.has_commits(), last.had_tables()) {
                (true, _) => Err(self.lost("it is missing, but its log exists")),
                (false, true) => Err(self.lost("it is missing")),
                (false, false) => Ok(()),
            };
        };
        if bytes == 0 {
            return match log.has_commits() || last.had_tables() {
                true => Err(self.lost("it is empty, but was not before")),
                false => Ok(()),
            };
        }
        if !header.starts_with(b"SQLite format 3\0") || header.len() < 100 {
            return Err(self.corrupt("its header is not that of a database"));
        }
        if log.shows_truncation(bytes, &header) {
            return Err(self.lost("its end is missing"));
        }
        let header = log.header.unwrap_or(header);
        let thorough = !last.is_crash() || bytes <= MAX_FULL_CHECK;
        let verified = open(&self.database)
            .and_then(|conn| verify(&conn, &self.database, thorough))
            .map_err(|failure| failure.at(&self.database));
        match verified {
            Ok(Content::None) if last.had_tables() => Err(self.lost("its tables are missing")),
            Ok(Content::None) => Ok(()),
            // With such a header, SQLite would write in an unexpected format.
            Ok(Content::Threads) if is_foreign_header(&header) => {
                Err(self.corrupt("its header is damaged"))
            }
            Err(StoreError::Unavailable(fault))
                if fault.is_of_sqlite() && is_foreign_header(&header) =>
            {
                Err(self.corrupt("its header is damaged"))
            }
            Ok(Content::Threads) => Ok(()),
            Err(StoreError::Foreign(_)) if last.had_tables() => {
                Err(self.lost("another program's database is at its path"))
            }
            Err(error) => Err(error),
        }
    }

    /// Checks a database that another store has open. That store created it before it got its lock.
    fn check_there(&self) -> Result<(), StoreError> {
        let what = match fs::metadata(&self.database) {
            Ok(metadata) if metadata.len() > 0 => return Ok(()),
            Ok(_) => "was emptied",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
            Err(error) => return Err(StoreError::io("read", &self.database, error)),
        };
        let holders = owner::living(&self.owners, "")?.join(", ");
        let advice = format!("Restore it, or stop that server ({holders}), then start again");
        Err(StoreError::files_changed(&self.database, what, &advice))
    }

    /// Compares the log with its index.
    fn check_log(&mut self, log: &Log) -> Result<(), StoreError> {
        if log.damaged {
            return Err(self.corrupt("its log is damaged"));
        }
        if log.is_unreadable() {
            return Err(self.lost("the header of its log is invalid"));
        }
        let index = LogIndex::read(&with_suffix(&self.database, "-shm"))?;
        match index.and_then(|index| log.lacks(&index)) {
            Some(lack) => Err(self.lost(&lack)),
            None => Ok(()),
        }
    }

    /// The damage that [`Opening::verify_files`] found.
    pub(crate) fn damage(&self, detail: String) -> Damage {
        Damage { detail, lost_unnamed: self.lost_unnamed }
    }

    /// Notes that the database is in use.
    pub(crate) fn note_in_use(&mut self) -> Result<(), StoreError> {
        self.note(OPEN)
    }

    /// Notes an orderly shutdown, if no other store has the database open.
    pub(crate) fn note_closed(&mut self, me: &str) -> Result<(), StoreError> {
        let others = owner::living(&self.owners, me)?;
        if !others.is_empty() || self.read()? == DAMAGED {
            return Ok(());
        }
        let log = with_suffix(&self.database, "-wal");
        if fs::metadata(&log).is_ok_and(|metadata| metadata.len() > 0) {
            return Ok(());
        }
        match stamp(&self.database) {
            Some(stamp) => self.note(&stamp),
            None => Ok(()),
        }
    }

    fn last_use(&mut self) -> Result<LastUse, StoreError> {
        let text = self.read()?;
        Ok(match text.as_str() {
            DAMAGED => LastUse::Damaged,
            OPEN => LastUse::Killed,
            closed if closed.starts_with("closed ") => {
                let log = with_suffix(&self.database, "-wal");
                let untouched = stamp(&self.database).as_deref() == Some(closed)
                    && !fs::metadata(&log).is_ok_and(|metadata| metadata.len() > 0);
                if untouched { LastUse::Closed } else { LastUse::Touched }
            }
            _ => LastUse::Unknown,
        })
    }

    /// The first bytes and the size of the database.
    fn header(&self) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        let opened = match files::open(&self.database) {
            Err(error) if error.is_not_found() => return Ok(None),
            other => {
                other.map_err(|error| StoreError::io("open", &self.database, error.into_io()))?
            }
        };
        let mut header = Vec::new();
        let read = opened.file.take(100).read_to_end(&mut header);
        read.map_err(|error| StoreError::io("read", &self.database, error))?;
        Ok(Some((header, opened.metadata.len())))
    }

    /// As [`Opening::corrupt`], for a missing file whose content nothing else names.
    fn lost(&mut self, detail: &str) -> StoreError {
        self.lost_unnamed = true;
        self.corrupt(detail)
    }

    fn corrupt(&self, detail: &str) -> StoreError {
        StoreError::corrupt(&self.database, detail)
    }

    fn read(&mut self) -> Result<String, StoreError> {
        let mut text = String::new();
        let Some(mut file) = self.lock.as_ref() else { return Ok(text) };
        let read = file.rewind().and_then(|()| file.take(200).read_to_string(&mut text));
        match read {
            // Not written by this program.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(String::new()),
            other => other.map(|_| text).map_err(|error| StoreError::io("read", &self.path, error)),
        }
    }

    fn note(&mut self, text: &str) -> Result<(), StoreError> {
        if self.read()? == text {
            return Ok(());
        }
        let Some(mut file) = self.lock.as_ref() else { return Ok(()) };
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()));
        written.map_err(|error| StoreError::io("write", &self.path, error))
    }
}

/// A text that changes whenever the file changes.
fn stamp(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("closed {} {}\n", metadata.len(), changed.as_nanos()))
}

/// Checks with SQLite that the tables are those of a store, and if `thorough`, that every page and
/// text is readable. Changes nothing.
fn verify(conn: &Connection, path: &Path, thorough: bool) -> Result<Content, Failure> {
    // Must not change the log of a damaged database.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    let current = schema::is_current(conn, path)?;
    if schema::has_no_tables(conn)? {
        return Ok(Content::None);
    }
    if thorough {
        let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            let detail = found.lines().next_back().unwrap_or_default();
            return Err(StoreError::corrupt(path, detail).into());
        }
        if current {
            integrity::check_all(conn)?;
        }
    }
    Ok(Content::Threads)
}

/// The content of a readable database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// The tables of a store.
    Threads,
    /// No tables at all.
    None,
}

/// Returns whether a header differs from that of a store: page size, write-ahead log, no reserved
/// space, format 4, UTF-8.
fn is_foreign_header(header: &[u8]) -> bool {
    let at =
        |from: usize, bytes: &[u8]| header.get(from..).is_some_and(|rest| rest.starts_with(bytes));
    !(at(16, &[0x10, 0, 2, 2, 0, 64, 32, 32]) && at(44, &[0, 0, 0, 4]) && at(56, &[0, 0, 0, 1]))
}
