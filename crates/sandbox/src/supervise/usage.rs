//! Measures what the descendants of a supervisor use, from `/proc`.
//!
//! Processor time and written bytes of a process move to its parent when that reaps it. They are read from the top down,
//! so that what moves meanwhile is missed once and never counted twice.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use rustix::process::Pid;

use super::tree;
use crate::linux::limit_calls;

/// The use of the descendants of this process.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Memory and swap of their own in bytes; memory that processes share counts for each of them.
    pub(super) memory: u64,
    /// With their threads.
    pub(super) processes: u64,
    /// In milliseconds, with that of ended ones.
    pub(super) cpu_time: u64,
    /// In bytes, with those of ended ones.
    pub(super) disk_written: u64,
    pids: Vec<Pid>,
    /// Bytes in their own `/dev/shm`.
    shared_files: u64,
}

/// The threads of all processes of the machine, or of the container.
pub(super) fn threads_of_machine() -> Option<u64> {
    // tidy: open a file of the kernel.
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    threads_in(&load)
}

/// As in `0.20 0.18 0.12 1/80 11206`.
fn threads_in(load: &str) -> Option<u64> {
    load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Measures all descendants, or only counts them if they are more than `most`. `unread` are bytes written by processes
/// that were reaped by one whose files this process cannot read.
pub(super) fn measure(most: u64, unread: u64) -> Measured {
    let reaped = limit_calls::reaped();
    let pids = tree::descendants_up_to(usize::try_from(most).unwrap_or(usize::MAX));
    let mut found = Measured {
        cpu_time: reaped.cpu_time,
        disk_written: reaped.disk_written,
        processes: u64::try_from(pids.len()).unwrap_or(u64::MAX),
        ..Measured::default()
    };
    if found.processes > most {
        return found;
    }
    found.processes = 0;
    let mut hidden = unread;
    for pid in &pids {
        let Some(status) = read(*pid, "status") else { continue };
        found.processes += number_after(&status, "Threads:").unwrap_or(1);
        found.memory += memory_in(&status);
        found.cpu_time += read(*pid, "stat").and_then(|stat| cpu_time_in(&stat)).unwrap_or(0);
        match read(*pid, "io").and_then(|io| written_in(&io)) {
            Some(bytes) => found.disk_written += bytes,
            // The first process of namespaces reports what it knows.
            None => found.disk_written += std::mem::take(&mut hidden),
        }
    }
    found.shared_files = pids.iter().find_map(|pid| shared_files(*pid)).unwrap_or(0);
    found.memory += found.shared_files;
    found.pids = pids;
    found
}

impl Measured {
    /// The memory with each page counted once. Takes the kernel a millisecond for some 100 MB.
    pub(super) fn exact_memory(&self) -> u64 {
        let exact = |pid: &Pid| {
            let rollup = read(*pid, "smaps_rollup").map(|text| {
                ["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]
                    .into_iter()
                    .filter_map(|name| kilobytes(&text, name))
                    .sum::<u64>()
            });
            // A process of another user, or one that is protected, has little.
            rollup.or_else(|| read(*pid, "status").map(|status| own_memory_in(&status)))
        };
        // Files of `/dev/shm` that processes have mapped are in both.
        self.pids.iter().filter_map(exact).sum::<u64>().max(self.shared_files)
    }
}

fn read(pid: Pid, file: &str) -> Option<String> {
    // tidy: open a file of the kernel.
    fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).ok()
}

fn memory_in(status: &str) -> u64 {
    own_memory_in(status) + kilobytes(status, "RssShmem:").unwrap_or(0)
}

fn own_memory_in(status: &str) -> u64 {
    ["RssAnon:", "VmSwap:"].into_iter().filter_map(|name| kilobytes(status, name)).sum()
}

/// The processor time of a process and of those that it reaped, in milliseconds.
fn cpu_time_in(stat: &str) -> Option<u64> {
    static TICKS: OnceLock<u64> = OnceLock::new();
    let (_, rest) = stat.rsplit_once(") ")?;
    let times = rest.split(' ').skip(11).take(4);
    let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Some(ticks * 1000 / TICKS.get_or_init(limit_calls::ticks_per_second))
}

/// The bytes that a process and those that it reaped wrote. What was removed again before it was stored does not count.
fn written_in(io: &str) -> Option<u64> {
    let written = number_after(io, "write_bytes:")?;
    Some(written.saturating_sub(number_after(io, "cancelled_write_bytes:").unwrap_or(0)))
}

/// The bytes in `/dev/shm` of a process, if that is a file system of its own.
fn shared_files(pid: Pid) -> Option<u64> {
    let own = format!("/proc/{}/root/dev/shm", pid.as_raw_nonzero());
    let device = fs::metadata(&own).ok()?.dev();
    if fs::metadata("/dev/shm").is_ok_and(|machine| machine.dev() == device) {
        return Some(0);
    }
    let found = rustix::fs::statvfs(own.as_str()).ok()?;
    Some(found.f_blocks.saturating_sub(found.f_bfree) * found.f_frsize)
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    Some(number_after(text, name)? * 1024)
}

/// The number on the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let status =
            "Name:\tsh\nVmSwap:\t  3 kB\nRssAnon:\t  10 kB\nRssShmem:\t 4 kB\nThreads:\t7\n";
        assert_eq!(memory_in(status), 17 * 1024);
        assert_eq!(own_memory_in(status), 13 * 1024);
        assert_eq!(number_after(status, "Threads:"), Some(7));
        let io = "wchar: 9\nwrite_bytes: 8192\ncancelled_write_bytes: 4096\n";
        assert_eq!(written_in(io), Some(4096));
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 1 0 0 10 20 30 40 20 0 1 0 5 6 7";
        let ticks = limit_calls::ticks_per_second();
        assert_eq!(cpu_time_in(stat), Some(100 * 1000 / ticks));
    }

    #[test]
    fn own_process_is_measured() {
        let pid = rustix::process::getpid();
        let status = read(pid, "status").unwrap();
        assert!(memory_in(&status) > 100_000, "{status}");
        assert!(written_in(&read(pid, "io").unwrap()).is_some());
    }
}
