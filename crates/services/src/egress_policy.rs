//! The policy of the proxy of a permission profile's managed network (`permissions.<name>.network`).

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::{NetworkMode, NetworkPermissions};
use sandbox::egress::{EgressPolicy, Mode, Pattern, UnixSockets, Upstream};

use crate::error::Error;

/// Port of the HTTP proxy when `proxy_url` names none.
const HTTP_PORT: u16 = 3128;
/// Port of the SOCKS5 proxy when `socks_url` names none.
const SOCKS_PORT: u16 = 1080;

/// The policy of the proxy.
///
/// # Errors
/// The first invalid value, naming its key.
pub fn egress_policy(
    profile: &str,
    network: &NetworkPermissions,
    environment: &[(OsString, OsString)],
) -> Result<EgressPolicy, Error> {
    let mut mistakes = Mistakes::default();
    let policy = read(network, environment, &mut mistakes);
    match mistakes.0.into_iter().next() {
        None => Ok(policy),
        Some((key, why)) => {
            let key = key.split('.').next().unwrap_or(&key);
            let message = format!("`permissions.{profile}.network.{key}`: {why}");
            Err(Error::invalid_params(message))
        }
    }
}

/// Every value of a profile's network that cannot be used: its key below `network`, in which a number
/// is the place in a list, and why.
pub(crate) fn network_mistakes(
    network: &NetworkPermissions,
    environment: &[(OsString, OsString)],
) -> Vec<(String, String)> {
    let mut mistakes = Mistakes::default();
    read(network, environment, &mut mistakes);
    mistakes.0
}

/// Mistakes by key.
#[derive(Default)]
struct Mistakes(Vec<(String, String)>);

impl Mistakes {
    fn add(&mut self, key: impl Into<String>, why: impl std::fmt::Display) {
        self.0.push((key.into(), why.to_string()));
    }

    /// The elements of a list that can be used.
    fn each<T>(
        &mut self,
        key: &str,
        all: &[String],
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut usable = Vec::new();
        for (index, text) in all.iter().enumerate() {
            match read(text) {
                Ok(value) => usable.push(value),
                Err(why) => self.add(format!("{key}.{index}"), why),
            }
        }
        usable
    }

    fn or<T>(&mut self, key: &str, read: Result<T, Error>, otherwise: T) -> T {
        read.unwrap_or_else(|why| {
            self.add(key, why);
            otherwise
        })
    }
}

/// Reads what can be used of a network. The policy counts only when there are no mistakes.
fn read(
    network: &NetworkPermissions,
    environment: &[(OsString, OsString)],
    mistakes: &mut Mistakes,
) -> EgressPolicy {
    let others = network.dangerously_allow_non_loopback_proxy;
    let port_of = |url: Option<&str>, schemes: &[&str], default: u16| {
        url.map_or(Ok(default), |url| port(url, schemes, others))
    };
    let http_port = port_of(network.proxy_url.as_deref(), &["http"], HTTP_PORT);
    let http_port = mistakes.or("proxy_url", http_port, HTTP_PORT);
    let socks = ["socks5", "socks5h"];
    let socks_port = port_of(network.socks_url.as_deref(), &socks, SOCKS_PORT);
    let socks_port = mistakes.or("socks_url", socks_port, SOCKS_PORT);
    if network.enable_socks5 && socks_port == http_port {
        mistakes.add("socks_url", "it has the port of `proxy_url`; give it another one");
    }
    if network.enable_socks5_udp && !network.enable_socks5 {
        mistakes.add("enable_socks5_udp", "it needs `enable_socks5 = true`");
    }
    let pattern = |text: &str| Pattern::parse(text).map_err(|error| error.to_string());
    let socket = |path: &str| match PathBuf::from(path) {
        path if path.is_absolute() => Ok(path),
        _ => Err(format!("`{path}` is not absolute")),
    };
    EgressPolicy {
        mode: match network.mode {
            Some(NetworkMode::Limited) => Mode::Limited,
            Some(NetworkMode::Full) | None => Mode::Full,
        },
        allowed: mistakes.each("allowed_domains", &network.allowed_domains, pattern),
        denied: mistakes.each("denied_domains", &network.denied_domains, pattern),
        unix_sockets: match network.dangerously_allow_all_unix_sockets {
            true => UnixSockets::All,
            false => UnixSockets::Listed(mistakes.each(
                "allow_unix_sockets",
                &network.allow_unix_sockets,
                socket,
            )),
        },
        local: network.allow_local_binding,
        upstream: match network.allow_upstream_proxy {
            true => mistakes.or("allow_upstream_proxy", upstream(environment), None),
            false => None,
        },
        http_port,
        socks_port: network.enable_socks5.then_some(socks_port),
        udp: network.enable_socks5_udp,
    }
}

