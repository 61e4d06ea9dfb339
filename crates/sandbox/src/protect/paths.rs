//! Finds the protected paths: the protected names of writable roots, and everything that they lead
//! to through chains of symbolic links, `gitdir:` files and `commondir` files, also from inside of
//! protected folders. Does not enforce the protection.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use policy::PROTECTED_NAMES;

use super::resolution::{End, Resolution, resolve};

/// Larger than any pointer file that git writes.
const MAX_POINTER_BYTES: u64 = 8 * 1024;

/// Entries of protected folders that are searched for links. A repository with tens of thousands of
/// unpacked references has this many; with more, no command runs.
const MAX_ENTRIES: usize = 1 << 16;

/// Subfolders of a git folder that are not searched for links: they contain many data files, which
/// configure and run nothing.
const GIT_DATA: [&str; 4] = ["objects", "logs", "lfs", "annex"];

/// Protected real paths, inside and outside of writable roots. A path can be inside of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProtectedPaths {
    /// Existing paths; nothing at or below them may change.
    pub(super) existing: Vec<PathBuf>,
    /// Missing paths; nothing may be created there.
    pub(super) missing: Vec<PathBuf>,
    /// Symbolic links on the way to protected paths, which must not be replaced.
    pub(super) links: Vec<PathBuf>,
    /// Folders on the way to protected paths, which must not be renamed.
    pub(super) passed: Vec<PathBuf>,
    /// Kept folders with a writable root in them: nothing may be added or removed.
    pub(super) frozen: Vec<PathBuf>,
    /// The entries of these that lead to a writable root.
    ways: Vec<PathBuf>,
}

impl ProtectedPaths {
    /// Searches `roots` (sorted real paths), the folders `guarded` in them, which need not exist, and
    /// the folders `kept`, of which everything is protected. `search_variants` selects the roots that are read to find other letter cases of the
    /// protected names.
    ///
    /// # Errors
    /// A protected folder cannot be read, or has too many entries.
    pub(crate) fn find(
        roots: &[PathBuf],
        guarded: &[PathBuf],
        kept: &[PathBuf],
        search_variants: impl Fn(&Path) -> bool,
    ) -> io::Result<Self> {
        let mut search = Search::default();
        for folder in roots.iter().chain(guarded) {
            for name in PROTECTED_NAMES {
                search.follow(&folder.join(name), Kind::of(name.as_ref()))?;
            }
        }
        for root in roots {
            if search_variants(root) {
                for path in variants(root)? {
                    let kind = path.file_name().map_or(Kind::Plain, Kind::of);
                    search.follow(&path, kind)?;
                }
            }
        }
        search.found.add_inside(roots, Search::above(roots)?);
        for folder in kept {
            search.found.add_kept(roots, folder)?;
        }
        let mut found = search.found;
        for list in [&mut found.existing, &mut found.missing, &mut found.links, &mut found.passed] {
            list.sort();
            list.dedup();
        }
        Ok(found)
    }

    /// Adds a kept folder, even when it is a writable root itself. Roots inside of it stay writable:
    /// they were chosen.
    fn add_kept(&mut self, roots: &[PathBuf], folder: &Path) -> io::Result<()> {
        let mut search = Search::default();
        search.keep(folder, roots)?;
        let Resolution { end, .. } = resolve(folder);
        if let End::Exists(real, _) = end
            && roots.contains(&real)
            && search.found.existing.contains(&real)
        {
            self.existing.push(real);
        }
        let is_inside = |path: &&PathBuf| roots.iter().any(|root| path.starts_with(root));
        self.frozen.extend(search.found.frozen.iter().filter(is_inside).cloned());
        self.ways.append(&mut search.found.ways);
        self.add_inside(roots, search.found);
        Ok(())
    }

    /// Adds the paths of `other` inside of `roots`. A root inside of a protected path is explicitly
    /// writable.
    fn add_inside(&mut self, roots: &[PathBuf], other: ProtectedPaths) {
        let inside =
            |path: &PathBuf| roots.iter().any(|root| path != root && path.starts_with(root));
        let lists = [
            (&mut self.existing, other.existing),
            (&mut self.missing, other.missing),
            (&mut self.links, other.links),
            (&mut self.passed, other.passed),
        ];
        for (list, others) in lists {
            list.extend(others.into_iter().filter(inside));
        }
    }

    /// The protected path that a change of `real`, inside of `root`, would change.
    pub(crate) fn covering(&self, root: &Path, real: &Path) -> Option<PathBuf> {
        let first = real.strip_prefix(root).ok()?.components().next()?;
        let name = first.as_os_str();
        if is_protected_name(name) {
            return Some(root.join(name));
        }
        let above = |path: &&PathBuf| real.starts_with(path);
        let link = || self.links.iter().find(|link| *link == real);
        let found = self.existing.iter().chain(&self.missing).find(above).or_else(link);
        found.cloned().or_else(|| self.frozen_entry(real))
    }

