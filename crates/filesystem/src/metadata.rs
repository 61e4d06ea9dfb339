//! Kind and times of a path.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Error;

/// The metadata of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// True for a link to a regular file too.
    pub is_file: bool,
    /// True for a link to a folder too.
    pub is_folder: bool,
    /// True if the path itself is a symbolic link, even one that leads nowhere.
    pub is_link: bool,
    /// In Unix milliseconds; 0 where the file system does not record it.
    pub created_at_ms: i64,
    /// In Unix milliseconds.
    pub modified_at_ms: i64,
}

/// Describes what is at `path`. Kind and times are those of the target of a symbolic link, and those
/// of the link where it leads nowhere.
///
/// # Errors
/// Nothing is at `path`, or a folder on the way cannot be searched.
pub fn metadata(path: &Path) -> Result<Metadata, Error> {
    let itself = path.symlink_metadata().map_err(Error::io(path, "reading its metadata"))?;
    let is_link = itself.is_symlink();
    // A link that leads nowhere, or in circles, is described as itself.
    let found = if is_link { path.metadata().unwrap_or(itself) } else { itself };
    Ok(Metadata {
        is_file: found.is_file(),
        is_folder: found.is_dir(),
        is_link,
        created_at_ms: found.created().map_or(0, unix_ms),
        modified_at_ms: found.modified().map_or(0, unix_ms),
    })
}

/// Negative for times before 1970.
fn unix_ms(time: SystemTime) -> i64 {
    let ms =
        |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => ms(after),
        Err(before) => -ms(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn links_are_described_by_their_targets() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let file = std::fs::File::create(at("file")).unwrap();
        file.set_modified(UNIX_EPOCH - Duration::from_millis(1500)).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for (link, target) in [
            ("to-file", "file"),
            ("to-folder", "folder"),
            ("nowhere", "none"),
            ("circle", "circle"),
        ] {
            std::os::unix::fs::symlink(target, at(link)).unwrap();
        }
        for (name, is_file, is_folder, is_link) in [
            ("file", true, false, false),
            ("folder", false, true, false),
            ("to-file", true, false, true),
            ("to-folder", false, true, true),
            ("nowhere", false, false, true),
            ("circle", false, false, true),
        ] {
            let found = metadata(&at(name)).unwrap();
            assert_eq!(
                (found.is_file, found.is_folder, found.is_link),
                (is_file, is_folder, is_link),
                "{name}"
            );
        }
        assert_eq!(metadata(&at("to-file")).unwrap().modified_at_ms, -1500);
        assert!(metadata(&at("missing")).unwrap_err().is_not_found());
        assert!(!metadata(&at("file/below")).unwrap_err().is_not_found());
    }
}
