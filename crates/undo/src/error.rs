//! Why a folder cannot be tracked, or its files not be restored.

use std::io;
use std::path::{Path, PathBuf};

/// The reason why a folder cannot be tracked, or its files cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database of the home.
    #[error("the undo database {}: {cause}", path.display())]
    Database { path: PathBuf, cause: rusqlite::Error },
    /// A folder or a file of it.
    #[error("{doing} {}: {cause}", path.display())]
    Io { path: PathBuf, doing: &'static str, cause: io::Error },
    #[error(
        "{} holds more than {} files and folders that are not ignored; undo does not cover it",
        root.display(),
        crate::MAX_ENTRIES
    )]
    TooManyEntries { root: PathBuf },
    #[error(
        "{} holds more than {} MiB of files that are not ignored; undo does not cover it",
        root.display(),
        crate::MAX_TOTAL_BYTES >> 20
    )]
    TooManyBytes { root: PathBuf },
    /// The contents are not in the database, or differ from their digest.
    #[error("the kept contents of {} are missing or damaged; the file stays as it is", path.display())]
    MissingContents { path: PathBuf },
    /// The database was written by a later version.
    #[error("the undo database {} was written by a newer version of this program", path.display())]
    NewerDatabase { path: PathBuf },
    /// The database was written before the first release of undo.
    #[error(
        "the undo database {} was written by an earlier development version of this program; delete the \
         file: the turns in it can then no longer be undone",
        path.display()
    )]
    OlderDatabase { path: PathBuf },
    #[error(
        "some of what the turns changed could not be recorded (a warning said why), so that undoing \
         them would be incomplete"
    )]
    Unrecorded,
    #[error(
        "no changes of turn {turn} are on record: it ended before undo was switched on, in another home, \
         or too long ago"
    )]
    UnknownTurn { turn: String },
    /// A fork shows the turns of its parent, which are not its own.
    #[error("turn {turn} ran in thread {thread}, which this thread is a fork of")]
    OtherThread { turn: String, thread: String },
}

impl Error {
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Error::Io { path: path.to_owned(), doing, cause }
    }
}
