//! Which paths inside writable roots stay read-only, and the placeholders that keep those that do
//! not exist from being created. Decides; the layers enforce.

use std::fs::{self, Metadata};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::policy::{Access, PROTECTED_NAMES};

/// More than any pointer file that git writes.
const MAX_POINTER_BYTES: u64 = 8 * 1024;

/// Everything inside a set of writable roots that must not change.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    /// Exist: to be made read-only.
    pub(crate) read_only: Vec<PathBuf>,
    /// Do not exist, or are placeholders of ours: to be held by a [`Placeholder`].
    pub(crate) missing: Vec<PathBuf>,
    /// Roots with a symbolic link for a protected name. A link cannot be made read-only by
    /// itself, so only what exists in such a root can be written, and nothing be added at its top.
    pub(crate) frozen: Vec<PathBuf>,
    /// Folders above protected paths and nested roots, parents first. Were they renamed, what is
    /// below would lose its protection.
    pub(crate) pins: Vec<PathBuf>,
}

impl Protection {
    /// Looks at `roots` (real paths, sorted). `search_variants` says in which roots other letter
    /// cases of the protected names are looked for: it costs reading the folder.
    pub(crate) fn of(
        roots: &[PathBuf],
        search_variants: impl Fn(&Path) -> bool,
    ) -> io::Result<Self> {
        let mut found = Protection::default();
        for root in roots {
            for name in PROTECTED_NAMES {
                found.add(root, root.join(name));
            }
            if search_variants(root) {
                for path in variants(root)? {
                    found.add(root, path);
                }
            }
            for dir in git_dirs(root) {
                if roots.iter().any(|root| dir.starts_with(root)) {
                    found.add_git_dir(dir);
                }
            }
        }
        found.pins = pins(roots, found.read_only.iter().chain(&found.missing));
        for list in [&mut found.read_only, &mut found.missing, &mut found.frozen] {
            list.sort();
            list.dedup();
        }
        Ok(found)
    }

    fn add(&mut self, root: &Path, path: PathBuf) {
        match path.symlink_metadata() {
            Ok(meta) if meta.is_symlink() => self.frozen.push(root.to_owned()),
            Ok(meta) if is_placeholder(&path, &meta) => self.missing.push(path),
            Ok(_) => self.read_only.push(path),
            Err(_) => self.missing.push(path),
        }
    }

    /// The deepest part that exists is not ours to freeze; the first missing name below it is.
    fn add_git_dir(&mut self, dir: PathBuf) {
        if dir.symlink_metadata().is_ok_and(|meta| !is_placeholder(&dir, &meta)) {
            return self.read_only.push(dir);
        }
        let first_missing = dir
            .ancestors()
            .take_while(|path| {
                path.symlink_metadata().map_or(true, |meta| is_placeholder(path, &meta))
            })
            .last();
        self.missing.extend(first_missing.map(Path::to_owned));
    }
}

impl Protection {
    /// What the rules of a profile add: paths inside writable roots that they keep from being
    /// written, and what they protect no longer because a rule grants it by its own path.
    pub(crate) fn follow(&mut self, roots: &[PathBuf], rules: &[(PathBuf, Access)]) {
        let granted = |path: &Path| {
            rules.iter().any(|(rule, access)| *access == Access::Write && rule == path)
        };
        self.read_only.retain(|path| !granted(path));
        self.missing.retain(|path| !granted(path));
        for (path, access) in rules {
            let inside = roots.iter().any(|root| path != root && path.starts_with(root));
            if !inside || *access == Access::Write {
                continue;
            }
            match path.symlink_metadata() {
                Ok(meta) if is_placeholder(path, &meta) => self.missing.push(path.clone()),
                Ok(_) => self.read_only.push(path.clone()),
                // The first missing folder on the way is what must not be made.
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
        self.pins = pins(roots, self.read_only.iter().chain(&self.missing));
    }
}

/// The protected path that `real` is or lies in, if `real` is inside `root`.
pub(crate) fn protecting(root: &Path, roots: &[PathBuf], real: &Path) -> Option<PathBuf> {
    let first = real.strip_prefix(root).ok()?.components().next()?;
    let name = first.as_os_str();
    if PROTECTED_NAMES.iter().any(|protected| name.eq_ignore_ascii_case(protected)) {
        return Some(root.join(name));
    }
    roots.iter().flat_map(|root| git_dirs(root)).find(|dir| real.starts_with(dir))
}

/// What can be granted inside `folder` without granting any of `protected`: the entries that
/// hold none of them, and the same below those that do. Symbolic links are left out.
pub(crate) fn unprotected_entries(
    folder: &Path,
    protected: &[PathBuf],
) -> io::Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let named = PROTECTED_NAMES.iter().any(|protected| name.eq_ignore_ascii_case(protected));
        if named || protected.contains(&path) || entry.file_type()?.is_symlink() {
            continue;
        }
        if protected.iter().any(|inner| inner.starts_with(&path)) {
            entries.extend(unprotected_entries(&path, protected)?);
        } else {
            entries.push(path);
        }
    }
    entries.sort();
    Ok(entries)
}

