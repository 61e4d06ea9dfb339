//! What a folder holds, to compare it before and after.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Every entry of a folder but version control: kind and mode, and contents or target.
pub(crate) type Picture = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(crate) fn picture(root: &Path) -> Picture {
    let mut found = Picture::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            let metadata = path.symlink_metadata().unwrap();
            let contents = if metadata.is_symlink() {
                path.read_link().unwrap().into_os_string().into_vec()
            } else if metadata.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else {
                std::fs::read(&path).unwrap()
            };
            let mode = if metadata.is_symlink() { 0 } else { metadata.mode() };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (mode, contents));
        }
    }
    found
}
