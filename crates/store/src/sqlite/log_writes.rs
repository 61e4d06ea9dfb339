//! Writes what a commit appends to the write-ahead log in one piece. SQLite itself writes the header and
//! the page of each frame separately, which is most of the system calls of a commit. The only module of
//! the crate with `unsafe` code; it does not know the tables.
//!
//! A *virtual file system* of SQLite wraps the standard one: it opens the log as a [`LogFile`], whose
//! writes are collected during [`in_one_piece`], and leaves everything else to the standard one. The
//! frame that completes the transaction ends the collection: what it returns is the result of the write
//! itself, so SQLite reports no commit that the operating system does not have, and readers are shown no
//! frame that is not in the file. The bytes and their order are those that SQLite gives.
//!
//! Nothing is collected outside of a commit: what a transaction spills into the log before it is
//! complete would have to be dropped at the right moment when it is rolled back.
#![allow(unsafe_code, reason = "file systems of SQLite are tables of C functions")]

use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

/// Name of the file system.
const NAME: &CStr = c"agentd-log";

/// Bytes of one write at most, because the standard file system of Unix takes no more; then they are
/// written, and collecting goes on.
const MAX_COLLECTED: usize = (128 << 10) - 1;

/// Room for the writes of most commits. What is not written to takes no memory.
const MOST_COMMITS: usize = 64 << 10;

/// Bytes of the header of a frame. Those from 4 to 8 are not zero in the last frame of a transaction.
const FRAME_HEADER: usize = 24;

/// The name of the file system for [`rusqlite::Connection::open_with_flags_and_vfs`], registered now if
/// need be. `None` if SQLite has no standard file system; then its own writes have to do.
pub(crate) fn file_system() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(register).then_some(NAME)
}

/// Runs `commit`, which completes at most one transaction of a connection, and writes what it appends to
/// the log in one piece.
pub(crate) fn in_one_piece<T>(commit: impl FnOnce() -> T) -> T {
    /// Ends the collection, by a panic, too.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            // Only a commit that failed leaves something behind, which is then part of no transaction.
            COLLECTED.replace(None);
        }
    }
    COLLECTED.replace(Some(Collected::default()));
    let _end = End;
    commit()
}

thread_local! {
    /// The collected writes of the commit that runs on this thread; `None` when none does.
    static COLLECTED: RefCell<Option<Collected>> = const { RefCell::new(None) };
}

/// Adjacent writes to a file.
#[derive(Default)]
struct Collected {
    /// Address of the file; 0 when there are none.
    file: usize,
    at: sqlite3_int64,
    bytes: Vec<u8>,
    /// True once the header of the last frame was among them.
    is_last: bool,
}

impl Collected {
    /// Nothing yet, from this place on.
    fn from(file: usize, at: sqlite3_int64) -> Self {
        Self { file, at, bytes: Vec::with_capacity(MOST_COMMITS), is_last: false }
    }

    /// Returns whether a write of `length` bytes to `file` continues these, and there is room for it.
    fn can_add(&self, file: usize, at: sqlite3_int64, length: usize) -> bool {
        let continues =
            self.file == file && sqlite3_int64::try_from(self.bytes.len()) == Ok(at - self.at);
        continues && self.bytes.len() + length <= MAX_COLLECTED
    }

    /// Adds a write; returns whether it completes the transaction.
    fn add(&mut self, bytes: &[u8]) -> bool {
        let ends_frame = bytes.len() != FRAME_HEADER;
        if !ends_frame && bytes[4..8] != [0; 4] {
            self.is_last = true;
        }
        self.bytes.extend_from_slice(bytes);
        ends_frame && self.is_last
    }
}

/// The log, opened by the standard file system. SQLite allocates the memory of both: the standard file
/// follows this one.
#[repr(C)]
struct LogFile {
    base: sqlite3_file,
}

static LOG_METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // The first version: without the shared memory and the mapping, which belong to the database.
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

fn register() -> bool {
    // SAFETY: the standard file system is registered for the life of the process, as SQLite's own
    // memory, and `sqlite3_vfs` is plain data. The copy is never freed.
    unsafe {
        let standard = ffi::sqlite3_vfs_find(std::ptr::null());
        if standard.is_null() {
            return false;
        }
        let wrapper = Box::leak(Box::new(*standard));
        wrapper.szOsFile += size_of::<LogFile>() as c_int;
        wrapper.pNext = std::ptr::null_mut();
        wrapper.zName = NAME.as_ptr();
        wrapper.xOpen = Some(open);
        ffi::sqlite3_vfs_register(wrapper, 0) == ffi::SQLITE_OK
    }
}

/// Calls a method of the standard file.
macro_rules! forward {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file: *mut sqlite3_file = $file;
        // SAFETY: the methods of an open file are valid, as SQLite's contract for `xOpen` says.
        match unsafe { (*(*file).pMethods).$method } {
            // SAFETY: the arguments are those that SQLite gave for this file.
            Some(method) => unsafe { method(file $(, $argument)*) },
            None => ffi::SQLITE_IOERR,
        }
    }};
}

