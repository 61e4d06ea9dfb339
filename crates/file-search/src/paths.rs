//! A search in a list of paths instead of a folder on the disk: what is found, without what the file
//! system knows of it. Tests and fuzz targets use it.

use std::collections::BTreeMap;
use std::path::Path;

use crate::listing::Listing;
use crate::query::Query;
use crate::rules::Rules;
use crate::scan::scan;
use crate::search::{Hit, MAX_RESULTS, hit};
use crate::stop::Stop;
use crate::top::Top;
use crate::tree::Tree;

/// The best matches of `query` in a root that has these files, and the folders that lead to them, best
/// first. The times of changes do not count.
#[must_use]
pub fn search_paths<'p>(paths: impl IntoIterator<Item = &'p [u8]>, query: &Query) -> Vec<Hit> {
    let tree = tree(paths);
    let mut top = Top::default();
    // Nothing stops it, so that the number of matches is there.
    let _ = scan(&tree, 0, query, &mut top, &Stop::default());
    let found = top.matches().iter().take(MAX_RESULTS);
    let found = found.filter_map(|found| Some((found.rank, tree.path(found.place)?)));
    found.map(|(rank, path)| hit(query, 0, rank, &path)).collect()
}

fn tree<'p>(paths: impl IntoIterator<Item = &'p [u8]>) -> Tree {
    let mut folders: BTreeMap<Vec<u8>, BTreeMap<&[u8], bool>> = BTreeMap::new();
    for path in paths {
        let mut folder = Vec::new();
        let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
        while let Some(name) = parts.next() {
            let entries = folders.entry(folder.clone()).or_default();
            *entries.entry(name).or_default() |= parts.peek().is_some();
            if !folder.is_empty() {
                folder.push(b'/');
            }
            folder.extend_from_slice(name);
        }
    }
    // Nothing is above the root of the file system, so that no file is read.
    let rules = Rules::above(Path::new("/"), None);
    let mut tree = Tree::default();
    for (path, entries) in folders {
        tree.push(&path, Listing::of(entries, &rules));
    }
    tree
}
