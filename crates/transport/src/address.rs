//! Where to listen (specification: Transports).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A value of `--listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `stdio://`: the program's own standard input and output.
    Stdio,
    /// `ws://IP:PORT`; port 0 lets the system choose.
    WebSocket(SocketAddr),
    /// `unix://` (the control socket in the home folder) or `unix:///PATH`.
    Unix(Option<PathBuf>),
    /// `systemd://`: the sockets that the service manager passed.
    Systemd,
    /// `off`: nowhere.
    Off,
}

/// An invalid value of `--listen`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// An unknown scheme.
    #[error(
        "--listen {0}: use `stdio://`, `ws://IP:PORT`, `unix://`, `unix:///PATH`, `systemd://` or \
         `off`"
    )]
    Unknown(String),
    /// Not an address with a port.
    #[error("--listen {0}: a WebSocket address is `ws://IP:PORT`, as in `ws://127.0.0.1:4500`")]
    WebSocket(String),
    /// A relative path.
    #[error("--listen {0}: the path of a socket must be absolute, as in `unix:///run/agent.sock`")]
    Relative(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(rest) = text.strip_prefix("ws://") {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let named = rest.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
            let address = named.as_deref().unwrap_or(rest).parse();
            return address
                .map(Self::WebSocket)
                .map_err(|_| AddressError::WebSocket(text.to_owned()));
        }
        if let Some(path) = text.strip_prefix("unix://") {
            let path = (!path.is_empty()).then(|| PathBuf::from(path));
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                return Err(AddressError::Relative(text.to_owned()));
            }
            return Ok(Self::Unix(path));
        }
        match text {
            "stdio://" => Ok(Self::Stdio),
            "systemd://" => Ok(Self::Systemd),
            "off" => Ok(Self::Off),
            other => Err(AddressError::Unknown(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let web = |text: &str| Ok(Address::WebSocket(text.parse().unwrap()));
        for (text, expect) in [
            ("stdio://", Ok(Address::Stdio)),
            ("off", Ok(Address::Off)),
            ("systemd://", Ok(Address::Systemd)),
            ("ws://127.0.0.1:4500", web("127.0.0.1:4500")),
            ("ws://127.0.0.1:4500/", web("127.0.0.1:4500")),
            ("ws://localhost:0", web("127.0.0.1:0")),
            ("ws://[::1]:80", web("[::1]:80")),
            ("unix://", Ok(Address::Unix(None))),
            ("unix:///run/a.sock", Ok(Address::Unix(Some("/run/a.sock".into())))),
            ("unix://run/a.sock", Err(AddressError::Relative("unix://run/a.sock".into()))),
            ("ws://127.0.0.1", Err(AddressError::WebSocket("ws://127.0.0.1".into()))),
            ("ws://example.com:1", Err(AddressError::WebSocket("ws://example.com:1".into()))),
            ("wss://127.0.0.1:1", Err(AddressError::Unknown("wss://127.0.0.1:1".into()))),
            ("", Err(AddressError::Unknown(String::new()))),
        ] {
            assert_eq!(text.parse::<Address>(), expect, "{text}");
        }
    }
}
