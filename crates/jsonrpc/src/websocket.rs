//! The WebSocket transport (RFC 6455, without extensions): one message per text frame. It starts
//! after the HTTP upgrade, over any byte stream.
//!
//! Both directions are independent, as with lines: a peer that writes and does not read only delays
//! what is written to it. Pings are answered, and sent to a silent peer.

mod frame;
mod reader;
mod role;
mod violation;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

pub use frame::Opcode;
pub use reader::{MessageReader, ReadError, Received};
pub use role::Role;
pub use violation::Violation;

pub(crate) use frame::{Header, mask, write_close, write_control};

use crate::inbox::{InboxSender, ReceivedLine, inbox};
use crate::outbox::WeakOutbox;
use crate::writer::Framing;
use crate::{
    CloseReason, Connection, ErrorObject, Incoming, Ingress, Limits, Message, Outbox, encode_error,
    outbox,
};

impl Connection {
    /// Creates a connection over a WebSocket after its handshake; `early` are the bytes already
    /// read from the stream. Must be called within a tokio runtime with time.
    ///
    /// With `ingress`, requests that find no room are refused at once with -32001 (specification:
    /// Errors); without it, reading waits.
    pub fn websocket<R, W>(
        reader: R,
        writer: W,
        role: Role,
        early: &[u8],
        limits: Limits,
        ingress: Option<Arc<Ingress>>,
    ) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let (socket, outbox) = Socket::over(reader, writer, role, early, limits, ingress.clone());
        let refuses = ingress.is_some();
        let (sender, incoming) = inbox(&limits, ingress);
        let closed = outbox.closed_watch();
        let reading = Reading { sender, outbox: outbox.downgrade(), refuses };
        tokio::spawn(reading.run(socket, closed));
        Self { incoming, outbox }
    }
}

/// The reading side of a WebSocket. It answers pings, pings a silent peer, and determines why the
/// connection ended. Its replies go through the connection's outbox.
pub struct Socket<R> {
    reader: MessageReader<R>,
    outbox: WeakOutbox,
    keepalive: Duration,
    /// A ping was sent, and nothing has arrived since.
    pinged: bool,
}

impl<R: AsyncRead + Unpin> Socket<R> {
    /// Creates a WebSocket after its handshake, and the outbox that writes to it. See
    /// [`Connection::websocket`].
    pub fn over<W: AsyncWrite + Send + 'static>(
        reader: R,
        writer: W,
        role: Role,
        early: &[u8],
        limits: Limits,
        ingress: Option<Arc<Ingress>>,
    ) -> (Self, Outbox) {
        let (outbox, receiver) = outbox(&limits);
        let reader = MessageReader::new(reader, role, limits.line_bytes, early);
        let socket = Self {
            reader: reader.charged_to(ingress),
            outbox: outbox.downgrade(),
            keepalive: limits.keepalive,
            pinged: false,
        };
        tokio::spawn(receiver.run_framed(writer, limits.stall, Framing::Frames(role)));
        (socket, outbox)
    }

    /// Returns the next text message. Cancel safe: no message is lost.
    ///
    /// # Errors
    /// The reason to close the outbox with.
    pub async fn next(&mut self) -> Result<&[u8], CloseReason> {
        loop {
            match self.receive().await {
                // Borrowed again outside of the loop: the borrow checker does not see that the text
                // of this iteration is no longer used in the next.
                Ok(true) => return Ok(self.reader.taken()),
                Ok(false) => {}
                Err(reason) => return Err(reason),
            }
        }
    }

    /// Receives frames; returns whether a text message is complete.
    async fn receive(&mut self) -> Result<bool, CloseReason> {
        let gone = CloseReason::Finished;
        let before = self.reader.arrived();
        let Ok(received) = timeout(self.keepalive, self.reader.next()).await else {
            if self.reader.arrived() != before {
                // The peer is in the middle of a long message, where it cannot answer a ping.
                self.pinged = false;
                return Ok(false);
            }
            if std::mem::replace(&mut self.pinged, true) {
                return Err(CloseReason::Unresponsive);
            }
            self.outbox.upgrade().ok_or(gone)?.ping();
            return Ok(false);
        };
        self.pinged = false;
        match received {
            Ok(Some(Received::Text(_))) => Ok(true),
            Ok(Some(Received::Pong)) => Ok(false),
            Ok(Some(Received::Ping(payload))) => {
                self.outbox.upgrade().ok_or(gone)?.pong(payload);
                Ok(false)
            }
            Ok(Some(Received::Binary(_))) => Err(Violation::Binary.into()),
            Ok(Some(Received::Close(said))) => {
                Err(CloseReason::Left { code: said.map_or(1005, |(code, _)| code) })
            }
            Ok(None) => Err(CloseReason::Left { code: 1006 }),
            Err(ReadError::Violation(violation)) => Err(violation.into()),
            Err(ReadError::Io(error)) => Err(CloseReason::ReadFailed(error.kind())),
        }
    }

    /// Reads and discards for a while, until the peer has closed the stream too. If the socket were
    /// closed with unread bytes, the system would reset the connection and drop bytes that the peer
    /// has not read yet.
    pub async fn linger(mut self) {
        // The stream ends even if this fails.
        let _ = timeout(LINGER, self.reader.drain()).await;
    }
}

