//! Opens connections to the database: private files, write-ahead log, small caches, the right
//! schema. Knows no table; what runs on a connection is up to the writer and the readers.

#[cfg(unix)]
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::error::Failure;
use crate::identity::Identity;
use crate::paths::{OWNERS, note_damage, restrict};
use crate::{StoreError, Synchronous, owner, schema};

/// Fixes the loss of committed pages when a write-ahead log is reset while another process reads.
const NEEDED_SQLITE: (i32, &str) = (3_051_003, "3.51.3");

/// How long a write waits for another process's write before it is refused.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Most memory of one connection's page cache, in KiB. A store has at most three connections.
const CACHE_KIB: i64 = 1024;

/// More than all statements of this crate that are worth keeping.
const STATEMENTS: usize = 48;

/// What a log file may keep on disk once its content is in the database: 1 MiB.
const LOG_LIMIT: i64 = 1 << 20;

/// Where the database is and how to open it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The database file; a made-up name when `in_memory`.
    pub(crate) path: Arc<Path>,
    pub(crate) in_memory: bool,
    pub(crate) synchronous: Synchronous,
    pub(crate) max_pages: Option<u32>,
    /// Pages in the write-ahead log after this program's latest commit; at least 1 after it made
    /// the tables.
    pub(crate) log_pages: Arc<AtomicU32>,
    /// Damage was found, and the lock file says so.
    pub(crate) damage_noted: Arc<AtomicBool>,
    /// The files that were opened.
    pub(crate) identity: Arc<Identity>,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Reader,
}

impl Target {
    /// Opens a connection to a database that [`Target::prepare`] has made ready.
    pub(crate) fn connect(&self, role: Role) -> Result<Connection, StoreError> {
        self.check_files()?;
        let open = || -> Result<Connection, Failure> {
            let mut conn = if self.in_memory {
                let mut conn = Connection::open_in_memory()?;
                schema::migrate(&mut conn)?;
                conn
            } else {
                self.open(false)?
            };
            self.configure(&mut conn, role)?;
            Ok(conn)
        };
        open().map_err(|failure| failure.at(&self.path))
    }

    /// Checks that the database is still the one that was opened.
    pub(crate) fn check_files(&self) -> Result<(), StoreError> {
        self.identity.check(&self.path)
    }

    /// Makes what is missing of the database, brings it up to date, and opens the connection of the
    /// writer. The caller keeps others from doing the same.
    pub(crate) fn prepare(&self) -> Result<Connection, StoreError> {
        check_linked_version()?;
        let open = || -> Result<Connection, Failure> {
            let mut conn = self.open(true)?;
            // By path: a file handle of our own would, when closed, drop SQLite's locks on the
            // file. Until here the folder alone keeps others out; the log files copy this mode.
            restrict(&self.path, 0o600)?;
            if !schema::is_current(&conn, &self.path)? {
                self.prepare_file(&mut conn)?;
            }
            schema::probe(&conn)?;
            self.configure(&mut conn, Role::Writer)?;
            let pages = conn.query_row("PRAGMA page_count", [], |row| row.get::<_, u32>(0))?;
            let size = conn.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0))?;
            self.identity.note(&self.path, u64::from(pages) * u64::from(size))?;
            Ok(conn)
        };
        open().map_err(|failure| failure.at(&self.path))
    }

    fn open(&self, create: bool) -> Result<Connection, Failure> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let conn = Connection::open_with_flags(&self.path, flags)?;
        conn.busy_timeout(BUSY_TIMEOUT)?;
        Ok(conn)
    }

    /// Gives a fresh or older file its log mode and tables.
    fn prepare_file(&self, conn: &mut Connection) -> Result<(), Failure> {
        let fresh = schema::has_no_tables(conn)?;
        if !fresh {
            // An older program that has it open knows nothing of the tables to come.
            let owners = self.path.with_file_name(OWNERS);
            let holders = if owners.is_dir() { owner::living(&owners, "")? } else { Vec::new() };
            if !holders.is_empty() {
                let (path, holders) = (self.path.to_path_buf(), holders.join(", "));
                return Err(StoreError::OlderInUse { path, holders }.into());
            }
        }
        if fresh && self.synchronous == Synchronous::Normal {
            // Nothing is stored yet, so nothing needs to reach the disk before the first start
            // goes on; the log is copied, and both files flushed, right after (see `Store::open`).
            conn.pragma_update(None, "synchronous", "OFF")?;
        }
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            let source = io::Error::other("the file system has no shared memory for its log");
            return Err(StoreError::io("use", &self.path, source).into());
        }
        schema::migrate(conn)?;
        // Making the tables took memory that nothing else will need.
        conn.execute_batch("PRAGMA shrink_memory")?;
        self.log_pages.store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Has the next store that opens the database salvage it. Should that not be noted, damage is
    /// found once more when it is read.
    fn note_damage(&self) {
        if !self.in_memory && !self.damage_noted.swap(true, Ordering::Relaxed) {
            let _ = note_damage(&self.path);
        }
    }

    fn configure(&self, conn: &mut Connection, role: Role) -> Result<(), Failure> {
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        // The last connection would copy the log into whatever the database is by then, and remove
        // it. The writer does that when it ends in order.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // The log is copied into the database by the readers' threads (see `pool`), not by commits.
        // Memory mapping stays off: mapped pages would count as resident.
        conn.execute_batch(&format!(
            "PRAGMA synchronous = {}; PRAGMA cache_size = -{CACHE_KIB}; PRAGMA mmap_size = 0;
             PRAGMA temp_store = MEMORY; PRAGMA trusted_schema = OFF; PRAGMA secure_delete = ON;
             PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_LIMIT};",
            self.synchronous.pragma()
        ))?;
        if role == Role::Reader {
            conn.pragma_update(None, "query_only", true)?;
        } else {
            if let Some(pages) = self.max_pages {
                conn.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
            }
            let log_pages = Arc::clone(&self.log_pages);
            conn.wal_hook(Some(move |_: &mut Wal, pages: i32| {
                log_pages.store(pages.unsigned_abs(), Ordering::Relaxed);
                Ok(())
            }))?;
        }
        Ok(())
    }
}

/// A connection that is opened again after an error that may have spoiled it.
pub(crate) struct Link {
    target: Target,
    role: Role,
    conn: Option<Connection>,
}

impl Link {
    pub(crate) fn new(target: Target, role: Role, conn: Option<Connection>) -> Self {
        Self { target, role, conn }
    }

    /// Runs `work` on the connection.
    pub(crate) fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.target.connect(self.role)?,
        };
        let outcome = work(&mut conn);
        if outcome.as_ref().is_err_and(Failure::shows_damage) {
            self.target.note_damage();
        }
        // A transaction that could not even be rolled back would block all that come after.
        let spoiled =
            outcome.as_ref().is_err_and(Failure::taints_connection) || !conn.is_autocommit();
        // An in-memory database is its connection: it cannot be replaced.
        if self.target.in_memory || !spoiled {
            self.conn = Some(conn);
        }
        outcome.map_err(|failure| failure.at(&self.target.path))
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

fn check_linked_version() -> Result<(), StoreError> {
    let (number, needed) = NEEDED_SQLITE;
    if rusqlite::version_number() < number {
        return Err(StoreError::SqliteTooOld { found: rusqlite::version(), needed });
    }
    Ok(())
}
