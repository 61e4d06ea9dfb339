//! Terminals that a command makes for its own children. The machine's terminals stand in the same folder, so that Landlock
//! grants none of them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Pid;

use crate::supervise::tree;

/// Where terminals have their names.
const FOLDER: &str = "/dev/pts";
/// The device of the master ends.
const MASTERS: (u32, u32) = (5, 2);

/// Returns whether a process of the command has the master end of the terminal at a real path.
pub(super) fn is_of_command(path: &Path) -> bool {
    if path.parent() != Some(Path::new(FOLDER)) {
        return false;
    }
    let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
    number.is_some_and(|number| tree::descendants().iter().any(|pid| has_master(*pid, number)))
}

fn has_master(pid: Pid, number: u32) -> bool {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    // A process that cannot be looked at has none.
    let Ok(open) = fs::read_dir(format!("{folder}/fd")) else { return false };
    open.flatten().any(|entry| {
        let is_master = fs::metadata(entry.path())
            .is_ok_and(|found| found.rdev() == rustix::fs::makedev(MASTERS.0, MASTERS.1));
        let facts = Path::new(&folder).join("fdinfo").join(entry.file_name());
        // tidy: open a file of the kernel.
        is_master && fs::read_to_string(facts).is_ok_and(|facts| index(&facts) == Some(number))
    })
}

/// The number of the terminal whose master end a file is.
fn index(facts: &str) -> Option<u32> {
    facts.lines().find_map(|line| line.strip_prefix("tty-index:"))?.trim().parse().ok()
}
