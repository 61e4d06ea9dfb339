//! The thread that writes. Commits that are queued during a transaction share the next one, each
//! with its own savepoint, and complete when it is committed. `apply` applies the writes. Releases of
//! leases share one, too: a server that ends releases those of all of its threads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::sqlite::connection::Link;
use crate::sqlite::failure::Failure;
use crate::sqlite::opening::Opening;
use crate::sqlite::owner::OwnerLock;
use crate::sqlite::pool::Pool;
use crate::sqlite::text_index::{self, Batch};
use crate::sqlite::{apply, joined, lease, log_writes, recovery};
use crate::{OpenedThread, OrphanedTurn, StoreError, Write};

/// Jobs in the queue; further ones wait in their callers.
pub(crate) const QUEUE: usize = 256;

/// Commits or releases per transaction, to bound the latency of the first one.
const GROUP: usize = 256;

/// Log size, in pages of 4 KiB, from which a reader thread copies it into the database.
const LOG_SOFT_PAGES: u32 = 256;

/// Log size from which the writer copies it between commits, which bounds the log.
const LOG_HARD_PAGES: u32 = 4096;

/// Idle time after which a log of [`LOG_IDLE_PAGES`] or more is emptied and its disk space
/// released.
const IDLE: Duration = Duration::from_millis(500);

/// Smallest log that is emptied when idle.
const LOG_IDLE_PAGES: u32 = 64;

/// A message to the writer.
pub(crate) enum Job {
    Commit(Commit),
    /// Claims orphaned turns.
    Claim(oneshot::Sender<Result<Vec<OrphanedTurn>, StoreError>>),
    /// Takes the lease of a thread.
    Open(String, oneshot::Sender<Result<OpenedThread, StoreError>>),
    /// Writes to a thread that is not loaded.
    Unloaded(String, Commit),
    /// Releases the lease of a thread.
    Release(String, oneshot::Sender<Result<(), StoreError>>),
    /// Joins the history of a thread.
    Join(String),
    /// Adds turns to the index of words.
    Index(Batch, oneshot::Sender<Result<(), StoreError>>),
    /// Finishes the queue, then ends the thread.
    Close(oneshot::Sender<Result<(), StoreError>>),
}

/// A thread whose lease is released, and the channel for the result.
type Released = (String, oneshot::Sender<Result<(), StoreError>>);

/// A job, and its permit of the queue, which is released when the writer takes the job.
pub(crate) type Queued = (Job, OwnedSemaphorePermit);

/// Atomic writes, and the channel for the result.
pub(crate) struct Commit {
    pub(crate) writes: Vec<Write>,
    pub(crate) reply: oneshot::Sender<Result<(), StoreError>>,
}

impl Commit {
    fn removes(&self) -> bool {
        self.writes.iter().any(|write| matches!(write, Write::DeleteThread { .. }))
    }
}

pub(crate) struct Writer {
    pub(crate) link: Link,
    pub(crate) jobs: Receiver<Queued>,
    /// [`QUEUE`] permits.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) pool: Arc<Pool>,
    /// The owner of started turns.
    pub(crate) owner: String,
    /// The folder of the owners' locks, and the lock of this one.
    pub(crate) lock: (PathBuf, OwnerLock),
    /// Decides when to copy the log.
    pub(crate) checkpoint_due: CheckpointDue,
}

impl Writer {
    /// Starts the thread. It ends with [`Job::Close`], or when all senders are dropped.
    pub(crate) fn start(self) -> std::io::Result<JoinHandle<()>> {
        Builder::new().name("store-write".to_owned()).spawn(move || self.run())
    }

    fn run(mut self) {
        let mut closers = Vec::new();
        while let Some(job) = self.next_job(!closers.is_empty()) {
            let mut next = Some(job);
            while let Some(job) = next.take() {
                match job {
                    Job::Commit(commit) => {
                        let group;
                        (group, next) = self.gather(commit, |job| match job {
                            Job::Commit(commit) => Ok(commit),
                            other => Err(other),
                        });
                        self.commit(group);
                        self.bound_log();
                    }
                    Job::Claim(reply) => {
                        let claimed = self.claim();
                        let _ = reply.send(claimed);
                    }
                    Job::Open(thread, reply) => {
                        let _ = reply.send(self.open_thread(&thread));
                    }
                    Job::Unloaded(thread, commit) => {
                        let removes = commit.removes();
                        let _ = commit.reply.send(self.write_unloaded(&thread, &commit.writes));
                        if removes {
                            self.empty_log();
                        }
                        self.bound_log();
                    }
                    Job::Release(thread, reply) => {
                        let group;
                        (group, next) = self.gather((thread, reply), |job| match job {
                            Job::Release(thread, reply) => Ok((thread, reply)),
                            other => Err(other),
                        });
                        self.release(group);
                    }
                    // A failure is ignored: the rows have the same content, and reading them is
                    // only slower.
                    Job::Join(thread) => {
                        drop(self.write(|conn| joined::join_all(conn, &thread)));
                    }
                    Job::Index(batch, reply) => {
                        let stored = self.write(|conn| text_index::store(conn, &batch));
                        // A caller that stopped waiting has nothing to do with the result.
                        let _ = reply.send(stored);
                        self.bound_log();
                    }
                    Job::Close(reply) => {
                        self.places.close();
                        closers.push(reply);
                    }
                }
            }
        }
        self.shut_down(closers);
    }

