//! Caches configuration files: a file is parsed again only when it changed on disk, and one that
//! became invalid keeps its last valid content.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::error::Error;
use crate::layer::Layer;
use crate::layer_name::LayerName;
use crate::requirements_layer::RequirementsLayer;

/// Cached files; when there are more, the cache is cleared.
const MAX_FILES: usize = 1024;

/// Reads and caches configuration files. All threads of a server share one.
#[derive(Debug, Default)]
pub struct FileCache {
    /// True if a file with mistakes counts without them.
    usable_parts: bool,
    generation: AtomicU64,
    layers: Mutex<HashMap<LayerName, Cached<Layer>>>,
    requirements: Mutex<HashMap<LayerName, Cached<RequirementsLayer>>>,
}

#[derive(Debug)]
struct Cached<T> {
    stamp: Option<Stamp>,
    /// `None` if the file does not exist.
    content: Option<Arc<T>>,
    /// Why the file on disk is invalid, and `content` its last valid content.
    broken: Option<Error>,
}

/// Metadata that differs after a change of the file.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    #[cfg(unix)]
    file: (u64, u64),
    #[cfg(unix)]
    changed: (i64, i64),
}

impl FileCache {
    /// The layer of the file of `name`; `None` if it does not exist.
    ///
    /// # Errors
    /// The file has never been valid. For one that became invalid, this returns its last valid
    /// content, and [`FileCache::broken`] the error.
    pub fn layer(&self, name: &LayerName) -> Result<Option<Arc<Layer>>, Error> {
        if !self.usable_parts {
            let read = |name| Layer::read(name).map(|layer| (layer, None));
            return cached(&self.layers, name, &self.generation, read);
        }
        let read = |name| match Layer::read_usable(name)? {
            Some((layer, error)) => Ok((Some(layer), error)),
            None => Ok((None, None)),
        };
        // An error is kept for `broken`.
        Ok(cached(&self.layers, name, &self.generation, read).unwrap_or_default())
    }

    /// A cache in which the mistakes of a file do not keep the rest of it from being used:
    /// [`FileCache::broken`] has them all.
    #[must_use]
    pub fn of_usable_parts() -> Self {
        Self { usable_parts: true, ..Self::default() }
    }

    /// As [`FileCache::layer`], for a requirements file.
    pub(crate) fn requirements(
        &self,
        name: &LayerName,
    ) -> Result<Option<Arc<RequirementsLayer>>, Error> {
        let read = |name| RequirementsLayer::read(name).map(|layer| (layer, None));
        cached(&self.requirements, name, &self.generation, read)
    }

    /// Increments the generation if one of these files changed since it was read. Reads only their
    /// metadata.
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

    /// Reads the layers that changed since they were last read. Their mistakes are in
    /// [`FileCache::broken`].
    pub fn refresh(&self) {
        let names: Vec<LayerName> = lock(&self.layers).keys().cloned().collect();
        for name in names {
            // The error is kept in the cache.
            let _ = self.layer(&name);
        }
    }

    /// Number of times that a file was read or seen to have changed.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Increments the generation for a change other than one of a file.
    pub fn touch(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
    }

    /// The errors of invalid files on disk whose last valid content is in use.
    pub fn broken(&self) -> Vec<Error> {
        let layers = lock(&self.layers);
        let requirements = lock(&self.requirements);
        let broken = layers.values().filter_map(|cached| cached.broken.clone());
        broken.chain(requirements.values().filter_map(|cached| cached.broken.clone())).collect()
    }
}

/// Reads without holding the lock, so that an unresponsive file system blocks no other caller.
fn cached<T>(
    all: &Mutex<HashMap<LayerName, Cached<T>>>,
    name: &LayerName,
    generation: &AtomicU64,
    read: impl Fn(LayerName) -> Result<(Option<T>, Option<Error>), Error>,
) -> Result<Option<Arc<T>>, Error> {
    let Some(path) = name.file() else { return Ok(None) };
    // Taken before reading, so that a later write is noticed the next time.
    let stamp = stamp(&path);
    if let Some(hit) = lock(all).get(name).filter(|hit| hit.stamp == stamp) {
        return hit.result();
    }
    let read = read(name.clone());
    let mut all = lock(all);
    // Two callers may have read the same change; it increments the generation only once.
    if let Some(hit) = all.get(name).filter(|hit| hit.stamp == stamp) {
        return hit.result();
    }
    if all.len() >= MAX_FILES {
        all.clear();
    }
    generation.fetch_add(1, Ordering::Relaxed);
    let (content, broken) = match read {
        Ok((content, broken)) => (content.map(Arc::new), broken),
        Err(error) => (all.get(name).and_then(|last| last.content.clone()), Some(error)),
    };
    let cached = Cached { stamp, content, broken };
    let result = cached.result();
    all.insert(name.clone(), cached);
    result
}

impl<T> Cached<T> {
    fn result(&self) -> Result<Option<Arc<T>>, Error> {
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