/// The file of the standard file system, which follows the log in memory.
///
/// # Safety
/// `file` is a [`LogFile`].
unsafe fn standard(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: `szOsFile` has room for both, so this stays inside of SQLite's allocation.
    unsafe { file.cast::<LogFile>().add(1).cast() }
}

/// Opens a file: the log as a [`LogFile`], any other as the standard file system does.
///
/// # Safety
/// SQLite's contract for `xOpen`: `file` has `szOsFile` bytes.
unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: as in `register`; it was there then.
    let system = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
    // SAFETY: as above.
    let Some(open) = (unsafe { system.as_ref().and_then(|system| system.xOpen) }) else {
        return ffi::SQLITE_CANTOPEN;
    };
    if flags & ffi::SQLITE_OPEN_WAL == 0 {
        // SAFETY: these are SQLite's own arguments, and there is more room than it needs.
        return unsafe { open(system, name, file, flags, flags_out) };
    }
    // SAFETY: `file` has room for a `LogFile` and a standard file, see `register`.
    unsafe {
        let inner = standard(file);
        (*inner).pMethods = std::ptr::null();
        (*file).pMethods = std::ptr::null();
        let code = open(system, name, inner, flags, flags_out);
        // A file with methods is closed by SQLite, even when it could not be opened.
        if !(*inner).pMethods.is_null() {
            (*file).pMethods = &raw const LOG_METHODS;
        }
        code
    }
}

/// Collects a write during [`in_one_piece`], or writes.
///
/// # Safety
/// SQLite's contract for `xWrite`: `file` is an open log, and `data` has `length` bytes.
unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: `open` made it.
    let inner = unsafe { standard(file) };
    let Some(mut collected) = COLLECTED.take() else {
        return forward!(inner, xWrite, data, length, at);
    };
    // SAFETY: as SQLite says, see above.
    let bytes = unsafe {
        std::slice::from_raw_parts(data.cast::<u8>(), usize::try_from(length).unwrap_or(0))
    };
    let this = inner.addr();
    if !collected.can_add(this, at, bytes.len()) {
        if let Err(code) = write_out(inner, &collected) {
            return code;
        }
        collected = Collected { is_last: collected.is_last, ..Collected::from(this, at) };
    }
    if !collected.add(bytes) {
        COLLECTED.replace(Some(collected));
        return ffi::SQLITE_OK;
    }
    match write_out(inner, &collected) {
        Ok(()) => ffi::SQLITE_OK,
        Err(code) => code,
    }
}

/// Writes what was collected for the standard file `inner`. A commit has one log: collected writes to
/// another file are an error.
fn write_out(inner: *mut sqlite3_file, collected: &Collected) -> Result<(), c_int> {
    if collected.bytes.is_empty() {
        return Ok(());
    }
    if collected.file != inner.addr() {
        return Err(ffi::SQLITE_IOERR_WRITE);
    }
    let length = c_int::try_from(collected.bytes.len()).map_err(|_| ffi::SQLITE_IOERR_WRITE)?;
    match forward!(inner, xWrite, collected.bytes.as_ptr().cast(), length, collected.at) {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// Writes what was collected, before something else is done with the file.
///
/// # Safety
/// `file` is an open log.
unsafe fn up_to_date(file: *mut sqlite3_file) -> Result<*mut sqlite3_file, c_int> {
    // SAFETY: `open` made it.
    let inner = unsafe { standard(file) };
    if let Some(collected) = COLLECTED.take() {
        write_out(inner, &collected)?;
        let is_last = collected.is_last;
        COLLECTED.replace(Some(Collected { is_last, ..Collected::default() }));
    }
    Ok(inner)
}

/// Defines a method that works on the file with everything that was collected in it.
macro_rules! methods {
    ($($name:ident = $method:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// # Safety
            /// SQLite's contract for this method: `file` is an open log.
            unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
                // SAFETY: as SQLite says, see above.
                match unsafe { up_to_date(file) } {
                    Ok(inner) => forward!(inner, $method $(, $argument)*),
                    Err(code) => code,
                }
            }
        )*
    };
}

methods! {
    read = xRead(into: *mut c_void, length: c_int, at: sqlite3_int64);
    truncate = xTruncate(size: sqlite3_int64);
    sync = xSync(flags: c_int);
    file_size = xFileSize(size: *mut sqlite3_int64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(is_locked: *mut c_int);
    file_control = xFileControl(operation: c_int, argument: *mut c_void);
}

/// # Safety
/// SQLite's contract for `xClose`: `file` is an open log. What was collected belongs to no transaction,
/// since none completes while its log is closed.
unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: `open` made it.
    let inner = unsafe { standard(file) };
    forward!(inner, xClose)
}

/// # Safety
/// SQLite's contract for `xSectorSize`: `file` is an open log.
unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: `open` made it.
    let inner = unsafe { standard(file) };
    forward!(inner, xSectorSize)
}