/// The port of `scheme://host:port`. The proxy listens on the loopback interface of the command's own
/// network, which has no other host. A profile that explicitly allows it may name another address,
/// which then means the same interface.
fn port(url: &str, schemes: &[&str], others: bool) -> Result<u16, Error> {
    let (scheme, rest) = url.split_once("://").unwrap_or((schemes[0], url));
    let place = rest.trim_end_matches('/').rsplit_once(':');
    let port = place.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    let Some((host, port)) = port.filter(|(_, port)| schemes.contains(&scheme) && *port > 0) else {
        return Err(Error::invalid_params(format!(
            "`{url}` is not of the form {}://127.0.0.1:port",
            schemes[0]
        )));
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let loopback =
        bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if !loopback && !others {
        return Err(Error::invalid_params(format!("`{host}` is not a loopback address"))
            .next_step("`dangerously_allow_non_loopback_proxy = true` would allow it"));
    }
    Ok(port)
}

/// The proxy that the environment of this process names.
fn upstream(environment: &[(OsString, OsString)]) -> Result<Option<Upstream>, Error> {
    let variable = |names: &[&str]| {
        let found = names.iter().find_map(|name| {
            let (_, value) = environment.iter().find(|(known, _)| known == name)?;
            value.to_str().filter(|value| !value.is_empty())
        });
        found.map(str::to_owned)
    };
    let names =
        ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let Some(url) = variable(&names) else { return Ok(None) };
    let except = variable(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let upstream = Upstream::parse(&url, &except, |bytes| STANDARD.encode(bytes));
    // The address may contain a password, so it is not quoted.
    upstream.map(Some).ok_or_else(|| {
        Error::invalid_params(
            "the proxy that the environment names is not of the form http://host:port",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy_of(network: NetworkPermissions) -> Result<EgressPolicy, Error> {
        let proxy = "http://user:pw@proxy.example:8080";
        egress_policy("p", &network, &[("HTTPS_PROXY".into(), proxy.into())])
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn ports_come_from_the_addresses() {
        let policy = policy_of(NetworkPermissions::default()).unwrap();
        assert_eq!((policy.http_port, policy.socks_port, policy.udp), (3128, None, false));
        let policy = policy_of(NetworkPermissions {
            proxy_url: some("http://localhost:8888/"),
            socks_url: some("socks5h://[::1]:9999"),
            enable_socks5: true,
            enable_socks5_udp: true,
            ..NetworkPermissions::default()
        });
        let policy = policy.unwrap();
        assert_eq!((policy.http_port, policy.socks_port, policy.udp), (8888, Some(9999), true));
    }

    #[test]
    fn another_proxy_is_used_only_if_allowed() {
        assert_eq!(policy_of(NetworkPermissions::default()).unwrap().upstream, None);
        let allowed =
            NetworkPermissions { allow_upstream_proxy: true, ..NetworkPermissions::default() };
        let policy = egress_policy("p", &allowed, &[]).unwrap();
        assert_eq!(policy.upstream, None);
        assert!(policy_of(allowed.clone()).unwrap().upstream.is_some());
        let other = [("ALL_PROXY".into(), "socks5://user:secret@a:1".into())];
        let error = egress_policy("p", &allowed, &other).unwrap_err().to_string();
        assert!(error.contains("allow_upstream_proxy") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn invalid_network_settings_are_named() {
        let none = NetworkPermissions::default;
        let one = |text: &str| vec![text.to_owned()];
        let bad = [
            ("allowed_domains", NetworkPermissions { allowed_domains: one("a b"), ..none() }),
            ("denied_domains", NetworkPermissions { denied_domains: one("a.*"), ..none() }),
            ("allow_unix_sockets", NetworkPermissions { allow_unix_sockets: one("s"), ..none() }),
            ("proxy_url", NetworkPermissions { proxy_url: some("https://127.0.0.1:1"), ..none() }),
            ("proxy_url", NetworkPermissions { proxy_url: some("http://127.0.0.1"), ..none() }),
            ("proxy_url", NetworkPermissions { proxy_url: some("http://127.0.0.1:0"), ..none() }),
            ("proxy_url", NetworkPermissions { proxy_url: some("http://0.0.0.0:80"), ..none() }),
            ("socks_url", NetworkPermissions { socks_url: some("http://127.0.0.1:1"), ..none() }),
            (
                "socks_url",
                NetworkPermissions {
                    enable_socks5: true,
                    socks_url: some("socks5://127.0.0.1:3128"),
                    ..none()
                },
            ),
            ("enable_socks5_udp", NetworkPermissions { enable_socks5_udp: true, ..none() }),
        ];
        for (key, network) in bad {
            let error = policy_of(network.clone()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`permissions.p.network.{key}`: ")), "{error}");
        }
        let wide = NetworkPermissions {
            proxy_url: some("http://0.0.0.0:80"),
            dangerously_allow_non_loopback_proxy: true,
            ..none()
        };
        assert_eq!(policy_of(wide).unwrap().http_port, 80);
    }
}
