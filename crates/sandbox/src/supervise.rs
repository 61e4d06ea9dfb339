//! The small process that starts commands for the server and answers for all they leave behind.
//!
//! The server starts one such process (itself, with a hidden argument) before the first command.
//! It has one thread and little memory, so that a fork of it is cheap however large the server is.
//! For each command it forks a supervisor, and that forks the command. A supervisor adopts every
//! process below it that loses its parent, so none gets away by starting a session of its own;
//! it holds one end of a socket pair, and when the other end closes, because the command is over
//! or because the server is gone for whatever reason, it kills all that is left and ends.

#[cfg(feature = "self-supervise")]
mod any_program;
pub(crate) mod child;
pub(crate) mod request;
mod tree;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::lead;
use crate::linux::sys;
use crate::protect::Placeholder;
use child::{Lead, Prepared, Streams};
use request::{Ended, MAX_REQUEST_BYTES, MAX_START_FDS, Report, Request, Stage, TERMINATE};

/// Runs the process that starts commands; to be called before anything else when the first
/// argument of the program is [`crate::SUPERVISE_ARGUMENT`]. `arguments` are those after it.
/// Standard input is the socket to the server; ends when the server closes it.
pub fn supervisor_main(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let first = arguments.next();
    if first.as_ref().is_some_and(|first| first == child::LEAD) {
        child::lead(arguments);
        sys::exit_now(lead::NOT_STARTED);
    }
    if let Some(limit) = first.and_then(|first| first.to_str()?.parse().ok()) {
        limit_descriptors(limit);
    }
    let code = match start_commands() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code);
}

