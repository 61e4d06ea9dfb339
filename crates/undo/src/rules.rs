//! The ignore rules of a folder: those of the `.gitignore` files from its root down, and of the
//! repository's own exclude file. Read when new entries appear; known entries keep their class.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::kernel::OpenFolder;

/// Largest file of rules that is read.
const MAX_RULES_BYTES: u64 = 1 << 20;
/// Version control folders: what they hold is theirs.
const VERSION_CONTROL: [&str; 5] = [".git", ".hg", ".jj", ".sl", ".svn"];

/// The ignore rules of a folder. Lives for one scan.
pub(crate) struct Rules<'r> {
    root: &'r OpenFolder,
    path: &'r Path,
    of_folder: HashMap<PathBuf, Option<Arc<Gitignore>>>,
}

impl<'r> Rules<'r> {
    pub(crate) fn new(root: &'r OpenFolder, path: &'r Path) -> Self {
        Self { root, path, of_folder: HashMap::new() }
    }

    /// Returns whether the entry at `path`, below the root, is ignored by a rule about itself.
    pub(crate) fn ignores(&mut self, path: &Path, is_folder: bool) -> bool {
        let mut folder = path.parent();
        while let Some(at) = folder {
            if let Some(rules) = self.rules_in(at) {
                match rules.matched(self.path.join(path), is_folder) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            folder = at.parent();
        }
        false
    }

    fn rules_in(&mut self, folder: &Path) -> Option<Arc<Gitignore>> {
        if let Some(known) = self.of_folder.get(folder) {
            return known.clone();
        }
        let rules = self.read(folder).map(Arc::new);
        self.of_folder.insert(folder.to_owned(), rules.clone());
        rules
    }

    /// The rules that stand in `folder`. Lines that are no rules are skipped, as git does.
    fn read(&self, folder: &Path) -> Option<Gitignore> {
        let mut builder = GitignoreBuilder::new(self.path.join(folder));
        let mut any = self.add(&mut builder, folder, ".gitignore");
        if folder.as_os_str().is_empty() {
            any |= self.add(&mut builder, Path::new(".git/info"), "exclude");
        }
        if any { builder.build().ok() } else { None }
    }

    fn add(&self, builder: &mut GitignoreBuilder, folder: &Path, name: &str) -> bool {
        let contents = self
            .root
            .below(folder)
            .and_then(|folder| folder.read(OsStr::new(name), MAX_RULES_BYTES));
        let Ok(Some((contents, _))) = contents else { return false };
        for line in String::from_utf8_lossy(&contents).lines() {
            // A line that is no pattern is skipped, as git does.
            let _ = builder.add_line(None, line);
        }
        true
    }
}

/// Returns whether an entry of this name is never tracked.
pub(crate) fn is_version_control(name: &OsStr) -> bool {
    VERSION_CONTROL.iter().any(|known| name == *known)
}
