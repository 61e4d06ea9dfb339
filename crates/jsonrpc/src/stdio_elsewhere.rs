//! Standard input and output on systems without file descriptors: through helper threads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The reading side of standard input.
#[derive(Debug)]
pub struct FdReader(tokio::io::Stdin);

impl FdReader {
    /// Reads standard input.
    ///
    /// # Errors
    /// Returns no error on these systems.
    pub fn new(_input: io::Stdin) -> io::Result<Self> {
        Ok(Self(tokio::io::stdin()))
    }
}

impl AsyncRead for FdReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

/// The writing side of standard output.
#[derive(Debug)]
pub struct FdWriter(tokio::io::Stdout);

impl FdWriter {
    /// Writes standard output.
    ///
    /// # Errors
    /// Returns no error on these systems.
    pub fn new(_output: io::Stdout) -> io::Result<Self> {
        Ok(Self(tokio::io::stdout()))
    }
}

impl AsyncWrite for FdWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
