//! The address of a server that runs elsewhere, and the way to it.

use std::path::PathBuf;
use std::str::FromStr;

use jsonrpc::{Connection, Limits};
use tokio::net::TcpStream;

use crate::Error;

/// Where a server listens.
///
/// ```
/// use agentd_sdk::ServerAddress;
///
/// assert!("unix:///run/agentd.sock".parse::<ServerAddress>().is_ok());
/// assert!("ws://127.0.0.1:4500".parse::<ServerAddress>().is_ok());
/// let error = "http://127.0.0.1:4500".parse::<ServerAddress>().unwrap_err();
/// assert_eq!(error.to_string(), "`http://127.0.0.1:4500` is neither unix://PATH nor ws://HOST:PORT");
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
            Some(("ws", host)) if host.trim_end_matches('/').contains(':') => {
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
    /// [`Error::ConnectionLost`]: there is no server, or it refuses the token.
    pub async fn connect(&self, token: Option<&str>, limits: Limits) -> Result<Connection, Error> {
        let lost = |error: transport::Error| Error::ConnectionLost(error.to_string());
        match &self.0 {
            #[cfg(unix)]
            Place::Unix(path) => transport::connect(path, limits).await.map_err(lost),
            #[cfg(not(unix))]
            Place::Unix(_) => {
                Err(Error::ConnectionLost("this system has no Unix sockets".to_owned()))
            }
            Place::Tcp(host) => {
                let lost_stream = |error: std::io::Error| {
                    Error::ConnectionLost(format!("cannot connect to {host}: {error}"))
                };
                let stream = TcpStream::connect(host).await.map_err(lost_stream)?;
                stream.set_nodelay(true).map_err(lost_stream)?;
                let (reader, writer) = stream.into_split();
                transport::upgrade(reader, writer, host, token, limits).await.map_err(lost)
            }
        }
    }
}
