//! The handle of a store in PostgreSQL. Operations run on a thread of their own, so that a busy
//! caller delays no renewal of the lease, and a caller that goes away cuts no operation short.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::sync::oneshot;

use super::config::PostgresConfig;
use super::connection::Database;
use super::failure::Failure;
use super::inner::{Inner, OPENING};
use super::permits::Use;
use super::schema::Migration;
use super::{commit, jobs, lists, node, queue, read, recovery, schema, text_index, usage};
use crate::error::Fault;
use crate::{
    Fragment, ItemRow, ItemTexts, Job, JobItem, JobItemCounts, JobItemStatus, ListQuery,
    OpenedThread, OrphanedTurn, Page, Place, QueuedEntry, StoreError, StoredThread, TextMatch,
    TextQuery, TurnElsewhere, TurnRow, TurnsQuery, UsageQuery, UsageRow, Write,
};

/// Attempts of a read whose connection is lost.
const MAX_READS: u32 = 3;
/// Time after which a read whose connection is lost is not tried again.
const MAX_READ: Duration = Duration::from_secs(12);

/// An open store; clones share it. The methods are those of [`crate::Store`].
#[derive(Clone)]
pub(crate) struct PostgresStore {
    handle: Arc<Handle>,
}

struct Handle {
    inner: Arc<Inner>,
    runtime: runtime::Handle,
    stop: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
    thread: Option<JoinHandle<()>>,
}

/// Creates the tables of the schema of a configuration, or updates them. Nodes of the version before
/// go on working.
///
/// # Errors
/// The database cannot be used, or its schema is newer than this program.
pub async fn migrate(config: &PostgresConfig) -> Result<Migration, StoreError> {
    let database = Database::new(config)?;
    let migrated = schema::migrate(&database, config).await;
    migrated.map_err(|failure| database.error(failure))
}

/// A database of threads that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundDatabase {
    /// Describes it: hosts, ports and the name of the database.
    pub place: String,
    /// Version of its tables.
    pub version: i64,
    /// The nodes that have it open, as they describe themselves.
    pub nodes: Vec<String>,
}

/// Checks that this program can use the database of a configuration. Changes nothing there.
///
/// # Errors
/// It cannot be reached or used, or its tables are of another version.
pub async fn find_database(config: &PostgresConfig) -> Result<FoundDatabase, StoreError> {
    let database = Database::new(config)?;
    let found = async {
        let connection = database.connection().await?;
        let version = schema::check(&connection, &database, config).await?;
        let nodes = node::living(&connection).await?;
        connection.give_back();
        Ok::<_, Failure>(FoundDatabase { place: database.place.to_string(), version, nodes })
    };
    let found = tokio::time::timeout(OPENING, found).await.unwrap_or(Err(Failure::Late));
    found.map_err(|failure| database.error(failure))
}

/// Runs a read in a transaction that sees one state, again if the connection is lost.
macro_rules! read {
    ($self:ident, $($kept:ident),*; |$connection:ident, $tenant:ident| $read:expr) => {
        $self
            .run(Use::Read, move |inner| async move {
                let (mut attempt, since) = (0, Instant::now());
                loop {
                    attempt += 1;
                    let outcome: Result<_, Failure> = async {
                        let connection = inner.database.connection().await?;
                        let outcome = {
                            let ($connection, $tenant) = (&connection, inner.tenant.as_str());
                            $(let $kept = &$kept;)*
                            connection.begin_snapshot().await?;
                            let outcome = $read.await;
                            if outcome.is_ok() {
                                connection.end().await?;
                            }
                            outcome
                        };
                        connection.give_back_after(outcome).await
                    }
                    .await;
                    match outcome {
                        Err(failure)
                            if failure.is_passing()
                                && attempt < MAX_READS
                                && since.elapsed() < MAX_READ =>
                        {
                            inner.database.note(&failure);
                        }
                        other => break other.map_err(|failure| inner.database.error(failure)),
                    }
                }
            })
            .await
    };
}

