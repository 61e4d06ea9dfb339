//! Determines which paths inside of writable roots stay read-only, and the placeholders that
//! prevent the creation of missing ones. The layers enforce it.
//!
//! `protect/paths.rs` finds the targets of protected names; this module decides which of them are
//! read-only, held or pinned.

mod paths;
mod placeholder;
mod resolution;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use policy::Access;

pub(crate) use paths::{ProtectedPaths, is_protected_name};
#[cfg_attr(not(target_os = "linux"), allow(unused_imports, reason = "no command runs there"))]
pub(crate) use placeholder::Placeholder;

use placeholder::is_placeholder;

/// Everything inside of a set of writable roots that must not change.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// The roots, without those inside of a protected path, which are not writable.
    pub(crate) roots: Vec<PathBuf>,
    /// Existing paths to make read-only.
    pub(crate) read_only: Vec<PathBuf>,
    /// Missing paths, or placeholders of servers, to hold by a [`Placeholder`].
    pub(crate) missing: Vec<PathBuf>,
    /// Symbolic links to protected paths. A link itself cannot be made read-only.
    pub(crate) links: Vec<PathBuf>,
    /// The folders of these links, possibly roots, and kept folders around a root. Existing entries can be written, but entries can
    /// be neither added nor removed.
    pub(crate) frozen: Vec<PathBuf>,
    /// Parent folders of protected paths and of nested roots, and folders on the way to them;
    /// parents first. Renaming one would remove the protection of its contents.
    pub(crate) pins: Vec<PathBuf>,
    /// Folders that a protected path passes and leaves again by `..`.
    pub(crate) passed: Vec<PathBuf>,
}

impl Protection {
    /// The protection of `roots` (sorted real paths) by `found`.
    pub(crate) fn of(roots: &[PathBuf], found: &ProtectedPaths) -> Self {
        let covered = |path: &Path| found.existing.iter().any(|above| path.starts_with(above));
        let below_a_root =
            |path: &&PathBuf| roots.iter().any(|root| *path != root && path.starts_with(root));
        let exposed = |path: &&PathBuf| below_a_root(path) && !path.parent().is_some_and(&covered);
        let mut protection = Protection {
            roots: roots.iter().filter(|root| !covered(root)).cloned().collect(),
            read_only: found.existing.iter().filter(below_a_root).cloned().collect(),
            missing: found.missing.iter().filter(exposed).cloned().collect(),
            links: found.links.iter().filter(exposed).cloned().collect(),
            ..Protection::default()
        };
        let frozen = protection.links.iter().filter_map(|link| link.parent());
        protection.frozen =
            frozen.map(Path::to_owned).chain(found.frozen.iter().cloned()).collect();
        protection.frozen.sort();
        protection.frozen.dedup();
        let passed = found.passed.iter().filter(|path| exposed(path) && !covered(path));
        protection.passed = passed.cloned().collect();
        protection.pin();
        protection
    }

    /// Applies the rules of a profile: adds paths inside of writable roots that are not writable,
    /// and removes the protection of paths that a rule spells ([`lifts_protection`]).
    pub(crate) fn follow(&mut self, roots: &[PathBuf], rules: &[(PathBuf, Access)]) {
        let lifting = |(rule, access): &&(PathBuf, Access)| {
            *access == Access::Write && lifts_protection(rule)
        };
        for (path, _) in rules.iter().filter(lifting) {
            self.read_only.retain(|protected| protected != path);
            self.missing.retain(|protected| protected != path);
            if roots.contains(path) && !self.roots.contains(path) {
                self.roots.push(path.clone());
            }
        }
        self.roots.sort();
        for (path, access) in rules {
            let inside = roots.iter().any(|root| path != root && path.starts_with(root));
            if !inside || *access == Access::Write {
                continue;
            }
            match path.symlink_metadata() {
                Ok(meta) if is_placeholder(path, &meta) => self.missing.push(path.clone()),
                Ok(_) => self.read_only.push(path.clone()),
                // The first missing folder on the way must not be created.
                Err(_) => {
                    let first =
                        path.ancestors().take_while(|path| path.symlink_metadata().is_err()).last();
                    self.missing.extend(first.map(Path::to_owned));
                }
            }
        }
        for list in [&mut self.read_only, &mut self.missing] {
            list.sort();
            list.dedup();
        }
        self.pin();
    }

