//! Login services behind a proxy and with certificates of a private authority.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http_client::Network;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::login_service::{LoginService, Reply, metadata, tokens};
use crate::{Home, settings};

const SERVICE: &str = "https://login.test";

/// Writes the certificate of an authority, and returns TLS with a certificate that it signed.
fn tls(authority: &Path) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    std::fs::write(authority, params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["login.test".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    Arc::new(config).into()
}

/// A proxy whose tunnels all end at `origin`, behind TLS. Returns its address and the requests for tunnels.
async fn proxy(origin: String, tls: TlsAcceptor) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let log = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (origin, tls, log) = (origin.clone(), tls.clone(), log.clone());
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                log.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                let mut stream = tls.accept(stream).await?;
                let mut origin = TcpStream::connect(origin).await?;
                copy_bidirectional(&mut stream, &mut origin).await
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn logins_use_the_proxies_and_authorities_of_the_environment() {
    let service = LoginService::start(|_, request| {
        Some(match request.path.as_str() {
            "/.well-known/openid-configuration" => Reply::Json(200, metadata(SERVICE)),
            "/device" => Reply::Json(
                200,
                json!({ "device_code": "d", "user_code": "ABCD-EFGH", "expires_in": 60,
                    "verification_uri": format!("{SERVICE}/activate"), "interval": 1 }),
            ),
            "/token" => Reply::Json(200, tokens(SERVICE, "access-1", "refresh-1", json!({}))),
            _ => return None,
        })
    })
    .await;
    let home = Home::new();
    let authority = home.folder.path().join("authority.pem");
    let acceptor = tls(&authority);
    let origin = service.url.strip_prefix("http://").unwrap().to_owned();
    let (address, heads) = proxy(origin, acceptor).await;
    let network = |authority: Option<&Path>| {
        Network::from_variables(|name| match name {
            "HTTPS_PROXY" => Some(format!("http://user:pass@{address}")),
            "AGENT_CA_CERTIFICATE" => authority.map(|path| path.to_str().unwrap().to_owned()),
            _ => None,
        })
    };
    let settings = settings(SERVICE);
    let accounts = home.accounts_in(network(Some(&authority)));
    accounts.begin_device_login(&settings).await.unwrap().finish().await.unwrap();
    let bearer = accounts.bearer(&settings, None).await.unwrap();
    assert_eq!(bearer.token.expose(), "access-1");
    {
        let heads = heads.lock().unwrap();
        assert!(heads.iter().all(|head| head.starts_with("CONNECT login.test:443 ")), "{heads:?}");
        assert!(heads[0].contains("Proxy-Authorization: Basic dXNlcjpwYXNz"), "{heads:?}");
    }
    let seen = service.requests("/token").len();
    let untrusting = home.accounts_in(network(None));
    let error = untrusting.begin_device_login(&settings).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    let missing = home.accounts_in(network(Some(Path::new("/nonexistent/authority.pem"))));
    let error = missing.begin_device_login(&settings).await.unwrap_err().to_string();
    assert!(error.contains("AGENT_CA_CERTIFICATE") && error.contains("authority.pem"), "{error}");
    assert_eq!(service.requests("/token").len(), seen, "nothing was sent");
}
