//! Certificates and proxies, against real TLS on this machine.

use std::path::PathBuf;
use std::sync::Arc;

use model::{Client, Event, FailureKind, Network, Options, Provider, Retry, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::server::WebPkiClientVerifier;

use super::server::{Server, Step, proxy};
use super::{COMPLETED, KEY, events, failure, stream_head};

/// An authority of this test, and PEM files of certificates that it signed.
struct Authority {
    folder: tempfile::TempDir,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), &certificate).unwrap();
        Self { folder, certificate, issuer: Issuer::new(params, key) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A certificate for `name` and its key, as PEM, also in files.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        std::fs::write(self.path("cert.pem"), &certificate).unwrap();
        std::fs::write(self.path("key.pem"), key.serialize_pem()).unwrap();
        (certificate, key.serialize_pem())
    }

    /// TLS of a server with a certificate for `name`, which asks for one of this authority if `mutual`.
    fn server(&self, name: &str, mutual: bool, alpn: &[&[u8]]) -> Arc<rustls::ServerConfig> {
        let (certificate, key) = self.issue(name);
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(ring.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match mutual {
            true => {
                let mut roots = rustls::RootCertStore::empty();
                roots
                    .add(CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap())
                    .unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), ring);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            false => builder.with_no_client_auth(),
        };
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config.into()
    }
}

fn client(variables: &[(&str, String)]) -> Client {
    let network = Network::from_variables(|name| {
        Some(variables.iter().find(|(variable, _)| *variable == name)?.1.clone())
    });
    Client::with_options(Options { network, ..Options::default() })
}

fn answer() -> Vec<Step> {
    let answer = [stream_head().as_slice(), COMPLETED].concat();
    vec![Step::Request, Step::Send(answer)]
}

fn https(server: &Server) -> Provider {
    super::provider(&format!("https://localhost:{}/v1", server.address.port()))
}

async fn completes(client: &Client, provider: &Provider) -> bool {
    matches!(events(client, provider).await.last(), Some(Event::Completed { .. }))
}

#[tokio::test]
async fn an_authority_is_trusted_by_variable_or_by_key() {
    let authority = Authority::new();
    let server = Server::start(answer(), Some(authority.server("localhost", false, &[]))).await;
    let ca = authority.path("ca.pem").to_str().unwrap().to_owned();
    let plain = https(&server);
    let failed = failure(&client(&[]), &plain).await;
    assert_eq!(failed.kind, FailureKind::ResponseStreamConnectionFailed);
    assert_eq!(failed.retry, Retry::Never, "{}", failed.message);
    assert!(failed.message.contains("AGENT_CA_CERTIFICATE"), "{}", failed.message);
    for variable in ["AGENT_CA_CERTIFICATE", "SSL_CERT_FILE"] {
        assert!(completes(&client(&[(variable, ca.clone())]), &plain).await, "{variable}");
    }
    let mut keyed = plain.clone();
    keyed.tls.ca_certificate = Some(ca.into());
    let one = client(&[]);
    assert!(completes(&one, &keyed).await);
    // The trust of one provider is not that of another.
    assert_eq!(failure(&one, &plain).await.retry, Retry::Never);
}

#[tokio::test]
async fn a_provider_gets_the_client_certificate_that_it_asks_for() {
    let authority = Authority::new();
    let server = Server::start(answer(), Some(authority.server("localhost", true, &[]))).await;
    authority.issue("client");
    let client = client(&[]);
    let mut provider = https(&server);
    provider.tls.ca_certificate = Some(authority.path("ca.pem"));
    let refused = failure(&client, &provider).await;
    assert!(refused.message.contains("localhost"), "{}", refused.message);
    provider.tls = TlsFiles {
        client_certificate: Some(authority.path("cert.pem")),
        client_private_key: Some(authority.path("key.pem")),
        ..provider.tls
    };
    assert!(completes(&client, &provider).await);
    provider.tls.client_private_key = Some(authority.path("gone.pem"));
    let gone = failure(&client, &provider).await;
    assert!(gone.message.contains("gone.pem"), "{}", gone.message);
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let authority = Authority::new();
    let server = Server::start(answer(), Some(authority.server("other.test", false, &[]))).await;
    let mut provider = https(&server);
    provider.tls.ca_certificate = Some(authority.path("ca.pem"));
    let failed = failure(&client(&[]), &provider).await;
    assert_eq!(failed.kind, FailureKind::ResponseStreamConnectionFailed);
    assert_eq!(failed.retry, Retry::Never);
    assert!(failed.message.contains("another host"), "{}", failed.message);
    assert_eq!(server.heads(), [""; 0], "the key does not leave");
}

