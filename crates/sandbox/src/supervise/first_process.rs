//! The first process of a confined command's namespaces. It makes or checks the file system, gives up all rights, starts
//! the command, and adopts orphans until the command has ended. Its own end is the end of every process in there.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus};

use super::child::{Inside, Network, Prepared, Streams};
use super::ready::{self, Fact, Kept, Key, Ready, Stale};
use super::request::{Ended, REPORT_BYTES, Report, Stage};
use crate::linux::{capabilities, limit_calls, mount_calls, mounts, seccomp, sys};

/// Numbers of processes beyond the limit: the kernel gives the first 300 to none that comes later, and the supervisor
/// finds one process too many.
const SPARE_IDS: u64 = 302;

/// Starts the process, in namespaces of an earlier command if some of `kept` are as they have to be. Returns its id, and
/// the pipe from which [`read_end`] learns how the command ended.
///
/// # Errors
/// The step that failed.
pub(crate) fn start(
    prepared: &Prepared,
    inside: &Inside<'_>,
    streams: &Streams,
    kept: &Kept,
    group: Option<BorrowedFd<'_>>,
) -> Result<(Pid, OwnedFd), (Stage, io::Error)> {
    let key = ready::key(inside.view, inside.network);
    let first = |pipe: &Pipe| First {
        prepared,
        inside,
        streams,
        status: pipe.status.as_raw_fd(),
        reporting: pipe.reporting.as_raw_fd(),
    };
    if let Some(found) = kept.find(&key) {
        let facts = ready::facts(inside.view, &prepared.placeholders);
        match begin(|pipe| join(found, &first(pipe), &facts, group)) {
            // They are as they were for the earlier command: this one needs its own.
            Err((Stage::Namespaces, _)) => {}
            begun => return begun,
        }
    }
    begin(|pipe| {
        let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let network = if inside.network == Network::Machine { 0 } else { mount_calls::NETWORK };
        // SAFETY: this process was forked from a single-threaded one and has started no thread.
        #[allow(unsafe_code)]
        match unsafe { mount_calls::fork_into(mount_calls::NAMESPACES | network, group) }? {
            sys::Forked::Child => {
                let make = |first: &First<'_>, _| first.make(ids, &key, kept);
                let code = first(pipe).run(|| Some(Vec::new()), make);
                sys::exit_now(code);
            }
            sys::Forked::Parent(pid) => Ok(pid),
        }
    })
}

/// Starts the process in the namespaces of an earlier command: a child of this process enters them, which cannot be
/// undone, and forks it as its sibling.
fn join(
    ready: &Ready,
    first: &First<'_>,
    facts: &[Fact],
    group: Option<BorrowedFd<'_>>,
) -> io::Result<Pid> {
    let is_managed = first.inside.network == Network::Managed;
    let mut started = Err(io::Error::other("the namespaces were not entered"));
    let mut enter = || {
        started = ready.enter(!is_managed).and_then(|()| {
            // SAFETY: as in `start`; the process has its own copy of all memory.
            #[allow(unsafe_code)]
            match unsafe { mount_calls::fork_sibling(is_managed, group) }? {
                sys::Forked::Child => {
                    let code = first.run(|| ready::compare(facts), First::join);
                    sys::exit_now(code);
                }
                sys::Forked::Parent(pid) => Ok(pid),
            }
        });
    };
    // SAFETY: as in `start`; the child, which shares this memory, writes `started` only.
    #[allow(unsafe_code)]
    let entered = unsafe { sys::start_child(&mut enter) }?;
    rustix::process::waitpid(Some(entered), WaitOptions::empty())?;
    started
}

/// The pipe through which a first process reports.
struct Pipe {
    status: OwnedFd,
    reporting: OwnedFd,
}

/// Starts a first process and waits until it has begun.
fn begin(
    start: impl FnOnce(&Pipe) -> io::Result<Pid>,
) -> Result<(Pid, OwnedFd), (Stage, io::Error)> {
    let failed = |error: io::Error| (Stage::Namespaces, error);
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (status, reporting) = pipe.map_err(|error| failed(error.into()))?;
    let pipe = Pipe { status, reporting };
    let pid = start(&pipe).map_err(failed)?;
    let Pipe { status, reporting } = pipe;
    drop(reporting);
    let mut status = File::from(status);
    let mut report = [0; REPORT_BYTES];
    let error = match status.read_exact(&mut report).map(|()| Report::decode(&report)) {
        Ok(Some(Report::Started { .. })) => {
            let status = OwnedFd::from(status);
            return match rustix::io::ioctl_fionbio(&status, true) {
                Ok(()) => Ok((pid, status)),
                Err(error) => Err(failed(error.into())),
            };
        }
        Ok(Some(Report::Failed { stage, errno })) => (stage, io::Error::from_raw_os_error(errno)),
        Ok(_) => failed(io::ErrorKind::InvalidData.into()),
        Err(error) => failed(error),
    };
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    Err(error)
}

