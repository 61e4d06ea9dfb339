//! The first process of a confined command's namespaces. It makes the file system, gives up all rights, starts the
//! command, and adopts orphans until the command has ended. Its own end is the end of every process in there.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions, WaitStatus};

use super::child::{Prepared, Streams};
use super::request::{Ended, REPORT_BYTES, Report, Stage};
use crate::lead;
use crate::linux::{mount_calls, mounts, seccomp, sys};

/// What the first process needs.
pub(crate) struct Inside<'a> {
    pub(crate) view: &'a crate::linux::view::View,
    /// True if the network is the machine's.
    pub(crate) network: bool,
    pub(crate) filter: &'a [u8],
}

/// Starts the process. Returns its id, and the pipe from which [`read_end`] learns how the command ended.
pub(crate) fn start(
    prepared: &Prepared,
    inside: &Inside<'_>,
    streams: &Streams,
) -> Result<(Pid, OwnedFd), (Stage, io::Error)> {
    let failed = |error: io::Error| (Stage::Namespaces, error);
    let pipe = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let (status, reporting) = pipe.map_err(|error| failed(error.into()))?;
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let network = if inside.network { 0 } else { mount_calls::NETWORK };
    // SAFETY: this process was forked from a single-threaded one and has started no thread.
    #[allow(unsafe_code)]
    match unsafe { mount_calls::fork_into(mount_calls::NAMESPACES | network) }.map_err(failed)? {
        sys::Forked::Child => {
            drop(status);
            let code = run(prepared, inside, streams, &reporting, ids);
            sys::exit_now(code);
        }
        sys::Forked::Parent(pid) => {
            drop(reporting);
            let mut status = File::from(status);
            let mut report = [0; REPORT_BYTES];
            let begun = status.read_exact(&mut report).map(|()| Report::decode(&report));
            let error = match begun {
                Ok(Some(Report::Started { .. })) => {
                    let status = OwnedFd::from(status);
                    let watched = rustix::io::ioctl_fionbio(&status, true);
                    return watched.map(|()| (pid, status)).map_err(|error| failed(error.into()));
                }
                Ok(Some(Report::Failed { stage, errno })) => {
                    (stage, io::Error::from_raw_os_error(errno))
                }
                Ok(_) => failed(io::ErrorKind::InvalidData.into()),
                Err(error) => failed(error),
            };
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            Err(error)
        }
    }
}

/// How the command ended; `None` if the first process has not said so, or ended before it.
pub(crate) fn read_end(status: &OwnedFd) -> Option<Ended> {
    let mut report = [0; REPORT_BYTES];
    let length = rustix::io::read(status, &mut report).ok()?;
    match Report::decode(&report).filter(|_| length == REPORT_BYTES)? {
        Report::Exited(ended) => Some(ended),
        Report::Started { .. } | Report::Failed { .. } => None,
    }
}

/// Runs until the command has ended; returns the exit code of this process.
fn run(
    prepared: &Prepared,
    inside: &Inside<'_>,
    streams: &Streams,
    reporting: &OwnedFd,
    ids: (u32, u32),
) -> i32 {
    if let Err((stage, error)) = prepared.begin(streams) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        send(reporting, Report::Failed { stage, errno });
        return lead::NOT_STARTED;
    }
    send(reporting, Report::Started { pid: 1 });
    if let Err(reason) = confine(prepared, inside, reporting, ids) {
        let _ = writeln!(io::stderr(), "setting up the sandbox: {reason}");
        return 1;
    }
    if prepared.runs_nothing() {
        send(reporting, Report::Exited(Ended::Code(0)));
        return 0;
    }
    let mut failure = None;
    // SAFETY: this process has one thread. Until it is another program, the child changes only its own
    // descriptors and `failure`.
    #[allow(unsafe_code)]
    let started = unsafe { sys::start_child(&mut || failure = Some(prepared.exec_inside())) };
    match (started, failure) {
        (Ok(command), None) => {
            // Pipes and sockets of the command end with it.
            sys::close_all_but(reporting.as_raw_fd());
            send(reporting, Report::Exited(wait(command)));
            0
        }
        (Ok(_), Some(error)) | (Err(error), _) => {
            let _ = writeln!(io::stderr(), "starting the command in the sandbox: {error}");
            1
        }
    }
}

fn confine(
    prepared: &Prepared,
    inside: &Inside<'_>,
    reporting: &OwnedFd,
    ids: (u32, u32),
) -> Result<(), String> {
    fn at<E: Display>(step: &str) -> impl FnOnce(E) -> String + use<'_, E> {
        move |error| format!("{step}: {error}")
    }
    map_ids(ids).map_err(at("user namespace"))?;
    mounts::enter(inside.view).map_err(|failed| failed.to_string())?;
    if !inside.network {
        mount_calls::start_loopback().map_err(at("network namespace"))?;
    }
    prepared.enter_again().map_err(at("entering the working folder"))?;
    rustix::thread::set_no_new_privs(true).map_err(at("no new privileges"))?;
    super::child::drop_capabilities().map_err(at("dropping capabilities"))?;
    // The command can neither read the memory of this process nor what it has open.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(at("protecting its first process"))?;
    die_with_supervisor(reporting).map_err(at("its first process"))?;
    sys::install_filter(&seccomp::from_bytes(inside.filter)).map_err(at("filter of system calls"))
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

fn die_with_supervisor(reporting: &OwnedFd) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before: then the pipe has no reader.
    let mut watched = [PollFd::new(reporting, PollFlags::empty())];
    rustix::event::poll(&mut watched, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    match watched[0].revents().contains(PollFlags::ERR) {
        true => Err(io::ErrorKind::BrokenPipe.into()),
        false => Ok(()),
    }
}

/// Reaps children, own and adopted, until the command has ended.
fn wait(command: Pid) -> Ended {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == command => return ended(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ended::NotConfined(1),
        }
    }
}

/// As a shell reports it.
fn ended(status: WaitStatus) -> Ended {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    Ended::Code(signal.or(status.exit_status()).unwrap_or(-1))
}

fn send(reporting: &OwnedFd, report: Report) {
    let _ = rustix::io::write(reporting.as_fd(), &report.encode());
}