impl PostgresStore {
    pub(crate) async fn open(config: PostgresConfig) -> Result<Self, StoreError> {
        let (reply, opened) = oneshot::channel();
        let (stop, stopped) = oneshot::channel();
        let place = config.schema.clone();
        let serve = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    let text = format!("cannot start a runtime for the thread store: {error}");
                    let fault = Fault::new(text).caused_by(error);
                    // The caller may have stopped waiting.
                    let _ = reply.send(Err(StoreError::Unavailable(fault)));
                    return;
                }
            };
            runtime.block_on(async {
                match Inner::open(&config).await {
                    Ok(inner) => {
                        let inner = Arc::new(inner);
                        let handle = runtime::Handle::current();
                        if reply.send(Ok((Arc::clone(&inner), handle))).is_ok() {
                            inner.serve(stopped).await;
                        }
                    }
                    Err(error) => drop(reply.send(Err(error))),
                }
            });
        };
        let thread = Builder::new().name("store-postgres".to_owned()).spawn(serve);
        let thread = thread.map_err(|error| {
            let text = format!("cannot start a thread for the thread store {place}: {error}");
            StoreError::Unavailable(Fault::new(text).caused_by(error))
        })?;
        let (inner, runtime) = opened.await.map_err(|_| StoreError::Closed)??;
        let (stop, thread) = (Mutex::new(Some(stop)), Some(thread));
        Ok(Self { handle: Arc::new(Handle { inner, runtime, stop, thread }) })
    }

    /// Runs an operation on the thread of the store, to its end.
    async fn run<T, F>(
        &self,
        of: Use,
        operation: impl FnOnce(Arc<Inner>) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let inner = Arc::clone(&self.handle.inner);
        let permit = inner.permit(of).await?;
        let operation = operation(inner);
        let task = self.handle.runtime.spawn(async move {
            let outcome = operation.await;
            drop(permit);
            outcome
        });
        task.await.map_err(|_| StoreError::Closed)?
    }

    pub(crate) async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        self.run(Use::Write, |inner| async move { commit::commit(&inner, &writes).await }).await
    }

    pub(crate) async fn open_thread(&self, thread: &str) -> Result<OpenedThread, StoreError> {
        let thread = thread.to_owned();
        self.run(Use::Write, |inner| async move { commit::open_thread(&inner, &thread).await })
            .await
    }

    pub(crate) async fn write_unloaded(
        &self,
        thread: &str,
        writes: Vec<Write>,
    ) -> Result<(), StoreError> {
        let thread = thread.to_owned();
        self.run(Use::Write, |inner| async move {
            commit::write_unloaded(&inner, &thread, &writes).await
        })
        .await
    }

    pub(crate) async fn release(&self, thread: &str) -> Result<(), StoreError> {
        let thread = thread.to_owned();
        self.run(Use::Write, |inner| async move { commit::release(&inner, &thread).await }).await
    }

    pub(crate) async fn claim_orphaned_turns(&self) -> Result<Vec<OrphanedTurn>, StoreError> {
        self.run(Use::Write, |inner| async move { commit::claim(&inner).await }).await
    }

    pub(crate) async fn turns_elsewhere(&self) -> Result<Vec<TurnElsewhere>, StoreError> {
        let me = self.handle.inner.membership.id();
        read!(self, me; |connection, tenant| recovery::elsewhere(connection, tenant, me))
    }

    pub(crate) async fn turns_in_progress(
        &self,
        thread: &str,
    ) -> Result<Vec<OrphanedTurn>, StoreError> {
        let (me, thread) = (self.handle.inner.membership.id(), thread.to_owned());
        read!(self, me, thread; |connection, tenant| {
            recovery::in_progress_of(connection, tenant, me, thread)
        })
    }

    pub(crate) async fn thread(&self, id: &str) -> Result<Option<StoredThread>, StoreError> {
        let id = id.to_owned();
        read!(self, id; |connection, tenant| read::thread(connection, tenant, id))
    }

    pub(crate) async fn threads(&self, query: ListQuery) -> Result<Page<StoredThread>, StoreError> {
        read!(self, query; |connection, tenant| lists::threads(connection, tenant, query))
    }

    pub(crate) async fn turns(
        &self,
        thread: &str,
        query: TurnsQuery,
    ) -> Result<Page<TurnRow>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread, query; |connection, tenant| {
            read::turns(connection, tenant, thread, query)
        })
    }

    pub(crate) async fn turns_with_items(
        &self,
        thread: &str,
        query: TurnsQuery,
    ) -> Result<Page<(TurnRow, Vec<ItemRow>)>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread, query; |connection, tenant| {
            read::turns_with_items(connection, tenant, thread, query)
        })
    }

    pub(crate) async fn last_turn(&self, thread: &str) -> Result<Option<TurnRow>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread; |connection, tenant| read::last_turn(connection, tenant, thread))
    }

    pub(crate) async fn items(&self, thread: &str, turn: &str) -> Result<Vec<ItemRow>, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.to_owned());
        read!(self, thread, turn; |connection, tenant| {
            read::items(connection, tenant, thread, turn)
        })
    }

    pub(crate) async fn items_page(
        &self,
        thread: &str,
        turn: Option<&str>,
        query: TurnsQuery,
    ) -> Result<Page<(String, ItemRow)>, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.map(str::to_owned));
        read!(self, thread, turn, query; |connection, tenant| {
            read::items_page(connection, tenant, thread, turn.as_deref(), query)
        })
    }

    pub(crate) async fn history(&self, thread: &str) -> Result<Vec<Fragment>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread; |connection, tenant| read::history(connection, tenant, thread))
    }

    pub(crate) async fn places(
        &self,
        thread: &str,
        behind: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread; |connection, tenant| {
            read::places(connection, tenant, thread, behind, limit)
        })
    }

    pub(crate) async fn ordinal(&self, thread: &str, turn: &str) -> Result<i64, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.to_owned());
        read!(self, thread, turn; |connection, tenant| {
            read::ordinal(connection, tenant, thread, turn)
        })
    }

    pub(crate) async fn latest_job(
        &self,
        thread: &str,
        fingerprint: [u8; 32],
    ) -> Result<Option<Job>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread; |connection, tenant| async {
            let key = read::find_thread(connection, tenant, thread).await?;
            jobs::latest(connection, key, &fingerprint).await
        })
    }

    pub(crate) async fn jobs(&self, thread: &str) -> Result<Vec<Job>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread; |connection, tenant| async {
            jobs::all(connection, read::find_thread(connection, tenant, thread).await?).await
        })
    }

    pub(crate) async fn job_items(
        &self,
        job: i64,
        behind: u32,
        status: Option<JobItemStatus>,
        limit: u32,
    ) -> Result<Vec<JobItem>, StoreError> {
        read!(self, ; |connection, _tenant| jobs::items(connection, job, behind, status, limit))
    }

    pub(crate) async fn job_counts(&self, job: i64) -> Result<JobItemCounts, StoreError> {
        read!(self, ; |connection, _tenant| jobs::counts(connection, job))
    }

    pub(crate) async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
        read!(self, ; |connection, tenant| usage::read(connection, tenant, query))
    }

    pub(crate) async fn queue(&self, thread: &str) -> Result<Vec<QueuedEntry>, StoreError> {
        let thread = thread.to_owned();
        read!(self, thread; |connection, tenant| async {
            queue::read(connection, read::find_thread(connection, tenant, thread).await?).await
        })
    }

    pub(crate) async fn search_text(
        &self,
        query: TextQuery,
        texts: ItemTexts,
    ) -> Result<Page<TextMatch>, StoreError> {
        read!(self, query, texts; |connection, tenant| {
            lists::search(connection, tenant, query, texts)
        })
    }

    pub(crate) async fn is_partly_indexed(&self) -> Result<bool, StoreError> {
        read!(self, ; |connection, _tenant| text_index::is_partial(connection))
    }

    pub(crate) async fn index_turns(
        &self,
        texts: ItemTexts,
        limit: usize,
    ) -> Result<bool, StoreError> {
        self.run(Use::Read, move |inner| async move {
            let indexed = async {
                let connection = inner.database.connection().await?;
                let more = text_index::index(&connection, &texts, limit).await?;
                connection.give_back();
                Ok::<_, Failure>(more)
            };
            indexed.await.map_err(|failure| inner.database.error(failure))
        })
        .await
    }

    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let (done, closed) = oneshot::channel();
        self.handle.stop(done)?;
        closed.await.map_err(|_| StoreError::Closed)
    }
}

impl Handle {
    fn stop(&self, done: oneshot::Sender<()>) -> Result<(), StoreError> {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stop = stop.ok_or(StoreError::Closed)?;
        stop.send(done).map_err(|_| StoreError::Closed)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        // A store that was closed has stopped already.
        let _ = self.stop(done);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; otherwise its callers would have got errors from dropped
            // channels.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
