//! A running command: its output, its input, and its termination.

use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
#[cfg(unix)]
use rustix::io::Errno;
#[cfg(unix)]
use tokio::io::unix::AsyncFd;
#[cfg(unix)]
use tokio::net::UnixStream;
#[cfg(unix)]
use tokio::sync::Mutex;
use tokio::sync::{mpsc, watch};

use crate::error::Error;
use crate::limits::Exceeded;
use crate::output::OutputBuffer;
use crate::program::exec_error;
#[cfg(unix)]
use crate::pty;
use crate::pty::Size;

/// A running command. Dropping it kills the command and its descendants.
///
/// Output is bounded: the command waits while [`Process::output`] is full (at most
/// [`OUTPUT_CHUNKS`] chunks of at most [`CHUNK_BYTES`]). So read the output, drop its receiver, or
/// call [`Process::collect`]; [`Process::wait`] waits until the output has been read.
#[derive(Debug)]
pub struct Process {
    /// The output of the command. Closed at its end.
    pub output: mpsc::Receiver<Chunk>,
    /// Granted paths that led elsewhere, or to nothing, when the command started: it has no access
    /// through them.
    pub lapsed: Vec<PathBuf>,
    pub(crate) control: Control,
}

/// Chunks in [`Process::output`].
pub const OUTPUT_CHUNKS: usize = 16;
/// Largest chunk, in bytes.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Time for which output is read after the exit of a command, if a remaining descendant keeps it
/// open.
pub const LINGER: Duration = Duration::from_millis(200);

/// Maximum wait of [`Control::terminate`] after killing. A process of another user (started through
/// `sudo`) cannot be killed.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub stream: Stream,
    pub bytes: Bytes,
}

/// The stream of output. A terminal has only standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// The end of a command. Exactly one of `code` and `signal` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    /// The signal that ended it. In a sandbox, `code` is 128 + signal instead.
    pub signal: Option<i32>,
    /// True if the sandbox could not be set up, so the command never ran. Standard error has the
    /// reason.
    pub sandbox_failed: bool,
    /// The `errno` if the program could not be executed inside of the sandbox. Distinguishes this
    /// from a program that exits with code 127.
    pub exec_errno: Option<i32>,
    /// The limit that ended it.
    pub limit: Option<Exceeded>,
}

impl Exit {
    /// The exit code as reported by a shell: 128 + signal for a command that a signal ended.
    pub fn shell_code(&self) -> i32 {
        match (self.code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => -1,
        }
    }

    pub fn success(&self) -> bool {
        self.code == Some(0) && !self.sandbox_failed && self.exec_errno.is_none()
    }

    /// Why `program` was not executed although its sandbox was set up.
    pub fn not_executed(&self, program: &Path) -> Option<Error> {
        let error = io::Error::from_raw_os_error(self.exec_errno?);
        Some(exec_error(program, &error))
    }

    /// Killed from outside.
    pub(crate) fn killed() -> Self {
        Self {
            code: None,
            signal: Some(KILLED),
            sandbox_failed: false,
            exec_errno: None,
            limit: None,
        }
    }
}

/// A handle to a running command; cheap to clone. It does not keep the command running.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pid: i32,
    /// Socket to the supervisor.
    #[cfg(unix)]
    pub(crate) supervisor: UnixStream,
    pub(crate) input: Input,
    /// The command as one of its group, which counts what it used.
    #[cfg(target_os = "linux")]
    pub(crate) member: Option<crate::limits::Member>,
    /// Set when the first process has ended.
    pub(crate) ended: watch::Receiver<Option<Exit>>,
    /// Set when the output is complete as well.
    pub(crate) finished: watch::Receiver<Option<Exit>>,
}

/// The standard input of a command.
#[derive(Debug)]
pub(crate) enum Input {
    None,
    #[cfg(unix)]
    Pipe(Mutex<Option<AsyncFd<OwnedFd>>>),
    #[cfg(unix)]
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

/// Ctrl-D, the end of input on a terminal.
const END_OF_TRANSMISSION: [u8; 1] = [4];

impl Process {
    /// A handle for input, size and termination.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The process id; in namespaces, that of their first process.
    pub fn pid(&self) -> i32 {
        self.control.shared.pid
    }

    /// See [`Control::wait`].
    pub async fn wait(&self) -> Exit {
        self.control.wait().await
    }

    /// Reads all output into two buffers, and waits for the end.
    pub async fn collect(&mut self, stdout: &mut OutputBuffer, stderr: &mut OutputBuffer) -> Exit {
        while let Some(chunk) = self.output.recv().await {
            match chunk.stream {
                Stream::Stdout => stdout.push(&chunk.bytes),
                Stream::Stderr => stderr.push(&chunk.bytes),
            }
        }
        self.wait().await
    }

