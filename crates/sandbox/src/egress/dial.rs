//! Connects to allowed targets: resolves the name once, refuses addresses of this machine and its
//! network, and uses the upstream proxy if there is one.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::address::is_public;
use super::gate::{Protocol, Target};
use super::managed::{Egress, TIMEOUT};
use super::policy::{EgressPolicy, Listed, Mode};
use super::upstream::Upstream;

/// Time limit of an address of a host, before the next one is tried.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest response of the upstream proxy, in bytes.
const MAX_RESPONSE: usize = 16 * 1024;

/// Why a connection was refused. The message is for the readers of the command's output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The policy, or the user who was asked, does not allow it.
    Forbidden(String),
    /// It is allowed, but failed.
    Unreachable(String),
}

/// A connection to a target.
pub(super) struct Dialed {
    pub(super) stream: TcpStream,
    /// True if the connection leads to an upstream proxy, which needs the target of the request.
    pub(super) to_proxy: bool,
}

impl Egress {
    /// Checks that the target is allowed; asks if the policy does not decide.
    pub(super) async fn admit(&self, target: &Target) -> Result<(), Refusal> {
        let Target { host, port, protocol } = target;
        let forbidden =
            |why: &str| Err(Refusal::Forbidden(format!("{host}:{port} {why} (managed network)")));
        if self.policy.mode == Mode::Limited && *protocol != Protocol::Http {
            return forbidden(
                "cannot be reached this way: the network is limited to HTTP requests that only read",
            );
        }
        match self.policy.of(host) {
            Listed::Denied => forbidden("is denied"),
            Listed::Allowed => Ok(()),
            // No question about a target that would be refused anyway.
            Listed::Unlisted if !self.policy.local && literal_private(host) => forbidden(PRIVATE),
            Listed::Unlisted => match self.gate.may_reach(target).await {
                true => Ok(()),
                false => forbidden("is not among the allowed domains"),
            },
        }
    }

    /// Connects to an admitted target. An upstream proxy handles plain HTTP itself; everything else
    /// goes through a tunnel.
    pub(super) async fn dial(&self, target: &Target) -> Result<Dialed, Refusal> {
        let via = self.policy.upstream.as_ref().filter(|upstream| upstream.serves(&target.host));
        let dialing = async {
            match via {
                None => {
                    let stream = self.connect(target).await?;
                    Ok(Dialed { stream, to_proxy: false })
                }
                Some(upstream) => self.through(upstream, target).await,
            }
        };
        match timeout(TIMEOUT, dialing).await {
            Ok(dialed) => dialed,
            Err(_) => Err(unreachable(target, "no response in time")),
        }
    }

    /// The allowed addresses of the target.
    pub(super) async fn addresses(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        let found = (self.outside.resolve)(target.host.clone(), target.port).await;
        let found = found.map_err(|error| unreachable(target, &error.to_string()))?;
        if found.is_empty() {
            return Err(unreachable(target, "it has no address"));
        }
        check_addresses(&self.policy, target, &found)?;
        Ok(found)
    }

    async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let mut why = String::new();
        for address in self.addresses(target).await? {
            match timeout(ADDRESS_TIMEOUT, (self.outside.connect)(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => why = error.to_string(),
                Err(_) => why = "no response in time".to_owned(),
            }
        }
        Err(unreachable(target, &why))
    }

    async fn through(&self, upstream: &Upstream, target: &Target) -> Result<Dialed, Refusal> {
        let failed = |why: &str| unreachable(target, &format!("the upstream proxy: {why}"));
        // The upstream proxy judges names that only it can resolve.
        if let Ok(found) = (self.outside.resolve)(target.host.clone(), target.port).await {
            check_addresses(&self.policy, target, &found)?;
        }
        let at_proxy = (self.outside.resolve)(upstream.host.clone(), upstream.port).await;
        let at_proxy = at_proxy.map_err(|error| failed(&error.to_string()))?;
        let address = at_proxy.first().ok_or_else(|| failed("it has no address"))?;
        let connecting = (self.outside.connect)(*address).await;
        let mut stream = connecting.map_err(|error| failed(&error.to_string()))?;
        if target.protocol == Protocol::Http {
            return Ok(Dialed { stream, to_proxy: true });
        }
        let tunnel = tunnel(&mut stream, upstream, target).await;
        tunnel.map_err(|error| failed(&error.to_string()))?;
        Ok(Dialed { stream, to_proxy: false })
    }
}

const PRIVATE: &str = "is an address of this machine or its network (`allow_local_binding`)";

fn literal_private(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| !is_public(address))
        || host == "localhost"
        || host.ends_with(".localhost")
}

/// Refuses a host if any of its addresses is private or denied, since any of them could be used.
fn check_addresses(
    policy: &EgressPolicy,
    target: &Target,
    found: &[SocketAddr],
) -> Result<(), Refusal> {
    let Target { host, port, .. } = target;
    for address in found.iter().map(|found| found.ip().to_canonical()) {
        let why = if !policy.local && !is_public(address) {
            PRIVATE
        } else if policy.of(&address.to_string()) == Listed::Denied {
            "has an address that is denied"
        } else {
            continue;
        };
        return Err(Refusal::Forbidden(format!("{host}:{port} {why} (managed network)")));
    }
    Ok(())
}

fn unreachable(target: &Target, why: &str) -> Refusal {
    Refusal::Unreachable(format!("{}:{} cannot be reached: {why}", target.host, target.port))
}

async fn tunnel(stream: &mut TcpStream, upstream: &Upstream, target: &Target) -> io::Result<()> {
    let place = authority(target);
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
    if let Some(authorization) = upstream.authorization() {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Byte by byte, because the bytes after the response belong to the tunnel.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > MAX_RESPONSE {
            return Err(io::Error::other("its response is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    let status = answer.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    match status {
        [b'2', _, _] => Ok(()),
        other => {
            let status = String::from_utf8_lossy(other).into_owned();
            Err(io::Error::other(format!("it responded with {status}")))
        }
    }
}

/// `host:port`, with an IPv6 address in brackets.
pub(super) fn authority(target: &Target) -> String {
    let Target { host, port, .. } = target;
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
