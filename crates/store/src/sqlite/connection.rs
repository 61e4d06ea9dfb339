//! Opens connections to the database: private files, write-ahead log, small caches, current schema.
//! Does not know the tables.

#[cfg(unix)]
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

use crate::sqlite::failure::Failure;
use crate::sqlite::identity::Identity;
use crate::sqlite::paths::{OWNERS, note_damage, restrict};
use crate::sqlite::{log_writes, owner, schema};
use crate::{StoreError, Synchronous};

/// The first version that does not lose committed pages when a write-ahead log is reset during a
/// read of another process.
const NEEDED_SQLITE: (i32, &str) = (3_051_003, "3.51.3");

/// Maximum wait of a write for a write of another process.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Page cache of a connection, in KiB. A store has at most three connections.
const CACHE_KIB: i64 = 1024;

/// Cached statements; more than this crate uses often.
const STATEMENTS: usize = 48;

/// Size of the log file, in bytes, that is kept on disk after a checkpoint.
const LOG_LIMIT: i64 = 1 << 20;

/// The database, and how to open it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The database file.
    pub(crate) path: Arc<Path>,
    pub(crate) synchronous: Synchronous,
    pub(crate) max_pages: Option<u32>,
    /// Pages in the write-ahead log after the latest commit of this process; at least 1 after it
    /// created the tables.
    pub(crate) log_pages: Arc<AtomicU32>,
    /// True once damage was found and noted in the lock file.
    pub(crate) damage_noted: Arc<AtomicBool>,
    /// The identity of the opened files.
    pub(crate) identity: Arc<Identity>,
}

/// The use of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Writer,
    Reader,
}

impl Target {
    /// Opens a connection to a database that [`Target::prepare`] has prepared.
    pub(crate) fn connect(&self, role: Role) -> Result<Connection, StoreError> {
        self.check_files()?;
        let open = || -> Result<Connection, Failure> {
            let mut conn = self.open(role, false)?;
            self.configure(&mut conn, role)?;
            Ok(conn)
        };
        open().map_err(|failure| failure.at(&self.path))
    }

    /// Checks that the database is still the one that was opened.
    pub(crate) fn check_files(&self) -> Result<(), StoreError> {
        self.identity.check(&self.path)
    }

    /// Creates or migrates the database, and opens the writer's connection. The caller holds the
    /// lock of the store.
    pub(crate) fn prepare(&self) -> Result<Connection, StoreError> {
        check_linked_version()?;
        let open = || -> Result<Connection, Failure> {
            let mut conn = self.open(Role::Writer, true)?;
            // By path, because closing another file handle would release SQLite's locks on the
            // file. Until here only the folder is private; the log files copy this mode.
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

    fn open(&self, role: Role, create: bool) -> Result<Connection, Failure> {
        let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        if create {
            flags |= OpenFlags::SQLITE_OPEN_CREATE;
        }
        let file_system = if role == Role::Writer { log_writes::file_system() } else { None };
        let conn = match file_system {
            Some(name) => Connection::open_with_flags_and_vfs(&self.path, flags, name)?,
            None => Connection::open_with_flags(&self.path, flags)?,
        };
        conn.busy_timeout(BUSY_TIMEOUT)?;
        Ok(conn)
    }

    /// Sets the log mode and the tables of a new or older file.
    fn prepare_file(&self, conn: &mut Connection) -> Result<(), Failure> {
        let fresh = schema::has_no_tables(conn)?;
        if !fresh {
            // An older program that has the file open does not know the new tables.
            let owners = self.path.with_file_name(OWNERS);
            let holders = if owners.is_dir() { owner::living(&owners, "")? } else { Vec::new() };
            if !holders.is_empty() {
                return Err(StoreError::older_in_use(&self.path, &holders.join(", ")).into());
            }
        }
        if fresh && self.synchronous == Synchronous::Normal {
            // Nothing is stored yet, so the first start need not wait for the disk. `Store::open`
            // then copies the log and flushes both files.
            conn.pragma_update(None, "synchronous", "OFF")?;
        }
        let mode: String =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
        if mode != "wal" {
            let source = io::Error::other(
                "its file system does not support shared memory for the log; use a local file system",
            );
            return Err(StoreError::io("use", &self.path, source).into());
        }
        schema::migrate(conn)?;
        // Releases the memory that creating the tables needed.
        conn.execute_batch("PRAGMA shrink_memory")?;
        self.log_pages.store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Notes that the next store must salvage the database. If the note fails, the next read of the
    /// damage repeats it.
    fn note_damage(&self) {
        if !self.damage_noted.swap(true, Ordering::Relaxed) {
            let _ = note_damage(&self.path);
        }
    }

    fn configure(&self, conn: &mut Connection, role: Role) -> Result<(), Failure> {
        conn.set_prepared_statement_cache_capacity(STATEMENTS);
        // Otherwise the last connection would copy the log into whatever file is at the path by
        // then, and remove it. The writer does that in an orderly shutdown.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // The readers' threads copy the log into the database (see `pool`), not commits. No memory
        // mapping, because mapped pages count as resident memory.
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

/// A connection that is reopened after an error that can leave it unusable.
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
        // A transaction that cannot be rolled back would block all later ones.
        let spoiled =
            outcome.as_ref().is_err_and(Failure::taints_connection) || !conn.is_autocommit();
        if !spoiled {
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
        return Err(StoreError::sqlite_too_old(rusqlite::version(), needed));
    }
    Ok(())
}
