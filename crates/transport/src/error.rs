//! The error of this crate: its kind, what happened, what to do next, and the cause. Callers decide
//! by the kind; people read the rest.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;

/// Why an address, a credential or a connection is refused, or why it failed.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
    next_step: Option<Cow<'static, str>>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Not an address to listen on, or to connect to.
    InvalidAddress,
    /// The file or the value that a flag gives for authentication cannot be used.
    InvalidCredential,
    /// A bearer token is refused.
    Token(TokenFault),
    /// Another server listens on the path.
    SocketInUse,
    /// The path exists and is not a socket.
    NotASocket,
    /// The path is longer than a socket address holds.
    PathTooLong,
    /// The server refused the upgrade with this HTTP status.
    UpgradeRefused {
        /// The status.
        status: u16,
    },
    /// The server does not speak WebSocket.
    NotAWebSocket,
    /// The token would go to another machine without encryption.
    UnencryptedToken,
    /// A file of certificates cannot be used.
    CaFile,
    /// The server's certificate is not one that this client trusts for the host.
    Certificate,
    /// There is no TLS session with the server for another reason.
    Tls,
    /// The operating system reports an error.
    Io,
}

/// Why a signed bearer token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// Not three parts of base64url, or not the JSON that belongs there.
    Malformed,
    /// An algorithm other than HS256, or an extension that must be understood.
    Algorithm,
    /// The signature is not of this key.
    Signature,
    /// `exp` is missing or past.
    Expired,
    /// `nbf` is in the future.
    NotYet,
    /// `iss` is missing or another one.
    Issuer,
    /// `aud` is missing or names others.
    Audience,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), next_step: None, source: None }
    }

    /// A failed system call; `context` is the path, or what failed.
    pub(crate) fn io(context: impl Into<Cow<'static, str>>, source: io::Error) -> Self {
        Self::new(ErrorKind::Io, context).caused_by(source)
    }

    pub(crate) fn token(fault: TokenFault) -> Self {
        let message = match fault {
            TokenFault::Malformed => "the token is not a signed JWT",
            TokenFault::Algorithm => "the token is not signed with HS256",
            TokenFault::Signature => "the signature of the token is wrong",
            TokenFault::Expired => "the token has expired, or has no `exp`",
            TokenFault::NotYet => "the token is not valid yet",
            TokenFault::Issuer => "the token has another issuer",
            TokenFault::Audience => "the token is for another audience",
        };
        Self::new(ErrorKind::Token(fault), message)
    }

    /// Adds what the reader can do about it.
    pub(crate) fn next_step(self, step: impl Into<Cow<'static, str>>) -> Self {
        Self { next_step: Some(step.into()), ..self }
    }

    pub(crate) fn caused_by(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), ..self }
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
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        self.next_step.as_ref().map_or(Ok(()), |step| write!(f, "; {step}"))
    }
}

impl std::error::Error for Error {
    /// Returns the cause of the cause: the cause itself is part of the message.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref()?.source()
    }
}
