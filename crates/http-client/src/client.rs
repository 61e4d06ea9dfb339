//! A pooled client for HTTP and HTTPS with TLS by rustls. It reads no proxy settings, so requests to
//! loopback addresses stay on the machine.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore};

/// A client whose requests have bodies of type `B`. Cheap to clone; clones share their connections.
pub type HttpClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// How a client connects and which connections it keeps.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Longest time to establish a connection.
    pub connect_timeout: Duration,
    /// How long an idle connection is kept.
    pub idle_timeout: Duration,
    /// Idle connections kept per host.
    pub max_idle_per_host: usize,
    /// Offer HTTP/2 where TLS negotiates the protocol.
    pub http2: bool,
}

/// TLS cannot be set up.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TlsError {
    /// An additional root certificate is not valid PEM or DER.
    #[error("an additional root certificate cannot be read: {0}; check the PEM file")]
    RootCertificate(String),
    /// The cryptographic provider supports none of the protocol versions.
    #[error("no supported TLS version is available")]
    Protocol(#[from] rustls::Error),
}

/// TLS that trusts the public roots and those in `extra_roots_pem`.
///
/// # Errors
/// When an additional certificate cannot be read.
pub fn tls_config(extra_roots_pem: Option<&[u8]>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for certificate in extra_roots_pem.into_iter().flat_map(CertificateDer::pem_slice_iter) {
        let unreadable = |error: &dyn Error| TlsError::RootCertificate(error.to_string());
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        roots.add(certificate).map_err(|error| unreadable(&error))?;
    }
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Builds a client, which takes about a millisecond. It connects when the first request is sent.
#[must_use]
pub fn http_client<B>(tls: ClientConfig, options: &PoolOptions) -> HttpClient<B>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(options.connect_timeout));
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let connector = match options.http2 {
        true => connector.enable_all_versions().wrap_connector(tcp),
        false => connector.enable_http1().wrap_connector(tcp),
    };
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(options.idle_timeout)
        .pool_max_idle_per_host(options.max_idle_per_host)
        .build(connector)
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
