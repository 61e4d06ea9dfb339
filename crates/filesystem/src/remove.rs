//! Removal of files and folders.

use std::path::{Component, Path};

use crate::error::Error;

/// Removes what is at `path`: a symbolic link itself and never its target, a folder with everything
/// below it if `with_contents` is set, an empty one in any case. With `or_missing`, a path at which
/// nothing is counts as removed.
///
/// # Errors
/// `path` is the root or ends in `.` or `..`; it ends in a slash, and no folder is there; the folder is not
/// empty; or the system refuses. A folder may then be removed in part.
pub fn remove(path: &Path, with_contents: bool, or_missing: bool) -> Result<(), Error> {
    // `folder/..` would remove the parent of a folder that the caller named, and `link/.`, which is what a link
    // leads to, the link.
    let is_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
    if !is_name || ends_in_dot(path) {
        return Err(Error::refused(path, "this path is never removed; name a file or folder"));
    }
    match remove_existing(path, with_contents) {
        Err(error) if or_missing && error.is_not_found() => Ok(()),
        done => done,
    }
}

/// Returns whether the last part is `.`, which [`Path::components`] leaves out.
fn ends_in_dot(path: &Path) -> bool {
    let mut parts = path.as_os_str().as_encoded_bytes().split(|byte| *byte == b'/');
    parts.rfind(|part| !part.is_empty()) == Some(b".")
}

fn remove_existing(path: &Path, with_contents: bool) -> Result<(), Error> {
    let failed = || Error::io(path, "removing it");
    let names_a_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    // A trailing slash would follow a link.
    let path: &Path = &path.components().collect::<std::path::PathBuf>();
    let found = path.symlink_metadata().map_err(failed())?;
    if names_a_folder && !found.is_dir() {
        let reason = match found.is_symlink() {
            // The slash leads to what the link names, which the caller may not know.
            true => "a symbolic link is there; remove it by its name without the slash",
            false => "the path names a folder, and a file is there",
        };
        return Err(Error::refused(path, reason));
    }
    let removed = match found.is_dir() {
        true if with_contents => std::fs::remove_dir_all(path),
        true => std::fs::remove_dir(path),
        false => std::fs::remove_file(path),
    };
    removed.map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_removed_and_their_targets_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("kept/below")).unwrap();
        std::fs::create_dir_all(at("tree/a/b")).unwrap();
        std::os::unix::fs::symlink(at("kept"), at("tree/a/link")).unwrap();
        std::os::unix::fs::symlink(at("kept"), at("link")).unwrap();
        let error = remove(&at("link/"), true, false).unwrap_err().to_string();
        assert!(error.contains("without the slash") && at("link").is_symlink(), "{error}");
        remove(&at("link"), true, false).unwrap();
        remove(&at("tree"), true, false).unwrap();
        assert!(at("kept/below").is_dir() && !at("tree").exists() && !at("link").is_symlink());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("full/below")).unwrap();
        std::os::unix::fs::symlink(at("full"), at("link")).unwrap();
        for path in [Path::new("/"), &at("full/.."), Path::new(""), &at("link/."), &at("link/.//")]
        {
            let error = remove(path, true, true).unwrap_err().to_string();
            assert!(error.contains("never removed"), "{error}");
        }
        assert!(at("link").is_symlink());
        assert!(remove(&at("full"), false, true).unwrap_err().to_string().contains("not empty"));
        remove(&at("full/below"), false, false).unwrap();
        assert!(remove(&at("missing"), true, false).unwrap_err().is_not_found());
        remove(&at("missing"), true, true).unwrap();
        std::fs::write(at("file"), "").unwrap();
        // Nothing can be below a file; that is not the same as "it is missing".
        assert!(remove(&at("file/below"), true, true).is_err());
        let error = remove(&at("file/"), true, true).unwrap_err().to_string();
        assert!(error.contains("a file is there") && at("file").exists(), "{error}");
    }
}