/// # Safety
/// SQLite's contract for `xDeviceCharacteristics`: `file` is an open log.
unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: `open` made it.
    let inner = unsafe { standard(file) };
    forward!(inner, xDeviceCharacteristics)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use rusqlite::{Connection, OpenFlags};

    use super::*;

    /// Opens a database whose log is opened by this module; the page cache has a few pages only, so
    /// that larger transactions spill into the log before they are complete.
    fn open(path: &Path, synchronous: &str) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let conn =
            Connection::open_with_flags_and_vfs(path, flags, file_system().unwrap()).unwrap();
        conn.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = 5;
             PRAGMA cache_spill = 5; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE IF NOT EXISTS t (k INTEGER PRIMARY KEY, v BLOB NOT NULL);"
        ))
        .unwrap();
        conn
    }

    type Rows = std::collections::BTreeMap<i64, Vec<u8>>;

    fn rows(conn: &Connection) -> Rows {
        let mut select = conn.prepare("SELECT k, v FROM t").unwrap();
        let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        found.collect::<Result<_, _>>().unwrap()
    }

    /// The rows that a program finds which opens copies of the files, as after a `kill -9`.
    fn rows_of_copy(path: &Path) -> Rows {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        for suffix in ["", "-wal"] {
            let name = |path: &Path| format!("{}{suffix}", path.display());
            std::fs::copy(name(path), name(&copy)).unwrap();
        }
        rows(&Connection::open(copy).unwrap())
    }

    fn write_calls() -> u64 {
        let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let count = io.lines().find_map(|line| line.strip_prefix("syscw: "));
        count.unwrap().parse().unwrap()
    }

    /// What a transaction does after its rows are written.
    #[derive(Debug, Clone, Copy)]
    enum Ending {
        Commit,
        RollBack,
        /// Rolls back, and another program commits before this one goes on.
        Elsewhere,
    }

    fn ending() -> impl Strategy<Value = Ending> {
        prop_oneof![3 => Just(Ending::Commit), 1 => Just(Ending::RollBack), 1 => Just(Ending::Elsewhere)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_commit_and_nothing_else_is_in_the_files(
            transactions in proptest::collection::vec(
                (proptest::collection::vec((0..40u8, 0..20_000usize), 1..60), ending()), 1..8),
            full in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("db");
            let conn = open(&path, if full { "FULL" } else { "NORMAL" });
            let other = Connection::open(&path).unwrap();
            let mut expected = Rows::new();
            for (writes, ending) in transactions {
                conn.execute_batch("BEGIN IMMEDIATE").unwrap();
                let mut written = expected.clone();
                for (key, size) in writes {
                    let value = vec![key.wrapping_add(size.to_le_bytes()[0]); size];
                    conn.execute("INSERT OR REPLACE INTO t VALUES (?1, ?2)", (key, &value)).unwrap();
                    written.insert(key.into(), value);
                }
                match ending {
                    Ending::Commit => {
                        in_one_piece(|| conn.execute_batch("COMMIT")).unwrap();
                        expected = written;
                    }
                    Ending::RollBack => conn.execute_batch("ROLLBACK").unwrap(),
                    Ending::Elsewhere => {
                        conn.execute_batch("ROLLBACK").unwrap();
                        other.execute("INSERT OR REPLACE INTO t VALUES (99, zeroblob(9000))", []).unwrap();
                        expected.insert(99, vec![0; 9000]);
                    }
                }
                prop_assert_eq!(&rows(&conn), &expected);
                prop_assert_eq!(&rows(&other), &expected);
                prop_assert_eq!(&rows_of_copy(&path), &expected);
            }
            let sound: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            prop_assert_eq!(sound, "ok");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_commit_is_one_write_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let conn = open(&folder.path().join("db"), "NORMAL");
        conn.execute_batch("PRAGMA cache_size = 1000; PRAGMA cache_spill = OFF").unwrap();
        // The first commit writes the header of the log, too.
        conn.execute("INSERT INTO t VALUES (0, zeroblob(9))", []).unwrap();
        for (pages, expected) in [(1, 1), (10, 1), (25, 1), (50, 2), (100, 4), (300, 10)] {
            conn.execute_batch("BEGIN IMMEDIATE").unwrap();
            conn.execute("INSERT INTO t VALUES (?1, zeroblob(?2))", (pages, pages * 4000)).unwrap();
            let before = write_calls();
            in_one_piece(|| conn.execute_batch("COMMIT")).unwrap();
            assert_eq!(write_calls() - before, expected, "{pages} pages");
        }
    }

    #[test]
    fn a_file_that_is_no_database_or_has_no_folder_is_refused_as_by_sqlite() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("text"), "x".repeat(5000)).unwrap();
        for name in ["text", "none/db"] {
            let path = folder.path().join(name);
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
            let read = |conn: Connection| conn.execute_batch("PRAGMA journal_mode = WAL");
            let ours = Connection::open_with_flags_and_vfs(&path, flags, file_system().unwrap());
            let theirs = Connection::open_with_flags(&path, flags);
            let (ours, theirs) = (ours.and_then(read), theirs.and_then(read));
            assert_eq!(ours.unwrap_err(), theirs.unwrap_err(), "{name}");
        }
    }
}
