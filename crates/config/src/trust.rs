//! Finds the root of a project, and decides whether the user trusts it. Reads folders and git's
//! files; never runs git and never writes.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use crate::table::TrustLevel;

/// Ancestors of a working folder that are searched.
const MAX_DEPTH: usize = 128;
/// A `.git` file and its neighbours hold one short line.
const MAX_GIT_FILE_BYTES: u64 = 4096;

/// The root of the project of `cwd`: its nearest ancestor with one of `markers`, or `cwd` itself.
pub(crate) fn project_root(cwd: &Path, markers: &[String]) -> PathBuf {
    let marked = |folder: &&Path| {
        markers
            .iter()
            .any(|marker| is_name(marker) && std::fs::symlink_metadata(folder.join(marker)).is_ok())
    };
    cwd.ancestors().take(MAX_DEPTH).find(marked).unwrap_or(cwd).to_owned()
}

/// The folders from `root` down to `cwd`, both included.
pub(crate) fn folders(root: &Path, cwd: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = cwd
        .ancestors()
        .take(MAX_DEPTH)
        .take_while(|folder| folder.starts_with(root))
        .map(Path::to_owned)
        .collect();
    folders.reverse();
    folders
}

/// Values that the user assigned to folders.
#[derive(Debug)]
pub(crate) struct FolderEntries<T> {
    /// By canonical path if the folder exists, else as written.
    entries: BTreeMap<PathBuf, T>,
}

impl<T> FolderEntries<T> {
    /// `values` are those of the entries of `projects` by path; `~/` expands to `user_home`. Of two
    /// spellings of one folder, the entry that `is_stricter` than the other applies.
    pub(crate) fn new<'l>(
        values: impl Iterator<Item = (&'l str, T)>,
        user_home: Option<&Path>,
        is_stricter: impl Fn(&T, &T) -> bool,
    ) -> Self {
        let mut entries = BTreeMap::new();
        for (text, value) in values {
            let path = match (text.strip_prefix("~/"), text, user_home) {
                (Some(rest), _, Some(home)) => home.join(rest),
                (None, "~", Some(home)) => home.to_owned(),
                _ => PathBuf::from(text),
            };
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            match entries.entry(path) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(mut taken) if is_stricter(&value, taken.get()) => {
                    taken.insert(value);
                }
                Entry::Occupied(_) => {}
            }
        }
        Self { entries }
    }

    /// The nearest entry from `cwd` up to `root`. A worktree without an entry has that of its repository.
    pub(crate) fn nearest(&self, cwd: &Path, root: &Path) -> Option<&T> {
        if self.entries.is_empty() {
            return None;
        }
        let (cwd, root) = (real_path(cwd), real_path(root));
        folders(&root, &cwd)
            .iter()
            .rev()
            .find_map(|folder| self.entries.get(folder))
            .or_else(|| self.of_main_repository(&root))
    }

    fn of_main_repository(&self, worktree: &Path) -> Option<&T> {
        if self.entries.is_empty() {
            return None;
        }
        main_repository(worktree).and_then(|main| self.entries.get(&main))
    }
}

/// The trust levels that the user assigned to folders.
pub(crate) struct Trust(FolderEntries<TrustLevel>);

impl Trust {
    /// See [`FolderEntries::new`].
    pub(crate) fn new<'l>(
        levels: impl Iterator<Item = (&'l str, TrustLevel)>,
        user_home: Option<&Path>,
    ) -> Self {
        let is_stricter = |level: &TrustLevel, _: &TrustLevel| *level == TrustLevel::Untrusted;
        Self(FolderEntries::new(levels, user_home, is_stricter))
    }

    /// Returns whether the `.agent` folder of `folder`, which is `root` or lies in it, is used:
    /// only if the user trusts this very folder.
    ///
    /// Trust does not extend to subfolders: an agent that works in a trusted folder can create
    /// files in all of them, which would configure the next thread there. The sandbox protects only
    /// the `.agent` folders of trusted folders.
    pub(crate) fn is_trusted(&self, folder: &Path, root: &Path) -> bool {
        if self.0.entries.is_empty() {
            return false;
        }
        let real = real_path(folder);
        let level = self.0.entries.get(&real).or_else(|| {
            let is_root = folder == root;
            is_root.then(|| self.0.of_main_repository(&real)).flatten()
        });
        level == Some(&TrustLevel::Trusted)
    }

    /// Returns whether the user trusts `cwd`, a folder of the project in `root`: the nearest entry
    /// from `cwd` up to `root` applies. A worktree without an entry has that of its repository.
    pub(crate) fn is_trusted_for(&self, cwd: &Path, root: &Path) -> bool {
        self.0.nearest(cwd, root) == Some(&TrustLevel::Trusted)
    }

    /// The folders that the user trusts.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let trusted = self.0.entries.iter().filter(|(_, level)| **level == TrustLevel::Trusted);
        trusted.map(|(folder, _)| folder.clone()).collect()
    }
}

fn real_path(folder: &Path) -> PathBuf {
    std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The repository that the worktree that contains `folder` belongs to. A `.git` file
/// counts only if the repository that it names knows this worktree, because anybody can write one.
fn main_repository(folder: &Path) -> Option<PathBuf> {
    let link = folder
        .ancestors()
        .take(MAX_DEPTH)
        .map(|folder| folder.join(".git"))
        .find(|git| std::fs::symlink_metadata(git).is_ok())?;
    if !std::fs::symlink_metadata(&link).is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let worktree = link.parent()?;
    let named = short_text(&link)?;
    let entry = worktree.join(named.strip_prefix("gitdir:")?.trim());
    let entry = std::fs::canonicalize(entry).ok()?;
    let back = short_text(&entry.join("gitdir"))?;
    let back = std::fs::canonicalize(entry.join(back.trim())).ok()?;
    if back != std::fs::canonicalize(&link).ok()? {
        return None;
    }
    let common = short_text(&entry.join("commondir"))?;
    let common = std::fs::canonicalize(entry.join(common.trim())).ok()?;
    if entry.parent() != Some(common.join("worktrees").as_path()) {
        return None;
    }
    match common.file_name() {
        Some(name) if name == ".git" => common.parent().map(Path::to_owned),
        _ => Some(common),
    }
}

fn short_text(path: &Path) -> Option<String> {
    files::read_utf8(path, MAX_GIT_FILE_BYTES).ok()
}

/// Returns whether a marker is a single name: a path could point outside of the folder.
fn is_name(marker: &str) -> bool {
    !matches!(marker, "" | "." | "..") && !marker.contains(['/', '\\', '\0'])
}
