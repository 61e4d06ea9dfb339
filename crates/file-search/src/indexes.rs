//! All indexes of the process: one a root, shared, of bounded number and memory, and dropped when they
//! are not used.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::index::Index;
use crate::searches::Searches;
use crate::signal::Signal;
use crate::walk::{Identity, MAX_ENTRIES, Settings, Walk};

/// Most indexes. At the bound the one goes that was not used longest.
const MAX_INDEXES: usize = 16;
/// Memory of all indexes beyond which those go that are not in use.
const MAX_BYTES: usize = 512 << 20;
/// Indexes that are not used for so long are dropped.
pub const IDLE: Duration = Duration::from_secs(10 * 60);
/// Interval of the search for unused indexes.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(30);

/// The indexes that searches share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Indexes {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Arc<Settings>,
    by_root: Mutex<HashMap<PathBuf, Arc<Index>>>,
    /// Sessions whose threads have not ended.
    sessions: Arc<AtomicUsize>,
    /// Dropped, it ends the thread that drops unused indexes.
    expiry: Mutex<Option<Sender<()>>>,
}

impl Indexes {
    /// No indexes. `global_ignore` is the user's own file of git's ignore rules, if there is one.
    #[must_use]
    pub fn new(global_ignore: Option<PathBuf>) -> Self {
        Self::with_bound(global_ignore, MAX_ENTRIES)
    }

    /// As [`Indexes::new`], with another bound of the files and folders of a root.
    #[must_use]
    pub fn with_bound(global_ignore: Option<PathBuf>, max_entries: usize) -> Self {
        let settings = Settings {
            global_ignore,
            max_entries,
            signal: Signal::default(),
            searches: Searches::default(),
        };
        let shared = Shared {
            settings: Arc::new(settings),
            by_root: Mutex::default(),
            sessions: Arc::default(),
            expiry: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The index of `root`, an absolute path. The first search of a root starts its walk. Waits for the
    /// file system to say what is at `root`, and for nothing else.
    ///
    /// # Errors
    /// [`Error::Root`], [`Error::NotAFolder`] or [`Error::Exhausted`].
    pub fn open(&self, root: &Path) -> Result<Arc<Index>, Error> {
        // One root, however many slashes it is written with.
        let root: PathBuf = root.components().collect();
        let identity = Identity::of(&root)?;
        let now = Instant::now();
        let mut by_root = self.lock();
        if let Some(index) = by_root.get(&root) {
            index.touch(now);
            let index = index.clone();
            drop(by_root);
            index.check_identity(identity)?;
            return Ok(index);
        }
        make_room(&mut by_root)?;
        let walk = Walk::new(root.clone(), identity, self.shared.settings.clone());
        let index = Index::start(walk)?;
        by_root.insert(root, index.clone());
        let is_first = by_root.len() == 1;
        drop(by_root);
        if is_first {
            self.expire_regularly();
        }
        Ok(index)
    }

    /// Drops the indexes that no session has and that were not used for [`IDLE`] at `now`. Returns how
    /// many are left.
    pub fn expire(&self, now: Instant) -> usize {
        self.shared.expire(now)
    }

    pub(crate) fn signal(&self) -> &Arc<Settings> {
        &self.shared.settings
    }

    pub(crate) fn sessions(&self) -> &Arc<AtomicUsize> {
        &self.shared.sessions
    }

    /// Starts the thread that drops unused indexes; it ends with the last of them, or with these.
    fn expire_regularly(&self) {
        let (alive, ended) = channel::<()>();
        *self.shared.expiry.lock().unwrap_or_else(PoisonError::into_inner) = Some(alive);
        let shared = Arc::downgrade(&self.shared);
        let thread = std::thread::Builder::new().name("file-search-expiry".to_owned());
        let expire = move || {
            while ended.recv_timeout(EXPIRY_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if shared.upgrade().is_none_or(|shared| shared.expire(Instant::now()) == 0) {
                    return;
                }
            }
        };
        if let Err(error) = thread.spawn(expire) {
            tracing::warn!("unused indexes are kept until there are {MAX_INDEXES}: {error}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Index>>> {
        self.shared.by_root.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn expire(&self, now: Instant) -> usize {
        let mut by_root = self.by_root.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |index: &Index| now.saturating_duration_since(index.used()) >= IDLE;
        by_root.retain(|_, index| Arc::strong_count(index) > 1 || !is_idle(index));
        by_root.len()
    }
}

/// Drops indexes until there is room for one more.
fn make_room(by_root: &mut HashMap<PathBuf, Arc<Index>>) -> Result<(), Error> {
    let is_full = |by_root: &HashMap<PathBuf, Arc<Index>>| {
        by_root.len() >= MAX_INDEXES
            || by_root.values().map(|index| index.bytes()).sum::<usize>() >= MAX_BYTES
    };
    while is_full(by_root) {
        let unused = by_root.iter().filter(|(_, index)| Arc::strong_count(index) == 1);
        let Some(oldest) = unused.min_by_key(|(_, index)| index.used()) else {
            return Err(Error::Exhausted(format!(
                "{} roots are being searched, and their indexes take {} MB; end a session first",
                by_root.len(),
                by_root.values().map(|index| index.bytes()).sum::<usize>() >> 20,
            )));
        };
        let oldest = oldest.0.clone();
        by_root.remove(&oldest);
    }
    Ok(())
}
