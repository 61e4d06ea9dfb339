//! Errors by kind.

use jsonrpc::{CallError, ErrorObject, code};
use protocol::{AgentErrorInfo, TurnError};
use serde_json::Value;

use crate::Progress;

/// Longest message that an error repeats, in characters.
const SHOWN: usize = 400;
/// The versions of the server that this crate works with.
const WANTED: &str = "0.1 and later 0.x";

/// Everything that this crate returns as an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program `agentd` cannot be started.
    #[error("{0}")]
    ProgramNotFound(String),
    /// The working folder of the server that is to be started is not there.
    #[error("{0}")]
    FolderNotFound(String),
    /// A setting of the configuration has no form in TOML.
    #[error("the configuration `{key}`: {why}")]
    InvalidConfig {
        /// The dotted key.
        key: String,
        /// The mistake in the value.
        why: String,
    },
    /// The address is of no kind that this crate knows. The message does not repeat it: it may hold a password.
    #[error("{0}")]
    InvalidAddress(String),
    /// The token cannot be sent in an HTTP header, or would go to another machine without TLS.
    #[error("{0}")]
    InvalidToken(String),
    /// There is no server, it ended, or what it wrote is not the protocol. Every call in progress returns this: it
    /// may have been carried out. So does every later call, unless the agent connects again.
    #[error("{}", .0.message)]
    ConnectionLost(Lost),
    /// In a replay, the program sends another message than in the recording.
    #[error("{0}")]
    ReplayMismatch(Box<Mismatch>),
    /// The session cannot be recorded any further, because its file cannot be written.
    #[error("{0}")]
    NotRecorded(String),
    /// The server is older or newer than this crate can work with.
    #[error(
        "the server is version {server}, this crate works with {WANTED}: update the older of the two"
    )]
    VersionMismatch {
        /// The server's self-description.
        server: String,
        /// Set if a turn ends with this error.
        progress: Option<Box<Progress>>,
    },
    /// The server refused a request.
    #[error("{method}: {}", error.message)]
    Refused {
        /// Name of the method.
        method: String,
        /// Why, for programs.
        kind: RefusalKind,
        /// The server's error.
        error: ErrorObject,
    },
    /// The server's response to a request is not what this version of the crate knows: the server may be newer.
    /// The connection goes on.
    #[error("the result of `{method}` cannot be read: {why}")]
    UnreadableResult {
        /// Name of the method.
        method: String,
        /// Where it differs.
        why: String,
    },
    /// The message has no JSON form.
    #[error("the parameters cannot be sent: {0}")]
    NotJson(String),
    /// A turn ended with an error.
    #[error("{}", message_of(.0.error.as_ref()))]
    TurnFailed(Box<TurnFailure>),
    /// A turn was interrupted, here or by another client.
    #[error("the turn was interrupted")]
    TurnInterrupted(Box<Progress>),
    /// A turn took longer than its `timeout`, and was interrupted.
    #[error("{why}")]
    TurnTimeout {
        /// The limit, and what the server did.
        why: String,
        /// The part of the turn that was received; `None` where the server had not started it.
        progress: Option<Box<Progress>>,
    },
    /// A turn was interrupted because it cost more than its `max_cost`, or because its cost is not known.
    #[error("{why}")]
    BudgetExceeded {
        /// The cost and its limit.
        why: String,
        /// The part of the turn that was received.
        progress: Box<Progress>,
    },
    /// Another turn runs in the thread, and the new one was not to wait for it.
    #[error("{0}")]
    ThreadBusy(String),
    /// An argument that cannot be used.
    #[error("{0}")]
    InvalidArgument(String),
    /// The answer of a turn does not have the shape that was asked for.
    #[error("the answer does not have the wanted shape: {why}")]
    InvalidOutput {
        /// The path of the value that differs, as in `steps[1].days`; `None` for the whole answer.
        path: Option<String>,
        /// Where it differs, and how.
        why: String,
        /// The answer.
        text: String,
        /// The whole turn.
        progress: Box<Progress>,
    },
}

/// The first message of a replay that differs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mismatch {
    /// The file with the number of the line, or its end.
    pub place: String,
    /// The message of the recording; `None` where it has no further one.
    pub expected: Option<Value>,
    /// The message that the program sends; `None` for a connection that the recording does not have.
    pub actual: Option<Value>,
    /// A JSON pointer to the first difference of the two.
    pub differs_at: Option<String>,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = &self.place;
        match (&self.expected, &self.actual) {
            (Some(expected), Some(actual)) => {
                let at = self.differs_at.as_deref().unwrap_or_default();
                let (expected, actual) = (short(expected), short(actual));
                write!(
                    f,
                    "{place}: the recording has {expected}, and this session sends {actual}"
                )?;
                write!(f, "; the first difference is at `{at}`")
            }
            (None, Some(actual)) => {
                let actual = short(actual);
                write!(f, "{place}: there is no further message, and this session sends {actual}")
            }
            _ => f.write_str(place),
        }
    }
}

