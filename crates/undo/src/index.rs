//! The index of a folder in memory: what each entry was when it was last looked at.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::kernel::Stamp;
use crate::state::State;

/// An entry as it was when it was last looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Of a folder: that of its listing, which is kept with its [`Listing`].
    pub(crate) stamp: Stamp,
    pub(crate) state: State,
}

/// The entries of one folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    pub(crate) stamp: Stamp,
    /// True if a rule ignores the folder, so that stricter bounds apply to all below it.
    pub(crate) is_ignored: bool,
    pub(crate) entries: BTreeMap<OsString, Entry>,
}

/// A difference between the index and the folder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) before: Option<State>,
    pub(crate) after: Option<State>,
}

/// A row of the stored index; `None` for an entry that is gone.
pub(crate) type Row = (PathBuf, Option<StoredEntry>);

/// An entry as the database keeps it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredEntry {
    pub(crate) stamp: Stamp,
    pub(crate) state: State,
    pub(crate) is_ignored: bool,
}

/// The index of a folder in memory: the state of each entry when it was last examined. Paths are
/// relative to the root, which is the empty path.
#[derive(Debug, Default)]
pub(crate) struct Index {
    listings: BTreeMap<PathBuf, Listing>,
    /// Entries of all listings.
    count: usize,
    /// Bytes of all kept files.
    bytes: u64,
    changes: Vec<Change>,
    rows: Vec<Row>,
}

impl Index {
    pub(crate) fn listings(&self) -> &BTreeMap<PathBuf, Listing> {
        &self.listings
    }

    pub(crate) fn listing(&self, folder: &Path) -> Option<&Listing> {
        self.listings.get(folder)
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn entry(&self, path: &Path) -> Option<&Entry> {
        let (parent, name) = split(path)?;
        self.listings.get(parent)?.entries.get(name)
    }

    /// Adds a stored entry, without recording a change.
    pub(crate) fn load(&mut self, path: PathBuf, stored: StoredEntry) {
        if stored.state.is_folder() {
            let listing = self.listings.entry(path.clone()).or_default();
            listing.stamp = stored.stamp;
            listing.is_ignored = stored.is_ignored;
        }
        let Some((parent, name)) = split(&path) else { return };
        let entry = Entry { stamp: stored.stamp, state: stored.state };
        self.bytes += kept_bytes(&entry.state);
        self.count += 1;
        let name = name.to_owned();
        self.listings.entry(parent.to_owned()).or_default().entries.insert(name, entry);
    }

    /// Begins to list a folder, the root among them.
    pub(crate) fn add_folder(&mut self, path: &Path, is_ignored: bool) {
        self.listings.entry(path.to_owned()).or_default().is_ignored = is_ignored;
    }

    /// Sets the stamp of a folder's listing.
    pub(crate) fn listed(&mut self, path: &Path, stamp: Stamp, mode: u32) {
        let Some(listing) = self.listings.get_mut(path) else { return };
        listing.stamp = stamp;
        let is_ignored = listing.is_ignored;
        let state = State::Folder { mode };
        let stored = StoredEntry { stamp, state: state.clone(), is_ignored };
        self.rows.push((path.to_owned(), Some(stored)));
        self.put(path, Entry { stamp, state });
    }

    /// Sets the state of an entry that is not a folder, or is one that is not listed.
    pub(crate) fn set(&mut self, path: &Path, entry: Entry) {
        let was_folder = self.listings.contains_key(path);
        if was_folder {
            self.remove_below(path);
        }
        if !entry.state.is_folder() {
            let stored =
                StoredEntry { stamp: entry.stamp, state: entry.state.clone(), is_ignored: false };
            self.rows.push((path.to_owned(), Some(stored)));
        }
        self.put(path, entry);
    }

    /// Removes an entry and everything below it.
    pub(crate) fn remove(&mut self, path: &Path) {
        self.remove_below(path);
        let Some((parent, name)) = split(path) else { return };
        let removed = self.listings.get_mut(parent).and_then(|at| at.entries.remove(name));
        if let Some(entry) = removed {
            self.count -= 1;
            self.bytes -= kept_bytes(&entry.state);
            self.rows.push((path.to_owned(), None));
            self.changes.push(Change {
                path: path.to_owned(),
                before: Some(entry.state),
                after: None,
            });
        }
    }

    /// Removes what is below a folder, and its listing.
    fn remove_below(&mut self, folder: &Path) {
        let below: Vec<PathBuf> = self
            .listings
            .range(folder.to_owned()..)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(folder))
            .cloned()
            .collect();
        for path in below {
            let Some(listing) = self.listings.remove(&path) else { continue };
            for (name, entry) in listing.entries {
                let path = path.join(name);
                self.count -= 1;
                self.bytes -= kept_bytes(&entry.state);
                self.rows.push((path.clone(), None));
                self.changes.push(Change { path, before: Some(entry.state), after: None });
            }
        }
    }

    fn put(&mut self, path: &Path, entry: Entry) {
        let Some((parent, name)) = split(path) else { return };
        let Some(listing) = self.listings.get_mut(parent) else { return };
        let after = entry.state.clone();
        self.bytes += kept_bytes(&after);
        let before = listing.entries.insert(name.to_owned(), entry).map(|entry| entry.state);
        match &before {
            Some(state) => self.bytes -= kept_bytes(state),
            None => self.count += 1,
        }
        if before.as_ref() != Some(&after) {
            self.changes.push(Change { path: path.to_owned(), before, after: Some(after) });
        }
    }

    /// Takes the changes and the rows to store since the last call.
    pub(crate) fn take_changes(&mut self) -> (Vec<Change>, Vec<Row>) {
        (std::mem::take(&mut self.changes), std::mem::take(&mut self.rows))
    }
}

fn kept_bytes(state: &State) -> u64 {
    match state {
        State::File { bytes, .. } => *bytes,
        _ => 0,
    }
}

/// The folder and the name of a path; `None` for the root.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}
