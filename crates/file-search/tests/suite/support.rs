//! Folders for tests, and searches in them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use file_search::{Error, Hit, Index, Indexes, Query, Stop, search_once};
use tempfile::TempDir;

/// Longer than any walk of a test takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A folder with these files; a path that ends with a slash is a folder.
pub(crate) fn folder<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for path in paths {
        add(folder.path(), path.as_ref());
    }
    folder
}

pub(crate) fn add(root: &Path, path: &Path) {
    let path_in_root = root.join(path);
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return std::fs::create_dir_all(path_in_root).unwrap();
    }
    std::fs::create_dir_all(path_in_root.parent().unwrap()).unwrap();
    std::fs::write(path_in_root, "").unwrap();
}

pub(crate) fn search(index: &Arc<Index>, query: &str) -> Result<Vec<Hit>, Error> {
    let time = (SystemTime::now(), LIMIT);
    search_once(std::slice::from_ref(index), Query::new(query)?, time, &Stop::default())
}

/// The paths that a search of `root` by a new index finds, best first.
pub(crate) fn found(root: &Path, query: &str) -> Vec<String> {
    let index = Indexes::new(None).open(root).unwrap();
    paths(search(&index, query).unwrap())
}

pub(crate) fn paths(hits: Vec<Hit>) -> Vec<String> {
    hits.into_iter().map(|hit| hit.path).collect()
}
