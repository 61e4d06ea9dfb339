//! The check that a skill is a copy of another one, byte for byte. Blocks on the file system.

use std::ffi::OsString;
use std::path::Path;

/// Entries that are compared, with those of folders within. Larger skills are no copies.
const MAX_ENTRIES: usize = 256;
/// Bytes of a file that is compared.
const MAX_FILE: u64 = 1 << 20;

/// Returns whether two folders have the same files with the same contents. Folders with links,
/// devices, very many or large files, or something that cannot be read, are not equal to any.
pub(crate) fn are_equal(one: &Path, other: &Path) -> bool {
    let mut left = MAX_ENTRIES;
    are_equal_within(one, other, &mut left).is_some()
}

/// `None` when they differ.
fn are_equal_within(one: &Path, other: &Path, left: &mut usize) -> Option<()> {
    let names = entries(one, left)?;
    if names != entries(other, left)? {
        return None;
    }
    for (name, is_folder) in names {
        let (one, other) = (one.join(&name), other.join(&name));
        if is_folder {
            are_equal_within(&one, &other, left)?;
        } else if read(&one)? != read(&other)? {
            return None;
        }
    }
    Some(())
}

/// The names of a folder, sorted, and whether each is a folder.
fn entries(folder: &Path, left: &mut usize) -> Option<Vec<(OsString, bool)>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).ok()? {
        *left = left.checked_sub(1)?;
        let entry = entry.ok()?;
        let kind = entry.file_type().ok()?;
        if !kind.is_dir() && !kind.is_file() {
            return None;
        }
        names.push((entry.file_name(), kind.is_dir()));
    }
    names.sort();
    Some(names)
}

fn read(path: &Path) -> Option<Vec<u8>> {
    files::open_without_links(path).and_then(|opened| opened.read(path, MAX_FILE)).ok()
}
