//! Errors and warnings about a configuration, each with the line of the file and a mark under the mistake.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::origin::Origin;
use crate::renamed::written_key;

/// Why a configuration cannot be used or changed. Every message names the place, the key and what
/// to do next.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A file exists and cannot be read.
    #[error("{}: cannot read the configuration: {cause}{}", path.display(), next_step(cause.kind()))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: Arc<std::io::Error>,
    },
    /// Something other than a file is where the file belongs.
    #[error("{}: it is {kind}, so it cannot hold the configuration; move it away or delete it", path.display())]
    NotAFile {
        /// The place.
        path: PathBuf,
        /// The kind of file.
        kind: files::FileKind,
    },
    /// A file is larger than [`crate::MAX_FILE_BYTES`].
    #[error("{}: the configuration has more than {limit} bytes; shorten it", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        limit: u64,
    },
    /// A file is not TOML.
    #[error("{origin}: not valid TOML: {message}")]
    Syntax {
        /// The place.
        origin: Origin,
        /// The parser's message.
        message: String,
    },
    /// A `-c` argument is malformed.
    #[error("-c {argument}: {message}; write it as `-c key=value`, as in `-c model=\"name\"`")]
    Argument {
        /// The argument.
        argument: String,
        /// The mistake.
        message: String,
    },
    /// A value has the wrong type or is out of bounds.
    #[error(transparent)]
    Invalid(Box<Invalid>),
    /// Several mistakes, in the order of the files and lines.
    #[error("{}", summary(errors))]
    Several {
        /// At least two.
        errors: Vec<Error>,
    },
    /// A value matches its key and still cannot be used.
    #[error("{origin}: `{key}`: {message}")]
    Refused {
        /// The place.
        origin: Origin,
        /// The full dotted key.
        key: String,
        /// The mistake and its remedy.
        message: String,
    },
    /// A variable of the environment that cannot be used.
    #[error("the environment: {message}")]
    Environment {
        /// The variable, the mistake and its remedy.
        message: String,
    },
    /// A key that does not exist, where that is an error.
    #[error("{}: `{}`: there is no such key{}; {}", warning.origin, warning.key, strictness.as_str(), warning.message)]
    UnknownKey {
        /// The warning that it would be elsewhere.
        warning: Box<Warning>,
        /// Why it is an error here.
        strictness: Strictness,
    },
    /// Requirements that no configuration can satisfy.
    #[error("{origin}: {message}")]
    Requirements {
        /// Where the requirement was written.
        origin: Origin,
        /// The requirement that cannot be satisfied, and the remedy.
        message: String,
    },
    /// An edit that cannot be made.
    #[error("{message}")]
    Edit {
        /// The mistake, with the key.
        message: String,
    },
    /// The file to edit changed since the caller read it.
    #[error(
        "the file has version {found}, not {expected}: another program changed it; read it again"
    )]
    Conflict {
        /// The version that the caller knows.
        expected: String,
        /// The version of the file.
        found: String,
    },
    /// Another writer holds the lock of the file to edit.
    #[error("{}: another program has held the lock for {} s; try again", path.display(), held_for.as_secs())]
    Busy {
        /// The lock.
        path: PathBuf,
        /// The time that this program waited.
        held_for: Duration,
    },
    /// The operating system does not let the file be written.
    #[error("{}: cannot {action}: {cause}{}", path.display(), next_step(cause.kind()))]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operation that failed.
        action: &'static str,
        /// The cause.
        cause: Arc<std::io::Error>,
    },
}

impl Error {
    /// A mistake in the value of `key`, which was written at `origin`.
    #[must_use]
    pub fn at(origin: &Origin, key: &str, message: impl Into<String>) -> Self {
        Self::refused(origin, key.to_owned(), message)
    }

    pub(crate) fn refused(origin: &Origin, key: String, message: impl Into<String>) -> Self {
        let key = written_key(&key, origin);
        Error::Refused { origin: origin.clone(), key, message: message.into() }
    }

    /// One error for all of these; `None` if there are none.
    pub fn of_all(errors: impl IntoIterator<Item = Error>) -> Option<Self> {
        let mut errors: Vec<Error> = errors.into_iter().flat_map(Error::each).collect();
        let place = |error: &Error| {
            let range = error.origin().and_then(Origin::range);
            (error.origin().map(Origin::layer), range.map(|range| range.start))
        };
        errors.sort_by_key(place);
        errors.dedup_by(|one, other| one.origin() == other.origin() && one.gist() == other.gist());
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(Self::Several { errors }),
        }
    }

    /// The single mistakes.
    pub fn each(self) -> Vec<Error> {
        match self {
            Self::Several { errors } => errors,
            one => vec![one],
        }
    }

    /// The key and the mistake without its place, to recognize the mistake in a changed file.
    pub fn gist(&self) -> (Option<&str>, String) {
        match self {
            Self::Invalid(invalid) => {
                (Some(&invalid.key), format!("{} {}", invalid.expected, invalid.found))
            }
            Self::Syntax { message, .. } => (None, message.clone()),
            Self::Refused { key, message, .. } => (Some(key), message.clone()),
            other => (None, other.to_string()),
        }
    }

    /// Where the mistake was written, if it was written somewhere.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Error::Several { errors } => errors.first()?.origin(),
            Error::Syntax { origin, .. }
            | Error::Refused { origin, .. }
            | Error::Requirements { origin, .. } => Some(origin),
            Error::Invalid(invalid) => Some(&invalid.origin),
            Error::UnknownKey { warning, .. } => Some(&warning.origin),
            Error::Read { .. }
            | Error::NotAFile { .. }
            | Error::TooLarge { .. }
            | Error::Argument { .. }
            | Error::Environment { .. }
            | Error::Edit { .. }
            | Error::Conflict { .. }
            | Error::Busy { .. }
            | Error::Write { .. } => None,
        }
    }

    /// The file that the error is about, if it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Read { path, .. }
            | Error::NotAFile { path, .. }
            | Error::TooLarge { path, .. }
            | Error::Busy { path, .. }
            | Error::Write { path, .. } => Some(path),
            other => other.origin()?.path(),
        }
    }

    /// The message, followed by the line of the file with a mark under the mistake.
    pub fn diagnostic(&self) -> String {
        match self {
            Self::Several { errors } => {
                let all: Vec<String> = errors.iter().map(Error::diagnostic).collect();
                all.join("\n\n")
            }
            one => diagnostic(&one.to_string(), one.origin()),
        }
    }
}

