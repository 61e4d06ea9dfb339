//! The index of a root: its folders, each with its path and its packed entries. The path of a file
//! is that of its folder, stored once, and its name.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::SystemTime;

use crate::letter::pairs;
use crate::listing::{Entries, Entry, Listing};
use crate::rules::Rules;

/// A folder that was listed.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Relative to the root; empty for the root.
    pub(crate) path: Box<[u8]>,
    /// Of the path: see [`crate::letter::pairs`].
    pub(crate) pairs: u64,
    pub(crate) entries: Entries,
    count: u32,
    /// The rules for its entries; `None` when the folder is gone.
    pub(crate) rules: Option<Arc<Rules>>,
    /// See [`Listing::changed`].
    pub(crate) changed: Option<SystemTime>,
}

/// All folders of a root, in the order in which they were listed.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    folders: Vec<Folder>,
    entries: usize,
    bytes: usize,
    /// Number of changes to folders that were listed before.
    revision: u64,
}

/// An entry of a folder of a [`Tree`]; valid while the tree's revision stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) folder: u32,
    pub(crate) offset: u32,
}

impl Tree {
    pub(crate) fn folders(&self) -> &[Folder] {
        &self.folders
    }

    /// Number of files and folders.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// Memory of the tree, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.folders.capacity() * size_of::<Folder>()
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Adds a folder.
    pub(crate) fn push(&mut self, path: &[u8], listing: Listing) -> u32 {
        let id = u32::try_from(self.folders.len()).unwrap_or(u32::MAX);
        self.folders.push(Folder {
            path: path.into(),
            pairs: pairs(path),
            entries: Entries::default(),
            count: 0,
            rules: None,
            changed: None,
        });
        self.bytes += path.len();
        self.set(id, listing);
        id
    }

    /// Replaces what a folder contains.
    pub(crate) fn replace(&mut self, id: u32, listing: Listing) {
        self.revision += 1;
        self.set(id, listing);
    }

    /// Notes that a folder contains the same as before.
    pub(crate) fn confirm(&mut self, id: u32, changed: Option<SystemTime>) {
        if let Some(folder) = self.folders.get_mut(id as usize) {
            folder.changed = changed;
        }
    }

    fn set(&mut self, id: u32, listing: Listing) {
        let Some(folder) = self.folders.get_mut(id as usize) else { return };
        self.entries = self.entries - folder.count as usize + listing.count;
        self.bytes = self.bytes - folder.entries.bytes() + listing.entries.bytes();
        folder.count = u32::try_from(listing.count).unwrap_or(u32::MAX);
        folder.entries = listing.entries;
        folder.rules = Some(listing.rules);
        folder.changed = listing.changed;
    }

    /// Takes out the folder at `path` and all below it.
    pub(crate) fn remove(&mut self, path: &[u8]) {
        self.revision += 1;
        for folder in &mut self.folders {
            if is_within(&folder.path, path) {
                self.entries -= folder.count as usize;
                self.bytes -= folder.entries.bytes() + folder.path.len();
                // Its place stays, so that those of others stay valid.
                *folder = Folder {
                    path: Box::default(),
                    pairs: 0,
                    entries: Entries::default(),
                    count: 0,
                    rules: None,
                    changed: None,
                };
            }
        }
    }

    /// Number of places of folders that are gone.
    pub(crate) fn gone(&self) -> usize {
        self.folders.iter().filter(|folder| folder.rules.is_none()).count()
    }

    /// The folder and the entry at `place`.
    pub(crate) fn at(&self, place: Place) -> Option<(&Folder, Entry<'_>)> {
        let folder = self.folders.get(place.folder as usize)?;
        Some((folder, folder.entries.at(place.offset)?))
    }

    /// The path of the entry at `place`, relative to the root.
    pub(crate) fn path(&self, place: Place) -> Option<Vec<u8>> {
        let (folder, entry) = self.at(place)?;
        Some(joined(&folder.path, entry.name))
    }

    /// Compares the paths of two entries.
    pub(crate) fn compare(&self, one: Place, other: Place) -> Ordering {
        match (self.at(one), self.at(other)) {
            (Some((a, one)), Some((b, other))) => {
                path_bytes(&a.path, one.name).cmp(path_bytes(&b.path, other.name))
            }
            (one, other) => one.is_some().cmp(&other.is_some()),
        }
    }
}

fn path_bytes<'a>(folder: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a u8> {
    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    folder.iter().chain(slash).chain(name)
}

/// The path of `name` in `folder`.
pub(crate) fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    path_bytes(folder, name).copied().collect()
}

/// Returns whether `path` is `folder` or below it.
fn is_within(path: &[u8], folder: &[u8]) -> bool {
    match path.strip_prefix(folder) {
        Some(rest) => folder.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
        None => false,
    }
}
