//! The client side of the handshake, for this program's own clients.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonrpc::websocket::Role;
use jsonrpc::{Connection, Limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{Error, ErrorKind};

/// Longest head of a response, in bytes.
const HEAD_BYTES: usize = 16 << 10;

/// Connects to the server at a Unix socket. Must be called within a tokio runtime.
///
/// # Errors
/// No server listens there, or see [`upgrade`].
#[cfg(unix)]
pub async fn connect(path: &Path, limits: Limits) -> Result<Connection, Error> {
    let stream = tokio::net::UnixStream::connect(path)
        .await
        .map_err(|source| Error::io(path.display().to_string(), source))?;
    let (reader, writer) = stream.into_split();
    upgrade(reader, writer, "localhost", None, limits).await
}

/// Performs the client's side of the opening handshake over any stream. `host` and `token` go into
/// the request's headers.
///
/// # Errors
/// The stream breaks, or the server refuses the upgrade or does not speak WebSocket.
pub async fn upgrade<R, W>(
    mut reader: R,
    mut writer: W,
    host: &str,
    token: Option<&str>,
    limits: Limits,
) -> Result<Connection, Error>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let broken = |source| Error::io("the connection broke", source);
    let not_a_web_socket = || {
        let message = "the server at this address does not speak WebSocket";
        Error::new(ErrorKind::NotAWebSocket, message)
    };
    // A constant is enough: the key only keeps caches from replaying an old response.
    let key = STANDARD.encode(*b"agentd-websocket");
    let authorization =
        token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{authorization}\r\n"
    );
    writer.write_all(request.as_bytes()).await.map_err(broken)?;
    let mut read = Vec::new();
    let (status, head) = loop {
        if reader.read_buf(&mut read).await.map_err(broken)? == 0 || read.len() > HEAD_BYTES {
            return Err(not_a_web_socket());
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&read) {
            Ok(httparse::Status::Complete(head)) => break (response.code.unwrap_or(0), head),
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Err(not_a_web_socket()),
        }
    };
    if status != 101 {
        let mut rest = reader.take(HEAD_BYTES as u64);
        // A truncated body still explains the refusal.
        let _ = rest.read_to_end(&mut read).await;
        let message = String::from_utf8_lossy(&read[head..]).trim().to_owned();
        let message = format!("the server refused the connection with status {status}: {message}");
        return Err(Error::new(ErrorKind::UpgradeRefused { status }, message));
    }
    Ok(Connection::websocket(reader, writer, Role::Client, &read[head..], limits, None))
}
