//! A few threads with read connections of their own, started when first needed. Also copies the
//! write-ahead log into the database when the writer asks, so that commits need not wait for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::connection::{BUSY_TIMEOUT, Link, Role, Target};
use crate::error::Failure;

/// Most reader threads, and so read connections.
const READERS: usize = 2;

/// Reads that may wait for a thread; more wait in their callers.
const QUEUE: usize = 64;

/// A read: gets the thread's connection and answers its caller itself.
type Job = Box<dyn FnOnce(&mut Link) + Send>;

/// What a reader thread takes from the queue.
enum Order {
    /// Do this; the token counts it as open.
    Do(Job, OpenJob),
    /// End the thread.
    Stop,
}

pub(crate) struct Pool {
    target: Target,
    state: Mutex<State>,
    waiting: Arc<Mutex<mpsc::Receiver<Order>>>,
    open_jobs: Arc<AtomicUsize>,
    /// Held while the log is copied: of two copies at once SQLite would refuse one.
    copying: Arc<Mutex<()>>,
}

struct State {
    /// `None` once closed.
    orders: Option<mpsc::Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
}

/// Counts a job from its request to its end, also when its caller gives up.
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
        let order = Order::Do(answering(read, reply), token);
        orders.send(order).await.map_err(|_| StoreError::Closed)?;
        drop(orders);
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Copies the log into the database soon, as far as readers allow. Does nothing when the queue
    /// is full: the log stays as it is, and the writer asks again.
    pub(crate) fn checkpoint_soon(&self) {
        let Ok((orders, token)) = self.sender() else { return };
        let copying = Arc::clone(&self.copying);
        let job: Job = Box::new(move |link| {
            let _held = lock(&copying);
            // A failure leaves everything in the log, where it is as durable; a disk without room
            // shows in the commit that the log cannot take.
            let _ = copy_log(link, "PASSIVE");
        });
        let _ = orders.try_send(Order::Do(job, token));
    }

    /// Copies the log into the database on the caller's connection, after a copy that is running.
    pub(crate) fn checkpoint_now(&self, link: &mut Link) -> Result<(), StoreError> {
        let _held = lock(&self.copying);
        copy_log(link, "PASSIVE")
    }

    /// Copies the log and empties it, unless another process or a read is in the way just now.
    pub(crate) fn empty_log(&self, link: &mut Link) -> Result<(), StoreError> {
        let _held = lock(&self.copying);
        link.run(|conn| Ok(conn.busy_timeout(Duration::ZERO)?))?;
        let outcome = copy_log(link, "TRUNCATE");
        link.run(|conn| Ok(conn.busy_timeout(BUSY_TIMEOUT)?))?;
        outcome
    }

    /// Lets the waiting reads finish and ends the threads. Reads that come too late are told.
    pub(crate) fn close(&self) {
        let (orders, threads) = {
            let mut state = lock(&self.state);
            (state.orders.take(), std::mem::take(&mut state.threads))
        };
        for _ in &threads {
            // A stop order behind what waits, rather than the senders' end: a caller may keep its
            // sender for as long as nobody polls it.
            let _ = orders.as_ref().map(|orders| orders.blocking_send(Order::Stop));
        }
        for thread in threads {
            // A reader does not panic; if it did, its callers were told by their dropped channel.
            let _ = thread.join();
        }
        let mut waiting = lock(&self.waiting);
        waiting.close();
        while waiting.try_recv().is_ok() {}
    }

    /// A place to send a job to; starts another thread when all are busy.
    fn sender(&self) -> Result<(mpsc::Sender<Order>, OpenJob), StoreError> {
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
                // One reader does the work of two, later.
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
                // The lock is held while waiting: the other threads wait for the lock instead.
                let order = lock(&waiting).blocking_recv();
                let Some(Order::Do(job, token)) = order else { return };
                job(&mut link);
                drop(token);
            }
        })
    }
}

/// Nothing is left half-done under these locks, so their content is good even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A job that runs `read` and sends what comes of it.
pub(crate) fn answering<T: Send + 'static>(
    read: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    reply: oneshot::Sender<Result<T, StoreError>>,
) -> Job {
    Box::new(move |link| {
        let answer = link.run(|conn| {
            let transaction = conn.transaction()?;
            read(&transaction)
        });
        // A caller that no longer waits needs no answer.
        let _ = reply.send(answer);
    })
}

/// Copies the log into the database, if that is still the one it belongs to; with `TRUNCATE` also
/// empties it. What readers still need stays in the log, which is no failure.
fn copy_log(link: &mut Link, mode: &str) -> Result<(), StoreError> {
    link.target().check_files()?;
    link.run(|conn| {
        conn.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))?;
        Ok(())
    })
}