/// Programs that were written for few descriptors begin with few, whatever the server needs.
fn limit_descriptors(soft: u64) {
    let all = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = rustix::process::Rlimit { current: Some(soft), maximum: all.maximum };
    // Lowering it needs no permission; a hard limit below it is kept.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

fn start_commands() -> io::Result<()> {
    // Not reached by an interrupt typed into the server's terminal. Fails when already so.
    let _ = rustix::process::setsid();
    // Before children vanish without being waited for.
    let embedded = lead::load();
    // Asked to end together with the server, it must outlive that: the socket tells when.
    sys::ignore_signals();
    rustix::process::chdir(c"/")?;
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    // tidy: open never waits.
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    sys::close_on_exec_from(3)?;
    while let Some((server, streams)) = receive(&control)? {
        // SAFETY: this process has had no other thread than this one since it was started.
        #[allow(unsafe_code)]
        match unsafe { sys::fork() } {
            Ok(sys::Forked::Child) => {
                drop(control);
                supervise(UnixStream::from(server), streams, embedded);
                sys::exit_now(0);
            }
            Ok(sys::Forked::Parent(_)) => {}
            Err(error) => tell(&server.into(), failed(Stage::Fork, &error)),
        }
    }
    Ok(())
}

/// The next start; `None` when the server has closed its end.
fn receive(control: &OwnedFd) -> io::Result<Option<(OwnedFd, Streams)>> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_START_FDS))];
    loop {
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [io::IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(control, &mut buffers, &mut ancillary, flags) {
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        let mut fds = Vec::with_capacity(MAX_START_FDS);
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        // Too few when the limit of open files is reached: the server sees its socket close.
        let mut fds = fds.into_iter();
        if let (Some(server), Some(stdin), Some(stdout), Some(stderr)) =
            (fds.next(), fds.next(), fds.next(), fds.next())
        {
            return Ok(Some((server, Streams { stdin, stdout, stderr, egress: fds.next() })));
        }
    }
}

/// Starts one command and stays until nothing of it is left.
fn supervise(mut server: UnixStream, mut streams: Streams, embedded: Option<OwnedFd>) {
    let egress = streams.egress.take();
    let prepared = rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(io::Error::from)
        .and_then(|()| sys::child_exits())
        .and_then(|exits| {
            Ok((exits, Prepared::new(read_request(&mut server)?, egress, embedded)?))
        });
    let (exits, mut prepared) = match prepared {
        Ok(ready) => ready,
        Err(error) => return tell(&server, failed(Stage::Request, &error)),
    };
    match start(&prepared, &streams) {
        Ok(pid) => {
            drop(streams);
            prepared.started();
            tell(&server, Report::Started { pid: pid.as_raw_nonzero().get() });
            let begun =
                Supervisor { server, exits, prepared, main: pid, ending: None, left: false };
            begun.run();
        }
        Err((stage, error)) => tell(&server, failed(stage, &error)),
    }
}

fn read_request(server: &mut UnixStream) -> io::Result<Request> {
    let mut length = [0; 4];
    server.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_REQUEST_BYTES {
        return Err(Errno::TOOBIG.into());
    }
    let mut body = vec![0; length];
    server.read_exact(&mut body)?;
    Request::decode(&body).ok_or_else(|| Errno::INVAL.into())
}

/// Forks the command and learns whether `exec` worked: then the pipe closes without a word.
fn start(prepared: &Prepared, streams: &Streams) -> Result<Pid, (Stage, io::Error)> {
    let (result, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|error| (Stage::Fork, error.into()))?;
    let parent = rustix::process::getpid();
    // SAFETY: this process was forked from one with a single thread and has started none.
    #[allow(unsafe_code)]
    let forked = unsafe { sys::fork() }.map_err(|error| (Stage::Fork, error))?;
    let pid = match forked {
        sys::Forked::Parent(pid) => pid,
        sys::Forked::Child => {
            let (stage, error) = prepared.exec(streams, parent);
            let report_bytes = failed(stage, &error).encode();
            let _ = std::fs::File::from(report).write_all(&report_bytes);
            sys::exit_now(lead::NOT_STARTED);
        }
    };
    drop(report);
    let mut bytes = [0; request::REPORT_BYTES];
    match std::fs::File::from(result).read_exact(&mut bytes) {
        Err(_) => Ok(pid),
        Ok(()) => match Report::decode(&bytes) {
            Some(Report::Failed { stage, errno }) => {
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                Err((stage, io::Error::from_raw_os_error(errno)))
            }
            _ => Err((Stage::Exec, Errno::INVAL.into())),
        },
    }
}

struct Supervisor {
    server: UnixStream,
    exits: OwnedFd,
    prepared: Prepared,
    main: Pid,
    /// Set once all is to be killed: how long to wait before the next try, in milliseconds.
    ending: Option<i64>,
    /// The server let go of the command, or is gone.
    left: bool,
}

/// A process of another user (started through a set-user-ID program) cannot be killed, only
/// waited for; tries become this rare.
const MAX_RETRY_MS: i64 = 1000;

impl Supervisor {
    /// Until there is no process left below this one.
    fn run(mut self) {
        loop {
            match tree::reap() {
                tree::Reaped::Ended(pid, status) if pid == self.main => {
                    let how = self.how_it_ended(status);
                    if self.prepared.confined() {
                        // What is left dies with the sandbox. It is told once that is certain: the
                        // kernel takes milliseconds more to put the namespaces away.
                        tree::signal(&tree::descendants(), Signal::KILL);
                        self.ending.get_or_insert(1);
                    }
                    tell(&self.server, Report::Exited(how));
                }
                tree::Reaped::Ended(..) => {}
                tree::Reaped::Nothing => self.wait(),
                tree::Reaped::NoChildren => break,
            }
        }
        if self.left {
            // A server that lives removes them itself, and holds those that others need.
            self.prepared.placeholders.iter().for_each(|path| Placeholder::release(path));
        }
    }

    /// Waits for a child to end or the server to speak. When all is to end, kills first.
    fn wait(&mut self) {
        let timeout = self.ending.map(|pause_ms| {
            tree::signal(&tree::descendants(), Signal::KILL);
            self.ending = Some((pause_ms * 2).min(MAX_RETRY_MS));
            Timespec { tv_sec: pause_ms / 1000, tv_nsec: pause_ms % 1000 * 1_000_000 }
        });
        let mut fds =
            [PollFd::new(&self.exits, PollFlags::IN), PollFd::new(&self.server, PollFlags::IN)];
        // When all is to end the server has nothing left to say.
        let count = if self.ending.is_some() { 1 } else { 2 };
        let Some(watched) = fds.get_mut(..count) else { return };
        if rustix::event::poll(watched, timeout.as_ref()).is_err() {
            return;
        }
        let server_spoke = !fds[1].revents().is_empty();
        self.forget_signals();
        if server_spoke {
            self.obey();
        }
    }

    /// Children are reaped until none has ended, so how many signals came does not matter.
    fn forget_signals(&self) {
        let mut buffer = [0; 1024];
        let _ = rustix::io::read(self.exits.as_fd(), &mut buffer);
    }

    fn obey(&mut self) {
        let mut command = [0; 1];
        match self.server.read(&mut command) {
            Ok(1) if command[0] == TERMINATE => self.ask_to_end(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => {
                self.left = true;
                self.ending = Some(1);
            }
        }
    }

    fn ask_to_end(&self) {
        let mut pids = tree::descendants();
        // Bubblewrap would take the command with it before that had its time.
        pids.retain(|pid| !self.prepared.wrapped() || *pid != self.main);
        tree::signal(&pids, Signal::TERM);
        tree::signal(&pids, Signal::CONT);
    }

    fn how_it_ended(&self, status: WaitStatus) -> Ended {
        if let Some(signal) = status.terminating_signal() {
            return Ended::Signal(signal);
        }
        let code = status.exit_status().unwrap_or(-1);
        if let Some(failed) = self.prepared.failed_lead() {
            return match failed {
                Lead::Exec(errno) => Ended::NotExecuted(errno),
                Lead::Confine => Ended::NotConfined(code),
            };
        }
        let Some(report) = &self.prepared.confined_report else { return Ended::Code(code) };
        // Bubblewrap reports an exit code only for a command that it started.
        let mut text = [0; 1024];
        let length = rustix::io::read(report, &mut text).unwrap_or(0);
        let reported = text.get(..length).unwrap_or_default();
        if reported.windows(9).any(|part| part == b"exit-code") {
            Ended::Code(code)
        } else {
            Ended::NotConfined(code)
        }
    }
}

fn failed(stage: Stage, error: &io::Error) -> Report {
    Report::Failed { stage, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// A server that is gone need not be told anything.
fn tell(mut server: &UnixStream, report: Report) {
    let _ = server.write_all(&report.encode());
}