/// The first of several mistakes, and how many more there are.
fn summary(errors: &[Error]) -> String {
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    let more = errors.len().saturating_sub(1);
    let noun = if more == 1 { "mistake" } else { "mistakes" };
    format!("{first} (and {more} more {noun}; `agentd config check` lists them all)")
}

/// Why a key that does not exist is an error and not a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// `--strict-config`.
    Option,
    /// The key is a requirement.
    Requirement,
    /// The key was to be set.
    Edit,
}

impl Strictness {
    fn as_str(self) -> &'static str {
        match self {
            Self::Option => ", which `--strict-config` does not permit",
            Self::Requirement => ", and an unknown requirement would have no effect",
            Self::Edit => "",
        }
    }
}

/// The advice about an error of the system, to append to its message.
fn next_step(kind: std::io::ErrorKind) -> &'static str {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::PermissionDenied => "; check the permissions of the file and its folder",
        ErrorKind::ReadOnlyFilesystem => "; make the file system writable",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "; free some space, then try again",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "; a part of the path is a file: move it away"
        }
        ErrorKind::InvalidData => "; save it as UTF-8 text",
        // The message of `files` contains advice.
        ErrorKind::TimedOut => "",
        _ => "; check the file and its folder, then try again",
    }
}

/// A value that its key does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: `{key}` must be {expected}, found {found}{}", hint(suggestion.as_deref()))]
pub struct Invalid {
    /// Where the value was written.
    pub origin: Origin,
    /// The full dotted key.
    pub key: String,
    /// The values that the key accepts.
    pub expected: String,
    /// The value in the file.
    pub found: String,
    /// A known name or key that resembles what was written.
    pub suggestion: Option<String>,
}

impl Invalid {
    /// The mistake without its place and key.
    pub(crate) fn mistake(&self) -> String {
        let Self { expected, found, suggestion, .. } = self;
        format!("must be {expected}, found {found}{}", hint(suggestion.as_deref()))
    }
}

/// A mistake that does not prevent the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where the key was written.
    pub origin: Origin,
    /// The full dotted key.
    pub key: String,
    /// The mistake and its remedy, one sentence; for a key that does not exist, only the remedy.
    pub message: String,
    /// The subject of the warning.
    pub kind: WarningKind,
}

/// The subject of a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningKind {
    /// The key does not exist. Elsewhere this is [`Error::UnknownKey`].
    Unknown,
    /// The key has no effect until the program has this part.
    Pending(&'static str),
    /// The key or value still works, but has a replacement.
    Deprecated,
    /// This layer may not set the key.
    Ignored,
    /// A requirement replaced the value.
    Replaced,
    /// The value cannot be used and is left out, or the part of the file that contains it is.
    LeftOut,
    /// The value has another form than its key accepts, and counts as the value that it stands for.
    Converted,
    /// Anything else.
    Note,
}

impl Warning {
    /// A warning about `key`, which was written at `origin`.
    #[must_use]
    pub fn at(origin: &Origin, key: &str, message: impl Into<String>, kind: WarningKind) -> Self {
        let key = written_key(key, origin);
        Self { origin: origin.clone(), key, message: message.into(), kind }
    }

    /// The message, followed by the line of the file with a mark under the mistake.
    pub fn diagnostic(&self) -> String {
        diagnostic(&self.to_string(), Some(&self.origin))
    }

    /// Returns whether it names a part of an installed plugin that is left out.
    #[must_use]
    pub fn is_of_plugin(&self) -> bool {
        matches!(self.origin, Origin::Folder(_)) && self.key.starts_with("plugins.")
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, key, message, kind } = self;
        match kind {
            WarningKind::Unknown => {
                write!(f, "{origin}: `{key}`: there is no such key, so it is ignored; {message}")
            }
            _ => write!(f, "{origin}: `{key}`: {message}"),
        }
    }
}

fn diagnostic(message: &str, origin: Option<&Origin>) -> String {
    match origin.and_then(Origin::range) {
        Some(range) => format!("{message}\n{}", range.snippet()),
        None => message.to_owned(),
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default()
}
