//! The launcher, a small process that starts commands for the server, and the supervisors of
//! commands.
//!
//! The server starts the launcher (its own program, with a hidden argument) before the first
//! command. The launcher has one thread and little memory, so forking it is cheap. For each command
//! it forks a supervisor, which forks the command. A supervisor adopts orphaned descendants, so
//! none escapes by starting its own session. It holds one end of a socket pair. When the other end
//! closes, because the command is over or the server has ended in any way, it kills all remaining
//! processes and ends.

#[cfg(feature = "self-supervise")]
mod any_program;
pub(crate) mod broker;
pub(crate) mod child;
mod first_process;
pub(crate) mod handover;
mod limits;
pub(crate) mod places;
mod ready;
pub(crate) mod request;
pub(crate) mod request_limits;
mod tree;
mod usage;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::limits::Exceeded;
use crate::linux::{mount_calls, sys};
use crate::protect::Placeholder;
use child::{Prepared, Streams};
use limits::Watch;
use ready::Kept;
use request::{
    Ended, MAX_REQUEST_BYTES, MAX_START_FDS, REPORT_BYTES, Report, Request, Stage, TERMINATE,
    WITH_EGRESS, WITH_TABLE,
};

/// Runs the launcher. Must be called first if the first argument of the program is
/// [`crate::SUPERVISE_ARGUMENT`]; `arguments` are those after it. Standard input is the socket to
/// the server; the launcher ends when the server closes it.
pub fn supervisor_main(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let first = arguments.next();
    if let Some(limit) = first.and_then(|first| first.to_str()?.parse().ok()) {
        limit_descriptors(limit);
    }
    let code = match start_commands() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    sys::exit_now(code);
}

/// Sets the soft limit of open files for commands, which can be lower than the server's.
fn limit_descriptors(soft: u64) {
    let all = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let limit = rustix::process::Rlimit { current: Some(soft), maximum: all.maximum };
    // Lowering the limit needs no permission; a lower hard limit is kept.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
}

fn start_commands() -> io::Result<()> {
    // An interrupt typed into the server's terminal does not reach it. Fails if it already leads a
    // session.
    let _ = rustix::process::setsid();
    // Ignores signals, because it must outlive the server; the end of the socket shows when to end.
    sys::ignore_signals();
    rustix::process::chdir(c"/")?;
    let control = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    // tidy: open never waits.
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    sys::close_on_exec_from(3)?;
    let mut kept = Kept::new()?;
    while let Some((server, streams)) = receive(&control)? {
        kept.update();
        // SAFETY: this process has never had another thread.
        #[allow(unsafe_code)]
        match unsafe { sys::fork() } {
            Ok(sys::Forked::Child) => {
                drop(control);
                supervise(UnixStream::from(server), streams, kept);
                sys::exit_now(0);
            }
            Ok(sys::Forked::Parent(_)) => {}
            Err(error) => send_report(&server.into(), failed(Stage::Fork, &error)),
        }
    }
    Ok(())
}

/// The next command to start; `None` if the server has closed its end.
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
        // Too few if the limit of open files is reached; the server sees its socket close.
        let mut fds = fds.into_iter();
        if let (Some(server), Some(stdin), Some(stdout), Some(stderr)) =
            (fds.next(), fds.next(), fds.next(), fds.next())
        {
            let mut next = |bit: u8| if byte[0] & bit == 0 { None } else { fds.next() };
            let (egress, table) = (next(WITH_EGRESS), next(WITH_TABLE));
            return Ok(Some((server, Streams { stdin, stdout, stderr, egress, table })));
        }
    }
}

