//! Search for a program that the configuration names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Looks for a program as the start of it would: in the folders of `path`, or, for a name with `/`, in
/// `cwd`.
///
/// # Errors
/// Why it cannot be started, and what to do.
pub(super) fn find(program: &str, cwd: &Path, path: Option<&OsStr>) -> Result<(), String> {
    if program.is_empty() {
        return Err("the name of the program is empty; write one".to_owned());
    }
    if program.contains('/') {
        let file = cwd.join(program);
        return match file.metadata() {
            Ok(found) if is_program(&found) => Ok(()),
            Ok(found) if found.is_dir() => {
                Err(format!("{} is a folder; name the program in it", file.display()))
            }
            Ok(_) => Err(format!("{} is not executable; `chmod +x` it", file.display())),
            Err(error) => {
                Err(format!("{}: {error}; install it, or correct the path", file.display()))
            }
        };
    }
    let folders = path.into_iter().flat_map(std::env::split_paths);
    let mut candidates = folders.map(|folder: PathBuf| cwd.join(folder).join(program));
    if candidates.any(|file| file.metadata().is_ok_and(|found| is_program(&found))) {
        return Ok(());
    }
    Err(format!(
        "the program `{program}` is in no folder of PATH; install it, or write its whole path"
    ))
}

#[cfg(unix)]
fn is_program(found: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    found.is_file() && found.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_program(found: &std::fs::Metadata) -> bool {
    found.is_file()
}
