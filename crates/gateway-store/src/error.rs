//! The error of this crate: its kind, what happened, what to do next, and the cause. Callers decide
//! by the kind; people read the rest.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Why a call to the store has no result, or why a key is refused. Cheap to clone: one look-up of a
/// key fails for all requests that wait for it.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    detail: Option<Cow<'static, str>>,
    next_step: Option<&'static str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The store is unreachable, too slow or overloaded. A change in progress may have been made.
    Unavailable,
    /// A statement of a transaction did not affect the expected number of rows; nothing was changed.
    Unmet {
        /// Its index in the transaction.
        statement: usize,
    },
    /// The same act was committed before.
    Repeated,
    /// The record is no longer as the act expects it; nothing was changed.
    Changed,
    /// The row exists already, or a row that it refers to is missing.
    Conflict,
    /// The journal of open requests cannot be used.
    Journal,
    /// Any other error: in the statement, the file or its contents.
    Failed,
    /// A later version of the program wrote the store.
    NewerSchema {
        /// Schema version of the store.
        found: i64,
        /// Schema version of this program.
        known: i64,
    },
    /// The key does not exist, was revoked or has expired, or its project or organization has ended.
    UnknownKey,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind, detail: None, next_step: None, source: None }
    }

    /// The same call may succeed later.
    pub fn unavailable(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..Self::new(ErrorKind::Unavailable) }
    }

    /// The same call would fail again.
    pub fn failed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..Self::new(ErrorKind::Failed) }
    }

    pub(crate) fn journal(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..Self::new(ErrorKind::Journal) }
    }

    pub(crate) fn conflict(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..Self::new(ErrorKind::Conflict) }
    }

    pub(crate) fn unmet(statement: usize) -> Self {
        Self::new(ErrorKind::Unmet { statement })
    }

    pub(crate) fn repeated() -> Self {
        Self::new(ErrorKind::Repeated)
    }

    pub(crate) fn changed() -> Self {
        Self::new(ErrorKind::Changed)
    }

    pub(crate) fn newer_schema(found: i64, known: i64) -> Self {
        Self::new(ErrorKind::NewerSchema { found, known })
            .next_step("run the newer program, or restore a backup")
    }

    pub(crate) fn unknown_key() -> Self {
        Self::new(ErrorKind::UnknownKey)
    }

    /// Adds the file that it concerns.
    pub(crate) fn at(self, file: &Path) -> Self {
        let file = file.display();
        let detail = match &self.detail {
            Some(detail) => format!("{file}: {detail}"),
            None => file.to_string(),
        };
        Self { detail: Some(detail.into()), ..self }
    }

    /// Adds what the reader can do about it.
    pub(crate) fn next_step(self, step: &'static str) -> Self {
        Self { next_step: Some(step), ..self }
    }

    pub(crate) fn caused_by(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the same call may succeed later.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }
}

/// Writes the failed operation, the cause, and the next step.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Unavailable => f.write_str("the store is not available")?,
            ErrorKind::Unmet { statement } => write!(
                f,
                "statement {statement} of a transaction did not affect the expected rows"
            )?,
            ErrorKind::Repeated => f.write_str("the same act was committed before")?,
            ErrorKind::Changed => f.write_str("the record was changed in the meantime")?,
            ErrorKind::Conflict => f.write_str("the store rejects a row")?,
            ErrorKind::Journal => f.write_str("the journal of open requests cannot be used")?,
            ErrorKind::Failed => f.write_str("the store reports an error")?,
            ErrorKind::NewerSchema { found, known } => {
                write!(
                    f,
                    "the store has version {found}, and this program supports up to {known}"
                )?;
            }
            ErrorKind::UnknownKey => f.write_str("the key is not valid")?,
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        self.next_step.map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

impl std::error::Error for Error {
    /// Returns the cause of the cause: the cause itself is part of the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref()?.source()
    }
}
