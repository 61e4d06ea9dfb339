//! The streams between the server and a command: pipes, or a terminal.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::pipe::PipeFlags;
use tokio::io::unix::AsyncFd;

use super::interface::{Outputs, Spawn, Stdin};
use crate::linux::sys;
use crate::process::Input;
use crate::pty;
use crate::pump::Source;
use crate::supervise::child::Streams;

/// The ends of a command's streams: those of the command, and the non-blocking ones of the server.
pub(crate) struct Pipes {
    pub(crate) theirs: Streams,
    pub(crate) stdout: Source,
    pub(crate) stderr: Source,
    pub(crate) input: Input,
}

impl Pipes {
    pub(crate) fn open(spawn: &Spawn) -> io::Result<Pipes> {
        match spawn.tty {
            Some(size) => Pipes::terminal(size),
            None => Pipes::plain(spawn.stdin, spawn.outputs),
        }
    }

    fn terminal(size: pty::Size) -> io::Result<Pipes> {
        let (ours, theirs) = pty::open(size)?;
        let ours = Arc::new(sys::watch(ours)?);
        Ok(Pipes {
            theirs: Streams {
                stdin: theirs.try_clone()?,
                stdout: theirs.try_clone()?,
                stderr: theirs,
                egress: None,
                table: None,
            },
            stdout: Some(Arc::clone(&ours)),
            stderr: None,
            input: Input::Terminal(ours),
        })
    }

    fn plain(stdin: Stdin, outputs: Outputs) -> io::Result<Pipes> {
        let (stdout, their_stdout) = output()?;
        let (stderr, their_stderr) = match outputs {
            Outputs::Joined => (None, their_stdout.try_clone()?),
            Outputs::Separate => output()?,
        };
        let (their_stdin, input) = match stdin {
            // tidy: open never waits.
            Stdin::Null => (std::fs::File::open("/dev/null")?.into(), Input::None),
            Stdin::Pipe => {
                let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                (theirs, Input::Pipe(tokio::sync::Mutex::new(Some(without_blocking(ours)?))))
            }
        };
        Ok(Pipes {
            theirs: Streams {
                stdin: their_stdin,
                stdout: their_stdout,
                stderr: their_stderr,
                egress: None,
                table: None,
            },
            stdout,
            stderr,
            input,
        })
    }
}

/// A pipe for output: the end that is read, and the command's.
fn output() -> io::Result<(Source, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    Ok((Some(Arc::new(without_blocking(ours)?)), theirs))
}

fn without_blocking(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    sys::watch(fd)
}
