//! The client side of the handshake, for this program's own clients.

use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonrpc::websocket::Role;
use jsonrpc::{Connection, Limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why connecting failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No server answers, or the stream broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server refused the upgrade.
    #[error("the server refused the connection with status {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The body of the response.
        message: String,
    },
    /// The response is not that of a WebSocket server.
    #[error("the server at this address does not speak WebSocket")]
    NotAWebSocket,
}

/// Longest head of a response, in bytes.
const HEAD_BYTES: usize = 16 << 10;

/// Connects to the server at a Unix socket. Must be called within a tokio runtime.
///
/// # Errors
/// See [`ConnectError`].
#[cfg(unix)]
pub async fn connect(path: &Path, limits: Limits) -> Result<Connection, ConnectError> {
    let stream = tokio::net::UnixStream::connect(path).await?;
    let (reader, writer) = stream.into_split();
    upgrade(reader, writer, "localhost", None, limits).await
}

/// Performs the client's side of the opening handshake over any stream. `host` and `token` go into
/// the request's headers.
///
/// # Errors
/// See [`ConnectError`].
pub async fn upgrade<R, W>(
    mut reader: R,
    mut writer: W,
    host: &str,
    token: Option<&str>,
    limits: Limits,
) -> Result<Connection, ConnectError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    // A constant is enough: the key only keeps caches from replaying an old response.
    let key = STANDARD.encode(*b"agentd-websocket");
    let authorization =
        token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{authorization}\r\n"
    );
    writer.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    let (status, head) = loop {
        if reader.read_buf(&mut read).await? == 0 || read.len() > HEAD_BYTES {
            return Err(ConnectError::NotAWebSocket);
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&read) {
            Ok(httparse::Status::Complete(head)) => break (response.code.unwrap_or(0), head),
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Err(ConnectError::NotAWebSocket),
        }
    };
    if status != 101 {
        let mut rest = reader.take(HEAD_BYTES as u64);
        // A truncated body still explains the refusal.
        let _ = rest.read_to_end(&mut read).await;
        let message = String::from_utf8_lossy(&read[head..]).trim().to_owned();
        return Err(ConnectError::Refused { status, message });
    }
    Ok(Connection::websocket(reader, writer, Role::Client, &read[head..], limits, None))
}
