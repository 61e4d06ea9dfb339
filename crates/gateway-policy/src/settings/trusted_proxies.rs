//! `[server] trusted_proxies`: the reverse proxies that name the client of a request, and the client that they name.
//!
//! A proxy adds the address that a connection came from to the end of `X-Forwarded-For`. So the header is read from its
//! end: the last address that is not that of a trusted proxy is the client. What stands before it is only what that
//! client says. Without a trusted proxy at the other end of the connection, the header means nothing.

use std::net::{IpAddr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::HeaderName;
use ipnet::IpNet;

use super::error::Fault;

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Most networks.
const MOST: usize = 256;
/// Most proxies in a row; further entries are not read, and the last one that was counts as the client.
const MAX_HOPS: usize = 32;
/// Longest entry that is read, in bytes: an IPv6 address with a zone and a port.
const MAX_ENTRY: usize = 80;

/// The networks of trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Box<[IpNet]>);

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address: that of the connection, or the one that a trusted proxy names.
    pub address: IpAddr,
    /// True if a trusted proxy says that the client uses https.
    pub is_https: bool,
}

impl TrustedProxies {
    /// The client of a request with these headers, over a connection from `peer`.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return Client { address: peer, is_https: false };
        }
        Client { address: self.forwarded_for(peer, headers), is_https: is_https(headers) }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    fn forwarded_for(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        // Several headers are one list.
        let lines = headers.get_all(FOR).iter().collect::<Vec<_>>();
        let entries = lines.iter().rev().flat_map(|line| line.as_bytes().rsplit(|b| *b == b','));
        let mut nearest = peer;
        for entry in entries.take(MAX_HOPS) {
            // What is not an address was not written by a proxy of ours: nothing before it can be believed.
            let Some(address) = address(entry) else { return nearest };
            nearest = address;
            if !self.trusts(address) {
                return address;
            }
        }
        nearest
    }

    pub(super) fn resolve(texts: &[String]) -> Result<(Self, Option<String>), Fault> {
        let wrong = |message: String| Fault::new(&["server", "trusted_proxies"], message);
        if texts.len() > MOST {
            return Err(wrong(format!("has {} entries; at most {MOST} are possible", texts.len())));
        }
        let read = |text: &String| {
            let network = match text.parse::<IpAddr>() {
                Ok(address) => Ok(IpNet::from(address)),
                Err(_) => text.parse::<IpNet>(),
            };
            let network = network.map_err(|_| {
                wrong(format!(
                    "`{text}` is neither an address nor a range of addresses such as `10.0.0.0/8` or `fd00::/8`"
                ))
            })?;
            match network.addr().to_canonical() == network.addr() {
                true => Ok(network.trunc()),
                false => {
                    Err(wrong(format!("`{text}` must be written as an IPv4 address or range")))
                }
            }
        };
        let networks = texts.iter().map(read).collect::<Result<Box<[_]>, _>>()?;
        let all = networks.iter().find(|network| network.prefix_len() == 0);
        let warning = all.map(|all| {
            format!(
                "[server] trusted_proxies has {all}, which is every address: each client that reaches this port \
                 directly chooses the address that it is known by"
            )
        });
        Ok((Self(networks), warning))
    }
}

/// The address of an entry: with or without a port, in brackets or not; the zone of an IPv6 address is left out.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if text.len() > MAX_ENTRY {
        return None;
    }
    let plain = without_zone(text);
    let read = plain.parse::<IpAddr>().ok();
    let read = read.or_else(|| plain.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    let read = read.or_else(|| plain.strip_prefix('[')?.strip_suffix(']')?.parse().ok());
    read.map(|address| address.to_canonical())
}

/// `fe80::1%eth0` without `%eth0`, also within brackets.
fn without_zone(text: &str) -> String {
    match text.split_once('%') {
        None => text.to_owned(),
        Some((address, rest)) => {
            let after = rest.find(']').map_or("", |end| &rest[end..]);
            format!("{address}{after}")
        }
    }
}

