//! Unix sockets: private to the user, one server at a time; and sockets that a service manager
//! passed to the program.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};

use crate::accept::BACKLOG;
use crate::{Error, ErrorKind, Listener};

/// Longest path, in bytes. Linux accepts 108, but most clients need the last one for a NUL.
const MAX_PATH_BYTES: usize = 107;

/// A listening Unix socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The socket file to remove; `None` for a socket that was passed to the program.
    created: Option<CreatedSocket>,
}

#[derive(Debug)]
struct CreatedSocket {
    inode: u64,
    /// Held while the socket listens.
    _lock: File,
}

impl UnixSocket {
    /// Listens on `path`, with mode 0600. Replaces a socket that a dead server left behind.
    ///
    /// # Errors
    /// Another server listens there, the path exists and is not a socket or is too long, or a
    /// system call fails.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::io(format!("unix://{}", path.display()), source);
        let refused =
            |kind, why: &str| Error::new(kind, format!("unix://{}: {why}", path.display()));
        let in_use = || {
            refused(ErrorKind::SocketInUse, "another server is already listening there")
                .next_step("stop it, or choose another path")
        };
        let length = path.as_os_str().len();
        if length > MAX_PATH_BYTES {
            let why =
                format!("the path has {length} bytes, and a socket path may have {MAX_PATH_BYTES}");
            return Err(refused(ErrorKind::PathTooLong, &why).next_step("choose a shorter one"));
        }
        let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
        // Only the holder of the lock replaces a socket, so two servers that start together cannot
        // remove each other's.
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        // tidy: open without waiting, see `lock_flags`.
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(lock_flags())
            .open(&lock_path)
            .map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(in_use()),
            Err(error) => return Err(failed(error.into())),
        }
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => {
                let why = "the path exists and is not a socket";
                return Err(refused(ErrorKind::NotASocket, why)
                    .next_step("remove it, or choose another path"));
            }
            // A server that does not take the lock may be listening.
            Ok(_) if is_dead(&address).map_err(failed)? => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Ok(_) => return Err(in_use()),
        }
        let socket = listening(path, &address).map_err(failed)?;
        let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
        let listener = tokio_listener(socket).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            created: Some(CreatedSocket { inode, _lock: lock }),
        })
    }

    /// The path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection of the same user; connections of other users are dropped.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
                return Ok(stream);
            }
        }
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        let Some(created) = &self.created else { return };
        // Only the socket created here: another server may have replaced it.
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| found.ino() == created.inode) {
            // A socket left behind is replaced by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns whether no server listens on a socket. One with a full queue counts as alive.
fn is_dead(address: &SocketAddrUnix) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, address) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // A socket of another type also has an owner.
        Ok(()) | Err(Errno::WOULDBLOCK | Errno::PROTOTYPE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A socket that listens on `path`; at no time can another user connect to it.
fn listening(path: &Path, address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = bound(address)?;
    // For systems where `bound` could not set the mode. No client can connect before `listen`.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG.cast_signed())?;
    Ok(socket)
}

/// A socket bound to a path; on Linux its file is created with a private mode.
fn bound(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file that `bind` creates takes the mode of the socket.
    let _ = rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(&socket, address)?;
    Ok(socket)
}

fn tokio_listener(socket: OwnedFd) -> io::Result<UnixListener> {
    let listener = StdUnixListener::from(socket);
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Opens a lock without following links and without waiting for a pipe.
fn lock_flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

impl Listener {
    /// A Unix socket that already listens and that its creator removes.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn given_unix(listener: StdUnixListener) -> io::Result<Self> {
        let listener = tokio_listener(listening_already(listener.into())?)?;
        let address = listener.local_addr()?;
        // An unnamed or abstract socket has no path.
        let path = address.as_pathname().unwrap_or(Path::new("@")).to_owned();
        Ok(Self::Unix(UnixSocket { listener, path, created: None }))
    }

    /// A TCP socket that already listens.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn given_tcp(listener: std::net::TcpListener) -> io::Result<Self> {
        let listener = std::net::TcpListener::from(listening_already(listener.into())?);
        listener.set_nonblocking(true)?;
        Ok(Self::Tcp(tokio::net::TcpListener::from_std(listener)?))
    }
}

fn listening_already(socket: OwnedFd) -> io::Result<OwnedFd> {
    if rustix::net::sockopt::socket_acceptconn(&socket)? {
        return Ok(socket);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket is not listening"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_private_from_its_creation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let before = rustix::process::umask(Mode::empty());
        let socket = bound(&SocketAddrUnix::new(&path).unwrap());
        rustix::process::umask(before);
        socket.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
