//! The watcher and its watches: which way each path is watched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::changes::{Budget, Change, Changes};
use crate::error::Error;
use crate::limits::Limits;
#[cfg(target_os = "linux")]
use crate::linux::{Engine, WatchedRoot};
use crate::mounts::{Kind, Mounts};
use crate::poll::{Baseline, Poll, Polls};

/// Watches files. Cheap to clone: all clones are the same watcher. Starts nothing before its first watch.
#[derive(Clone)]
pub struct Watcher(Arc<Shared>);

struct Shared {
    limits: Limits,
    watches: AtomicUsize,
    budget: Arc<Budget>,
    polls: Arc<Polls>,
    #[cfg(target_os = "linux")]
    engine: Engine,
}

impl Default for Watcher {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Watcher {
    /// A watcher with these bounds.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let polls = Polls::new(limits.clone());
        Self(Arc::new(Shared {
            watches: AtomicUsize::new(0),
            budget: Budget::new(limits.waiting_bytes),
            #[cfg(target_os = "linux")]
            engine: Engine::new(limits.folders, polls.clone()),
            polls,
            limits,
        }))
    }

    /// Watches `path`, which is absolute and need not exist: a file, a folder with its entries, or with
    /// `recursive` all below it. Links on the way to `path` are followed, and when they, or folders on the
    /// way, are replaced, what `path` is then is watched. Links below it are not followed.
    ///
    /// Every change after the return is reported. Changes are named as `path` is written.
    ///
    /// Waits for the file system, and reads all folders below `path`: not for a thread of a runtime.
    ///
    /// # Errors
    /// The path is relative, or one of [`Limits`] is reached.
    pub fn watch(&self, path: &Path, recursive: bool) -> Result<Watch, Error> {
        self.watch_resting(path, recursive, &|| {})
    }

    /// As [`Watcher::watch`]. `rest` is called between groups of folders, and may wait until more urgent
    /// work is done: nothing is locked meanwhile.
    ///
    /// # Errors
    /// As [`Watcher::watch`].
    pub fn watch_resting(
        &self,
        path: &Path,
        recursive: bool,
        rest: &dyn Fn(),
    ) -> Result<Watch, Error> {
        if !path.is_absolute() {
            return Err(Error::Relative(path.to_owned()));
        }
        let place = Place::take(&self.0)?;
        let changes = Changes::new(path.to_owned(), self.0.budget.clone());
        let source = self.0.begin(&changes, recursive, rest)?;
        Ok(Watch { changes, source, place })
    }
}

/// A watch; it ends when this is dropped.
pub struct Watch {
    changes: Arc<Changes>,
    #[expect(dead_code, reason = "ends the watch when it is dropped")]
    source: Source,
    #[expect(dead_code, reason = "is given back when it is dropped")]
    place: Place,
}

impl Watch {
    /// The watched path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.changes.watched()
    }

    /// Waits for a change, and until a burst of them is over or has lasted for
    /// [`LONGEST_DELAY`](crate::LONGEST_DELAY). Costs nothing meanwhile. Nothing is lost when this is dropped.
    pub async fn next(&self) -> Change {
        self.ready().await;
        self.take()
    }

    /// As [`Watch::next`], but takes nothing: what follows until [`Watch::take`] is added.
    pub async fn ready(&self) {
        self.changes.ready().await;
    }

    /// Takes what has changed by now; empty when nothing has.
    #[must_use]
    pub fn take(&self) -> Change {
        self.changes.take()
    }
}

/// One of [`Limits::watches`].
struct Place(Arc<Shared>);

impl Place {
    fn take(shared: &Arc<Shared>) -> Result<Self, Error> {
        let most = shared.limits.watches;
        let next = |taken: usize| (taken < most).then_some(taken + 1);
        match shared.watches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(Self(shared.clone())),
            Err(_) => Err(Error::TooMany(most)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The source of a watch's changes.
#[derive(Default)]
struct Source {
    #[cfg(target_os = "linux")]
    #[expect(dead_code, reason = "ends when it is dropped")]
    root: Option<WatchedRoot>,
    polls: Vec<Poll>,
}

impl Shared {
    fn begin(
        &self,
        changes: &Arc<Changes>,
        recursive: bool,
        rest: &dyn Fn(),
    ) -> Result<Source, Error> {
        let path = changes.watched();
        let mounts = Mounts::read();
        let place = without_links(path);
        if mounts.kind(&place) != Kind::Local {
            return self.poll(changes, (path, recursive), "its file system changes elsewhere");
        }
        let below = if recursive { mounts.unreported_below(&place) } else { Vec::new() };
        let below = below
            .into_iter()
            .filter_map(|(at, kind)| Some((path.join(at.strip_prefix(&place).ok()?), kind)));
        self.watch(changes, recursive, &below.collect::<Vec<_>>(), rest)
    }

    #[cfg(target_os = "linux")]
    fn watch(
        &self,
        changes: &Arc<Changes>,
        recursive: bool,
        unreported: &[(PathBuf, Kind)],
        rest: &dyn Fn(),
    ) -> Result<Source, Error> {
        let path = changes.watched();
        let left_out = unreported.iter().map(|(folder, _)| folder.clone()).collect();
        match self.engine.watch(changes, recursive, left_out, rest) {
            Ok(root) => {
                let mut source = Source { root: Some(root), polls: Vec::new() };
                let remote = unreported.iter().filter(|(_, kind)| *kind == Kind::Remote);
                for (folder, _) in remote {
                    let reason = format!("{} changes elsewhere", folder.display());
                    source.polls.extend(self.poll(changes, (folder, true), &reason)?.polls);
                }
                Ok(source)
            }
            Err(why) => {
                self.polls.report(path, &why);
                self.poll(changes, (path, recursive), &why.reason)
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn watch(
        &self,
        changes: &Arc<Changes>,
        recursive: bool,
        _: &[(PathBuf, Kind)],
        _: &dyn Fn(),
    ) -> Result<Source, Error> {
        let reason = "changes of files are not reported on this system";
        self.poll(changes, (changes.watched(), recursive), reason)
    }

    fn poll(
        &self,
        changes: &Arc<Changes>,
        (path, recursive): (&Path, bool),
        reason: &str,
    ) -> Result<Source, Error> {
        if self.polls.is_full() {
            let (path, reason) = (path.to_owned(), reason.to_owned());
            return Err(Error::TooManyPolled { path, reason, limit: self.limits.polled });
        }
        let poll = Poll::start(&self.polls, changes, (path, recursive), &Baseline::Now)?;
        Ok(Source { polls: vec![poll], ..Source::default() })
    }
}

/// Where `path` is, or would be, when all links on the way are followed.
fn without_links(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(place), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return place.join(rest);
        }
    }
    path.to_owned()
}
