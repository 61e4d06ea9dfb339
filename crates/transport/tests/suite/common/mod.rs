//! An acceptor on real sockets with a small server, and clients that write raw bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use jsonrpc::{
    CloseReason, Connection, Incoming, Ingress, Limits, Message, encode_error, encode_response,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use transport::{
    Acceptor, Admission, Auth, Bounds, Listener, MetricsPage, PendingConnection, Serve,
};

/// Longest wait for any operation before the test fails; far more than is needed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The valid capability token.
pub(crate) const TOKEN: &str = "correct-horse-battery-staple";
/// The token for the page of metrics alone.
pub(crate) const METRICS_TOKEN: &str = "only-to-read-metrics";
/// The secret of signed tokens.
pub(crate) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// The example of RFC 6455, section 1.3.
pub(crate) const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// The `Sec-WebSocket-Accept` value for [`KEY`].
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Admits clients without credentials, and no additional origins or host names.
pub(crate) fn without_auth() -> Admission {
    Admission { auth: Auth::None, origins: Vec::new(), hosts: Vec::new() }
}

/// Admits clients with [`TOKEN`].
pub(crate) fn capability() -> Auth {
    Auth::Capability(Sha256::digest(TOKEN).into())
}

/// Admits whoever has [`METRICS_TOKEN`].
pub(crate) fn metrics_capability() -> Auth {
    Auth::Capability(Sha256::digest(METRICS_TOKEN).into())
}

