//! Brings a tree up to date: folders whose time of change differs are listed again. A changed file of
//! rules, or another folder in the root's place, needs a new walk.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use crate::listing::{Entries, Listing};
use crate::rules::Rules;
use crate::tree::{Place, Tree, joined};
use crate::walk::{Identity, Walk};

/// Folders that are examined under one lock.
const FOLDERS_AT_ONCE: usize = 256;
/// Maximum wait for a search that is in progress: even with many searches, a refresh ends.
pub(crate) const YIELD: Duration = Duration::from_millis(50);
/// Threads that examine folders.
const THREADS: usize = 2;
/// A tree with this many places of removed folders is rebuilt.
const MAX_GONE: usize = 50_000;

/// The outcome of examining a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Unchanged,
    Changed,
    /// It must be rebuilt.
    Outdated,
}

/// A folder of the tree, copied so that no lock is held while the file system is asked.
struct Known {
    id: u32,
    path: Box<[u8]>,
    changed: Option<SystemTime>,
    rules: Arc<Rules>,
}

/// Examines every folder of `walk`, which has ended.
pub(crate) fn refresh(walk: &Walk) -> Outcome {
    if Identity::of(walk.root()).ok() != Some(walk.identity()) || walk.tree().gone() > MAX_GONE {
        return Outcome::Outdated;
    }
    let top = walk.tree().folders().first().and_then(|folder| folder.rules.clone());
    if top.is_none_or(|rules| rules.have_changed()) {
        return Outcome::Outdated;
    }
    let Some(changed) = changed_folders(walk) else { return Outcome::Outdated };
    apply(walk, changed)
}

/// Lists these folders again.
pub(crate) fn refresh_folders(walk: &Walk, paths: &HashSet<Vec<u8>>) -> Outcome {
    let tree = walk.tree();
    let folders = tree.folders().iter().enumerate();
    let known = folders.filter(|(_, folder)| paths.contains(&*folder.path));
    let known = known.filter_map(|(id, _)| known_in(&tree, id)).collect();
    drop(tree);
    apply(walk, known)
}

fn apply(walk: &Walk, changed: Vec<Known>) -> Outcome {
    let mut outcome = Outcome::Unchanged;
    for known in changed {
        match list_again(walk, &known) {
            Outcome::Outdated => return Outcome::Outdated,
            Outcome::Changed => outcome = Outcome::Changed,
            Outcome::Unchanged => {}
        }
    }
    walk.work();
    outcome
}

/// The folders that have changed; `None` when rules have.
fn changed_folders(walk: &Walk) -> Option<Vec<Known>> {
    let total = walk.tree().folders().len();
    let next = AtomicUsize::new(0);
    let examine = || {
        let mut changed = Vec::new();
        loop {
            let from = next.fetch_add(FOLDERS_AT_ONCE, Ordering::Relaxed);
            if from >= total {
                return Some(changed);
            }
            walk.settings().searches.wait_for_rest(YIELD);
            let ids = from..total.min(from + FOLDERS_AT_ONCE);
            let part: Vec<Known> = {
                let tree = walk.tree();
                ids.filter_map(|id| known_in(&tree, id)).collect()
            };
            for known in part {
                let path = walk.full_path(&known.path);
                if known.rules.are_of(&path) && known.rules.own_have_changed() {
                    return None;
                }
                // A folder that is gone has changed the folder above.
                let Ok(found) = path.metadata() else { continue };
                if known.changed.is_none() || found.modified().ok() != known.changed {
                    changed.push(known);
                }
            }
        }
    };
    let threads = if total < FOLDERS_AT_ONCE { 1 } else { THREADS };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(examine)).collect();
        let mut all = examine()?;
        for other in others {
            all.extend(other.join().ok()??);
        }
        // Folders above come first: what they no longer have is not listed again.
        all.sort_unstable_by_key(|known| known.id);
        Some(all)
    })
}

fn known_in(tree: &Tree, id: usize) -> Option<Known> {
    let folder = tree.folders().get(id)?;
    Some(Known {
        id: u32::try_from(id).ok()?,
        path: folder.path.clone(),
        changed: folder.changed,
        rules: folder.rules.clone()?,
    })
}

fn list_again(walk: &Walk, known: &Known) -> Outcome {
    let path = walk.full_path(&known.path);
    let is_gone = |walk: &Walk| {
        let tree = walk.tree();
        tree.folders().get(known.id as usize).is_none_or(|folder| folder.rules.is_none())
    };
    if is_gone(walk) {
        return Outcome::Unchanged;
    }
    let parent = known.rules.without(&path);
    let listing = match walk.list(&path, parent) {
        Ok(listing) => listing,
        Err(_) if known.path.is_empty() => return Outcome::Outdated,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            walk.tree_mut().remove(&known.path);
            return Outcome::Changed;
        }
        Err(error) => {
            tracing::debug!("{}: {error}", path.display());
            Listing::unreadable(parent)
        }
    };
    if !Arc::ptr_eq(&listing.rules, &known.rules) && !listing.rules.is_same(&known.rules) {
        return Outcome::Outdated;
    }
    let mut tree = walk.tree_mut();
    let Some(folder) = tree.folders().get(known.id as usize) else { return Outcome::Unchanged };
    if folder.entries == listing.entries {
        tree.confirm(known.id, listing.changed);
        return Outcome::Unchanged;
    }
    let folders = |entries: &Entries| -> HashSet<Vec<u8>> {
        let folders = entries.iter().filter(|entry| entry.is_folder);
        folders.map(|entry| entry.name.to_vec()).collect()
    };
    let (before, now) = (folders(&folder.entries), folders(&listing.entries));
    for name in before.difference(&now) {
        tree.remove(&joined(&known.path, name));
    }
    tree.replace(known.id, listing);
    let entries = tree.folders()[known.id as usize].entries.iter();
    let added = entries.filter(|entry| entry.is_folder && !before.contains(entry.name));
    let added: Vec<_> =
        added.map(|entry| Place { folder: known.id, offset: entry.offset }).collect();
    drop(tree);
    walk.resume(added);
    Outcome::Changed
}