const LINGER: Duration = Duration::from_secs(2);

/// Decodes received text into messages.
struct Reading {
    sender: InboxSender,
    outbox: WeakOutbox,
    refuses: bool,
}

impl Reading {
    async fn run<R: AsyncRead + Unpin>(
        mut self,
        mut socket: Socket<R>,
        closed: impl Future<Output = CloseReason>,
    ) {
        let ended = tokio::select! {
            ended = self.read(&mut socket) => ended,
            _ = closed => None,
        };
        if let (Some(reason), Some(outbox)) = (ended, self.outbox.upgrade()) {
            outbox.close(reason);
        }
        drop(self);
        socket.linger().await;
    }

    /// Reads to the end of the connection and returns the reason; `None` when the inbox is dropped.
    async fn read<R: AsyncRead + Unpin>(&mut self, socket: &mut Socket<R>) -> Option<CloseReason> {
        loop {
            let text = tokio::select! {
                biased;
                text = socket.next() => text,
                () = self.sender.closed() => return None,
            };
            let (line, bytes) = match text {
                Ok(text) => (self.sender.read(text), text.len()),
                Err(reason) => return Some(reason),
            };
            // Releases a long message's own charge, so that it is charged only once.
            socket.reader.let_go();
            if !self.pass_on(line, bytes).await {
                return None;
            }
        }
    }

    /// Returns `false` when the inbox is dropped.
    async fn pass_on(&mut self, line: ReceivedLine, bytes: usize) -> bool {
        let is_request = match &line.incoming {
            Incoming::Message(Message::Request { .. }) | Incoming::Malformed(_) => true,
            Incoming::Message(_) => false,
        };
        if !self.refuses || !is_request {
            return self.sender.send(line, bytes).await;
        }
        let Err(refused) = self.sender.offer(line, bytes) else { return true };
        let Some(outbox) = self.outbox.upgrade() else { return false };
        let answer = match refused {
            Incoming::Message(Message::Request { id, .. }) => {
                encode_error(Some(&id), &ErrorObject::overloaded())
            }
            // The line already has its error.
            Incoming::Malformed(malformed) => encode_error(malformed.id.as_ref(), &malformed.error),
            Incoming::Message(_) => return true,
        };
        let is_queued = outbox.push_answer(answer).is_ok();
        // A peer that does not read its refusals is read no further.
        outbox.answers_below(UNREAD_REFUSALS).await;
        is_queued
    }
}

/// Most bytes of unwritten refusals of a connection.
const UNREAD_REFUSALS: usize = 1 << 20;
