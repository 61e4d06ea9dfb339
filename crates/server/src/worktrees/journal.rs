//! The journal of a merge that is under way, and the lock of a repository's worktrees: two files in the folder
//! that has these. A journal without a holder of the lock is that of a program that was killed. Waits for the
//! file system.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::unusable;
use super::index::remove_if_there;
use services::error::Error;

/// Larger files are no journals.
const MAX_BYTES: u64 = 64 * 1024;
const VERSION: u32 = 1;
const JOURNAL: &str = ".merge";
const DRAFT: &str = ".merge.new";
const LOCK: &str = ".lock";

/// A working folder with its git folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkingFolder {
    pub(super) root: PathBuf,
    pub(super) own: PathBuf,
}

/// The commit of what was uncommitted in the worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewCommit {
    pub(super) folder: WorkingFolder,
    pub(super) from: String,
    pub(super) to: String,
}

/// A merge that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Journal {
    pub(super) version: u32,
    /// The contents of its locks.
    pub(super) token: String,
    /// The user's checkout that the worktree was made from.
    pub(crate) repository: PathBuf,
    pub(super) common: PathBuf,
    /// The ref that moves on.
    pub(super) reference: String,
    pub(super) from: String,
    pub(super) to: String,
    /// The user's checkout, if it has that branch.
    pub(super) checkout: Option<WorkingFolder>,
    pub(super) commit: Option<NewCommit>,
    /// The ref that keeps the commits of a squash, and its commit.
    pub(super) kept: Option<(String, String)>,
}

impl Journal {
    /// An empty one.
    pub(super) fn new(repository: PathBuf, common: PathBuf, token: String) -> Self {
        Self {
            version: VERSION,
            token,
            repository,
            common,
            reference: String::new(),
            from: String::new(),
            to: String::new(),
            checkout: None,
            commit: None,
            kept: None,
        }
    }

    /// Writes it into the folder of the worktrees: whole, or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<(), Error> {
        let (file, draft) = (folder.join(JOURNAL), folder.join(DRAFT));
        let json = serde_json::to_vec(self).expect("paths that are text");
        let write = || -> io::Result<()> {
            remove_if_there(&draft)?;
            let mut open = File::create_new(&draft)?;
            open.write_all(&json)?;
            open.sync_all()?;
            std::fs::rename(&draft, &file)
        };
        write().map_err(|error| unusable(&file, &error))
    }

    /// That of the folder of worktrees, if there is one.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let file = folder.join(JOURNAL);
        let opened = files::open_without_links(&file).and_then(|open| open.read(&file, MAX_BYTES));
        let bytes = match opened {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let unreadable = |error: &dyn std::fmt::Display| {
            let message = format!("worktrees: {} cannot be read: {error}", file.display());
            Error::failed(message)
                .next_step("look at the checkout with `git status`, then remove that file")
        };
        let journal: Self = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
        match journal.version > VERSION {
            true => Err(unreadable(&"a newer program wrote it")),
            false => Ok(Some(journal)),
        }
    }

    /// Returns whether the folder of worktrees has one.
    pub(crate) fn is_there(folder: &Path) -> bool {
        folder.join(JOURNAL).symlink_metadata().is_ok()
    }

    pub(super) fn delete(folder: &Path) -> Result<(), Error> {
        let file = folder.join(JOURNAL);
        remove_if_there(&file).map_err(|error| unusable(&file, &error))
    }
}

/// Takes the lock of a repository's worktrees, which ends with the file; `None` if another program has it.
pub(crate) fn try_lock(folder: &Path) -> Result<Option<File>, Error> {
    let path = folder.join(LOCK);
    let opened = files::append_without_links(&path)?;
    match opened.file.try_lock() {
        Ok(()) => Ok(Some(opened.file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unusable(&path, &error)),
    }
}
