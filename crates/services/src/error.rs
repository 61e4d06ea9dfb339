//! The error of this crate: a kind, what happened, what to do next, and the cause. The JSON-RPC code
//! and data of an error response are decided here and nowhere else.

use std::fmt;
use std::io;
use std::sync::Arc;

use hooks::EndReason;
use jsonrpc::{ErrorObject, code};
use protocol::error::{AgentErrorInfo, NonSteerableTurnKind, TurnError};
use serde_json::{Value, json};
use session::{NotSteerable, Refusal, RefusalCause};
use store::StoreError;

use crate::door::OpenElsewhere;

/// Why a request, or a part of one, failed.
#[derive(Clone)]
pub struct Error {
    // Boxed, so that a result is no larger than its value.
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    next_step: Option<String>,
    /// The details for programs beyond the code; sent in the form of a turn's error.
    info: Option<AgentErrorInfo>,
    /// The details of a method's own errors.
    details: Option<Value>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kind of an [`Error`]. It decides the code on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The parameters have values that the method does not take.
    InvalidParams,
    /// The request does not fit the state of the connection, the thread or the turn.
    WrongState,
    /// The request names something that does not exist.
    NotFound,
    /// An administrator's requirements or a command rule forbid it.
    Denied,
    /// This version lacks the method, or the part of it.
    NotImplemented,
    /// The method has no meaning on this system.
    NotApplicable,
    /// The configuration was not written, for this reason of the protocol.
    ConfigWrite(ConfigWriteFault),
    /// The server shuts down and starts nothing new.
    ShuttingDown,
    /// Something underneath failed: a file system, a process, the store, the configuration.
    Failed,
}

/// Values of `config_write_error_code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigWriteFault {
    /// The file has changed since the client read it.
    VersionConflict,
    /// The edit, or the file after it, is not a valid configuration.
    Validation,
    /// The file cannot be written.
    ReadOnlyLayer,
}

impl Error {
    /// An error of any kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        let (next_step, info, details, source) = (None, None, None, None);
        Self { inner: Box::new(Inner { kind, message, next_step, info, details, source }) }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidParams, message)
    }

    /// Two members of the parameters that exclude each other.
    pub fn exclusive(first: &str, second: &str) -> Self {
        Self::invalid_params(format!("`{first}` and `{second}` exclude each other"))
            .next_step("give one")
    }

    pub fn wrong_state(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::WrongState, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// A part of a method that this version lacks.
    pub fn not_implemented(part: &str) -> Self {
        Self::new(ErrorKind::NotImplemented, format!("`{part}` is not implemented yet"))
    }

    /// No thread has this id.
    pub fn unknown_thread(id: &str) -> Self {
        Self::not_found(format!("thread not found: {}", start_of(id)))
    }

    /// Nothing is done with an archived thread.
    pub fn archived(id: &str) -> Self {
        Self::wrong_state(format!("thread {id} is archived"))
            .next_step("call thread/unarchive first")
    }

    /// The server takes no more requests.
    pub fn shutting_down() -> Self {
        Self::new(ErrorKind::ShuttingDown, "the server is shutting down")
            .next_step("connect again and retry")
    }

    /// The thread was loaded when the request arrived, and ends or has ended.
    pub fn thread_ends(reason: EndReason) -> Self {
        match reason {
            EndReason::Closed => {
                Self::wrong_state("the thread is no longer loaded").next_step("call thread/resume")
            }
            EndReason::Archived => Self::wrong_state("the thread is being archived")
                .next_step("call thread/unarchive after thread/archived to continue it"),
            EndReason::Deleted => Self::wrong_state("the thread is being deleted"),
            EndReason::Shutdown => Self::shutting_down(),
        }
    }

    /// The session answered a request of `method` with the answer to another.
    pub fn mismatched_answer(method: &str) -> Self {
        Self::failed(format!("the session returned the wrong kind of answer to {method}"))
            .next_step("please report it")
    }

    /// Adds the caller's next step, which is displayed after the message.
    #[must_use]
    pub fn next_step(mut self, next_step: impl Into<String>) -> Self {
        self.inner.next_step = Some(next_step.into());
        self
    }

    /// The same error about a part of the request: `place` stands before the message.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        self.inner.message = format!("{place}: {}", self.inner.message);
        self
    }

    /// The same error of another kind.
    #[must_use]
    pub(crate) fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.inner.kind = kind;
        self
    }

    #[must_use]
    pub fn with_info(mut self, info: AgentErrorInfo) -> Self {
        self.inner.info = Some(info);
        self
    }

    /// Adds the details that a method documents, as the error's `data`.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.inner.details = Some(details);
        self
    }

    /// Keeps the cause, which is part of the message.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.inner.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// `error` as it words itself.
    pub(crate) fn worded_by(
        kind: ErrorKind,
        error: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::new(kind, error.to_string()).with_source(error)
    }
}

/// The message, and what to do next.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)?;
        match &self.inner.next_step {
            Some(next_step) => write!(f, "; {next_step}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    /// Returns the cause of the cause: the cause itself is part of the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref()?.source()
    }
}

