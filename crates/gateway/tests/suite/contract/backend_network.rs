//! The way to a backend: private authorities and proxies.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::BIG;
use crate::common::gateway::TestGateway;
use crate::common::upstream::Upstream;

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// TLS in front of an upstream, with a certificate for `localhost` that is its own authority. Returns the port and the
/// certificate.
async fn with_tls(upstream: &Upstream) -> (u16, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let ring = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let (listener, address) = listener().await;
    let to = upstream.address;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut client = acceptor.accept(stream).await?;
                let mut server = TcpStream::connect(to).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (address.port(), certificate.pem())
}

fn config(settings: &str) -> String {
    format!("[admin]\ntoken_file = \"token\"\n[upstreams.main]\n{settings}\n{BIG}")
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_it_is_named() {
    let upstream = Upstream::start().await;
    let (port, authority) = with_tls(&upstream).await;
    let folder = Arc::new(tempfile::tempdir().unwrap());
    fs::write(folder.path().join("ca.pem"), authority).unwrap();
    let base = format!("base_url = \"https://localhost:{port}/v1\"");
    let trusting = config(&format!("{base}\nca_file = \"ca.pem\""));
    let gateway = TestGateway::start_in(Arc::clone(&folder), &config(&base), 1).await;
    let tenant = gateway.tenant("free").await;
    assert_eq!(gateway.chat(&tenant).await.error().1, "upstream_error");
    assert_eq!(upstream.count(), 0);
    gateway.reload(&trusting);
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), upstream.count()), (200, 1));
    gateway.reload(&config(&base));
    assert_eq!(gateway.chat(&tenant).await.error().1, "upstream_error");
}

/// A proxy that connects every request for a tunnel to one address. Returns what was asked for.
async fn proxy(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let (listener, address) = listener().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let log = Arc::clone(&log);
            tokio::spawn(async move {
                let mut client = BufReader::new(stream);
                let (mut first, mut line) = (String::new(), String::new());
                client.read_line(&mut first).await?;
                while line != "\r\n" {
                    line.clear();
                    client.read_line(&mut line).await?;
                }
                log.lock().unwrap().push(first.trim_end().to_owned());
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                let mut server = TcpStream::connect(to).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    (address, asked)
}

#[tokio::test]
async fn a_backend_is_reached_through_its_proxy() {
    let upstream = Upstream::start().await;
    let (address, asked) = proxy(upstream.address).await;
    let base = "base_url = \"http://models.invalid/v1\"";
    let gateway =
        TestGateway::start(&config(&format!("{base}\nproxy = \"http://{address}\""))).await;
    let tenant = gateway.tenant("free").await;
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), upstream.count()), (200, 1));
    assert_eq!(*asked.lock().unwrap(), ["CONNECT models.invalid:80 HTTP/1.1"]);
    assert_eq!(upstream.last().headers["host"], "models.invalid");
}
