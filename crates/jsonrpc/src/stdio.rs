//! Asynchronous reading and writing of inherited file descriptors, without helper threads and
//! without touching flags that other processes see.
//!
//! `O_NONBLOCK` belongs to the open file description, which an inherited descriptor shares with the
//! processes that passed it on; setting it would break their reads and writes. So each kind of file
//! is handled differently: pipes and terminals are reopened through `/proc/self/fd`; sockets take
//! `MSG_DONTWAIT` with each call; descriptors that cannot be reopened are polled before each call;
//! files on disk, which are always ready, are read and written directly.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The reading side of a descriptor.
#[derive(Debug)]
pub struct FdReader {
    file: File,
    /// A named pipe whose writers were gone before we opened it never becomes ready, so the first
    /// read does not wait for readiness.
    untried: bool,
}

impl FdReader {
    /// Reads from `fd`, through a duplicate that it owns. Must be called within a tokio runtime
    /// with I/O.
    ///
    /// # Errors
    /// When `fd` is not open or cannot be watched.
    pub fn new(fd: impl AsFd) -> io::Result<Self> {
        let file = File::open(fd.as_fd(), Interest::READABLE)?;
        let untried = matches!(file, File::Watched { access: Access::OwnDescription, .. });
        Ok(Self { file, untried })
    }
}

impl AsyncRead for FdReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let room = buffer.initialize_unfilled();
        if std::mem::take(&mut this.untried)
            && let File::Watched { fd, access } = &this.file
        {
            match access.read(fd.as_fd(), room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => {
                    buffer.advance(outcome?);
                    return Poll::Ready(Ok(()));
                }
            }
        }
        let read = match &this.file {
            File::Direct(fd) => Access::OwnDescription.read(fd.as_fd(), room),
            File::Watched { fd, access } => loop {
                let mut ready = ready!(fd.poll_read_ready(cx))?;
                if let Ok(outcome) = ready.try_io(|fd| access.read(fd.as_fd(), room)) {
                    break outcome;
                }
            },
        };
        buffer.advance(read?);
        Poll::Ready(Ok(()))
    }
}

/// The writing side of a descriptor. Nothing is buffered, and shutting it down does nothing: the
/// inherited descriptor stays open until the process ends.
#[derive(Debug)]
pub struct FdWriter {
    file: File,
}

impl FdWriter {
    /// Writes to `fd`, through a duplicate that it owns. Must be called within a tokio runtime with
    /// I/O.
    ///
    /// # Errors
    /// When `fd` is not open or cannot be watched.
    pub fn new(fd: impl AsFd) -> io::Result<Self> {
        Ok(Self { file: File::open(fd.as_fd(), Interest::WRITABLE)? })
    }
}

impl AsyncWrite for FdWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &self.file {
            File::Direct(fd) => Poll::Ready(Access::OwnDescription.write(fd.as_fd(), bytes)),
            File::Watched { fd, access } => loop {
                let mut ready = ready!(fd.poll_write_ready(cx))?;
                if let Ok(outcome) = ready.try_io(|fd| access.write(fd.as_fd(), bytes)) {
                    return Poll::Ready(outcome);
                }
            },
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[derive(Debug)]
enum File {
    Watched {
        fd: AsyncFd<OwnedFd>,
        access: Access,
    },
    /// A file on disk, or a device such as `/dev/null`: always ready, and epoll refuses it.
    Direct(OwnedFd),
}

/// The way to read and write without blocking.
#[derive(Clone, Copy, Debug)]
enum Access {
    /// A non-blocking file description of our own.
    OwnDescription,
    /// A socket, with a non-blocking flag on each call.
    Socket,
    /// A shared, blocking description, used only when `poll` says that the call would not block.
    /// This relies on no other process reading the same pipe at the same time.
    Asked,
}

/// Most bytes that a write to a ready pipe accepts without blocking (`PIPE_BUF` on Linux).
const SURE_BYTES: usize = 4096;

impl File {
    fn open(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Self::Direct(fd.try_clone_to_owned()?)),
            FileType::Socket => Self::watch(fd.try_clone_to_owned()?, Access::Socket, interest),
            FileType::Fifo => Self::open_anew(fd, interest),
            FileType::CharacterDevice if rustix::termios::isatty(fd) && !is_ptmx(stat.st_rdev) => {
                Self::open_anew(fd, interest)
            }
            _ => Self::watch(fd.try_clone_to_owned()?, Access::Asked, interest),
        }
    }

    fn open_anew(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let direction = if interest.is_readable() { OFlags::RDONLY } else { OFlags::WRONLY };
        let flags = direction | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(own) => Self::watch(own, Access::OwnDescription, interest),
            // Reopening fails for a pipe of another user, and without /proc: fall back to polling.
            Err(_) => Self::watch(fd.try_clone_to_owned()?, Access::Asked, interest),
        }
    }

    // The function that replaces this one is `unsafe`, because a type may change its descriptor. An
    // `OwnedFd` keeps the same one open until it is dropped.
    #[allow(deprecated)]
    fn watch(fd: OwnedFd, access: Access, interest: Interest) -> io::Result<Self> {
        match AsyncFd::try_with_interest(fd, interest) {
            Ok(fd) => Ok(Self::Watched { fd, access }),
            Err(refused) => match refused.into_parts() {
                (fd, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    Ok(Self::Direct(fd))
                }
                (_, error) => Err(error),
            },
        }
    }
}

/// Returns whether this is the pseudo-terminal multiplexer: reopening it would create another
/// terminal.
fn is_ptmx(device: rustix::fs::Dev) -> bool {
    cfg!(target_os = "linux") && (rustix::fs::major(device), rustix::fs::minor(device)) == (5, 2)
}

