//! The rules of the managed network (configuration, `permissions.<name>.network`). Decides by
//! names; the addresses of a name are checked when a connection is made.

use std::net::IpAddr;
use std::path::PathBuf;

use super::upstream::Upstream;
use crate::error::{Error, ErrorKind};

/// Longest host name in the domain name system.
const MAX_HOST: usize = 253;

/// The allowed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// HTTP requests that only read. TLS and SOCKS are refused, because their contents are unknown.
    Limited,
    /// Every connection.
    #[default]
    Full,
}

/// Unix sockets that requests can name in the header `x-unix-socket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnixSockets {
    /// These paths.
    Listed(Vec<PathBuf>),
    /// All.
    All,
}

/// The allowed network access of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressPolicy {
    pub mode: Mode,
    pub allowed: Vec<Pattern>,
    /// Has precedence over `allowed`.
    pub denied: Vec<Pattern>,
    pub unix_sockets: UnixSockets,
    /// True if private addresses, of this machine and its network, are allowed.
    pub local: bool,
    /// The upstream proxy.
    pub upstream: Option<Upstream>,
    /// Port of the HTTP proxy on the command's loopback interface.
    pub http_port: u16,
    /// Port of the SOCKS5 proxy, if there is one.
    pub socks_port: Option<u16>,
    /// True if the SOCKS5 proxy relays UDP.
    pub udp: bool,
}

impl Default for EgressPolicy {
    fn default() -> Self {
        Self {
            mode: Mode::Full,
            allowed: Vec::new(),
            denied: Vec::new(),
            unix_sockets: UnixSockets::Listed(Vec::new()),
            local: false,
            upstream: None,
            http_port: 3128,
            socks_port: None,
            udp: false,
        }
    }
}

/// The lists that contain a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Allowed,
    Denied,
    /// No list contains it.
    Unlisted,
}

impl EgressPolicy {
    pub(super) fn of(&self, host: &str) -> Listed {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(host));
        match (any(&self.denied), any(&self.allowed)) {
            (true, _) => Listed::Denied,
            (false, true) => Listed::Allowed,
            (false, false) => Listed::Unlisted,
        }
    }

    /// Returns whether private addresses are allowed, and `host` by its own name and not by `*` alone.
    pub(super) fn names_local(&self, host: &str) -> bool {
        let is_named = |pattern: &Pattern| matches!(&pattern.0, Form::Exact(name) if name == host);
        self.local && self.allowed.iter().any(is_named) && self.of(host) == Listed::Allowed
    }
}

/// A host pattern: a name or address, `*.name` for subdomains, `**.name` for the name as well, `*`
/// for every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Exact(String),
    Below { name: String, itself: bool },
    Every,
}

impl Pattern {
    /// Parses a pattern. Ignores letter case and a trailing dot.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidPattern`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = || {
            let message = format!("`{text}` is not a host pattern");
            Error::new(ErrorKind::InvalidPattern, message).next_step(
                "write a name such as `example.com`, `*.example.com` for its subdomains, \
                 `**.example.com` for both, or `*`",
            )
        };
        let named = |name: &str| host_name(name).ok_or_else(bad);
        let form = match text {
            "*" => Form::Every,
            _ => match (text.strip_prefix("**."), text.strip_prefix("*.")) {
                (Some(name), _) => Form::Below { name: named(name)?, itself: true },
                (None, Some(name)) => Form::Below { name: named(name)?, itself: false },
                (None, None) => Form::Exact(named(text)?),
            },
        };
        Ok(Self(form))
    }

    pub(super) fn matches(&self, host: &str) -> bool {
        match &self.0 {
            Form::Every => true,
            Form::Exact(name) => host == name,
            Form::Below { name, itself } => match host.strip_suffix(name.as_str()) {
                Some("") => *itself,
                Some(front) => front.ends_with('.') && host.parse::<IpAddr>().is_err(),
                None => false,
            },
        }
    }
}

/// The canonical form of a host: lower case, without a trailing dot, addresses as they are printed.
/// `None` for a text that is neither a name nor an address, such as the old spellings of addresses
/// (`127.1`, `0x7f000001`), which lists would not match.
pub(super) fn host_name(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Some(address.to_canonical().to_string());
    }
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let label_is_good = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.bytes().all(|b| b.is_ascii_digit());
    (name.len() <= MAX_HOST && name.split('.').all(label_is_good) && !is_number).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns() {
        let check = |pattern: &str, host: &str, expect: bool| {
            let host = host_name(host).unwrap();
            assert_eq!(Pattern::parse(pattern).unwrap().matches(&host), expect, "{pattern} {host}");
        };
        check("example.com", "example.com", true);
        check("Example.COM.", "eXample.com.", true);
        check("example.com", "www.example.com", false);
        check("example.com", "example.com.evil.org", false);
        check("*.example.com", "www.example.com", true);
        check("*.example.com", "a.b.example.com", true);
        check("*.example.com", "example.com", false);
        check("*.example.com", "wwwexample.com", false);
        check("**.example.com", "example.com", true);
        check("**.example.com", "a.example.com", true);
        check("**.example.com", "notexample.com", false);
        check("*", "anything.test", true);
        check("8.8.8.8", "8.8.8.8", true);
        check("8.8.8.8", "[::ffff:8.8.8.8]", true);
        check("[2606:4700::1111]", "2606:4700:0::1111", true);
        for bad in [
            "",
            ".",
            "*.",
            "a*b.com",
            "http://x",
            "x:80",
            "a b",
            "*.*.x",
            "-a.com",
            "a..b",
            "ü.de",
            "127.1",
            "0x7f000001",
            "2130706433",
            "1.2.3.256",
            "user@x",
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn denied_hosts_have_precedence_over_allowed_ones() {
        let all = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let policy = EgressPolicy {
            allowed: all(&["**.example.com"]),
            denied: all(&["secret.example.com", "*.secret.example.com"]),
            ..EgressPolicy::default()
        };
        let check = |host: &str, expect| assert_eq!(policy.of(host), expect, "{host}");
        check("www.example.com", Listed::Allowed);
        check("secret.example.com", Listed::Denied);
        check("a.secret.example.com", Listed::Denied);
        check("example.org", Listed::Unlisted);
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_stable(text in "[a-zA-Z0-9.:_\\[\\]-]{0,40}") {
            if let Some(host) = host_name(&text) {
                prop_assert_eq!(host_name(&host), Some(host.clone()));
                prop_assert!(!host.ends_with('.'));
            }
        }
    }
}