/// A message as part of another one.
fn short(message: &Value) -> String {
    let text = message.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// The end of a connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// Why it ended, with the last lines of a server that was started.
    pub message: String,
    /// Set if a turn ends with this error: the turn may go on in the server.
    pub progress: Option<Box<Progress>>,
}

/// A turn that ended with an error.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnFailure {
    /// The server's error.
    pub error: Option<TurnError>,
    /// The part of the turn that was received.
    pub progress: Progress,
}

/// Why the server refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// It cannot be answered in this state, or what it names does not exist.
    InvalidRequest,
    /// The server has no such method.
    MethodNotFound,
    /// The parameters have the wrong shape.
    InvalidParams,
    /// The server failed: its log says more.
    Internal,
    /// The server has too much to do: try again later.
    Overloaded,
    /// Any other code.
    Other,
}

impl Error {
    /// Kind of the error of a turn that failed.
    #[must_use]
    pub fn turn_error_info(&self) -> Option<AgentErrorInfo> {
        let Self::TurnFailed(failure) = self else { return None };
        failure.error.as_ref()?.agent_error_info
    }

    /// The part of the turn that was received, of the error of a turn.
    #[must_use]
    pub fn progress(&self) -> Option<&Progress> {
        match self {
            Self::TurnFailed(failure) => Some(&failure.progress),
            Self::TurnInterrupted(progress)
            | Self::BudgetExceeded { progress, .. }
            | Self::InvalidOutput { progress, .. } => Some(progress),
            Self::ConnectionLost(Lost { progress, .. })
            | Self::VersionMismatch { progress, .. }
            | Self::TurnTimeout { progress, .. } => progress.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn lost(message: impl Into<String>) -> Self {
        Self::ConnectionLost(Lost { message: message.into(), progress: None })
    }

    /// This error as the end of a turn.
    pub(crate) fn of_turn(mut self, so_far: Progress) -> Self {
        if let Self::ConnectionLost(Lost { progress, .. })
        | Self::VersionMismatch { progress, .. }
        | Self::TurnTimeout { progress, .. } = &mut self
        {
            *progress = Some(Box::new(so_far));
        }
        self
    }

    /// Returns whether the server has too much to do.
    pub(crate) fn is_overload(&self) -> bool {
        matches!(self, Self::Refused { kind: RefusalKind::Overloaded, .. })
    }

    /// The server wrote what is not the protocol.
    pub(crate) fn not_the_protocol(what: impl std::fmt::Display) -> Self {
        Self::lost(format!("the server wrote what is not the protocol: {what}"))
    }

    /// The error of a call, other than the end of its connection.
    pub(crate) fn of_call(method: &str, error: CallError) -> Option<Self> {
        match error {
            CallError::Closed => None,
            CallError::Rpc(error) => Some(Self::Refused {
                method: method.to_owned(),
                kind: RefusalKind::of(error.code),
                error,
            }),
            CallError::Decode { method, error } => {
                Some(Self::UnreadableResult { method, why: error.to_string() })
            }
            CallError::Encode(error) => Some(Self::NotJson(error.to_string())),
        }
    }
}

impl RefusalKind {
    fn of(code: i64) -> Self {
        match code {
            code::INVALID_REQUEST => Self::InvalidRequest,
            code::METHOD_NOT_FOUND => Self::MethodNotFound,
            code::INVALID_PARAMS => Self::InvalidParams,
            code::INTERNAL_ERROR => Self::Internal,
            code::OVERLOADED => Self::Overloaded,
            _ => Self::Other,
        }
    }
}

fn message_of(error: Option<&TurnError>) -> &str {
    error.map_or("the turn failed without a reason", |error| &error.message)
}

/// Refuses a server whose user agent names a version that this crate does not work with.
pub(crate) fn check_version(user_agent: &str) -> Result<(), Error> {
    let version = user_agent.split(' ').next().unwrap_or_default();
    let version = version.rsplit_once('/').map_or("", |(_, version)| version);
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(0)), Some(Ok(minor))) if minor >= 1 => Ok(()),
        _ => {
            let server = if version.is_empty() { "unknown" } else { version };
            Err(Error::VersionMismatch { server: server.to_owned(), progress: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_refused() {
        for (user_agent, expected) in [
            ("x/0.1.0 (linux; x86_64) agentd (x; 1)", None),
            ("a/b/0.12.3", None),
            ("x/1.0.0 (linux)", Some("the server is version 1.0.0, this crate works with 0.1 and")),
            ("x/0.0.9 (linux)", Some("the server is version 0.0.9")),
            ("nonsense", Some("the server is version unknown")),
            ("", Some("the server is version unknown")),
        ] {
            let message = check_version(user_agent).err().map(|error| error.to_string());
            match (message, expected) {
                (None, None) => {}
                (Some(message), Some(expected)) => assert!(message.starts_with(expected)),
                (message, _) => panic!("{user_agent}: {message:?}"),
            }
        }
    }
}