    /// Pins the passed folders, and those between the roots and their protected paths.
    fn pin(&mut self) {
        let roots = &self.roots;
        let inside = |folder: &&Path| roots.iter().any(|root| folder.starts_with(root));
        let is_root = |folder: &Path| roots.iter().any(|root| root == folder);
        let protected = self.read_only.iter().chain(&self.missing).chain(&self.links);
        let mut pins: Vec<PathBuf> = protected
            .chain(roots)
            .chain(&self.passed)
            .flat_map(|path| path.ancestors().skip(1).take_while(inside))
            .chain(self.passed.iter().map(PathBuf::as_path))
            .filter(|folder| !is_root(folder))
            .map(Path::to_owned)
            .collect();
        pins.sort();
        pins.dedup();
        self.pins = pins;
    }

    /// All paths at and below which nothing can be granted.
    pub(crate) fn protected(&self) -> Vec<PathBuf> {
        self.read_only.iter().chain(&self.missing).chain(&self.links).cloned().collect()
    }
}

/// The entries below `folder` that can be granted without allowing changes of protected paths, or
/// removal of the folders on the way to them. Omits symbolic links.
pub(crate) fn unprotected_entries(
    folder: &Path,
    protection: &Protection,
) -> io::Result<Vec<PathBuf>> {
    let protected = protection.protected();
    let mut granted = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for path in grantable_entries(&folder, &protected)? {
            let below = |inner: &PathBuf| *inner != path && inner.starts_with(&path);
            if protected.iter().chain(&protection.passed).any(below) {
                pending.push(path);
            } else {
                granted.push(path);
            }
        }
    }
    granted.sort();
    Ok(granted)
}

/// The entries of `folder` that are neither protected themselves nor symbolic links, sorted.
pub(crate) fn grantable_entries(folder: &Path, protected: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let named = is_protected_name(&entry.file_name());
        if !named && !protected.contains(&path) && !entry.file_type()?.is_symlink() {
            entries.push(path);
        }
    }
    entries.sort();
    Ok(entries)
}

/// The paths at and below which a profile lets everything be read. `rules` are real paths, parents first. A folder with a
/// hidden path inside is left out in favour of its entries.
pub(crate) fn readable_paths(rules: &[(PathBuf, Access)]) -> io::Result<Vec<PathBuf>> {
    let hidden =
        || rules.iter().filter(|(_, access)| *access == Access::None).map(|(path, _)| path);
    let mut readable = Vec::new();
    let mut pending: Vec<PathBuf> = rules
        .iter()
        .filter(|(_, access)| *access != Access::None)
        .map(|(path, _)| path.clone())
        .collect();
    while let Some(path) = pending.pop() {
        let has_hidden = hidden().any(|hidden| *hidden != path && hidden.starts_with(&path));
        if !has_hidden {
            readable.push(path);
            continue;
        }
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let inner = entry.path();
            // A rule of its own decides about it. Where a link leads, the rules of that place do.
            let is_decided = rules.iter().any(|(rule, _)| *rule == inner);
            if !is_decided && !entry.file_type()?.is_symlink() {
                pending.push(inner);
            }
        }
    }
    readable.sort();
    readable.dedup();
    Ok(readable)
}

