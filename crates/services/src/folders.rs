//! Folders that clients name, checked off the runtime's threads: a file system that does not answer
//! costs one request an error.

use std::path::{Path, PathBuf};

use files::Pool;

use crate::error::Error;

/// `path` when it is absolute.
///
/// # Errors
/// Invalid parameters, naming the member.
pub fn absolute(member: &str, path: &str) -> Result<PathBuf, Error> {
    if path.contains('\0') {
        return Err(Error::invalid_params(format!("`{member}` must not contain a NUL character")));
    }
    let path = PathBuf::from(path);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Error::invalid_params(format!(
        "`{member}` must be an absolute path, found `{}`",
        path.display()
    )))
}

/// The folder that a client gives as `cwd`: absolute, and an existing folder.
///
/// # Errors
/// Invalid parameters when it is not; the file system does not answer.
pub async fn existing_cwd(files: &Pool, path: &str) -> Result<PathBuf, Error> {
    check_cwd(files, absolute("cwd", path)?).await
}

/// As [`existing_cwd`], for a `cwd` that may be left out.
///
/// # Errors
/// As [`existing_cwd`].
pub async fn optional_cwd(files: &Pool, path: Option<&str>) -> Result<Option<PathBuf>, Error> {
    match path {
        Some(path) => existing_cwd(files, path).await.map(Some),
        None => Ok(None),
    }
}

/// `path` when it is a folder.
///
/// # Errors
/// As [`existing_cwd`].
pub async fn check_cwd(files: &Pool, path: PathBuf) -> Result<PathBuf, Error> {
    let candidate = path.clone();
    if files.run(&path, move || candidate.is_dir()).await? {
        return Ok(path);
    }
    Err(not_a_folder(&path))
}

/// The error about a `cwd` that is not a folder.
pub fn not_a_folder(path: &Path) -> Error {
    Error::invalid_params(format!("`cwd`: {} is not a folder", path.display()))
}
