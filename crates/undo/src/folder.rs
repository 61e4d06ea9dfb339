//! A tracked folder: compares it with its index, reading only what the system's stamps say has
//! changed.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FileType, Stat};

use crate::error::Error;
use crate::index::{Change, Entry, Index, Listing, Row};
use crate::kernel::{OpenFolder, Stamp, permissions};
use crate::recovery::{Mark, clean_up};
use crate::rules::{Rules, is_version_control};
use crate::state::{Digest, Reason, State};

/// Entries of a tracked folder, at most: beyond it, the folder is not tracked.
pub const MAX_ENTRIES: usize = 300_000;
/// Bytes of the files of a tracked folder, at most: beyond it, the folder is not tracked.
pub const MAX_TOTAL_BYTES: u64 = 4 << 30;
/// Largest file whose contents are kept.
pub const MAX_FILE_BYTES: u64 = 16 << 20;
/// Largest ignored file whose contents are kept.
pub const MAX_IGNORED_FILE_BYTES: u64 = 1 << 20;
/// Entries of an ignored folder that is kept, at most.
pub const MAX_IGNORED_ENTRIES: usize = 256;

/// Folders that a thread checks at a time.
const CHUNK: usize = 16;
/// Entries that are worth a thread of their own.
const ENTRIES_A_THREAD: usize = 2000;
const MAX_THREADS: usize = 4;

/// Takes contents that must not be lost.
pub(crate) trait Keeper {
    fn keep(&mut self, contents: &[u8]) -> Result<Digest, Error>;
}

/// A tracked folder and its index.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    index: Index,
    /// The database, which may be below the root.
    database: PathBuf,
}

impl Folder {
    /// The folder at `root`, an absolute path, with what its index knew.
    pub(crate) fn new(root: PathBuf, index: Index, database: PathBuf) -> Self {
        Self { root, index, database }
    }

    /// Returns whether an entry is never tracked: the database, and the folder that holds it.
    fn is_excluded(&self, path: &Path) -> bool {
        let path = self.root.join(path);
        let is_ours = |path: &Path| {
            let (path, database) = (path.as_os_str(), self.database.as_os_str());
            path.as_encoded_bytes().starts_with(database.as_encoded_bytes())
        };
        self.database.parent() == Some(&*path) || is_ours(&path)
    }

    /// The state of an entry at the last scan.
    pub(crate) fn state(&self, path: &Path) -> Option<&State> {
        self.index.entry(path).map(|entry| &entry.state)
    }

    /// The mode of a folder, the root among them.
    pub(crate) fn mode(&self, path: &Path) -> Option<u32> {
        match self.state(path) {
            Some(State::Folder { mode }) => Some(*mode),
            None if path.as_os_str().is_empty() => OpenFolder::root(&self.root)
                .and_then(|root| root.stat())
                .ok()
                .as_ref()
                .map(permissions),
            _ => None,
        }
    }

    /// Returns whether a change that the last scan found certainly happened before `limit`, in
    /// nanoseconds since 1970: neither the entry nor a folder that it is in was touched since.
    pub(crate) fn is_before(&self, change: &Change, limit: i64) -> bool {
        let stamp = |path: &Path| match self.index.listing(path) {
            Some(listing) => Some(listing.stamp),
            None => self.index.entry(path).map(|entry| entry.stamp),
        };
        let is_replaced = change.before.is_some() && change.after.is_some();
        // What is new or gone was touched when the folder was that holds it, or held it.
        let mut is_decided = is_replaced;
        change.path.ancestors().all(|path| {
            let is_root = path.as_os_str().is_empty();
            let Some(stamp) = stamp(path) else { return !is_root };
            let is_needed = !is_root || !is_decided;
            is_decided |= path != change.path;
            !is_needed || stamp.is_before(limit)
        })
    }

    /// The names in a folder below the root, those that are never tracked among them; `None` if it
    /// cannot be listed.
    pub(crate) fn names_on_disk(&self, path: &Path) -> Option<Vec<OsString>> {
        let below = path.strip_prefix(&self.root).ok()?;
        let folder = OpenFolder::root(&self.root).and_then(|root| root.below(below));
        folder.and_then(|folder| folder.names(MAX_ENTRIES)).ok().map(|(names, _)| names)
    }

    /// Brings the index up to date; contents that are new go to `keeper`. Returns what differs from
    /// the last scan, and the rows to store. What restorations of dead processes have left behind is
    /// cleaned up before.
    ///
    /// # Errors
    /// The root cannot be read or is too large, or `keeper` fails. The index is then worthless.
    pub(crate) fn scan(
        &mut self,
        keeper: &mut dyn Keeper,
        left_behind: &[(u32, Mark)],
    ) -> Result<(Vec<Change>, Vec<Row>), Error> {
        match OpenFolder::root(&self.root) {
            Ok(root) => {
                left_behind.iter().for_each(|(process, mark)| clean_up(&root, *process, mark));
                self.scan_open(&root, keeper)?;
            }
            Err(error) if is_gone(&error) => {
                let names: Vec<_> = self.names_of(Path::new("")).into_iter().collect();
                names.iter().for_each(|name| self.index.remove(Path::new(name)));
                self.index.listed(Path::new(""), Stamp::default(), 0);
            }
            Err(error) => return Err(Error::io(&self.root, "reading the folder")(error)),
        }
        Ok(self.index.take_changes())
    }

