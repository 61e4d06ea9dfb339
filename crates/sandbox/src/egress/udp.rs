//! UDP over SOCKS5 (RFC 1928, section 7): each datagram names its target, and is allowed or dropped
//! separately.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::gate::{Protocol, Target};
use super::managed::Egress;
use super::policy::host_name;

/// Concurrent flows from a port of the command to a target; datagrams of further ones are dropped.
const MAX_FLOWS: usize = 64;
/// Idle timeout of a flow.
const IDLE: Duration = Duration::from_secs(60);
const MAX_DATAGRAM: usize = 64 * 1024;
/// Datagrams that wait while their target is checked; further ones are dropped.
const MAX_WAITING: usize = 16;

type Flow = (SocketAddr, Target);

pub(super) async fn relay(egress: &Arc<Egress>, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let mut flows: HashMap<Flow, tokio::sync::mpsc::Sender<Vec<u8>>> = HashMap::new();
    let mut running: JoinSet<Flow> = JoinSet::new();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                let Ok((length, client)) = received else { continue };
                let datagram = buffer.get(..length).unwrap_or_default();
                let Some((target, payload)) = parse(datagram) else { continue };
                let flow = (client, target);
                if !flows.contains_key(&flow) && flows.len() < MAX_FLOWS {
                    let (sender, waiting) = tokio::sync::mpsc::channel(MAX_WAITING);
                    flows.insert(flow.clone(), sender);
                    let (egress, socket) = (egress.clone(), socket.clone());
                    let flow = flow.clone();
                    running.spawn(async move {
                        carry(&egress, &socket, &flow, waiting).await;
                        flow
                    });
                }
                if let Some(sender) = flows.get(&flow) {
                    let _ = sender.try_send(payload.to_vec());
                }
            }
            Some(ended) = running.join_next() => {
                if let Ok(flow) = ended {
                    flows.remove(&flow);
                }
            }
        }
    }
}

/// Relays a flow until it is idle.
async fn carry(
    egress: &Egress,
    inside: &UdpSocket,
    (client, target): &Flow,
    mut waiting: tokio::sync::mpsc::Receiver<Vec<u8>>,
) {
    // An upstream proxy does not relay datagrams.
    if egress.policy.upstream.is_some() || egress.admit(target).await.is_err() {
        return;
    }
    let Ok(addresses) = egress.addresses(target).await else { return };
    let Some(address) = addresses.first() else { return };
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let Ok(outside) = UdpSocket::bind((any, 0)).await else { return };
    if outside.connect(address).await.is_err() {
        return;
    }
    let header = header(*address);
    let mut buffer = vec![0; MAX_DATAGRAM];
    let next = async {
        loop {
            tokio::select! {
                payload = waiting.recv() => match payload {
                    Some(payload) => { let _ = outside.send(&payload).await; }
                    None => return,
                },
                received = outside.recv(&mut buffer) => {
                    let Ok(length) = received else { return };
                    let payload = buffer.get(..length).unwrap_or_default();
                    let _ = inside.send_to(&[&header, payload].concat(), client).await;
                }
                () = tokio::time::sleep(IDLE) => return,
            }
        }
    };
    // Checks a long flow again from time to time, because the lists may have changed.
    let _ = timeout(IDLE * 60, next).await;
}

/// The target and the payload of a datagram; `None` for a fragment or a malformed one.
fn parse(datagram: &[u8]) -> Option<(Target, &[u8])> {
    let [0, 0, 0, kind, rest @ ..] = datagram else { return None };
    let (host, rest) = match kind {
        1 => {
            let (address, rest) = rest.split_first_chunk::<4>()?;
            (IpAddr::from(Ipv4Addr::from(*address)).to_string(), rest)
        }
        4 => {
            let (address, rest) = rest.split_first_chunk::<16>()?;
            (IpAddr::from(Ipv6Addr::from(*address)).to_string(), rest)
        }
        3 => {
            let (length, rest) = rest.split_first()?;
            let (name, rest) = rest.split_at_checked(usize::from(*length))?;
            (String::from_utf8_lossy(name).into_owned(), rest)
        }
        _ => return None,
    };
    let (port, payload) = rest.split_first_chunk::<2>()?;
    let target = Target {
        host: host_name(&host)?,
        port: u16::from_be_bytes(*port),
        protocol: Protocol::Socks5Udp,
    };
    Some((target, payload))
}

fn header(from: SocketAddr) -> Vec<u8> {
    let mut header = vec![0, 0, 0];
    match from.ip() {
        IpAddr::V4(address) => {
            header.push(1);
            header.extend(address.octets());
        }
        IpAddr::V6(address) => {
            header.push(4);
            header.extend(address.octets());
        }
    }
    header.extend(from.port().to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_datagram_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some((target, payload)) = parse(&bytes) {
                prop_assert!(payload.len() < bytes.len());
                prop_assert_eq!(host_name(&target.host), Some(target.host));
            }
        }
    }
}