/// Makes a missing reader an error, not a signal. On systems without such a flag, the Rust runtime
/// ignores the signal.
#[cfg(target_os = "linux")]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const NO_SIGNAL: SendFlags = SendFlags::empty();

impl Access {
    fn read(self, fd: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
        let read = rustix::io::retry_on_intr(|| match self {
            Self::OwnDescription => rustix::io::read(fd, &mut *room),
            Self::Socket => {
                rustix::net::recv(fd, &mut *room, RecvFlags::DONTWAIT).map(|(read, _)| read)
            }
            Self::Asked => {
                ask(fd, PollFlags::IN)?;
                rustix::io::read(fd, &mut *room)
            }
        })?;
        Ok(read)
    }

    fn write(self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        let written = rustix::io::retry_on_intr(|| match self {
            Self::OwnDescription => rustix::io::write(fd, bytes),
            Self::Socket => rustix::net::send(fd, bytes, SendFlags::DONTWAIT | NO_SIGNAL),
            Self::Asked => {
                ask(fd, PollFlags::OUT)?;
                rustix::io::write(fd, &bytes[..bytes.len().min(SURE_BYTES)])
            }
        })?;
        Ok(written)
    }
}

fn ask(fd: BorrowedFd<'_>, event: PollFlags) -> rustix::io::Result<()> {
    let mut polled = [PollFd::from_borrowed_fd(fd, event)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut polled, Some(&now))? {
        0 => Err(rustix::io::Errno::AGAIN),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use rustix::fs::fcntl_getfl;
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const MUCH: usize = 1 << 20;

    fn pipe() -> (OwnedFd, OwnedFd) {
        rustix::pipe::pipe().unwrap()
    }

    fn sockets() -> (OwnedFd, OwnedFd) {
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
            .unwrap()
    }

    fn terminal() -> (OwnedFd, OwnedFd) {
        use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let user = ioctl_tiocgptpeer(&main, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let mut raw = rustix::termios::tcgetattr(&user).unwrap();
        raw.make_raw();
        rustix::termios::tcsetattr(&user, rustix::termios::OptionalActions::Now, &raw).unwrap();
        (main, user)
    }

    fn blocking(fd: impl AsFd) -> bool {
        !fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
    }

    /// Reads and writes more than the pipe holds, against a blocking peer, through inherited
    /// descriptors whose flags stay unchanged.
    async fn check(reader: OwnedFd, writer: OwnedFd) {
        let mut from = FdReader::new(&reader).unwrap();
        let mut to = FdWriter::new(&writer).unwrap();
        carry(&mut from, &mut to).await;
        assert!(blocking(&reader) && blocking(&writer), "the shared flags are untouched");
    }

    async fn carry(from: &mut FdReader, to: &mut FdWriter) {
        let sent: Vec<u8> = (0..MUCH).map(|n| (n % 251) as u8).collect();
        let mut received = vec![0; MUCH];
        let (write, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut received));
        write.unwrap();
        read.unwrap();
        assert!(sent == received);
    }

    #[tokio::test]
    async fn pipes() {
        let (reader, writer) = pipe();
        check(reader, writer).await;
    }

    #[tokio::test]
    async fn socket_pairs() {
        let (left, right) = sockets();
        check(left, right).await;
    }

    #[tokio::test]
    async fn terminals() {
        let (main, user) = terminal();
        // The user's end, which a program has as its standard streams, is reopened.
        let mut from = FdReader::new(&user).unwrap();
        let mut to = FdWriter::new(&main).unwrap();
        to.write_all(b"hello").await.unwrap();
        let mut text = [0; 5];
        from.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        assert!(blocking(&main) && blocking(&user));
    }

    #[tokio::test]
    async fn descriptors_that_cannot_be_reopened_stay_blocking() {
        let (reader, writer) = pipe();
        let kept = (reader.try_clone().unwrap(), writer.try_clone().unwrap());
        let file = File::watch(reader, Access::Asked, Interest::READABLE).unwrap();
        let mut from = FdReader { file, untried: false };
        let file = File::watch(writer, Access::Asked, Interest::WRITABLE).unwrap();
        let mut to = FdWriter { file };
        carry(&mut from, &mut to).await;
        assert!(blocking(&kept.0) && blocking(&kept.1));
    }

    #[tokio::test]
    async fn the_end_of_a_pipe_is_seen_before_and_while_reading() {
        for prepare in [pipe, sockets] {
            let (reader, writer) = prepare();
            let mut from = FdReader::new(&reader).unwrap();
            std::fs::File::from(writer).write_all(b"rest").unwrap();
            let mut text = String::new();
            from.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "rest");

            let (reader, writer) = prepare();
            drop(writer);
            let mut from = FdReader::new(&reader).unwrap();
            assert_eq!(from.read(&mut [0; 8]).await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn writing_without_a_reader_is_an_error() {
        for prepare in [pipe, sockets] {
            let (reader, writer) = prepare();
            let mut to = FdWriter::new(&writer).unwrap();
            drop(reader);
            let error = to.write_all(b"x").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }

    #[tokio::test]
    async fn files_on_disk_and_null() {
        let mut file = tempfile::tempfile().unwrap();
        let mut to = FdWriter::new(&file).unwrap();
        to.write_all(b"on disk").await.unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        FdReader::new(&file).unwrap().read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "on disk");
        file.rewind().unwrap();
        let mut direct = String::new();
        file.read_to_string(&mut direct).unwrap();
        assert_eq!(direct, "on disk");

        let null = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        assert_eq!(FdReader::new(&null).unwrap().read(&mut [0; 8]).await.unwrap(), 0);
        FdWriter::new(&null).unwrap().write_all(b"gone").await.unwrap();
    }
}
