//! The error of this crate: its kind, and a message that says what is wrong with a patch, where, and
//! what to do next. Callers decide by the kind; people and models read the message.

use std::fmt;
use std::path::Path;

/// Why a text is not a patch, or why a patch does not apply. Nothing of the patch applies then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not a patch.
    Syntax,
    /// A hunk has no lines, or an update has no hunks.
    EmptyHunk,
    /// A file cannot be read.
    Read,
    /// A file to change or delete does not exist.
    FileNotFound,
    /// Two operations on a file contradict each other.
    ContradictingOperations,
    /// The line after `@@` is not in the file, and nothing else determines the position of the hunk.
    AnchorNotFound,
    /// The lines of a hunk are not in the file.
    LinesNotFound,
    /// The lines of a hunk are in the file, but not where the patch places them, and several
    /// positions are possible.
    Ambiguous,
    /// The lines of a hunk are in the file, before the position where they are expected.
    OutOfOrder,
    /// Finding the hunks of a file takes too long.
    TooCostly,
}

impl Error {
    /// `line` counts from 1 in the text as given; `None` if the error concerns the whole text.
    pub(crate) fn syntax(line: Option<usize>, message: impl Into<String>) -> Self {
        Self::at_line(ErrorKind::Syntax, line, message.into())
    }

    /// As [`Error::syntax`], about a hunk or an update without changes.
    pub(crate) fn empty_hunk(line: usize, message: impl Into<String>) -> Self {
        Self::at_line(ErrorKind::EmptyHunk, Some(line), message.into())
    }

    /// The error about a file that cannot be read; `why` may name the path.
    pub fn read(path: &Path, why: impl Into<String>) -> Self {
        let (path, why) = (path.display().to_string(), why.into());
        let message = if why.starts_with(&path) { why } else { format!("{path}: {why}") };
        Self { kind: ErrorKind::Read, message }
    }

    pub(crate) fn file_not_found(path: &str) -> Self {
        let message = format!("{path}: there is no such file; check the path");
        Self { kind: ErrorKind::FileNotFound, message }
    }

    pub(crate) fn contradicting_operations(path: &str) -> Self {
        let message = format!(
            "{path}: named by two operations of one patch that are not both updates; put all \
             changes of a file into one operation"
        );
        Self { kind: ErrorKind::ContradictingOperations, message }
    }

    pub(crate) fn too_costly(path: &str) -> Self {
        let message = format!(
            "{path}: applying the patch takes too long; split it, or repeat the file's lines exactly"
        );
        Self { kind: ErrorKind::TooCostly, message }
    }

    /// Hunk `number` of the file, from 1, has no position.
    pub(crate) fn mismatch(path: &str, number: usize, mismatch: &Mismatch) -> Self {
        let Mismatch { kind, line, why } = mismatch;
        let message = format!("{path}: hunk {number}, line {line} of the patch: {why}");
        Self { kind: *kind, message }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    fn at_line(kind: ErrorKind, line: Option<usize>, message: String) -> Self {
        let message = match line {
            Some(line) => format!("line {line}: {message}"),
            None => message,
        };
        Self { kind, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Why a hunk has no position in a file; [`Error::mismatch`] adds the path and the hunk.
pub(crate) struct Mismatch {
    pub(crate) kind: ErrorKind,
    /// The first line of the patch that does not match, from 1, counted in the text as given.
    pub(crate) line: usize,
    /// Which lines were not found, what the file has instead, and how to correct the patch.
    pub(crate) why: String,
}
