//! A connection's stream that times out when the peer stalls: during a request's head, between
//! requests, or when it does not read a response. Time limits of bodies and upstreams are
//! elsewhere.
//!
//! A connection that is closed between two requests may lose a request that is on its way. Clients and proxies that close
//! idle connections sooner than this limit never lose one, even at shutdown.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Longest time between two requests of a connection, while there is no shutdown.
const IDLE: Duration = Duration::from_secs(75);
/// Longest time without progress in writing an answer to a client that does not read.
const STALLED: Duration = Duration::from_secs(60);

/// A stream with timeouts.
pub(super) struct IdleTimeout<S> {
    stream: S,
    open_requests: OpenRequests,
    head: Duration,
    idle: IdleLimit,
    /// True if a head has been received in part.
    in_head: bool,
    /// True until a first byte is received.
    is_new: bool,
    reading: Wait,
    writing: Wait,
}

/// Longest time between two requests, of all connections.
#[derive(Clone)]
pub(super) struct IdleLimit(Arc<AtomicU64>);

impl Default for IdleLimit {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(IDLE.as_millis() as u64)))
    }
}

impl IdleLimit {
    /// Lowers the limit. Connections notice it when their tasks run.
    pub(super) fn lower(&self, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_min(limit, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// Open requests of a connection.
#[derive(Clone, Default)]
pub(super) struct OpenRequests(Arc<Requests>);

#[derive(Default)]
struct Requests {
    count: AtomicUsize,
    /// The connection's task, which starts to wait for the next request when the last one is
    /// answered.
    task: AtomicWaker,
}

/// An open request, until it is dropped.
pub(super) struct OpenRequest(OpenRequests);

impl OpenRequests {
    /// Registers a request.
    pub(super) fn begin(&self) -> OpenRequest {
        self.0.count.fetch_add(1, Ordering::Relaxed);
        OpenRequest(self.clone())
    }

    fn is_any(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) > 0
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.0.0.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.0.task.wake();
        }
    }
}

/// A wait for the peer. Its timer is created when first needed, and reset only when it expires.
#[derive(Default)]
struct Wait {
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Wait {
    fn end(&mut self) {
        self.since = None;
    }

    /// Ready after `limit`.
    fn poll(&mut self, limit: Duration, context: &mut Context<'_>) -> Poll<()> {
        let due = *self.since.get_or_insert_with(Instant::now) + limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        // A timer set for later than the end of this wait would expire too late.
        if timer.deadline() > due {
            timer.as_mut().reset(due);
        }
        loop {
            std::task::ready!(timer.as_mut().poll(context));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl<S> IdleTimeout<S> {
    pub(super) fn new(
        stream: S,
        open_requests: OpenRequests,
        head: Duration,
        idle: IdleLimit,
    ) -> Self {
        let (reading, writing) = (Wait::default(), Wait::default());
        // The first head is awaited from now on, whether or not any of it has been received.
        Self { stream, open_requests, head, idle, in_head: true, is_new: true, reading, writing }
    }

    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.open_requests.0.task.register(context.waker());
        if self.open_requests.is_any() {
            self.in_head = false;
            self.reading.end();
            return Poll::Pending;
        }
        // A response that is handed over completely may still be in transit.
        if self.writing.since.is_some() {
            self.reading.end();
            return Poll::Pending;
        }
        let limit = match (self.in_head, self.is_new) {
            (true, true) => self.head.min(self.idle.get()),
            (true, false) => self.head,
            (false, _) => self.idle.get(),
        };
        self.reading.poll(limit, context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_stall<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.writing.since.is_some() {
                self.writing.end();
                // If that was the rest, the wait for the next request begins.
                context.waker().wake_by_ref();
            }
            return written;
        }
        self.writing.poll(STALLED, context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleTimeout<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_pending() {
            return this.poll_silence(context);
        }
        this.is_new = this.is_new && buffer.filled().len() == before;
        let is_first =
            !this.in_head && !this.open_requests.is_any() && buffer.filled().len() > before;
        if is_first {
            this.in_head = true;
            this.reading.end();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.poll_stall(written, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(context, pieces);
        this.poll_stall(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "idle_timeout_tests.rs"]
mod tests;