    /// The entry of a frozen folder that a change of `real` would change or add.
    fn frozen_entry(&self, real: &Path) -> Option<PathBuf> {
        let entry = |folder: &PathBuf| {
            Some(folder.join(real.strip_prefix(folder).ok()?.components().next()?))
        };
        self.frozen.iter().filter_map(entry).find(|entry| !self.ways.contains(entry))
    }
}

/// Returns whether `name` is a protected name in any letter case.
pub(crate) fn is_protected_name(name: &std::ffi::OsStr) -> bool {
    PROTECTED_NAMES.iter().any(|protected| name.eq_ignore_ascii_case(protected))
}

/// The kind of a protected name, which decides whether git's pointer files are followed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Git,
    Plain,
}

impl Kind {
    fn of(name: &std::ffi::OsStr) -> Self {
        if name.eq_ignore_ascii_case(".git") { Kind::Git } else { Kind::Plain }
    }
}

#[derive(Default)]
struct Search {
    found: ProtectedPaths,
    /// Searched folders, and followed pointer files.
    visited: HashSet<(PathBuf, Kind)>,
    entries: usize,
}

impl Search {
    /// Follows the protected names of the folders above `roots`: they configure git and agents in
    /// the roots as well, and a link in them can lead into a root.
    fn above(roots: &[PathBuf]) -> io::Result<ProtectedPaths> {
        let mut search = Self::default();
        let mut folders: Vec<&Path> =
            roots.iter().flat_map(|root| root.ancestors().skip(1)).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders.into_iter().filter(|folder| !roots.iter().any(|root| root == folder))
        {
            for name in PROTECTED_NAMES {
                let path = folder.join(name);
                if path.symlink_metadata().is_ok() {
                    search.follow(&path, Kind::of(name.as_ref()))?;
                }
            }
        }
        Ok(search.found)
    }

    /// Protects a folder whole, but for the roots in it and the folders on the way to them.
    fn keep(&mut self, path: &Path, roots: &[PathBuf]) -> io::Result<()> {
        let Resolution { links, folders, end } = resolve(path);
        let real = match end {
            End::Exists(real, meta) if meta.is_dir() => real,
            _ => return self.follow(path, Kind::Plain),
        };
        if !roots.iter().any(|root| *root != real && root.starts_with(&real)) {
            return self.follow(path, Kind::Plain);
        }
        self.found.links.extend(links);
        self.found.passed.extend(folders);
        let mut pending = vec![real];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(&folder).map_err(|e| with_path(&e, &folder))? {
                let entry = entry.map_err(|e| with_path(&e, &folder))?.path();
                if !roots.iter().any(|root| root.starts_with(&entry)) {
                    self.follow(&entry, Kind::Plain)?;
                    continue;
                }
                if !roots.contains(&entry) {
                    pending.push(entry.clone());
                }
                self.found.ways.push(entry);
            }
            self.found.passed.push(folder.clone());
            self.found.frozen.push(folder);
        }
        Ok(())
    }

    /// Protects `path` and everything that it leads to.
    fn follow(&mut self, path: &Path, kind: Kind) -> io::Result<()> {
        let Resolution { links, folders, end } = resolve(path);
        self.found.links.extend(links);
        self.found.passed.extend(folders);
        let (real, meta) = match end {
            End::Exists(real, meta) => (real, meta),
            End::Missing(missing) => {
                self.found.missing.push(missing);
                return Ok(());
            }
            End::Blocked(obstacle) => {
                self.found.existing.push(obstacle);
                return Ok(());
            }
            End::Loop => return Ok(()),
        };
        self.found.existing.push(real.clone());
        if !self.visited.insert((real.clone(), kind)) {
            return Ok(());
        }
        match kind {
            Kind::Git if meta.is_file() => self.follow_pointer(path, &real),
            Kind::Git if meta.is_dir() => {
                if let Some(common) = pointer(&real.join("commondir")) {
                    self.follow(&real.join(common), kind)?;
                }
                self.search_links(&real, kind)
            }
            Kind::Plain if meta.is_dir() => self.search_links(&real, kind),
            Kind::Git | Kind::Plain => Ok(()),
        }
    }

    /// Follows a pointer file. Git resolves a relative `gitdir:` against the folder where it found
    /// the file, other programs against its real folder.
    fn follow_pointer(&mut self, named: &Path, real: &Path) -> io::Result<()> {
        let Some(text) = pointer(real) else { return Ok(()) };
        let Some(target) = text.strip_prefix("gitdir:").map(str::trim) else { return Ok(()) };
        let bases: HashSet<&Path> = [named, real].into_iter().filter_map(Path::parent).collect();
        bases.into_iter().try_for_each(|base| self.follow(&base.join(target), Kind::Git))
    }

    /// Protects the targets of the links in and below `folder`.
    fn search_links(&mut self, folder: &Path, kind: Kind) -> io::Result<()> {
        let mut pending = vec![folder.to_owned()];
        while let Some(current) = pending.pop() {
            let entries = match fs::read_dir(&current) {
                Ok(entries) => entries,
                // Deleted in the meantime, or inaccessible to this user and its commands.
                Err(e) if is_gone_or_hidden(&e) => continue,
                Err(e) => return Err(with_path(&e, &current)),
            };
            for entry in entries {
                let entry = entry.map_err(|e| with_path(&e, &current))?;
                self.entries += 1;
                if self.entries > MAX_ENTRIES {
                    return Err(too_many(folder, &current));
                }
                let kind_of_file = entry.file_type().map_err(|e| with_path(&e, &current))?;
                let path = entry.path();
                if kind_of_file.is_symlink() {
                    self.follow_inner(folder, &path, kind)?;
                } else if kind_of_file.is_dir()
                    && !(kind == Kind::Git && is_git_data(&current, &path))
                    && self.visited.insert((path.clone(), kind))
                {
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    /// Follows a link in a protected folder; a target inside of the same folder adds nothing.
    fn follow_inner(&mut self, folder: &Path, link: &Path, kind: Kind) -> io::Result<()> {
        let found = resolve(link);
        let inside = |path: &PathBuf| path.starts_with(folder);
        let stays = match &found.end {
            End::Exists(real, _) | End::Missing(real) | End::Blocked(real) => inside(real),
            End::Loop => true,
        };
        if stays
            && found.links.iter().all(inside)
            && found.folders.iter().all(|path| inside(path) || folder.starts_with(path))
        {
            return Ok(());
        }
        self.follow(link, kind)
    }
}

/// Returns whether `path` is a data folder at the top of a git folder, next to its `HEAD`.
fn is_git_data(parent: &Path, path: &Path) -> bool {
    path.file_name().is_some_and(|name| GIT_DATA.iter().any(|data| name == *data))
        && parent.join("HEAD").symlink_metadata().is_ok()
}

fn is_gone_or_hidden(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory
    )
}

fn with_path(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn too_many(folder: &Path, reached: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is protected and has more than {MAX_ENTRIES} entries, too many to look for links \
         among them (the last ones inspected are in {}); move what is not needed there elsewhere; \
         unpacked references of git become one file with `git pack-refs --all`",
        folder.display(),
        reached.display()
    ))
}

/// The entries of `root` that are protected names in another letter case.
fn variants(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root)? {
        let name = entry?.file_name();
        let is_variant =
            |protected: &&str| name.eq_ignore_ascii_case(protected) && *name != **protected;
        if PROTECTED_NAMES.iter().any(is_variant) {
            found.push(root.join(name));
        }
    }
    Ok(found)
}

