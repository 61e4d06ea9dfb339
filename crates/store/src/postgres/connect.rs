//! Opens connections to the servers that a URL names.
//!
//! A server that does not answer delays this only briefly: the next one is tried in parallel. The
//! first connection that is open is used.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Connect;
use rustls::ClientConfig;
use tokio::task::{JoinHandle, JoinSet};
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config, Error, NoTls};

use super::failure::described;
use super::tls::Connector;
use super::value::random;
use crate::StoreError;
use crate::error::Fault;

/// Time limit for each address of a server to accept a connection.
const ADDRESS: Duration = Duration::from_secs(1);
/// Time after which the next server is tried, too.
const STAGGER: Duration = Duration::from_millis(300);
/// A connection without traffic is probed after this time, and each interval; lost with the last
/// probe.
const PROBES: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 3);

/// The servers of a URL, in their order.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    /// The options of the URL.
    pub(super) options: Config,
    /// Describes the database in messages, without a password.
    pub(super) place: Arc<str>,
    servers: Vec<Server>,
}

#[derive(Clone)]
struct Server {
    options: Config,
    tls: Option<Connector>,
}

impl Servers {
    /// The servers of `url`. Those with an address use TLS if there are roots for it, unless the URL
    /// disables it.
    pub(super) fn of(
        url: &str,
        password: Option<&str>,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, StoreError> {
        let mut options: Config = with_known_mode(url)?.parse().map_err(|error| {
            let why = described(&error);
            bad_url(&format!("it is not the URL of a PostgreSQL database ({why})"))
        })?;
        let place = place_of(&options).into();
        if let Some(password) = password {
            options.password(password);
        }
        let (idle, interval, retries) = PROBES;
        options.connect_timeout(ADDRESS).tcp_user_timeout(Duration::from_secs(10));
        options.keepalives_idle(idle.min(options.get_keepalives_idle()));
        options.keepalives_interval(options.get_keepalives_interval().unwrap_or(interval));
        options.keepalives_retries(options.get_keepalives_retries().unwrap_or(retries));
        if options.get_application_name().is_none() {
            options.application_name("agentd");
        }
        let count = options.get_hosts().len().max(options.get_hostaddrs().len());
        if count > 1 && options.get_target_session_attrs() == TargetSessionAttrs::Any {
            // The others are standbys.
            options.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let ports = options.get_ports().len();
        let addresses = options.get_hostaddrs().len();
        if (ports > 1 && ports != count) || (addresses > 0 && addresses != count) {
            return Err(bad_url("it has not as many ports or addresses as hosts"));
        }
        let servers =
            (0..count).map(|at| Server::of(&options, at, tls)).collect::<Result<_, _>>()?;
        Ok(Self { options, place, servers })
    }

    async fn open(mut self) -> Result<(Client, JoinHandle<()>), Error> {
        if self.options.get_load_balance_hosts() == LoadBalanceHosts::Random {
            self.servers.sort_by_cached_key(|_| random());
        }
        let mut left = self.servers.into_iter();
        let (mut tried, mut failed) = (JoinSet::new(), None);
        loop {
            let next = left.next();
            let is_last = next.is_none();
            if let Some(server) = next {
                tried.spawn(server.connect());
            }
            tokio::select! {
                outcome = tried.join_next() => match outcome {
                    Some(Ok(Ok(opened))) => return Ok(opened),
                    Some(Ok(Err(error))) => failed = Some(error),
                    // The task is aborted with the runtime.
                    Some(Err(_)) => {}
                    None if is_last => match failed {
                        Some(error) => return Err(error),
                        // Without a host, this is an error.
                        None => return Server { options: self.options, tls: None }.connect().await,
                    },
                    None => {}
                },
                () = tokio::time::sleep(STAGGER), if !is_last => {}
            }
        }
    }
}

impl Connect for Servers {
    fn connect(
        &self,
        _: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        Box::pin(self.clone().open())
    }
}

impl Server {
    /// The server at this position of a list.
    fn of(
        options: &Config,
        at: usize,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, StoreError> {
        let mut one = only(options, at);
        // As other clients of PostgreSQL do, whatever the mode: a socket does not leave this machine.
        let is_local = one.get_hostaddrs().is_empty()
            && one.get_hosts().iter().any(|host| !matches!(host, Host::Tcp(_)));
        let tls = match (one.get_ssl_mode(), tls) {
            _ if is_local => None,
            (SslMode::Disable, _) | (SslMode::Prefer, None) => None,
            (_, Some(tls)) => Some(Connector(Arc::clone(tls))),
            (_, None) => return Err(bad_url("it requires TLS, for which no roots are given")),
        };
        // Not `prefer`, with which someone on the way could turn encryption off.
        one.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
        Ok(Self { options: one, tls })
    }

    async fn connect(self) -> Result<(Client, JoinHandle<()>), Error> {
        // The client of a connection gets its errors, too.
        match self.tls {
            Some(tls) => {
                let (client, connection) = self.options.connect(tls).await?;
                Ok((client, tokio::spawn(async move { drop(connection.await) })))
            }
            None => {
                let (client, connection) = self.options.connect(NoTls).await?;
                Ok((client, tokio::spawn(async move { drop(connection.await) })))
            }
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Options for one server of a list.
fn only(options: &Config, at: usize) -> Config {
    let mut one = Config::new();
    match options.get_hosts().get(at) {
        Some(Host::Tcp(name)) => {
            one.host(name);
        }
        #[cfg(unix)]
        Some(Host::Unix(path)) => {
            one.host_path(path);
        }
        None => {}
    }
    if let Some(address) = options.get_hostaddrs().get(at) {
        one.hostaddr(*address);
    }
    if let Some(port) = options.get_ports().get(at).or(options.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = options.get_user() {
        one.user(user);
    }
    if let Some(password) = options.get_password() {
        one.password(password);
    }
    if let Some(name) = options.get_dbname() {
        one.dbname(name);
    }
    if let Some(more) = options.get_options() {
        one.options(more);
    }
    if let Some(name) = options.get_application_name() {
        one.application_name(name);
    }
    if let Some(time) = options.get_connect_timeout() {
        one.connect_timeout(*time);
    }
    if let Some(time) = options.get_tcp_user_timeout() {
        one.tcp_user_timeout(*time);
    }
    if let Some(interval) = options.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = options.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(options.get_keepalives())
        .keepalives_idle(options.get_keepalives_idle())
        .ssl_mode(options.get_ssl_mode())
        .ssl_negotiation(options.get_ssl_negotiation())
        .target_session_attrs(options.get_target_session_attrs())
        .channel_binding(options.get_channel_binding())
        .load_balance_hosts(options.get_load_balance_hosts());
    one
}

/// The URL with a mode of TLS that its parser knows. Certificates are always verified, with the name
/// of their host.
fn with_known_mode(url: &str) -> Result<String, StoreError> {
    const VERIFIED: &str = "sslmode=verify-full";
    if has_parameter(url, "sslmode=verify-ca") || has_parameter(url, "sslmode=allow") {
        return Err(bad_url(
            "of the values of `sslmode`, only disable, prefer, require and \
             verify-full are known",
        ));
    }
    Ok(match has_parameter(url, VERIFIED) {
        true => url.replace(VERIFIED, "sslmode=require"),
        false => url.to_owned(),
    })
}

/// Returns whether a URL has a parameter with its value.
fn has_parameter(url: &str, parameter: &str) -> bool {
    url.match_indices(parameter).any(|(at, _)| {
        let (before, after) = (&url[..at], &url[at + parameter.len()..]);
        before.ends_with(['?', '&']) && (after.is_empty() || after.starts_with('&'))
    })
}

/// An error of the URL of the store.
pub(super) fn bad_url(why: &str) -> StoreError {
    StoreError::Unavailable(Fault::new(format!(
        "the URL of the thread store cannot be used: {why}; write \
         postgres://USER:PASSWORD@HOST/DATABASE?sslmode=require"
    )))
}

fn place_of(options: &Config) -> String {
    let mut place = "PostgreSQL at".to_owned();
    let ports = options.get_ports();
    for (at, host) in options.get_hosts().iter().enumerate() {
        let separator = if at > 0 { "," } else { " " };
        let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        // A `String` takes any text.
        let _ = match host {
            Host::Tcp(name) => write!(place, "{separator}{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => write!(place, "{separator}{}:{port}", path.display()),
        };
    }
    let _ = write!(place, "/{}", options.get_dbname().unwrap_or_default());
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_is_noticed_within_seconds() {
        let servers = Servers::of("postgres://me@a,b/db", None, None).unwrap();
        for server in &servers.servers {
            let options = &server.options;
            let (interval, probes) =
                (options.get_keepalives_interval(), options.get_keepalives_retries());
            let silent = options.get_keepalives_idle() + interval.unwrap() * probes.unwrap();
            assert!(options.get_keepalives() && silent <= Duration::from_secs(11), "{silent:?}");
            assert_eq!(options.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
        assert_eq!(servers.servers.len(), 2);
    }

    #[test]
    fn each_server_of_a_list_keeps_its_options() {
        let url = "postgres://me:pw@a:1,%2Frun%2Fb:2/db?application_name=x&options=-cy%3Dz\
             &keepalives_idle=3&connect_timeout=9&channel_binding=disable";
        let servers = Servers::of(url, None, None).unwrap();
        let options: Vec<&Config> = servers.servers.iter().map(|server| &server.options).collect();
        assert_eq!(options[0].get_hosts(), [Host::Tcp("a".into())]);
        assert_eq!(options[1].get_hosts(), [Host::Unix("/run/b".into())]);
        for (one, port) in options.into_iter().zip([1, 2]) {
            assert_eq!(one.get_ports(), [port]);
            assert_eq!((one.get_user(), one.get_dbname()), (Some("me"), Some("db")));
            assert_eq!(one.get_password(), Some(&b"pw"[..]));
            assert_eq!((one.get_application_name(), one.get_options()), (Some("x"), Some("-cy=z")));
            assert_eq!(one.get_keepalives_idle(), Duration::from_secs(3));
            assert_eq!(one.get_connect_timeout(), Some(&ADDRESS));
            assert_eq!(one.get_channel_binding(), servers.options.get_channel_binding());
        }
    }

    #[test]
    fn modes_of_tls_are_read_in_the_parameters_only() {
        let parsed = |url: &str| with_known_mode(url).map_err(|error| error.to_string());
        for (url, expected) in [
            ("postgres://h/d?sslmode=verify-full", "postgres://h/d?sslmode=require"),
            (
                "postgres://h/d?a=b&sslmode=verify-full&c=d",
                "postgres://h/d?a=b&sslmode=require&c=d",
            ),
            ("postgres://u:sslmode=verify-full@h/d", "postgres://u:sslmode=verify-full@h/d"),
        ] {
            assert_eq!(parsed(url).as_deref(), Ok(expected));
        }
        let refused = parsed("postgres://h/d?sslmode=verify-ca").unwrap_err();
        assert!(refused.contains("verify-full are known"), "{refused}");
    }
}
