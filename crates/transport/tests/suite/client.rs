//! Clients: what is sent, TLS, and servers that refuse. Servers are scripted, on real sockets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jsonrpc::{Incoming, Limits, Message};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use transport::{Access, ClientTls, Error, ErrorKind, WebSocketUrl, dial};

/// The answer to the constant key of the client.
const ACCEPT: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n\
                      Sec-WebSocket-Accept: GFfmZJqpMYUhJEQvgVcfoiiroHo=\r\n\r\n";

/// A notification in an unmasked text frame.
const FRAME: &[u8] = b"\x81\x0e{\"method\":\"m\"}";

/// Serves one connection: sends an answer to the head of its request, and returns the head. Unless `ends`, the
/// connection stays open.
async fn answer(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    text: &[u8],
    ends: bool,
) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut head).await.unwrap() > 0);
    }
    stream.write_all(text).await.unwrap();
    stream.flush().await.unwrap();
    if !ends {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    String::from_utf8(head).unwrap()
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// What a client gets from a server that answers so.
async fn refused(text: &str, ends: bool) -> Error {
    let (listener, port) = listener().await;
    let text = text.to_owned();
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        answer(stream, text.as_bytes(), ends).await
    });
    let url: WebSocketUrl = format!("ws://127.0.0.1:{port}").parse().unwrap();
    let error = dial(&url, Access::default(), Limits::default()).await.err().unwrap();
    serving.abort();
    error
}

#[tokio::test]
async fn the_request_has_the_path_the_query_and_the_token() {
    for (path, token, expected) in [
        ("", None, "GET / HTTP/1.1"),
        ("/a/b?c=d%20e", Some("secret"), "GET /a/b?c=d%20e HTTP/1.1"),
        ("?c", Some("secret"), "GET /?c HTTP/1.1"),
    ] {
        let (listener, port) = listener().await;
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            // The first frame comes with the head.
            answer(stream, &[ACCEPT.as_bytes(), FRAME].concat(), false).await
        });
        let url: WebSocketUrl = format!("ws://localhost:{port}{path}").parse().unwrap();
        let access = Access { token, ..Access::default() };
        let mut connection = dial(&url, access, Limits::default()).await.unwrap();
        let first = connection.incoming.recv().await;
        assert!(
            matches!(&first, Some(Incoming::Message(Message::Notification { method, .. })) if method == "m"),
            "{first:?}"
        );
        drop(connection);
        let head = serving.await.unwrap();
        let lines: Vec<&str> = head.split("\r\n").collect();
        assert_eq!(lines[0], expected);
        assert!(lines.contains(&&*format!("Host: localhost:{port}")), "{head}");
        let authorization = lines.iter().find(|line| line.starts_with("Authorization"));
        assert_eq!(authorization.copied(), token.map(|_| "Authorization: Bearer secret"), "{head}");
    }
}

#[tokio::test]
async fn a_refusal_says_why_and_what_to_do() {
    for (answer, ends, expected) in [
        (
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 15\r\n\r\nno such token\r\nmore",
            false,
            "the server refused the connection with status 401: no such token; give the token of this server",
        ),
        (
            "HTTP/1.1 403 Forbidden\r\n\r\nthe Origin is\r\n\x1b[31mnot admitted",
            true,
            "status 403: the Origin is [31mnot admitted; ask the operator",
        ),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<html>nothing</html>",
            false,
            "the server refused the connection with status 404; check the path",
        ),
        (
            "HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n",
            false,
            "with status 426; the server wants another protocol",
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntoo \r\n4;a=b\r\nmany\r\n0\r\n\r\n",
            false,
            "status 503: too many; try again later; the server names 7 (Retry-After)",
        ),
        (
            "HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\ntoo",
            true,
            "status 503: too; try again later",
        ),
        (
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: wss://elsewhere.example/\r\n\r\n",
            false,
            "the server redirects to wss://elsewhere.example/ (status 307), and redirections are not followed",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", false, "with status 200: hi"),
        // Another key's answer, and none.
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            false,
            "does not speak WebSocket",
        ),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", false, "does not speak WebSocket"),
        ("SSH-2.0-OpenSSH\r\n", false, "does not speak WebSocket"),
        ("", true, "does not speak WebSocket"),
    ] {
        let error = refused(answer, ends).await;
        assert!(error.to_string().contains(expected), "{answer:?}: {error}");
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        let kind = match status {
            Some(status) if status != 101 => ErrorKind::UpgradeRefused { status },
            _ => ErrorKind::NotAWebSocket,
        };
        assert_eq!(error.kind(), kind, "{answer:?}");
    }
}