#[tokio::test]
async fn http2_that_goes_away_before_the_answer_is_worth_a_retry() {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    // The last stream is 0: the server has not begun with the request. Code 2 is INTERNAL_ERROR.
    const GOAWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let authority = Authority::new();
    let steps = vec![Step::Send([SETTINGS, GOAWAY].concat()), Step::Silence];
    let server = Server::start(steps, Some(authority.server("localhost", false, &[b"h2"]))).await;
    let mut provider = https(&server);
    provider.tls.ca_certificate = Some(authority.path("ca.pem"));
    let failed = failure(&client(&[]), &provider).await;
    assert_eq!(failed.kind, FailureKind::ResponseStreamConnectionFailed);
    assert_eq!(failed.retry, Retry::Request, "{}", failed.message);
}

#[tokio::test]
async fn requests_go_through_the_proxy_of_the_environment() {
    let authority = Authority::new();
    let origin = Server::start(answer(), Some(authority.server("provider.test", false, &[]))).await;
    let (address, heads) = proxy(origin.address, None).await;
    let variables = [
        ("HTTPS_PROXY", format!("http://user:pass%20word@{address}")),
        ("AGENT_CA_CERTIFICATE", authority.path("ca.pem").to_str().unwrap().to_owned()),
    ];
    let client = client(&variables);
    assert!(completes(&client, &super::provider("https://provider.test/v1")).await);
    let seen = heads.lock().unwrap().join("\n");
    assert!(seen.starts_with("CONNECT provider.test:443 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("Proxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ="), "{seen}");
    assert!(!seen.contains(KEY), "the key is for the provider alone");
    assert_eq!(origin.heads().len(), 1);
}

#[tokio::test]
async fn plain_http_goes_through_a_tunnel_and_loopback_through_none() {
    let origin = Server::start(answer(), None).await;
    let (address, heads) = proxy(origin.address, None).await;
    let client = client(&[("http_proxy", format!("http://{address}"))]);
    assert!(completes(&client, &super::provider("http://provider.test/v1")).await);
    assert!(heads.lock().unwrap()[0].starts_with("CONNECT provider.test:80 "));
    let local = format!("http://{}/v1", origin.address);
    assert!(completes(&client, &super::provider(&local)).await);
    assert_eq!(heads.lock().unwrap().len(), 1, "loopback is reached directly");
}

#[tokio::test]
async fn a_proxy_that_refuses_says_why() {
    let nowhere = Server::start(Vec::new(), None).await;
    let check = async |line: &'static str, retry: Retry, part: &str| {
        let (address, _) = proxy(nowhere.address, Some(line)).await;
        let client = client(&[("ALL_PROXY", format!("http://user:proxy-secret@{address}"))]);
        let failed = failure(&client, &super::provider("https://provider.test/v1")).await;
        assert_eq!(failed.kind, FailureKind::ResponseStreamConnectionFailed, "{line}");
        assert_eq!(failed.retry, retry, "{line}: {}", failed.message);
        assert!(failed.message.contains(part), "{}", failed.message);
        assert!(!failed.message.contains("proxy-secret"), "{}", failed.message);
    };
    check("407 Proxy Authentication Required", Retry::Never, "password (407)").await;
    check("502 Bad Gateway", Retry::Request, "refuses the request").await;
    let client = client(&[("HTTPS_PROXY", "ftp://user:proxy-secret@host".to_owned())]);
    let failed = failure(&client, &super::provider("https://provider.test/v1")).await;
    assert!(failed.message.contains("HTTPS_PROXY"), "{}", failed.message);
    assert!(!failed.message.contains("proxy-secret"), "{}", failed.message);
    assert_eq!(nowhere.accepted(), 0);
}
