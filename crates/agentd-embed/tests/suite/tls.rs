//! Servers at `wss://` addresses, with an authority of their own.

use std::sync::Arc;

use agentd_embed::{Agent, AgentBuilder, Error};
use jsonrpc::websocket::Role;
use jsonrpc::{Connection, Limits};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::fake::{Fake, begun, opened, replay, resumed};

/// The answer to the constant key of the client.
const ACCEPT: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: GFfmZJqpMYUhJEQvgVcfoiiroHo=\r\n\r\n";

/// Forwards the messages of one connection to another.
fn forward(mut from: jsonrpc::Inbox, to: jsonrpc::Outbox) {
    tokio::spawn(async move {
        while let Some(line) = from.recv_line().await {
            if to.push(line.text).is_err() {
                break;
            }
        }
        to.close(jsonrpc::CloseReason::Finished);
    });
}

/// A server at `wss://localhost`, with the file of its authority, which upgrades requests with this head and refuses
/// others, and the ends of its connections.
struct Secure {
    address: String,
    ca_file: std::path::PathBuf,
    fakes: mpsc::UnboundedReceiver<Fake>,
    _folder: tempfile::TempDir,
}

impl Secure {
    async fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("ca.pem");
        std::fs::write(&ca_file, certificate.pem()).unwrap();
        let chain = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, fakes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") && stream.read_buf(&mut head).await.unwrap() > 0
                {
                }
                let head = String::from_utf8(head).unwrap();
                if !head.starts_with("GET /team?region=eu HTTP/1.1\r\n")
                    || !head.contains("\r\nAuthorization: Bearer secret\r\n")
                {
                    let refusal =
                        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 9\r\n\r\nno access";
                    stream.write_all(refusal).await.unwrap();
                    continue;
                }
                stream.write_all(ACCEPT).await.unwrap();
                let limits = Limits { keep_text: true, ..Limits::default() };
                let (reader, writer) = tokio::io::split(stream);
                let socket = Connection::websocket(reader, writer, Role::Server, &[], limits, None);
                let (ours, fake) = Fake::with_text();
                forward(socket.incoming, ours.outbox);
                forward(ours.incoming, socket.outbox);
                if sender.send(fake).is_err() {
                    break;
                }
            }
        });
        let address = format!("wss://localhost:{port}/team?region=eu");
        Self { address, ca_file, fakes, _folder: folder }
    }

    fn builder(&self) -> AgentBuilder {
        Agent::builder().address(&self.address).ca_file(&self.ca_file).token("secret")
    }
}

#[tokio::test]
async fn a_turn_goes_on_over_tls_after_a_loss() {
    let mut server = Secure::new().await;
    let (agent, mut fake) = tokio::join!(server.builder().start(), Fake::next(&mut server.fakes));
    let agent = agent.unwrap();
    let mut answer = opened();
    answer["eventCursor"] = "e.0".into();
    let (thread, ()) = tokio::join!(agent.thread(Default::default()), fake.answer(answer));
    let (turn, ()) = tokio::join!(thread.as_ref().unwrap().turn("go"), fake.answer(begun("u")));
    let mut turn = turn.unwrap();
    fake.delta("e.1", "One ").await;
    assert_eq!(turn.next_text().await.unwrap().as_deref(), Some("One "));
    drop(fake);
    let mut fake = Fake::next(&mut server.fakes).await;
    let asked = fake.answer_to("thread/resume", resumed("e.2", replay(1, &[]), json!([]))).await;
    assert_eq!(asked["eventCursor"], "e.1");
    fake.delta("e.2", "two").await;
    fake.end("e.3", "completed").await;
    assert_eq!(turn.result().await.unwrap().text, "One two");
}

#[tokio::test]
async fn what_keeps_a_secure_server_from_being_used_is_named() {
    let server = Secure::new().await;
    let start = async |builder: AgentBuilder| builder.start().await.err().unwrap();
    let other_path = server.address.replace("/team", "/other");
    for (builder, expected) in [
        (server.builder().token("wrong"), "status 401: no access; give the token of this server"),
        (server.builder().address(other_path), "status 401: no access"),
        (
            Agent::builder().address(&server.address).token("secret"),
            "no authority that is trusted has issued it; if the server has an authority of its own",
        ),
        (
            server.builder().address(server.address.replace("localhost", "127.0.0.1")),
            "it is for another host",
        ),
    ] {
        let error = start(builder).await;
        let Error::ConnectionLost(lost) = &error else { panic!("{error:?}") };
        assert!(lost.message.contains(expected), "{}", lost.message);
    }
    let error = start(server.builder().ca_file("/nowhere/ca.pem")).await;
    assert!(
        matches!(&error, Error::InvalidArgument(why) if why.contains("the CA file /nowhere/ca.pem cannot be used")),
        "{error:?}"
    );
}
