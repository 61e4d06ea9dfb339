//! The client side of the handshake, for this program's own clients.

mod refusal;
mod tls;
mod url;

use std::net::IpAddr;
#[cfg(unix)]
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jsonrpc::websocket::Role;
use jsonrpc::{Connection, Limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

pub use tls::ClientTls;
pub use url::WebSocketUrl;

use crate::handshake::accept_of;
use crate::{Error, ErrorKind};

/// Longest head of a response, in bytes.
const HEAD_BYTES: usize = 16 << 10;
/// Most headers of a response.
const HEADERS: usize = 64;

/// The token that a client shows a server, and whom it trusts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Access<'a> {
    /// The bearer token.
    pub token: Option<&'a str>,
    /// The token is sent to another machine even without TLS.
    pub allows_unencrypted_token: bool,
    /// Needed for `wss://`.
    pub tls: Option<&'a ClientTls>,
}

/// Connects to the server at a Unix socket. Must be called within a tokio runtime.
///
/// # Errors
/// No server listens there, or it refuses the upgrade or does not speak WebSocket.
#[cfg(unix)]
pub async fn connect(path: &Path, limits: Limits) -> Result<Connection, Error> {
    let stream = tokio::net::UnixStream::connect(path)
        .await
        .map_err(|source| Error::io(path.display().to_string(), source))?;
    let (reader, writer) = stream.into_split();
    upgrade(reader, writer, ("localhost", "/"), None, limits).await
}

/// Connects to the server at an address, directly: proxies of the environment are not used, and redirections are not
/// followed. Must be called within a tokio runtime with I/O.
///
/// # Errors
/// Every kind that is about a client: no connection, a certificate, a token without TLS, a server that refuses the
/// upgrade or does not speak WebSocket.
pub async fn dial(
    url: &WebSocketUrl,
    access: Access<'_>,
    limits: Limits,
) -> Result<Connection, Error> {
    let place = url.place();
    let lost = |source| Error::io(format!("cannot connect to {place}"), source);
    let stream = TcpStream::connect((url.name(), url.port())).await.map_err(lost)?;
    stream.set_nodelay(true).map_err(lost)?;
    let target = (&*url.host_header(), url.target());
    if url.is_tls() {
        let tls = access.tls.ok_or_else(|| {
            Error::new(ErrorKind::Tls, format!("{place} needs TLS, which is not set up"))
        })?;
        let (reader, writer) = tokio::io::split(tls.connect(url, stream).await?);
        return upgrade(reader, writer, target, access.token, limits).await;
    }
    let (peer, own) =
        (stream.peer_addr().map_err(lost)?.ip(), stream.local_addr().map_err(lost)?.ip());
    if access.token.is_some() && !access.allows_unencrypted_token && !is_this_machine(peer, own) {
        let message = format!("the token was not sent to {place}: anyone in between could read it");
        let step = "use a wss:// address, or allow an unencrypted token if the network is private";
        return Err(Error::new(ErrorKind::UnencryptedToken, message).next_step(step));
    }
    let (reader, writer) = stream.into_split();
    upgrade(reader, writer, target, access.token, limits).await
}

/// Returns whether the other end of a connection is on this machine: a loopback address, or the same as of this end.
fn is_this_machine(peer: IpAddr, own: IpAddr) -> bool {
    peer.to_canonical().is_loopback() || peer.to_canonical() == own.to_canonical()
}

/// Performs the client's side of the opening handshake over any stream (RFC 6455, section 4.1). The host and the path
/// with its query, and the token, go into the request.
async fn upgrade<R, W>(
    mut reader: R,
    mut writer: W,
    (host, target): (&str, &str),
    token: Option<&str>,
    limits: Limits,
) -> Result<Connection, Error>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let broken = |source| Error::io("the connection broke in the handshake", source);
    // A constant is enough: the key only keeps caches from replaying an old response.
    let key = STANDARD.encode(*b"agentd-websocket");
    let authorization =
        token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{authorization}\r\n"
    );
    writer.write_all(request.as_bytes()).await.map_err(broken)?;
    writer.flush().await.map_err(broken)?;
    let mut read = Vec::new();
    loop {
        if reader.read_buf(&mut read).await.map_err(broken)? == 0 || read.len() > HEAD_BYTES {
            return Err(no_web_socket());
        }
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&read) {
            Ok(httparse::Status::Complete(head)) => {
                if response.code != Some(101) {
                    let refusal = refusal::Refusal::new(&response);
                    return Err(refusal.error(read.split_off(head), reader).await);
                }
                if !accepts(response.headers, &key) {
                    return Err(no_web_socket());
                }
                let early = read.split_off(head);
                return Ok(Connection::websocket(
                    reader,
                    writer,
                    Role::Client,
                    &early,
                    limits,
                    None,
                ));
            }
            Ok(httparse::Status::Partial) => {}
            Err(_) => return Err(no_web_socket()),
        }
    }
}

/// Returns whether the headers of a response with the status 101 are the answer to this handshake.
fn accepts(headers: &[httparse::Header<'_>], key: &str) -> bool {
    let is_web_socket = refusal::header(headers, "upgrade")
        .is_some_and(|upgrade| upgrade.eq_ignore_ascii_case("websocket"));
    is_web_socket
        && refusal::header(headers, "sec-websocket-accept") == Some(&accept_of(key.as_bytes()))
}

fn no_web_socket() -> Error {
    let message = "the server at this address does not speak WebSocket";
    Error::new(ErrorKind::NotAWebSocket, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_on_this_machine() {
        for (peer, own, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.9.9.9", "127.0.0.1", true),
            ("::1", "::1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("10.0.0.1", "10.0.0.2", false),
            ("2001:db8::1", "2001:db8::2", false),
            ("::ffff:10.0.0.1", "::1", false),
        ] {
            let is_here = is_this_machine(peer.parse().unwrap(), own.parse().unwrap());
            assert_eq!(is_here, expected, "{peer} from {own}");
        }
    }
}
