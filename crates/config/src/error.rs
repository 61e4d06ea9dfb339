//! What can be wrong with a configuration and where: errors that stop a start, warnings that do not,
//! and the line of the file with a mark under the place.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::layer_name::LayerName;

/// A file that was read, kept for messages.
#[derive(Debug)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The layer that it is.
    pub layer: LayerName,
}

/// A place in a file: of a value, and of the key that it belongs to. Byte offsets.
#[derive(Clone)]
pub struct Place {
    pub(crate) file: Arc<SourceFile>,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) key: Option<(usize, usize)>,
}

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File(Place),
    /// A `-c key=value` argument, kept as the person typed its key.
    CommandLine {
        /// The key.
        key: Arc<str>,
    },
    /// A folder, in what is said about a project.
    Folder(PathBuf),
    /// `experimentalFeature/enablement/set`.
    Process,
    /// The `config` map of a `thread/start`, `thread/resume` or `thread/fork` request.
    Thread,
}

impl Place {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Line and column, both from 1; the column counts characters.
    pub fn line_column(&self) -> (usize, usize) {
        self.position(self.start)
    }

    /// The same of the end of what is marked.
    pub fn end_line_column(&self) -> (usize, usize) {
        self.position(self.end)
    }

    fn position(&self, at: usize) -> (usize, usize) {
        let before = self.file.text.get(..at).unwrap_or(&self.file.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        (line, 1 + before[line_start..].chars().count())
    }

    /// The line, and under it a mark below the place.
    pub fn snippet(&self) -> String {
        let (line, column) = self.line_column();
        let text = self.file.text.lines().nth(line - 1).unwrap_or_default();
        // A very long line is shown around the place only.
        let skipped = column.saturating_sub(SHOWN / 2);
        let shown: String = text
            .chars()
            .skip(skipped)
            .take(SHOWN)
            .map(|c| if c == '\t' { ' ' } else { c })
            .filter(|c| !c.is_control())
            .collect();
        let room = shown.chars().count().saturating_sub(column - 1 - skipped).max(1);
        let marked = self.file.text.get(self.start..self.end).unwrap_or_default();
        let marks = marked.lines().next().unwrap_or_default().chars().count().clamp(1, room);
        let number = line.to_string();
        let gap = " ".repeat(number.len());
        let indent = " ".repeat(column - 1 - skipped);
        format!("{gap} |\n{number} | {shown}\n{gap} | {indent}{}", "^".repeat(marks))
    }
}

/// Characters of a line that a snippet shows.
const SHOWN: usize = 120;

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        (&self.file.path, self.start, self.end) == (&other.file.path, other.start, other.end)
    }
}

impl Eq for Place {}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.file.path.display())
    }
}

impl Origin {
    /// The file, when it is one.
    pub fn path(&self) -> Option<&Path> {
        self.place().map(|place| place.file.path.as_path())
    }

    /// The place in a file, when it is one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Origin::File(place) => Some(place),
            _ => None,
        }
    }

    /// The layer that the value belongs to.
    pub fn layer(&self) -> LayerName {
        match self {
            Origin::File(place) => place.file.layer.clone(),
            Origin::CommandLine { .. } | Origin::Process | Origin::Folder(_) => {
                LayerName::SessionFlags
            }
            Origin::Thread => LayerName::Thread,
        }
    }

    /// The same with the mark at the key.
    pub(crate) fn at_key(&self) -> Origin {
        match self {
            Origin::File(place) => {
                let (start, end) = place.key.unwrap_or((place.start, place.end));
                Origin::File(Place { start, end, ..place.clone() })
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File(place) => write!(f, "{place:?}"),
            Origin::CommandLine { key } => write!(f, "-c {key}=…"),
            Origin::Folder(folder) => write!(f, "{}", folder.display()),
            Origin::Process => write!(f, "experimentalFeature/enablement/set"),
            Origin::Thread => write!(f, "the thread's `config`"),
        }
    }
}

/// A configuration that cannot be used. Every message names the place, the key and the way out.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A file that exists and cannot be read.
    #[error("{}: cannot read the configuration ({source}); check the file's permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// A file beyond [`crate::MAX_FILE_BYTES`].
    #[error("{}: the configuration has more than {limit} bytes; remove what is not configuration", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound.
        limit: u64,
    },
    /// Not TOML.
    #[error("{origin}: this is not TOML: {message}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What the parser says.
        message: String,
    },
    /// A `-c` argument that is none.
    #[error("-c {argument}: {message}; write it as `-c key=value`, as in `-c model=\"name\"`")]
    Argument {
        /// As it was given.
        argument: String,
        /// What is wrong.
        message: String,
    },
    /// A value of the wrong type or beyond its bounds.
    #[error(transparent)]
    Invalid(Box<Invalid>),
    /// A value that fits its key and still cannot be used.
    #[error("{origin}: `{key}`: {message}")]
    Refused {
        /// Where.
        origin: Origin,
        /// The full dotted key.
        key: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// Something that only `--strict-config` refuses.
    #[error("{0}")]
    Strict(Warning),
    /// Requirements that nothing can satisfy.
    #[error("{origin}: {message}")]
    Requirements {
        /// Where the requirement stands.
        origin: Origin,
        /// What cannot be satisfied and what to do.
        message: String,
    },
}

impl Error {
    /// Where it is, when that is a place.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Error::Syntax { origin, .. }
            | Error::Refused { origin, .. }
            | Error::Requirements { origin, .. } => Some(origin),
            Error::Invalid(invalid) => Some(&invalid.origin),
            Error::Strict(warning) => Some(&warning.origin),
            Error::Read { .. } | Error::TooLarge { .. } | Error::Argument { .. } => None,
        }
    }

    /// The file, when it is about one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Error::Read { path, .. } | Error::TooLarge { path, .. } => Some(path),
            other => other.origin()?.path(),
        }
    }

    /// The message with the line of the file and a mark under the place.
    pub fn diagnostic(&self) -> String {
        diagnostic(&self.to_string(), self.origin())
    }
}

/// A value that its key does not take.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{origin}: `{key}` must be {expected}, found {found}{}", hint(suggestion.as_deref()))]
pub struct Invalid {
    /// Where the value was written.
    pub origin: Origin,
    /// The full dotted key.
    pub key: String,
    /// What the key takes.
    pub expected: String,
    /// What was written.
    pub found: String,
    /// A known name or key that is close to what was written.
    pub suggestion: Option<String>,
}

/// Something that does not stop a start, said once so that nobody believes in an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where the key was written.
    pub origin: Origin,
    /// The full dotted key.
    pub key: String,
    /// What is the matter and what to do, one sentence.
    pub message: String,
    /// What it is about.
    pub kind: WarningKind,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarningKind {
    /// No such key; an error with `--strict-config`.
    Unknown,
    /// The key waits for this part of the program.
    NotYet(&'static str),
    /// The key or value works and should not be written any more.
    Deprecated,
    /// The value is not taken from this place.
    Ignored,
    /// A requirement replaced the value.
    Replaced,
    /// Anything else.
    Note,
}

impl Warning {
    /// The message with the line of the file and a mark under the place.
    pub fn diagnostic(&self) -> String {
        diagnostic(&self.to_string(), Some(&self.origin))
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.origin, self.key, self.message)
    }
}

fn diagnostic(message: &str, origin: Option<&Origin>) -> String {
    match origin.and_then(Origin::place) {
        Some(place) => format!("{message}\n{}", place.snippet()),
        None => message.to_owned(),
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default()
}
