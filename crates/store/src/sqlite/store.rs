//! The handle of a store: opening, committing, reading, closing. The writer and the readers do the
//! work.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use crate::sqlite::connection::{Link, Role, Target};
use crate::sqlite::failure::Failure;
use crate::sqlite::opening::Opening;
use crate::sqlite::owner::OwnerLock;
use crate::sqlite::paths::{OWNERS, create_private_dir, database_path};
use crate::sqlite::pool::Pool;
use crate::sqlite::rows::find_thread;
use crate::sqlite::text_index::{self, Unindexed};
use crate::sqlite::writer::{CheckpointDue, Commit, Job, QUEUE, Queued, Writer};
use crate::sqlite::{jobs, preflight, queue, read, recovery, salvage, text_search, threads, usage};
use crate::{
    Fragment, ItemRow, ItemTexts, Job as StoredJob, JobItem, JobItemCounts, JobItemStatus,
    ListQuery, Notice, OpenedThread, OrphanedTurn, Page, Place, QueuedEntry, StoreError,
    StoredThread, Synchronous, TextMatch, TextQuery, TurnElsewhere, TurnRow, TurnsQuery,
    UsageQuery, UsageRow, Write,
};

/// A store in the SQLite database of a folder.
#[derive(Debug, Clone)]
pub struct SqliteConfig {
    /// The folder of the database. Missing folders are created with mode 0700, and files with 0600.
    pub dir: PathBuf,
    /// Unix milliseconds; written to this store's owner file.
    pub now_ms: i64,
    /// A unique name of this open store, such as a UUID. Turns that it starts are in progress as
    /// long as the store lives.
    pub owner: String,
    /// The failures that a commit survives.
    pub synchronous: Synchronous,
    /// Largest size of the database file in pages of 4 KiB; commits that need more fail with
    /// [`StoreError::Full`]. `None` sets no limit.
    pub max_pages: Option<u32>,
    /// True to salvage a damaged database into a new one, and keep the damaged file under
    /// another name. If off, or if another store has the folder open, damage is an error.
    pub salvage: bool,
    /// JSON text: the error of a turn whose record is lost and that a salvage recreates. `None`
    /// makes it an interrupted turn.
    pub lost_turn_error: Option<String>,
}

impl SqliteConfig {
    /// The default options.
    pub fn new(dir: impl Into<PathBuf>, now_ms: i64, owner: impl Into<String>) -> Self {
        Self {
            dir: dir.into(),
            now_ms,
            owner: owner.into(),
            synchronous: Synchronous::default(),
            max_pages: None,
            salvage: false,
            lost_turn_error: None,
        }
    }
}

