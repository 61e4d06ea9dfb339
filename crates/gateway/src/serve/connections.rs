//! Connections: accepted, bounded, and closed without cutting off responses.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::idle_timeout::{IdleLimit, IdleTimeout, OpenRequest, OpenRequests};
use super::pages::Pages;
use super::service;
use super::slots::{Slot, Slots};
use crate::answer::AnswerBody;
use crate::state::Gateway;
use crate::workers::Workers;

/// Most concurrent connections; further ones wait to be accepted.
const MOST: usize = 16_384;
/// Pause after a failed accept; the usual cause is a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The end of the open requests at shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All requests were answered.
    Drained,
    /// Some were cut off at the time limit.
    Cut,
}

/// Serves until `stop` is done, and then until open requests are answered, at most for the
/// configured time. Meanwhile each answer asks the client to close its connection. Each connection is served by one of
/// the workers.
///
/// # Errors
/// The listener fails permanently.
pub async fn serve(
    gateway: Arc<Gateway>,
    listener: TcpListener,
    workers: Arc<Workers>,
    stop: impl Future<Output = ()>,
) -> io::Result<Ending> {
    let server = Server {
        pages: Pages::new(&gateway),
        gateway,
        workers,
        slots: Arc::default(),
        room: Arc::new(Semaphore::new(MOST)),
        idle: IdleLimit::default(),
        phase: watch::Sender::new(Phase::Serving),
    };
    server.accept_until(&listener, stop).await;
    server.gateway.is_draining.store(true, Ordering::Relaxed);
    let settings = server.gateway.settings.load().server;
    server.idle.lower(settings.drain_idle);
    server.phase.send_replace(Phase::Draining);
    let connections = async {
        server.accept_until(&listener, tokio::time::sleep(settings.drain_delay)).await;
        server.accept_waiting(listener)?;
        io::Result::Ok(tokio::time::timeout(settings.drain, server.ended()).await.is_ok())
    };
    let batches = server.gateway.batches.drain(settings.drain_delay + settings.drain);
    let (is_drained, ()) = tokio::join!(connections, batches);
    if is_drained? {
        return Ok(Ending::Drained);
    }
    // What is cut off is settled before the caller writes the end of the ledger.
    server.gateway.is_cutting.store(true, Ordering::Relaxed);
    server.phase.send_replace(Phase::Cut);
    server.ended().await;
    Ok(Ending::Cut)
}

/// The state that all connections share.
struct Server {
    gateway: Arc<Gateway>,
    pages: Pages,
    workers: Arc<Workers>,
    slots: Arc<Slots>,
    /// A permit for each further connection.
    room: Arc<Semaphore>,
    idle: IdleLimit,
    phase: watch::Sender<Phase>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
    /// Connections are closed, whatever they do.
    Cut,
}

impl Server {
    async fn accept_until(&self, listener: &TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = async {
                let place = Arc::clone(&self.room).acquire_owned().await;
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                accepted = accepted => accepted,
                () = &mut stop => return,
            };
            // The socket leaves this runtime, and enters that of its worker.
            let accepted = accepted.and_then(|(stream, address)| Ok((stream.into_std()?, address)));
            match (place, accepted) {
                (Ok(place), Ok((stream, address))) => self.serve(place, stream, address),
                // The semaphore is never closed.
                (Err(_), _) => return,
                (_, Err(error)) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Closes the listener. The system resets connections that wait to be accepted then, some of which have sent a
    /// request: they are served first.
    fn accept_waiting(&self, listener: TcpListener) -> io::Result<()> {
        let listener = listener.into_std()?;
        while let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            match listener.accept() {
                Ok((stream, address)) => {
                    stream.set_nonblocking(true)?;
                    self.serve(place, stream, address);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // Its client is gone.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    break;
                }
            }
        }
        Ok(())
    }

    /// Serves a connection on one of the workers.
    fn serve(&self, place: OwnedSemaphorePermit, stream: std::net::TcpStream, address: SocketAddr) {
        let slot = self.slots.take(address.ip().to_canonical());
        let pages = self.pages.clone();
        let (gateway, idle) = (Arc::clone(&self.gateway), self.idle.clone());
        let mut phase = self.phase.subscribe();
        self.workers.run(move || async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let connection = connection(&gateway, stream, pages, slot, idle);
            let mut connection = std::pin::pin!(connection);
            loop {
                // Each round polls the connection, which then notices the limit of its idle time.
                tokio::select! {
                    // A broken connection affects no other.
                    _ = &mut connection => break,
                    changed = phase.changed() => {
                        if changed.is_err() || *phase.borrow_and_update() == Phase::Cut {
                            break;
                        }
                    }
                }
            }
            drop(place);
        });
    }

    /// Waits until there are no connections.
    async fn ended(&self) {
        // The semaphore is never closed.
        let _all = self.room.acquire_many(MOST as u32).await;
    }
}

fn connection(
    gateway: &Arc<Gateway>,
    stream: TcpStream,
    pages: Pages,
    slot: Slot,
    idle: IdleLimit,
) -> http1::Connection<TokioIo<IdleTimeout<TcpStream>>, impl Answering> {
    // Small responses should be sent without delay; the connection works even if this fails.
    let _ = stream.set_nodelay(true);
    let header_timeout = gateway.settings.load().server.header_timeout;
    let gateway = Arc::clone(gateway);
    let open_requests = OpenRequests::default();
    let stream = IdleTimeout::new(stream, open_requests.clone(), header_timeout, idle);
    let answer = service_fn(move |request: Request<Incoming>| {
        let open_request = open_requests.begin();
        let gateway = Arc::clone(&gateway);
        let settings = gateway.settings.load();
        let client = settings.trusted_proxies.client(slot.address(), request.headers());
        // A connection of a proxy serves many clients, each of which has slots of its own.
        let own = (client.address != slot.address()).then(|| slot.of(client.address));
        let number = own.as_ref().unwrap_or(&slot).number();
        let pages = pages.for_client(client);
        let answer = service::answer(Arc::clone(&gateway), pages, request, number);
        async move {
            let held = |body| Held { body, _open_request: open_request, _slot: own };
            let mut answer = answer.await.map(held);
            if gateway.is_draining.load(Ordering::Relaxed) {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    // Responses are flushed one by one: a response that is flushed together with the next one waits
    // for that request, and the error for malformed HTTP would never be sent. Hyper's own header
    // timeout would close connections that are only idle.
    http1::Builder::new().serve_connection(TokioIo::new(stream), answer)
}

/// A response body that holds its request open, and the slot of its client.
struct Held {
    body: AnswerBody,
    _open_request: OpenRequest,
    _slot: Option<Slot>,
}

impl Body for Held {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The handler of a connection's requests.
trait Answering:
    hyper::service::HttpService<
        Incoming,
        ResBody = Held,
        Error = std::convert::Infallible,
        Future: Send,
    > + Send
    + 'static
{
}

impl<S> Answering for S where
    S: hyper::service::HttpService<
            Incoming,
            ResBody = Held,
            Error = std::convert::Infallible,
            Future: Send,
        > + Send
        + 'static
{
}