/// The one place where a code and data are chosen. The specification leaves the numbers open but for
/// -32001 and the handshake's (specification: Errors).
impl From<Error> for ErrorObject {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let (code, data) = match error.kind() {
            ErrorKind::InvalidParams => (code::INVALID_PARAMS, None),
            ErrorKind::WrongState | ErrorKind::NotFound | ErrorKind::Denied => {
                (code::INVALID_REQUEST, None)
            }
            ErrorKind::NotImplemented => {
                (code::METHOD_NOT_FOUND, Some(json!({ "reason": "notImplemented" })))
            }
            ErrorKind::NotApplicable => {
                (code::INVALID_REQUEST, Some(json!({ "reason": "notApplicable" })))
            }
            ErrorKind::ConfigWrite(fault) => {
                let fault = match fault {
                    ConfigWriteFault::VersionConflict => "configVersionConflict",
                    ConfigWriteFault::Validation => "configValidationError",
                    ConfigWriteFault::ReadOnlyLayer => "configLayerReadonly",
                };
                (code::INVALID_REQUEST, Some(json!({ "config_write_error_code": fault })))
            }
            ErrorKind::ShuttingDown => (code::OVERLOADED, None),
            ErrorKind::Failed => (code::INTERNAL_ERROR, None),
        };
        let data = error.inner.info.map(|info| turn_error(&message, info)).or(data);
        let data = error.inner.details.or(data);
        let object = Self::new(code, message);
        match data {
            Some(data) => object.with_data(data),
            None => object,
        }
    }
}

fn turn_error(message: &str, info: AgentErrorInfo) -> Value {
    let error = TurnError {
        message: message.to_owned(),
        agent_error_info: Some(info),
        additional_details: None,
    };
    serde_json::to_value(error).expect("a turn's error is strings and numbers")
}

/// The beginning of an id or a name that a client sent, to quote it.
pub fn start_of(text: &str) -> String {
    text.chars().take(80).collect()
}

/// An unknown thread, a bad cursor and a state that does not fit are the caller's; the rest is the
/// store's.
impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::ThreadNotFound { thread } => return Self::unknown_thread(thread),
            StoreError::BadCursor { .. } => ErrorKind::InvalidParams,
            StoreError::TurnNotFound { .. } => ErrorKind::NotFound,
            StoreError::LeasedBy { thread, holder, owner } => {
                let place = OpenElsewhere::new(thread, holder, owner);
                return Self::worded_by(ErrorKind::WrongState, error).with_details(place.data());
            }
            StoreError::LeaseLost { .. }
            | StoreError::TurnInFlight { .. }
            | StoreError::TooFewTurns { .. } => ErrorKind::WrongState,
            _ => ErrorKind::Failed,
        };
        Self::worded_by(kind, error)
    }
}

/// A configuration that cannot be used.
impl From<config::Error> for Error {
    fn from(error: config::Error) -> Self {
        Self::failed(error.diagnostic()).with_source(error)
    }
}

/// Whose an error of the operating system about a path is: the caller's, if it follows from the path or
/// from what is there; otherwise the system's.
fn system_kind(cause: &io::Error) -> ErrorKind {
    use io::ErrorKind as Kind;
    match cause.kind() {
        Kind::NotFound | Kind::NotADirectory => ErrorKind::NotFound,
        Kind::AlreadyExists
        | Kind::DirectoryNotEmpty
        | Kind::IsADirectory
        | Kind::PermissionDenied
        | Kind::ReadOnlyFilesystem
        | Kind::ResourceBusy
        | Kind::ExecutableFileBusy => ErrorKind::WrongState,
        Kind::InvalidInput | Kind::InvalidFilename => ErrorKind::InvalidParams,
        // A circle of links has no name there yet.
        #[cfg(target_os = "linux")]
        _ if cause.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            ErrorKind::WrongState
        }
        _ => ErrorKind::Failed,
    }
}

/// As [`system_kind`], of a file that cannot be used.
fn file_kind(error: &files::Error) -> ErrorKind {
    use files::Error as Files;
    match error {
        Files::Io { cause, .. } => system_kind(cause),
        Files::NotRegular { .. }
        | Files::TooLarge { .. }
        | Files::NotText(_)
        | Files::Writable { .. }
        | Files::Foreign { .. }
        | Files::Empty(_) => ErrorKind::WrongState,
        Files::TimedOut { .. }
        | Files::StillWaiting { .. }
        | Files::Exhausted { .. }
        | Files::Panicked { .. } => ErrorKind::Failed,
    }
}

/// A file that cannot be used, or work on files that was not done in time.
impl From<files::Error> for Error {
    fn from(error: files::Error) -> Self {
        Self::worded_by(file_kind(&error), error)
    }
}

/// A request about a file or folder that was not carried out.
impl From<filesystem::Error> for Error {
    fn from(error: filesystem::Error) -> Self {
        let kind = match &error {
            filesystem::Error::Refused { .. } => ErrorKind::InvalidParams,
            filesystem::Error::Io { cause, .. } => system_kind(cause),
            filesystem::Error::File(error) => file_kind(error),
        };
        Self::worded_by(kind, error)
    }
}