    /// See [`Control::write_stdin`].
    pub async fn write_stdin(&self, bytes: &[u8]) -> io::Result<()> {
        self.control.write_stdin(bytes).await
    }

    /// See [`Control::close_stdin`].
    pub async fn close_stdin(&self) -> io::Result<()> {
        self.control.close_stdin().await
    }

    /// See [`Control::resize`].
    pub fn resize(&self, size: Size) -> io::Result<()> {
        self.control.resize(size)
    }

    /// See [`Control::terminate`].
    pub async fn terminate(&self, grace: Duration) -> Option<Exit> {
        self.control.terminate(grace).await
    }

    /// See [`Control::kill`].
    pub fn kill(&self) {
        self.control.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.control.kill();
    }
}

impl Control {
    /// Waits until the first process has ended and the output is complete.
    ///
    /// The output is complete at end of file, or, if a remaining descendant keeps it open,
    /// [`LINGER`] after the exit. Output from before the exit is always delivered.
    pub async fn wait(&self) -> Exit {
        settled(&self.shared.finished).await
    }

    /// Writes all of `bytes` to standard input; waits while the command does not read.
    ///
    /// # Errors
    /// The command has no standard input, or has closed it.
    #[cfg_attr(not(unix), allow(unused_variables, reason = "no command has input there"))]
    pub async fn write_stdin(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.shared.input {
            Input::None => Err(no_input()),
            #[cfg(unix)]
            Input::Terminal(terminal) => write_all(terminal, bytes).await,
            #[cfg(unix)]
            Input::Pipe(pipe) => match pipe.lock().await.as_ref() {
                Some(pipe) => write_all(pipe, bytes).await,
                None => Err(no_input()),
            },
        }
    }

    /// Closes standard input; on a terminal, types Ctrl-D. Closing it twice is not an error.
    pub async fn close_stdin(&self) -> io::Result<()> {
        match &self.shared.input {
            Input::None => Ok(()),
            #[cfg(unix)]
            Input::Terminal(terminal) => write_all(terminal, &END_OF_TRANSMISSION).await,
            #[cfg(unix)]
            Input::Pipe(pipe) => {
                drop(pipe.lock().await.take());
                Ok(())
            }
        }
    }

    /// Changes the size of the terminal.
    ///
    /// # Errors
    /// The command has no terminal.
    #[cfg_attr(not(unix), allow(unused_variables, reason = "no command has a terminal there"))]
    pub fn resize(&self, size: Size) -> io::Result<()> {
        match &self.shared.input {
            #[cfg(unix)]
            Input::Terminal(terminal) => pty::resize(terminal, size),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "the command has no terminal")),
        }
    }

    /// Sends SIGTERM to the command and its descendants, and kills those that remain after `grace`.
    /// Returns when the first process has ended; `None` if it cannot be killed because it belongs
    /// to another user.
    pub async fn terminate(&self, grace: Duration) -> Option<Exit> {
        #[cfg(target_os = "linux")]
        let _ = rustix::io::write(&self.shared.supervisor, &[crate::supervise::request::TERMINATE]);
        let _ = tokio::time::timeout(grace, settled(&self.shared.ended)).await;
        self.kill();
        tokio::time::timeout(KILL_WAIT, settled(&self.shared.ended)).await.ok()
    }

    /// Kills the command and its descendants (SIGKILL), including those in other process groups and
    /// sessions.
    pub fn kill(&self) {
        // The supervisor kills them when the socket closes; this fails only if it has ended.
        #[cfg(unix)]
        let _ = rustix::net::shutdown(&self.shared.supervisor, rustix::net::Shutdown::Write);
    }
}

/// The number of SIGKILL on all systems with signals.
const KILLED: i32 = 9;

/// The first value that is set.
async fn settled(exit: &watch::Receiver<Option<Exit>>) -> Exit {
    match exit.clone().wait_for(Option::is_some).await {
        Ok(exit) => exit.unwrap_or_else(Exit::killed),
        // The reading task was dropped with its runtime, so everything was killed.
        Err(_) => Exit::killed(),
    }
}

#[cfg(unix)]
async fn write_all(fd: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = fd.writable().await?;
        match ready.try_io(|fd| Ok(rustix::io::write(fd.as_fd(), bytes)?)) {
            Ok(Ok(written)) => bytes = bytes.get(written..).unwrap_or_default(),
            Ok(Err(e)) if e.raw_os_error() == Some(Errno::INTR.raw_os_error()) => {}
            Ok(Err(e)) => return Err(e),
            Err(_would_block) => {}
        }
    }
    Ok(())
}

fn no_input() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the command's standard input is closed")
}
