//! A pooled client for HTTP and HTTPS. It reads no environment: [`crate::Network`] adds proxies and the
//! roots of the operating system.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Request;
use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{CertificateError, ClientConfig};

use crate::proxy::{Connector, Proxies, ProxyError};

type BoxError = Box<dyn Error + Send + Sync>;
type BoxBody = UnsyncBoxBody<Bytes, BoxError>;

/// A client. Cheap to clone; clones share their connections.
///
/// It has one type of body, so that HTTP is compiled here and nowhere else: hyper's client is generic over
/// it, and every crate that sent a request had a copy of both versions of the protocol.
#[derive(Clone, Debug)]
pub struct HttpClient {
    pool: Client<HttpsConnector<Connector>, BoxBody>,
    /// The settings of the pool.
    source: Arc<(HttpsConnector<Connector>, PoolOptions)>,
}

impl HttpClient {
    fn new(source: Arc<(HttpsConnector<Connector>, PoolOptions)>) -> Self {
        let (connector, options) = &*source;
        let pool = Client::builder(TokioExecutor::new())
            .http2_only(options.versions == HttpVersions::Http2)
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_timeout)
            .pool_max_idle_per_host(options.max_idle_per_host)
            .build(connector.clone());
        Self { pool, source }
    }

    /// A client with the same settings that shares no connections with this one.
    #[must_use]
    pub fn with_own_connections(&self) -> Self {
        Self::new(Arc::clone(&self.source))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// There is no connection, or it ends before the response begins.
    pub fn request<B>(&self, request: Request<B>) -> ResponseFuture
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.send(request.map(|body| BoxBody::new(body.map_err(Into::into))))
    }

    fn send(&self, request: Request<BoxBody>) -> ResponseFuture {
        self.pool.request(request)
    }
}

/// A client's settings for connecting and for keeping connections.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Longest time to establish a connection.
    pub connect_timeout: Duration,
    /// Time that an idle connection is kept.
    pub idle_timeout: Duration,
    /// Idle connections kept per host.
    pub max_idle_per_host: usize,
    /// The versions of HTTP that it speaks.
    pub versions: HttpVersions,
}

/// Versions of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpVersions {
    /// HTTP/1.1.
    Http1,
    /// HTTP/1.1, and HTTP/2 where TLS negotiates it.
    Any,
    /// HTTP/2, also without TLS: for services that speak nothing else, such as those of gRPC.
    Http2,
}

/// Builds a client without proxies, which takes about a millisecond. It connects when the first request is
/// sent.
#[must_use]
pub fn http_client(tls: ClientConfig, options: &PoolOptions) -> HttpClient {
    client(tls, None, options)
}

pub(crate) fn client(
    tls: ClientConfig,
    proxies: Option<Proxies>,
    options: &PoolOptions,
) -> HttpClient {
    let tcp = Connector::new(proxies, &tls, options.connect_timeout);
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let connector = match options.versions {
        HttpVersions::Any => connector.enable_all_versions().wrap_connector(tcp),
        HttpVersions::Http1 => connector.enable_http1().wrap_connector(tcp),
        HttpVersions::Http2 => connector.enable_http2().wrap_connector(tcp),
    };
    HttpClient::new(Arc::new((connector, *options)))
}

/// An error and its sources as `a: b: c`, without sources that the text already contains.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Why a connection cannot succeed when it is tried again, and what to do about it.
pub fn permanent_problem(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(ProxyError::Unauthorized { .. } | ProxyError::Address { .. }) =
            cause.downcast_ref()
        {
            return Some("");
        }
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let tls = cause.downcast_ref().or_else(|| inner.and_then(|inner| inner.downcast_ref()));
        if let Some(rustls::Error::InvalidCertificate(problem)) = tls {
            return Some(advice(problem));
        }
        next = match inner {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    None
}

fn advice(problem: &CertificateError) -> &'static str {
    match problem {
        CertificateError::UnknownIssuer => {
            "; this machine does not trust the authority that issued the certificate: name the authority's \
             PEM file in AGENT_CA_CERTIFICATE or `tls.ca-certificate`"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "; the certificate is that of another host: check the address"
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => {
            "; check the clock of this machine, else the server's certificate has to be renewed"
        }
        _ => "",
    }
}
