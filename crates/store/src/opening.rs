//! The first look at a database, before it is used: cheap where the last store closed it and nobody
//! touched it since, thorough otherwise. One store at a time does this, also of several processes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::connection::BUSY_TIMEOUT;
use crate::error::Failure;
use crate::paths::{DAMAGED, OWNERS, create_private_file, database_path, lock_path};
use crate::salvage::{self, Damage, Log, LogIndex, with_suffix};
use crate::{StoreError, integrity, owner, schema};

/// A database of which nothing is known is read whole up to this size: that takes some tenths of a
/// second. In a larger one damage shows when it is read.
const LOOK_UP_TO: u64 = 16 << 20;

/// What it says while a database is in use. Earlier versions wrote nothing.
const OPEN: &str = "open\n";

/// The lock; others wait for it to be dropped.
pub(crate) struct Opening {
    /// `None` where it is only looked at, and there is none.
    lock: Option<File>,
    path: PathBuf,
    database: PathBuf,
    owners: PathBuf,
    /// No other store has the database open.
    pub(crate) alone: bool,
    /// See [`Damage::lost_unnamed`], of the damage that was found.
    lost_unnamed: bool,
}

/// How the last store ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastUse {
    /// It was closed, and the database has not been changed since.
    Closed,
    /// It was closed, and somebody else wrote to the database.
    Touched,
    /// It found damage.
    Damaged,
    /// It was killed.
    Killed,
    /// It is of an earlier version, or there was none.
    Unknown,
}

impl LastUse {
    /// Whether there was a database, with tables.
    fn had_tables(self) -> bool {
        self != Self::Unknown
    }

    /// Whether nothing hints at damage but that the end is not known.
    fn is_crash(self) -> bool {
        matches!(self, Self::Killed | Self::Unknown)
    }
}

impl Opening {
    /// Waits for the lock of the store in `dir`. The files have passed [`preflight::check`].
    pub(crate) fn begin(dir: &Path) -> Result<Self, StoreError> {
        let path = lock_path(dir);
        let lock = create_private_file(&path)?;
        lock.lock().map_err(|error| StoreError::io("lock", &path, error))?;
        Self::of(dir, path, Some(lock))
    }

    /// For [`Opening::examine`] alone: makes no lock and waits for none.
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

    /// Says what is wrong with the database, by [`StoreError::Corrupt`] where it can be salvaged.
    /// Ends a salvage that was begun.
    pub(crate) fn look(&mut self) -> Result<(), StoreError> {
        if self.alone && salvage::is_begun(&self.database)? && salvage::finish(&self.database)? {
            return self.note("");
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        self.examine(|path| Ok(Connection::open_with_flags(path, flags)?))
    }

    /// As [`Opening::look`], on a connection that `open` makes. Changes nothing itself. SQLite is let
    /// near the database only when that begins as a database does and its log as a log: it removes
    /// the log of a file that it cannot read, and writes over a log that it cannot read.
    pub(crate) fn examine(
        &mut self,
        open: impl FnOnce(&Path) -> Result<Connection, Failure>,
    ) -> Result<(), StoreError> {
        if !self.alone {
            // Opening and closing the file would let go of the locks of a store of this process.
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
                (true, _) => Err(self.lost("it is gone, and its log is there")),
                (false, true) => Err(self.lost("it is gone")),
                (false, false) => Ok(()),
            };
        };
        if bytes == 0 {
            return match log.has_commits() || last.had_tables() {
                true => Err(self.lost("it is empty, and it was not")),
                false => Ok(()),
            };
        }
        if !header.starts_with(b"SQLite format 3\0") || header.len() < 100 {
            return Err(self.corrupt("it does not begin as a database does"));
        }
        if log.shows_truncation(bytes, &header) {
            return Err(self.lost("its end is missing"));
        }
        let header = log.header.unwrap_or(header);
        let thorough = !last.is_crash() || bytes <= LOOK_UP_TO;
        let verified = open(&self.database)
            .and_then(|conn| verify(&conn, &self.database, thorough))
            .map_err(|failure| failure.at(&self.database));
        match verified {
            Ok(Content::None) if last.had_tables() => Err(self.lost("its tables are gone")),
            Ok(Content::None) => Ok(()),
            // With such a header SQLite would write to it in another way than we expect.
            Ok(Content::Threads) | Err(StoreError::Sqlite { .. }) if is_odd(&header) => {
                Err(self.corrupt("its header is damaged"))
            }
            Ok(Content::Threads) => Ok(()),
            Err(StoreError::Foreign { .. }) if last.had_tables() => {
                Err(self.lost("another program's database has taken its place"))
            }
            Err(error) => Err(error),
        }
    }

