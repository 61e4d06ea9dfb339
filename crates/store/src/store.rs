//! The handle of a store, over one of the backends.

use std::sync::Arc;

use crate::cursor::{EntryPosition, query_tag};
use crate::memory::Memory;
use crate::postgres::{PostgresConfig, PostgresStore};
use crate::salvage::Salvage;
use crate::sqlite::{SqliteConfig, SqliteStore};
use crate::{
    Fragment, ItemRow, ItemTexts, Job, JobItem, JobItemCounts, JobItemStatus, ListQuery,
    OpenedThread, OrphanedTurn, Page, Place, QueuedEntry, StoreError, StoredThread, TextMatch,
    TextQuery, TurnElsewhere, TurnRow, TurnsQuery, UsageQuery, UsageRow, Write,
};

/// Where threads are stored.
#[derive(Debug, Clone)]
pub enum StoreConfig {
    /// In a SQLite database, durably.
    Sqlite(SqliteConfig),
    /// In a schema of a PostgreSQL database, durably, for several nodes.
    Postgres(PostgresConfig),
    /// In memory, until the last clone of the store is dropped.
    Memory,
}

impl From<SqliteConfig> for StoreConfig {
    fn from(config: SqliteConfig) -> Self {
        Self::Sqlite(config)
    }
}

impl From<PostgresConfig> for StoreConfig {
    fn from(config: PostgresConfig) -> Self {
        Self::Postgres(config)
    }
}

/// A message for the people who use a store that was just opened.
#[derive(Debug, Clone)]
pub enum Notice {
    /// The database was damaged, and what could be read is in a new one.
    Salvaged(Salvage),
}

/// An open store; clones share it. Several processes can have the same folder open.
///
/// Dropping the last clone finishes all sent commits, like [`Store::close`], and waits for them.
///
/// Bounds with SQLite: 256 queued commits and 64 queued reads (further ones wait in their callers),
/// one writer and at most two reader threads, 1 MiB of page cache for each. With PostgreSQL: one
/// operation a connection at a time, less one; further ones wait in their callers.
#[derive(Debug, Clone)]
pub struct Store(Backend);

