//! The descendants of this process: finds them through `/proc`, signals and reaps them.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::linux::limit_calls;

/// All descendants of this process, parents before their children. It adopts orphans, so daemons are found as well.
pub(crate) fn descendants() -> Vec<Pid> {
    descendants_up_to(usize::MAX)
}

/// As [`descendants`]; ends the search when more than `most` are found.
pub(crate) fn descendants_up_to(most: usize) -> Vec<Pid> {
    walk(most, |_| {})
}

/// Kills all descendants of this process, even if they start others as fast as they can: no member of a process group
/// starts another while the kernel kills the group, and a process outside of those is stopped before its children are
/// looked for.
pub(crate) fn kill_all() {
    let own = rustix::process::getpgrp();
    let mut killed = HashSet::new();
    let found = walk(usize::MAX, |pid| {
        // The groups of descendants have no other members: each command has a session of its own.
        let group = rustix::process::getpgid(Some(pid)).ok().filter(|group| *group != own);
        if let Some(group) = group.filter(|group| killed.insert(*group)) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        limit_calls::forbid_processes(pid);
        let _ = rustix::process::kill_process(pid, Signal::STOP);
    });
    signal(&found, Signal::KILL);
}

/// Kills the children of this process.
pub(crate) fn kill_children() {
    signal(&children(rustix::process::getpid()), Signal::KILL);
}

fn walk(most: usize, mut meet: impl FnMut(Pid)) -> Vec<Pid> {
    let mut found = children(rustix::process::getpid());
    let mut next = 0;
    while let Some(pid) = found.get(next).copied()
        && found.len() <= most
    {
        meet(pid);
        found.extend(children(pid));
        next += 1;
    }
    found
}

/// Sends `signal` to each process; skips those that have ended or belong to another user.
pub(crate) fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = rustix::process::kill_process(*pid, signal);
    }
}

/// The result of waiting without blocking.
pub(crate) enum Reaped {
    Ended(Pid, WaitStatus),
    /// No child has ended.
    Nothing,
    NoChildren,
}

/// Reaps an ended child, own or adopted.
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

/// The children of all threads of a process.
fn children(pid: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
        return Vec::new();
    };
    threads
        // tidy: open a file of the kernel.
        .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(parse).collect::<Vec<_>>())
        .collect()
}

fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}
