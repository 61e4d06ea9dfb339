//! Accepts connections and brings those that may come in to whoever serves them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming as Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use jsonrpc::websocket::Role;
use jsonrpc::{CloseReason, Connection, Ingress, Limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::handshake::{self, Admission, Verdict, Via, text};
use crate::newcomers::{Newcomer, Newcomers};
#[cfg(unix)]
use crate::unix::UnixDoor;

/// Head of a request, in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// After an error of `accept`, such as too many open files, the next try waits.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bounds of a door; what happens at each is written at its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Connections that are in the HTTP handshake; beyond, the one that has been for longest is
    /// ended.
    pub handshakes: usize,
    /// How long the HTTP handshake may take.
    pub handshake_time: Duration,
    /// Connections without `initialize`; beyond, the one that has been for longest is closed.
    pub uninitialized: usize,
    /// How long the way from the upgrade to `initialize` may take.
    pub initialize_time: Duration,
    /// Connections in all; beyond, the upgrade is refused with 503.
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

/// What is behind all listeners of a server.
pub struct Door {
    admission: Admission,
    limits: Limits,
    ingress: Arc<Ingress>,
    handshakes: Arc<Newcomers>,
    uninitialized: Arc<Newcomers>,
    room: Arc<Semaphore>,
}

/// A socket that clients can connect to.
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(UnixDoor),
}

/// What is said for one connection: dropping the [`Newcomer`] says that it is initialized.
pub type Serve =
    Arc<dyn Fn(Connection, Newcomer) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl Listener {
    /// Listens on TCP.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub async fn tcp(address: SocketAddr) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind(address).await?))
    }

    /// The address, as `--listen` takes it, with the port that the system chose.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("ws://{}", listener.local_addr()?)),
            #[cfg(unix)]
            Self::Unix(door) => Ok(format!("unix://{}", door.path().display())),
        }
    }

    /// The IP address, where there is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.ip()),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

impl Door {
    /// A door that lets in whom `admission` allows. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(admission: Admission, limits: Limits, ingress: Ingress) -> Arc<Self> {
        Self::bounded(admission, limits, ingress, Bounds::default())
    }

    /// A door with bounds of its own. Must be called within a tokio runtime.
    #[must_use]
    pub fn bounded(
        admission: Admission,
        limits: Limits,
        ingress: Ingress,
        bounds: Bounds,
    ) -> Arc<Self> {
        let door = Arc::new(Self {
            admission,
            limits,
            ingress: Arc::new(ingress),
            handshakes: Newcomers::new(bounds.handshakes, bounds.handshake_time),
            uninitialized: Newcomers::new(bounds.uninitialized, bounds.initialize_time),
            room: Arc::new(Semaphore::new(bounds.connections)),
        });
        for newcomers in [&door.handshakes, &door.uninitialized] {
            let newcomers = Arc::downgrade(newcomers);
            tokio::spawn(async move {
                while let Some(next) = newcomers.upgrade().map(|newcomers| newcomers.sweep()) {
                    tokio::time::sleep_until(next).await;
                }
            });
        }
        door
    }

    /// Accepts connections for as long as it is polled.
    pub async fn accept(self: Arc<Self>, listener: Listener, serve: Serve) {
        loop {
            let accepted = match &listener {
                Listener::Tcp(listener) => self.accept_tcp(listener, &serve).await,
                #[cfg(unix)]
                Listener::Unix(door) => self.accept_unix(door, &serve).await,
            };
            if accepted.is_err() {
                // Too many open files, or a client that is gone already: others may still come.
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    async fn accept_tcp(self: &Arc<Self>, listener: &TcpListener, serve: &Serve) -> io::Result<()> {
        let (stream, _) = listener.accept().await?;
        // Messages are whole when they are written.
        let _ = stream.set_nodelay(true);
        let local = stream.local_addr()?;
        self.receive(stream, Via::Tcp(local.ip()), serve, TcpStream::into_split);
        Ok(())
    }

    #[cfg(unix)]
    async fn accept_unix(self: &Arc<Self>, door: &UnixDoor, serve: &Serve) -> io::Result<()> {
        let stream = door.accept().await?;
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
        let (door, serve) = (self.clone(), serve.clone());
        let (begin, began) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let Ok(newcomer) = began.await else { return };
            let Some((stream, early, permit)) = door.upgrade(stream, via).await else { return };
            drop(newcomer);
            let (reader, writer) = split(stream);
            let ingress = Some(door.ingress.clone());
            let role = Role::Server;
            let connection =
                Connection::websocket(reader, writer, role, &early, door.limits, ingress);
            let outbox = connection.outbox.clone();
            let newcomer =
                door.uninitialized.join(move || outbox.close(CloseReason::NotInitialized));
            drop(door);
            // In a task of its own, which does not hold what the handshake needed.
            tokio::spawn(async move {
                serve(connection, newcomer).await;
                drop(permit);
            });
        });
        let abort = task.abort_handle();
        let newcomer = self.handshakes.join(move || abort.abort());
        // Fails when the task was aborted at once.
        drop(begin.send(newcomer));
    }

    /// The HTTP side of a connection; gives the stream back when it is a WebSocket, with what was
    /// read of it already.
    async fn upgrade<S>(
        &self,
        stream: S,
        via: Via,
    ) -> Option<(S, bytes::Bytes, OwnedSemaphorePermit)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let upgrade: Mutex<Option<(OnUpgrade, OwnedSemaphorePermit)>> = Mutex::default();
        let answer = async |mut request: Request<Body>| {
            let verdict = handshake::judge(&request, via, &self.admission);
            let accepted = match verdict {
                Verdict::Answer(answer) => return Ok::<_, std::convert::Infallible>(answer),
                Verdict::Upgrade(accepted) => accepted,
            };
            let Ok(permit) = self.room.clone().try_acquire_owned() else {
                return Ok(text(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n"));
            };
            let coming = hyper::upgrade::on(&mut request);
            *upgrade.lock().unwrap_or_else(PoisonError::into_inner) = Some((coming, permit));
            Ok(accepted)
        };
        let service = service_fn(answer);
        let mut http = http1::Builder::new();
        http.keep_alive(false).max_buf_size(HEAD_BYTES).half_close(false);
        let served = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        // A client that breaks off the handshake has its reasons.
        served.ok()?;
        let (coming, permit) = upgrade.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let parts = coming.await.ok()?.downcast::<TokioIo<S>>().ok()?;
        Some((parts.io.into_inner(), parts.read_buf, permit))
    }
}
