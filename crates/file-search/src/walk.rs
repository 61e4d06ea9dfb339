//! The walk of a root on threads of its own, which fills a tree that is searched meanwhile. Folders are
//! listed level by level, so that what is near the root is found first.
//!
//! A file system that does not answer holds these threads only: nothing waits for them without a limit.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::listing::{Listing, list};
use crate::rules::Rules;
use crate::searches::Searches;
use crate::signal::Signal;
use crate::stop::Stop;
use crate::tree::{Place, Tree, joined};

/// Most files and folders of a root. At the bound the walk ends, and searches of the root say so.
pub const MAX_ENTRIES: usize = 5_000_000;
/// Most threads of a walk.
const MAX_THREADS: usize = 4;
/// Threads of all walks, those included that wait for a file system. At the bound no new root is opened.
const MAX_ALL_THREADS: usize = 64;
/// Interval at which a thread that waits for a walk checks whether it is stopped.
const POLL: Duration = Duration::from_millis(20);

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The settings of a walk.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The user's own ignore rules.
    pub(crate) global_ignore: Option<PathBuf>,
    pub(crate) max_entries: usize,
    pub(crate) signal: Signal,
    pub(crate) searches: Searches,
}

/// A walk, and the tree that it fills.
#[derive(Debug)]
pub(crate) struct Walk {
    root: PathBuf,
    identity: Identity,
    settings: Arc<Settings>,
    tree: RwLock<Tree>,
    queue: Mutex<Queue>,
    changed: Condvar,
    stop: Stop,
}

/// Which folder a path leads to: a folder that is removed and made again is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

#[derive(Debug)]
struct Queue {
    /// Folders to list.
    folders: VecDeque<Place>,
    /// Folders that are being listed.
    active: usize,
    state: State,
}

/// The progress of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Walking,
    Complete,
    /// There are more entries than the bound.
    TooLarge,
    /// The root cannot be listed.
    Failed(io::ErrorKind, String),
}

impl Identity {
    /// The folder at `root`.
    pub(crate) fn of(root: &Path) -> Result<Self, Error> {
        let failed = |cause| Error::Root { root: root.to_owned(), cause };
        let found = root.metadata().map_err(failed)?;
        if !found.is_dir() {
            return Err(Error::NotAFolder(root.to_owned()));
        }
        Ok(Self(found.dev(), found.ino()))
    }
}

impl Walk {
    /// A walk that has not begun.
    pub(crate) fn new(root: PathBuf, identity: Identity, settings: Arc<Settings>) -> Arc<Self> {
        let queue = Queue { folders: VecDeque::new(), active: 0, state: State::Walking };
        Arc::new(Self {
            root,
            identity,
            settings,
            tree: RwLock::default(),
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            stop: Stop::default(),
        })
    }

    /// Walks on new threads.
    ///
    /// # Errors
    /// [`Error::Exhausted`]: too many walks have not ended.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), Error> {
        let walk = self.clone();
        spawn("file-search-walk", move || {
            walk.list_root();
            let more = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 1..more.min(MAX_THREADS) {
                let walk = walk.clone();
                // One thread is enough to end the walk.
                let _ = spawn("file-search-walk", move || walk.work());
            }
            walk.work();
        })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Ends the walk. What it has found stays.
    pub(crate) fn stop(&self) {
        self.stop.set();
        self.changed.notify_all();
    }

    pub(crate) fn state(&self) -> State {
        self.queue().state.clone()
    }

    /// The error of a search in this walk's tree, if the walk cannot be complete.
    pub(crate) fn error(&self) -> Option<Error> {
        let root = self.root.clone();
        match self.state() {
            State::Walking | State::Complete => None,
            State::TooLarge => Some(Error::TooLarge { root, most: self.settings.max_entries }),
            State::Failed(kind, message) => {
                Some(Error::Root { root, cause: io::Error::new(kind, message) })
            }
        }
    }

