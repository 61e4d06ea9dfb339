//! The error of this crate: its kind, what happened, and what to do next. Callers decide by the
//! kind; people read the rest.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::limits::Exceeded;

/// Why something was refused or failed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    next_step: Option<Cow<'static, str>>,
    source: Option<Arc<io::Error>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command itself is malformed: empty, too long, with a NUL byte, or in an unusable folder.
    InvalidCommand,
    /// No file has the program's name.
    ProgramNotFound,
    /// The program exists and the kernel does not execute it.
    NotExecutable,
    /// The policy cannot be enforced on this machine.
    Unavailable,
    /// The policy does not allow this path, or whether it does cannot be determined.
    Denied,
    /// A path leads elsewhere than when it was approved.
    TargetChanged,
    /// The changes contradict each other, or one of them names something that is not a file.
    InvalidChange,
    /// A change failed, and so did undoing the ones before it: files have changed.
    NotRestored,
    /// A rules file has a mistake; both positions count from 1.
    RuleSyntax {
        /// The line.
        line: usize,
        /// The column, in characters.
        column: usize,
    },
    /// A command rule has an empty part.
    InvalidRule,
    /// A required command rule allows instead of restricting.
    LaxRequirement,
    /// The amendment has no word.
    EmptyAmendment,
    /// The amendment's program is not found, or a command could replace it.
    UntrustedProgram,
    /// The amendment is no part of what was asked about.
    NotAsked,
    /// Commands that begin with the amendment could do anything.
    TooBroad,
    /// The script holds more than plain commands.
    NotAmendable,
    /// The commands of a group have used up a limit of theirs.
    LimitReached(Exceeded),
    /// Not a host pattern.
    InvalidPattern,
    /// The operating system reports an error.
    Io,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), next_step: None, source: None }
    }

    pub(crate) fn io(context: impl Into<String>, source: io::Error) -> Self {
        Self { source: Some(Arc::new(source)), ..Self::new(ErrorKind::Io, context) }
    }

    pub(crate) fn io_at(path: &Path, source: io::Error) -> Self {
        Self::io(path.display().to_string(), source)
    }

    pub(crate) fn limit(exceeded: Exceeded) -> Self {
        Self::new(
            ErrorKind::LimitReached(exceeded),
            format!("no further command can run: {exceeded}"),
        )
    }

    /// Adds what the reader can do about it.
    pub(crate) fn next_step(self, step: impl Into<Cow<'static, str>>) -> Self {
        Self { next_step: Some(step.into()), ..self }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        self.next_step.as_ref().map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

impl std::error::Error for Error {
    /// Returns the cause of the cause: the cause itself is part of the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source: &dyn std::error::Error = self.source.as_deref()?;
        source.source()
    }
}