#[tokio::test]
async fn a_long_refusal_is_cut_and_an_endless_head_ends() {
    let long = format!("HTTP/1.1 401 No\r\n\r\n{}", "x".repeat(100_000));
    let message = refused(&long, false).await.to_string();
    assert!(message.contains('…') && message.len() < 500, "{}", message.len());
    let endless = format!("HTTP/1.1 401 No\r\nX: {}", "x".repeat(100_000));
    assert_eq!(refused(&endless, false).await.kind(), ErrorKind::NotAWebSocket);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    // The time goes on by itself once nothing else can.
    let message = refused("HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\nhalf", false).await;
    assert!(message.to_string().contains("status 401: half"), "{message}");
}

/// A server with a certificate for `name`, by an authority of its own; the file has that.
fn authority(name: &str) -> (TlsAcceptor, tempfile::TempDir, PathBuf) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, certificate.pem()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), folder, file)
}

#[tokio::test]
async fn tls_trusts_the_given_authority_for_the_right_host_alone() {
    for (name, address, trusts, expected) in [
        ("localhost", "localhost", true, None),
        ("127.0.0.1", "127.0.0.1", true, None),
        (
            "localhost",
            "localhost",
            false,
            Some("is not accepted: no authority that is trusted has issued it; if the server has"),
        ),
        (
            "elsewhere.example",
            "localhost",
            true,
            Some("is not accepted: it is for another host; use"),
        ),
    ] {
        let (acceptor, _folder, file) = authority(name);
        let (listener, port) = listener().await;
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            match acceptor.accept(stream).await {
                Ok(stream) => {
                    Some(answer(stream, &[ACCEPT.as_bytes(), FRAME].concat(), false).await)
                }
                Err(_) => None,
            }
        });
        let url: WebSocketUrl = format!("wss://{address}:{port}/a?b").parse().unwrap();
        let tls = ClientTls::new(trusts.then_some(file)).await.unwrap();
        let access = Access { token: Some("secret"), tls: Some(&tls), ..Access::default() };
        match (dial(&url, access, Limits::default()).await, expected) {
            (Ok(mut connection), None) => {
                assert!(matches!(connection.incoming.recv().await, Some(Incoming::Message(_))));
                drop(connection);
                let head = serving.await.unwrap().unwrap();
                assert!(head.starts_with("GET /a?b HTTP/1.1\r\n"), "{head}");
                assert!(head.contains("\r\nAuthorization: Bearer secret\r\n"), "{head}");
            }
            (Err(error), Some(expected)) => {
                assert_eq!(error.kind(), ErrorKind::Certificate);
                let start = format!("the certificate of {address}:{port} {expected}");
                assert!(error.to_string().starts_with(&start), "{error}");
                assert!(serving.await.unwrap().is_none(), "nothing is sent without trust");
            }
            (outcome, _) => panic!("{name}: {:?}", outcome.err()),
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_and_a_useless_file_are_named() {
    let (listener, port) = listener().await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    let url: WebSocketUrl = format!("wss://localhost:{port}").parse().unwrap();
    let tls = ClientTls::new(None).await.unwrap();
    let access = Access { tls: Some(&tls), ..Access::default() };
    let error = dial(&url, access, Limits::default()).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Tls);
    assert!(error.to_string().contains("does not speak TLS; use a ws:// address"), "{error}");
    serving.abort();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    for content in [None, Some("no pem"), Some("")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let error = ClientTls::new(Some(file.clone())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CaFile);
        assert!(error.to_string().contains("ca.pem"), "{error}");
    }
}

#[tokio::test]
async fn an_address_without_a_server_is_named() {
    let (unused, port) = listener().await;
    drop(unused);
    let url: WebSocketUrl = format!("ws://127.0.0.1:{port}").parse().unwrap();
    let dialing = dial(&url, Access::default(), Limits::default());
    let error =
        tokio::time::timeout(Duration::from_secs(20), dialing).await.unwrap().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().starts_with(&format!("cannot connect to 127.0.0.1:{port}: ")),
        "{error}"
    );
}
