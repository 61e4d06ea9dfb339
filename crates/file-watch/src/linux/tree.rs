//! Which inodes are watched for which watched paths, and what each event means for them.
//!
//! What is watched at a path is always derived from a look at the disk that comes after the last event about it.
//! A folder is listed after it was added, so what was created in it before is found, and what is created
//! later has an event.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::MaybeUninit;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::inotify::{ReadFlags, WatchFlags};
use rustix::io::Errno;
use smallvec::SmallVec;

use super::inotify::{BUFFER_BYTES, Event, FILE, FOLDER, Inotify, Refusal, WatchNumber};
use super::way::{self, End, Stop};
use crate::changes::Changes;
use crate::error::Unwatchable;
use crate::poll::{Baseline, Poll, Polls, present};

/// Unused watches that are removed at once. Each leads to an event, and the kernel keeps 16,384 of them.
const REMOVED_AT_ONCE: usize = 1_024;

/// The entry at a name, or the inode itself, is another one.
const REPLACED: ReadFlags = ReadFlags::CREATE
    .union(ReadFlags::DELETE)
    .union(ReadFlags::MOVED_FROM)
    .union(ReadFlags::MOVED_TO)
    .union(ReadFlags::DELETE_SELF)
    .union(ReadFlags::MOVE_SELF)
    .union(ReadFlags::UNMOUNT);

pub(super) type RootId = u64;

/// The kernel lost events.
#[derive(Debug)]
pub(super) struct Lost;

pub(super) struct Tree {
    inotify: Arc<Inotify>,
    buffer: Vec<MaybeUninit<u8>>,
    roots: HashMap<RootId, Root>,
    next_root: RootId,
    /// The uses of each watched inode. Usually one.
    uses: HashMap<WatchNumber, SmallVec<[Use; 1]>>,
    /// Numbers that were used for nothing when they were added here.
    unused: Vec<WatchNumber>,
    /// Folders of all roots, and the most.
    folders: (usize, usize),
    polls: Arc<Polls>,
}

/// A watched path.
struct Root {
    changes: Arc<Changes>,
    recursive: bool,
    left_out: Vec<PathBuf>,
    way: Vec<WatchNumber>,
    /// True if something is at the path.
    is_present: bool,
    /// The file at the path, when it is not a folder.
    file: Option<WatchNumber>,
    folders: BTreeMap<Arc<Path>, WatchNumber>,
    /// Once it cannot be watched.
    poll: Option<Poll>,
}

#[derive(Clone)]
struct Use {
    root: RootId,
    what: What,
}

#[derive(Clone)]
enum What {
    Stop { name: Option<Arc<std::ffi::OsStr>>, is_last: bool },
    File,
    Folder(Arc<Path>),
}

/// The outcome of watching a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    New,
    /// It is watched since it was listed.
    Known,
    /// It is not there or not to be watched.
    Nothing,
}

impl Tree {
    pub(super) fn new(inotify: Arc<Inotify>, most_folders: usize, polls: Arc<Polls>) -> Self {
        Self {
            inotify,
            buffer: vec![MaybeUninit::uninit(); BUFFER_BYTES],
            roots: HashMap::new(),
            next_root: 0,
            uses: HashMap::new(),
            unused: Vec::new(),
            folders: (0, most_folders),
            polls,
        }
    }

    /// Adds a path, which [`Tree::settle`] begins to watch.
    pub(super) fn insert(
        &mut self,
        changes: Arc<Changes>,
        recursive: bool,
        left_out: Vec<PathBuf>,
    ) -> RootId {
        let id = self.next_root;
        self.next_root += 1;
        let root = Root {
            changes,
            recursive,
            left_out,
            way: Vec::new(),
            is_present: false,
            file: None,
            folders: BTreeMap::new(),
            poll: None,
        };
        self.roots.insert(id, root);
        id
    }

    pub(super) fn remove(&mut self, id: RootId) {
        self.release(id);
        self.roots.remove(&id);
    }

