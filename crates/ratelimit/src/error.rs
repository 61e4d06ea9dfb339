//! The error of this crate: its kind, what happened, what to do next, and the cause. Callers decide
//! by the kind; people read the rest.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why there is no decision, in which case nothing was admitted; or why a state file cannot be
/// opened, in which case it is unchanged.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    next_step: Option<&'static str>,
    /// The address of the store, where it matters.
    address: Option<Arc<str>>,
    source: Option<Arc<io::Error>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The shared store is unreachable, and this node's lease of it is used up.
    Unreachable,
    /// The shared store, or its address, is not as the limits need it, until an operator changes it.
    Misconfigured,
    /// A bound of this process or of its disk is reached.
    Full,
    /// The shared store was restarted and may have lost spend: read the ledger, call
    /// [`crate::Limits::seed`] for this organization's spend meters, and ask again.
    Unseeded,
    /// The state file cannot be opened or read.
    StateFile,
    /// Another process has locked the state file.
    StateFileInUse,
    /// The state file is damaged or not a state file.
    StateFileDamaged,
}

impl Error {
    /// The shared store gives no answer that can be used; `why` says what is wrong with it.
    pub fn unreachable(why: impl fmt::Display) -> Self {
        let message = format!("the store of the limits does not answer: {why}");
        Self::new(ErrorKind::Unreachable, message).next_step("try again in a second")
    }

    /// The shared store is in a state that may pass; `what` completes "the store of the limits …".
    pub(crate) fn unreachable_because(what: String) -> Self {
        Self::new(ErrorKind::Unreachable, format!("the store of the limits {what}"))
    }

    /// The shared store cannot be used as it is; `what` completes "the store of the limits …".
    pub(crate) fn misconfigured(what: String) -> Self {
        Self::new(ErrorKind::Misconfigured, format!("the store of the limits {what}"))
    }

    pub(crate) fn full(why: impl fmt::Display) -> Self {
        let message = format!("the limits are full: {why}");
        Self::new(ErrorKind::Full, message).next_step("try again when fewer requests are open")
    }

    pub(crate) fn unseeded() -> Self {
        Self::new(ErrorKind::Unseeded, "the store of the limits was restarted")
            .next_step("seed the spend from the ledger, then try again")
    }

    pub(crate) fn state_file(path: &Path, source: io::Error) -> Self {
        let message = format!("the limits' state file {} cannot be used", path.display());
        let source = Some(Arc::new(source));
        Self { source, ..Self::new(ErrorKind::StateFile, message) }
    }

    pub(crate) fn state_file_in_use(path: &Path) -> Self {
        let message =
            format!("the limits' state file {} is in use by another process", path.display());
        Self::new(ErrorKind::StateFileInUse, message)
            .next_step("stop that one, or give this one a file of its own")
    }

    /// `position` is the part of the file that is damaged, `what` the damage.
    pub(crate) fn state_file_damaged(path: &Path, position: &str, what: &str) -> Self {
        let path = path.display();
        let message = format!("the limits' state file {path} cannot be read, {position}: {what}");
        Self::new(ErrorKind::StateFileDamaged, message)
            .next_step("move it away to start with all limits unused")
    }

    fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), next_step: None, address: None, source: None }
    }

    pub(crate) fn next_step(self, step: &'static str) -> Self {
        Self { next_step: Some(step), ..self }
    }

    /// Names the store.
    pub(crate) fn at(self, address: &str) -> Self {
        Self { address: Some(address.into()), ..self }
    }

    /// The message alone, which names no address: for answers to anyone.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.message
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

/// The message, the cause, and what to do next.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(address) = &self.address {
            write!(f, " ({address})")?;
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
        let source: &dyn std::error::Error = self.source.as_deref()?;
        source.source()
    }
}
