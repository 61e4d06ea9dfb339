//! The embedded store: a SQLite file in WAL mode, which two processes of one machine may share. One
//! thread writes, one reads, one runs reports; each has its own connection. A commit is on disk
//! before the call returns.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, InterruptHandle, ToSql};
use tokio::sync::{mpsc, oneshot};

use super::lane::{Lane, MAX_WAITING};
use super::migrations;
use super::sqlite_error::sqlite_error;
use super::statement::{Statement, StatementResult};
use super::value::{Row, Value};
use crate::{Error, ErrorKind};

/// Longest wait for a lock of another process: below the time limit of a call.
const BUSY: Duration = Duration::from_millis(1500);
/// Between two attempts to take a lock.
const LOCK_POLL: Duration = Duration::from_millis(1);
/// The first version whose WAL never loses a reset (a bug of earlier versions).
const OLDEST: i32 = 3_051_003;
/// Prepared statements cached per connection.
const PREPARED: usize = 128;

#[derive(Debug)]
pub(super) struct Sqlite {
    read: Worker,
    report: Worker,
    write: Worker,
}

#[derive(Debug)]
struct Worker {
    jobs: mpsc::Sender<Job>,
    current: Arc<Mutex<Current>>,
}

/// The current job of a worker, and the handle that interrupts it.
#[derive(Default)]
struct Current {
    job: Option<Arc<()>>,
    interrupt: Option<InterruptHandle>,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current").field("job", &self.job).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Job {
    /// Identifies the job.
    identity: Arc<()>,
    statements: Vec<Statement>,
    reply: oneshot::Sender<Result<Vec<StatementResult>, Error>>,
}

impl Sqlite {
    pub(super) async fn open(file: &Path) -> Result<Self, Error> {
        if rusqlite::version_number() < OLDEST {
            let found = rusqlite::version();
            return Err(Error::failed(format!("SQLite {found} is too old")));
        }
        let path = file.to_owned();
        let migrated = tokio::task::spawn_blocking(move || {
            make_private(&path).map_err(|error| Error::unavailable(error.to_string()).at(&path))?;
            migrations::sqlite(&mut connect(&path)?)
        });
        migrated.await.map_err(|error| Error::new(ErrorKind::Failed).caused_by(error))??;
        Ok(Self {
            read: Worker::start(file, Lane::Read)?,
            report: Worker::start(file, Lane::Report)?,
            write: Worker::start(file, Lane::Write)?,
        })
    }

    pub(super) async fn run(
        &self,
        lane: Lane,
        statements: Vec<Statement>,
    ) -> Result<Vec<StatementResult>, Error> {
        let worker = match lane {
            Lane::Read => &self.read,
            Lane::Report => &self.report,
            Lane::Write => &self.write,
        };
        let (reply, answer) = oneshot::channel();
        let identity = Arc::new(());
        let job = Job { identity: Arc::clone(&identity), statements, reply };
        worker.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::unavailable("too many calls are waiting"),
            mpsc::error::TrySendError::Closed(_) => Error::unavailable("its thread has stopped"),
        })?;
        match tokio::time::timeout(lane.patience(), answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::unavailable("its thread has stopped")),
            Err(_) => {
                worker.interrupt(&identity);
                Err(Error::unavailable("it took too long"))
            }
        }
    }
}

impl Worker {
    fn start(file: &Path, lane: Lane) -> Result<Self, Error> {
        let (jobs, queue) = mpsc::channel(MAX_WAITING);
        let current = Arc::new(Mutex::new(Current::default()));
        let (file, shown) = (file.to_owned(), Arc::clone(&current));
        std::thread::Builder::new()
            .name(format!("sqlite-{lane:?}").to_lowercase())
            .stack_size(512 << 10)
            .spawn(move || work(&file, lane, queue, &shown))
            .map_err(|error| Error::new(ErrorKind::Unavailable).caused_by(error))?;
        Ok(Self { jobs, current })
    }

    /// Interrupts the job if it is running, because its caller has given up.
    fn interrupt(&self, job: &Arc<()>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(running), Some(handle)) = (&current.job, &current.interrupt)
            && Arc::ptr_eq(running, job)
        {
            handle.interrupt();
        }
    }
}

fn work(file: &Path, lane: Lane, mut queue: mpsc::Receiver<Job>, current: &Mutex<Current>) {
    let show = |job, interrupt: Option<InterruptHandle>| {
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        current.job = job;
        current.interrupt = interrupt.or(current.interrupt.take());
    };
    let (mut connection, mut texts) = (None, Texts::default());
    while let Some(job) = queue.blocking_recv() {
        if job.reply.is_closed() {
            continue;
        }
        show(Some(Arc::clone(&job.identity)), None);
        let result = match &mut connection {
            Some(open) => run(open, &mut texts, lane, &job.statements),
            empty => connect(file).and_then(|open| {
                show(Some(Arc::clone(&job.identity)), Some(open.get_interrupt_handle()));
                run(empty.insert(open), &mut texts, lane, &job.statements)
            }),
        };
        show(None, None);
        // Reopening the file may repair failures below SQL.
        if result.as_ref().is_err_and(Error::is_unavailable) {
            connection = None;
        }
        // The caller may be gone already.
        drop(job.reply.send(result));
    }
}

