//! The picture that a client keeps: each changed path is examined, of a folder which entries it has, and
//! everything after an overflow.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of each path what distinguishes it: inode, mode, and of files size and time of the last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    root: PathBuf,
    entries: BTreeMap<PathBuf, (u64, u32, u64, i64, i64)>,
    pub(crate) overflows: usize,
}

impl Picture {
    pub(crate) fn of(root: &Path) -> Self {
        let mut picture = Self { root: root.to_owned(), entries: BTreeMap::new(), overflows: 0 };
        picture.scan(root);
        picture
    }

    fn scan(&mut self, path: &Path) {
        if self.look(path)
            && let Ok(entries) = path.read_dir()
        {
            for entry in entries.flatten() {
                self.scan(&entry.path());
            }
        }
    }

    /// Looks at one path alone; returns whether it is a folder.
    fn look(&mut self, path: &Path) -> bool {
        // What is below a link is elsewhere, wherever that is.
        let found = path.symlink_metadata().ok().filter(|_| !self.is_below_link(path));
        let Some(found) = found else {
            self.forget(|below| below.starts_with(path), path);
            return false;
        };
        let file = |number: i64| if found.is_dir() { 0 } else { number };
        let size = if found.is_dir() { 0 } else { found.size() };
        let times = (file(found.ctime()), file(found.ctime_nsec()));
        let entry = (found.ino(), found.mode(), size, times.0, times.1);
        if !found.is_dir() {
            // It can have taken the place of a folder.
            self.forget(|below| below.starts_with(path), path);
        }
        self.entries.insert(path.to_owned(), entry);
        found.is_dir()
    }

    fn is_below_link(&self, path: &Path) -> bool {
        let above = path.ancestors().skip(1).take_while(|above| *above != self.root);
        above.into_iter().any(Path::is_symlink)
    }

    fn forget(&mut self, is_gone: impl Fn(&Path) -> bool, folder: &Path) {
        let below = self.entries.range(folder.to_owned()..).map(|(path, _)| path);
        let below = below.take_while(|below| below.starts_with(folder));
        let gone: Vec<PathBuf> = below.filter(|below| is_gone(below)).cloned().collect();
        for path in gone {
            self.entries.remove(&path);
        }
    }

    pub(crate) fn apply(&mut self, paths: &[PathBuf], overflow: bool) {
        if overflow {
            self.overflows += 1;
            self.entries.clear();
            let root = self.root.clone();
            self.scan(&root);
            return;
        }
        for path in paths {
            // A folder can have taken the place of another.
            if self.look(path)
                && let Ok(entries) = path.read_dir()
            {
                let names: HashSet<_> = entries.flatten().map(|entry| entry.file_name()).collect();
                let is_gone = |below: &Path| {
                    let first = below.strip_prefix(path).ok().and_then(|rest| rest.iter().next());
                    first.is_some_and(|first| !names.contains(first))
                };
                self.forget(is_gone, path);
            }
        }
    }

    /// What this picture lacks of the other, and what it has that the other has not; `None` for equal ones.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        if self.entries == other.entries {
            return None;
        }
        let differs = |one: &Self, other: &Self| -> Vec<PathBuf> {
            let own = one.entries.iter();
            let own = own.filter(|(path, entry)| other.entries.get(*path) != Some(entry));
            own.map(|(path, _)| path.clone()).take(5).collect()
        };
        Some(format!("missing {:?}, old {:?}", differs(other, self), differs(self, other)))
    }
}
