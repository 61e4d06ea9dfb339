//! The managed network of a permission profile (`permissions.<name>.network`): the policy of its
//! proxy, and the thread that is asked about hosts that are on no list.

use std::ffi::OsString;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::{Config, NetworkMode, NetworkPermissions};
use sandbox::egress::{
    Asker, Egress, EgressPolicy, Mode, Outside, Pattern, Protocol, Target, UnixSockets, Upstream,
};
use session::{NetworkProtocol, NetworkTarget, SandboxPolicy};
use tokio::sync::{mpsc, oneshot};

use services::allowed::MachineInput;
use services::error::Error;
use services::options::Options;
use services::thread_port::Command;

/// Port of the HTTP proxy when `proxy_url` names none.
const HTTP_PORT: u16 = 3128;
/// Port of the SOCKS5 proxy when `socks_url` names none.
const SOCKS_PORT: u16 = 1080;

/// The managed network of commands under `policy`; `None` when they have none.
///
/// # Errors
/// A part of the profile that cannot be enforced, naming its key. Then no command may be started.
pub fn managed_network(
    policy: &SandboxPolicy,
    config: &Config,
    options: &Options,
    asker: Option<Arc<dyn Asker>>,
) -> Result<Option<Arc<Egress>>, Error> {
    let SandboxPolicy::Profile { name, managed: true, .. } = policy else { return Ok(None) };
    let Some(profile) = config.permission_profiles.get(name) else {
        return Err(Error::invalid_params(format!(
            "the permission profile `{name}` was removed from the configuration, so its managed \
             network cannot be set up"
        ))
        .next_step("define it again, or choose another profile"));
    };
    let policy = egress_policy(name, &profile.network, &options.environment)?;
    Ok(Some(Arc::new(Egress::new(policy, asker, Outside::real()))))
}

/// The policy of the proxy.
///
/// # Errors
/// An invalid value, naming its key.
pub(crate) fn egress_policy(
    profile: &str,
    network: &NetworkPermissions,
    environment: &[(OsString, OsString)],
) -> Result<EgressPolicy, Error> {
    let bad = |key: &str, why: &dyn std::fmt::Display| {
        Error::invalid_params(format!("`permissions.{profile}.network.{key}`: {why}"))
    };
    let patterns = |key: &str, all: &[String]| {
        let patterns = all.iter().map(|text| Pattern::parse(text));
        patterns.collect::<Result<Vec<_>, _>>().map_err(|error| bad(key, &error))
    };
    let others = network.dangerously_allow_non_loopback_proxy;
    let port = |key: &str, url: Option<&str>, schemes: &[&str], default: u16| {
        url.map_or(Ok(default), |url| port(url, schemes, others)).map_err(|why| bad(key, &why))
    };
    let sockets = || -> Result<UnixSockets, Error> {
        let all = network.allow_unix_sockets.iter().map(|path| {
            Some(std::path::PathBuf::from(path))
                .filter(|path| path.is_absolute())
                .ok_or_else(|| bad("allow_unix_sockets", &format!("`{path}` is not absolute")))
        });
        Ok(UnixSockets::Listed(all.collect::<Result<_, _>>()?))
    };
    let http_port = port("proxy_url", network.proxy_url.as_deref(), &["http"], HTTP_PORT)?;
    let socks = ["socks5", "socks5h"];
    let socks_port = port("socks_url", network.socks_url.as_deref(), &socks, SOCKS_PORT)?;
    if network.enable_socks5 && socks_port == http_port {
        return Err(bad("socks_url", &"it has the port of `proxy_url`; give it another one"));
    }
    if network.enable_socks5_udp && !network.enable_socks5 {
        return Err(bad("enable_socks5_udp", &"it needs `enable_socks5 = true`"));
    }
    Ok(EgressPolicy {
        mode: match network.mode {
            Some(NetworkMode::Limited) => Mode::Limited,
            Some(NetworkMode::Full) | None => Mode::Full,
        },
        allowed: patterns("allowed_domains", &network.allowed_domains)?,
        denied: patterns("denied_domains", &network.denied_domains)?,
        unix_sockets: match network.dangerously_allow_all_unix_sockets {
            true => UnixSockets::All,
            false => sockets()?,
        },
        local: network.allow_local_binding,
        upstream: match network.allow_upstream_proxy {
            true => upstream(environment).map_err(|why| bad("allow_upstream_proxy", &why))?,
            false => None,
        },
        http_port,
        socks_port: network.enable_socks5.then_some(socks_port),
        udp: network.enable_socks5_udp,
    })
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

/// Asks the clients of a thread about what one of its commands wants to reach.
pub(crate) struct ThreadAsker {
    pub thread: mpsc::Sender<Command>,
    /// The command's number in the session.
    pub process: u64,
}

/// Keys of questions, unique in the process.
static NEXT_QUESTION: AtomicU64 = AtomicU64::new(0);

impl Asker for ThreadAsker {
    fn ask(&self, target: Target) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let question = PendingQuestion {
            thread: self.thread.clone(),
            key: NEXT_QUESTION.fetch_add(1, Ordering::Relaxed),
            answered: false,
        };
        let (process, target) = (self.process, session_target(target));
        Box::pin(async move {
            let mut question = question;
            let (answer, answered) = oneshot::channel();
            let input = MachineInput::NetworkAsk { process, key: question.key, target };
            if question
                .thread
                .send(Command::Reach { input, key: question.key, answer })
                .await
                .is_err()
            {
                return false;
            }
            let allowed = answered.await;
            question.answered = true;
            // A thread that has ended allows nothing.
            allowed.unwrap_or(false)
        })
    }
}

