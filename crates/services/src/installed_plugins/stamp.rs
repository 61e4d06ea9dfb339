//! Notices that files were changed, in place or by replacing them, without reading them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files and folders as they were at one moment. Two are equal if nothing has changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Vec<Option<Seen>>);

/// The metadata of a file or folder that differs after each change. The time of the last change of
/// its metadata cannot be set, unlike that of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Looks at the paths, which need not exist. Waits for the file system.
    pub(crate) fn of(paths: &[PathBuf]) -> Self {
        Self(paths.iter().map(|path| seen(path)).collect())
    }
}

fn seen(path: &Path) -> Option<Seen> {
    let found = path.metadata().ok()?;
    Some(Seen {
        file: (found.dev(), found.ino()),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let [file, missing] = ["file", "missing"].map(|name| folder.path().join(name));
        std::fs::write(&file, "one").unwrap();
        let paths = [file.clone(), missing.clone()];
        let first = Stamp::of(&paths);
        assert_eq!(Stamp::of(&paths), first);
        std::fs::write(&missing, "").unwrap();
        let second = Stamp::of(&paths);
        assert_ne!(second, first);
        // Replaced by another file of the same size and time.
        let time = file.metadata().unwrap().modified().unwrap();
        let other = folder.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert_ne!(Stamp::of(&paths), second);
    }
}
