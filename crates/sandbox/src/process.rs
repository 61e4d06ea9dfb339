//! A running command: its output, its input, and the ways to end it.

use std::io;
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
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
use crate::output::OutputBuffer;
#[cfg(unix)]
use crate::pty;
use crate::pty::Size;
use crate::sandbox::exec_error;

/// A running command. Dropping it kills the command and everything it started.
///
/// Output is not collected without bound: the command waits while [`Process::output`] is full
/// (at most [`OUTPUT_CHUNKS`] chunks of at most [`CHUNK_BYTES`]). So read the output, drop its
/// receiver, or call [`Process::collect`]; [`Process::wait`] alone waits for somebody to read it.
#[derive(Debug)]
pub struct Process {
    /// What the command prints. Closed at the end of the output.
    pub output: mpsc::Receiver<Chunk>,
    pub(crate) control: Control,
}

/// Most chunks waiting in [`Process::output`].
pub const OUTPUT_CHUNKS: usize = 16;
/// Most bytes of a chunk.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// How long after the exit of a command its output is still waited for, when a process that it
/// left behind holds the output open.
pub const LINGER: Duration = Duration::from_millis(200);

/// How long [`Control::terminate`] waits after killing: a process of another user (started
/// through `sudo`) may not let itself be killed.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// A piece of output, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub stream: Stream,
    pub bytes: Bytes,
}

/// Where output came from. A terminal has one stream: standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// How a command ended. Exactly one of `code` and `signal` is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: Option<i32>,
    /// The signal that ended it. In a sandbox the signal shows as the code 128 + signal.
    pub signal: Option<i32>,
    /// The sandbox could not be set up and the command never ran; why is on standard error.
    pub sandbox_failed: bool,
    /// The sandbox was set up, and the program could not be executed in it: the system's number of
    /// the error. Says that a code 127 is not the program's own.
    pub exec_errno: Option<i32>,
}

impl Exit {
    /// The exit code as a shell reports it: 128 + the signal for a command that a signal ended.
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
        Self { code: None, signal: Some(KILLED), sandbox_failed: false, exec_errno: None }
    }
}

/// Acts on a running command from anywhere; cheap to clone. Holding one does not keep the command
/// alive.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pid: i32,
    /// To the supervisor.
    #[cfg(unix)]
    pub(crate) supervisor: UnixStream,
    pub(crate) input: Input,
    /// Set when the first process ended.
    pub(crate) ended: watch::Receiver<Option<Exit>>,
    /// Set when the output is complete as well.
    pub(crate) finished: watch::Receiver<Option<Exit>>,
}

/// Where input goes.
#[derive(Debug)]
pub(crate) enum Input {
    None,
    #[cfg(unix)]
    Pipe(Mutex<Option<AsyncFd<OwnedFd>>>),
    #[cfg(unix)]
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

/// Ctrl-D: end of input, as a terminal knows it.
const END_OF_TRANSMISSION: [u8; 1] = [4];

impl Process {
    /// A handle for input, size and termination, to be used while the output is read elsewhere.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// The process id. In a sandbox: of the process around it.
    pub fn pid(&self) -> i32 {
        self.control.shared.pid
    }

    /// See [`Control::wait`].
    pub async fn wait(&self) -> Exit {
        self.control.wait().await
    }

    /// Reads all output into two buffers and waits for the end.
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
    /// The end of the command: its first process has ended and its output is complete.
    ///
    /// Output is complete at its end of file, or, when something left running keeps it open,
    /// [`LINGER`] after the exit: what was written before the exit is always delivered.
    pub async fn wait(&self) -> Exit {
        settled(&self.shared.finished).await
    }

    /// Writes all of `bytes` to standard input; waits while the command does not read. Fails
    /// when the command was started without input, or has closed it.
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

    /// Ends standard input; on a terminal by typing Ctrl-D. Closing twice is no error.
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

    /// Changes the size of the terminal; fails when the command has none.
    #[cfg_attr(not(unix), allow(unused_variables, reason = "no command has a terminal there"))]
    pub fn resize(&self, size: Size) -> io::Result<()> {
        match &self.shared.input {
            #[cfg(unix)]
            Input::Terminal(terminal) => pty::resize(terminal, size),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "the command has no terminal")),
        }
    }

    /// Asks everything that the command started to end (SIGTERM), and kills what is left after
    /// `grace`. Returns when the command's first process has ended; `None` when it cannot be
    /// killed because it belongs to another user.
    pub async fn terminate(&self, grace: Duration) -> Option<Exit> {
        #[cfg(target_os = "linux")]
        let _ = rustix::io::write(&self.shared.supervisor, &[crate::supervise::request::TERMINATE]);
        let _ = tokio::time::timeout(grace, settled(&self.shared.ended)).await;
        self.kill();
        tokio::time::timeout(KILL_WAIT, settled(&self.shared.ended)).await.ok()
    }

    /// Kills everything that the command started (SIGKILL), also what has left its process group
    /// or session.
    pub fn kill(&self) {
        // The supervisor takes the end of the socket as the order; it fails only when gone.
        #[cfg(unix)]
        let _ = rustix::net::shutdown(&self.shared.supervisor, rustix::net::Shutdown::Write);
    }
}

/// The number of SIGKILL, on every system that has signals.
const KILLED: i32 = 9;

/// The first value that is set.
async fn settled(exit: &watch::Receiver<Option<Exit>>) -> Exit {
    match exit.clone().wait_for(Option::is_some).await {
        Ok(exit) => exit.unwrap_or_else(Exit::killed),
        // The reading task was dropped with its runtime: everything is killed.
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
