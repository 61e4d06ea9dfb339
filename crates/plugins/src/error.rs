//! Faults of a plugin or a marketplace, and the errors of operations.

use std::io;
use std::path::{Path, PathBuf};

/// A fault of a file or folder of a plugin or marketplace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {message}", visible::path(.path), line_suffix(*.line))]
pub struct Problem {
    pub path: PathBuf,
    /// Line of the file, from 1, where it is known.
    pub line: Option<usize>,
    pub message: String,
}

fn line_suffix(line: Option<usize>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}

impl Problem {
    pub(crate) fn new(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { path: path.into(), line: None, message: message.into() }
    }

    /// The fault of a file of the folder `from`, as one of the same file of `to`.
    #[must_use]
    pub fn moved(self, from: &Path, to: &Path) -> Self {
        Self { path: moved(&self.path, from, to), ..self }
    }
}

/// Why an operation failed. Nothing was changed unless the error says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that breaks a rule or a bound.
    #[error("{0}")]
    Refused(Problem),
    /// An argument that cannot be used: a source, a name, a reference.
    #[error("{0}")]
    Invalid(String),
    /// No marketplace or plugin of this name.
    #[error("{0}")]
    NotFound(String),
    /// The caller does not allow it.
    #[error("{0}")]
    Forbidden(String),
    /// git failed, or its result was refused.
    #[error("{}: {message}", visible::text(.url))]
    Git { url: String, message: String },
    /// Another process works on the plugins.
    #[error(
        "{}: another process is changing the plugins; try again when it has ended", .0.display()
    )]
    Busy(PathBuf),
    /// The operating system reports an error.
    #[error("{}: {cause}", visible::path(.path))]
    Io { path: PathBuf, cause: io::Error },
}

impl Error {
    pub(crate) fn refused(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self::Refused(Problem::new(path, message))
    }

    /// The error about a file of the folder `from`, as one about the same file of `to`.
    pub(crate) fn moved(self, from: &Path, to: &Path) -> Self {
        match self {
            Self::Refused(problem) => Self::Refused(problem.moved(from, to)),
            Self::Io { path, cause } => Self::Io { path: moved(&path, from, to), cause },
            other => other,
        }
    }

    /// As the fault of a file: of the one that the error names, or else of `path`.
    #[must_use]
    pub fn into_problem(self, path: &Path) -> Problem {
        match self {
            Self::Refused(problem) => problem,
            Self::Io { path, cause } => Problem::new(path, cause.to_string()),
            other => Problem::new(path, other.to_string()),
        }
    }

    pub(crate) fn git(url: &str, message: impl Into<String>) -> Self {
        Self::Git { url: url.to_owned(), message: message.into() }
    }
}

fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => path.to_owned(),
    }
}

/// Converts errors of the operating system about `path`.
pub(crate) fn io_at<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Error {
    let path = path.to_owned();
    move |cause| Error::Io { path, cause: cause.into() }
}
