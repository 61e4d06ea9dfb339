//! Writes an outbox to a stream of bytes, a line a message: everything that waits in one write.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::{CloseReason, OutboxReceiver};

/// Messages are gathered up to about so many bytes a write; this is also the memory that a writer
/// keeps. A pipe takes no more at once.
const WRITE_BYTES: usize = 64 << 10;

impl OutboxReceiver {
    /// Writes what is queued until the outbox is closed and drained, then shuts `writer` down. A
    /// write that makes no progress for `stall` closes the outbox. Needs a runtime with time.
    pub async fn run<W: AsyncWrite>(mut self, writer: W, stall: Duration) {
        let mut writer = pin!(writer);
        let mut lines = Vec::new();
        while self.take().await {
            if let Err(reason) = self.write_batch(&mut writer, &mut lines, stall).await {
                self.shared.close(reason);
                break;
            }
        }
        // The peer is to see the end of the stream. Whether it was still there to see it changes
        // nothing any more.
        let _ = timeout(stall, writer.shutdown()).await;
    }

    async fn write_batch<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut W,
        lines: &mut Vec<u8>,
        stall: Duration,
    ) -> Result<(), CloseReason> {
        while let Some(message) = self.next_queued() {
            match message.as_whole() {
                // A big message is written from where it is instead of being copied.
                Some(big) if big.len() >= WRITE_BYTES => {
                    self.write_out(writer, lines, stall).await?;
                    self.write_all(writer, big, stall).await?;
                }
                _ => message.append_to(lines),
            }
            lines.push(b'\n');
            if lines.len() >= WRITE_BYTES {
                self.write_out(writer, lines, stall).await?;
            }
        }
        self.write_out(writer, lines, stall).await?;
        self.guarded(stall, writer.flush()).await
    }

    async fn write_out<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut W,
        lines: &mut Vec<u8>,
        stall: Duration,
    ) -> Result<(), CloseReason> {
        self.write_all(writer, lines, stall).await?;
        lines.clear();
        lines.shrink_to(2 * WRITE_BYTES);
        Ok(())
    }

    async fn write_all<W: AsyncWrite + Unpin>(
        &mut self,
        writer: &mut W,
        mut bytes: &[u8],
        stall: Duration,
    ) -> Result<(), CloseReason> {
        while !bytes.is_empty() {
            let written = self.guarded(stall, writer.write(bytes)).await?;
            if written == 0 {
                return Err(CloseReason::WriteFailed(io::ErrorKind::WriteZero));
            }
            self.release(written);
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Waits for one operation, for `stall` at most, and no longer than the outbox is worth it.
    async fn guarded<T>(
        &self,
        stall: Duration,
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
            outcome = timeout(stall, operation) => match outcome {
                Ok(outcome) => outcome.map_err(failed),
                Err(_) => Err(CloseReason::Stalled),
            },
            reason = self.broken() => Err(reason),
        }
    }
}

/// Polls `future` once, as the current task.
async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
