//! The target of a path: symbolic links resolved, even of paths that do not exist yet.

use std::path::{Component, Path, PathBuf};

use crate::error::{Error, ErrorKind};

/// Resolves the symbolic links in the part of `path` that exists, and appends the rest.
///
/// # Errors
/// `path` is relative, leads through a dangling link, or cannot be resolved.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_absolute() {
        let message = format!("{} is not an absolute path", path.display());
        return Err(Error::new(ErrorKind::Denied, message));
    }
    let unresolvable = |reason: &str| {
        let message = format!("{} cannot be resolved: {reason}", path.display());
        Error::new(ErrorKind::Denied, message)
    };
    let mut missing: Vec<&std::ffi::OsStr> = Vec::new();
    let mut existing = path;
    loop {
        match existing.canonicalize() {
            Ok(real) => return Ok(missing.iter().rev().fold(real, |path, name| path.join(name))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(unresolvable(&e.to_string())),
        }
        if existing.symlink_metadata().is_ok() {
            return Err(unresolvable("it leads through a dangling symbolic link"));
        }
        let Some(Component::Normal(name)) = existing.components().next_back() else {
            return Err(unresolvable("it has `..` after a folder that does not exist"));
        };
        missing.push(name);
        let Some(parent) = existing.parent() else {
            return Err(unresolvable("it has no parent folder"));
        };
        existing = parent;
    }
}

/// Resolves the symbolic links in all but the last component of `path`.
pub(crate) fn real_entry(path: &Path) -> Result<PathBuf, Error> {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => Ok(real_path(parent)?.join(name)),
        _ => real_path(path),
    }
}

/// The real path of a root, unless it leads through a symbolic link inside one of the `writable`
/// folders: a command may have created that link, to choose what the next command can write.
pub(crate) fn real_root(given: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let real = given.canonicalize().ok()?;
    let mut links = false;
    for part in given.ancestors() {
        if part.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            links = true;
            let holder = part.parent()?.canonicalize().ok()?;
            if writable.iter().any(|root| holder.starts_with(root)) {
                return None;
            }
        }
    }
    // A path without links that resolves to another one was changed between the two looks.
    let plain = given.components().all(|part| part != Component::ParentDir);
    (links || !plain || given.components().eq(real.components())).then_some(real)
}
