//! Examines a path at intervals, where the system cannot report changes, and compares what it finds with what it
//! found before. Each examined path has a thread: one on a file system that does not answer delays no other.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::changes::Changes;
use crate::error::{Error, Unwatchable};
use crate::limits::Limits;

/// Part of the time that a thread may spend examining: one in this many.
const SHARE: u32 = 10;
/// A thread holds no recursion and no buffers.
const STACK_BYTES: usize = 256 << 10;

/// The state that is shared by all examining threads of a watcher.
pub(crate) struct Polls {
    running: AtomicUsize,
    /// Entries in all snapshots.
    entries: AtomicUsize,
    limits: Limits,
    is_reported: AtomicBool,
}

impl Polls {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        let (running, entries) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { running, entries, limits, is_reported: AtomicBool::new(false) })
    }

    /// Writes into the log why a path is examined at intervals; of a limit, the first time only.
    pub(crate) fn report(&self, path: &Path, why: &Unwatchable) {
        let (path, reason, interval) = (path.display(), &why.reason, self.limits.interval);
        if !why.is_limit {
            tracing::debug!(
                "{path}: {reason}; it is examined at intervals of {interval:?} or more"
            );
        } else if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{path}: {reason}; it is examined at intervals of {interval:?} or more instead, as are other \
                 paths that meet a limit, which is not reported again"
            );
        }
    }

    /// Returns whether as many paths are examined as clients may cause.
    pub(crate) fn is_full(&self) -> bool {
        self.running.load(Ordering::Relaxed) >= self.limits.polled
    }
}

/// Which changes a new thread reports.
pub(crate) enum Baseline {
    /// Those after its start, which waits for the first examination.
    Now,
    /// As [`Baseline::Now`], but the start does not wait, and an overflow comes first.
    Lost,
}

/// A thread that examines a path; it ends when this is dropped.
pub(crate) struct Poll {
    stopped: Arc<AtomicBool>,
    thread: Thread,
}

impl Drop for Poll {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Not joined: its file system may not answer.
        self.thread.unpark();
    }
}

impl Poll {
    /// Begins to examine `path`, and with `recursive` all below it.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        polls: &Arc<Polls>,
        changes: &Arc<Changes>,
        (path, recursive): (&Path, bool),
        baseline: &Baseline,
    ) -> Result<Self, Error> {
        let stopped = Arc::new(AtomicBool::new(false));
        let slot = Slot::new(polls.clone());
        let mut examiner = Examiner {
            path: path.to_owned(),
            recursive,
            changes: changes.clone(),
            stopped: stopped.clone(),
            slot,
            seen: None,
            has_failed: false,
        };
        let is_lost = matches!(baseline, Baseline::Lost);
        if !is_lost {
            examiner.examine();
        }
        let thread = thread::Builder::new().name("watch-poll".into()).stack_size(STACK_BYTES);
        let run = move || examiner.run(is_lost);
        let thread = thread.spawn(run).map_err(Error::Thread)?.thread().clone();
        Ok(Self { stopped, thread })
    }
}

/// A running thread and its entries, in the counts of [`Polls`].
struct Slot {
    polls: Arc<Polls>,
    entries: usize,
}

impl Slot {
    fn new(polls: Arc<Polls>) -> Self {
        polls.running.fetch_add(1, Ordering::Relaxed);
        Self { polls, entries: 0 }
    }

    /// Entries that a snapshot may have.
    fn room(&self) -> usize {
        let others = self.polls.entries.load(Ordering::Relaxed).saturating_sub(self.entries);
        self.polls.limits.polled_entries.saturating_sub(others)
    }