/// A message of the first process.
pub(crate) enum Said {
    /// The end of the command.
    Ended(Ended),
    /// The bytes that processes have written which it reaped.
    Wrote(u64),
    /// True in `full` if no further process can be made.
    Room { full: bool },
    /// It says no more.
    Nothing,
}

/// The next message of the first process, which may have ended without one.
pub(crate) fn read(status: &OwnedFd) -> Said {
    let mut report = [0; REPORT_BYTES];
    let length = rustix::io::read(status, &mut report);
    match Report::decode(&report).filter(|_| length == Ok(REPORT_BYTES)) {
        Some(Report::Exited { how, .. }) => Said::Ended(how),
        Some(Report::Wrote { bytes }) => Said::Wrote(bytes),
        Some(Report::Room { full }) => Said::Room { full },
        _ => Said::Nothing,
    }
}

/// The end of the command; `None` if the first process has not said so, or ended before it.
pub(crate) fn read_end(status: &OwnedFd) -> Option<Ended> {
    loop {
        match read(status) {
            Said::Ended(how) => return Some(how),
            Said::Wrote(_) | Said::Room { .. } => {}
            Said::Nothing => return None,
        }
    }
}

/// The first process itself.
struct First<'a> {
    prepared: &'a Prepared,
    inside: &'a Inside<'a>,
    streams: &'a Streams,
    /// The supervisor's end of the pipe.
    status: RawFd,
    reporting: RawFd,
}