    /// Looks up what is at the path of a root, and watches that and the way to it. Returns the folders that
    /// [`Tree::adopt`] continues with. With `report`, what is new there is a change.
    ///
    /// # Errors
    /// The reason why it cannot be watched.
    pub(super) fn settle(&mut self, id: RootId, report: bool) -> Result<Vec<PathBuf>, Unwatchable> {
        let Some(root) = self.roots.get(&id).filter(|root| root.poll.is_none()) else {
            return Ok(Vec::new());
        };
        let path = root.changes.watched().to_owned();
        let (stops, end) = way::find(&self.inotify, &path)?;
        self.replace_way(id, stops);
        let mut file = None;
        let mut added = Added::Nothing;
        match end {
            End::Nothing => {}
            End::File(at) => file = accepted(self.inotify.add(&at, FILE), &path, true)?,
            End::Folder(_) => added = self.add_folder(id, &path)?,
        }
        if added == Added::Nothing {
            self.forget_below(id, &path);
        }
        let Some(root) = self.roots.get_mut(&id) else { return Ok(Vec::new()) };
        let present = file.is_some() || added != Added::Nothing;
        let is_same = root.is_present == present && root.file == file && added != Added::New;
        root.is_present = present;
        if report && !is_same {
            root.changes.add(&path);
        }
        let (old_file, is_listed) = (root.file, report || root.recursive);
        if old_file != file {
            root.file = file;
            if let Some(old) = old_file {
                self.drop_uses(old, |one| one.root == id && matches!(one.what, What::File));
            }
            if let Some(new) = file {
                self.add_use(new, Use { root: id, what: What::File });
            }
        }
        Ok(Vec::from_iter((added == Added::New && is_listed).then_some(path)))
    }