/// The text of a pointer file; `None` for another file.
fn pointer(file: &Path) -> Option<String> {
    let text = ::files::read_utf8(file, MAX_POINTER_BYTES).ok()?;
    Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn find(root: &Path) -> ProtectedPaths {
        ProtectedPaths::find(&[root.to_owned()], &[], &[], |_| true).unwrap()
    }

    #[test]
    fn links_are_followed_and_each_step_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(root.join("decoy")).unwrap();
        symlink("a/one", root.join(".agent")).unwrap();
        symlink("b/../../decoy", root.join("a/one")).unwrap();
        symlink("../file/x", root.join("decoy/config.toml")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        let found = find(&root);
        assert_eq!(found.existing, [root.join("decoy"), root.join("file")]);
        assert_eq!(found.missing, [root.join(".git")]);
        let links = [".agent", "a/one", "decoy/config.toml"].map(|link| root.join(link));
        assert_eq!(found.links, links);
        assert!(found.passed.contains(&root.join("a/b")), "{found:?}");
    }

    #[test]
    fn cyclic_links_resolve_to_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        symlink("loop", root.join(".agent")).unwrap();
        symlink(".agent", root.join("loop")).unwrap();
        let found = find(&root);
        assert_eq!(found.links, [root.join(".agent"), root.join("loop")]);
        assert!(found.existing.is_empty());
    }

    /// There are too many objects to search, and their folder is recognised only beside a `HEAD`.
    #[test]
    fn the_data_of_a_repository_is_not_searched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in [".git/objects/00", ".git/refs/objects", "seen", "unseen"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join(".git/HEAD"), "").unwrap();
        symlink("../../../unseen", root.join(".git/objects/00/x")).unwrap();
        symlink("../../../seen", root.join(".git/refs/objects/x")).unwrap();
        assert_eq!(find(&root).existing, [root.join(".git"), root.join("seen")]);
    }

    #[test]
    fn a_folder_with_too_many_entries_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let mut search = Search { entries: MAX_ENTRIES, ..Search::default() };
        let error = search.follow(dir.path(), Kind::Plain).unwrap_err();
        assert!(error.to_string().contains("too many to look for links"), "{error}");
    }
}