fn connect(file: &Path) -> Result<Connection, Error> {
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open(file)?;
        connection.busy_handler(Some(wait_for_lock))?;
        connection.set_prepared_statement_cache_capacity(PREPARED);
        use_wal(&connection, || std::thread::sleep(LOCK_POLL))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "cache_size", -1024)?;
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "temp_store", "FILE")?;
        Ok(connection)
    };
    open().map_err(|error| sqlite_error(error).at(file))
}

/// Creates the file so that only its owner can read it, and takes an existing one from others: it has the files of
/// batches, and a user that may write could add keys. SQLite gives the files next to it the same permissions.
/// An existing file is not opened: its closing would release the locks of another connection in this process.
fn make_private(file: &Path) -> std::io::Result<()> {
    // tidy: open of a new file never waits.
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(file) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let found = std::fs::metadata(file)?.permissions().mode();
        if found & 0o077 != 0 {
            std::fs::set_permissions(file, PermissionsExt::from_mode(found & 0o700))?;
        }
    }
    Ok(())
}

/// Waits before the next attempt to take a lock, after `attempts` failed ones; gives up after [`BUSY`], however long
/// the single waits take: a call that ends later than its caller waits would be carried out unseen.
/// SQLite's own handler waits longer each time, up to 100 ms, so that a process that commits all the
/// time starves the other.
fn wait_for_lock(attempts: i32) -> bool {
    thread_local! {
        static FIRST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let first = match FIRST.get() {
        Some(first) if attempts > 0 => first,
        _ => Instant::now(),
    };
    FIRST.set(Some(first));
    std::thread::sleep(LOCK_POLL);
    first.elapsed() < BUSY
}

/// Changes a new file to WAL mode. SQLite does not wait for the lock here when another process
/// creates the file at the same time, because both have read it already: so this tries again after a
/// `pause`.
fn use_wal(connection: &Connection, mut pause: impl FnMut()) -> rusqlite::Result<()> {
    let started = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && started.elapsed() < BUSY => pause(),
            done => return done,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
}

fn run(
    connection: &mut Connection,
    texts: &mut Texts,
    lane: Lane,
    statements: &[Statement],
) -> Result<Vec<StatementResult>, Error> {
    if lane != Lane::Write {
        let mut read =
            |statement: &Statement| execute(connection, texts, statement, &statement.values(&[]));
        return statements.iter().map(|one| read(one).map_err(sqlite_error)).collect();
    }
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(behavior).map_err(sqlite_error)?;
    let mut results = Vec::with_capacity(statements.len());
    for (index, statement) in statements.iter().enumerate() {
        let values = statement.values(&results);
        let done = execute(&transaction, texts, statement, &values).map_err(sqlite_error)?;
        if !statement.is_met(&done) {
            return Err(Error::unmet(index));
        }
        results.push(done);
    }
    transaction.commit().map_err(sqlite_error)?;
    Ok(results)
}

fn execute(
    connection: &Connection,
    texts: &mut Texts,
    statement: &Statement,
    values: &[Value],
) -> rusqlite::Result<StatementResult> {
    let mut prepared = match &statement.sql {
        Cow::Borrowed(sql) => connection.prepare_cached(texts.numbered(sql))?,
        Cow::Owned(sql) => connection.prepare_cached(&numbered(sql))?,
    };
    for index in 1..=prepared.parameter_count() {
        let value = values.get(index - 1);
        let value = value.ok_or(rusqlite::Error::InvalidParameterCount(index, 0))?;
        prepared.raw_bind_parameter(index, value)?;
    }
    let columns = prepared.column_count();
    if columns == 0 {
        let affected = prepared.raw_execute()?;
        return Ok(StatementResult { affected: affected as u64, rows: Vec::new() });
    }
    let mut found = prepared.raw_query();
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let values = (0..columns).map(|column| Ok(value(row.get_ref(column)?)));
        rows.push(Row(values.collect::<rusqlite::Result<_>>()?));
    }
    Ok(StatementResult { affected: rows.len() as u64, rows })
}

/// Static statements with SQLite's placeholders, each rewritten once. SQLite binds `?1` by its
/// number, but would look up the name `$1` among all names for each value.
#[derive(Default)]
struct Texts(HashMap<&'static str, Box<str>>);

impl Texts {
    fn numbered(&mut self, sql: &'static str) -> &str {
        self.0.entry(sql).or_insert_with(|| numbered(sql).into())
    }
}

fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(value) => Value::Integer(value),
        // No column or expression has a fractional value.
        ValueRef::Real(value) => Value::Integer(value as i64),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_that_another_process_is_creating_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.db");
        let other = Connection::open(&file).unwrap();
        // Not yet in WAL mode, and about to be written.
        other.execute_batch("CREATE TABLE t (a); BEGIN IMMEDIATE").unwrap();
        let connection = Connection::open(&file).unwrap();
        let mut pauses = 0;
        let pause = || {
            pauses += 1;
            if pauses == 2 {
                other.execute_batch("COMMIT").unwrap();
            }
        };
        use_wal(&connection, pause).unwrap();
        assert_eq!(pauses, 2);
        let mode = connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
        assert_eq!(mode, Ok("wal".to_owned()));
    }
}