/// Returns whether a rule that grants writing to `path` lifts its protection: only a rule that
/// spells a protected name does, not one that names something else which a protected name leads to.
pub(crate) fn lifts_protection(path: &Path) -> bool {
    path.iter().any(is_protected_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn temp() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn found(roots: &[PathBuf]) -> ProtectedPaths {
        ProtectedPaths::find(roots, &[], &[], |_| true).unwrap()
    }

    fn protection(roots: &[&Path]) -> Protection {
        let roots: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
        Protection::of(&roots, &found(&roots))
    }

    #[test]
    fn existing_missing_and_other_letter_case() {
        let (_dir, root) = temp();
        fs::create_dir(root.join(".git")).unwrap();
        fs::create_dir(root.join(".GIT")).unwrap();
        let found = protection(&[&root]);
        assert_eq!(found.read_only, [root.join(".GIT"), root.join(".git")]);
        assert_eq!(found.missing, [root.join(".agent")]);
        assert!(found.pins.is_empty() && found.frozen.is_empty());
    }

    #[test]
    fn a_pointer_file_protects_its_target() {
        let (_dir, root) = temp();
        fs::create_dir_all(root.join("store/deep/git")).unwrap();
        fs::create_dir_all(root.join("store/common")).unwrap();
        fs::write(root.join("store/deep/git/commondir"), "../../common\n").unwrap();
        fs::write(root.join(".git"), "gitdir: store/deep/git\n").unwrap();
        let found = protection(&[&root]);
        let expect = [".git", "store/common", "store/deep/git"].map(|path| root.join(path));
        assert_eq!(found.read_only, expect);
        assert_eq!(found.pins, [root.join("store"), root.join("store/deep")]);
        let paths = self::found(std::slice::from_ref(&root));
        let hook = root.join("store/deep/git/hooks/x");
        assert_eq!(paths.covering(&root, &hook), Some(root.join("store/deep/git")));
        assert_eq!(paths.covering(&root, &root.join("store/other")), None);
    }

    #[test]
    fn a_dangling_pointer_protects_the_first_missing_name() {
        let (_dir, root) = temp();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join(".git"), "gitdir: a/b/c\n").unwrap();
        let found = protection(&[&root]);
        assert!(found.missing.contains(&root.join("a/b")), "{found:?}");
        assert_eq!(found.pins, [root.join("a")]);
    }

    #[test]
    fn a_pointer_out_of_the_roots_adds_nothing() {
        let (_dir, base) = temp();
        fs::create_dir_all(base.join("main/.git/worktrees/w")).unwrap();
        fs::create_dir(base.join("w")).unwrap();
        let pointer = format!("gitdir: {}\n", base.join("main/.git/worktrees/w").display());
        fs::write(base.join("w/.git"), pointer).unwrap();
        assert_eq!(protection(&[&base.join("w")]).read_only, [base.join("w/.git")]);
    }

    #[test]
    fn a_symbolic_link_freezes_the_root() {
        let (_dir, root) = temp();
        symlink("elsewhere", root.join(".agent")).unwrap();
        fs::create_dir(root.join("src")).unwrap();
        let found = protection(&[&root]);
        assert_eq!(found.frozen, std::slice::from_ref(&root));
        assert_eq!(unprotected_entries(&root, &found).unwrap(), [root.join("src")]);
    }

    #[test]
    fn folders_between_nested_roots_are_pinned() {
        let (_dir, root) = temp();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        let found = protection(&[&root, &root.join("a/b/c")]);
        assert_eq!(found.pins, [root.join("a"), root.join("a/b")]);
    }

    #[test]
    fn entries_around_a_protected_folder() {
        let (_dir, root) = temp();
        for folder in ["a/b", "a/keep", "c"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let protection = Protection { read_only: vec![root.join("a/b")], ..Protection::default() };
        let entries = unprotected_entries(&root, &protection).unwrap();
        assert_eq!(entries, [root.join("a/keep"), root.join("c")]);
    }

    #[test]
    fn the_last_holder_removes_a_placeholder() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        let first = Placeholder::hold(&path).unwrap().unwrap();
        let second = Placeholder::hold(&path).unwrap().unwrap();
        assert_eq!(protection(&[&root]).missing, [root.join(".agent"), path.clone()]);
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    /// Commands that begin and end concurrently find or create it, but never lose it.
    #[test]
    fn a_new_placeholder_is_recognised_at_once() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(protection(&[&root]).missing.contains(&path));
                        let held =
                            Placeholder::hold(&path).unwrap().expect("no other process created it");
                        assert!(path.is_dir());
                        drop(held);
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    /// A holder that removes it may wait for a processor while it has the lock.
    #[test]
    fn a_placeholder_is_held_after_a_slow_removal() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o1755)
            .create(&path)
            .unwrap();
        let lock = fs::File::open(&path).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let next = scope.spawn(|| Placeholder::hold(&path));
            // tidy: sleep - the lock is held for longer than many attempts take; right without it too
            std::thread::sleep(std::time::Duration::from_millis(100));
            fs::remove_dir(&path).unwrap();
            drop(lock);
            assert!(next.join().unwrap().unwrap().is_some());
        });
    }

    /// The kernel closes the descriptors of a killed server one by one.
    #[test]
    fn a_server_waits_for_the_lock_of_a_dying_one() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o1755)
            .create(&path)
            .unwrap();
        let lock = fs::File::open(&path).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| Placeholder::release(&path));
            assert!(path.exists());
            drop(lock);
        });
        assert!(!path.exists());
    }

    #[test]
    fn a_placeholder_changed_by_the_user_is_kept() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        let held = Placeholder::hold(&path).unwrap().unwrap();
        fs::write(path.join("HEAD"), "ref").unwrap();
        drop(held);
        assert!(path.join("HEAD").exists());
        assert!(Placeholder::hold(&path).unwrap().is_none());
    }

    #[test]
    fn a_placeholder_left_behind_is_taken_over() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        std::mem::forget(Placeholder::hold(&path).unwrap().unwrap());
        // The forgotten lock is still held by this process, so only the take-over is visible.
        assert!(Placeholder::hold(&path).unwrap().is_some());
    }
}
