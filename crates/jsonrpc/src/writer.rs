//! Writes an outbox to a byte stream: all queued messages in one write, framed as lines or as
//! WebSocket messages.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::outbox::Shared;
use crate::queued::Queued;
use crate::websocket::{self, Header, Opcode, Role};
use crate::{CloseReason, OutboxReceiver};

/// Messages are gathered up to about this many bytes for each write. A pipe accepts no more at
/// once.
const WRITE_BYTES: usize = 64 << 10;
/// An idle writer keeps no more memory than this.
const RETAINED_BYTES: usize = 2 << 10;

/// The delimiting of messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// A newline after each message.
    Lines,
    /// One frame for each message; clients mask it.
    Frames(Role),
}

impl OutboxReceiver {
    /// Writes queued messages, one per line, until the outbox is closed and drained, then shuts
    /// `writer` down. A write that makes no progress for `stall`, if given, closes the outbox.
    /// Needs a runtime with time.
    pub async fn run<W: AsyncWrite>(self, writer: W, stall: impl Into<Option<Duration>>) {
        self.run_framed(writer, stall.into(), Framing::Lines).await;
    }

    /// See [`OutboxReceiver::run`]. A WebSocket is closed with the code and text of the reason, if
    /// the peer accepts them within `stall`.
    pub(crate) async fn run_framed<W: AsyncWrite>(
        mut self,
        writer: W,
        stall: Option<Duration>,
        framing: Framing,
    ) {
        let writer = pin!(writer);
        let gathered = Vec::new();
        let mut writing = Writing {
            writer,
            framing,
            gathered,
            written: 0,
            big: None,
            mask: None,
            within_message: false,
        };
        while self.take().await {
            if let Err(reason) = writing.write_batch(&mut self, stall).await {
                Shared::close(&self.shared, reason);
                break;
            }
        }
        let ended = within(stall, writing.end(self.shared.close_reason())).await;
        // Ends the stream for the peer. A peer that is already gone changes nothing.
        drop(ended);
    }
}

struct Writing<'a, W> {
    writer: Pin<&'a mut W>,
    framing: Framing,
    /// Framed bytes, in order; `gathered[..written]` is written.
    gathered: Vec<u8>,
    written: usize,
    /// Follows `gathered`, with the number of bytes written: a large piece is written in place
    /// instead of being copied.
    big: Option<(Bytes, usize)>,
    /// Mask of the message in progress, and how many of its bytes are masked.
    mask: Option<([u8; 4], u64)>,
    /// A message is only partly added.
    within_message: bool,
}

