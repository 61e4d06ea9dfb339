//! The managed network without a network of its own: the only place to which a caller can connect is one of the
//! proxies, and the supervisor connects its sockets to them. The address of a call is in memory, where it can change
//! between a look at it and the connection, so that the kernel never goes on with such a call.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::caller::Caller;
use super::outcome::{Outcome, int};
use crate::egress::Proxy;
use crate::supervise::handover;
use crate::supervise::request::Ports;

/// Sockets that are open and not yet connected. The oldest of more can no longer be connected.
const MAX_SOCKETS: usize = 256;
/// `struct sockaddr_in6`, the longest that counts.
const MAX_ADDRESS: u64 = 28;
/// Connections of others that could come first.
const MAX_STRANGERS: usize = 64;

/// A connection on the same machine takes microseconds.
const CONNECTS_WITHIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };

/// The network of a command.
pub(super) struct Network {
    ports: Ports,
    /// Sends the proxies' ends of connections to the server.
    server: OwnedFd,
    /// Sockets of the command, by their device and inode.
    sockets: VecDeque<((u64, u64), OwnedFd)>,
}

impl Network {
    pub(super) fn new(ports: Ports, server: OwnedFd) -> Self {
        Self { ports, server, sockets: VecDeque::new() }
    }

    /// Opens a socket. The filter lets only TCP come here.
    pub(super) fn open(&mut self, [family, kind, protocol]: [u64; 3]) -> Result<Outcome, Errno> {
        let family = match u16::try_from(family).map_err(|_| Errno::AFNOSUPPORT)? {
            family if i32::from(family) == libc::AF_INET => AddressFamily::INET,
            family if i32::from(family) == libc::AF_INET6 => AddressFamily::INET6,
            _ => return Err(Errno::AFNOSUPPORT),
        };
        let flags = SocketFlags::from_bits_retain(u32::try_from(kind & !0xf).unwrap_or(0));
        let tcp = u64::from(libc::IPPROTO_TCP.unsigned_abs());
        if kind & 0xf != u64::from(SocketType::STREAM.as_raw())
            || (protocol != 0 && protocol != tcp)
        {
            return Err(Errno::PROTONOSUPPORT);
        }
        let close_on_exec = flags.contains(SocketFlags::CLOEXEC);
        let known = flags & (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let flags = known | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        if self.sockets.len() == MAX_SOCKETS {
            self.sockets.pop_front();
        }
        let found = rustix::fs::fstat(&socket)?;
        let kept = rustix::io::fcntl_dupfd_cloexec(&socket, 3)?;
        self.sockets.push_back(((found.st_dev, found.st_ino), kept));
        Ok(Outcome::Open { file: socket, close_on_exec })
    }

    /// Connects a socket to a proxy.
    pub(super) fn connect(
        &mut self,
        caller: &Caller,
        [socket, address, length]: [u64; 3],
    ) -> Result<Outcome, Errno> {
        let found = rustix::fs::fstat(caller.file(int(socket))?)?;
        let length = usize::try_from(length.min(MAX_ADDRESS)).map_err(|_| Errno::INVAL)?;
        let address = address_of(&caller.bytes(address, length)?).ok_or(Errno::AFNOSUPPORT)?;
        if !address.ip().is_loopback() {
            return Err(Errno::NETUNREACH);
        }
        let is_socks = match address.port() {
            port if port == self.ports.http => false,
            port if Some(port) == self.ports.socks => true,
            _ => return Err(Errno::CONNREFUSED),
        };
        let id = (found.st_dev, found.st_ino);
        let at = self.sockets.iter().position(|(known, _)| *known == id).ok_or(Errno::ISCONN)?;
        let (_, socket) = self.sockets.remove(at).ok_or(Errno::ISCONN)?;
        let (end, connected) = connect_pair(&socket, address.is_ipv6())?;
        let proxy = if is_socks { Proxy::Socks } else { Proxy::Http };
        handover::send_one(&self.server, proxy as u8, end.as_fd())
            .map_err(|_| Errno::CONNREFUSED)?;
        connected.map(|()| Outcome::Value(0))
    }
}

/// Connects a socket to one of this process's own, and returns that with the result of the connection, which is
/// `EINPROGRESS` if the socket does not wait. No other process can connect.
fn connect_pair(socket: &OwnedFd, is_ipv6: bool) -> Result<(TcpStream, Result<(), Errno>), Errno> {
    let number = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::CONNREFUSED);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(number)?;
    let port = listener.local_addr().map_err(number)?.port();
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    let to: IpAddr = if is_ipv6 { mapped.into() } else { Ipv4Addr::LOCALHOST.into() };
    let connected = match rustix::net::connect(socket, &SocketAddr::new(to, port)) {
        Err(error) if error != Errno::INPROGRESS => return Err(error),
        other => other,
    };
    let own: SocketAddr = rustix::net::getsockname(socket)?.try_into().map_err(|_| Errno::INVAL)?;
    for _ in 0..MAX_STRANGERS {
        let mut watched = [PollFd::new(&listener, PollFlags::IN)];
        if rustix::event::poll(&mut watched, Some(&CONNECTS_WITHIN))? == 0 {
            return Err(Errno::TIMEDOUT);
        }
        let (end, peer) = listener.accept().map_err(number)?;
        if peer.port() == own.port() && peer.ip() == own.ip().to_canonical() {
            return Ok((end, connected));
        }
    }
    Err(Errno::CONNREFUSED)
}

/// An internet address as the kernel reads it.
fn address_of(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    let address = match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(*rest.first_chunk::<4>()?)),
        libc::AF_INET6 => {
            let (_, rest) = rest.split_first_chunk::<4>()?;
            IpAddr::from(Ipv6Addr::from(*rest.first_chunk::<16>()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}
