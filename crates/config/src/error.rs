//! What can be wrong with a configuration and where: errors that stop a start, warnings that do not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line (from 1) of a file.
    File { path: Arc<Path>, line: usize },
    /// A `-c key=value` argument, kept as the person typed its key.
    CommandLine { key: Arc<str> },
    /// The `config` map of a `thread/start`, `thread/resume` or `thread/fork` request.
    Thread,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::CommandLine { key } => write!(f, "-c {key}=…"),
            Origin::Thread => write!(f, "the thread's `config`"),
        }
    }
}

/// A configuration that cannot be used. Every message names the place, the key and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: cannot read the configuration ({source}); check the file's permissions", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{}: the configuration has more than {limit} bytes; remove what is not configuration", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("{}:{line}:{column}: this is not TOML: {message}", path.display())]
    Syntax { path: PathBuf, line: usize, column: usize, message: String },
    #[error("-c {argument}: {message}; write it as `-c key=value`, as in `-c model=\"name\"`")]
    Argument { argument: String, message: String },
    /// A value of the wrong type or beyond its bounds.
    #[error(transparent)]
    Invalid(Box<Invalid>),
    #[error("{origin}: `{key}`: {message}")]
    Refused { origin: Origin, key: String, message: String },
}

/// A value that its key does not take.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: `{key}` must be {expected}, found {found}{}", hint(suggestion.as_deref()))]
pub struct Invalid {
    /// Where the value was written.
    pub origin: Origin,
    /// The full dotted key.
    pub key: String,
    pub expected: String,
    pub found: String,
    /// A known name or key that is close to what was written.
    pub suggestion: Option<String>,
}

/// Something that is ignored, said once so that nobody believes it has an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where the key was written.
    pub origin: Origin,
    /// The full dotted key.
    pub key: String,
    /// What is the matter and what to do, one sentence.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.origin, self.key, self.message)
    }
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map(|s| format!("; did you mean `{s}`?")).unwrap_or_default()
}
