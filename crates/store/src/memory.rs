//! The store in memory: for what ends with the process, such as the jobs of ephemeral threads, and
//! for tests. It keeps the contract of [`crate::Store`] and nothing on disk. Every operation is done
//! when its call returns, under one lock.

mod apply;
mod jobs;
mod lists;
mod queue;
mod read;
mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{
    Job, JobItem, OpenedThread, Place, QueuedEntry, StoreError, ThreadRecord, TurnStatus, UsageRow,
    Write,
};

use table::Table;

/// The store in memory. It has one owner, so that a lease is a flag.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `None` once it is closed.
    tables: Mutex<Option<Tables>>,
}

/// All that is stored.
#[derive(Debug, Default)]
struct Tables {
    /// By the order of their creation.
    threads: Table<i64, Thread>,
    /// By thread and ordinal. A fork has copies of those that it shows.
    places: Table<(i64, u32), Place>,
    jobs: Table<i64, StoredJob>,
    /// By job and number.
    job_items: Table<(i64, u32), JobItem>,
    usage: Table<i64, UsageRow>,
    last_thread: i64,
    last_job: i64,
    last_usage: i64,
}

#[derive(Debug, Clone)]
struct Thread {
    record: ThreadRecord,
    turn_count: u32,
    /// True while the store has its lease.
    leased: bool,
    /// The newest place; the next turn follows it.
    last_ordinal: u32,
    /// The newest place that it has from another thread.
    inherited: u32,
    queue: Vec<QueuedEntry>,
}

#[derive(Debug, Clone)]
struct StoredJob {
    thread: i64,
    fingerprint: [u8; 32],
    job: Job,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self { tables: Mutex::new(Some(Tables::default())) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Tables>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` on the tables.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&Reader<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let tables = self.lock();
        read(&Reader(tables.as_ref().ok_or(StoreError::Closed)?))
    }

    /// Runs `change`, completely or not at all.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Tables) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut tables = self.lock();
        let tables = tables.as_mut().ok_or(StoreError::Closed)?;
        let outcome = change(tables);
        match &outcome {
            Ok(_) => tables.keep(),
            Err(_) => tables.undo(),
        }
        outcome
    }

    pub(crate) fn commit(&self, writes: &[Write]) -> Result<(), StoreError> {
        self.change(|tables| writes.iter().try_for_each(|write| tables.apply(write)))
    }

    pub(crate) fn open_thread(&self, thread: &str) -> Result<OpenedThread, StoreError> {
        self.change(|tables| {
            let key = tables.find_thread(thread)?;
            tables.threads.edit(&key, |thread| thread.leased = true);
            let reader = Reader(tables);
            let stored = reader.thread(thread).ok_or_else(|| not_found(thread))?;
            let (last_turn, orphans) = (reader.last_turn(thread)?, reader.in_progress(key));
            let queue = reader.queue(thread)?;
            Ok(OpenedThread { stored, last_turn, orphans, queue })
        })
    }

    pub(crate) fn write_unloaded(&self, thread: &str, writes: &[Write]) -> Result<(), StoreError> {
        self.change(|tables| {
            let key = tables.find_thread(thread)?;
            let held_before = tables.threads.get(&key).is_some_and(|thread| thread.leased);
            tables.threads.edit(&key, |thread| thread.leased = true);
            writes.iter().try_for_each(|write| tables.apply(write))?;
            tables.threads.edit(&key, |thread| thread.leased = held_before);
            Ok(())
        })
    }

    pub(crate) fn release(&self, thread: &str) -> Result<(), StoreError> {
        self.change(|tables| {
            if let Ok(key) = tables.find_thread(thread) {
                tables.threads.edit(&key, |thread| thread.leased = false);
            }
            Ok(())
        })
    }

    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.lock().take().map(drop).ok_or(StoreError::Closed)
    }
}

/// Reads the tables.
pub(crate) struct Reader<'t>(&'t Tables);

impl Tables {
    fn keep(&mut self) {
        self.threads.keep();
        self.places.keep();
        self.jobs.keep();
        self.job_items.keep();
        self.usage.keep();
    }

    fn undo(&mut self) {
        self.threads.undo();
        self.places.undo();
        self.jobs.undo();
        self.job_items.undo();
        self.usage.undo();
    }

    fn find_thread(&self, thread: &str) -> Result<i64, StoreError> {
        let mut threads = self.threads.iter();
        let found = threads.find(|(_, stored)| stored.record.id == thread);
        found.map(|(key, _)| *key).ok_or_else(|| not_found(thread))
    }

    /// The key of a thread that may be written to.
    fn leased_thread(&self, thread: &str) -> Result<i64, StoreError> {
        let key = self.find_thread(thread)?;
        match self.threads.get(&key).is_some_and(|thread| thread.leased) {
            true => Ok(key),
            false => Err(StoreError::LeaseLost { thread: thread.to_owned() }),
        }
    }

    /// The places of a thread, in order.
    fn places_of(&self, thread: i64) -> impl DoubleEndedIterator<Item = &Place> {
        self.places.range((thread, 0)..=(thread, u32::MAX)).map(|(_, place)| place)
    }
}

fn not_found(thread: &str) -> StoreError {
    StoreError::ThreadNotFound { thread: thread.to_owned() }
}

fn turn_not_found(thread: &str, turn: &str) -> StoreError {
    StoreError::TurnNotFound { thread: thread.to_owned(), turn: turn.to_owned() }
}

fn is_in_progress(place: &Place) -> bool {
    place.turn.as_ref().is_some_and(|turn| turn.status == TurnStatus::InProgress)
}
