//! WebSocket frames: whatever comes, in whatever pieces, the same messages or the same error come
//! out, in memory that follows what has come. The first byte is the role, the second the length of
//! the pieces.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use jsonrpc::websocket::{MessageReader, ReadError, Received, Role};
use tokio::io::{AsyncRead, ReadBuf};

/// The longest message.
const LIMIT: usize = 1000;
/// Number of bytes that a reader may hold however little has arrived.
const IDLE_BYTES: usize = 4 << 10;

/// Gives pieces of one length, then the end.
struct SplitReader<'a> {
    rest: &'a [u8],
    length: usize,
}

impl AsyncRead for SplitReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.length.min(self.rest.len()).min(buffer.remaining());
        let (piece, rest) = self.rest.split_at(length);
        buffer.put_slice(piece);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

fn read_all(bytes: &[u8], length: usize, role: Role) -> Vec<String> {
    let reading = async {
        let mut said = Vec::new();
        let mut reader = MessageReader::new(SplitReader { rest: bytes, length }, role, LIMIT, b"");
        loop {
            let received = match reader.next().await {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(ReadError::Violation(violation)) => {
                    said.push(format!("{violation:?}"));
                    break;
                }
                Err(ReadError::Io(error)) => panic!("{error}"),
            };
            if let Received::Text(text) | Received::Binary(text) = received {
                assert!(text.len() <= LIMIT);
            }
            if let Received::Text(text) = received {
                assert!(std::str::from_utf8(text).is_ok());
            }
            said.push(format!("{received:?}"));
            assert!(reader.held_bytes() <= IDLE_BYTES + 8 * bytes.len());
        }
        assert!(reader.held_bytes() <= IDLE_BYTES + 8 * bytes.len());
        said
    };
    // The stream never makes anybody wait.
    match pin!(reading).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(said) => said,
        Poll::Pending => panic!("reading waits for nothing"),
    }
}

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let [role, length, frames @ ..] = bytes else { return };
    let role = if role & 1 == 0 { Role::Server } else { Role::Client };
    let at_once = read_all(frames, frames.len(), role);
    assert_eq!(read_all(frames, usize::from(*length).max(1), role), at_once);
}
