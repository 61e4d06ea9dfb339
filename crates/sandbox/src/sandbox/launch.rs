//! The server's side of the launcher, the process that starts commands: starts it when first
//! needed, sends it requests, and restarts it if it has ended.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::program::SUPERVISE_ARGUMENT;
use crate::supervise::child::Streams;
use crate::supervise::request::{MAX_START_FDS, WITH_EGRESS, WITH_TABLE};

/// Starts commands through a separate process.
#[derive(Debug)]
pub(crate) struct Launcher {
    supervisor: PathBuf,
    descriptors: Option<u64>,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    control: OwnedFd,
    child: Child,
}

impl Launcher {
    pub(crate) fn new(supervisor: PathBuf, descriptors: Option<u64>) -> Self {
        Launcher { supervisor, descriptors, running: Mutex::new(None) }
    }

    /// Begins to start a command: sends the streams, and returns the socket from which a supervisor
    /// reads the request.
    pub(crate) fn begin(&self, streams: &Streams) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut fds = vec![
            theirs.as_fd(),
            streams.stdin.as_fd(),
            streams.stdout.as_fd(),
            streams.stderr.as_fd(),
        ];
        let mut with = 0;
        for (more, bit) in [(&streams.egress, WITH_EGRESS), (&streams.table, WITH_TABLE)] {
            if let Some(fd) = more {
                fds.push(fd.as_fd());
                with |= bit;
            }
        }
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = running.as_ref()
            && send(&live.control, with, &fds).is_ok()
        {
            return Ok(ours);
        }
        // Never started, or killed.
        *running = None;
        let fresh = running.insert(launch(&self.supervisor, self.descriptors)?);
        send(&fresh.control, with, &fds)?;
        Ok(ours)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends when the socket closes; killing it does not affect its supervisors.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[allow(clippy::disallowed_methods, reason = "the only place that starts child processes")]
fn launch(supervisor: &Path, descriptors: Option<u64>) -> io::Result<Running> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let child = std::process::Command::new(supervisor)
        .arg(SUPERVISE_ARGUMENT)
        .args(descriptors.map(|limit| limit.to_string()))
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Running { control: ours, child })
}

fn send(control: &OwnedFd, with: u8, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_START_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    let byte = [with];
    let byte = [io::IoSlice::new(&byte)];
    rustix::net::sendmsg(control, &byte, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
