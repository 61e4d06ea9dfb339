//! Unix sockets: private to the user, one server at a time, and those that the service manager
//! passed on.

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

use crate::Listener;
use crate::accept::BACKLOG;

/// Longest path, in bytes: Linux takes one more, which most clients cannot name.
const MOST_PATH: usize = 107;

/// A listening Unix socket. Dropping it removes the socket.
#[derive(Debug)]
pub struct UnixDoor {
    listener: UnixListener,
    path: PathBuf,
    /// What we made of the path; `None` for a socket that was passed on to us.
    made: Option<Made>,
}

#[derive(Debug)]
struct Made {
    inode: u64,
    /// Held for as long as we listen.
    _lock: File,
}

/// Why a socket cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum UnixError {
    /// Another server listens there.
    #[error("unix://{path}: another server listens there already")]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// Something that is no socket stands there.
    #[error("unix://{path}: there is something that is no socket; it is left alone")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The system has no room for so long a path.
    #[error(
        "unix://{path}: the path of a socket may have {MOST_PATH} bytes, and this one has {length}; \
         choose a shorter one"
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// The system refuses.
    #[error("unix://{path}: {source}")]
    Failed {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
impl UnixDoor {
    /// Listens at `path`, with mode 0600. A socket that a dead server left is replaced.
    ///
    /// # Errors
    /// See [`UnixError`].
    pub fn bind(path: &Path) -> Result<Self, UnixError> {
        let failed = |source: io::Error| UnixError::Failed { path: path.to_owned(), source };
        let taken = || UnixError::Taken { path: path.to_owned() };
        let length = path.as_os_str().len();
        if length > MOST_PATH {
            return Err(UnixError::TooLong { path: path.to_owned(), length });
        }
        let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
        // Who has the lock may replace the socket: two servers that start at once cannot both.
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
            Err(Errno::WOULDBLOCK) => return Err(taken()),
            Err(error) => return Err(failed(error.into())),
        }
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.file_type().is_socket() => {
                return Err(UnixError::NoSocket { path: path.to_owned() });
            }
            // A server without our lock may live there.
            Ok(_) if is_dead(&address).map_err(failed)? => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            Ok(_) => return Err(taken()),
        }
        let socket = listening(path, &address).map_err(failed)?;
        let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
        let listener = tokio_listener(socket).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), made: Some(Made { inode, _lock: lock }) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next connection of our own user; others are not answered.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw() {
                return Ok(stream);
            }
        }
    }
}

impl Drop for UnixDoor {
    fn drop(&mut self) {
        let Some(made) = &self.made else { return };
        // Only the socket that we made: the path may be another's by now.
        let found = std::fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| found.ino() == made.inode) {
            // One that stays is replaced by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether nobody listens at a socket any more. Whoever is too busy to answer lives.
fn is_dead(address: &SocketAddrUnix) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, address) {
        Err(Errno::CONNREFUSED) => Ok(true),
        // A socket of another kind, too, is somebody's.
        Ok(()) | Err(Errno::WOULDBLOCK | Errno::PROTOTYPE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A socket that listens at `path`, which only our user can connect to from its first moment on.
fn listening(path: &Path, address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let socket = bound(address)?;
    // Where `bound` could not see to it: nobody can connect before `listen`.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG.cast_signed())?;
    Ok(socket)
}

/// A socket at a path, which has a private mode from the beginning, on Linux.
fn bound(address: &SocketAddrUnix) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The file that `bind` makes takes the mode of the socket.
    let _ = rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR);
    rustix::net::bind(&socket, address)?;
    Ok(socket)
}

fn tokio_listener(socket: OwnedFd) -> io::Result<UnixListener> {
    let listener = StdUnixListener::from(socket);
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

/// Nothing but a file of our own is a lock: no link is followed, and no pipe waited for.
fn lock_flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()
}

impl Listener {
    /// A Unix socket that listens already, for which somebody else cares.
    ///
    /// # Errors
    /// When it does not listen.
    pub fn given_unix(listener: StdUnixListener) -> io::Result<Self> {
        let listener = tokio_listener(listening_already(listener.into())?)?;
        let address = listener.local_addr()?;
        // One without a name has none to show.
        let path = address.as_pathname().unwrap_or(Path::new("@")).to_owned();
        Ok(Self::Unix(UnixDoor { listener, path, made: None }))
    }

    /// A TCP socket that listens already, for which somebody else cares.
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
    Err(io::Error::new(io::ErrorKind::InvalidInput, "this socket does not listen"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_private_before_anybody_sees_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let before = rustix::process::umask(Mode::empty());
        let socket = bound(&SocketAddrUnix::new(&path).unwrap());
        rustix::process::umask(before);
        socket.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
