//! Accepts connections, and hands those that pass the handshake to the server.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hyper::body::Incoming as Body;
use hyper::header::{CONNECTION, DATE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use jsonrpc::websocket::Role;
use jsonrpc::{CloseReason, Connection, Ingress, Limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Auth;
use crate::handshake::{self, Admission, Beside, TextResponse, Verdict, Via, text};
use crate::pending::{PendingConnection, PendingConnections};
use crate::site::Site;
#[cfg(unix)]
use crate::unix::UnixSocket;

/// Longest head of a request, in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Connections that the kernel queues until they are accepted; a client beyond the bound retries
/// after a second.
pub(crate) const BACKLOG: u32 = 1024;
/// Pause after an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bounds of an [`Acceptor`]; each field says what happens at its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections in the HTTP handshake; one more closes the oldest.
    pub handshakes: usize,
    /// Timeout of the HTTP handshake.
    pub handshake_time: Duration,
    /// Connections without `initialize`; one more closes the oldest.
    pub uninitialized: usize,
    /// Timeout from the upgrade to `initialize`.
    pub initialize_time: Duration,
    /// All connections; beyond the bound, the upgrade is refused with 503.
    pub connections: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            handshakes: 1024,
            handshake_time: Duration::from_secs(10),
            uninitialized: 1024,
            initialize_time: Duration::from_secs(30),
            connections: 10_000,
        }
    }
}

/// Accepts connections for a server, on all of its listeners.
pub struct Acceptor {
    admission: Admission,
    limits: Limits,
    ingress: Arc<Ingress>,
    handshakes: Arc<PendingConnections>,
    uninitialized: Arc<PendingConnections>,
    connections: Arc<Semaphore>,
    metrics: OnceLock<MetricsPage>,
    site: OnceLock<Site>,
    /// Number of refused HTTP requests by status; only those that this crate chooses.
    refused: Mutex<BTreeMap<u16, u64>>,
}

/// A page of metrics, served at `/metrics` of all listeners of an [`Acceptor`].
pub struct MetricsPage {
    /// A token that admits to the page and to nothing else; [`Auth::None`] for none. Any client that may connect may
    /// read the page too. On a Unix socket no token is asked for, since only the own user can connect.
    pub auth: Auth,
    /// The media type.
    pub content_type: &'static str,
    /// Makes the page. Called on a thread of the runtime, so it must not block.
    pub render: Box<dyn Fn(&Load) -> String + Send + Sync>,
}

/// The current load of an [`Acceptor`], and the number of refused connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections in the HTTP handshake.
    pub handshakes: usize,
    /// Connections without `initialize`.
    pub uninitialized: usize,
    /// Messages that wait, and bytes, of all connections; see [`Ingress`].
    pub incoming: (usize, usize),
    /// Number of refused HTTP requests by status.
    pub refused: Vec<(u16, u64)>,
}

/// A socket that clients can connect to.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixSocket),
}

/// Serves one connection. It drops the [`PendingConnection`] once the client has initialized.
pub type Serve = Arc<
    dyn Fn(Connection, PendingConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync,
>;

impl Listener {
    /// Listens on TCP.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A restarted server takes its port at once. On Windows the option would let another
        // program share the port.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self::Tcp(socket.listen(BACKLOG)?))
    }

    /// The address in the syntax of `--listen`, with the port that the system chose.
    ///
    /// # Errors
    /// When the system does not report the address.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("ws://{}", listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(socket) => Ok(format!("unix://{}", socket.path().display())),
        }
    }

    /// The IP address; `None` for a Unix socket.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.ip()),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

