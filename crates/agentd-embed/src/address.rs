//! The address of a server that runs elsewhere, and the way to it.

use std::path::PathBuf;
use std::str::FromStr;

use jsonrpc::{Connection, Limits};
use tokio::net::TcpStream;

use crate::Error;

/// Where a server listens.
///
/// ```
/// use agentd_embed::ServerAddress;
///
/// assert!("unix:///run/agentd.sock".parse::<ServerAddress>().is_ok());
/// assert!("ws://127.0.0.1:4500".parse::<ServerAddress>().is_ok());
/// let error = "http://127.0.0.1:4500".parse::<ServerAddress>().unwrap_err();
/// assert!(error.to_string().contains("neither unix://PATH nor ws://HOST:PORT"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress(Place);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

impl FromStr for ServerAddress {
    type Err = Error;

    fn from_str(address: &str) -> Result<Self, Error> {
        match address.split_once("://") {
            Some(("unix", path)) if !path.is_empty() => Ok(Self(Place::Unix(path.into()))),
            Some(("ws", host)) if is_host_and_port(host.trim_end_matches('/')) => {
                Ok(Self(Place::Tcp(host.trim_end_matches('/').to_owned())))
            }
            _ => Err(Error::InvalidAddress(address.to_owned())),
        }
    }
}

impl ServerAddress {
    /// Connects once. Must be called within a tokio runtime. A Unix socket needs no token.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`]: there is no server, or it refuses the token. [`Error::InvalidToken`].
    pub async fn connect(&self, token: Option<&str>, limits: Limits) -> Result<Connection, Error> {
        token.map_or(Ok(()), check_token)?;
        let lost = |error: transport::Error| Error::lost(error.to_string());
        match &self.0 {
            #[cfg(unix)]
            Place::Unix(path) => transport::connect(path, limits).await.map_err(lost),
            #[cfg(not(unix))]
            Place::Unix(_) => Err(Error::lost("this system has no Unix sockets")),
            Place::Tcp(host) => {
                let lost_stream = |error: std::io::Error| {
                    Error::lost(format!("cannot connect to {host}: {error}"))
                };
                let stream = TcpStream::connect(host).await.map_err(lost_stream)?;
                stream.set_nodelay(true).map_err(lost_stream)?;
                let (reader, writer) = stream.into_split();
                transport::upgrade(reader, writer, host, token, limits).await.map_err(lost)
            }
        }
    }
}

fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_other = |c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c);
    !host.is_empty() && !host.contains(is_other) && port.parse::<u16>().is_ok()
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
        for (address, is_valid) in [
            ("unix:///run/agentd.sock", true),
            ("ws://127.0.0.1:4500", true),
            ("ws://[::1]:4500/", true),
            ("ws://host.example:1", true),
            ("unix://", false),
            ("ws://127.0.0.1", false),
            ("ws://127.0.0.1:99999", false),
            ("ws://127.0.0.1:4500/path", false),
            ("ws://user@127.0.0.1:4500", false),
            ("ws://127.0.0.1\r\nX: y:4500", false),
            ("ws://:4500", false),
            ("wss://127.0.0.1:4500", false),
        ] {
            assert_eq!(address.parse::<ServerAddress>().is_ok(), is_valid, "{address}");
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