#[derive(Debug, Clone)]
enum Backend {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
    Memory(Arc<Memory>),
}

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// The stored data is damaged or newer than this program, its place cannot be used, or the
    /// owner's name is in use.
    pub async fn open(config: impl Into<StoreConfig>) -> Result<Self, StoreError> {
        match config.into() {
            StoreConfig::Sqlite(config) => {
                Ok(Self(Backend::Sqlite(SqliteStore::open(config).await?)))
            }
            StoreConfig::Postgres(config) => {
                Ok(Self(Backend::Postgres(PostgresStore::open(config).await?)))
            }
            StoreConfig::Memory => Ok(Self::in_memory()),
        }
    }

    /// An empty store in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(Backend::Memory(Arc::new(Memory::new())))
    }

    /// The messages about the opening.
    #[must_use]
    pub fn notices(&self) -> &[Notice] {
        match &self.0 {
            Backend::Sqlite(store) => store.notices(),
            Backend::Postgres(_) | Backend::Memory(_) => &[],
        }
    }

    /// Stores all of `writes` durably, in order and atomically. Commits of a caller that awaits
    /// each one are in the order of the calls. Once the call has been polled, the writes can happen
    /// even if its future is dropped.
    ///
    /// # Errors
    /// A write is refused, the disk is full, or the file cannot be written. Then none of `writes` is
    /// stored, and later commits are not affected. Only where a server cannot be reached for long, it
    /// may be unknown whether they are stored: then later commits to their threads fail with
    /// [`StoreError::LeaseLost`], until the threads are opened again.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.commit(writes).await,
            Backend::Postgres(store) => store.commit(writes).await,
            Backend::Memory(memory) => memory.commit(&writes),
        }
    }

    /// Claims every turn in progress whose process is dead. The caller ends each with
    /// [`Write::FinishTurn`] in [`Store::write_unloaded`], because a claim takes no lease. A turn is claimed by only one caller of all processes; if that one
    /// dies first, it can be claimed again.
    ///
    /// # Errors
    /// The file or the owners' folder cannot be used.
    pub async fn claim_orphaned_turns(&self) -> Result<Vec<OrphanedTurn>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.claim_orphaned_turns().await,
            Backend::Postgres(store) => store.claim_orphaned_turns().await,
            Backend::Memory(memory) => memory.read(|_| Ok(Vec::new())),
        }
    }

    /// The turns in progress of other open stores of the folder.
    ///
    /// # Errors
    /// The file or the owners' folder cannot be read.
    pub async fn turns_elsewhere(&self) -> Result<Vec<TurnElsewhere>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.turns_elsewhere().await,
            Backend::Postgres(store) => store.turns_elsewhere().await,
            Backend::Memory(memory) => memory.read(|_| Ok(Vec::new())),
        }
    }

    /// The thread with this id, with or without turns.
    ///
    /// # Errors
    /// The file cannot be read. Every read has this error.
    pub async fn thread(&self, id: &str) -> Result<Option<StoredThread>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.thread(id).await,
            Backend::Postgres(store) => store.thread(id).await,
            Backend::Memory(memory) => memory.read(|reader| Ok(reader.thread(id))),
        }
    }

    /// A page of threads that have a turn (specification: `thread/list`).
    ///
    /// # Errors
    /// [`StoreError::BadCursor`] for a cursor of another list.
    pub async fn threads(&self, query: ListQuery) -> Result<Page<StoredThread>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.threads(query).await,
            Backend::Postgres(store) => store.threads(query).await,
            Backend::Memory(memory) => memory.read(|reader| reader.threads(&query)),
        }
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
        match &self.0 {
            Backend::Sqlite(store) => store.turns(thread, query).await,
            Backend::Postgres(store) => store.turns(thread, query).await,
            Backend::Memory(memory) => memory.read(|reader| reader.turns(thread, &query)),
        }
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
        match &self.0 {
            Backend::Sqlite(store) => store.turns_with_items(thread, query).await,
            Backend::Postgres(store) => store.turns_with_items(thread, query).await,
            Backend::Memory(memory) => {
                memory.read(|reader| reader.turns_with_items(thread, &query))
            }
        }
    }

    /// The newest turn of a thread.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    pub async fn last_turn(&self, thread: &str) -> Result<Option<TurnRow>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.last_turn(thread).await,
            Backend::Postgres(store) => store.last_turn(thread).await,
            Backend::Memory(memory) => memory.read(|reader| reader.last_turn(thread)),
        }
    }

    /// The items of a turn in order.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`], [`StoreError::TurnNotFound`].
    pub async fn items(&self, thread: &str, turn: &str) -> Result<Vec<ItemRow>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.items(thread, turn).await,
            Backend::Postgres(store) => store.items(thread, turn).await,
            Backend::Memory(memory) => memory.read(|reader| reader.items(thread, turn)),
        }
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
        match &self.0 {
            Backend::Sqlite(store) => store.items_page(thread, turn, query).await,
            Backend::Postgres(store) => store.items_page(thread, turn, query).await,
            Backend::Memory(memory) => {
                memory.read(|reader| reader.items_page(thread, turn, &query))
            }
        }
    }

    /// The model's history in order, from where it last started over ([`Write::AppendHistory`]). The
    /// cost does not depend on earlier history.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    pub async fn history(&self, thread: &str) -> Result<Vec<Fragment>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.history(thread).await,
            Backend::Postgres(store) => store.history(thread).await,
            Backend::Memory(memory) => memory.read(|reader| reader.history(thread)),
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
    ) -> Result<Option<Job>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.latest_job(thread, fingerprint).await,
            Backend::Postgres(store) => store.latest_job(thread, fingerprint).await,
            Backend::Memory(memory) => memory.read(|reader| reader.latest_job(thread, fingerprint)),
        }
    }

    /// The jobs of a thread, oldest first.
    ///
    /// # Errors
    /// As for [`Store::latest_job`].
    pub async fn jobs(&self, thread: &str) -> Result<Vec<Job>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.jobs(thread).await,
            Backend::Postgres(store) => store.jobs(thread).await,
            Backend::Memory(memory) => memory.read(|reader| reader.jobs(thread)),
        }
    }

    /// At most `limit` rows of a job after the row `behind`, in order; with `status`, only those
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
        match &self.0 {
            Backend::Sqlite(store) => store.job_items(job, behind, status, limit).await,
            Backend::Postgres(store) => store.job_items(job, behind, status, limit).await,
            Backend::Memory(memory) => {
                memory.read(|reader| reader.job_items(job, behind, status, limit))
            }
        }
    }

    /// Returns the number of a job's rows in each status.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn job_counts(&self, job: i64) -> Result<JobItemCounts, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.job_counts(job).await,
            Backend::Postgres(store) => store.job_counts(job).await,
            Backend::Memory(memory) => memory.read(|reader| Ok(reader.job_counts(job))),
        }
    }

    /// Returns the usage of responses, in the order in which it was added.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.usage(query).await,
            Backend::Postgres(store) => store.usage(query).await,
            Backend::Memory(memory) => memory.read(|reader| Ok(reader.usage(query))),
        }
    }

    /// The messages that wait for a turn of a thread, in order.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`].
    pub async fn queue(&self, thread: &str) -> Result<Vec<QueuedEntry>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.queue(thread).await,
            Backend::Postgres(store) => store.queue(thread).await,
            Backend::Memory(memory) => memory.read(|reader| reader.queue(thread)),
        }
    }

    /// Adds at most `limit` ended turns to the index of words, the newest first, and returns whether
    /// further ones remain. With `all`, turns that an earlier version stored are added, too; a call that
    /// is cut short by a crash is repeated by the next one.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub async fn index_turns(
        &self,
        texts: ItemTexts,
        all: bool,
        limit: usize,
    ) -> Result<bool, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.index_turns(texts, all, limit).await,
            Backend::Postgres(store) => store.index_turns(texts, limit).await,
            Backend::Memory(_) => Ok(false),
        }
    }

    /// Returns whether turns that have ended are not in the index of words yet.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn is_partly_indexed(&self) -> Result<bool, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.is_partly_indexed().await,
            Backend::Postgres(store) => store.is_partly_indexed().await,
            Backend::Memory(_) => Ok(false),
        }
    }

    /// A page of threads in whose indexed turns something was said. Forks are found by the turns that
    /// they show.
    ///
    /// # Errors
    /// [`StoreError::BadCursor`] for a cursor of another list.
    pub async fn search_text(
        &self,
        query: TextQuery,
        texts: ItemTexts,
    ) -> Result<Page<TextMatch>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.search_text(query, texts).await,
            Backend::Postgres(store) => store.search_text(query, texts).await,
            Backend::Memory(memory) => memory.read(|reader| reader.search_text(&query, &texts)),
        }
    }

    /// A cursor with which [`Store::turns`] begins at this turn, in descending order.
    ///
    /// # Errors
    /// [`StoreError::ThreadNotFound`], [`StoreError::TurnNotFound`].
    pub async fn turn_cursor(&self, thread: &str, turn: &str) -> Result<String, StoreError> {
        let ordinal = match &self.0 {
            Backend::Sqlite(store) => store.ordinal(thread, turn).await?,
            Backend::Postgres(store) => store.ordinal(thread, turn).await?,
            Backend::Memory(memory) => memory.read(|reader| reader.ordinal(thread, turn))?,
        };
        let after = EntryPosition { ordinal: ordinal + 1, position: 0 };
        Ok(after.write(&query_tag(&["turns", thread])))
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
        match &self.0 {
            Backend::Sqlite(store) => store.places(thread, behind, limit).await,
            Backend::Postgres(store) => store.places(thread, behind, limit).await,
            Backend::Memory(memory) => memory.read(|reader| reader.places(thread, behind, limit)),
        }
    }

    /// Takes the lease of a thread, which writing requires, and returns the thread as it is under
    /// the lease. May be called again while this store holds the lease, unless the caller runs a
    /// turn of the thread.
    ///
    /// # Errors
    /// [`StoreError::LeasedBy`] if another living store holds it; [`StoreError::ThreadNotFound`].
    pub async fn open_thread(&self, thread: &str) -> Result<OpenedThread, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.open_thread(thread).await,
            Backend::Postgres(store) => store.open_thread(thread).await,
            Backend::Memory(memory) => memory.open_thread(thread),
        }
    }

    /// Writes to a thread that is not loaded: takes its lease, stores all of `writes`, and releases
    /// the lease, atomically. A lease that this store had before stays with it.
    ///
    /// # Errors
    /// As for [`Store::open_thread`] and [`Store::commit`]. Then nothing has changed.
    pub async fn write_unloaded(&self, thread: &str, writes: Vec<Write>) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.write_unloaded(thread, writes).await,
            Backend::Postgres(store) => store.write_unloaded(thread, writes).await,
            Backend::Memory(memory) => memory.write_unloaded(thread, &writes),
        }
    }

    /// The turns of a thread in progress that this store runs, with their items.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] if this store does not hold the lease of the thread;
    /// [`StoreError::ThreadNotFound`].
    pub async fn turns_in_progress(&self, thread: &str) -> Result<Vec<OrphanedTurn>, StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.turns_in_progress(thread).await,
            Backend::Postgres(store) => store.turns_in_progress(thread).await,
            Backend::Memory(memory) => memory.read(|reader| reader.turns_in_progress(thread)),
        }
    }

    /// Releases the lease of a thread, so that another store can take it.
    ///
    /// # Errors
    /// The file cannot be written. The lease then ends with this store.
    pub async fn release(&self, thread: &str) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.release(thread).await,
            Backend::Postgres(store) => store.release(thread).await,
            Backend::Memory(memory) => memory.release(thread),
        }
    }

    /// Finishes all sent jobs, moves the log into the database and closes all files. Later calls of
    /// any clone fail with [`StoreError::Closed`].
    ///
    /// # Errors
    /// The log cannot be moved. It then stays next to the database, and nothing is lost.
    pub async fn close(&self) -> Result<(), StoreError> {
        match &self.0 {
            Backend::Sqlite(store) => store.close().await,
            Backend::Postgres(store) => store.close().await,
            Backend::Memory(memory) => memory.close(),
        }
    }
}
