//! Where to listen (specification: Transports).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{Error, ErrorKind};

const SCHEMES: &str =
    "use `stdio://`, `ws://IP:PORT`, `unix://`, `unix:///PATH`, `systemd://` or `off`";

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

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid =
            |why: &str| Error::new(ErrorKind::InvalidAddress, format!("--listen {text}: {why}"));
        if let Some(rest) = text.strip_prefix("ws://") {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let named = rest.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
            let address = named.as_deref().unwrap_or(rest).parse();
            return address.map(Self::WebSocket).map_err(|_| {
                invalid("a WebSocket address is `ws://IP:PORT`, as in `ws://127.0.0.1:4500`")
            });
        }
        if let Some(path) = text.strip_prefix("unix://") {
            let path = (!path.is_empty()).then(|| PathBuf::from(path));
            if path.as_ref().is_some_and(|path| !path.is_absolute()) {
                let why = "the path of a socket must be absolute, as in `unix:///run/agent.sock`";
                return Err(invalid(why));
            }
            return Ok(Self::Unix(path));
        }
        match text {
            "stdio://" => Ok(Self::Stdio),
            "systemd://" => Ok(Self::Systemd),
            "off" => Ok(Self::Off),
            _ => Err(invalid("the scheme is unknown").next_step(SCHEMES)),
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
            ("unix://run/a.sock", Err("the path of a socket must be absolute")),
            ("ws://127.0.0.1", Err("a WebSocket address is")),
            ("ws://example.com:1", Err("a WebSocket address is")),
            ("wss://127.0.0.1:1", Err("the scheme is unknown; use `stdio://`")),
            ("", Err("the scheme is unknown; use `stdio://`")),
        ] {
            match (text.parse::<Address>(), expect) {
                (Ok(address), Ok(expected)) => assert_eq!(address, expected, "{text}"),
                (Err(error), Err(why)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidAddress, "{text}");
                    let start = format!("--listen {text}: {why}");
                    assert!(error.to_string().starts_with(&start), "{error}");
                }
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        }
    }
}
