//! Connections to servers, directly or through a proxy: HTTP proxies by `CONNECT`, even for `http:`, and
//! SOCKS 5. Servers on this machine are always reached directly.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::http::uri::{Authority, Parts, Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

/// The variables that name proxies: the first one of a row that is set applies. The lower-case name wins,
/// as is customary.
const HTTPS: [&str; 2] = ["https_proxy", "HTTPS_PROXY"];
const HTTP: [&str; 2] = ["http_proxy", "HTTP_PROXY"];
const ALL: [&str; 2] = ["all_proxy", "ALL_PROXY"];
const NONE: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Why a proxy cannot be used. No message has its user name or password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The variable's value is not an address of a proxy.
    #[error(
        "{variable} is not the address of a proxy; write it as `http://host:port`, \
         `https://host:port` or `socks5://host:port`, or unset it"
    )]
    Address { variable: &'static str },
    /// The proxy requires a user name and a password, or refuses those that it got.
    #[error(
        "the proxy {proxy} asks for a user name and a password (407); write them into the variable \
         that names it (HTTPS_PROXY, HTTP_PROXY or ALL_PROXY), as in `http://user:password@host:port`"
    )]
    Unauthorized { proxy: String },
    /// There is no connection to the server through the proxy.
    #[error("the proxy {proxy} does not connect to {target}: {problem}")]
    Refused { proxy: String, target: String, problem: String },
    /// The proxy does not answer in time.
    #[error("the proxy {proxy} did not connect to {target} within {} s", .after.as_secs_f64())]
    Timeout { proxy: String, target: String, after: Duration },
}

/// The proxies of an environment.
#[derive(Clone)]
pub(crate) struct Proxies {
    matcher: Arc<Matcher>,
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proxies(***)")
    }
}

impl Proxies {
    /// The proxies that variables name; `None` if they name none.
    pub(crate) fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ProxyError> {
        let set = |names: [&'static str; 2]| {
            let found = names.into_iter().find_map(|name| Some((name, variable(name)?)));
            found.filter(|(_, value)| !value.trim().is_empty())
        };
        let address = |names| match set(names) {
            Some((variable, value)) => match is_address(&value) {
                true => Ok(value),
                false => Err(ProxyError::Address { variable }),
            },
            None => Ok(String::new()),
        };
        let (https, http, all) = (address(HTTPS)?, address(HTTP)?, address(ALL)?);
        if [&https, &http, &all].into_iter().all(String::is_empty) {
            return Ok(None);
        }
        let none = set(NONE).map_or_else(String::new, |(_, hosts)| hosts);
        let matcher = Matcher::builder().https(https).http(http).all(all).no(none).build();
        Ok(Some(Self { matcher: Arc::new(matcher) }))
    }

    /// One proxy for all servers.
    pub(crate) fn only(address: &str) -> Result<Self, ProxyError> {
        if !is_address(address) {
            return Err(ProxyError::Address { variable: "`proxy`" });
        }
        Ok(Self { matcher: Arc::new(Matcher::builder().all(address).build()) })
    }

    fn of(&self, target: &Uri) -> Option<Intercept> {
        if target.host().is_some_and(is_this_machine) {
            return None;
        }
        self.matcher.intercept(target)
    }
}

/// Returns whether the matcher accepts the address, which it would ignore otherwise.
fn is_address(value: &str) -> bool {
    let probe = Uri::from_static("http://host.invalid");
    let found = Matcher::builder().all(value).build().intercept(&probe);
    found.is_some_and(|proxy| !matches!(proxy.uri().scheme_str(), Some("socks4" | "socks4a")))
}

fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    let name = host.to_ascii_lowercase();
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Connects to servers. TLS to the server is the business of the connector around it.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    /// The proxies, and connections to them.
    proxies: Option<(Proxies, HttpsConnector<HttpConnector>)>,
    timeout: Duration,
}

/// A connection to a server or to a proxy.
pub type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Connector {
    /// `timeout` bounds each connection, the exchange with a proxy included.
    pub(crate) fn new(proxies: Option<Proxies>, tls: &ClientConfig, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        let proxies = proxies.map(|proxies| {
            let mut tls = tls.clone();
            tls.alpn_protocols.clear();
            let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
            (proxies, connector.enable_http1().wrap_connector(tcp.clone()))
        });
        Self { tcp, proxies, timeout }
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let through = self
            .proxies
            .as_ref()
            .and_then(|(proxies, connector)| Some((proxies.of(&target)?, connector.clone())));
        let Some((proxy, connector)) = through else {
            let connecting = self.tcp.call(target);
            return Box::pin(async move { Ok(MaybeHttpsStream::Http(connecting.await?)) });
        };
        let after = self.timeout;
        Box::pin(async move {
            let (name, to) = (shown(proxy.uri()), shown(&target));
            match tokio::time::timeout(after, tunnel(proxy, connector, target)).await {
                Ok(Ok(stream)) => Ok(stream),
                Ok(Err(problem)) => Err(failure(name, to, &*problem).into()),
                Err(_) => Err(ProxyError::Timeout { proxy: name, target: to, after }.into()),
            }
        })
    }
}

