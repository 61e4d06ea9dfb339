//! The files as they were read last: a file is parsed again only when it changed on disk, and one
//! that broke keeps its last good content.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::error::Error;
use crate::layer::Layer;
use crate::layer_name::LayerName;
use crate::requirements_layer::RequirementsLayer;

/// Files that are kept; beyond, all are read again.
const MAX_FILES: usize = 1024;

/// Reads files and remembers them. Shared by all threads of a server.
#[derive(Debug, Default)]
pub struct Files {
    generation: AtomicU64,
    layers: Mutex<HashMap<LayerName, Cached<Layer>>>,
    requirements: Mutex<HashMap<LayerName, Cached<RequirementsLayer>>>,
}

#[derive(Debug)]
struct Cached<T> {
    stamp: Option<Stamp>,
    /// `None`: there is no such file.
    content: Option<Arc<T>>,
    /// Why the file on disk is not `content`.
    broken: Option<Error>,
}

/// What tells that a file changed.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    #[cfg(unix)]
    file: (u64, u64),
    #[cfg(unix)]
    changed: (i64, i64),
}

impl Files {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The layer of that file; `None` when there is no such file.
    ///
    /// # Errors
    /// A file that is broken and was never good. One that broke later stays as it was, and
    /// [`Files::broken`] tells.
    pub fn layer(&self, name: &LayerName) -> Result<Option<Arc<Layer>>, Error> {
        cached(&self.layers, name, &self.generation, Layer::read)
    }

    /// The requirements of that file, as [`Files::layer`].
    pub(crate) fn requirements(
        &self,
        name: &LayerName,
    ) -> Result<Option<Arc<RequirementsLayer>>, Error> {
        cached(&self.requirements, name, &self.generation, RequirementsLayer::read)
    }

    /// Looks whether one of these files is not any more what was read: then the generation grows.
    /// Reads nothing.
    pub fn poll(&self, paths: &[PathBuf]) {
        let known: HashMap<PathBuf, Option<Stamp>> = {
            let layers = lock(&self.layers);
            let requirements = lock(&self.requirements);
            let layers = layers.iter().map(|(name, cached)| (name.file(), &cached.stamp));
            let all = layers
                .chain(requirements.iter().map(|(name, cached)| (name.file(), &cached.stamp)));
            all.filter_map(|(path, stamp)| Some((path?, stamp.clone()))).collect()
        };
        let changed = |path: &&PathBuf| known.get(*path).cloned().flatten() != stamp(path);
        if paths.iter().any(|path| changed(&path)) {
            self.touch();
        }
    }

    /// Reads again whatever changed of the layers that were read so far; mistakes are in
    /// [`Files::broken`].
    pub fn refresh(&self) {
        let names: Vec<LayerName> = lock(&self.layers).keys().cloned().collect();
        for name in names {
            // What is wrong is kept beside the last good content.
            let _ = self.layer(&name);
        }
    }

    /// Counts the times that a file was read or seen to have changed.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Counts a change that is none of a file.
    pub fn touch(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// What is wrong with files on disk whose last good content is in use.
    pub fn broken(&self) -> Vec<Error> {
        let layers = lock(&self.layers);
        let requirements = lock(&self.requirements);
        let broken = layers.values().filter_map(|cached| cached.broken.clone());
        broken.chain(requirements.values().filter_map(|cached| cached.broken.clone())).collect()
    }
}

/// Reads without holding the lock: a file system that does not answer holds up nobody else.
fn cached<T>(
    all: &Mutex<HashMap<LayerName, Cached<T>>>,
    name: &LayerName,
    generation: &AtomicU64,
    read: impl Fn(LayerName) -> Result<Option<T>, Error>,
) -> Result<Option<Arc<T>>, Error> {
    let Some(path) = name.file() else { return Ok(None) };
    // Taken before reading: a write in between is seen the next time.
    let stamp = stamp(&path);
    if let Some(hit) = lock(all).get(name).filter(|hit| hit.stamp == stamp) {
        return hit.answer();
    }
    let read = read(name.clone());
    let mut all = lock(all);
    // Two may have read the same change: it counts once, so that nobody reads it again for that.
    if let Some(hit) = all.get(name).filter(|hit| hit.stamp == stamp) {
        return hit.answer();
    }
    if all.len() >= MAX_FILES {
        all.clear();
    }
    generation.fetch_add(1, Ordering::Relaxed);
    let (content, broken) = match read {
        Ok(content) => (content.map(Arc::new), None),
        Err(error) => (all.get(name).and_then(|last| last.content.clone()), Some(error)),
    };
    let cached = Cached { stamp, content, broken };
    let answer = cached.answer();
    all.insert(name.clone(), cached);
    answer
}

impl<T> Cached<T> {
    fn answer(&self) -> Result<Option<Arc<T>>, Error> {
        match (&self.content, &self.broken) {
            (None, Some(broken)) => Err(broken.clone()),
            (content, _) => Ok(content.clone()),
        }
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt;
    Some(Stamp {
        modified: meta.modified().ok(),
        len: meta.len(),
        #[cfg(unix)]
        file: (meta.dev(), meta.ino()),
        #[cfg(unix)]
        changed: (meta.ctime(), meta.ctime_nsec()),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