impl<W: AsyncWrite> Writing<'_, W> {
    async fn write_batch(
        &mut self,
        outbox: &mut OutboxReceiver,
        stall: Option<Duration>,
    ) -> Result<(), CloseReason> {
        if !self.within_message {
            self.add_controls(outbox);
        }
        let mut has_written = false;
        while let Some(message) = outbox.next_queued() {
            let ends = message.ends();
            self.begin(&message);
            for piece in message.into_pieces() {
                self.add(piece);
                if self.gathered.len() >= WRITE_BYTES || self.big.is_some() {
                    self.write_out(outbox, stall).await?;
                    has_written = true;
                }
            }
            self.within_message = !ends;
            if ends && let Framing::Lines = self.framing {
                self.gathered.push(b'\n');
            }
            if ends && std::mem::take(&mut has_written) {
                self.add_controls(outbox);
            }
        }
        self.write_out(outbox, stall).await?;
        self.gathered.shrink_to(RETAINED_BYTES);
        guarded(outbox, stall, self.writer.flush()).await
    }

    /// Adds control frames, which may only come between two messages.
    fn add_controls(&mut self, outbox: &OutboxReceiver) {
        let Framing::Frames(role) = self.framing else { return };
        let controls = outbox.take_controls();
        for payload in &controls.pongs {
            websocket::write_control(Opcode::Pong, payload, role.key(), &mut self.gathered);
        }
        if controls.ping {
            websocket::write_control(Opcode::Ping, b"", role.key(), &mut self.gathered);
        }
    }

    /// Adds the bytes before a message.
    fn begin(&mut self, message: &Queued) {
        self.within_message = true;
        let (Framing::Frames(role), Some(length)) = (self.framing, message.begins()) else {
            return;
        };
        let header = Header { is_final: true, opcode: Opcode::Text, mask: role.key(), length };
        header.write(&mut self.gathered);
        self.mask = header.mask.map(|key| (key, 0));
    }

    fn add(&mut self, piece: Bytes) {
        if let Some((key, masked)) = &mut self.mask {
            let begin = self.gathered.len();
            self.gathered.extend_from_slice(&piece);
            websocket::mask(&mut self.gathered[begin..], *key, *masked);
            *masked += piece.len() as u64;
        } else if piece.len() >= WRITE_BYTES {
            self.big = Some((piece, 0));
        } else {
            self.gathered.extend_from_slice(&piece);
        }
    }

    /// Writes the gathered bytes and the large piece after them.
    async fn write_out(
        &mut self,
        outbox: &mut OutboxReceiver,
        stall: Option<Duration>,
    ) -> Result<(), CloseReason> {
        while let Some(written) = guarded(outbox, stall, self.write_some()).await? {
            outbox.release(written);
        }
        Ok(())
    }

    /// Performs one write; `None` when nothing is left to write. Cancel safe.
    async fn write_some(&mut self) -> io::Result<Option<usize>> {
        let rest = match &self.big {
            _ if self.written < self.gathered.len() => &self.gathered[self.written..],
            Some((big, written)) => &big[*written..],
            None => &[],
        };
        if rest.is_empty() {
            self.gathered.clear();
            self.written = 0;
            self.big = None;
            return Ok(None);
        }
        let count = self.writer.write(rest).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        match &mut self.big {
            Some((_, written)) if self.written == self.gathered.len() => *written += count,
            _ => self.written += count,
        }
        Ok(Some(count))
    }

    /// Ends the stream; a WebSocket is closed with the reason.
    async fn end(&mut self, reason: Option<CloseReason>) -> io::Result<()> {
        let reason = reason.unwrap_or(CloseReason::Finished);
        let code = reason.code().filter(|_| !self.within_message);
        if let (Framing::Frames(role), Some(code)) = (self.framing, code) {
            // A frame in progress is completed first: a close frame inside it would be payload.
            while self.write_some().await?.is_some() {}
            let words = match reason {
                CloseReason::Left { .. } => String::new(),
                reason => reason.to_string(),
            };
            websocket::write_close(code, &words, role.key(), &mut self.gathered);
            while self.write_some().await?.is_some() {}
        }
        self.writer.shutdown().await
    }
}

/// Waits for one operation, for `stall` at most, and only until the outbox is broken.
async fn guarded<T>(
    outbox: &OutboxReceiver,
    stall: Option<Duration>,
    operation: impl Future<Output = io::Result<T>>,
) -> Result<T, CloseReason> {
    let failed = |error: io::Error| CloseReason::WriteFailed(error.kind());
    let mut operation = pin!(operation);
    // Nearly every write completes at once, and then needs neither a timer nor a watch.
    if let Poll::Ready(outcome) = once(operation.as_mut()).await {
        return outcome.map_err(failed);
    }
    tokio::select! {
        biased;
        outcome = within(stall, operation) => match outcome {
            Some(outcome) => outcome.map_err(failed),
            None => Err(CloseReason::Stalled),
        },
        reason = outbox.broken() => Err(reason),
    }
}

/// Returns the output of `future` if it completes in time; without a limit it waits.
async fn within<F: Future>(limit: Option<Duration>, future: F) -> Option<F::Output> {
    match limit {
        Some(limit) => timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

/// Polls `future` once, as the current task.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