    fn scan_open(&mut self, root: &OpenFolder, keeper: &mut dyn Keeper) -> Result<(), Error> {
        if self.index.listings().is_empty() {
            self.check_size(root)?;
            self.index.add_folder(Path::new(""), false);
        }
        let mut stale: VecDeque<PathBuf> = stale_folders(&self.index, root).into();
        let path = self.root.clone();
        let mut rules = Rules::new(root, &path);
        while let Some(folder) = stale.pop_front() {
            self.list(root, &folder, &mut rules, keeper, &mut stale)?;
        }
        Ok(())
    }

    /// Checks that a folder that is not known yet is within the bounds, before any file is read.
    fn check_size(&self, root: &OpenFolder) -> Result<(), Error> {
        let mut rules = Rules::new(root, &self.root);
        let (mut entries, mut bytes) = (0, 0);
        let mut open = vec![PathBuf::new()];
        while let Some(path) = open.pop() {
            let Ok(folder) = root.below(&path) else { continue };
            let Ok((names, more)) = folder.names(MAX_ENTRIES - entries) else { continue };
            entries += names.len();
            if more {
                return Err(Error::TooManyEntries { root: self.root.clone() });
            }
            for name in &names {
                let entry = path.join(name);
                if is_version_control(name) || self.is_excluded(&entry) {
                    continue;
                }
                let Ok(Some(stat)) = folder.stat_entry(name) else { continue };
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory if rules.ignores(&entry, true) => {}
                    FileType::Directory => open.push(entry),
                    FileType::RegularFile if stat.st_size as u64 <= MAX_FILE_BYTES => {
                        bytes += stat.st_size as u64;
                    }
                    _ => {}
                }
            }
            if bytes > MAX_TOTAL_BYTES {
                return Err(Error::TooManyBytes { root: self.root.clone() });
            }
        }
        Ok(())
    }

    /// Lists one folder again; folders that it did not have go to `found`.
    fn list(
        &mut self,
        root: &OpenFolder,
        path: &Path,
        rules: &mut Rules<'_>,
        keeper: &mut dyn Keeper,
        found: &mut VecDeque<PathBuf>,
    ) -> Result<(), Error> {
        let is_ignored = match self.index.listing(path) {
            Some(listing) => listing.is_ignored,
            // Its parent has found it gone.
            None => return Ok(()),
        };
        let Ok(folder) = root.below(path) else { return self.check_root(path) };
        let doing = "reading the folder";
        let at = || self.root.join(path);
        let stat = folder.stat().map_err(|cause| Error::Io { path: at(), doing, cause })?;
        let stamp = Stamp::of(&stat).settled();
        let known = self.names_of(path);
        let free = (MAX_ENTRIES + known.len()).saturating_sub(self.index.count());
        let (names, more) = match folder.names(free) {
            Ok(names) => names,
            // Its entries stay what they were.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            Err(cause) => return Err(Error::Io { path: at(), doing, cause }),
        };
        if more {
            return Err(Error::TooManyEntries { root: self.root.clone() });
        }
        self.index.listed(path, stamp, permissions(&stat));
        let mut gone = known;
        for name in names {
            gone.remove(&name);
            let entry = path.join(&name);
            if self.is_excluded(&entry) {
                continue;
            }
            if is_version_control(&name) {
                self.index.set(&entry, unkept(Reason::VersionControl, Stamp::default()));
                continue;
            }
            let stat = match folder.stat_entry(&name) {
                Ok(Some(stat)) => stat,
                Ok(None) => {
                    self.index.remove(&entry);
                    continue;
                }
                Err(error) => return Err(Error::io(&self.root.join(entry), "reading")(error)),
            };
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                self.look_at_folder(root, &entry, is_ignored, rules, found);
            } else {
                self.look_at_file(&folder, &entry, &stat, is_ignored, rules, keeper)?;
            }
        }
        gone.iter().for_each(|name| self.index.remove(&path.join(name)));
        if self.index.bytes() > MAX_TOTAL_BYTES {
            return Err(Error::TooManyBytes { root: self.root.clone() });
        }
        Ok(())
    }

    /// A folder that cannot be opened is gone, closed to this user, or a link by now: its parent tells
    /// with the next scan. The root has no parent.
    fn check_root(&self, path: &Path) -> Result<(), Error> {
        if !path.as_os_str().is_empty() {
            return Ok(());
        }
        let cause = io::Error::other("the folder was replaced while it was read");
        Err(Error::io(&self.root, "reading the folder")(cause))
    }

    fn look_at_folder(
        &mut self,
        root: &OpenFolder,
        path: &Path,
        parent_is_ignored: bool,
        rules: &mut Rules<'_>,
        found: &mut VecDeque<PathBuf>,
    ) {
        match self.state(path) {
            Some(State::Folder { .. }) => return,
            Some(State::Unkept { reason: Reason::Ignored, .. }) => return,
            Some(_) => self.index.remove(path),
            None => {}
        }
        let is_ignored = parent_is_ignored || rules.ignores(path, true);
        if is_ignored && has_more_entries(root, path, MAX_IGNORED_ENTRIES) {
            self.index.set(path, unkept(Reason::Ignored, Stamp::default()));
        } else {
            self.index.add_folder(path, is_ignored);
            found.push_back(path.to_owned());
        }
    }

    fn look_at_file(
        &mut self,
        folder: &OpenFolder,
        path: &Path,
        stat: &Stat,
        parent_is_ignored: bool,
        rules: &mut Rules<'_>,
        keeper: &mut dyn Keeper,
    ) -> Result<(), Error> {
        let stamp = Stamp::of(stat);
        let known = self.index.entry(path);
        if known.is_some_and(|known| known.stamp == stamp) {
            return Ok(());
        }
        let Some(name) = path.file_name() else { return Ok(()) };
        let entry = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let is_ignored = match known {
                    // It keeps its class, whatever the rules say by now.
                    Some(Entry { state: State::File { .. }, .. }) => false,
                    _ => parent_is_ignored || rules.ignores(path, false),
                };
                file_entry(folder, name, stat, is_ignored, keeper)?
            }
            FileType::Symlink => match folder.read_link(name) {
                Ok(target) => Entry { stamp: stamp.settled(), state: State::Link { target } },
                Err(_) => unkept(Reason::Unreadable, stamp),
            },
            _ => unkept(Reason::Special, stamp),
        };
        self.index.set(path, entry);
        Ok(())
    }

    fn names_of(&self, folder: &Path) -> HashSet<OsString> {
        let listing = self.index.listing(folder);
        listing.map(|listing| listing.entries.keys().cloned().collect()).unwrap_or_default()
    }
}

