//! Control groups (version 2) for commands: below that of the server, a folder for the server's commands, in it one for
//! each group of commands, and in that one for each command. The kernel then enforces limits and kills all processes of
//! a command at once.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::limits::{Maxima, Scope};

/// The folder for the commands of this server, which it removes at its end.
#[derive(Debug)]
pub(crate) struct CommandGroups {
    folder: PathBuf,
    /// The controllers that work there.
    controllers: Vec<&'static str>,
}

const MEMORY: &str = "memory";
const PROCESSES: &str = "pids";
const PROCESSOR: &str = "cpu";
/// In the order in which they are switched on.
const WANTED: [&str; 3] = [MEMORY, PROCESSES, PROCESSOR];

/// Begins the name of a folder of commands.
const PREFIX: &str = "agentd-";
/// The server's own folder next to it: only folders without processes pass controllers on.
const SERVER: &str = "agentd-server";
/// The share of processors of all commands together, where the server has 100.
const WEIGHT: &str = "50";

impl CommandGroups {
    /// Makes the folder, after removing those that killed servers left behind.
    ///
    /// # Errors
    /// A reason in words: the server may not make control groups.
    pub(crate) fn make() -> Result<Self, String> {
        let own = own_folder()?;
        remove_left(&own);
        let folder = own.join(own_name().map_err(|error| error.to_string())?);
        fs::create_dir(&folder).map_err(|error| {
            format!("{} is not delegated to the server ({error})", own.display())
        })?;
        let mut made = Self { folder, controllers: Vec::new() };
        made.controllers = enable(&own);
        enable(&made.folder);
        if made.controllers.contains(&PROCESSOR) {
            // Without it, commands have the share of the server.
            let _ = write(&made.folder, "cpu.weight", WEIGHT);
        }
        Ok(made)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns whether the kernel can limit memory and processes there.
    pub(crate) fn limits(&self) -> bool {
        self.controllers.contains(&MEMORY) && self.controllers.contains(&PROCESSES)
    }

    /// The controllers in words.
    pub(crate) fn describe(&self) -> String {
        match self.controllers.as_slice() {
            [] => format!("{} has no controllers", self.folder.display()),
            controllers => format!("{} in {}", controllers.join(", "), self.folder.display()),
        }
    }
}

impl Drop for CommandGroups {
    fn drop(&mut self) {
        // Supervisors that are still at work remove the rest.
        remove_below(&self.folder);
    }
}

/// The folder of this process's control group.
fn own_folder() -> Result<PathBuf, String> {
    // tidy: open a file of the kernel.
    let groups = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::")).ok_or_else(no_version_2)?;
    // tidy: open a file of the kernel.
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    let found = mounts.lines().find_map(|line| folder_in(line, Path::new(path)));
    let own = found.ok_or_else(no_version_2)?;
    // Moved by this program before: what it may divide is the folder above.
    let above = own.parent().filter(|_| own.file_name().is_some_and(|name| name == SERVER));
    Ok(above.map(Path::to_owned).unwrap_or(own))
}

fn no_version_2() -> String {
    "no control groups of version 2 are mounted for the server".to_owned()
}

/// Where a control group is, if `mount`, a line of `mountinfo`, shows it.
fn folder_in(mount: &str, group: &Path) -> Option<PathBuf> {
    let (about, kind) = mount.split_once(" - ")?;
    if !kind.starts_with("cgroup2 ") || group.components().any(|part| part.as_os_str() == "..") {
        return None;
    }
    let mut fields = about.split(' ').skip(3);
    let (root, at) = (unescaped(fields.next()?), unescaped(fields.next()?));
    Some(at.join(group.strip_prefix(root).ok()?))
}

/// A path in which spaces and backslashes are octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let number = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = number.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, number) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// A name for a folder of this server: its namespace of processes, its id there, its start, and a number.
fn own_name() -> io::Result<String> {
    static FOLDERS: AtomicU32 = AtomicU32::new(1);
    let namespace = fs::metadata("/proc/self/ns/pid")?.ino();
    let (pid, number) = (std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
    Ok(format!("{PREFIX}{namespace}-{pid}-{}-{number}", started(pid)?))
}

/// The start of a process, in the kernel's unit.
fn started(pid: u32) -> io::Result<u64> {
    // tidy: open a file of the kernel.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit_once(") ").map(|(_, rest)| rest);
    let field = after.and_then(|rest| rest.split(' ').nth(19)?.parse().ok());
    field.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Ends and removes what servers left behind that were killed together with the supervisors of their commands.
fn remove_left(own: &Path) {
    let Ok(namespace) = fs::metadata("/proc/self/ns/pid").map(|meta| meta.ino()) else { return };
    for folder in folders(own) {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let mut parts = rest.split('-').map(str::parse::<u64>);
        let (Some(Ok(place)), Some(Ok(pid)), Some(Ok(start))) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let is_alive = u32::try_from(pid).is_ok_and(|pid| started(pid).is_ok_and(|at| at == start));
        if place == namespace && !is_alive {
            let _ = write(&folder, "cgroup.kill", "1");
            remove_with_patience(&folder);
        }
    }
}

/// Removes a folder whose processes were just killed.
fn remove_with_patience(folder: &Path) {
    for _ in 0..20 {
        remove_below(folder);
        if !folder.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Removes a folder and those in it, as far as no process is there.
fn remove_below(folder: &Path) {
    folders(folder).iter().for_each(|inner| remove_below(inner));
    let _ = fs::remove_dir(folder);
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Switches the wanted controllers on for the folders in `folder`; returns those that are on.
fn enable(folder: &Path) -> Vec<&'static str> {
    let read = |file: &str| -> Vec<String> {
        // tidy: open a file of the kernel.
        let text = fs::read_to_string(folder.join(file)).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let available = read("cgroup.controllers");
    let mut is_moved = false;
    for controller in WANTED {
        let is_on = |list: &[String]| list.iter().any(|known| known == controller);
        if !is_on(&available) || is_on(&read("cgroup.subtree_control")) {
            continue;
        }
        let enabled = write(folder, "cgroup.subtree_control", &format!("+{controller}"));
        let is_busy = enabled.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY));
        if is_busy && !is_moved {
            is_moved = true;
            if move_server(folder) {
                let _ = write(folder, "cgroup.subtree_control", &format!("+{controller}"));
            }
        }
    }
    let on = read("cgroup.subtree_control");
    WANTED.into_iter().filter(|wanted| on.iter().any(|known| known == wanted)).collect()
}

/// Moves all processes of a delegated folder, if they are the server's, to a folder of their own. Returns whether none is
/// left.
fn move_server(folder: &Path) -> bool {
    /// Processes may start meanwhile.
    const ROUNDS: usize = 8;
    if !is_delegated(folder) {
        return false;
    }
    let server = folder.join(SERVER);
    for _ in 0..ROUNDS {
        let Ok(found) = processes_in(folder) else { return false };
        if found.is_empty() {
            return true;
        }
        if !found.iter().all(|pid| is_ours(*pid))
            || !(server.is_dir() || fs::create_dir(&server).is_ok())
        {
            return false;
        }
        for pid in found {
            // It may have ended.
            let _ = write(&server, "cgroup.procs", &pid.to_string());
        }
    }
    false
}

/// Returns whether the manager of the machine gave up this folder: by its mark, to another user, or as the root of a
/// container.
fn is_delegated(folder: &Path) -> bool {
    let mut value = [0; 8];
    let marked = ["user.delegate", "trusted.delegate"].iter().any(|mark| {
        let length = rustix::fs::getxattr(folder, *mark, &mut value);
        length.is_ok_and(|length| value.get(..length) == Some(b"1"))
    });
    // tidy: open a file of the kernel.
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    marked || !rustix::process::geteuid().is_root() || groups.lines().any(|line| line == "0::/")
}

fn processes_in(folder: &Path) -> io::Result<Vec<u32>> {
    // tidy: open a file of the kernel.
    let list = fs::read_to_string(folder.join("cgroup.procs"))?;
    Ok(list.lines().filter_map(|line| line.parse().ok()).collect())
}

/// Returns whether a process is this one or a descendant of it.
fn is_ours(pid: u32) -> bool {
    let mut at = pid;
    // Longer chains of parents are not the server's: it has just started.
    for _ in 0..16 {
        if at == std::process::id() {
            return true;
        }
        // tidy: open a file of the kernel.
        let stat = fs::read_to_string(format!("/proc/{at}/stat")).unwrap_or_default();
        let parent =
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        match parent {
            Some(parent) if parent > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

/// The control group of a command.
#[derive(Debug)]
pub(crate) struct CommandGroup {
    folder: PathBuf,
    opened: OwnedFd,
    /// True if the kernel counts processes and memory.
    pub(crate) counts: bool,
}

impl CommandGroup {
    /// Makes it for the command of this supervisor, in the folder of its group, which is made if there is none.
    ///
    /// # Errors
    /// The folder cannot be made, or the kernel refuses a limit.
    pub(crate) fn make(
        commands: &Path,
        group: u64,
        limits: &Maxima,
        together: &Maxima,
    ) -> io::Result<Self> {
        let above = commands.join(format!("group-{group}"));
        let folder = above.join(format!("command-{}", std::process::id()));
        make_in(&above, &folder)?;
        let counts = folder.join("memory.max").exists() && folder.join("pids.max").exists();
        if counts {
            limit(&above, together)?;
            limit(&folder, limits)?;
            write(&folder, "memory.oom.group", "1")?;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&folder, flags, Mode::empty())?;
        Ok(Self { folder, opened, counts })
    }

    pub(crate) fn opened(&self) -> BorrowedFd<'_> {
        self.opened.as_fd()
    }

    /// Kills all processes, which none can escape by starting others.
    pub(crate) fn kill(&self) -> io::Result<()> {
        write(&self.folder, "cgroup.kill", "1")
    }

    /// The time on processors in milliseconds.
    pub(crate) fn cpu_time(&self) -> Option<u64> {
        Some(number_of(&self.folder, "cpu.stat", "usage_usec")? / 1000)
    }

    /// Processes and threads of the command, and of its group.
    pub(crate) fn processes(&self) -> Option<(u64, u64)> {
        let read = |folder: &Path| -> Option<u64> {
            // tidy: open a file of the kernel.
            fs::read_to_string(folder.join("pids.current")).ok()?.trim().parse().ok()
        };
        Some((read(&self.folder)?, read(self.folder.parent()?)?))
    }

    /// Whose limit of memory made the kernel kill the command. `None`: it did not.
    pub(crate) fn out_of_memory(&self) -> Option<Scope> {
        if !self.counts || number_of(&self.folder, "memory.events", "oom_kill")? == 0 {
            return None;
        }
        let reached =
            |folder: &Path| number_of(folder, "memory.events.local", "oom").unwrap_or(0) > 0;
        match reached(&self.folder) {
            true => Some(Scope::Command),
            // Else the memory of the machine was at its end.
            false => self.folder.parent().filter(|above| reached(above)).map(|_| Scope::Group),
        }
    }

    /// Removes it, and the folder of its group if it was the last; `all`: that of the server's commands, too.
    pub(crate) fn remove(&self, all: bool) {
        let above = self.folder.ancestors().take(if all { 3 } else { 2 });
        // Not empty: others use it.
        let _ = above.into_iter().try_for_each(fs::remove_dir);
    }
}

/// Makes the folder of a command in that of its group. The last command of the group may remove that at any time.
fn make_in(above: &Path, folder: &Path) -> io::Result<()> {
    const TRIES: usize = 16;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for _ in 0..TRIES {
        match fs::create_dir(above) {
            Ok(()) => drop(enable(above)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        match fs::create_dir(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Sets the limits that the kernel enforces.
fn limit(folder: &Path, [memory, processes, ..]: &Maxima) -> io::Result<()> {
    let text =
        |limit: Option<u64>| limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string());
    write(folder, "memory.max", &text(*memory))?;
    // Swapping would only delay the end; kernels without swap have no such file.
    let swap = if memory.is_some() { "0" } else { "max" };
    match write(folder, "memory.swap.max", swap) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    write(folder, "pids.max", &text(*processes))
}

fn number_of(folder: &Path, file: &str, name: &str) -> Option<u64> {
    // tidy: open a file of the kernel.
    let text = fs::read_to_string(folder.join(file)).ok()?;
    let values = text.lines().filter_map(|line| line.split_once(' '));
    values.into_iter().find(|(key, _)| *key == name)?.1.trim().parse().ok()
}

fn write(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    // tidy: open a file of the kernel.
    fs::OpenOptions::new().write(true).open(folder.join(file))?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_mount() {
        let line = |root: &str, at: &str| {
            format!("41 31 0:38 {root} {at} rw,relatime shared:1 - cgroup2 cgroup2 rw")
        };
        let check = |line: &str, group: &str, expect: Option<&str>| {
            assert_eq!(folder_in(line, Path::new(group)), expect.map(PathBuf::from), "{line}");
        };
        check(&line("/", "/sys/fs/cgroup"), "/a/b", Some("/sys/fs/cgroup/a/b"));
        check(&line("/", "/sys/fs/cgroup"), "/", Some("/sys/fs/cgroup/"));
        check(&line("/docker/1", "/sys/fs/cgroup"), "/docker/1/x", Some("/sys/fs/cgroup/x"));
        check(&line("/docker/1", "/sys/fs/cgroup"), "/other", None);
        check(&line("/", "/sys/fs/cgroup"), "/../outside", None);
        check(&line("/", r"/sys/my\040groups"), "/a", Some("/sys/my groups/a"));
        check("41 31 0:38 / /sys rw - tmpfs tmpfs rw", "/a", None);
    }
}
