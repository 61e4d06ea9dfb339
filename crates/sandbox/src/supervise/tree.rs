//! The processes below this one: found through `/proc`, signalled, and waited for.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

/// Every process below this one. This process adopts orphans, so that a process which made itself
/// independent of its parent is still found.
pub(crate) fn descendants() -> Vec<Pid> {
    let mut found = children(rustix::process::getpid());
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid));
        next += 1;
    }
    found
}

/// Sends `signal` to each; one that is gone or belongs to somebody else is passed over.
pub(crate) fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = rustix::process::kill_process(*pid, signal);
    }
}

/// What waiting without blocking found.
pub(crate) enum Reaped {
    Ended(Pid, WaitStatus),
    /// There are children, none has ended.
    Nothing,
    NoChildren,
}

/// Takes one ended child, of our own or adopted.
pub(crate) fn reap() -> Reaped {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => return Reaped::Ended(pid, status),
            Ok(None) => return Reaped::Nothing,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Reaped::NoChildren,
        }
    }
}

/// The children of one process, of all its threads.
fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return Vec::new();
    };
    threads
        // tidy: open the kernel's own.
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(parse).collect::<Vec<_>>())
        .collect()
}

fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}
