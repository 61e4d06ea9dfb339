//! Passes descriptors that are created inside of the sandbox to where they are used: the listeners of a managed
//! network to the server, and the listener of a command's calls to its supervisor.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::request::Ports;
use tokio::io::unix::AsyncFd;

use crate::egress::{self, Egress, Listeners, Proxy};
use crate::linux::sys;

/// HTTP, SOCKS5 and UDP.
const MAX_LISTENERS: usize = 3;

/// Creates the listeners in the network of this process and sends them.
pub(crate) fn send(ports: Ports, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut made: Vec<OwnedFd> = Vec::with_capacity(MAX_LISTENERS);
    made.push(TcpListener::bind((Ipv4Addr::LOCALHOST, ports.http))?.into());
    if let Some(port) = ports.socks {
        made.push(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.into());
        if ports.udp {
            made.push(UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?.into());
        }
    }
    let fds: Vec<BorrowedFd<'_>> = made.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(socket, &[io::IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Sends a descriptor, and a byte that says what it is.
pub(crate) fn send_one(socket: impl AsFd, tag: u8, sent: BorrowedFd<'_>) -> io::Result<()> {
    let fds = [sent];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(socket, &[io::IoSlice::new(&[tag])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives what [`send_one`] has sent.
///
/// # Errors
/// Nothing was sent, or not yet.
pub(crate) fn receive_one(socket: impl AsFd) -> io::Result<(u8, OwnedFd)> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [io::IoSliceMut::new(&mut byte)];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    rustix::net::recvmsg(socket, &mut buffers, &mut ancillary, flags)?;
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut received) => received.next(),
        _ => None,
    });
    let fd = fds.next().ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    Ok((byte[0], fd))
}

/// Waits for the listeners; `None` if the command ends before it sends any.
pub(crate) async fn receive(ports: Ports, socket: OwnedFd) -> io::Result<Option<Listeners>> {
    rustix::io::ioctl_fionbio(&socket, true)?;
    let socket = sys::watch(socket)?;
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
    let mut fds = Vec::with_capacity(MAX_LISTENERS);
    loop {
        let mut ready = socket.readable().await?;
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [io::IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(socket.get_ref(), &mut buffers, &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(received) = message {
                        fds.extend(received);
                    }
                }
                break;
            }
            Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    listeners(ports, fds).map(Some)
}

/// Serves the managed network of a command until `ended`. `own` is whether the command has a network of its own, where
/// the proxies listen.
pub(crate) async fn proxy(
    egress: Arc<Egress>,
    socket: OwnedFd,
    own: bool,
    ended: impl Future<Output = ()>,
) {
    let ports = ports(&egress);
    let serving = async {
        // Without listeners or connections, those of the command are refused.
        if !own {
            if let Ok(connections) = Connections::new(socket) {
                egress::serve_each(egress, || connections.next()).await;
            }
        } else if let Ok(Some(listeners)) = receive(ports, socket).await {
            egress::serve(egress, listeners).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = serving => {}
        () = ended => {}
    }
}

/// The proxies' ends of connections that a supervisor makes.
struct Connections(AsyncFd<OwnedFd>);

impl Connections {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        sys::watch(socket).map(Self)
    }

    /// `None`: there will be no more.
    async fn next(&self) -> Option<(Proxy, tokio::net::TcpStream)> {
        loop {
            let mut ready = self.0.readable().await.ok()?;
            match receive_one(self.0.get_ref()) {
                Ok((tag, fd)) => {
                    let stream = std::net::TcpStream::from(fd);
                    let stream = stream.set_nonblocking(true).and_then(|()| stream.try_into());
                    return Some((Proxy::from_tag(tag)?, stream.ok()?));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}

pub(crate) fn ports(egress: &Egress) -> Ports {
    let policy = egress.policy();
    Ports { http: policy.http_port, socks: policy.socks_port, udp: policy.udp }
}

fn listeners(ports: Ports, fds: Vec<OwnedFd>) -> io::Result<Listeners> {
    let mut fds = fds.into_iter();
    // Fewer arrive if the limit of open files is reached.
    let mut next = || {
        let fd =
            fds.next().ok_or_else(|| io::Error::other("a listener of the proxy is missing"))?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok::<OwnedFd, io::Error>(fd)
    };
    let http = tokio::net::TcpListener::from_std(next()?.into())?;
    let socks = match ports.socks {
        Some(_) => Some(tokio::net::TcpListener::from_std(next()?.into())?),
        None => None,
    };
    let udp = match ports.socks.filter(|_| ports.udp) {
        Some(_) => Some(tokio::net::UdpSocket::from_std(next()?.into())?),
        None => None,
    };
    Ok(Listeners { http, socks, udp })
}
