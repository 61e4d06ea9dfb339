//! A connection: an inbox and an outbox over a pair of byte streams, an in-memory pair for tests
//! and embedding, or the standard streams.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::inbox::{InboxSender, inbox};
use crate::{
    CloseReason, ErrorObject, FdReader, FdWriter, Inbox, Incoming, Limits, Line, LineReader,
    Malformed, Outbox, outbox,
};

/// One connection. Its two tasks end with their streams:
///
/// - the end of input ends `incoming` and leaves the outbox open, so that pending requests are
///   still answered;
/// - dropping `incoming`, or closing the outbox in a disorderly way, stops the reading;
/// - closing `outbox` in good order, or dropping every clone of it, writes the rest and ends the
///   output.
pub struct Connection {
    /// Messages from the peer.
    pub incoming: Inbox,
    /// Messages to the peer.
    pub outbox: Outbox,
}

impl Connection {
    /// Creates a connection over two byte streams. Must be called within a tokio runtime with time.
    pub fn over<R, W>(reader: R, writer: W, limits: Limits) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let (outbox, receiver) = outbox(&limits);
        let (sender, incoming) = inbox(&limits, None);
        let reading = Reading {
            lines: LineReader::new(reader, limits.line_bytes),
            limit: limits.line_bytes,
            sender,
        };
        let broken = outbox.broken();
        let weak = outbox.downgrade();
        tokio::spawn(receiver.run(writer, limits.stall));
        tokio::spawn(async move {
            tokio::select! {
                ended = reading.run() => {
                    if let (Err(error), Some(outbox)) = (ended, weak.upgrade()) {
                        outbox.close(CloseReason::ReadFailed(error.kind()));
                    }
                }
                _ = broken => {}
            }
        });
        Self { incoming, outbox }
    }

    /// Returns two connected in-memory connections, which use the same framing as any other.
    #[must_use]
    pub fn pair(limits: Limits) -> (Self, Self) {
        let (left, right) = tokio::io::duplex(PAIR_BYTES);
        let connect = |stream| {
            let (reader, writer) = tokio::io::split(stream);
            Self::over(reader, writer, limits)
        };
        (connect(left), connect(right))
    }

    /// The connection over standard input and output, which the process must not use otherwise. A
    /// parent that does not read makes the connection wait, without a limit: reading stops and no
    /// message is dropped. The code that ends the connection limits the wait with
    /// [`Outbox::drained`].
    ///
    /// # Errors
    /// When a stream is closed or cannot be watched.
    pub fn stdio(limits: Limits) -> io::Result<Self> {
        let reader = FdReader::new(io::stdin())?;
        let writer = FdWriter::new(io::stdout())?;
        Ok(Self::over(reader, writer, Limits { stall: None, ..limits }))
    }
}

/// Capacity of an in-memory pair in each direction: that of a pipe.
const PAIR_BYTES: usize = 64 << 10;

struct Reading<R> {
    lines: LineReader<R>,
    limit: usize,
    sender: InboxSender,
}

impl<R: AsyncRead + Unpin> Reading<R> {
    /// Reads until the input ends or fails, or the inbox is dropped.
    async fn run(mut self) -> io::Result<()> {
        loop {
            let (line, bytes) = tokio::select! {
                biased;
                line = self.lines.next_line() => match line? {
                    None => return Ok(()),
                    Some(Line::Text(line)) => (self.sender.read(line), line.len()),
                    Some(Line::TooLong) => (Incoming::Malformed(too_long(self.limit)).into(), 0),
                },
                () = self.sender.closed() => return Ok(()),
            };
            if !self.sender.send(line, bytes).await {
                return Ok(());
            }
        }
    }
}

fn too_long(limit: usize) -> Malformed {
    let message = format!(
        "Invalid request: the line is longer than {limit} bytes and was skipped; \
         send large content in several messages"
    );
    Malformed { id: None, error: ErrorObject::invalid_request(message), answers: None }
}