/// An open database; clones share it. The methods are those of [`crate::Store`].
#[derive(Clone)]
pub(crate) struct SqliteStore {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` only during drop.
    jobs: Option<mpsc::Sender<Queued>>,
    /// Bounds the queue `jobs`; closed with the store.
    places: Arc<Semaphore>,
    pool: Arc<Pool>,
    writer: Option<JoinHandle<()>>,
    /// The name under which this store holds leases.
    owner: Arc<str>,
    /// The folder of the owners' locks.
    owners: PathBuf,
    notices: Vec<Notice>,
}

impl SqliteStore {
    /// Opens the store on a thread of its own, because a salvage or a busy disk takes long.
    ///
    /// # Errors
    /// See [`crate::Store::open`].
    pub(crate) async fn open(config: SqliteConfig) -> Result<Self, StoreError> {
        let (reply, answer) = oneshot::channel();
        let dir = config.dir.clone();
        let open = move || drop(reply.send(Self::open_here(&config)));
        let thread = Builder::new().name("store-open".to_owned()).spawn(open);
        thread.map_err(|error| StoreError::io("start a thread for", &dir, error))?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    fn open_here(options: &SqliteConfig) -> Result<Self, StoreError> {
        let dir = options.dir.as_path();
        preflight::check(dir)?;
        create_private_dir(dir)?;
        let owners = dir.join(OWNERS);
        create_private_dir(&owners)?;
        let target = Target {
            path: database_path(dir).into(),
            synchronous: options.synchronous,
            max_pages: options.max_pages,
            log_pages: Arc::default(),
            damage_noted: Arc::default(),
            identity: Arc::default(),
        };
        let mut opening = Opening::begin(dir)?;
        let mut notices = Vec::new();
        let conn = match opening.verify_files().and_then(|()| target.prepare()) {
            Err(StoreError::Damaged(fault)) if options.salvage && opening.alone => {
                // From here on, the file was not closed in an orderly way.
                opening.note_in_use()?;
                let (detail, error) = (fault.detail(), options.lost_turn_error.as_deref());
                let damage = opening.damage(detail);
                notices.push(Notice::Salvaged(salvage::salvage(
                    &target.path,
                    &damage,
                    error,
                    options.now_ms,
                )?));
                target.prepare()?
            }
            other => other?,
        };
        let made_tables = target.log_pages.load(Ordering::Relaxed) > 0;
        let lock = OwnerLock::acquire(&owners, &options.owner, options.now_ms)?;
        if opening.alone {
            opening.note_in_use()?;
        }
        drop(opening);
        let store = Self::start(target, conn, &options.owner, (owners, lock), notices)?;
        if made_tables {
            // Flushes the new file to the disk, which creating it did not wait for.
            store.inner.pool.checkpoint_soon();
        }
        Ok(store)
    }

    fn start(
        target: Target,
        conn: Connection,
        owner: &str,
        lock: (PathBuf, OwnerLock),
        notices: Vec<Notice>,
    ) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel();
        let places = Arc::new(Semaphore::new(QUEUE));
        let pool = Arc::new(Pool::new(target.clone()));
        let path = Arc::clone(&target.path);
        let owners = lock.0.clone();
        let writer = Writer {
            link: Link::new(target, Role::Writer, Some(conn)),
            jobs: waiting,
            places: Arc::clone(&places),
            pool: Arc::clone(&pool),
            owner: owner.to_owned(),
            lock,
            checkpoint_due: CheckpointDue::default(),
        };
        let thread =
            writer.start().map_err(|error| StoreError::io("start a writer for", &path, error))?;
        let inner = Inner {
            jobs: Some(jobs),
            places,
            pool,
            writer: Some(thread),
            owner: owner.into(),
            owners,
            notices,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.ask(|reply| Job::Commit(Commit { writes, reply })).await?
    }

    pub(crate) async fn claim_orphaned_turns(&self) -> Result<Vec<OrphanedTurn>, StoreError> {
        self.ask(Job::Claim).await?
    }

    pub(crate) async fn thread(&self, id: &str) -> Result<Option<StoredThread>, StoreError> {
        let id = id.to_owned();
        self.read(move |conn| read::thread(conn, &id)).await
    }

    pub(crate) async fn threads(&self, query: ListQuery) -> Result<Page<StoredThread>, StoreError> {
        self.read(move |conn| threads::list(conn, &query)).await
    }

    pub(crate) async fn turns(
        &self,
        thread: &str,
        query: TurnsQuery,
    ) -> Result<Page<TurnRow>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::turns(conn, &thread, &query)).await
    }

    pub(crate) async fn turns_with_items(
        &self,
        thread: &str,
        query: TurnsQuery,
    ) -> Result<Page<(TurnRow, Vec<ItemRow>)>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::turns_with_items(conn, &thread, &query)).await
    }

    pub(crate) async fn turns_elsewhere(&self) -> Result<Vec<TurnElsewhere>, StoreError> {
        let (owners, me) = (self.inner.owners.clone(), Arc::clone(&self.inner.owner));
        self.read(move |conn| recovery::elsewhere(conn, &owners, &me)).await
    }

    pub(crate) async fn last_turn(&self, thread: &str) -> Result<Option<TurnRow>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::last_turn(conn, &thread)).await
    }

    pub(crate) async fn items(&self, thread: &str, turn: &str) -> Result<Vec<ItemRow>, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.to_owned());
        self.read(move |conn| read::items(conn, &thread, &turn)).await
    }

    pub(crate) async fn items_page(
        &self,
        thread: &str,
        turn: Option<&str>,
        query: TurnsQuery,
    ) -> Result<Page<(String, ItemRow)>, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.map(str::to_owned));
        self.read(move |conn| read::items_page(conn, &thread, turn.as_deref(), &query)).await
    }

    pub(crate) async fn history(&self, thread: &str) -> Result<Vec<Fragment>, StoreError> {
        let id = thread.to_owned();
        let (history, loose) = self.read(move |conn| read::history(conn, &id)).await?;
        if loose {
            self.join_soon(thread);
        }
        Ok(history)
    }

    /// Requests that the writer joins the history of a thread stored by an earlier version. Does
    /// nothing if the writer is busy; the next reader requests it again.
    fn join_soon(&self, thread: &str) {
        let Some(jobs) = &self.inner.jobs else { return };
        if let Ok(place) = Arc::clone(&self.inner.places).try_acquire_owned() {
            // If the writer has ended, there is nothing to join.
            let _ = jobs.send((Job::Join(thread.to_owned()), place));
        }
    }

    pub(crate) async fn latest_job(
        &self,
        thread: &str,
        fingerprint: [u8; 32],
    ) -> Result<Option<StoredJob>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| jobs::read::latest_job(conn, &thread, &fingerprint)).await
    }

    pub(crate) async fn jobs(&self, thread: &str) -> Result<Vec<StoredJob>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| jobs::read::jobs(conn, &thread)).await
    }

    pub(crate) async fn job_items(
        &self,
        job: i64,
        behind: u32,
        status: Option<JobItemStatus>,
        limit: u32,
    ) -> Result<Vec<JobItem>, StoreError> {
        self.read(move |conn| jobs::read::items(conn, job, behind, status, limit)).await
    }

    pub(crate) async fn job_counts(&self, job: i64) -> Result<JobItemCounts, StoreError> {
        self.read(move |conn| jobs::read::counts(conn, job)).await
    }

    pub(crate) async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
        self.read(move |conn| usage::read(conn, query)).await
    }

    pub(crate) async fn queue(&self, thread: &str) -> Result<Vec<QueuedEntry>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| queue::read(conn, find_thread(conn, &thread)?)).await
    }

    pub(crate) async fn index_turns(
        &self,
        texts: ItemTexts,
        all: bool,
        limit: usize,
    ) -> Result<bool, StoreError> {
        let which = if all { Unindexed::All } else { Unindexed::Ended };
        let batch = self.read(move |conn| text_index::prepare(conn, &texts, which, limit)).await?;
        if batch.is_empty() {
            return Ok(false);
        }
        self.ask(|reply| Job::Index(batch, reply)).await??;
        Ok(true)
    }

    pub(crate) async fn is_partly_indexed(&self) -> Result<bool, StoreError> {
        self.read(text_index::is_partial).await
    }

    pub(crate) async fn search_text(
        &self,
        query: TextQuery,
        texts: ItemTexts,
    ) -> Result<Page<TextMatch>, StoreError> {
        self.read(move |conn| text_search::find(conn, &query, &texts)).await
    }

    pub(crate) async fn ordinal(&self, thread: &str, turn: &str) -> Result<i64, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.to_owned());
        self.read(move |conn| read::ordinal(conn, &thread, &turn)).await
    }

    pub(crate) async fn places(
        &self,
        thread: &str,
        behind: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::places(conn, &thread, behind, limit)).await
    }

    pub(crate) async fn open_thread(&self, thread: &str) -> Result<OpenedThread, StoreError> {
        self.ask(|reply| Job::Open(thread.to_owned(), reply)).await?
    }

    pub(crate) async fn write_unloaded(
        &self,
        thread: &str,
        writes: Vec<Write>,
    ) -> Result<(), StoreError> {
        self.ask(|reply| Job::Unloaded(thread.to_owned(), Commit { writes, reply })).await?
    }

    pub(crate) async fn turns_in_progress(
        &self,
        thread: &str,
    ) -> Result<Vec<OrphanedTurn>, StoreError> {
        let (me, thread) = (Arc::clone(&self.inner.owner), thread.to_owned());
        self.read(move |conn| recovery::in_progress(conn, &me, &thread)).await
    }

    pub(crate) async fn release(&self, thread: &str) -> Result<(), StoreError> {
        self.ask(|reply| Job::Release(thread.to_owned(), reply)).await?
    }

    pub(crate) fn notices(&self) -> &[Notice] {
        &self.inner.notices
    }

    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        self.ask(Job::Close).await?
    }

    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let jobs = self.inner.jobs.as_ref().ok_or(StoreError::Closed)?;
        let place = Arc::clone(&self.inner.places).acquire_owned().await;
        let place = place.map_err(|_| StoreError::Closed)?;
        jobs.send((job(reply), place)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.inner.pool.read(read).await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            // The writer does not panic; otherwise its callers would have got errors from dropped
            // channels.
            let _ = writer.join();
        }
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}