impl First<'_> {
    /// Runs until the command has ended; returns the exit code of this process. `compare` says what the namespaces
    /// lack before anything has an effect, and `set_up` makes them what they have to be.
    fn run(
        &self,
        compare: impl FnOnce() -> Option<Vec<Stale>>,
        set_up: impl FnOnce(&Self, Vec<Stale>) -> Result<(), String>,
    ) -> i32 {
        sys::close(self.status);
        let Some(missing) = compare() else {
            self.send(Report::Failed { stage: Stage::Namespaces, errno: libc::ESTALE });
            return sys::NOT_STARTED;
        };
        if let Err((stage, error)) = self.prepared.begin(self.streams) {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            self.send(Report::Failed { stage, errno });
            return sys::NOT_STARTED;
        }
        self.send(Report::Started { pid: 1 });
        if let Err(reason) = set_up(self, missing).and_then(|()| self.give_up_rights()) {
            let _ = writeln!(io::stderr(), "setting up the sandbox: {reason}");
            return 1;
        }
        if self.prepared.runs_nothing() {
            self.send(Report::exited(Ended::Code(0)));
            return 0;
        }
        let mut failure = None;
        // SAFETY: this process has one thread. Until it is another program, the child changes only its own
        // descriptors and `failure`.
        #[allow(unsafe_code)]
        let started =
            unsafe { sys::start_child(&mut || failure = Some(self.prepared.exec_inside())) };
        let end = match (started, failure) {
            (Ok(command), None) => {
                sys::close_all_but(self.reporting);
                self.wait(command)
            }
            (Ok(_), Some(error)) => Ended::NotExecuted(error.raw_os_error().unwrap_or(libc::EIO)),
            (Err(error), _) => {
                let _ = writeln!(io::stderr(), "starting the command in the sandbox: {error}");
                return 1;
            }
        };
        self.send(Report::exited(end));
        0
    }

    /// Makes new namespaces what they have to be, and offers them to later commands.
    fn make(&self, ids: (u32, u32), key: &Key, kept: &Kept) -> Result<(), String> {
        map_ids(ids).map_err(at("user namespace"))?;
        mounts::enter(self.inside.view).map_err(|failed| failed.to_string())?;
        self.start_network(self.inside.network != Network::Machine)?;
        // If there is no room for the offer, the next command makes its own.
        let _ = kept.offer(key);
        mount_calls::copy_mounts().map_err(at("mount namespace"))?;
        self.join(Vec::new())
    }

    /// Makes what is this command's alone.
    fn join(&self, missing: Vec<Stale>) -> Result<(), String> {
        for Stale { path, file } in missing {
            mounts::make_read_only(&path, file).map_err(|failed| failed.to_string())?;
        }
        let most = self.prepared.processes.map(|limit| limit.saturating_add(SPARE_IDS));
        mounts::own(most).map_err(|failed| failed.to_string())?;
        self.start_network(self.inside.network == Network::Managed)?;
        self.prepared.enter_folder().map_err(at("entering the working folder"))
    }

    fn start_network(&self, is_new: bool) -> Result<(), String> {
        if is_new {
            mount_calls::start_loopback().map_err(at("network namespace"))?;
        }
        Ok(())
    }

    fn give_up_rights(&self) -> Result<(), String> {
        rustix::thread::set_no_new_privs(true).map_err(at("no new privileges"))?;
        capabilities::drop_all().map_err(at("dropping capabilities"))?;
        // The command can neither read the memory of this process nor what it has open.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(at("protecting its first process"))?;
        self.die_with_supervisor().map_err(at("its first process"))?;
        self.prepared.narrow().map_err(at("Landlock"))?;
        let filter = seccomp::from_bytes(self.inside.filter);
        sys::install_filter(&filter).map_err(at("filter of system calls"))
    }

    fn die_with_supervisor(&self) -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before: then the pipe has no reader.
        let reporting = sys::borrowed(self.reporting);
        let mut watched = [PollFd::from_borrowed_fd(reporting, PollFlags::empty())];
        rustix::event::poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        match watched[0].revents().contains(PollFlags::ERR) {
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }

    /// Reaps children, own and adopted, until the command has ended. Reports what those have written whose parents did
    /// not reap them: the supervisor can read it nowhere.
    fn wait(&self, command: Pid) -> Ended {
        /// Bytes between two reports.
        const STEP: u64 = 16 << 20;
        /// Processes that the end of a command makes room for: itself, and others that gave up with it.
        const FREED: usize = 4;
        let mut reported = 0;
        sys::note_questions();
        loop {
            if sys::was_asked() {
                self.send(Report::Room { full: is_full() });
            }
            match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) if pid == command => {
                    let end = ended(status);
                    // It may have failed because it could start no other process, before the supervisor looked.
                    if !matches!(end, Ended::Code(0))
                        && self.prepared.processes.is_some()
                        && (0..FREED).any(|_| is_full())
                    {
                        self.send(Report::Room { full: true });
                    }
                    return end;
                }
                Ok(_) => {
                    let bytes = limit_calls::reaped().disk_written;
                    if bytes >= reported + STEP {
                        reported = bytes;
                        self.send(Report::Wrote { bytes });
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Ended::NotConfined(1),
            }
        }
    }

    fn send(&self, report: Report) {
        let _ = rustix::io::write(sys::borrowed(self.reporting).as_fd(), &report.encode());
    }
}

/// Asks a first process whether there is room for another process; it answers with [`Said::Room`].
pub(crate) fn ask_for_room(first: Pid) {
    // One that has ended does not answer.
    let _ = rustix::process::kill_process(first, sys::QUESTION);
}

/// Returns whether no further process can be made. Costs the same however many there are.
fn is_full() -> bool {
    // SAFETY: this process has one thread; the child only ends.
    #[allow(unsafe_code)]
    match unsafe { sys::fork() } {
        // Reaped as any orphan.
        Ok(sys::Forked::Parent(_)) => false,
        Ok(sys::Forked::Child) => sys::exit_now(0),
        Err(error) => error.raw_os_error() == Some(libc::EAGAIN),
    }
}

fn at<E: Display>(step: &str) -> impl FnOnce(E) -> String + use<'_, E> {
    move |error| format!("{step}: {error}")
}

/// The user and the group are the same inside.
fn map_ids((user, group): (u32, u32)) -> io::Result<()> {
    let write = |file: &str, text: &str| {
        // tidy: open a file of the kernel.
        std::fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
    };
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/gid_map", &format!("{group} {group} 1\n"))?;
    write("/proc/self/uid_map", &format!("{user} {user} 1\n"))
}

/// As a shell reports it.
fn ended(status: WaitStatus) -> Ended {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    Ended::Code(signal.or(status.exit_status()).unwrap_or(-1))
}
