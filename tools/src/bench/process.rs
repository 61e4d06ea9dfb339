//! CPU time and memory of a running process and its children, as reported by Linux. Reads only
//! `/proc`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// Nanoseconds of one tick of `/proc/<pid>/stat`; Linux reports a hundred per second to every
/// program.
const TICK: u64 = 10_000_000;

/// Returns the CPU time that a process and its children have used so far.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let mut total = 0;
    for process in family(pid) {
        let folder = Path::new("/proc").join(process.to_string());
        let stat = std::fs::read_to_string(folder.join("stat"));
        let ticks = match stat {
            Ok(stat) => stat_ticks(&stat).with_context(|| format!("/proc/{process}/stat"))?,
            // A child may have ended since the list was read.
            Err(_) if process != pid => continue,
            Err(error) => return Err(error).context("the server has exited"),
        };
        // Ticks are coarse and include ended threads; the scheduler's figures are exact and cover
        // only live threads. The larger value is the more accurate.
        total += scheduled(&folder).max(ticks * TICK);
    }
    Ok(Duration::from_nanos(total))
}

/// Returns the current resident memory, in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    memory(pid, "VmRSS")
}

/// Returns the current resident memory that is not backed by a file, in bytes.
pub(crate) fn anonymous(pid: u32) -> Result<u64> {
    memory(pid, "RssAnon")
}

/// Returns the peak resident memory so far, in bytes; children count with their current memory.
pub(crate) fn peak(pid: u32) -> Result<u64> {
    memory(pid, "VmHWM")
}

/// Returns the unshared memory of a single process, in bytes, without the kernel's rounding.
pub(crate) fn private(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let of = |name| status_field(&text, name).with_context(|| format!("no {name}"));
    Ok(of("Private_Clean")? + of("Private_Dirty")?)
}

/// Returns the number of processes, the process and its children, and of their descriptors.
pub(crate) fn held(pid: u32) -> (usize, usize) {
    let processes = family(pid);
    let files = |process: &u32| {
        std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |entries| entries.count())
    };
    (processes.len(), processes.iter().map(files).sum())
}

/// Returns cores, processor, memory and kernel; nothing that identifies the machine.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let gigabytes = status_field(&read("/proc/meminfo"), "MemTotal").unwrap_or(0) >> 30;
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    format!("{cores} cores ({model}), {gigabytes} GB memory, Linux {kernel}")
}

/// Returns the share of all cores' time in use during `over`, from 0 to 1.
pub(crate) fn busy(over: Duration) -> Result<f64> {
    let before = core_ticks()?;
    std::thread::sleep(over);
    let after = core_ticks()?;
    let [used, all] = [after.0 - before.0, after.1 - before.1];
    Ok(used as f64 / (all as f64).max(1.0))
}

/// Returns ticks of all cores since boot: in use, and in total.
fn core_ticks() -> Result<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; later fields are also counted in user.
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Ok((all - idle, all))
}

fn memory(pid: u32, field: &str) -> Result<u64> {
    let mut total = 0;
    for process in family(pid) {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"));
        // A child's peak may be from another time.
        let name = if process == pid || field != "VmHWM" { field } else { "VmRSS" };
        match status.ok().as_deref().and_then(|text| status_field(text, name)) {
            Some(bytes) => total += bytes,
            None if process != pid => {}
            None => anyhow::bail!("/proc/{process}/status has no {name}: the server has exited"),
        }
    }
    Ok(total)
}

/// Returns a process and its descendants, itself first.
fn family(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(parent) = found.get(at) {
        for task in tasks(&Path::new("/proc").join(parent.to_string())) {
            let children = std::fs::read_to_string(task.join("children")).unwrap_or_default();
            found.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        at += 1;
    }
    found
}

fn tasks(process: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(process.join("task")).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Returns the CPU time of the live threads, in nanoseconds.
fn scheduled(process: &Path) -> u64 {
    let of_task = |task: PathBuf| -> Option<u64> {
        std::fs::read_to_string(task.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    tasks(process).into_iter().filter_map(of_task).sum()
}

/// Returns `utime` + `stime`; the program's name before them may contain spaces and parentheses.
fn stat_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Returns a field such as `VmRSS:  1234 kB`, in bytes.
fn status_field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_proc_are_parsed() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20 0 1";
        assert_eq!(stat_ticks(stat), Some(150));
        assert_eq!(stat_ticks("7 (a"), None);
        assert_eq!(status_field("VmHWM:\t  20 kB\nVmRSS:\t  12 kB\n", "VmRSS"), Some(12 * 1024));
        assert_eq!(status_field("VmRSSX: 1 kB", "VmRSS"), None);
    }

    #[test]
    fn the_current_process_has_usage() {
        let own = std::process::id();
        assert!(resident(own).unwrap() > 0);
        assert!(peak(own).unwrap() >= resident(own).unwrap() / 2);
        assert!(cpu(own).unwrap() > Duration::ZERO);
        assert!(machine().contains("Linux"));
        let (used, all) = core_ticks().unwrap();
        assert!(0 < used && used < all);
    }
}
