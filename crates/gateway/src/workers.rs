//! Threads that serve connections. Each has a runtime of its own, and all that happens to a connection happens on one
//! of them: reading the request, asking the upstream, and passing the answer on. So no request wakes another thread.
//!
//! What belongs to no connection (the ledger, batches, probes) stays on the runtime that opened the gateway.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

thread_local! {
    /// The number of this thread among the workers, from 1. Other threads have 0.
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// The number of the calling thread among all workers, from 1; 0 for any other thread.
pub(crate) fn number() -> usize {
    NUMBER.get()
}

/// Threads that serve connections; they end when this is dropped.
#[derive(Debug, Default)]
pub struct Workers {
    all: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    /// Bounded by the number of connections.
    tasks: mpsc::UnboundedSender<Task>,
    /// The tasks that have not ended.
    open: Arc<AtomicUsize>,
    ending: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// Makes a future on the thread that runs it, since it may register sockets and timers there.
type Task = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl Workers {
    /// No threads of its own: all runs where [`crate::serve`] is awaited.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Starts threads.
    ///
    /// # Errors
    /// The system refuses a thread or the descriptors of its runtime.
    pub fn start(count: usize) -> io::Result<Self> {
        let all = (1..=count).map(Worker::start).collect::<io::Result<_>>()?;
        Ok(Self { all })
    }

    /// Runs the future that `make` returns on the thread that has the fewest, or as a task of the calling runtime if
    /// there are none.
    pub(crate) fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        let open = |worker: &&Worker| worker.open.load(Ordering::Relaxed);
        let Some(worker) = self.all.iter().min_by_key(open) else {
            tokio::spawn(make());
            return;
        };
        let place = Place::take(&worker.open);
        let task: Task = Box::new(move || {
            Box::pin(async move {
                make().await;
                drop(place);
            })
        });
        // It ends with this value only.
        let _ = worker.tasks.send(task);
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (tasks, mut given) = mpsc::unbounded_channel::<Task>();
        let (end, mut ended) = oneshot::channel();
        let serve = async move {
            loop {
                tokio::select! {
                    Some(task) = given.recv() => drop(tokio::spawn(task())),
                    _ = &mut ended => break,
                }
            }
        };
        let name = format!("gateway-{number}");
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            NUMBER.set(number);
            runtime.block_on(serve);
        })?;
        Ok(Self { tasks, open: Arc::default(), ending: Some((end, thread)) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.ending.take() {
            // A thread that has panicked has ended.
            let _ = end.send(());
            let _ = thread.join();
        }
    }
}

/// Counts a task until it ends.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn tasks_go_to_the_thread_that_has_the_fewest() {
        let workers = Workers::start(3).unwrap();
        let (found, numbers) = mpsc::channel();
        for _ in 0..6 {
            let found = found.clone();
            workers.run(move || async move {
                found.send(number()).unwrap();
                std::future::pending::<()>().await;
            });
        }
        let mut numbers: Vec<usize> =
            (0..6).map(|_| numbers.recv_timeout(PATIENCE).unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 1, 2, 2, 3, 3]);
        assert_eq!(number(), 0);
    }

    #[test]
    fn a_task_that_ends_makes_room_on_its_thread() {
        let workers = Workers::start(2).unwrap();
        let (found, numbers) = mpsc::channel();
        let run = || {
            let (end, ended) = oneshot::channel::<()>();
            let found = found.clone();
            workers.run(move || async move {
                found.send(number()).unwrap();
                let _ = ended.await;
            });
            (numbers.recv_timeout(PATIENCE).unwrap(), end)
        };
        let [(1, first), (2, _second), (1, third)] = [run(), run(), run()] else {
            panic!("not in turn");
        };
        drop((first, third));
        while workers.all[0].open.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
        assert_eq!(run().0, 1);
    }

    #[test]
    fn the_end_drops_what_has_not_ended() {
        struct Dropped(mpsc::Sender<()>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(()).unwrap();
            }
        }
        let workers = Workers::start(1).unwrap();
        let (told, tell) = mpsc::channel();
        let dropped = Dropped(told);
        workers.run(move || async move {
            let _dropped = dropped;
            std::future::pending::<()>().await;
        });
        drop(workers);
        tell.try_recv().unwrap();
    }

    #[tokio::test]
    async fn without_threads_tasks_run_where_they_were_given() {
        let (told, tell) = oneshot::channel();
        Workers::none().run(move || async move { told.send(number()).unwrap() });
        assert_eq!(tell.await.unwrap(), 0);
    }
}
