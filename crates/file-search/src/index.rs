//! The index of a root: the walk that built it, and what keeps it up to date.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::refresh::{Outcome, YIELD, refresh, refresh_folders};
use crate::rules::{GIT, GIT_EXCLUDE, GIT_IGNORE, IGNORE};
use crate::signal::Signal;
use crate::walk::{Identity, State, Walk, spawn};

/// The index of a root, which all searches in it share. Dropping it ends its walk.
#[derive(Debug)]
pub struct Index {
    walk: Mutex<Arc<Walk>>,
    refreshing: Mutex<Refreshing>,
    refreshed: Condvar,
    /// Raised with `refreshed`, for tasks.
    refresh_ended: Signal,
    used: Mutex<Instant>,
}

/// The outcome of a request to examine folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// It has begun, or there is nothing to examine.
    Begun,
    /// The walk or another refresh runs: ask again after [`Index::rested`].
    Busy,
    /// One has just been made, and took long: ask again after this time.
    Later(Duration),
}

#[derive(Debug)]
struct Refreshing {
    is_running: bool,
    /// No refresh starts before: one that is not short takes a fifth of the time at most.
    not_before: Instant,
    /// Folders that are known to have changed; `None`: any may have.
    wanted: Option<HashSet<Vec<u8>>>,
}

/// A refresh shorter than this is done for every search.
const SHORT_REFRESH: Duration = Duration::from_millis(10);
/// A tree of so many folders is examined for every search, however long the machine's load makes that.
const SMALL_TREE: usize = 256;
/// When to try again where no thread can be started.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Most folders that are examined one by one.
const MAX_WANTED: usize = 4096;

impl Drop for Index {
    fn drop(&mut self) {
        self.walk().stop();
    }
}

