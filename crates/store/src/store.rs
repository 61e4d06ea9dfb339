//! The handle of a store: opening, committing, reading, closing. The writer and the readers do the
//! work.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use crate::connection::{Link, Role, Target};
use crate::failure::Failure;
use crate::opening::Opening;
use crate::owner::OwnerLock;
use crate::paths::{OWNERS, create_private_dir, database_path};
use crate::pool::{Pool, job};
use crate::salvage::Salvage;
use crate::writer::{CheckpointDue, Commit, Job, QUEUE, Queued, Writer};
use crate::{
    Fragment, ItemRow, Job as StoredJob, JobItem, JobItemCounts, JobItemStatus, ListQuery,
    OpenedThread, OrphanedTurn, Page, Place, StoreError, StoredThread, Synchronous, TurnRow,
    TurnsQuery, UsageQuery, UsageRow, Write, jobs, preflight, read, recovery, salvage, threads,
    usage,
};

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Unix milliseconds; written to this store's owner file.
    pub now_ms: i64,
    /// A unique name of this open store, such as a UUID. Turns that it starts are in progress as
    /// long as the store lives.
    pub owner: String,
    /// What a commit survives.
    pub synchronous: Synchronous,
    /// Largest size of the database file in pages of 4 KiB; commits that need more fail with
    /// [`StoreError::Full`]. `None` sets no limit.
    pub max_pages: Option<u32>,
    /// Whether to salvage a damaged database into a new one, and keep the damaged file under
    /// another name. If off, or if another store has the folder open, damage is an error.
    pub salvage: bool,
    /// JSON text: the error of a turn whose record is lost and that a salvage recreates. `None`
    /// makes it an interrupted turn.
    pub lost_turn_error: Option<String>,
}

impl OpenOptions {
    /// The default options.
    pub fn new(now_ms: i64, owner: impl Into<String>) -> Self {
        Self {
            now_ms,
            owner: owner.into(),
            synchronous: Synchronous::default(),
            max_pages: None,
            salvage: false,
            lost_turn_error: None,
        }
    }
}

/// An open store; clones share it. Several processes can have the same folder open.
///
/// Dropping the last clone finishes all sent commits, like [`Store::close`], and waits for them.
///
/// Bounds: 256 queued commits and 64 queued reads (further ones wait in their callers), one writer
/// and at most two reader threads, 1 MiB of page cache for each.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` only during drop.
    jobs: Option<mpsc::Sender<Queued>>,
    /// Bounds the queue `jobs`; closed with the store.
    places: Arc<Semaphore>,
    pool: Arc<Pool>,
    writer: Option<JoinHandle<()>>,
    in_memory: bool,
    /// The name under which this store holds leases.
    owner: Arc<str>,
    /// See [`Store::salvaged`].
    salvaged: Option<Salvage>,
}