    /// Waits for a job, and empties the log when idle. `None` ends the writer: all handles are
    /// dropped, or it is `closing` and the queue is empty.
    fn next_job(&mut self, closing: bool) -> Option<Job> {
        if closing {
            return self.jobs.try_recv().ok().map(|(job, _)| job);
        }
        if self.log_pages() >= LOG_IDLE_PAGES {
            match self.jobs.recv_timeout(IDLE) {
                Ok((job, _)) => return Some(job),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.empty_log(),
            }
        }
        self.jobs.recv().ok().map(|(job, _)| job)
    }

    /// Adds queued jobs of the same kind to the group, up to the first of another kind.
    fn gather<T>(
        &mut self,
        first: T,
        same: impl Fn(Job) -> Result<T, Job>,
    ) -> (Vec<T>, Option<Job>) {
        let mut group = vec![first];
        while group.len() < GROUP {
            let Ok((job, _)) = self.jobs.try_recv() else { break };
            match same(job) {
                Ok(job) => group.push(job),
                Err(other) => return (group, Some(other)),
            }
        }
        (group, None)
    }

    /// Commits the group and sends each result. If the whole transaction fails, tries each commit
    /// separately: a full disk may have room for small ones.
    fn commit(&mut self, group: Vec<Commit>) {
        let owner = self.owner.clone();
        let mut started = false;
        let removes = group.iter().any(Commit::removes);
        let outcome = self.write(|conn| transact(conn, &owner, &group, &mut started));
        match outcome {
            Ok(results) => {
                for (commit, result) in group.into_iter().zip(results) {
                    // The caller may have stopped waiting; its writes are stored anyway.
                    let _ = commit.reply.send(result);
                }
                if removes {
                    // The log still contains the deleted rows.
                    self.empty_log();
                }
            }
            Err(_) if started && group.len() > 1 => {
                for commit in group {
                    self.commit(vec![commit]);
                }
            }
            Err(error) => {
                for commit in group {
                    let _ = commit.reply.send(Err(error.clone()));
                }
            }
        }
    }

    fn open_thread(&mut self, thread: &str) -> Result<OpenedThread, StoreError> {
        let (owners, me) = (self.lock.0.clone(), self.owner.clone());
        self.write(|conn| lease::open_thread(conn, &owners, &me, thread))
    }

    /// Releases leases in one transaction, and sends each result.
    fn release(&mut self, group: Vec<Released>) {
        let me = self.owner.clone();
        let (threads, replies): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let outcome = self.write(|conn| lease::release(conn, &me, &threads));
        for reply in replies {
            let _ = reply.send(outcome.clone());
        }
    }

    fn write_unloaded(&mut self, thread: &str, writes: &[Write]) -> Result<(), StoreError> {
        let (owners, me) = (self.lock.0.clone(), self.owner.clone());
        self.write(|conn| lease::write_unloaded(conn, &owners, &me, thread, writes))
    }

    fn claim(&mut self) -> Result<Vec<OrphanedTurn>, StoreError> {
        let (owners, me) = (self.lock.0.clone(), self.owner.clone());
        self.write(|conn| recovery::claim(conn, &owners, &me))
    }

    /// Runs `work`, which writes, and checks before and after it that the files are still those
    /// that were opened. Before as well, because a write would hide that the log was truncated.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, StoreError> {
        self.check_log()?;
        let done = self.link.run(work)?;
        self.check_log()?;
        Ok(done)
    }

    fn check_log(&self) -> Result<(), StoreError> {
        let target = self.link.target();
        target.identity.check_log(&target.path, self.log_pages())
    }

    fn bound_log(&mut self) {
        let pages = self.log_pages();
        match self.checkpoint_due.after_commit(pages) {
            Due::No => {}
            Due::Soon => self.pool.checkpoint_soon(),
            // A failure leaves everything durably in the log, and is retried later.
            Due::Now => drop(self.pool.checkpoint_now(&mut self.link)),
        }
    }

    /// Empties the log. A failure leaves it unchanged, and is retried after the next commit.
    fn empty_log(&mut self) {
        drop(self.pool.empty_log(&mut self.link));
        self.link.target().log_pages.store(0, Ordering::Relaxed);
    }

    /// Pages in the log after the latest commit; 0 after it was emptied.
    fn log_pages(&self) -> u32 {
        self.link.target().log_pages.load(Ordering::Relaxed)
    }

    fn shut_down(mut self, closers: Vec<oneshot::Sender<Result<(), StoreError>>>) {
        self.pool.close();
        let me = self.owner.clone();
        // A remaining lease is free as soon as this owner's lock is released.
        let _ = self.write(|conn| lease::release_all(conn, &me));
        let result = self.end_log();
        // Callers are notified after all files are closed.
        drop(self.link);
        let (owners, lock) = self.lock;
        if !matches!(result, Err(StoreError::TakenAway(_))) {
            note_closed(&owners, &self.owner);
        }
        drop(lock);
        for closer in closers {
            let _ = closer.send(result.clone());
        }
    }
}

