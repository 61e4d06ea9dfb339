//! The SOCKS5 proxy of the managed network (RFC 1928): `CONNECT` and `UDP ASSOCIATE`. Without
//! authentication, because only the command can reach the listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::Refusal;
use super::gate::{Protocol, Target};
use super::managed::{Egress, TIMEOUT};
use super::policy::host_name;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;

/// Replies of RFC 1928, section 6.
const GRANTED: u8 = 0;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const NO_SUCH_COMMAND: u8 = 7;
const NO_SUCH_ADDRESS: u8 = 8;

pub(super) async fn serve(egress: &Egress, mut stream: TcpStream) {
    // Closes the connection of a client that does not speak the protocol.
    if let Ok(Some((command, place))) = timeout(TIMEOUT, greet(&mut stream)).await {
        let _ = execute(egress, &mut stream, command, place).await;
    }
}

async fn greet(stream: &mut TcpStream) -> Option<(u8, Option<(String, u16)>)> {
    if stream.read_u8().await.ok()? != VERSION {
        return None;
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await.ok()?)];
    stream.read_exact(&mut methods).await.ok()?;
    let method = if methods.contains(&NO_AUTHENTICATION) { NO_AUTHENTICATION } else { NO_METHOD };
    stream.write_all(&[VERSION, method]).await.ok()?;
    if method == NO_METHOD {
        return None;
    }
    let [version, command, _, kind] = read::<4>(stream).await?;
    if version != VERSION {
        return None;
    }
    let host = match kind {
        1 => IpAddr::from(Ipv4Addr::from(read::<4>(stream).await?)).to_string(),
        4 => IpAddr::from(Ipv6Addr::from(read::<16>(stream).await?)).to_string(),
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await.ok()?)];
            stream.read_exact(&mut name).await.ok()?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Some((command, None)),
    };
    let port = u16::from_be_bytes(read::<2>(stream).await?);
    Some((command, host_name(&host).map(|host| (host, port))))
}

async fn read<const N: usize>(stream: &mut TcpStream) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

async fn execute(
    egress: &Egress,
    stream: &mut TcpStream,
    command: u8,
    place: Option<(String, u16)>,
) -> std::io::Result<()> {
    match (command, place) {
        (UDP_ASSOCIATE, _) if egress.policy.udp => {
            reply(stream, GRANTED, egress.policy.socks_port.unwrap_or_default()).await?;
            // The association ends with this connection, which carries no more data.
            let _ = tokio::io::copy(stream, &mut tokio::io::sink()).await;
            Ok(())
        }
        (CONNECT, None) => reply(stream, NO_SUCH_ADDRESS, 0).await,
        (CONNECT, Some((host, port))) => {
            let target = Target { host, port, protocol: Protocol::Socks5Tcp };
            let dialed = match egress.admit(&target).await {
                Ok(()) => egress.dial(&target).await,
                Err(refusal) => Err(refusal),
            };
            match dialed {
                Ok(mut dialed) => {
                    reply(stream, GRANTED, 0).await?;
                    copy_bidirectional(stream, &mut dialed.stream).await.map(|_| ())
                }
                Err(Refusal::Forbidden(_)) => reply(stream, NOT_ALLOWED, 0).await,
                Err(Refusal::Unreachable(_)) => reply(stream, HOST_UNREACHABLE, 0).await,
            }
        }
        _ => reply(stream, NO_SUCH_COMMAND, 0).await,
    }
}

async fn reply(stream: &mut TcpStream, code: u8, port: u16) -> std::io::Result<()> {
    let [high, low] = port.to_be_bytes();
    stream.write_all(&[VERSION, code, 0, 1, 127, 0, 0, 1, high, low]).await
}
