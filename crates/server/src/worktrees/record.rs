//! The record of a worktree: the file next to it. Waits for the file system.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::{record_of, unusable};
use super::index::remove_if_there;
use services::error::Error;

/// Larger files are no records.
const MAX_BYTES: u64 = 64 * 1024;
const VERSION: u32 = 1;

/// The facts about a worktree that git does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    version: u32,
    /// The branch that it was made with.
    pub(crate) branch: String,
    /// The root of the user's checkout.
    pub(crate) repository: PathBuf,
    /// The git folder that all working folders of the repository share.
    pub(crate) common: PathBuf,
    /// The commit that it began with.
    pub(crate) base: String,
    /// Unix seconds.
    pub(crate) created_at: i64,
    /// Where its thread works.
    pub(crate) cwd: PathBuf,
}

impl Record {
    pub(super) fn new(
        branch: String,
        (repository, common): (PathBuf, PathBuf),
        base: String,
        created_at: i64,
        cwd: PathBuf,
    ) -> Self {
        Self { version: VERSION, branch, repository, common, base, created_at, cwd }
    }

    /// Writes the record of the worktree `path`: whole, or not at all.
    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let file = record_of(path);
        let draft = file.with_extension("new");
        let json = serde_json::to_vec(self).expect("paths that are text");
        let write = || -> io::Result<()> {
            // Left behind by a process that was killed.
            remove_if_there(&draft)?;
            let mut open = std::fs::File::create_new(&draft)?;
            open.write_all(&json)?;
            open.sync_all()?;
            std::fs::rename(&draft, &file)
        };
        write().map_err(|error| {
            // The first error is the one to report.
            let _ = std::fs::remove_file(&draft);
            unusable(&file, &error)
        })
    }

    /// That of the worktree `path`.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let file = record_of(path);
        let bytes =
            files::open_without_links(&file).and_then(|open| open.read(&file, MAX_BYTES))?;
        let unreadable = |error: &dyn std::fmt::Display| {
            Error::failed(format!("worktrees: {} cannot be read: {error}", file.display()))
        };
        let record: Self = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
        if record.version > VERSION {
            return Err(unreadable(&"a newer program wrote it").next_step("use the newer program"));
        }
        Ok(record)
    }

    /// Deletes that of the worktree `path`.
    pub(super) fn delete(path: &Path) -> Result<(), Error> {
        let file = record_of(path);
        remove_if_there(&file).map_err(|error| unusable(&file, &error))
    }
}
