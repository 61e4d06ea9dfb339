//! A few threads with read connections of their own, started when first needed. Also copies the
//! write-ahead log into the database when the writer asks, so that commits need not wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::sqlite::connection::{BUSY_TIMEOUT, Link, Role, Target};
use crate::sqlite::failure::Failure;

/// Reader threads; each has a connection.
const READERS: usize = 2;

/// Reads in the queue; further ones wait in their callers.
const QUEUE: usize = 64;

/// A read that gets the thread's connection and sends its result to the caller.
type Job = Box<dyn FnOnce(&mut Link) + Send>;

/// A message to a reader thread.
enum Message {
    /// Runs a job; the token counts it as open.
    Do(Job, OpenJob),
    /// Ends the thread.
    Stop,
}

pub(crate) struct Pool {
    target: Target,
    state: Mutex<State>,
    waiting: Arc<Mutex<mpsc::Receiver<Message>>>,
    open_jobs: Arc<AtomicUsize>,
    /// Held during a checkpoint, because SQLite refuses concurrent ones.
    copying: Arc<Mutex<()>>,
}

struct State {
    /// `None` after closing.
    orders: Option<mpsc::Sender<Message>>,
    threads: Vec<JoinHandle<()>>,
}

/// Counts a job from its request to its end, even if the caller is dropped.
struct OpenJob(Arc<AtomicUsize>);

impl Drop for OpenJob {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    pub(crate) fn new(target: Target) -> Self {
        let (orders, waiting) = mpsc::channel(QUEUE);
        Self {
            target,
            state: Mutex::new(State { orders: Some(orders), threads: Vec::new() }),
            waiting: Arc::new(Mutex::new(waiting)),
            open_jobs: Arc::default(),
            copying: Arc::default(),
        }
    }

    /// Runs `read` in one read transaction on a reader thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let (orders, token) = self.sender()?;
        let order = Message::Do(job(read, reply), token);
        orders.send(order).await.map_err(|_| StoreError::Closed)?;
        drop(orders);
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Requests a checkpoint, as far as readers allow. Does nothing if the queue is full; the
    /// writer requests it again.
    pub(crate) fn checkpoint_soon(&self) {
        let Ok((orders, token)) = self.sender() else { return };
        let copying = Arc::clone(&self.copying);
        let job: Job = Box::new(move |link| {
            let _held = lock(&copying);
            // A failure leaves everything durably in the log. A full disk fails the commit that no
            // longer fits into the log.
            let _ = copy_log(link, "PASSIVE");
        });
        let _ = orders.try_send(Message::Do(job, token));
    }

    /// Copies the log into the database on the caller's connection, after a running checkpoint.
    pub(crate) fn checkpoint_now(&self, link: &mut Link) -> Result<(), StoreError> {
        let _held = lock(&self.copying);
        copy_log(link, "PASSIVE")
    }

    /// Copies and empties the log, unless another process or a read prevents it.
    pub(crate) fn empty_log(&self, link: &mut Link) -> Result<(), StoreError> {
        let _held = lock(&self.copying);
        link.run(|conn| Ok(conn.busy_timeout(Duration::ZERO)?))?;
        let outcome = copy_log(link, "TRUNCATE");
        link.run(|conn| Ok(conn.busy_timeout(BUSY_TIMEOUT)?))?;
        outcome
    }

    /// Finishes the queued reads and ends the threads. Later reads fail.
    pub(crate) fn close(&self) {
        let (orders, threads) = {
            let mut state = lock(&self.state);
            (state.orders.take(), std::mem::take(&mut state.threads))
        };
        for _ in &threads {
            // A stop message, because the channel does not end as long as a caller that is not
            // polled keeps its sender.
            let _ = orders.as_ref().map(|orders| orders.blocking_send(Message::Stop));
        }
        for thread in threads {
            // A reader does not panic; otherwise its callers would have got an error from the
            // dropped channel.
            let _ = thread.join();
        }
        let mut waiting = lock(&self.waiting);
        waiting.close();
        while waiting.try_recv().is_ok() {}
    }

    /// A sender for a job; starts another thread if all are busy.
    fn sender(&self) -> Result<(mpsc::Sender<Message>, OpenJob), StoreError> {
        let mut state = lock(&self.state);
        let orders = state.orders.clone().ok_or(StoreError::Closed)?;
        let open = self.open_jobs.fetch_add(1, Ordering::Relaxed) + 1;
        let token = OpenJob(Arc::clone(&self.open_jobs));
        let running = state.threads.len();
        if running < READERS && open > running {
            match self.start() {
                Ok(thread) => state.threads.push(thread),
                Err(error) if running == 0 => {
                    return Err(StoreError::io("start a reader for", &self.target.path, error));
                }
                // One reader is enough, only slower.
                Err(_) => {}
            }
        }
        Ok((orders, token))
    }

    fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let waiting = Arc::clone(&self.waiting);
        let mut link = Link::new(self.target.clone(), Role::Reader, None);
        Builder::new().name("store-read".to_owned()).spawn(move || {
            loop {
                // The lock is held while waiting, so the other threads wait for the lock.
                let order = lock(&waiting).blocking_recv();
                let Some(Message::Do(job, token)) = order else { return };
                job(&mut link);
                drop(token);
            }
        })
    }
}

/// Locks `mutex`. Its content is consistent even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job that runs `read` and sends its result.
pub(crate) fn job<T: Send + 'static>(
    read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    reply: oneshot::Sender<Result<T, StoreError>>,
) -> Job {
    Box::new(move |link| {
        let answer = link.run(|conn| {
            let transaction = conn.transaction()?;
            read(&transaction)
        });
        // The caller may have stopped waiting.
        let _ = reply.send(answer);
    })
}

/// Copies the log into the database, if the files have not changed; `TRUNCATE` also empties the
/// log. What readers still need stays in the log.
fn copy_log(link: &mut Link, mode: &str) -> Result<(), StoreError> {
    link.target().check_files()?;
    link.run(|conn| {
        conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?;
        Ok(())
    })
}
