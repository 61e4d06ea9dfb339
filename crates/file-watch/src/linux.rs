//! The inotify instance of a watcher, and the thread that reads it. The thread waits without a timer while
//! nothing happens.

mod inotify;
mod tree;
mod way;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{self, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, OwnedFd};

use crate::changes::Changes;
use crate::error::Unwatchable;
use crate::poll::Polls;
use inotify::Inotify;
use tree::{RootId, Tree};

/// Folders that a new watch adds before it lets the thread read events.
const FOLDERS_AT_ONCE: usize = 64;
/// The pause after the kernel lost events, which doubles while it goes on losing them: everything is
/// examined again afterwards.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Starts the instance with the first watch.
pub(crate) struct Engine {
    running: Mutex<Option<Arc<Running>>>,
    folders: usize,
    polls: Arc<Polls>,
}

/// The state that the thread shares with the watches.
struct Running {
    tree: Mutex<Tree>,
    inotify: Arc<Inotify>,
    /// Wakes the thread.
    wake: OwnedFd,
    /// Watches that ended.
    ended: Mutex<Vec<RootId>>,
    is_stopped: AtomicBool,
    /// The thread has events to read as soon as it gets `tree`: a new watch lets it.
    is_waiting: AtomicBool,
}

/// A watched path; dropped, it is watched no longer.
pub(crate) struct WatchedRoot {
    running: Arc<Running>,
    id: RootId,
}

impl Drop for WatchedRoot {
    fn drop(&mut self) {
        // The thread removes the folders bit by bit: the kernel reports each one.
        lock(&self.running.ended).push(self.id);
        self.running.wake();
    }
}

impl Engine {
    /// An engine that watches at most `folders` folders.
    pub(crate) fn new(folders: usize, polls: Arc<Polls>) -> Self {
        Self { running: Mutex::default(), folders, polls }
    }

    /// Watches the path of `changes`, but nothing in the folders `left_out`.
    ///
    /// # Errors
    /// Why the path cannot be watched.
    pub(crate) fn watch(
        &self,
        changes: &Arc<Changes>,
        recursive: bool,
        left_out: Vec<PathBuf>,
        rest: &dyn Fn(),
    ) -> Result<WatchedRoot, Unwatchable> {
        let running = self.running()?;
        let id = lock(&running.tree).insert(changes.clone(), recursive, left_out);
        let root = WatchedRoot { running: running.clone(), id };
        let mut open = lock(&running.tree).settle(id, false)?;
        while !lock(&running.tree).adopt(id, &mut open, false, FOLDERS_AT_ONCE)? {
            while running.is_waiting.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            rest();
        }
        Ok(root)
    }

    fn running(&self) -> Result<Arc<Running>, Unwatchable> {
        let mut running = lock(&self.running);
        if let Some(running) = &*running {
            return Ok(running.clone());
        }
        let inotify = Arc::new(Inotify::new()?);
        let wake = event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Unwatchable::limit(format!("no file descriptor is left: {error}")))?;
        let started = Arc::new(Running {
            tree: Mutex::new(Tree::new(inotify.clone(), self.folders, self.polls.clone())),
            inotify,
            wake,
            ended: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            is_waiting: AtomicBool::new(false),
        });
        let of_thread = started.clone();
        thread::Builder::new()
            .name("file-watch".into())
            .spawn(move || of_thread.run())
            .map_err(|error| Unwatchable::limit(format!("no thread can be started: {error}")))?;
        *running = Some(started.clone());
        Ok(started)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(running) = lock(&self.running).take() {
            running.is_stopped.store(true, Ordering::Relaxed);
            running.wake();
        }
    }
}

impl Running {
    fn wake(&self) {
        // Full means that it is awake.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        let mut has_more = false;
        loop {
            let timeout = has_more.then_some(Duration::ZERO);
            let has_events = self.wait(&[self.inotify.as_fd(), self.wake.as_fd()], timeout);
            if self.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            let ended = std::mem::take(&mut *lock(&self.ended));
            self.is_waiting.store(true, Ordering::Relaxed);
            let mut tree = lock(&self.tree);
            self.is_waiting.store(false, Ordering::Relaxed);
            ended.into_iter().for_each(|id| tree.remove(id));
            if has_events && tree.read_events().is_err() {
                drop(tree);
                self.wait(&[self.wake.as_fd()], Some(pause));
                pause = (pause * 2).min(LONGEST_PAUSE);
                lock(&self.tree).recover();
                has_more = true;
                continue;
            }
            if !has_events {
                pause = FIRST_PAUSE;
            }
            has_more = tree.drop_unused();
        }
    }

    /// Waits until one of the descriptors is readable; returns whether the first is.
    fn wait(&self, descriptors: &[rustix::fd::BorrowedFd<'_>], timeout: Option<Duration>) -> bool {
        let mut polled: Vec<PollFd<'_>> =
            descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        // Interrupted: the caller comes back.
        let _ = event::poll(&mut polled, timeout.as_ref());
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        polled.first().is_some_and(|first| first.revents().contains(PollFlags::IN))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