impl Writer {
    /// Moves the log into the database, and lets SQLite delete it with the last connection.
    fn end_log(&mut self) -> Result<(), StoreError> {
        let emptied = self.pool.empty_log(&mut self.link);
        self.link.target().check_files()?;
        self.link.run(|conn| {
            Ok(conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?)
        })?;
        emptied
    }
}

/// Notes an orderly shutdown. If that fails, the next store checks the database as after a crash.
fn note_closed(owners: &Path, me: &str) {
    let Some(dir) = owners.parent() else { return };
    let _ = Opening::begin(dir).and_then(|mut opening| opening.note_closed(me));
}

/// Decides when to copy the log into the database, from log sizes only.
#[derive(Debug)]
pub(crate) struct CheckpointDue {
    soft: u32,
    hard: u32,
    last: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Due {
    No,
    Soon,
    Now,
}

impl Default for CheckpointDue {
    fn default() -> Self {
        Self { soft: LOG_SOFT_PAGES, hard: LOG_HARD_PAGES, last: 0 }
    }
}

impl CheckpointDue {
    /// Decides after a commit that left `pages` pages in the log. A shorter log has been restarted,
    /// which resets the thresholds; while readers prevent a restart, copying is retried in steps.
    fn after_commit(&mut self, pages: u32) -> Due {
        if pages < self.last {
            *self = Self::default();
        }
        self.last = pages;
        if pages >= self.hard {
            self.hard = pages.saturating_add(LOG_HARD_PAGES);
            self.soft = pages.saturating_add(LOG_SOFT_PAGES);
            return Due::Now;
        }
        if pages >= self.soft {
            self.soft = pages.saturating_add(LOG_SOFT_PAGES);
            return Due::Soon;
        }
        Due::No
    }
}

/// Runs the group in one transaction. An outer error means that nothing is committed. `started` is
/// set once the transaction has begun.
fn transact(
    conn: &mut Connection,
    owner: &str,
    group: &[Commit],
    started: &mut bool,
) -> Result<Vec<Result<(), StoreError>>, Failure> {
    execute(conn, "BEGIN IMMEDIATE")?;
    *started = true;
    let outcome = apply_group(conn, owner, group).and_then(|results| {
        log_writes::in_one_piece(|| execute(conn, "COMMIT"))?;
        Ok(results)
    });
    if outcome.is_err() && !conn.is_autocommit() {
        // If this fails as well, the connection is replaced, because it still has its transaction.
        let _ = execute(conn, "ROLLBACK");
    }
    outcome
}

fn apply_group(
    conn: &Connection,
    owner: &str,
    group: &[Commit],
) -> Result<Vec<Result<(), StoreError>>, Failure> {
    let apply_all = |commit: &Commit| {
        commit.writes.iter().try_for_each(|write| apply::apply(conn, owner, write))
    };
    if let [only] = group {
        apply_all(only)?;
        return Ok(vec![Ok(())]);
    }
    let mut results = Vec::with_capacity(group.len());
    for commit in group {
        execute(conn, "SAVEPOINT one")?;
        let result = match apply_all(commit) {
            Ok(()) => Ok(()),
            // A refused write fails only its own caller. Any other error concerns the file, and
            // SQLite may have rolled back the whole transaction.
            Err(Failure::Store(error)) => {
                execute(conn, "ROLLBACK TO one")?;
                Err(error)
            }
            Err(failure) => return Err(failure),
        };
        execute(conn, "RELEASE one")?;
        results.push(result);
    }
    Ok(results)
}

fn execute(conn: &Connection, sql: &str) -> Result<(), Failure> {
    conn.prepare_cached(sql)?.execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_log_is_copied_in_steps() {
        let check = |sizes: &[u32], expected: Due| {
            let mut due = CheckpointDue::default();
            let mut last = Due::No;
            for pages in sizes {
                last = due.after_commit(*pages);
            }
            assert_eq!(last, expected, "{sizes:?}");
        };
        check(&[10], Due::No);
        check(&[10, 256], Due::Soon);
        check(&[256, 260], Due::No);
        check(&[256, 511, 512], Due::Soon);
        check(&[256, 3, 256], Due::Soon);
        check(&[256, 4096], Due::Now);
        check(&[4096, 4200], Due::No);
        check(&[4096, 4352], Due::Soon);
        check(&[4096, 8192], Due::Now);
    }
}