/// Entries of `root` that are protected names in another letter case.
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

/// The git folders that `root/.git` leads to when it is a pointer file or a symbolic link, with
/// the common folder of a worktree: their hooks and configuration run code just as well.
fn git_dirs(root: &Path) -> Vec<PathBuf> {
    let dot_git = root.join(".git");
    let Ok(meta) = dot_git.symlink_metadata() else { return Vec::new() };
    let dir = if meta.is_symlink() {
        dot_git.canonicalize().ok()
    } else if meta.is_file() {
        pointer(&dot_git).and_then(|text| target(root, text.strip_prefix("gitdir:")?))
    } else {
        None
    };
    let Some(dir) = dir else { return Vec::new() };
    let common = pointer(&dir.join("commondir")).and_then(|text| target(&dir, &text));
    std::iter::once(dir).chain(common).collect()
}

fn pointer(file: &Path) -> Option<String> {
    ::files::read_text(file, MAX_POINTER_BYTES).ok()
}

fn target(base: &Path, text: &str) -> Option<PathBuf> {
    crate::policy::real_path(&base.join(text.trim())).ok()
}

fn pins<'a>(roots: &'a [PathBuf], protected: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let inside = |folder: &&Path| roots.iter().any(|root| folder.starts_with(root));
    let is_root = |folder: &Path| roots.iter().any(|root| root == folder);
    let mut pins: Vec<PathBuf> = protected
        .chain(roots)
        .flat_map(|path| path.ancestors().skip(1).take_while(inside))
        .filter(|folder| !is_root(folder))
        .map(Path::to_owned)
        .collect();
    pins.sort();
    pins.dedup();
    pins
}

/// An empty folder that stands where a protected name is missing, while a command runs.
///
/// It has to exist outside of the sandbox: a mount needs something to be mounted on. It is told
/// from a folder of the user by its sticky bit, which it has from its first moment on, and, where
/// there are no such bits, by its modification time; one that a killed server left behind is taken
/// over by the next. Every holder has a shared lock on it, the last one removes it; when
/// the user put something into it meanwhile, it stays.
#[derive(Debug)]
pub(crate) struct Placeholder {
    path: PathBuf,
    folder: fs::File,
}

/// One second after the epoch: no folder of a user has this modification time.
const PLACEHOLDER_MTIME: i64 = 1;
/// Another holder removes a placeholder within microseconds; this is far more than needed.
const MAX_TRIES: usize = 1000;

const PLACEHOLDER_MODE: u32 = 0o1755;
const STICKY: u32 = 0o1000;

/// Where no command runs, there are none.
#[cfg(not(unix))]
fn is_placeholder(_path: &Path, _meta: &Metadata) -> bool {
    false
}

/// What the user put something into is the user's.
#[cfg(unix)]
fn is_placeholder(path: &Path, meta: &Metadata) -> bool {
    let marked = meta.mtime() == PLACEHOLDER_MTIME && meta.mtime_nsec() == 0;
    // One that is gone by now was removed by its last holder.
    let empty = || fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    meta.is_dir() && (meta.mode() & STICKY != 0 || marked) && empty()
}