fn file_entry(
    folder: &OpenFolder,
    name: &OsStr,
    stat: &Stat,
    is_ignored: bool,
    keeper: &mut dyn Keeper,
) -> Result<Entry, Error> {
    let stamp = Stamp::of(stat);
    let (limit, reason) = if is_ignored {
        (MAX_IGNORED_FILE_BYTES, Reason::Ignored)
    } else {
        (MAX_FILE_BYTES, Reason::TooLarge)
    };
    Ok(match folder.read(name, limit) {
        Ok(Some((contents, stat))) => {
            let state = State::File {
                mode: permissions(&stat),
                bytes: contents.len() as u64,
                contents: keeper.keep(&contents)?,
            };
            Entry { stamp: Stamp::of(&stat).settled(), state }
        }
        Ok(None) => unkept(reason, stamp),
        Err(_) => unkept(Reason::Unreadable, stamp),
    })
}

fn unkept(reason: Reason, stamp: Stamp) -> Entry {
    let state = State::Unkept { reason, stamp: stamp.digest() };
    Entry { stamp: stamp.settled(), state }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The folders whose listing or entries have other stamps than in the index, parents first.
fn stale_folders(index: &Index, root: &OpenFolder) -> Vec<PathBuf> {
    let folders: Vec<(&PathBuf, &Listing)> = index.listings().iter().collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (index.count() / ENTRIES_A_THREAD).clamp(1, processors.min(MAX_THREADS));
    let next = AtomicUsize::new(0);
    let check = || {
        let mut stale = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(rest) = folders.get(start..) else { return stale };
            let chunk = &rest[..rest.len().min(CHUNK)];
            if chunk.is_empty() {
                return stale;
            }
            let found = chunk.iter().filter(|(path, listing)| is_stale(root, path, listing));
            stale.extend(found.map(|(path, _)| (*path).clone()));
        }
    };
    let mut stale = if threads == 1 {
        check()
    } else {
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(check)).collect();
            let mut stale = check();
            for other in others {
                match other.join() {
                    Ok(found) => stale.extend(found),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            stale
        })
    };
    stale.sort_unstable();
    stale
}

fn is_stale(root: &OpenFolder, path: &Path, listing: &Listing) -> bool {
    let Ok(folder) = root.below(path) else { return true };
    let Ok(stat) = folder.stat() else { return true };
    Stamp::of(&stat) != listing.stamp
        || listing.entries.iter().any(|(name, entry)| match &entry.state {
            State::Folder { .. }
            | State::Unkept { reason: Reason::Ignored | Reason::VersionControl, .. } => false,
            _ => match folder.stat_entry(name) {
                Ok(Some(stat)) => Stamp::of(&stat) != entry.stamp,
                _ => true,
            },
        })
}

/// Returns whether a folder has more than `limit` entries, those of its folders included.
fn has_more_entries(root: &OpenFolder, path: &Path, limit: usize) -> bool {
    let mut free = limit;
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(folder) = root.below(&path) else { continue };
        let Ok((names, more)) = folder.names(free) else { continue };
        if more {
            return true;
        }
        free -= names.len();
        for name in names {
            let stat = folder.stat_entry(&name).ok().flatten();
            if stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()) {
                open.push(path.join(name));
            }
        }
    }
    false
}
