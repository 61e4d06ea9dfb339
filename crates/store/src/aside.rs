//! Puts a damaged database out of the way, with all its files, so that nothing of it is lost and
//! work can go on.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{StoreError, owner};

/// Renames the database and its log files, and tells where it is now. Does nothing while another
/// store is open in the folder: that one may be writing to it.
pub(crate) fn put(path: &Path, owners: &Path, now_ms: i64) -> Result<Option<PathBuf>, StoreError> {
    if !owner::living(owners, "")?.is_empty() {
        return Ok(None);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".damaged-{now_ms}"));
    let target = path.with_file_name(name);
    // The log first: with the database in its old place and no log, a crash in between would make
    // it look older than it is. With the log gone too it is still damaged, and set aside again.
    for suffix in ["-wal", "-shm", ""] {
        let (from, to) = (with_suffix(path, suffix), with_suffix(&target, suffix));
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.map_err(|error| StoreError::io("set aside", &from, error))?,
        }
    }
    Ok(Some(target))
}

/// Whether a file begins as a database does, so that SQLite may be let near it: it removes the log
/// of a file that it cannot read. Only while no store is open in the folder: closing the file lets
/// go of the locks that another one in this process holds.
pub(crate) fn check_header(path: &Path, owners: &Path) -> Result<(), StoreError> {
    if !path.exists() || !owner::living(owners, "")?.is_empty() {
        return Ok(());
    }
    let mut header = [0; 20];
    let mut file = File::open(path).map_err(|error| StoreError::io("open", path, error))?;
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err(StoreError::io("read", path, error))
        }
        _ if path.metadata().is_ok_and(|metadata| metadata.len() == 0) => Ok(()),
        _ => {
            let detail = "it does not begin as a database does".to_owned();
            Err(StoreError::Corrupt { path: path.to_owned(), detail })
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