#[cfg(target_os = "linux")]
mod placeholder {
    use super::*;
    use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps};

    impl Placeholder {
        /// Holds `path`. `None` when nothing need be held: the user created it meanwhile, or
        /// nobody with our rights can create it.
        pub(crate) fn hold(path: &Path) -> io::Result<Option<Placeholder>> {
            for _ in 0..MAX_TRIES {
                match rustix::fs::mkdir(path, Mode::from_raw_mode(PLACEHOLDER_MODE)) {
                    Ok(()) => mark(path)?,
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS) => return Ok(None),
                    Err(e) => return Err(e.into()),
                }
                let folder = match rustix::fs::open(path, OPEN_FOLDER, Mode::empty()) {
                    Ok(folder) => fs::File::from(folder),
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => return Ok(None),
                    Err(e) => return Err(e.into()),
                };
                if !is_placeholder(path, &folder.metadata()?) {
                    return Ok(None);
                }
                let locked =
                    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared).is_ok();
                if locked && same_file(path, &folder) {
                    return Ok(Some(Placeholder { path: path.to_owned(), folder }));
                }
                std::thread::yield_now();
            }
            Err(io::Error::other(format!(
                "{} is locked by another program, so that it cannot be protected",
                path.display()
            )))
        }
    }

    impl Placeholder {
        /// The place that it holds.
        pub(crate) fn path(&self) -> &Path {
            &self.path
        }

        /// Removes a placeholder that nobody holds any more: the server was killed that would have.
        pub(crate) fn release(path: &Path) {
            let Ok(folder) = rustix::fs::open(path, OPEN_FOLDER, Mode::empty()) else { return };
            let folder = fs::File::from(folder);
            if folder.metadata().is_ok_and(|meta| is_placeholder(path, &meta)) {
                drop(Placeholder { path: path.to_owned(), folder });
            }
        }
    }

    impl Drop for Placeholder {
        fn drop(&mut self) {
            let last = rustix::fs::flock(&self.folder, FlockOperation::NonBlockingLockExclusive);
            if last.is_ok() && same_file(&self.path, &self.folder) {
                // Fails when something was put into it: then it belongs to the user.
                let _ = fs::remove_dir(&self.path);
            }
        }
    }

    const OPEN_FOLDER: OFlags =
        OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    fn mark(path: &Path) -> io::Result<()> {
        let time = Timespec { tv_sec: PLACEHOLDER_MTIME, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags) {
            // Removed by the previous holder in between: the caller tries again.
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn same_file(path: &Path, file: &fs::File) -> bool {
        let (Ok(there), Ok(here)) = (path.symlink_metadata(), file.metadata()) else {
            return false;
        };
        (there.dev(), there.ino()) == (here.dev(), here.ino())
    }
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

    fn protection(roots: &[&Path]) -> Protection {
        let roots: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
        Protection::of(&roots, |_| true).unwrap()
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
    fn a_pointer_file_protects_where_it_leads() {
        let (_dir, root) = temp();
        fs::create_dir_all(root.join("store/deep/git")).unwrap();
        fs::create_dir_all(root.join("store/common")).unwrap();
        fs::write(root.join("store/deep/git/commondir"), "../../common\n").unwrap();
        fs::write(root.join(".git"), "gitdir: store/deep/git\n").unwrap();
        let found = protection(&[&root]);
        let expect = [".git", "store/common", "store/deep/git"].map(|path| root.join(path));
        assert_eq!(found.read_only, expect);
        assert_eq!(found.pins, [root.join("store"), root.join("store/deep")]);
        let roots = [root.clone()];
        let hook = root.join("store/deep/git/hooks/x");
        assert_eq!(protecting(&root, &roots, &hook), Some(root.join("store/deep/git")));
        assert_eq!(protecting(&root, &roots, &root.join("store/other")), None);
    }

    #[test]
    fn a_pointer_to_nowhere_protects_the_first_missing_name() {
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
        assert_eq!(unprotected_entries(&root, &[]).unwrap(), [root.join("src")]);
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
        let entries = unprotected_entries(&root, &[root.join("a/b")]).unwrap();
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

    /// Commands that begin and end at the same time find it there, or make it, but never lose it.
    #[test]
    fn a_placeholder_is_one_from_its_first_moment_on() {
        let (_dir, root) = temp();
        let path = root.join(".git");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(protection(&[&root]).missing.contains(&path));
                        let held = Placeholder::hold(&path).unwrap().expect("it is nobody's");
                        assert!(path.is_dir());
                        drop(held);
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn what_the_user_made_of_a_placeholder_stays() {
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
