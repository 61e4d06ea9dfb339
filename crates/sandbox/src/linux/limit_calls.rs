//! System calls that measure and limit processes, without wrappers elsewhere.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit};

use super::sys::{Forked, check};

/// The use of processes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// In milliseconds.
    pub(crate) cpu_time: u64,
    /// In bytes.
    pub(crate) disk_written: u64,
}

/// The use of the reaped descendants of this process.
pub(crate) fn reaped() -> Used {
    /// Bytes of a block, whatever the file system.
    const BLOCK: u64 = 512;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure, which is valid when it is zeroed.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let milliseconds = |time: libc::timeval| {
        let parts = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
        parts.0.unwrap_or(0) * 1000 + parts.1.unwrap_or(0) / 1000
    };
    Used {
        cpu_time: milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime),
        disk_written: u64::try_from(usage.ru_oublock).unwrap_or(0) * BLOCK,
    }
}

/// The time that this process has spent on processors.
pub(crate) fn own_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The units of processor time in files of the kernel, a second.
pub(crate) fn ticks_per_second() -> u64 {
    // SAFETY: passes no memory.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}

/// Limits the size of files that this process and its children write, and lowers their priority.
pub(crate) fn restrain(file_size: Option<u64>, nice: u8) -> io::Result<()> {
    if let Some(size) = file_size {
        let known = rustix::process::getrlimit(Resource::Fsize);
        let size = known.maximum.map_or(size, |hard| hard.min(size));
        let limit = Rlimit { current: Some(size), maximum: Some(size) };
        rustix::process::setrlimit(Resource::Fsize, limit)?;
    }
    if nice > 0 {
        let own = rustix::process::getpriority_process(None)?;
        rustix::process::setpriority_process(None, (own + i32::from(nice)).min(19))?;
    }
    Ok(())
}

/// Lets a process start no more processes; root still can.
pub(crate) fn forbid_processes(pid: Pid) {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Fails for processes that have ended, and for those of another user.
    let _ = rustix::process::prlimit(Some(pid), Resource::Nproc, none);
}

/// The kernel's `struct clone_args`, up to the control group.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pid_descriptor: u64,
    child_thread: u64,
    parent_thread: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    thread_storage: u64,
    set_thread: u64,
    set_thread_size: u64,
    control_group: u64,
}

/// Forks into new namespaces and a control group. Moving a process there later would take the kernel milliseconds.
///
/// # Safety
/// The process must have only one thread, because the child allocates and takes locks.
pub(crate) unsafe fn fork_into_group(
    namespaces: libc::c_int,
    group: BorrowedFd<'_>,
) -> io::Result<Forked> {
    const INTO_CONTROL_GROUP: u64 = 0x2_0000_0000;
    let is_sibling = namespaces & libc::CLONE_PARENT != 0;
    let arguments = CloneArguments {
        flags: u64::from(namespaces.cast_unsigned()) | INTO_CONTROL_GROUP,
        // A sibling's is that of this process.
        exit_signal: if is_sibling { 0 } else { u64::from(libc::SIGCHLD.cast_unsigned()) },
        control_group: u64::try_from(group.as_raw_fd()).map_err(io::Error::other)?,
        ..CloneArguments::default()
    };
    // SAFETY: the structure has the given size and outlives the call. Without a stack and without sharing memory, this
    // is a fork; the caller guarantees the rest.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArguments>())
    };
    match check(pid)? {
        0 => Ok(Forked::Child),
        pid => i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .map(Forked::Parent)
            .ok_or_else(|| io::Error::other("clone3")),
    }
}
