//! Connections: accepted, bounded, and closed without cutting off responses.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::idle_timeout::{IdleTimeout, OpenRequest, OpenRequests};
use super::pages::Pages;
use super::service;
use super::slots::{Slot, Slots};
use crate::answer::AnswerBody;
use crate::state::Gateway;

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
/// configured time.
///
/// # Errors
/// The listener fails permanently.
pub async fn serve(
    gateway: Arc<Gateway>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<Ending> {
    let graceful = GracefulShutdown::new();
    let pages = Pages::new(&gateway);
    let slots = Arc::<Slots>::default();
    let room = Arc::new(Semaphore::new(MOST));
    let (cut, is_cut) = watch::channel(false);
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let place = Arc::clone(&room).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepted => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, address)) => {
                let slot = slots.take(address.ip().to_canonical());
                let connection = connection(&gateway, stream, pages.clone(), slot);
                let connection = graceful.watch(connection);
                let mut is_cut = is_cut.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        // A broken connection affects no other.
                        _ = connection => {}
                        _ = is_cut.wait_for(|is_cut| *is_cut) => {}
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    let patience = gateway.settings.load().server.drain;
    let (drained, ()) = tokio::join!(
        tokio::time::timeout(patience, graceful.shutdown()),
        gateway.batches.drain(patience),
    );
    if drained.is_ok() {
        return Ok(Ending::Drained);
    }
    // What is cut off is settled before the caller writes the end of the ledger.
    gateway.is_cutting.store(true, Ordering::Relaxed);
    cut.send_replace(true);
    let _all = room.acquire_many(MOST as u32).await;
    Ok(Ending::Cut)
}

fn connection(
    gateway: &Arc<Gateway>,
    stream: TcpStream,
    pages: Pages,
    slot: Slot,
) -> http1::Connection<TokioIo<IdleTimeout<TcpStream>>, impl Answering> {
    // Small responses should be sent without delay; the connection works even if this fails.
    let _ = stream.set_nodelay(true);
    let header_timeout = gateway.settings.load().server.header_timeout;
    let gateway = Arc::clone(gateway);
    let open_requests = OpenRequests::default();
    let stream = IdleTimeout::new(stream, open_requests.clone(), header_timeout);
    let answer = service_fn(move |request: Request<Incoming>| {
        let open_request = open_requests.begin();
        let settings = gateway.settings.load();
        let client = settings.trusted_proxies.client(slot.address(), request.headers());
        // A connection of a proxy serves many clients, each of which has slots of its own.
        let own = (client.address != slot.address()).then(|| slot.of(client.address));
        let number = own.as_ref().unwrap_or(&slot).number();
        let pages = pages.for_client(client);
        let answer = service::answer(Arc::clone(&gateway), pages, request, number);
        async move {
            let answer = answer.await;
            let answer = answer.map(|body| Held { body, _open_request: open_request, _slot: own });
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