async fn tunnel(
    proxy: Intercept,
    connector: HttpsConnector<HttpConnector>,
    target: Uri,
) -> Result<Stream, BoxError> {
    let target = with_port(&target, if target.scheme_str() == Some("http") { 80 } else { 443 })?;
    let scheme = proxy.uri().scheme_str().unwrap_or_default();
    if scheme.starts_with("socks") {
        let mut parts = with_port(proxy.uri(), 1080)?.into_parts();
        parts.scheme = Some(Scheme::HTTP);
        let mut socks = SocksV5::new(Uri::from_parts(parts)?, connector);
        socks = socks.local_dns(scheme == "socks5");
        if let Some((user, password)) = proxy.raw_auth() {
            socks = socks.with_auth(user.to_owned(), password.to_owned());
        }
        return Ok(socks.call(target).await?);
    }
    let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
    if let Some(authorization) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    Ok(tunnel.call(target).await?)
}

fn with_port(uri: &Uri, port: u16) -> Result<Uri, hyper::http::Error> {
    let mut parts: Parts = uri.clone().into_parts();
    if uri.port().is_none() {
        let host = uri.host().unwrap_or_default();
        parts.authority = Some(format!("{host}:{port}").parse::<Authority>()?);
    }
    Ok(Uri::from_parts(parts)?)
}

/// The type of the tunnel's error is private: its text is all there is to see the cause by.
fn failure(
    proxy: String,
    target: String,
    problem: &(dyn std::error::Error + 'static),
) -> ProxyError {
    let text = problem.to_string();
    if text.ends_with("proxy authorization required") {
        return ProxyError::Unauthorized { proxy };
    }
    let problem = match text.ends_with("unsuccessful") {
        true => "it refuses the request".to_owned(),
        false => crate::error_chain(problem),
    };
    ProxyError::Refused { proxy, target, problem }
}

/// Scheme, host and port.
fn shown(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{}://{host}", uri.scheme_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Result<Option<Proxies>, ProxyError> {
        Proxies::from_variables(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn variables_select_the_proxy_of_an_address() {
        let check = |variables: &[(&str, &str)], target: &str, expect: Option<&str>| {
            let proxies = proxies(variables).unwrap();
            let target: Uri = target.parse().unwrap();
            let found = proxies.and_then(|proxies| proxies.of(&target));
            let found = found.map(|proxy| shown(proxy.uri()));
            assert_eq!(found.as_deref(), expect, "{variables:?} {target}");
        };
        let https = &[("HTTPS_PROXY", "http://u:p@proxy:3128")];
        check(&[], "https://host/v1", None);
        check(https, "https://host/v1", Some("http://proxy:3128"));
        check(https, "http://host/v1", None);
        check(&[("HTTP_PROXY", "proxy:1")], "http://host", Some("http://proxy:1"));
        check(&[("ALL_PROXY", "socks5h://s:1")], "https://host", Some("socks5h://s:1"));
        let both = &[("ALL_PROXY", "http://all"), ("https_proxy", "https://tls")];
        check(both, "https://host", Some("https://tls"));
        check(both, "http://host", Some("http://all"));
        check(&[("HTTPS_PROXY", "http://p"), ("https_proxy", "")], "https://host", None);
        let except = &[("HTTPS_PROXY", "http://p"), ("NO_PROXY", "inner.example, 10.0.0.0/8")];
        check(except, "https://a.inner.example", None);
        check(except, "https://notinner.example", Some("http://p"));
        check(except, "https://10.1.2.3", None);
        for here in ["localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "[::1]", "LOCALHOST."] {
            check(https, &format!("https://{here}:8443/v1"), None);
        }
        check(https, "https://localhost.example", Some("http://proxy:3128"));
    }

    #[test]
    fn one_proxy_serves_all_but_this_machine() {
        let only = Proxies::only("http://u:secret@proxy:3128").unwrap();
        for (target, expect) in [
            ("https://host/v1", Some("http://proxy:3128")),
            ("http://host/v1", Some("http://proxy:3128")),
            ("http://127.0.0.1/v1", None),
        ] {
            let found = only.of(&target.parse().unwrap()).map(|proxy| shown(proxy.uri()));
            assert_eq!(found.as_deref(), expect, "{target}");
        }
        for wrong in ["", "ftp://p", "socks4://p", "http://u:secret@", "not a url"] {
            assert!(Proxies::only(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_is_an_error_without_its_password() {
        for value in ["ftp://u:secret@p", "socks4://u:secret@p", "http://u:secret@", "not a url"] {
            let error = proxies(&[("HTTPS_PROXY", value)]).unwrap_err();
            assert_eq!(error, ProxyError::Address { variable: "HTTPS_PROXY" });
            assert!(!error.to_string().contains("secret"));
        }
        let proxies = proxies(&[("HTTPS_PROXY", "http://u:secret@p")]).unwrap();
        assert!(!format!("{proxies:?}").contains("secret"));
    }

    #[tokio::test]
    async fn a_proxy_that_never_answers_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let variable = |name: &str| (name == "HTTP_PROXY").then(|| format!("http://{address}"));
        let network = crate::Network::from_variables(variable);
        let options = crate::PoolOptions {
            connect_timeout: Duration::from_millis(50),
            idle_timeout: Duration::ZERO,
            max_idle_per_host: 0,
            versions: crate::HttpVersions::Http1,
        };
        let files = crate::TlsFiles::default();
        let client = network.client(&files, &options).unwrap();
        let request = http_body_util::Empty::<bytes::Bytes>::new();
        let request = hyper::Request::get("http://host.invalid/").body(request).unwrap();
        let error = client.request(request).await.unwrap_err();
        let text = crate::error_chain(&error);
        assert!(text.contains("did not connect to http://host.invalid within 0.05 s"), "{text}");
        drop(listener);
    }
}