/// Returns whether the proxy next to the gateway says that the client uses https.
fn is_https(headers: &HeaderMap) -> bool {
    let last = headers.get_all(PROTO).iter().next_back();
    let last = last.and_then(|value| value.as_bytes().rsplit(|b| *b == b',').next());
    last.is_some_and(|scheme| scheme.trim_ascii().eq_ignore_ascii_case(b"https"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proxies(texts: &[&str]) -> TrustedProxies {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        TrustedProxies::resolve(&texts).expect("valid").0
    }

    fn headers(lines: &[(HeaderName, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, line) in lines {
            headers.append(name, hyper::header::HeaderValue::from_bytes(line).expect("a value"));
        }
        headers
    }

    fn named(peer: &str, lines: &[&[u8]]) -> String {
        let proxies = proxies(&["10.0.0.0/8", "192.0.2.1", "fd00::/8"]);
        let lines: Vec<_> = lines.iter().map(|line| (FOR, *line)).collect();
        proxies.client(peer.parse().expect("an address"), &headers(&lines)).address.to_string()
    }

    #[test]
    fn the_last_address_that_is_no_proxy_is_the_client() {
        let check = |peer: &str, lines: &[&[u8]], expected: &str| {
            assert_eq!(named(peer, lines), expected, "{peer} {lines:?}");
        };
        // Without a trusted proxy the header means nothing.
        check("203.0.113.9", &[b"198.51.100.7"], "203.0.113.9");
        check("192.0.2.2", &[b"198.51.100.7"], "192.0.2.2");
        check("10.1.2.3", &[], "10.1.2.3");
        check("10.1.2.3", &[b"198.51.100.7"], "198.51.100.7");
        check("::ffff:10.1.2.3", &[b"::ffff:198.51.100.7"], "198.51.100.7");
        check("192.0.2.1", &[b"198.51.100.7, 10.9.9.9,fd00::1"], "198.51.100.7");
        // The client's own header stands before the address that the proxy adds.
        check("10.1.2.3", &[b"127.0.0.1, 10.0.0.1, 198.51.100.7"], "198.51.100.7");
        check("10.1.2.3", &[b"127.0.0.1", b"198.51.100.7"], "198.51.100.7");
        check("10.1.2.3", &[b"127.0.0.1", b"198.51.100.7", b"10.0.0.1, 10.0.0.2"], "198.51.100.7");
        // All are proxies: the one that is furthest away.
        check("10.1.2.3", &[b"10.0.0.7, 10.0.0.8"], "10.0.0.7");
    }

    #[test]
    fn addresses_are_read_with_ports_zones_and_brackets() {
        for (entry, expected) in [
            ("198.51.100.7:4711", "198.51.100.7"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("2001:db8::7", "2001:db8::7"),
            ("fe80::7%eth0", "fe80::7"),
            ("[fe80::7%eth0]:4711", "fe80::7"),
            ("[fe80::7%25eth0]", "fe80::7"),
            ("\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("  198.51.100.7\t", "198.51.100.7"),
        ] {
            assert_eq!(named("10.1.2.3", &[entry.as_bytes()]), expected, "{entry}");
        }
    }

    #[test]
    fn nothing_before_what_is_no_address_is_believed() {
        let garbage: [&[u8]; 9] = [
            b"",
            b"unknown",
            b"_hidden",
            b"198.51.100.7 203.0.113.4",
            b"198.51.100.300",
            b"\xff\xfe",
            b"[2001:db8::7",
            b"198.51.100.7:99999",
            b"for=198.51.100.7",
        ];
        for entry in garbage {
            assert_eq!(named("10.1.2.3", &[b"203.0.113.4", entry]), "10.1.2.3", "{entry:?}");
            let line = [b"203.0.113.4,", entry, b", 10.0.0.5"].concat();
            assert_eq!(named("10.1.2.3", &[&line]), "10.0.0.5", "{entry:?}");
        }
        let long = "1".repeat(100_000);
        assert_eq!(named("10.1.2.3", &[long.as_bytes()]), "10.1.2.3");
    }

    #[test]
    fn long_lists_are_read_up_to_a_bound() {
        let mut line = "203.0.113.4,".repeat(10_000);
        line.push_str("198.51.100.7");
        assert_eq!(named("10.1.2.3", &[line.as_bytes()]), "198.51.100.7");
        let proxies: Vec<String> =
            (0..10_000).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
        let line = proxies.join(", ");
        let last = &proxies[proxies.len() - MAX_HOPS];
        assert_eq!(named("10.1.2.3", &[b"203.0.113.4", line.as_bytes()]), *last);
    }

    #[test]
    fn the_scheme_is_that_of_the_nearest_proxy() {
        let trusted = proxies(&["10.0.0.0/8"]);
        let check = |peer: &str, lines: &[&[u8]], expected: bool| {
            let lines: Vec<_> = lines.iter().map(|line| (PROTO, *line)).collect();
            let client = trusted.client(peer.parse().expect("an address"), &headers(&lines));
            assert_eq!(client.is_https, expected, "{peer} {lines:?}");
        };
        check("10.1.2.3", &[b"https"], true);
        check("10.1.2.3", &[b"http", b"HTTPS"], true);
        check("10.1.2.3", &[b"https, http"], false);
        check("10.1.2.3", &[b"https", b"http"], false);
        check("10.1.2.3", &[b"ftp"], false);
        check("10.1.2.3", &[], false);
        check("203.0.113.9", &[b"https"], false);
    }

    #[test]
    fn networks_are_checked() {
        let refused = |text: &str| TrustedProxies::resolve(&[text.to_owned()]).is_err();
        for text in
            ["", "proxy.example", "10.0.0.0/33", "10.0.0.0/", "10.0.0.1:80", "::ffff:10.0.0.0/104"]
        {
            assert!(refused(text), "{text}");
        }
        // Bits after the prefix do not count.
        assert_eq!(proxies(&["10.1.2.3/8"]), proxies(&["10.0.0.0/8"]));
        let (_, warning) = TrustedProxies::resolve(&["0.0.0.0/0".to_owned()]).expect("valid");
        assert!(warning.is_some_and(|warning| warning.contains("every address")));
        let many: Vec<String> =
            (0..=MOST).map(|n| format!("10.0.{}.{}", n / 250, n % 250)).collect();
        assert!(TrustedProxies::resolve(&many).is_err());
    }

    proptest! {
        /// Whatever a client writes before the address that the proxy adds, it is known by that one.
        #[test]
        fn a_client_never_chooses_its_address(lies in prop::collection::vec("[ -~]{0,60}", 0..4)) {
            let mut lines: Vec<Vec<u8>> = lies.into_iter().map(String::into_bytes).collect();
            if let Some(last) = lines.last_mut() {
                last.extend_from_slice(b", 198.51.100.7");
            } else {
                lines.push(b"198.51.100.7".to_vec());
            }
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(named("10.1.2.3", &lines), "198.51.100.7");
        }
    }
}
