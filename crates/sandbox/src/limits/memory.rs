//! The memory of the machine, or of the container that the server runs in.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory that commands can use in total, in bytes: that of the machine, or less where a control group of this
/// process limits it. `None`: the kernel does not say.
pub fn machine_memory() -> Option<u64> {
    // tidy: open a file of the kernel.
    let installed = installed(&fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(limits_of_groups().min().map_or(installed, |limit| limit.min(installed)))
}

fn installed(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits of the control groups of both versions, from this process's up to the root.
fn limits_of_groups() -> impl Iterator<Item = u64> {
    // tidy: open a file of the kernel.
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let folders: Vec<(PathBuf, &str)> = groups
        .lines()
        .filter_map(|line| {
            let (kind, path) = line.split_once(':')?.1.split_once(':')?;
            match kind {
                "" => Some((Path::new("/sys/fs/cgroup").join(path.get(1..)?), "memory.max")),
                "memory" => {
                    let folder = Path::new("/sys/fs/cgroup/memory").join(path.get(1..)?);
                    Some((folder, "memory.limit_in_bytes"))
                }
                _ => None,
            }
        })
        .collect();
    folders.into_iter().flat_map(|(folder, file)| {
        let above = folder.ancestors().map(|folder| folder.join(file));
        // tidy: open a file of the kernel.
        let read = |file: PathBuf| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
        above.filter_map(read).collect::<Vec<u64>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read() {
        let text = "MemTotal:       16318452 kB\nMemFree:         1 kB\n";
        assert_eq!(installed(text), Some(16_318_452 * 1024));
        assert_eq!(installed("MemFree: 1 kB\n"), None);
        assert!(machine_memory().is_some_and(|bytes| bytes > 64 << 20));
    }
}