impl Acceptor {
    /// An acceptor with the default bounds. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(admission: Admission, limits: Limits, ingress: Ingress) -> Arc<Self> {
        Self::bounded(admission, limits, ingress, Bounds::default())
    }

    /// An acceptor with the given bounds. Must be called within a tokio runtime.
    #[must_use]
    pub fn bounded(
        admission: Admission,
        limits: Limits,
        ingress: Ingress,
        bounds: Bounds,
    ) -> Arc<Self> {
        let acceptor = Arc::new(Self {
            admission,
            limits,
            ingress: Arc::new(ingress),
            handshakes: PendingConnections::new(bounds.handshakes, bounds.handshake_time),
            uninitialized: PendingConnections::new(bounds.uninitialized, bounds.initialize_time),
            connections: Arc::new(Semaphore::new(bounds.connections)),
            metrics: OnceLock::new(),
            site: OnceLock::new(),
            refused: Mutex::default(),
        });
        for pending in [&acceptor.handshakes, &acceptor.uninitialized] {
            let pending = Arc::downgrade(pending);
            tokio::spawn(async move {
                while let Some(next) = pending.upgrade().map(|pending| pending.close_expired()) {
                    tokio::time::sleep_until(next).await;
                }
            });
        }
        acceptor
    }

    /// Serves a page of metrics from now on. Later calls have no effect.
    pub fn serve_metrics(&self, page: MetricsPage) {
        self.metrics.get_or_init(|| page);
    }

    /// Serves a site from now on. Later calls have no effect.
    pub fn serve_site(&self, site: Site) {
        self.site.get_or_init(|| site);
    }

    fn load(&self) -> Load {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        Load {
            handshakes: self.handshakes.count(),
            uninitialized: self.uninitialized.count(),
            incoming: self.ingress.used(),
            refused: refused.iter().map(|(status, count)| (*status, *count)).collect(),
        }
    }

    fn metrics_page(&self) -> TextResponse {
        let Some(metrics) = self.metrics.get() else {
            return text(StatusCode::NOT_FOUND, "there is no page of metrics\n");
        };
        let mut load = self.load();
        // The request for the page itself.
        load.handshakes = load.handshakes.saturating_sub(1);
        let body = (metrics.render)(&load).into();
        handshake::page(HeaderValue::from_static(metrics.content_type), body)
    }

    fn count_refused(&self, response: &TextResponse) {
        if !response.status().is_success() {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            *refused.entry(response.status().as_u16()).or_default() += 1;
        }
    }

    /// Accepts connections for as long as it is polled.
    pub async fn accept(self: Arc<Self>, listener: Listener, serve: Serve) {
        loop {
            let accepted = match &listener {
                Listener::Tcp(listener) => self.accept_tcp(listener, &serve).await,
                #[cfg(unix)]
                Listener::Unix(socket) => self.accept_unix(socket, &serve).await,
            };
            if accepted.is_err() {
                // Too many open files, or a client that has gone: the next connection may succeed.
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn accept_tcp(self: &Arc<Self>, listener: &TcpListener, serve: &Serve) -> io::Result<()> {
        let (stream, _) = listener.accept().await?;
        // Every write is a whole message, so waiting to join small packets only delays it.
        let _ = stream.set_nodelay(true);
        let local = stream.local_addr()?;
        self.receive(stream, Via::Tcp(local.ip()), serve, TcpStream::into_split);
        Ok(())
    }

    #[cfg(unix)]
    async fn accept_unix(self: &Arc<Self>, socket: &UnixSocket, serve: &Serve) -> io::Result<()> {
        let stream = socket.accept().await?;
        self.receive(stream, Via::Unix, serve, tokio::net::UnixStream::into_split);
        Ok(())
    }

    fn receive<S, R, W>(
        self: &Arc<Self>,
        stream: S,
        via: Via,
        serve: &Serve,
        split: fn(S) -> (R, W),
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let (acceptor, serve) = (self.clone(), serve.clone());
        let (begin, began) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let Ok(pending) = began.await else { return };
            let Some((stream, early, permit)) = acceptor.upgrade(stream, via).await else { return };
            drop(pending);
            let (reader, writer) = split(stream);
            let ingress = Some(acceptor.ingress.clone());
            let role = Role::Server;
            let connection =
                Connection::websocket(reader, writer, role, &early, acceptor.limits, ingress);
            let outbox = connection.outbox.clone();
            let pending =
                acceptor.uninitialized.add(move || outbox.close(CloseReason::NotInitialized));
            drop(acceptor);
            // A separate task, so that the memory of the handshake is freed.
            tokio::spawn(async move {
                serve(connection, pending).await;
                drop(permit);
            });
        });
        let abort = task.abort_handle();
        let pending = self.handshakes.add(move || abort.abort());
        // Fails when the task was aborted at once.
        drop(begin.send(pending));
    }

    /// Serves HTTP on a connection. Returns the stream when it became a WebSocket, with the bytes
    /// already read from it.
    async fn upgrade<S>(
        &self,
        stream: S,
        via: Via,
    ) -> Option<(S, bytes::Bytes, OwnedSemaphorePermit)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let upgrade: Mutex<Option<(OnUpgrade, OwnedSemaphorePermit)>> = Mutex::default();
        let respond = async |mut request: Request<Body>| {
            let metrics = self.metrics.get().map(|metrics| &metrics.auth);
            let beside = Beside { metrics, site: self.site.get() };
            let verdict = handshake::judge(&request, via, &self.admission, beside);
            let accepted = match verdict {
                Verdict::Respond(response) => {
                    self.count_refused(&response);
                    return Ok::<_, std::convert::Infallible>(last(response));
                }
                Verdict::Metrics => return Ok(last(self.metrics_page())),
                Verdict::Upgrade(accepted) => accepted,
            };
            let Ok(permit) = self.connections.clone().try_acquire_owned() else {
                let message = "too many connections: try again later\n";
                let response = text(StatusCode::SERVICE_UNAVAILABLE, message);
                self.count_refused(&response);
                return Ok(last(response));
            };
            let upgraded = hyper::upgrade::on(&mut request);
            *upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((upgraded, permit));
            Ok(accepted)
        };
        let service = service_fn(respond);
        let mut http = http1::Builder::new();
        // With `keep_alive(false)` each answer would get `connection: close`, the one that upgrades too, and
        // clients that compare the value of that header refuse it. See `last`.
        http.auto_date_header(false).max_buf_size(HEAD_BYTES).half_close(false);
        let served = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        // A client may break off the handshake at any time; that is no error of the server.
        served.ok()?;
        let (upgraded, permit) = upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let parts = upgraded.await.ok()?.downcast::<TokioIo<S>>().ok()?;
        Some((parts.io.into_inner(), parts.read_buf, permit))
    }
}

/// The answer of a connection that serves one request, and then ends.
fn last(mut response: TextResponse) -> TextResponse {
    let headers = response.headers_mut();
    let value = if headers.contains_key(CONNECTION) { "upgrade, close" } else { "close" };
    headers.insert(CONNECTION, HeaderValue::from_static(value));
    let now = httpdate::fmt_http_date(std::time::SystemTime::now());
    if let Ok(now) = HeaderValue::try_from(now) {
        headers.insert(DATE, now);
    }
    response
}
