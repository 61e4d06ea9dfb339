//! Reads the pages of a database file and its write-ahead log without SQLite. An unreadable page
//! does not affect others. Does not know the contents of pages.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::log::Log;
use crate::StoreError;

/// Page size of every store, whatever a damaged header contains.
pub(super) const PAGE: usize = 4096;

/// The content of one page.
pub(super) type Page = [u8; PAGE];

/// A database and its log; pages in the log replace those in the database.
pub(super) struct Pages {
    database: Option<File>,
    log: Option<File>,
    /// The position of the latest committed version of each page in the log.
    logged: HashMap<u32, u64>,
    count: u32,
}

impl Pages {
    /// Opens the files; each may be missing.
    pub(super) fn open(database: &Path, log: &Path) -> Result<Self, StoreError> {
        let file = open(database)?;
        let bytes = match &file {
            Some(file) => {
                file.metadata().map_err(|error| StoreError::io("read", database, error))?.len()
            }
            None => 0,
        };
        let mut count = u32::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        let logged = Log::read(log)?.into_pages();
        count = logged.keys().copied().fold(count, u32::max);
        Ok(Self { database: file, log: open(log)?, logged, count })
    }

    /// Number of pages; the first one is page 1.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The content of a page. Beyond the end of the file, it is zeros.
    ///
    /// # Errors
    /// The disk reports a read error.
    pub(super) fn read(&self, page: u32) -> io::Result<Page> {
        let mut content = [0; PAGE];
        match (self.logged.get(&page), &self.log, &self.database) {
            (Some(at), Some(log), _) => read_at(log, *at, &mut content)?,
            (_, _, Some(database)) => {
                read_at(database, u64::from(page.saturating_sub(1)) * PAGE as u64, &mut content)?;
            }
            _ => {}
        }
        Ok(content)
    }
}

/// Opens a file for reading; `None` if it does not exist.
pub(super) fn open(path: &Path) -> Result<Option<File>, StoreError> {
    match files::open(path) {
        Ok(opened) => Ok(Some(opened.file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(StoreError::io("open", path, error.into_io())),
    }
}

/// Reads the bytes that exist at this position.
fn read_at(mut file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let mut done = 0;
    while done < into.len() {
        match file.read(&mut into[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(())
}
