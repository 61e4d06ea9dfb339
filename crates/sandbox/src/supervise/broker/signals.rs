//! Decides about signals on kernels whose Landlock does not (before Linux 6.12): a command signals its own processes, and no
//! others of the machine. The kernel goes on with a call that is allowed: its arguments are numbers, which stay the same.

use rustix::io::Errno;
use rustix::process::Pid;

use super::outcome::{Outcome, int};
use crate::linux::notify::Call;
use crate::linux::seccomp;
use crate::supervise::tree;

/// The end of a call that sends a signal; `None` for another call.
pub(super) fn decide(call: &Call) -> Option<Result<Outcome, Errno>> {
    let number = libc::c_long::from(call.number);
    let is_signal = seccomp::SIGNALS.contains(&number);
    is_signal.then(|| match is_own(int(call.arguments[0])) {
        true => Ok(Outcome::Continue),
        false => Err(Errno::PERM),
    })
}

/// Returns whether a number, as `kill` takes it, is that of processes of the command alone.
fn is_own(target: i32) -> bool {
    match target {
        // The group of the caller, which has a session that the command has begun.
        0 => true,
        1.. => process_of(target).is_some_and(|process| tree::descendants().contains(&process)),
        // Every process of the user.
        -1 => false,
        // A group is in one session, so that one process of the command stands for all of it.
        _ => tree::descendants().iter().any(|process| {
            let group = rustix::process::getpgid(Some(*process));
            group.is_ok_and(|group| Some(group) == Pid::from_raw(-target))
        }),
    }
}

/// The process of a thread.
fn process_of(thread: i32) -> Option<Pid> {
    // tidy: open a file of the kernel.
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(process.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process is not below itself, and neither is the one that has started it.
    #[test]
    fn processes_of_others_are_not_signalled() {
        let itself = rustix::process::getpid().as_raw_nonzero().get();
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        for other in [1, itself, -1, -group, i32::MAX, i32::MIN + 1] {
            assert!(!is_own(other), "{other}");
        }
        assert!(is_own(0));
    }
}
