//! Finds the file of a program, and determines whether it can be trusted to be that program. Runs
//! nothing.

use std::ffi::OsStr;
use std::fs::Metadata;
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::repository;

/// The queries of the rules to the file system.
pub trait Resolver {
    /// The file that `program` runs when it is started at `cwd`: its folder in canonical form
    /// with the file's own name (the final link is not followed, because one multi-call file
    /// may have many names). `None` when it does not exist or when it cannot be trusted,
    /// which includes every file that a command of ours may write.
    fn resolve(&self, program: &str, cwd: &Path) -> Option<PathBuf>;

    /// Returns whether reading the repository around `dir` with git runs no program that the
    /// repository itself names. See [`GitUse`].
    fn git_is_inert(&self, dir: &Path, usage: GitUse) -> bool;
}

/// The way in which a git command uses the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitUse {
    /// Reads commits and references, which depends only on the repository's configuration.
    Objects,
    /// Also compares the work tree, which can refresh the index (with a hook) and enter submodules
    /// (with their own configuration).
    WorkTree,
}

/// The resolver of the real file system.
#[derive(Clone, Debug)]
pub struct PathResolver {
    search: Vec<PathBuf>,
    writable: Vec<PathBuf>,
}

impl PathResolver {
    /// `path` is the child's `PATH`; `writable_roots` are the folders where commands of ours
    /// may write without asking, programs in which are never trusted.
    pub fn new(path: &OsStr, writable_roots: &[PathBuf]) -> Self {
        let mut writable = Vec::with_capacity(writable_roots.len() * 2);
        for root in writable_roots {
            writable.push(root.clone());
            if let Ok(real) = root.canonicalize() {
                writable.push(real);
            }
        }
        Self { search: std::env::split_paths(path).collect(), writable }
    }

    fn on_path(&self, name: &str) -> Option<PathBuf> {
        for folder in &self.search {
            // A relative entry means another folder after each `cd`: whatever stands
            // after it in the list cannot be distinguished from what it may hide.
            if !folder.is_absolute() {
                return None;
            }
            let candidate = folder.join(name);
            if is_executable(&candidate) {
                return self.trusted(&candidate);
            }
        }
        None
    }

    fn trusted(&self, file: &Path) -> Option<PathBuf> {
        let folder = file.parent()?.canonicalize().ok()?;
        let found = folder.join(file.file_name()?);
        let target = found.canonicalize().ok()?;
        let writable = [&found, &target]
            .into_iter()
            .any(|path| self.writable.iter().any(|root| path.starts_with(root)));
        let open = is_open_to_all(&target) || is_open_to_all(&folder);
        (!writable && !open && is_executable(&target)).then_some(found)
    }
}

impl Resolver for PathResolver {
    fn resolve(&self, program: &str, cwd: &Path) -> Option<PathBuf> {
        if program.is_empty() || program.contains('\0') {
            return None;
        }
        if !program.contains('/') {
            return self.on_path(program);
        }
        self.trusted(&cwd.join(program))
    }

    fn git_is_inert(&self, dir: &Path, usage: GitUse) -> bool {
        repository::is_inert(dir, usage)
    }
}

/// `path` without `.` and `..`, like `cd` in a shell, without following links.
pub(super) fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

fn is_executable(path: &Path) -> bool {
    #[cfg(unix)]
    let may_run = |data: &Metadata| data.permissions().mode() & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = |_: &Metadata| true;
    path.metadata().is_ok_and(|data| data.is_file() && may_run(&data))
}

/// Returns whether everybody can write a file; includes sticky folders such as `/tmp`, in which
/// anybody can create files.
fn is_open_to_all(path: &Path) -> bool {
    #[cfg(unix)]
    let open = |data: &Metadata| data.permissions().mode() & 0o002 != 0;
    // The writers are unknown, so nothing is trusted.
    #[cfg(not(unix))]
    let open = |_: &Metadata| true;
    path.metadata().is_ok_and(|data| open(&data))
}
