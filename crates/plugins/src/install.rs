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

use crate::claimed::{Claimed, is_abandoned};
use crate::error::{Error, Problem, io_at};
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

/// A folder for one operation, on the file system of the home. Requires the lock of the home while it is made:
/// until it is claimed, [`clean`] would take it for a leftover.
pub(crate) fn staging(root: &Path) -> Result<Claimed, Error> {
    let folder = root.join(STAGING);
    create_folder(&folder)?;
    Claimed::create(&folder, "")
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

/// Removes a record, whatever has its place, if it exists.
pub(crate) fn remove_record(path: &Path) -> Result<(), Error> {
    match delete(path) {
        Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => {}
        deleted => deleted?,
    }
    sync_folder(path.parent().unwrap_or(path))
}

fn sync_folder(path: &Path) -> Result<(), Error> {
    let opened = crate::beneath::open_folder(path)?;
    File::from(opened).sync_all().map_err(io_at(path))
}

/// A record that is kept in a file of its own.
pub(crate) trait Record: DeserializeOwned {
    /// The action that repairs a damaged one, as part of a sentence.
    const REPAIR: &'static str;

    /// The name of its file, without `.json`.
    fn stem(&self) -> &str;
}

/// The records of a kind, sorted by the names of their files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Records<T> {
    pub all: Vec<T>,
    /// The files that cannot be used, and why. They hide no other.
    pub damaged: Vec<Problem>,
}

/// `None` if there is no such file.
pub(crate) fn read_record<T: Record>(path: &Path) -> Result<Option<T>, Problem> {
    let damaged = |why: &dyn std::fmt::Display| {
        Problem::new(path, format!("the record is damaged: {why}; {}", T::REPAIR))
    };
    let opened = match files::open_without_links(path) {
        Err(error) if error.is_not_found() => return Ok(None),
        opened => opened,
    };
    let bytes = opened.and_then(|opened| opened.read(path, MAX_RECORD));
    let bytes = bytes.map_err(|error| damaged(&error.into_io()))?;
    let record: T = serde_json::from_slice(&bytes).map_err(|error| damaged(&error))?;
    match path.file_stem().is_some_and(|stem| stem == record.stem()) {
        true => Ok(Some(record)),
        false => Err(damaged(&format!("it is about `{}`", visible::text(record.stem())))),
    }
}

/// All records of a folder.
pub(crate) fn read_records<T: Record>(folder: &Path) -> Result<Records<T>, Error> {
    let mut paths = entries(folder)?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let mut records = Records { all: Vec::new(), damaged: Vec::new() };
    for path in paths.into_iter().take(MAX_RECORDS) {
        match read_record(&path) {
            Ok(record) => records.all.extend(record),
            Err(problem) => records.damaged.push(problem),
        }
    }
    Ok(records)
}

/// Deletes the staging folders of ended processes. Requires the lock of the home.
pub(crate) fn clean_staging(root: &Path) -> Result<(), Error> {
    for path in entries(&root.join(STAGING))? {
        if is_abandoned(&path, true) {
            delete(&path)?;
        }
    }
    Ok(())
}

/// Deletes each folder that is `depth` levels below `folder` and neither in `kept` nor below one that is.
pub(crate) fn clean(folder: &Path, depth: usize, kept: &HashSet<PathBuf>) -> Result<(), Error> {
    for path in entries(folder)? {
        if kept.contains(&path) {
            continue;
        }
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder && depth > 1 {
            clean(&path, depth - 1, kept)?;
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