/// Starts a command, and runs until none of its processes remains.
fn supervise(mut server: UnixStream, mut streams: Streams, kept: Kept) {
    let (egress, table) = (streams.egress.take(), streams.table.take());
    let prepared = rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(io::Error::from)
        .and_then(|()| sys::child_exits())
        .and_then(|exits| {
            let mut request = read_request(&mut server)?;
            let limits = std::mem::take(&mut request.limits);
            let restraints = (limits.file_size, limits.nice, limits.processes());
            let watch = Watch::new(limits, table);
            Ok((exits, Prepared::new(request, restraints, egress)?, watch))
        });
    let (exits, mut prepared, watch) = match prepared {
        Ok(ready) => ready,
        Err(error) => return send_report(&server, failed(Stage::Request, &error)),
    };
    let started = start(&prepared, &streams, &kept, &watch);
    drop(kept);
    match started {
        Ok((pid, status)) => {
            drop(streams);
            if let Err(error) = prepared.answer() {
                // The command waits for its first answer, or has changed nothing yet.
                tree::signal(&tree::descendants(), Signal::KILL);
                return send_report(&server, failed(Stage::Confine, &error));
            }
            prepared.started();
            send_report(&server, Report::Started { pid: pid.as_raw_nonzero().get() });
            let begun = Supervisor {
                server,
                exits,
                prepared,
                watch,
                main: pid,
                status,
                is_reported: false,
                ending: None,
                left: false,
            };
            begun.run();
        }
        Err((stage, error)) => {
            watch.remove();
            send_report(&server, failed(stage, &error));
        }
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

/// Starts the command. The pipe is that of the first process of its namespaces, if it has its own.
fn start(
    prepared: &Prepared,
    streams: &Streams,
    kept: &Kept,
    watch: &Watch,
) -> Result<(Pid, Option<OwnedFd>), (Stage, io::Error)> {
    let group = watch.control_group();
    if let Some(inside) = prepared.inside() {
        let (pid, status) = first_process::start(prepared, &inside, streams, kept, group)?;
        return Ok((pid, Some(status)));
    }
    if let Some(group) = group {
        return start_in(group, prepared, streams).map(|pid| (pid, None));
    }
    let parent = rustix::process::getpid();
    let mut failure = None;
    // SAFETY: this process was forked from a single-threaded one and has started no thread. Until it
    // is another program, the child changes only its own descriptors, signals and folder, and
    // `failure`.
    #[allow(unsafe_code)]
    let pid = unsafe { sys::start_child(&mut || failure = Some(prepared.exec(streams, parent))) }
        .map_err(|error| (Stage::Fork, error))?;
    match failure {
        None => Ok((pid, None)),
        Some(failure) => {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            Err(failure)
        }
    }
}

/// Starts the command in a control group, with a copy of this process's memory in place of its memory.
fn start_in(
    group: BorrowedFd<'_>,
    prepared: &Prepared,
    streams: &Streams,
) -> Result<Pid, (Stage, io::Error)> {
    let failed = |error: io::Error| (Stage::Fork, error);
    let parent = rustix::process::getpid();
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (failure, reporting) = pipe.map_err(|error| failed(error.into()))?;
    // SAFETY: this process was forked from a single-threaded one and has started no thread.
    #[allow(unsafe_code)]
    let forked = unsafe { mount_calls::fork_into(0, Some(group)) };
    let pid = match forked.map_err(failed)? {
        sys::Forked::Child => {
            let (stage, error) = prepared.exec(streams, parent);
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            let _ = rustix::io::write(&reporting, &Report::Failed { stage, errno }.encode());
            sys::exit_now(sys::NOT_STARTED);
        }
        sys::Forked::Parent(pid) => pid,
    };
    drop(reporting);
    let mut report = [0; REPORT_BYTES];
    // Closed by `exec`.
    match std::fs::File::from(failure).read_exact(&mut report).map(|()| Report::decode(&report)) {
        Ok(Some(Report::Failed { stage, errno })) => {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            Err((stage, io::Error::from_raw_os_error(errno)))
        }
        _ => Ok(pid),
    }
}

struct Supervisor {
    server: UnixStream,
    exits: OwnedFd,
    prepared: Prepared,
    watch: Watch,
    main: Pid,
    /// The reports of the first process of the command's namespaces.
    status: Option<OwnedFd>,
    /// True once the server knows how the command ended.
    is_reported: bool,
    /// Set once all processes are to be killed: milliseconds until the next attempt.
    ending: Option<i64>,
    /// True if the server has dropped the command, or ended.
    left: bool,
}

/// Longest interval between attempts to kill. A process of another user (started through a
/// set-user-ID program) cannot be killed.
const MAX_RETRY_MS: i64 = 1000;
/// Longest wait for an answer of the first process, which may come at a later look.
const ANSWER_MS: i64 = 50;

impl Supervisor {
    /// Runs until this process has no descendants.
    fn run(mut self) {
        loop {
            match tree::reap() {
                tree::Reaped::Ended(pid, status) if pid == self.main => {
                    let how = self.exit_of(status);
                    self.finish(how);
                }
                // There may always be a next one.
                tree::Reaped::Ended(..) => self.look(),
                tree::Reaped::Nothing => self.wait(),
                tree::Reaped::NoChildren => break,
            }
        }
        self.watch.remove();
        if self.left {
            // A living server removes them itself, and holds those that others need.
            self.prepared.placeholders.iter().for_each(|path| Placeholder::release(path));
        }
    }

    /// The command has ended, and if confined, its other processes end with it.
    fn finish(&mut self, how: Ended) {
        if std::mem::replace(&mut self.is_reported, true) {
            return;
        }
        if self.ending.is_none()
            && let Some(exceeded) = self.watch.verdict(how)
        {
            send_report(&self.server, Report::Limited(exceeded));
        }
        let spent = self.watch.spent();
        let (cpu_time, disk_written) = (spent.cpu_time, spent.disk_written);
        // Reported at once, because the kernel takes milliseconds longer to remove the namespaces.
        send_report(&self.server, Report::Exited { how, cpu_time, disk_written });
        if self.prepared.confined() {
            self.kill_all();
            self.ending.get_or_insert(1);
        }
    }

    /// Ends all processes if they use more than their limits allow.
    fn look(&mut self) {
        if self.ending.is_some() || !self.watch.is_due() {
            return;
        }
        // Asked first: to count thousands of processes that all want to run takes minutes.
        if let Some(exceeded) = self.watch.crowd().filter(|_| self.is_full()) {
            return self.end(exceeded);
        }
        if self.ending.is_none()
            && let Some(exceeded) = self.watch.look()
        {
            self.end(exceeded);
        }
    }

    /// Asks the first process of the command's namespaces whether it can make another one.
    fn is_full(&mut self) -> bool {
        if self.prepared.inside().is_none() {
            return false;
        }
        first_process::ask_for_room(self.main);
        while let Some(status) = self.status.take() {
            let mut answered = [PollFd::new(&status, PollFlags::IN)];
            let patience = Timespec { tv_sec: 0, tv_nsec: ANSWER_MS * 1_000_000 };
            let has_answer = rustix::event::poll(&mut answered, Some(&patience));
            if !has_answer.is_ok_and(|count| count > 0) {
                self.status = Some(status);
                return false;
            }
            match first_process::read(&status) {
                first_process::Said::Ended(how) => self.finish(how),
                first_process::Said::Wrote(bytes) => {
                    self.watch.wrote_unread(bytes);
                    self.status = Some(status);
                }
                first_process::Said::Room { full } => {
                    self.status = Some(status);
                    return full;
                }
                // The end of the process says the rest.
                first_process::Said::Nothing => {}
            }
        }
        false
    }

    fn end(&mut self, exceeded: Exceeded) {
        if !self.is_reported {
            send_report(&self.server, Report::Limited(exceeded));
        }
        self.ending = Some(1);
        self.kill_all();
    }

    fn kill_all(&self) {
        if matches!(self.watch.kill(), Some(Ok(()))) {
            return;
        }
        match self.prepared.inside() {
            // With the first process of their namespace, the kernel ends all others in it.
            Some(_) => tree::kill_children(),
            None => tree::kill_all(),
        }
    }

    /// Waits for the end of a child or a message of the server. Kills first if all processes are to
    /// end.
    fn wait(&mut self) {
        let timeout = match self.ending {
            Some(pause_ms) => {
                self.kill_all();
                self.ending = Some((pause_ms * 2).min(MAX_RETRY_MS));
                Some(Timespec { tv_sec: pause_ms / 1000, tv_nsec: pause_ms % 1000 * 1_000_000 })
            }
            None => self.watch.timeout(),
        };
        let status = self.status.as_ref().unwrap_or(&self.exits);
        let mut fds = [
            PollFd::new(&self.exits, PollFlags::IN),
            PollFd::new(status, PollFlags::IN),
            PollFd::new(&self.server, PollFlags::IN),
        ];
        // If all processes are to end, the server sends nothing.
        let count = if self.ending.is_some() { 2 } else { 3 };
        let Some(watched) = fds.get_mut(..count) else { return };
        if rustix::event::poll(watched, timeout.as_ref()).is_err() {
            return;
        }
        let [_, reported, server_spoke] = fds.map(|fd| !fd.revents().is_empty());
        self.discard_signals();
        if reported && let Some(status) = self.status.take() {
            match first_process::read(&status) {
                first_process::Said::Ended(how) => self.finish(how),
                first_process::Said::Wrote(bytes) => {
                    self.watch.wrote_unread(bytes);
                    self.status = Some(status);
                }
                // An answer that came late, or the reason why the command gave up.
                first_process::Said::Room { full } => {
                    self.status = Some(status);
                    if let Some(exceeded) = self.watch.full().filter(|_| full)
                        && self.ending.is_none()
                    {
                        self.end(exceeded);
                    }
                }
                // The end of the process says the rest.
                first_process::Said::Nothing => {}
            }
        }
        if server_spoke {
            self.handle_message();
        }
        self.look();
    }

    /// Discards signals. Children are reaped until none has ended, so the number of signals has no
    /// meaning.
    fn discard_signals(&self) {
        let mut buffer = [0; 1024];
        let _ = rustix::io::read(self.exits.as_fd(), &mut buffer);
    }

    fn handle_message(&mut self) {
        let mut command = [0; 1];
        match self.server.read(&mut command) {
            Ok(1) if command[0] == TERMINATE => self.terminate_all(),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            _ => {
                self.left = true;
                self.ending = Some(1);
            }
        }
    }

    fn terminate_all(&self) {
        let mut pids = tree::descendants();
        // The end of the first process would kill the command before its grace period.
        pids.retain(|pid| self.prepared.inside().is_none() || *pid != self.main);
        tree::signal(&pids, Signal::TERM);
        tree::signal(&pids, Signal::CONT);
    }

    fn exit_of(&mut self, status: WaitStatus) -> Ended {
        let reported = self.status.take().and_then(|status| first_process::read_end(&status));
        match (reported, status.terminating_signal()) {
            (Some(how), _) => how,
            (None, Some(signal)) => Ended::Signal(signal),
            // The first process of namespaces reports the end of a command that it has started.
            (None, None) if self.prepared.inside().is_some() => {
                Ended::NotConfined(status.exit_status().unwrap_or(-1))
            }
            (None, None) => Ended::Code(status.exit_status().unwrap_or(-1)),
        }
    }
}

fn failed(stage: Stage, error: &io::Error) -> Report {
    Report::Failed { stage, errno: error.raw_os_error().unwrap_or(libc::EIO) }
}

/// Sends a report; ignores that the server has ended.
fn send_report(mut server: &UnixStream, report: Report) {
    let _ = server.write_all(&report.encode());
}