    /// Lists the folders `open`, which are watched, and with a recursive root watches and lists all below
    /// them, at most `limit` now; the others remain in `open`. Returns whether none does. With `report`,
    /// everything in them is a change.
    ///
    /// # Errors
    /// The reason why there can be no more of them.
    pub(super) fn adopt(
        &mut self,
        id: RootId,
        open: &mut Vec<PathBuf>,
        report: bool,
        limit: usize,
    ) -> Result<bool, Unwatchable> {
        for _ in 0..limit {
            let (Some(folder), Some(root)) = (open.pop(), self.roots.get(&id)) else { break };
            let (changes, recursive) = (root.changes.clone(), root.recursive);
            let failed = |error| Unwatchable::because(format!("{}: {error}", folder.display()));
            // What is not there was removed again, which has an event.
            let Some(entries) = present(folder.read_dir()).map_err(failed)? else { continue };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let path = entry.path();
                if report {
                    changes.add(&path);
                }
                let is_folder = recursive && entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_folder && self.add_folder(id, &path)? == Added::New {
                    open.push(path);
                }
            }
        }
        Ok(open.is_empty())
    }

    fn add_folder(&mut self, id: RootId, folder: &Path) -> Result<Added, Unwatchable> {
        let Some(root) = self.roots.get(&id).filter(|root| root.poll.is_none()) else {
            return Ok(Added::Nothing);
        };
        if root.left_out.iter().any(|left_out| left_out == folder) {
            return Ok(Added::Nothing);
        }
        let is_root = folder == root.changes.watched();
        let events = if is_root { FOLDER } else { FOLDER | WatchFlags::DONT_FOLLOW };
        let number = accepted(self.inotify.add(folder, events), folder, is_root)?;
        let Some(number) = number else { return Ok(Added::Nothing) };
        match root.folders.get(folder) {
            Some(known) if *known == number => return Ok(Added::Known),
            Some(_) => self.forget_below(id, folder),
            None => {}
        }
        let (used, most) = self.folders;
        if used == most {
            self.unused.push(number);
            let reason = format!("{most} folders are watched, which is the most");
            return Err(Unwatchable::limit(reason));
        }
        self.folders.0 += 1;
        let folder: Arc<Path> = folder.into();
        if let Some(root) = self.roots.get_mut(&id) {
            root.folders.insert(folder.clone(), number);
        }
        self.add_use(number, Use { root: id, what: What::Folder(folder) });
        Ok(Added::New)
    }

    /// Reads the events that have happened, at most one buffer of them.
    ///
    /// # Errors
    /// The kernel lost events: [`Tree::recover`].
    pub(super) fn read_events(&mut self) -> Result<(), Lost> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let inotify = self.inotify.clone();
        let mut reader = inotify.read(&mut buffer);
        let mut unsettled = HashSet::new();
        let mut outcome = Ok(());
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                outcome = Err(Lost);
                break;
            }
            self.handle(&Event::from(&event), &mut unsettled);
            if reader.is_buffer_empty() {
                break;
            }
        }
        self.buffer = buffer;
        for id in unsettled {
            self.settle_and_adopt(id, true);
        }
        outcome
    }

    /// Examines all roots again and reports an overflow for each. What comes first: every change after the
    /// report is found.
    pub(super) fn recover(&mut self) {
        // Events from before say nothing about what is found now.
        self.inotify.discard(&mut self.buffer);
        self.unused.extend(self.uses.drain().map(|(number, _)| number));
        self.folders.0 = 0;
        let ids: Vec<RootId> = self.roots.keys().copied().collect();
        for root in self.roots.values_mut() {
            root.folders.clear();
            root.way.clear();
            root.file = None;
        }
        for id in ids {
            self.settle_and_adopt(id, false);
            if let Some(root) = self.roots.get(&id).filter(|root| root.poll.is_none()) {
                root.changes.overflow();
            }
        }
    }

    /// Removes some of the watches that are not used; returns whether there are more.
    pub(super) fn drop_unused(&mut self) -> bool {
        for _ in 0..REMOVED_AT_ONCE {
            let Some(number) = self.unused.pop() else { break };
            // It can be in use again: the same inode has the same number.
            if !self.uses.contains_key(&number) {
                self.inotify.remove(number);
            }
        }
        !self.unused.is_empty()
    }

    fn handle(&mut self, event: &Event<'_>, unsettled: &mut HashSet<RootId>) {
        if event.flags.contains(ReadFlags::IGNORED) {
            self.forget_number(event.number, unsettled);
            return;
        }
        // None: it was removed, and what is there now was looked up later.
        let Some(uses) = self.uses.get(&event.number) else { return };
        for one in uses.clone() {
            let Some(root) = self.roots.get(&one.root) else { continue };
            match one.what {
                What::Stop { name, is_last } => {
                    let concerned = event.name.is_none() || event.name == name.as_deref();
                    let itself = event.name.is_none() && event.flags.contains(ReadFlags::ATTRIB);
                    if concerned && (event.flags.intersects(REPLACED) || itself) {
                        unsettled.insert(one.root);
                        if is_last && event.name.is_some() {
                            root.changes.add(root.changes.watched());
                        }
                    }
                }
                What::File => {
                    root.changes.add(root.changes.watched());
                    if event.flags.intersects(REPLACED | ReadFlags::ATTRIB) {
                        unsettled.insert(one.root);
                    }
                }
                What::Folder(folder) => self.handle_in(&folder, one.root, event, unsettled),
            }
        }
    }

    /// An event about a folder below a root, or an entry of it.
    fn handle_in(
        &mut self,
        folder: &Path,
        id: RootId,
        event: &Event<'_>,
        unsettled: &mut HashSet<RootId>,
    ) {
        let Some(root) = self.roots.get(&id) else { return };
        let Some(name) = event.name else {
            let unmounted = event.flags.contains(ReadFlags::UNMOUNT);
            if folder == root.changes.watched() {
                root.changes.add(folder);
                unsettled.insert(id);
            } else if unmounted {
                root.changes.add(folder);
                self.forget_below(id, folder);
                self.add_and_adopt(id, folder);
            }
            return;
        };
        let path = folder.join(name);
        root.changes.add(&path);
        if root.recursive && event.flags.contains(ReadFlags::ISDIR) {
            if event.flags.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
                self.forget_below(id, &path);
            }
            // After a removal too: two folders that take each other's place are each moved away last.
            self.add_and_adopt(id, &path);
        }
    }

    fn add_and_adopt(&mut self, id: RootId, folder: &Path) {
        match self.add_folder(id, folder) {
            Ok(Added::New) => self.adopt_or_poll(id, vec![folder.to_owned()], true),
            Ok(Added::Known | Added::Nothing) => {}
            Err(why) => self.poll(id, &why),
        }
    }

    fn settle_and_adopt(&mut self, id: RootId, report: bool) {
        match self.settle(id, report) {
            Ok(open) => self.adopt_or_poll(id, open, report),
            Err(why) => self.poll(id, &why),
        }
    }

    fn adopt_or_poll(&mut self, id: RootId, mut open: Vec<PathBuf>, report: bool) {
        if let Err(why) = self.adopt(id, &mut open, report, usize::MAX) {
            self.poll(id, &why);
        }
    }

    /// Examines a root at intervals from now on, because it cannot be watched.
    fn poll(&mut self, id: RootId, why: &Unwatchable) {
        self.release(id);
        let Some(root) = self.roots.get_mut(&id) else { return };
        let path = root.changes.watched();
        self.polls.report(path, why);
        match Poll::start(&self.polls, &root.changes, (path, root.recursive), &Baseline::Lost) {
            Ok(poll) => root.poll = Some(poll),
            Err(error) => {
                tracing::error!("{}: changes are no longer reported: {error}", path.display());
                root.changes.overflow();
            }
        }
    }

    /// Watches nothing for a root.
    fn release(&mut self, id: RootId) {
        let Some(root) = self.roots.get_mut(&id) else { return };
        let folders = std::mem::take(&mut root.folders);
        self.folders.0 = self.folders.0.saturating_sub(folders.len());
        let numbers = folders.into_values().chain(root.way.drain(..)).chain(root.file.take());
        for number in numbers.collect::<Vec<_>>() {
            self.drop_uses(number, |one| one.root == id);
        }
    }

    fn replace_way(&mut self, id: RootId, stops: Vec<Stop>) {
        let Some(root) = self.roots.get_mut(&id) else { return };
        let numbers = stops.iter().map(|stop| stop.number).collect();
        for number in std::mem::replace(&mut root.way, numbers) {
            self.drop_uses(number, |one| one.root == id && matches!(one.what, What::Stop { .. }));
        }
        for Stop { number, name, is_last } in stops {
            let name = name.map(Into::into);
            self.add_use(number, Use { root: id, what: What::Stop { name, is_last } });
        }
    }

    /// No longer watches `folder` and those below it for a root.
    fn forget_below(&mut self, id: RootId, folder: &Path) {
        let Some(root) = self.roots.get_mut(&id) else { return };
        // Paths are ordered by their components: those below follow directly.
        let below = root.folders.range::<Path, _>((Bound::Included(folder), Bound::Unbounded));
        let below = below.take_while(|(path, _)| path.starts_with(folder));
        let below: Vec<(Arc<Path>, WatchNumber)> =
            below.map(|(path, number)| (path.clone(), *number)).collect();
        for (path, _) in &below {
            root.folders.remove(path);
        }
        self.folders.0 = self.folders.0.saturating_sub(below.len());
        for (path, number) in below {
            self.drop_uses(number, |one| {
                one.root == id && matches!(&one.what, What::Folder(used) if *used == path)
            });
        }
    }

    /// The kernel no longer watches an inode: it was removed, or its file system was.
    fn forget_number(&mut self, number: WatchNumber, unsettled: &mut HashSet<RootId>) {
        for one in self.uses.remove(&number).into_iter().flatten() {
            let Some(root) = self.roots.get_mut(&one.root) else { continue };
            match one.what {
                What::Folder(path) if root.folders.get(&path) == Some(&number) => {
                    root.folders.remove(&path);
                    self.folders.0 = self.folders.0.saturating_sub(1);
                    if *path == *root.changes.watched() {
                        unsettled.insert(one.root);
                    }
                }
                What::Folder(_) => {}
                What::Stop { .. } | What::File => {
                    unsettled.insert(one.root);
                }
            }
        }
    }

    fn add_use(&mut self, number: WatchNumber, one: Use) {
        self.uses.entry(number).or_default().push(one);
    }

    fn drop_uses(&mut self, number: WatchNumber, is_dropped: impl Fn(&Use) -> bool) {
        let Some(uses) = self.uses.get_mut(&number) else { return };
        uses.retain(|one| !is_dropped(one));
        if uses.is_empty() {
            self.uses.remove(&number);
            self.unused.push(number);
        }
    }
}

/// The number of a watch; `None` for what was removed or replaced, which has an event, and what this user may not
/// read, whose programs cannot look into it either.
fn accepted(
    added: Result<WatchNumber, Refusal>,
    path: &Path,
    must_be_readable: bool,
) -> Result<Option<WatchNumber>, Unwatchable> {
    match added {
        Ok(number) => Ok(Some(number)),
        Err(Refusal::Gone(Errno::ACCESS)) if must_be_readable => Err(way::unreadable(path)),
        Err(Refusal::Gone(_)) => Ok(None),
        Err(Refusal::Full(why)) => Err(why),
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