    /// A database that another store has open is there: it stored something before it got its lock.
    fn check_there(&self) -> Result<(), StoreError> {
        let what = match fs::metadata(&self.database) {
            Ok(metadata) if metadata.len() > 0 => return Ok(()),
            Ok(_) => "was emptied",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved away",
            Err(error) => return Err(StoreError::io("read", &self.database, error)),
        };
        let holders = owner::living(&self.owners, "")?.join(", ");
        let advice = format!("Put it back, or end that server ({holders}), then start again");
        Err(StoreError::FilesChanged { path: self.database.clone(), what, advice })
    }

    /// Compares the log with its index.
    fn check_log(&mut self, log: &Log) -> Result<(), StoreError> {
        if log.damaged {
            return Err(self.corrupt("its log is damaged"));
        }
        if log.is_unreadable() {
            return Err(self.lost("its log does not begin as a log does"));
        }
        let index = LogIndex::read(&with_suffix(&self.database, "-shm"))?;
        match index.and_then(|index| log.lacks(&index)) {
            Some(lack) => Err(self.lost(&lack)),
            None => Ok(()),
        }
    }

    /// The damage that [`Opening::look`] has found.
    pub(crate) fn damage(&self, detail: String) -> Damage {
        Damage { detail, lost_unnamed: self.lost_unnamed }
    }

    /// From now on the database is in use: how it ends is not known.
    pub(crate) fn note_in_use(&mut self) -> Result<(), StoreError> {
        self.note(OPEN)
    }

    /// Notes that the database was closed in order, if no other store has it open.
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

    /// The first bytes of the database, and how many it has.
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

    /// As [`Opening::corrupt`], where a file is missing that held what nothing else names.
    fn lost(&mut self, detail: &str) -> StoreError {
        self.lost_unnamed = true;
        self.corrupt(detail)
    }

    fn corrupt(&self, detail: &str) -> StoreError {
        StoreError::Corrupt { path: self.database.clone(), detail: detail.to_owned() }
    }

    fn read(&mut self) -> Result<String, StoreError> {
        let mut text = String::new();
        let Some(mut file) = self.lock.as_ref() else { return Ok(text) };
        let read = file.rewind().and_then(|()| file.take(200).read_to_string(&mut text));
        match read {
            // Not written by us: nothing is known.
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

/// Names the state of a file: it changes with the file.
fn stamp(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("closed {} {}\n", metadata.len(), changed.as_nanos()))
}

/// Looks for damage with SQLite: whether the tables are ours and, where it is to be `thorough`,
/// whether every page and every text can be read. Changes nothing.
fn verify(conn: &Connection, path: &Path, thorough: bool) -> Result<Content, Failure> {
    // The log of a damaged database stays as it is.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.busy_timeout(BUSY_TIMEOUT)?;
    let current = schema::is_current(conn, path)?;
    if schema::has_no_tables(conn)? {
        return Ok(Content::None);
    }
    if thorough {
        let found: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            let detail = found.lines().next_back().unwrap_or_default().to_owned();
            return Err(StoreError::Corrupt { path: path.to_owned(), detail }.into());
        }
        if current {
            integrity::check_all(conn)?;
        }
    }
    Ok(Content::Threads)
}

/// What is in a database that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Our tables.
    Threads,
    /// No tables at all.
    None,
}

/// Whether a header is not as those of our databases are: size of pages, write-ahead log, no
/// reserved space, format 4, UTF-8.
fn is_odd(header: &[u8]) -> bool {
    let at =
        |from: usize, bytes: &[u8]| header.get(from..).is_some_and(|rest| rest.starts_with(bytes));
    !(at(16, &[0x10, 0, 2, 2, 0, 64, 32, 32]) && at(44, &[0, 0, 0, 4]) && at(56, &[0, 0, 0, 1]))
}
