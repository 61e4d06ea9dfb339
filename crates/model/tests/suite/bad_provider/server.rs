//! A server that does on each connection what a test says, over TCP or TLS, and keeps what it read.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What the server does next.
#[derive(Clone)]
pub(crate) enum Step {
    /// Reads a whole request, and keeps its head.
    Request,
    Send(Vec<u8>),
    /// Sends the same again until the client closes the connection.
    SendForever(&'static [u8]),
    /// Sends nothing until the client closes the connection.
    Silence,
    /// Closes the connection with a reset.
    Reset,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    accepted: Arc<Mutex<usize>>,
}

impl Server {
    pub(crate) async fn start(steps: Vec<Step>, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            heads: Arc::default(),
            accepted: Arc::default(),
        };
        let (heads, accepted) = (server.heads.clone(), server.accepted.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *accepted.lock().unwrap() += 1;
                let (steps, heads, tls) = (steps.clone(), heads.clone(), tls.clone());
                tokio::spawn(async move {
                    if steps.contains_reset() {
                        stream.set_zero_linger().unwrap();
                    }
                    // An error means that the client went away.
                    let _ = match tls {
                        Some(tls) => match TlsAcceptor::from(tls).accept(stream).await {
                            Ok(stream) => play(stream, &steps, &heads).await,
                            Err(error) => Err(error),
                        },
                        None => play(stream, &steps, &heads).await,
                    };
                });
            }
        });
        server
    }

    /// The heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.lock().unwrap()
    }
}

trait Steps {
    fn contains_reset(&self) -> bool;
}

impl Steps for Vec<Step> {
    fn contains_reset(&self) -> bool {
        self.iter().any(|step| matches!(step, Step::Reset))
    }
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    steps: &[Step],
    heads: &Mutex<Vec<String>>,
) -> io::Result<()> {
    for step in steps {
        match step {
            Step::Request => {
                let head = read_request(&mut stream).await?;
                heads.lock().unwrap().push(head);
            }
            Step::Send(bytes) => stream.write_all(bytes).await?,
            Step::SendForever(bytes) => loop {
                stream.write_all(bytes).await?;
                tokio::task::yield_now().await;
            },
            Step::Silence => drop(tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?),
            Step::Reset => return Ok(()),
        }
    }
    stream.shutdown().await
}

/// Reads a request with its body and returns its head.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut request = Vec::new();
    loop {
        let end = request.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&request[..end]).into_owned();
            let length = head
                .to_lowercase()
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if request.len() >= end + 4 + length.unwrap_or(0) {
                return Ok(head);
            }
        }
        if stream.read_buf(&mut request).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// A proxy that connects every target to `origin`, or refuses with a status line, and keeps the heads of the
/// requests.
pub(crate) async fn proxy(
    origin: SocketAddr,
    refusal: Option<&'static str>,
) -> (SocketAddr, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Heads::default();
    let log = heads.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let log = log.clone();
            tokio::spawn(async move {
                let head = read_request(&mut stream).await.unwrap();
                log.lock().unwrap().push(head);
                let line = refusal.unwrap_or("200 Connection established");
                let answer = format!("HTTP/1.1 {line}\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                if refusal.is_none() {
                    let mut upstream = TcpStream::connect(origin).await.unwrap();
                    // Ends with either side.
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut upstream).await;
                }
            });
        }
    });
    (address, heads)
}

pub(crate) type Heads = Arc<Mutex<Vec<String>>>;
