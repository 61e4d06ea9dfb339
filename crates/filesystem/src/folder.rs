//! Listing and creation of folders.

use std::path::Path;

use crate::error::Error;

/// Most entries of a folder that is listed; a larger one is an error, since a cut list would look whole.
pub const MAX_ENTRIES: usize = 100_000;

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name; what is not UTF-8 in it is replaced by U+FFFD, and such a name cannot be opened.
    pub name: String,
    /// True for a link to a regular file too.
    pub is_file: bool,
    /// True for a link to a folder too.
    pub is_folder: bool,
}

/// The entries of the folder at `path`, by name. Entries that disappear meanwhile are left out.
///
/// # Errors
/// `path` is not a folder that can be listed, or has more than [`MAX_ENTRIES`] entries.
pub fn read_folder(path: &Path) -> Result<Vec<Entry>, Error> {
    let failed = || Error::io(path, "listing the folder");
    let mut entries = Vec::new();
    for entry in path.read_dir().map_err(failed())? {
        let entry = entry.map_err(failed())?;
        if entries.len() == MAX_ENTRIES {
            let reason = format!(
                "the folder has more than {MAX_ENTRIES} entries; list its sub-folders, or search it"
            );
            return Err(Error::refused(path, reason));
        }
        let Ok(kind) = entry.file_type() else { continue };
        // Of a link that leads nowhere, neither is true.
        let target = kind.is_symlink().then(|| entry.path().metadata().ok()).flatten();
        let kind = target.map_or(kind, |target| target.file_type());
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_file: kind.is_file(),
            is_folder: kind.is_dir(),
        });
    }
    entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Creates the folder `path`. With `with_parents`, also the folders above it, and a folder that exists
/// is not an error.
///
/// # Errors
/// Something else is there, a folder above is missing, or the system refuses.
pub fn create_folder(path: &Path, with_parents: bool) -> Result<(), Error> {
    let created =
        if with_parents { std::fs::create_dir_all(path) } else { std::fs::create_dir(path) };
    created.map_err(Error::io(path, "creating the folder"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_folder_is_listed_by_name_with_the_kinds_of_link_targets() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        create_folder(&at("z/deep"), true).unwrap();
        create_folder(&at("z/deep"), true).unwrap();
        std::fs::write(at("a"), "").unwrap();
        std::fs::write(folder.path().join(OsStr::from_bytes(b"odd\xff")), "").unwrap();
        std::os::unix::fs::symlink("z", at("link")).unwrap();
        std::os::unix::fs::symlink("none", at("nowhere")).unwrap();
        let found: Vec<_> = read_folder(folder.path())
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.is_file, entry.is_folder))
            .collect();
        let expected = [
            ("a", true, false),
            ("link", false, true),
            ("nowhere", false, false),
            ("odd\u{fffd}", true, false),
            ("z", false, true),
        ];
        assert_eq!(found, expected.map(|(name, file, folder)| (name.to_owned(), file, folder)));
    }

    #[test]
    fn errors_name_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        create_folder(&at("there"), false).unwrap();
        for error in [
            create_folder(&at("there"), false).unwrap_err(),
            create_folder(&at("file"), true).unwrap_err(),
            create_folder(&at("missing/folder"), false).unwrap_err(),
            read_folder(&at("file")).unwrap_err(),
            read_folder(&at("missing")).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(text.starts_with(&folder.path().display().to_string()), "{text}");
        }
    }
}