impl Store {
    /// Opens the store in `dir`. Creates missing folders with mode 0700, and files with 0600.
    ///
    /// # Errors
    /// The file is damaged or newer than this program, the folder cannot be used, or the owner's name
    /// is in use.
    pub fn open(dir: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        preflight::check(dir)?;
        create_private_dir(dir)?;
        let owners = dir.join(OWNERS);
        create_private_dir(&owners)?;
        let target = Target {
            path: database_path(dir).into(),
            in_memory: false,
            synchronous: options.synchronous,
            max_pages: options.max_pages,
            log_pages: Arc::default(),
            damage_noted: Arc::default(),
            identity: Arc::default(),
        };
        let mut opening = Opening::begin(dir)?;
        let mut salvaged = None;
        let conn = match opening.verify_files().and_then(|()| target.prepare()) {
            Err(StoreError::Damaged(fault)) if options.salvage && opening.alone => {
                // From here on, the file was not closed in an orderly way.
                opening.note_in_use()?;
                let (detail, error) = (fault.detail(), options.lost_turn_error.as_deref());
                let damage = opening.damage(detail);
                salvaged = Some(salvage::salvage(&target.path, &damage, error, options.now_ms)?);
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
        let store = Self::start(target, conn, options.owner, Some((owners, lock)), salvaged)?;
        if made_tables {
            // Flushes the new file to the disk, which creating it did not wait for.
            store.inner.pool.checkpoint_soon();
        }
        Ok(store)
    }

    /// Opens an empty store in memory that ends with its last clone, for ephemeral threads and
    /// tests.
    ///
    /// # Errors
    /// Memory or a thread is not available.
    pub fn in_memory() -> Result<Self, StoreError> {
        let target = Target {
            path: Path::new(":memory:").into(),
            in_memory: true,
            synchronous: Synchronous::default(),
            max_pages: None,
            log_pages: Arc::default(),
            damage_noted: Arc::default(),
            identity: Arc::default(),
        };
        let conn = target.connect(Role::Writer)?;
        Self::start(target, conn, "memory".to_owned(), None, None)
    }

    fn start(
        target: Target,
        conn: Connection,
        owner: String,
        lock: Option<(PathBuf, OwnerLock)>,
        salvaged: Option<Salvage>,
    ) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel();
        let places = Arc::new(Semaphore::new(QUEUE));
        let pool = Arc::new(Pool::new(target.clone()));
        let (path, in_memory) = (Arc::clone(&target.path), target.in_memory);
        let name = Arc::from(owner.as_str());
        let writer = Writer {
            link: Link::new(target, Role::Writer, Some(conn)),
            jobs: waiting,
            places: Arc::clone(&places),
            pool: Arc::clone(&pool),
            owner,
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
            in_memory,
            owner: name,
            salvaged,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Stores all of `writes` durably, in order and atomically. Commits of a caller that awaits
    /// each one are in the order of the calls. Once the call has been polled, the writes can happen
    /// even if its future is dropped.
    ///
    /// # Errors
    /// A write is refused, the disk is full, or the file cannot be written. Then none of `writes` is
    /// stored, and later commits are not affected.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        if writes.is_empty() {
            return Ok(());
        }
        self.ask(|reply| Job::Commit(Commit { writes, reply })).await?
    }

    /// Claims every turn in progress whose process is dead. The caller ends each with
    /// [`Write::FinishTurn`] in [`Store::write_unloaded`], because a claim takes no lease. A turn is claimed by only one caller of all processes; if that one
    /// dies first, it can be claimed again.
    ///
    /// # Errors
    /// The file or the owners' folder cannot be used.
    pub async fn claim_orphaned_turns(&self) -> Result<Vec<OrphanedTurn>, StoreError> {
        self.ask(Job::Claim).await?
    }

    /// The thread with this id, with or without turns.
    ///
    /// # Errors
    /// The file cannot be read. Every read has this error.
    pub async fn thread(&self, id: &str) -> Result<Option<StoredThread>, StoreError> {
        let id = id.to_owned();
        self.read(move |conn| read::thread(conn, &id)).await
    }

    /// A page of threads that have a turn (specification: `thread/list`).
    ///
    /// # Errors
    /// [`StoreError::BadCursor`] for a cursor of another list.
    pub async fn threads(&self, query: ListQuery) -> Result<Page<StoredThread>, StoreError> {
        self.read(move |conn| threads::list(conn, &query)).await
    }

    /// A page of a thread's turns (specification: `thread/turns/list`).
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`]; [`StoreError::BadCursor`] for a cursor of another list.
    pub async fn turns(
        &self,
        thread: &str,
        query: TurnsQuery,
    ) -> Result<Page<TurnRow>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::turns(conn, &thread, &query)).await
    }

    /// A page of a thread's turns, each with its items in order.
    ///
    /// # Errors
    /// As for [`Store::turns`].
    pub async fn turns_with_items(
        &self,
        thread: &str,
        query: TurnsQuery,
    ) -> Result<Page<(TurnRow, Vec<ItemRow>)>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::turns_with_items(conn, &thread, &query)).await
    }

    /// The newest turn of a thread.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    pub async fn last_turn(&self, thread: &str) -> Result<Option<TurnRow>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::last_turn(conn, &thread)).await
    }

    /// The items of a turn in order.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`], [`StoreError::TurnNotFound`].
    pub async fn items(&self, thread: &str, turn: &str) -> Result<Vec<ItemRow>, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.to_owned());
        self.read(move |conn| read::items(conn, &thread, &turn)).await
    }

    /// A page of the items of a thread, or of `turn` only, each with the id of its turn.
    ///
    /// # Errors
    /// As for [`Store::turns`]; [`StoreError::TurnNotFound`].
    pub async fn items_page(
        &self,
        thread: &str,
        turn: Option<&str>,
        query: TurnsQuery,
    ) -> Result<Page<(String, ItemRow)>, StoreError> {
        let (thread, turn) = (thread.to_owned(), turn.map(str::to_owned));
        self.read(move |conn| read::items_page(conn, &thread, turn.as_deref(), &query)).await
    }

    /// The model's history in order, from where it last began anew ([`Write::AppendHistory`]). The
    /// cost does not depend on earlier history.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    pub async fn history(&self, thread: &str) -> Result<Vec<Fragment>, StoreError> {
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

    /// The newest job of a thread with this fingerprint, whatever its status.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`]; the file cannot be read.
    pub async fn latest_job(
        &self,
        thread: &str,
        fingerprint: [u8; 32],
    ) -> Result<Option<StoredJob>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| jobs::read::latest_job(conn, &thread, &fingerprint)).await
    }

    /// The jobs of a thread, oldest first.
    ///
    /// # Errors
    /// As for [`Store::latest_job`].
    pub async fn jobs(&self, thread: &str) -> Result<Vec<StoredJob>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| jobs::read::jobs(conn, &thread)).await
    }

    /// At most `limit` rows of a job behind the row `behind`, in order; with `status`, only those
    /// that have it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn job_items(
        &self,
        job: i64,
        behind: u32,
        status: Option<JobItemStatus>,
        limit: u32,
    ) -> Result<Vec<JobItem>, StoreError> {
        self.read(move |conn| jobs::read::items(conn, job, behind, status, limit)).await
    }

    /// How many rows of a job have which status.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn job_counts(&self, job: i64) -> Result<JobItemCounts, StoreError> {
        self.read(move |conn| jobs::read::counts(conn, job)).await
    }

    /// What responses used, in the order in which that was added.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
        self.read(move |conn| usage::read(conn, query)).await
    }

    /// At most `limit` places of a thread after the place `behind`, for copying the thread.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    pub async fn places(
        &self,
        thread: &str,
        behind: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let thread = thread.to_owned();
        self.read(move |conn| read::places(conn, &thread, behind, limit)).await
    }

    /// Takes the lease of a thread, which writing requires, and returns the thread as it is under
    /// the lease. May be called again while this store holds the lease, unless the caller runs a
    /// turn of the thread.
    ///
    /// # Errors
    /// [`StoreError::LeasedBy`] if another living store holds it; [`StoreError::ThreadNotFound`].
    pub async fn open_thread(&self, thread: &str) -> Result<OpenedThread, StoreError> {
        self.ask(|reply| Job::Open(thread.to_owned(), reply)).await?
    }

    /// Writes to a thread that is not loaded: takes its lease, stores all of `writes`, and releases
    /// the lease, atomically. A lease that this store had before stays with it.
    ///
    /// # Errors
    /// As for [`Store::open_thread`] and [`Store::commit`]. Then nothing has changed.
    pub async fn write_unloaded(&self, thread: &str, writes: Vec<Write>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Unloaded(thread.to_owned(), Commit { writes, reply })).await?
    }

    /// The turns of a thread in progress that this store runs, with their items.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] if this store does not hold the lease of the thread;
    /// [`StoreError::ThreadNotFound`].
    pub async fn turns_in_progress(&self, thread: &str) -> Result<Vec<OrphanedTurn>, StoreError> {
        let (me, thread) = (Arc::clone(&self.inner.owner), thread.to_owned());
        self.read(move |conn| recovery::in_progress(conn, &me, &thread)).await
    }

    /// Releases the lease of a thread, so that another store can take it.
    ///
    /// # Errors
    /// The file cannot be written. The lease then ends with this store.
    pub async fn release(&self, thread: &str) -> Result<(), StoreError> {
        self.ask(|reply| Job::Release(thread.to_owned(), reply)).await?
    }

    /// The result of the salvage, if the database was damaged when this store was opened.
    #[must_use]
    pub fn salvaged(&self) -> Option<&Salvage> {
        self.inner.salvaged.as_ref()
    }

    /// Finishes all sent jobs, moves the log into the database and closes all files. Later calls of
    /// any clone fail with [`StoreError::Closed`].
    ///
    /// # Errors
    /// The log cannot be moved. It then stays beside the database, and nothing is lost.
    pub async fn close(&self) -> Result<(), StoreError> {
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
        if self.inner.in_memory {
            return self.ask(|reply| Job::Read(job(read, reply))).await?;
        }
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

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("in_memory", &self.inner.in_memory).finish_non_exhaustive()
    }
}
