//! A fault of a skill, and its place.

use std::path::PathBuf;

/// A fault of a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line_prefix(*line))]
pub struct Fault {
    /// Line of the file, from 1; `None`: of the file as a whole.
    pub line: Option<usize>,
    pub message: String,
}

fn line_prefix(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

impl Fault {
    pub(crate) fn new(line: Option<usize>, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }

    pub(crate) fn at(line: usize, message: impl Into<String>) -> Self {
        Self::new(Some(line), message)
    }

    pub(crate) fn within(self, path: impl Into<PathBuf>) -> Problem {
        Problem { path: path.into(), fault: self }
    }
}

/// A fault of a file or folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {fault}", .path.display())]
pub struct Problem {
    pub path: PathBuf,
    pub fault: Fault,
}

/// The error without the path, which the problem has.
pub(crate) fn unreadable(error: files::Error) -> Fault {
    Fault::new(None, error.into_io().to_string())
}