/// Returns a token of this header and these claims, signed with `secret`.
pub(crate) fn signed(header: &str, payload: &str, secret: &[u8]) -> String {
    let [header, payload] = [header, payload].map(|part| URL_SAFE_NO_PAD.encode(part));
    let text = format!("{header}.{payload}");
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(text.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{text}.{signature}")
}

/// An acceptor with listeners and an echo server; dropping it stops all of them.
pub(crate) struct TestServer {
    acceptor: Arc<Acceptor>,
    accepting: JoinSet<()>,
    serve: Serve,
    served: Arc<AtomicUsize>,
    serving: Arc<AtomicUsize>,
}

impl TestServer {
    pub(crate) fn new(admission: Admission) -> Self {
        Self::bounded(admission, Limits::default(), Ingress::default(), Bounds::default())
    }

    pub(crate) fn bounded(
        admission: Admission,
        limits: Limits,
        ingress: Ingress,
        bounds: Bounds,
    ) -> Self {
        let (served, serving) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (all, now) = (served.clone(), serving.clone());
        let serve: Serve = Arc::new(move |connection, pending| {
            all.fetch_add(1, Ordering::SeqCst);
            now.fetch_add(1, Ordering::SeqCst);
            let now = now.clone();
            Box::pin(async move {
                echo(connection, pending).await;
                now.fetch_sub(1, Ordering::SeqCst);
            })
        });
        let acceptor = Acceptor::bounded(admission, limits, ingress, bounds);
        Self { acceptor, accepting: JoinSet::new(), serve, served, serving }
    }

    /// Serves a page of metrics, which shows the load.
    #[must_use]
    pub(crate) fn with_metrics(self, auth: Auth) -> Self {
        let render = Box::new(|load: &transport::Load| format!("{load:?}\n"));
        self.acceptor.serve_metrics(MetricsPage { auth, content_type: "text/x-metrics", render });
        self
    }

    /// Adds a listener.
    pub(crate) fn listen(&mut self, listener: Listener) {
        self.accepting.spawn(self.acceptor.clone().accept(listener, self.serve.clone()));
    }

    /// Listens on TCP; returns the address.
    pub(crate) async fn tcp(&mut self, address: &str) -> std::io::Result<SocketAddr> {
        let listener = Listener::tcp(address.parse().unwrap()).await?;
        let address = listener.address()?;
        self.listen(listener);
        Ok(address.strip_prefix("ws://").unwrap().parse().unwrap())
    }

    /// Total number of connections admitted.
    pub(crate) fn served(&self) -> usize {
        self.served.load(Ordering::SeqCst)
    }

    /// Waits until this many connections are open.
    pub(crate) async fn until_serving(&self, wanted: usize) {
        let reached = async {
            while self.serving.load(Ordering::SeqCst) != wanted {
                // tidy: sleep until the server has noticed, with a bound.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, reached).await;
        assert!(waited.is_ok(), "{} are served", self.serving.load(Ordering::SeqCst));
    }
}

/// Responds to `initialize` and `echo` until the connection ends; to `flood` with 4 MiB.
async fn echo(connection: Connection, pending: PendingConnection) {
    let Connection { mut incoming, outbox } = connection;
    let mut pending = Some(pending);
    loop {
        let next = tokio::select! {
            next = incoming.recv() => next,
            _ = outbox.closed() => None,
        };
        let answer = match next {
            None => break,
            Some(Incoming::Malformed(wrong)) => encode_error(wrong.id.as_ref(), &wrong.error),
            Some(Incoming::Message(Message::Request { id, method, params, .. })) => {
                if method == "initialize" {
                    pending.take();
                }
                match &*method {
                    "flood" => encode_response(&id, &json!("x".repeat(4 << 20))),
                    _ => encode_response(&id, &json!({"method": method, "params": params})),
                }
            }
            Some(Incoming::Message(_)) => continue,
        };
        // An error shows in the next iteration.
        let _ = outbox.push(answer);
    }
    outbox.close(CloseReason::Finished);
    let _ = outbox.flushed().await;
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A client that sends exactly the given bytes.
pub(crate) struct RawClient {
    stream: Box<dyn Stream>,
    read: Vec<u8>,
}

/// The head of an HTTP response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Head {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) first: u8,
    pub(crate) payload: Vec<u8>,
}

/// The first byte of a text frame that is a whole message.
pub(crate) const TEXT: u8 = 0x81;
pub(crate) const BINARY: u8 = 0x82;
pub(crate) const CLOSE: u8 = 0x88;
pub(crate) const PING: u8 = 0x89;
pub(crate) const PONG: u8 = 0x8A;

const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Returns the masked header of a client's frame that announces `length` bytes.
pub(crate) fn head_of(first: u8, length: usize) -> Vec<u8> {
    let mut out = vec![first];
    match length {
        0..126 => out.push(0x80 | length as u8),
        126..0x1_0000 => {
            out.push(0x80 | 126);
            out.extend((length as u16).to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend((length as u64).to_be_bytes());
        }
    }
    out.extend(MASK);
    out
}

/// Returns a client's frame.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = head_of(first, payload.len());
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

impl RawClient {
    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), read: Vec::new() }
    }

    pub(crate) async fn tcp(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    /// Opens a WebSocket with [`TOKEN`].
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let mut client = Self::tcp(address).await;
        let head = client.request(&upgrade(address, TOKEN)).await;
        assert_eq!(head.status, 101, "{head:?}");
        client
    }

    /// Opens a WebSocket and initializes the connection.
    pub(crate) async fn initialized(address: SocketAddr) -> Self {
        let mut client = Self::open(address).await;
        client.call("initialize", json!({})).await;
        client
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.unwrap();
    }

    /// Like `send`, for peers that may be gone.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let sent = tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await;
        sent.expect("the other side reads")
    }

    /// Sends a request; returns the head of the response.
    pub(crate) async fn request(&mut self, request: &[u8]) -> Head {
        self.send(request).await;
        self.head().await.expect("there is a response")
    }

    /// Returns the head of a response; `None` when the stream ends first.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        loop {
            let end = self.read.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let text = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
                let status = text.split(' ').nth(1).unwrap().parse().unwrap();
                return Some(Head { status, text });
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Returns all further bytes, as text.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8(std::mem::take(&mut self.read)).unwrap()
    }

    /// Returns the next frame; `None` when the stream ends.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.take_frame() {
                return Some(frame);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    fn take_frame(&mut self) -> Option<Frame> {
        let (length, begin) = match *self.read.get(1)? {
            126 => (usize::from(u16::from_be_bytes(self.read.get(2..4)?.try_into().unwrap())), 4),
            127 => (u64::from_be_bytes(self.read.get(2..10)?.try_into().unwrap()) as usize, 10),
            length => (usize::from(length), 2),
        };
        assert!(length < 1 << 30, "servers do not mask");
        let payload = self.read.get(begin..begin + length)?.to_vec();
        let first = self.read[0];
        self.read.drain(..begin + length);
        Some(Frame { first, payload })
    }

    /// Waits for the close frame; returns its code and reason, or `None` if the stream ends without
    /// one.
    pub(crate) async fn closed(&mut self) -> Option<(u16, String)> {
        while let Some(frame) = self.frame().await {
            if frame.first == CLOSE {
                let (code, words) = frame.payload.split_first_chunk::<2>().unwrap();
                let words = String::from_utf8(words.to_vec()).unwrap();
                assert!(self.ended().await, "nothing follows a close frame");
                return Some((u16::from_be_bytes(*code), words));
            }
        }
        None
    }

    /// Whether the stream ends without another byte.
    pub(crate) async fn ended(&mut self) -> bool {
        self.read.is_empty() && !self.more().await
    }

    /// Calls a method over the WebSocket; returns its response.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let request = json!({"id": 1, "method": method, "params": params}).to_string();
        self.send(&frame(TEXT, request.as_bytes())).await;
        loop {
            let frame = self.frame().await.expect("there is an answer");
            assert_ne!(frame.first, CLOSE, "{}", String::from_utf8_lossy(&frame.payload));
            if frame.first == TEXT {
                return serde_json::from_slice(&frame.payload).unwrap();
            }
        }
    }

    /// Reads more bytes; `false` at the end of the stream.
    async fn more(&mut self) -> bool {
        let read = self.stream.read_buf(&mut self.read);
        let read =
            tokio::time::timeout(PATIENCE, read).await.expect("the other side says something");
        // A reset stream has ended too.
        read.is_ok_and(|count| count > 0)
    }
}

/// Returns the opening handshake of a client with a token.
pub(crate) fn upgrade(address: SocketAddr, token: &str) -> Vec<u8> {
    format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nAuthorization: Bearer {token}\r\n\r\n"
    )
    .into_bytes()
}
