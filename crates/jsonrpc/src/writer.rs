//! Writes an outbox to a stream of bytes: everything that waits in one write, framed as lines or
//! as WebSocket messages.

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

/// Messages are gathered up to about so many bytes a write. A pipe takes no more at once.
const WRITE_BYTES: usize = 64 << 10;
/// A writer with nothing to write keeps no more memory than this.
const RETAINED_BYTES: usize = 2 << 10;

/// Where a message begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// A newline after it.
    Lines,
    /// A frame a message; clients mask it.
    Frames(Role),
}

impl OutboxReceiver {
    /// Writes what is queued, a line a message, until the outbox is closed and drained, then shuts
    /// `writer` down. A write that makes no progress for `stall`, if there is one, closes the outbox.
    /// Needs a runtime with time.
    pub async fn run<W: AsyncWrite>(self, writer: W, stall: impl Into<Option<Duration>>) {
        self.run_framed(writer, stall.into(), Framing::Lines).await;
    }

    /// See [`OutboxReceiver::run`]. A WebSocket is closed with the code and the words of the reason,
    /// if the peer takes them within `stall`.
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
        // The peer is to see the end of the stream. Whether it was still there to see it changes
        // nothing any more.
        drop(ended);
    }
}

struct Writing<'a, W> {
    writer: Pin<&'a mut W>,
    framing: Framing,
    /// Framed, in order; `gathered[..written]` is out.
    gathered: Vec<u8>,
    written: usize,
    /// Comes after `gathered`, with what of it is out: a big piece is written from where it is
    /// instead of being copied.
    big: Option<(Bytes, usize)>,
    /// Of the message that is being written: how it is masked, and how much of it was.
    mask: Option<([u8; 4], u64)>,
    /// A message was begun, and not all of it was added.
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

    /// Between two messages.
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

    /// Adds what comes before a message.
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

    /// Writes what is gathered and what comes after it.
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

    /// One write; `None` when there is nothing left to write. May be cancelled.
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

    /// Ends the stream, a WebSocket with the reason.
    async fn end(&mut self, reason: Option<CloseReason>) -> io::Result<()> {
        let reason = reason.unwrap_or(CloseReason::Finished);
        let code = reason.code().filter(|_| !self.within_message);
        if let (Framing::Frames(role), Some(code)) = (self.framing, code) {
            // A frame that was begun comes first: within it a close frame would be payload.
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

/// Waits for one operation, for `stall` at most, and no longer than the outbox is worth it.
async fn guarded<T>(
    outbox: &OutboxReceiver,
    stall: Option<Duration>,
    operation: impl Future<Output = io::Result<T>>,
) -> Result<T, CloseReason> {
    let failed = |error: io::Error| CloseReason::WriteFailed(error.kind());
    let mut operation = pin!(operation);
    // Nearly every write is done at once, and then needs neither a timer nor a watch.
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

/// What comes of `future`, if it does so in time; without a limit it has all the time.
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