impl Index {
    /// Starts the walk of a root.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    pub(crate) fn start(walk: Arc<Walk>) -> Result<Arc<Self>, Error> {
        walk.start()?;
        let now = Instant::now();
        let refreshing =
            Refreshing { is_running: false, not_before: now, wanted: Some(HashSet::new()) };
        Ok(Arc::new(Self {
            walk: Mutex::new(walk),
            refreshing: Mutex::new(refreshing),
            refreshed: Condvar::new(),
            refresh_ended: Signal::default(),
            used: Mutex::new(now),
        }))
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.walk().root().to_owned()
    }

    /// Number of files and folders found so far.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.walk().tree().entries()
    }

    /// Memory that the index takes, in bytes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.walk().tree().bytes()
    }

    /// Waits until the walk has ended, for `limit` at most. Returns whether it has.
    #[must_use]
    pub fn walked(&self, limit: Duration) -> bool {
        let stop = crate::Stop::default();
        !matches!(self.walk().wait(Instant::now() + limit, &stop), Err(Error::StillWalking { .. }))
    }

    pub(crate) fn walk(&self) -> Arc<Walk> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When the index was used last.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn touch(&self, now: Instant) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Starts over where the root is another folder than the one that was walked, or the walk failed.
    ///
    /// # Errors
    /// [`Error::Exhausted`].
    pub(crate) fn check_identity(&self, identity: Identity) -> Result<(), Error> {
        let walk = self.walk();
        let failed = matches!(walk.state(), State::Failed(..) | State::TooLarge);
        if walk.identity() == identity && !failed {
            return Ok(());
        }
        let new = Walk::new(walk.root().to_owned(), identity, walk.settings().clone());
        new.start()?;
        self.replace(new);
        Ok(())
    }

    fn replace(&self, new: Arc<Walk>) {
        let signal = new.settings().clone();
        let old =
            std::mem::replace(&mut *self.walk.lock().unwrap_or_else(PoisonError::into_inner), new);
        old.stop();
        signal.signal.raise();
    }

    /// Has the folders examined that changed since they were listed, on a thread of its own, and waits for
    /// it, for `limit` at most. In a large tree this is left out when it was done just now.
    pub fn refresh(self: &Arc<Self>, limit: Duration) {
        let deadline = Instant::now() + limit;
        let done = |state| {
            let left = deadline.saturating_duration_since(Instant::now());
            let running = |state: &mut Refreshing| state.is_running;
            drop(self.refreshed.wait_timeout_while(state, left, running));
        };
        let mut state = self.lock();
        state.wanted = None;
        // One that is running may have passed what changed since.
        done(state);
        // One that has to wait is made later: the walk, or what was examined just now, is new enough.
        let _ = self.begin_refresh();
        done(self.lock());
    }

    /// Has the folders examined that these changes are in: absolute paths of entries that were added,
    /// removed, replaced or written, or of folders whose entries were. When that, or what an earlier call
    /// left, has to wait, call it again, with or without paths.
    pub fn refresh_paths(self: &Arc<Self>, changed: &[PathBuf]) -> Refresh {
        let root = self.root();
        let mut state = self.lock();
        for path in changed {
            let Ok(relative) = path.strip_prefix(&root) else { continue };
            let Some(wanted) = &mut state.wanted else { break };
            if may_be_rules(relative) {
                state.wanted = None;
                break;
            }
            if relative.components().any(|part| part.as_os_str() == GIT) {
                continue;
            }
            let folders = [Some(relative), relative.parent()].into_iter().flatten();
            wanted.extend(folders.map(|folder| folder.as_os_str().as_encoded_bytes().to_vec()));
            if wanted.len() > MAX_WANTED {
                state.wanted = None;
            }
        }
        drop(state);
        self.begin_refresh()
    }

    /// As [`Index::refresh_paths`], when anything may have changed.
    pub fn refresh_all(self: &Arc<Self>) -> Refresh {
        self.lock().wanted = None;
        self.begin_refresh()
    }

    /// Returns whether the walk has ended.
    #[must_use]
    pub fn is_walked(&self) -> bool {
        self.walk().state() != State::Walking
    }

    /// Waits until no search is in progress, a short while at most: for work that can be done between
    /// searches.
    pub fn give_way_to_searches(&self) {
        self.walk().settings().searches.wait_for_rest(YIELD);
    }

    /// Waits until neither the walk nor a refresh runs.
    pub async fn rested(&self) {
        loop {
            let walk = self.walk();
            let walks = &walk.settings().signal;
            let seen = (walks.count(), self.refresh_ended.count());
            if !self.lock().is_running && self.is_walked() {
                return;
            }
            let changed = |task: &mut Context<'_>| match walks.poll(seen.0, task) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => self.refresh_ended.poll(seen.1, task),
            };
            std::future::poll_fn(changed).await;
        }
    }

    /// Returns whether to examine the tree takes so little that every search waits for it.
    pub(crate) fn is_small(&self) -> bool {
        self.walk().tree().folders().len() <= SMALL_TREE
    }

    fn begin_refresh(self: &Arc<Self>) -> Refresh {
        let mut state = self.lock();
        if state.wanted.as_ref().is_some_and(HashSet::is_empty) {
            return Refresh::Begun;
        }
        if state.is_running || !self.is_walked() {
            return Refresh::Busy;
        }
        let left = state.not_before.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Refresh::Later(left);
        }
        // The next search walks such a root again.
        if self.walk().state() == State::TooLarge {
            return Refresh::Begun;
        }
        state.is_running = true;
        drop(state);
        let index = self.clone();
        match spawn("file-search-refresh", move || index.run_refresh()) {
            Ok(()) => Refresh::Begun,
            Err(_) => {
                self.lock().is_running = false;
                Refresh::Later(RETRY_AFTER)
            }
        }
    }

    fn run_refresh(self: Arc<Self>) {
        files::give_way();
        let began = Instant::now();
        let wanted = self.lock().wanted.replace(HashSet::new());
        let walk = self.walk();
        let outcome = match (walk.state(), &wanted) {
            // A root that was gone may be there again.
            (State::Failed(..), _) if Identity::of(walk.root()).is_ok() => Outcome::Outdated,
            (State::Failed(..), _) => Outcome::Unchanged,
            (_, Some(folders)) => refresh_folders(&walk, folders),
            (_, None) => refresh(&walk),
        };
        match outcome {
            Outcome::Unchanged => {}
            Outcome::Changed => walk.settings().signal.raise(),
            Outcome::Outdated => self.walk_again(&walk),
        }
        // To find out whether a root is there again takes no time.
        let is_cheap = matches!(self.walk().state(), State::Failed(..)) || self.is_small();
        let mut state = self.lock();
        state.is_running = false;
        let took = began.elapsed();
        let is_short = took < SHORT_REFRESH || is_cheap;
        let pause = if is_short { Duration::ZERO } else { took * 4 };
        state.not_before = Instant::now() + pause;
        drop(state);
        self.refreshed.notify_all();
        self.refresh_ended.raise();
    }

    /// Walks the root again and takes the new tree once it is complete. Where another folder took the
    /// root's place, the old tree is of no use in the meantime.
    fn walk_again(&self, old: &Walk) {
        let identity = match Identity::of(old.root()) {
            Ok(identity) => identity,
            Err(error) => return old.fail(&error),
        };
        let new = Walk::new(old.root().to_owned(), identity, old.settings().clone());
        if identity != old.identity() {
            self.replace(new.clone());
        }
        new.list_root();
        new.work();
        if identity == old.identity() {
            self.replace(new);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Refreshing> {
        self.refreshing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a change at `path` may be one of ignore rules.
fn may_be_rules(path: &Path) -> bool {
    let named = path.file_name().and_then(OsStr::to_str);
    named.is_some_and(|name| [IGNORE, GIT_IGNORE, GIT].contains(&name))
        || path.ends_with(GIT_EXCLUDE)
}