/// Withdraws itself when it is dropped without an answer.
struct PendingQuestion {
    thread: mpsc::Sender<Command>,
    key: u64,
    answered: bool,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.answered {
            return;
        }
        let (thread, key) = (self.thread.clone(), self.key);
        runtime.spawn(async move {
            // A thread that has ended has no questions.
            let _ = thread.send(Command::Input(MachineInput::NetworkWithdrawn { key })).await;
        });
    }
}

fn session_target(target: Target) -> NetworkTarget {
    let protocol = match target.protocol {
        Protocol::Http => NetworkProtocol::Http,
        Protocol::Https => NetworkProtocol::Https,
        Protocol::Socks5Tcp => NetworkProtocol::Socks5Tcp,
        Protocol::Socks5Udp => NetworkProtocol::Socks5Udp,
    };
    NetworkTarget { host: target.host, port: target.port, protocol }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(network: NetworkPermissions) -> Result<EgressPolicy, Error> {
        let proxy = "http://user:pw@proxy.example:8080";
        egress_policy("p", &network, &[("HTTPS_PROXY".into(), proxy.into())])
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn ports_come_from_the_addresses() {
        let policy = read(NetworkPermissions::default()).unwrap();
        assert_eq!((policy.http_port, policy.socks_port, policy.udp), (3128, None, false));
        let policy = read(NetworkPermissions {
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
        assert_eq!(read(NetworkPermissions::default()).unwrap().upstream, None);
        let allowed =
            NetworkPermissions { allow_upstream_proxy: true, ..NetworkPermissions::default() };
        let policy = egress_policy("p", &allowed, &[]).unwrap();
        assert_eq!(policy.upstream, None);
        assert!(read(allowed.clone()).unwrap().upstream.is_some());
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
            let error = read(network.clone()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`permissions.p.network.{key}`: ")), "{error}");
        }
        let wide = NetworkPermissions {
            proxy_url: some("http://0.0.0.0:80"),
            dangerously_allow_non_loopback_proxy: true,
            ..none()
        };
        assert_eq!(read(wide).unwrap().http_port, 80);
    }
}
