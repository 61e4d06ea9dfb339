//! Brings a tree into the home: staging, one rename, a record, and the removal of what a killed process
//! left behind. Blocks on the file system.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use crate::error::{Error, io_at};
use crate::tree;

/// Bytes of a record: about 200 for each of 10,000 files, with long paths.
const MAX_RECORD: u64 = 16 << 20;
/// Records of one kind.
const MAX_RECORDS: usize = 10_000;

pub(crate) const STAGING: &str = ".staging";

/// Creates a folder and its parents, private to their owner where they do not exist.
pub(crate) fn create_folder(path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io_at(path))
}

/// A folder for one operation, on the file system of the home. Deleted when it is dropped.
pub(crate) fn staging(root: &Path) -> Result<TempDir, Error> {
    let folder = root.join(STAGING);
    create_folder(&folder)?;
    tempfile::tempdir_in(&folder).map_err(io_at(&folder))
}

/// Puts the folder `from` at `to`, whose parent is created. Replaces what is there in one step; that is
/// at `from` afterwards.
pub(crate) fn place(from: &Path, to: &Path) -> Result<(), Error> {
    let parent = to.parent().unwrap_or(to);
    create_folder(parent)?;
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::EXIST) => {
            rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE)
                .map_err(io_at(to))?;
        }
        renamed => renamed.map_err(io_at(to))?,
    }
    tree::sync(parent)
}

/// Writes a record in one step.
pub(crate) fn write_record(
    path: &Path,
    record: &impl Serialize,
    staging: &Path,
) -> Result<(), Error> {
    let parent = path.parent().unwrap_or(path);
    create_folder(parent)?;
    let bytes = serde_json::to_vec_pretty(record)
        .map_err(|error| io_at(path)(std::io::Error::from(error)))?;
    let mut file = tempfile::NamedTempFile::new_in(staging).map_err(io_at(staging))?;
    file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).map_err(io_at(path))?;
    file.persist(path).map_err(|error| io_at(path)(error.error))?;
    sync_folder(parent)
}

/// Removes a record, if it exists.
pub(crate) fn remove_record(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_at(path)(error)),
        _ => sync_folder(path.parent().unwrap_or(path)),
    }
}

fn sync_folder(path: &Path) -> Result<(), Error> {
    let opened = crate::beneath::open_folder(path)?;
    File::from(opened).sync_all().map_err(io_at(path))
}

pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let opened = match files::open_without_links(path) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened,
    };
    let bytes = opened.and_then(|opened| opened.read(path, MAX_RECORD));
    let bytes = bytes.map_err(|error| io_at(path)(error.into_io()))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        Error::refused(
            path,
            format!("the record is damaged: {error}; delete it, and install again"),
        )
    })
}

/// All records of a folder, sorted by name.
pub(crate) fn read_records<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, Error> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_at(folder))?,
    };
    let paths = entries.flatten().map(|entry| entry.path()).take(MAX_RECORDS);
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    paths.sort();
    paths.iter().filter_map(|path| read_record(path).transpose()).collect()
}

/// Deletes what no record names: the staging folders, and each folder that is `depth` levels below
/// `folder` and not in `kept`.
pub(crate) fn clean(
    root: &Path,
    folder: &Path,
    depth: usize,
    kept: &HashSet<PathBuf>,
) -> Result<(), Error> {
    for path in entries(&root.join(STAGING))? {
        delete(&path)?;
    }
    clean_level(folder, depth, kept)
}

fn clean_level(folder: &Path, depth: usize, kept: &HashSet<PathBuf>) -> Result<(), Error> {
    for path in entries(folder)? {
        if kept.contains(&path) {
            continue;
        }
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder && depth > 1 {
            clean_level(&path, depth - 1, kept)?;
            // Stays if it is not empty.
            let _ = std::fs::remove_dir(&path);
        } else {
            delete(&path)?;
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            Ok(entries.map_err(io_at(folder))?.flatten().map(|entry| entry.path()).collect())
        }
    }
}

/// Deletes a file, a link or a folder with its contents. Follows no link.
fn delete(path: &Path) -> Result<(), Error> {
    let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let deleted =
        if is_folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    deleted.map_err(io_at(path))
}
