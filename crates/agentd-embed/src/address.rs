//! The address of a server that runs elsewhere, and the way to it.

use std::path::PathBuf;
use std::str::FromStr;

use jsonrpc::{Connection, Limits};
use transport::{ClientTls, ErrorKind, WebSocketUrl};

use crate::Error;

/// Where a server listens.
///
/// ```
/// use agentd_embed::ServerAddress;
///
/// assert!("unix:///run/agentd.sock".parse::<ServerAddress>().is_ok());
/// assert!("wss://agents.example/team?region=eu".parse::<ServerAddress>().is_ok());
/// let error = "http://127.0.0.1:4500".parse::<ServerAddress>().unwrap_err();
/// assert!(error.to_string().contains("neither `ws://` nor `wss://`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress(Place);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Unix(PathBuf),
    WebSocket(WebSocketUrl),
}

/// The token for a server, and whom a client trusts. A Unix socket needs none of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Access {
    token: Option<String>,
    ca_file: Option<PathBuf>,
    allows_unencrypted_token: bool,
}

impl Access {
    /// The token of the server. It is not sent to another machine without TLS.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// A PEM file with certificates of authorities that are trusted besides those of the operating system.
    #[must_use]
    pub fn ca_file(self, path: impl Into<PathBuf>) -> Self {
        Self { ca_file: Some(path.into()), ..self }
    }

    /// Sends the token to another machine without TLS, too: for networks that no stranger can read.
    #[must_use]
    pub fn allow_unencrypted_token(self, is_allowed: bool) -> Self {
        Self { allows_unencrypted_token: is_allowed, ..self }
    }

    /// The text that no recording holds.
    pub(crate) fn secret(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

impl FromStr for ServerAddress {
    type Err = Error;

    fn from_str(address: &str) -> Result<Self, Error> {
        if let Some(path) = address.strip_prefix("unix://") {
            if path.is_empty() {
                let why = "the address has no path: write it as `unix:///PATH`";
                return Err(Error::InvalidAddress(why.to_owned()));
            }
            return Ok(Self(Place::Unix(path.into())));
        }
        match address.parse() {
            Ok(url) => Ok(Self(Place::WebSocket(url))),
            Err(error) => Err(Error::InvalidAddress(format!("{error}, or `unix:///PATH`"))),
        }
    }
}

impl ServerAddress {
    /// Connects once. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`]: there is no server, its certificate is not trusted, or it refuses the token.
    /// [`Error::InvalidToken`]: the token cannot be sent, or not there. [`Error::InvalidArgument`]: the CA file cannot
    /// be used.
    pub async fn connect(&self, access: &Access, limits: Limits) -> Result<Connection, Error> {
        Route::new(self.clone(), access.clone()).await?.connect(limits).await
    }
}

/// A way to a server, with the certificates that it needs.
pub(crate) struct Route {
    address: ServerAddress,
    access: Access,
    tls: Option<ClientTls>,
}

impl Route {
    /// Checks the token, and reads the certificates, where the address needs any.
    pub(crate) async fn new(address: ServerAddress, access: Access) -> Result<Self, Error> {
        access.token.as_deref().map_or(Ok(()), check_token)?;
        let tls = match &address.0 {
            Place::WebSocket(url) if url.is_tls() => {
                Some(ClientTls::new(access.ca_file.clone()).await.map_err(error_of)?)
            }
            _ => None,
        };
        Ok(Self { address, access, tls })
    }

    pub(crate) async fn connect(&self, limits: Limits) -> Result<Connection, Error> {
        match &self.address.0 {
            #[cfg(unix)]
            Place::Unix(path) => transport::connect(path, limits).await.map_err(error_of),
            #[cfg(not(unix))]
            Place::Unix(_) => Err(Error::lost("this system has no Unix sockets")),
            Place::WebSocket(url) => {
                let access = transport::Access {
                    token: self.access.token.as_deref(),
                    allows_unencrypted_token: self.access.allows_unencrypted_token,
                    tls: self.tls.as_ref(),
                };
                transport::dial(url, access, limits).await.map_err(error_of)
            }
        }
    }
}

fn error_of(error: transport::Error) -> Error {
    let message = error.to_string();
    match error.kind() {
        ErrorKind::UnencryptedToken => Error::InvalidToken(message),
        ErrorKind::CaFile => Error::InvalidArgument(message),
        ErrorKind::InvalidAddress => Error::InvalidAddress(message),
        _ => Error::lost(message),
    }
}

/// A header holds visible ASCII only; a line break in it would begin another header.
fn check_token(token: &str) -> Result<(), Error> {
    let Some(at) = token.chars().position(|c| !c.is_ascii_graphic()) else { return Ok(()) };
    let hint = match token.trim().chars().all(|c| c.is_ascii_graphic()) {
        true => "remove the white space around it, such as the line break at the end of its file",
        false => "a token is of visible ASCII characters",
    };
    Err(Error::InvalidToken(format!(
        "the token cannot be sent in an HTTP header: its character {} is none that may be in one; {hint}",
        at + 1
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_addresses_are_refused() {
        for (address, expected) in [
            ("unix:///run/agentd.sock", None),
            ("ws://127.0.0.1:4500", None),
            ("ws://[::1]:4500/", None),
            ("ws://host.example:1/path", None),
            ("wss://host.example", None),
            ("unix://", Some("the address has no path")),
            ("127.0.0.1:4500", Some("neither `ws://` nor `wss://`")),
            ("ws://127.0.0.1:99999", Some("the port is not a number from 1 to 65535")),
            ("wss://user:hidden@127.0.0.1", Some("give the token by its own option")),
        ] {
            let error = address.parse::<ServerAddress>().err().map(|error| error.to_string());
            match (error, expected) {
                (None, None) => {}
                (Some(error), Some(expected)) => {
                    assert!(error.contains(expected) && !error.contains("hidden"), "{error}");
                }
                (error, _) => panic!("{address}: {error:?}"),
            }
        }
    }

    #[test]
    fn a_token_that_no_header_holds_is_refused_without_repeating_it() {
        assert!(check_token("a-token_of.visible~characters=").is_ok());
        for (token, expected) in [
            ("secret\n", "its character 7 is none that may be in one; remove the white space"),
            ("sec\r\nX: ret", "its character 4 is none that may be in one; a token is of visible"),
            ("s\u{e9}cret", "its character 2"),
        ] {
            let message = check_token(token).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains("ret"), "{message}");
        }
    }
}