    /// Waits until the walk has ended.
    ///
    /// # Errors
    /// [`Error::Cancelled`]; [`Error::StillWalking`] after `deadline`; the error of the walk.
    pub(crate) fn wait(&self, deadline: Instant, stop: &Stop) -> Result<(), Error> {
        let mut queue = self.queue();
        while queue.state == State::Walking {
            if stop.is_set() {
                return Err(Error::Cancelled);
            }
            if Instant::now() >= deadline {
                drop(queue);
                let found = self.tree().entries();
                return Err(Error::StillWalking { root: self.root.clone(), found });
            }
            let waited = self.changed.wait_timeout(queue, POLL);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(queue);
        self.error().map_or(Ok(()), Err)
    }

    pub(crate) fn tree(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tree_mut(&self) -> RwLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a folder whose path relative to the root is `relative`.
    pub(crate) fn full_path(&self, relative: &[u8]) -> PathBuf {
        match relative {
            [] => self.root.clone(),
            _ => self.root.join(OsStr::from_bytes(relative)),
        }
    }

    /// Lists a folder, unless the walk is stopped.
    pub(crate) fn list(&self, path: &Path, parent: &Arc<Rules>) -> io::Result<Listing> {
        list(path, parent, &|| self.stop.is_set())
    }

    /// Lists the root.
    pub(crate) fn list_root(&self) {
        let rules = Rules::above(&self.root, self.settings.global_ignore.as_deref());
        match self.list(&self.root, &rules) {
            Ok(listing) => self.add(b"", listing),
            Err(error) => self.end(State::Failed(error.kind(), error.to_string())),
        }
    }

    /// Lists folders until none is left.
    pub(crate) fn work(&self) {
        while let Some(place) = self.next() {
            self.list_at(place);
            let mut queue = self.queue();
            queue.active -= 1;
            let is_last = queue.active == 0 && queue.folders.is_empty();
            if is_last && queue.state == State::Walking {
                queue.state = State::Complete;
            }
            drop(queue);
            if is_last {
                self.changed.notify_all();
                self.settings.signal.raise();
            }
        }
    }

    /// Takes folders that were found after the walk. [`Walk::work`] lists them.
    pub(crate) fn resume(&self, folders: impl IntoIterator<Item = Place>) {
        self.queue().folders.extend(folders);
        self.changed.notify_all();
    }

    fn next(&self) -> Option<Place> {
        let mut queue = self.queue();
        loop {
            if self.stop.is_set() {
                return None;
            }
            if let Some(place) = queue.folders.pop_front() {
                queue.active += 1;
                return Some(place);
            }
            if queue.active == 0 {
                // A root without folders.
                if queue.state == State::Walking {
                    queue.state = State::Complete;
                    self.changed.notify_all();
                    self.settings.signal.raise();
                }
                return None;
            }
            let waited = self.changed.wait_timeout(queue, POLL);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn list_at(&self, place: Place) {
        let (path, rules) = {
            let tree = self.tree();
            let Some((folder, entry)) = tree.at(place) else { return };
            let Some(rules) = folder.rules.clone() else { return };
            (joined(&folder.path, entry.name), rules)
        };
        match self.list(&self.full_path(&path), &rules) {
            Ok(listing) => self.add(&path, listing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::debug!("{}: {error}", self.full_path(&path).display());
                self.add(&path, Listing::unreadable(&rules));
            }
        }
    }

    fn add(&self, path: &[u8], listing: Listing) {
        let (folders, is_too_large) = {
            let mut tree = self.tree_mut();
            let folder = tree.push(path, listing);
            let entries = tree.folders()[folder as usize].entries.iter();
            let folders = entries.filter(|entry| entry.is_folder);
            let folders: Vec<_> =
                folders.map(|entry| Place { folder, offset: entry.offset }).collect();
            (folders, tree.entries() > self.settings.max_entries)
        };
        if is_too_large {
            return self.end(State::TooLarge);
        }
        let mut queue = self.queue();
        if matches!(queue.state, State::Walking | State::Complete) {
            queue.folders.extend(folders);
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// The root is gone, or something else is in its place.
    pub(crate) fn fail(&self, error: &Error) {
        let (kind, message) = match error {
            Error::Root { cause, .. } => (cause.kind(), cause.to_string()),
            _ => (io::ErrorKind::NotADirectory, "it is no longer a folder".to_owned()),
        };
        self.tree_mut().remove(b"");
        self.end(State::Failed(kind, message));
    }

    fn end(&self, state: State) {
        let mut queue = self.queue();
        queue.folders.clear();
        queue.state = state;
        drop(queue);
        self.changed.notify_all();
        self.settings.signal.raise();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `work` on a thread.
///
/// # Errors
/// [`Error::Exhausted`].
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            THREADS.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let running = THREADS.fetch_add(1, Ordering::Relaxed);
    let counted = Counted;
    if running >= MAX_ALL_THREADS {
        return Err(Error::Exhausted(format!(
            "{running} threads of searches have not ended; check whether a file system does not \
             respond, and search again later"
        )));
    }
    let thread = std::thread::Builder::new().name(name.to_owned());
    let spawned = thread.spawn(move || {
        let _counted = counted;
        work();
    });
    let failed = |error| Error::Exhausted(format!("a thread cannot be started: {error}"));
    spawned.map(drop).map_err(failed)
}