    fn hold(&mut self, entries: usize) {
        self.polls.entries.fetch_add(entries, Ordering::Relaxed);
        self.polls.entries.fetch_sub(self.entries, Ordering::Relaxed);
        self.entries = entries;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.hold(0);
        self.polls.running.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Examiner {
    path: PathBuf,
    recursive: bool,
    changes: Arc<Changes>,
    stopped: Arc<AtomicBool>,
    slot: Slot,
    /// `None` until the first examination succeeds.
    seen: Option<Snapshot>,
    has_failed: bool,
}

impl Examiner {
    fn run(mut self, is_lost: bool) {
        let mut pause = self.slot.polls.limits.interval;
        if is_lost {
            pause = self.examine().max(pause);
            self.changes.overflow();
        }
        while !self.is_stopped() {
            let until = Instant::now() + pause;
            while !self.is_stopped() && Instant::now() < until {
                thread::park_timeout(until.saturating_duration_since(Instant::now()));
            }
            if !self.is_stopped() {
                pause = self.examine().max(self.slot.polls.limits.interval);
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Examines once and reports what changed; returns how long to pause.
    fn examine(&mut self) -> Duration {
        let start = Instant::now();
        match Snapshot::take(&self.path, self.recursive, self.slot.room(), &self.stopped) {
            Ok(now) => {
                match &self.seen {
                    Some(seen) => seen.compare(&now, &self.changes),
                    // What happened before is unknown.
                    None if self.has_failed => self.changes.overflow(),
                    None => {}
                }
                self.slot.hold(now.entries.len());
                self.seen = Some(now);
                self.has_failed = false;
            }
            // What was seen stays, and is compared with the next snapshot that succeeds.
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                let path = self.path.display();
                tracing::warn!(
                    "{path}: examining it for changes failed, and is tried again: {error}"
                );
            }
            Err(_) => {}
        }
        start.elapsed() * SHARE
    }
}

/// The state of a path at one time.
#[derive(Default)]
struct Snapshot {
    /// A digest of the metadata of each entry. Empty when there are too many.
    entries: BTreeMap<PathBuf, u64>,
    is_whole: bool,
    /// Of all entries, in any order.
    digest: u64,
}

impl Snapshot {
    fn take(root: &Path, recursive: bool, room: usize, stopped: &AtomicBool) -> io::Result<Self> {
        let mut found = Self { is_whole: true, ..Self::default() };
        let Some(metadata) = present(root.metadata())? else { return Ok(found) };
        found.add(root.to_owned(), &metadata, room);
        let mut open = Vec::from_iter(metadata.is_dir().then(|| root.to_owned()));
        while let Some(folder) = open.pop() {
            if stopped.load(Ordering::Relaxed) {
                return Ok(found);
            }
            let Some(entries) = present(folder.read_dir())? else { continue };
            for entry in entries {
                let entry = entry?;
                // Of a link itself.
                let Some(metadata) = present(entry.metadata())? else { continue };
                if recursive && metadata.is_dir() {
                    open.push(entry.path());
                }
                found.add(entry.path(), &metadata, room);
            }
        }
        Ok(found)
    }

    fn add(&mut self, path: PathBuf, metadata: &Metadata, room: usize) {
        let stamp = stamp(metadata);
        let mut hasher = DefaultHasher::new();
        (&path, stamp).hash(&mut hasher);
        self.digest = self.digest.wrapping_add(hasher.finish());
        if self.is_whole && self.entries.len() < room {
            self.entries.insert(path, stamp);
        } else {
            self.is_whole = false;
            self.entries.clear();
        }
    }

    fn compare(&self, now: &Self, changes: &Changes) {
        if !self.is_whole || !now.is_whole {
            if self.digest != now.digest {
                changes.overflow();
            }
            return;
        }
        for (path, stamp) in &now.entries {
            if self.entries.get(path) != Some(stamp) {
                changes.add(path);
            }
        }
        for path in self.entries.keys().filter(|path| !now.entries.contains_key(*path)) {
            changes.add(path);
        }
    }
}

/// `None` for what is not there, or is not to be read.
pub(crate) fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_absent(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether an error says that nothing is at a path, also because a folder on the way was replaced by a file
/// or by links that lead in a circle.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || is_circle(error)
}

#[cfg(target_os = "linux")]
fn is_circle(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(target_os = "linux"))]
fn is_circle(_: &io::Error) -> bool {
    false
}

/// A digest of what changes with an entry. The times of a folder do not count: its entries do.
#[cfg(unix)]
fn stamp(metadata: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut hasher = DefaultHasher::new();
    (metadata.dev(), metadata.ino(), metadata.mode(), metadata.uid(), metadata.gid())
        .hash(&mut hasher);
    if !metadata.is_dir() {
        (metadata.size(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
        (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(not(unix))]
fn stamp(metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    (metadata.is_dir(), metadata.permissions().readonly()).hash(&mut hasher);
    if !metadata.is_dir() {
        (metadata.len(), metadata.modified().ok()).hash(&mut hasher);
    }
    hasher.finish()
}
