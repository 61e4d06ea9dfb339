//! Addresses of WebSocket servers as users write them.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use hyper::Uri;

use crate::{Error, ErrorKind};

const FORM: &str = "write it as `wss://HOST`, `ws://HOST:PORT` or `wss://HOST:PORT/PATH?QUERY`, with an IPv6 address \
                    in brackets";

/// A `ws://` or `wss://` address: the host, the port (80 and 443 where none is given), the path and the query. Its
/// errors repeat no part of the text, which may hold a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct WebSocketUrl {
    is_tls: bool,
    /// An IPv6 address is in brackets.
    host: String,
    port: u16,
    /// The path and the query.
    target: String,
}

impl FromStr for WebSocketUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid =
            |why: &'static str| Error::new(ErrorKind::InvalidAddress, why).next_step(FORM);
        // The parser takes the part after a `#` for none at all.
        if text.contains('#') {
            return Err(invalid("an address of a server has no part after `#`"));
        }
        if !text.chars().all(|c| c.is_ascii_graphic()) {
            return Err(invalid(
                "the address has characters that are no visible ASCII, which have to be percent-encoded",
            ));
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_tls = match scheme.as_deref() {
            Some("ws") => false,
            Some("wss") => true,
            _ => return Err(invalid("the address begins with neither `ws://` nor `wss://`")),
        };
        let uri: Uri = text.parse().map_err(|_| invalid("this is not the address of a server"))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(invalid("a user name or a password in the address is not sent")
                .next_step("leave it out, and give the token by its own option"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                rest.split_once(']').ok_or_else(|| invalid("the bracket is not closed"))?
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let is_v6 = authority.starts_with('[');
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if is_v6 && host.parse::<Ipv6Addr>().is_err() {
            return Err(invalid("there is no IPv6 address in the brackets"));
        } else if !is_v6 && (host.is_empty() || !host.chars().all(is_host)) {
            return Err(invalid("the host is missing, or has characters that no host has"));
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| invalid("the port is not a number from 1 to 65535"))?,
            _ => return Err(invalid("the port is not a number from 1 to 65535")),
        };
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let slash = if target.starts_with('/') { "" } else { "/" };
        let host = if is_v6 { format!("[{host}]") } else { host.to_owned() };
        Ok(Self { is_tls, host, port, target: format!("{slash}{target}") })
    }
}

/// Without the path and the query, which may hold a secret.
impl fmt::Debug for WebSocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "wss" } else { "ws" };
        write!(f, "WebSocketUrl({scheme}://{})", self.place())
    }
}

impl WebSocketUrl {
    /// Returns whether the connection is encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// The host as the system resolves it: an IPv6 address without brackets.
    pub(super) fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// `HOST:PORT`, for messages.
    pub(super) fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The value of the header `Host`, which has the port unless it is that of the scheme.
    pub(super) fn host_header(&self) -> String {
        match (self.is_tls, self.port) {
            (false, 80) | (true, 443) => self.host.clone(),
            _ => self.place(),
        }
    }

    /// The path and the query of the request.
    pub(super) fn target(&self) -> &str {
        &self.target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_users_write_them() {
        for (text, expected) in [
            ("ws://127.0.0.1:4500", Ok(("127.0.0.1", 4500, "127.0.0.1:4500", "/"))),
            ("ws://host.example", Ok(("host.example", 80, "host.example", "/"))),
            ("ws://host:80/", Ok(("host", 80, "host", "/"))),
            ("ws://host:443/", Ok(("host", 443, "host:443", "/"))),
            ("wss://host", Ok(("host", 443, "host", "/"))),
            ("WSS://Host:443", Ok(("Host", 443, "Host", "/"))),
            ("wss://host:80", Ok(("host", 80, "host:80", "/"))),
            (
                "wss://h-1.a_b.example/a/b%20c?d=e&f=/?",
                Ok(("h-1.a_b.example", 443, "h-1.a_b.example", "/a/b%20c?d=e&f=/?")),
            ),
            ("ws://host?a=b", Ok(("host", 80, "host", "/?a=b"))),
            ("ws://[::1]:4500/", Ok(("::1", 4500, "[::1]:4500", "/"))),
            ("wss://[2001:db8::1]", Ok(("2001:db8::1", 443, "[2001:db8::1]", "/"))),
            ("http://host", Err("neither `ws://` nor `wss://`")),
            ("unix:///socket", Err("neither `ws://` nor `wss://`")),
            ("host:1", Err("neither `ws://` nor `wss://`")),
            ("/path", Err("neither `ws://` nor `wss://`")),
            ("", Err("neither `ws://` nor `wss://`")),
            ("ws://", Err("not the address of a server")),
            ("ws:///path", Err("not the address of a server")),
            ("ws://:4500", Err("the host is missing")),
            ("ws://host:", Err("not a number from 1 to 65535")),
            ("ws://host:0", Err("not a number from 1 to 65535")),
            ("ws://host:65536", Err("not a number from 1 to 65535")),
            ("ws://host:+1", Err("not")),
            ("ws://host:1:2", Err("not")),
            ("ws://::1:4500", Err("not")),
            ("ws://[::1", Err("no")),
            ("ws://[host]:1", Err("no IPv6 address in the brackets")),
            ("ws://[::1]x", Err("not")),
            ("ws://[fe80::1%25eth0]:1", Err("no")),
            ("wss://host/#part", Err("no part after `#`")),
            ("wss://user:hidden@host", Err("give the token by its own option")),
            ("wss://hidden@host/path", Err("a user name or a password in the address is not sent")),
            ("ws://host\r\nX: y:4500", Err("no visible ASCII")),
            ("ws://h\u{f6}st", Err("no visible ASCII")),
            ("ws://ho st", Err("no visible ASCII")),
            ("ws://ho*st", Err("characters that no host has")),
        ] {
            match (text.parse::<WebSocketUrl>(), expected) {
                (Ok(url), Ok((name, port, header, target))) => {
                    let found = (url.name(), url.port(), &*url.host_header(), url.target());
                    assert_eq!(found, (name, port, header, target), "{text}");
                    assert_eq!(url.is_tls(), text.to_lowercase().starts_with("wss"), "{text}");
                }
                (Err(error), Err(why)) => {
                    let message = error.to_string();
                    assert_eq!(error.kind(), ErrorKind::InvalidAddress, "{text}");
                    assert!(
                        message.contains(why) && !message.contains("hidden"),
                        "{text}: {message}"
                    );
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        let url: WebSocketUrl = "wss://host/?key=hidden".parse().unwrap();
        assert_eq!(format!("{url:?}"), "WebSocketUrl(wss://host:443)");
    }
}