/// A search of files that was not carried out.
impl From<file_search::Error> for Error {
    fn from(error: file_search::Error) -> Self {
        use file_search::Error::{
            Cancelled, Exhausted, NotAFolder, QueryTooLong, Root, StillWalking, TooLarge,
        };
        let kind = match &error {
            QueryTooLong { .. } | NotAFolder(_) | TooLarge { .. } => ErrorKind::InvalidParams,
            Root { cause, .. } => system_kind(cause),
            Cancelled | Exhausted(_) => ErrorKind::WrongState,
            StillWalking { .. } => ErrorKind::Failed,
        };
        Self::worded_by(kind, error)
    }
}

/// A path that cannot be watched.
impl From<file_watch::Error> for Error {
    fn from(error: file_watch::Error) -> Self {
        let kind = match &error {
            file_watch::Error::Relative(_) => ErrorKind::InvalidParams,
            file_watch::Error::TooMany(_) | file_watch::Error::TooManyPolled { .. } => {
                ErrorKind::WrongState
            }
            file_watch::Error::Thread(_) => ErrorKind::Failed,
        };
        Self::worded_by(kind, error)
    }
}

/// A command that was not started: because of what the request says, or because of what failed
/// underneath.
impl From<sandbox::Error> for Error {
    fn from(error: sandbox::Error) -> Self {
        let kind = match error.kind() {
            sandbox::ErrorKind::InvalidCommand => ErrorKind::InvalidParams,
            _ => ErrorKind::Failed,
        };
        Self::worded_by(kind, error).within("the command was not started")
    }
}

/// A request that the session does not carry out.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let Refusal { message, cause } = refusal;
        let turn_kind = match cause {
            RefusalCause::State => return Self::wrong_state(message),
            RefusalCause::Store => return Self::failed(message),
            RefusalCause::NotSteerable(NotSteerable::Review) => NonSteerableTurnKind::Review,
            RefusalCause::NotSteerable(NotSteerable::Compaction) => NonSteerableTurnKind::Compact,
        };
        Self::wrong_state(message).with_info(AgentErrorInfo::ActiveTurnNotSteerable { turn_kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_decides_the_code_and_the_data() {
        let check = |error: Error, expected_code: i64, expected_data: Option<Value>| {
            let object = ErrorObject::from(error.clone());
            assert_eq!((object.code, object.data), (expected_code, expected_data), "{error:?}");
            assert_eq!(object.message, error.to_string());
        };
        check(Error::invalid_params("x"), -32602, None);
        check(Error::wrong_state("x"), -32600, None);
        check(Error::not_found("x"), -32600, None);
        check(Error::denied("x"), -32600, None);
        check(Error::failed("x"), -32603, None);
        check(Error::new(ErrorKind::ShuttingDown, "x"), -32001, None);
        check(Error::not_implemented("x"), -32601, Some(json!({ "reason": "notImplemented" })));
        check(
            Error::new(ErrorKind::ConfigWrite(ConfigWriteFault::VersionConflict), "x"),
            -32600,
            Some(json!({ "config_write_error_code": "configVersionConflict" })),
        );
        let refusal = Refusal {
            message: "x".to_owned(),
            cause: RefusalCause::NotSteerable(NotSteerable::Review),
        };
        let info = json!({ "ActiveTurnNotSteerable": { "turnKind": "review" } });
        let data = ErrorObject::from(Error::from(refusal)).data.unwrap();
        assert_eq!((&data["message"], &data["agentErrorInfo"]), (&json!("x"), &info));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn errors_about_what_is_there_are_the_callers() {
        use rustix::io::Errno;
        for (errno, expected) in [
            (Errno::NOENT, -32600),
            (Errno::NOTDIR, -32600),
            (Errno::EXIST, -32600),
            (Errno::NOTEMPTY, -32600),
            (Errno::ISDIR, -32600),
            (Errno::ACCESS, -32600),
            (Errno::PERM, -32600),
            (Errno::ROFS, -32600),
            (Errno::BUSY, -32600),
            (Errno::TXTBSY, -32600),
            (Errno::LOOP, -32600),
            (Errno::NAMETOOLONG, -32602),
            (Errno::INVAL, -32602),
            (Errno::NOSPC, -32603),
            (Errno::DQUOT, -32603),
            (Errno::IO, -32603),
            (Errno::MFILE, -32603),
            (Errno::STALE, -32603),
        ] {
            let path = std::path::PathBuf::from("/x");
            let cause = || io::Error::from(errno);
            let file = files::Error::Io { path: path.clone(), cause: cause() };
            let request = filesystem::Error::Io { path: path.clone(), action: "x", cause: cause() };
            let search = file_search::Error::Root { root: path, cause: cause() };
            for error in [Error::from(file), Error::from(request), Error::from(search)] {
                assert_eq!(ErrorObject::from(error).code, expected, "{errno}");
            }
        }
    }

    #[test]
    fn an_error_states_the_place_the_problem_and_the_remedy() {
        let error = Error::exclusive("a", "b").within("`outer`");
        assert_eq!(error.to_string(), "`outer`: `a` and `b` exclude each other; give one");
    }
}
