//! Sends every text message back, over this crate's WebSocket: what conformance suites want to talk
//! to. See docs/websocket-conformance.md.
//!
//! ```text
//! cargo run --release -p jsonrpc --example websocket_echo -- 127.0.0.1:9001
//! ```
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use jsonrpc::Limits;
use jsonrpc::websocket::{Role, Socket};
use sha1::{Digest, Sha1};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on ws://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that breaks off has its reasons.
        tokio::spawn(async move { drop(serve(stream).await) });
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = Vec::new();
    let end = loop {
        if stream.read_buf(&mut head).await? == 0 || head.len() > 16 << 10 {
            return Ok(());
        }
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&head[..end]).into_owned();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let key = lines.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let Some((_, key)) = key else { return Ok(()) };
    let digest = Sha1::new()
        .chain_update(key.trim())
        .chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        .finalize();
    let accept = STANDARD.encode(digest);
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await?;
    let (reader, writer) = stream.into_split();
    let limits = Limits { outgoing_bytes: 64 << 20, ..Limits::default() };
    let (mut socket, outbox) =
        Socket::over(reader, writer, Role::Server, &head[end..], limits, None);
    loop {
        match socket.next().await {
            Ok(text) => drop(outbox.push(Bytes::copy_from_slice(text))),
            Err(reason) => {
                outbox.close(reason);
                break;
            }
        }
    }
    socket.linger().await;
    Ok(())
}
