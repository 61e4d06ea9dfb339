//! Makes the file system of a confined command, in the namespaces of the calling process.
//!
//! Each file and folder is opened once and mounted by its descriptor. Where it appears in a copy of the
//! machine's own tree, the place must be the same file: a folder that another process has renamed meanwhile is
//! noticed.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::mount_calls::{self, NO_DEVICES, NO_EXEC, NO_SUID, READ_ONLY};
use super::view::{Missing, Step, View, Writable};

/// Devices that every command can use.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Symbolic links in `/dev`, and where they lead.
const DEVICE_LINKS: [(&CStr, &str); 6] = [
    (c"/proc/self/fd/0", "stdin"),
    (c"/proc/self/fd/1", "stdout"),
    (c"/proc/self/fd/2", "stderr"),
    (c"/proc/self/fd", "fd"),
    (c"/proc/kcore", "core"),
    (c"pts/ptmx", "ptmx"),
];
/// A step that found another file than before.
const CHANGED: &str = "it changed while it was mounted:";
/// The mode of folders that are made.
const FOLDER: Mode = Mode::from_raw_mode(0o755);

/// A step that failed, and why.
#[derive(Debug)]
pub(crate) struct Failed {
    step: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.step, self.path.display(), self.error)
    }
}

fn at<'a, E: Into<io::Error>>(
    step: &'static str,
    path: &'a Path,
) -> impl FnOnce(E) -> Failed + use<'a, E> {
    move |error| Failed { step, path: path.to_owned(), error: error.into() }
}

/// Makes `view` the root of this process, which must have namespaces for users, mounts and processes of its own. What
/// each command has for itself, [`own`] mounts.
///
/// # Errors
/// The step that failed.
pub(crate) fn enter(view: &View) -> Result<(), Failed> {
    let root = Path::new("/");
    mount_calls::make_private().map_err(at("making the mounts private below", root))?;
    let mut tree = Tree::new(view.whole)?;
    for step in &view.steps {
        tree.take(step)?;
    }
    if view.whole.is_none() {
        let frozen = mount_calls::set_attributes(tree.top.as_fd(), READ_ONLY, false);
        frozen.map_err(at("making read-only", root))?;
    }
    rustix::process::fchdir(&tree.top).map_err(at("entering the new", root))?;
    mount_calls::change_root().map_err(at("changing to the new", root))
}

/// Mounts what a command shares with no other one below the root of this process: its processes, shared memory and
/// terminals.
///
/// # Errors
/// The step that failed.
pub(crate) fn own(processes: Option<u64>) -> Result<(), Failed> {
    let mount = |path: &Path, made: io::Result<OwnedFd>| {
        let made = made.map_err(at("making", path))?;
        let place = open(CWD, path, ResolveFlags::NO_SYMLINKS).map_err(at("opening", path))?;
        mount_calls::attach(made.as_fd(), place.as_fd()).map_err(at("mounting", path))
    };
    mount(Path::new("/proc"), limited_processes(processes))?;
    let memory =
        mount_calls::new_file_system(c"tmpfs", &[(c"mode", c"1777")], NO_SUID | NO_DEVICES);
    mount(Path::new("/dev/shm"), memory)?;
    let options: [(&CStr, &CStr); 2] = [(c"ptmxmode", c"0666"), (c"mode", c"620")];
    let terminals = mount_calls::new_file_system(c"devpts", &options, NO_SUID | NO_EXEC);
    mount(Path::new("/dev/pts"), terminals)
}

/// Mounts a file or folder read-only at its place, if it is the one with this device and inode.
///
/// # Errors
/// It is another one, or the step that failed.
pub(crate) fn make_read_only(path: &Path, file: (u64, u64)) -> Result<(), Failed> {
    let place = open(CWD, path, ResolveFlags::NO_SYMLINKS).map_err(at("opening", path))?;
    let found = rustix::fs::fstat(&place).map_err(at("looking at", path))?;
    if (found.st_dev, found.st_ino) != file {
        return Err(at(CHANGED, path)(Errno::STALE));
    }
    let tree = copy(place.as_fd(), false).map_err(at("copying", path))?;
    mount_calls::attach(tree.as_fd(), place.as_fd()).map_err(at("mounting", path))
}

/// [`processes`], of which the kernel lets no more be made than `most`, where it can. That keeps a command that multiplies
/// from taking the whole machine's until its supervisor ends it.
fn limited_processes(most: Option<u64>) -> io::Result<OwnedFd> {
    let Some(most) = most.filter(|_| mount_calls::has_own_process_numbers()) else {
        return processes();
    };
    let writable = NO_SUID | NO_DEVICES | NO_EXEC;
    // Refused where the machine's own is read-only.
    let Ok(made) = mount_calls::new_file_system(c"proc", &[], writable) else { return processes() };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(number) = rustix::fs::openat(&made, "sys/kernel/pid_max", flags, Mode::empty()) {
        let most = most.clamp(LEAST_NUMBERS, MOST_NUMBERS);
        // Without it the supervisor's watch is the only limit.
        let _ = rustix::io::write(&number, most.to_string().as_bytes());
    }
    mount_calls::set_attributes(made.as_fd(), READ_ONLY, false)?;
    Ok(made)
}

/// The kernel's bounds of the numbers of a namespace's processes.
const LEAST_NUMBERS: u64 = 301;
const MOST_NUMBERS: u64 = 4 << 20;

/// The processes of this process's namespace.
fn processes() -> io::Result<OwnedFd> {
    mount_calls::new_file_system(c"proc", &[], READ_ONLY | NO_SUID | NO_DEVICES | NO_EXEC)
}

/// The tree while it is made.
struct Tree {
    top: OwnedFd,
    /// Devices of the folders that were made here: what appears in them is another file than at that place
    /// on the machine.
    made: Vec<u64>,
}

impl Tree {
    fn new(whole: Option<Writable>) -> Result<Self, Failed> {
        let root = Path::new("/");
        let old = open(CWD, root, ResolveFlags::empty()).map_err(at("opening", root))?;
        let (top, made) = match whole {
            Some(writable) => (copy(old.as_fd(), writable).map_err(at("copying", root))?, None),
            None => {
                let made = empty_folder().map_err(at("making an empty folder for", root))?;
                let device = device(&made).map_err(at("looking at", root))?;
                (made, Some(device))
            }
        };
        // It covers the root for names that are looked up from there, not for this process, whose root is below it.
        mount_calls::attach(top.as_fd(), old.as_fd()).map_err(at("mounting", root))?;
        Ok(Self { top, made: made.into_iter().collect() })
    }

    fn take(&mut self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::Show { path, writable, missing } => self.show(path, *writable, *missing),
            Step::Empty(path) => self.empty(path),
            Step::Cover(path) => self.cover(path),
            Step::Freeze(path) => {
                let folder = self.place(path).map_err(at("opening", path))?;
                let frozen = mount_calls::set_attributes(folder.as_fd(), READ_ONLY, false);
                frozen.map_err(at("making read-only", path))
            }
            Step::Processes => {
                let path = Path::new("/proc");
                self.put(&processes().map_err(at("making", path))?, path)
            }
            Step::Devices => self.devices(),
            Step::Link { at: from, to } => {
                let folder = self.parent(from).map_err(at("making the folder of", from))?;
                let name = from.file_name().unwrap_or_default();
                rustix::fs::symlinkat(to, folder, name).map_err(at("making the link", from))
            }
        }
    }

    fn show(&mut self, path: &Path, writable: Writable, missing: Missing) -> Result<(), Failed> {
        // Paths that were decided about are real: a link on the way is new.
        let is_real = writable || missing == Missing::Refused;
        let how = if is_real { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::NO_MAGICLINKS };
        let source = match open(CWD, path, how) {
            Ok(source) => source,
            Err(Errno::NOENT | Errno::NOTDIR) if missing == Missing::Skipped => return Ok(()),
            Err(error) => return Err(at("opening", path)(error)),
        };
        let found = rustix::fs::fstat(&source).map_err(at("looking at", path))?;
        let tree = copy(source.as_fd(), writable).map_err(at("copying", path))?;
        let place = self.made_place(path, is_folder(&found));
        let place = place.map_err(at("making a place for", path))?;
        let there = rustix::fs::fstat(&place).map_err(at("looking at", path))?;
        let same = (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino);
        if !same && !self.made.contains(&there.st_dev) {
            return Err(at(CHANGED, path)(Errno::STALE));
        }
        mount_calls::attach(tree.as_fd(), place.as_fd()).map_err(at("mounting", path))
    }

    fn empty(&mut self, path: &Path) -> Result<(), Failed> {
        let folder = empty_folder().map_err(at("making an empty folder for", path))?;
        self.made.push(device(&folder).map_err(at("looking at", path))?);
        self.put(&folder, path)
    }

    fn cover(&mut self, path: &Path) -> Result<(), Failed> {
        let cover = Path::new("/dev/null");
        let cover = open(CWD, cover, ResolveFlags::empty()).map_err(at("opening", cover))?;
        let tree = copy(cover.as_fd(), false).map_err(at("covering", path))?;
        let place = self.made_place(path, false).map_err(at("making a place for", path))?;
        mount_calls::attach(tree.as_fd(), place.as_fd()).map_err(at("mounting", path))
    }

    fn devices(&mut self) -> Result<(), Failed> {
        let path = Path::new("/dev");
        let folder = empty_folder().map_err(at("making", path))?;
        self.made.push(device(&folder).map_err(at("looking at", path))?);
        self.put(&folder, path)?;
        for name in DEVICES {
            let path = &path.join(name);
            let source = open(CWD, path, ResolveFlags::empty()).map_err(at("opening", path))?;
            let tree = mount_calls::copy_tree(source.as_fd()).map_err(at("copying", path))?;
            let attributes = mount_calls::set_attributes(tree.as_fd(), NO_SUID, false);
            attributes.map_err(at("mounting", path))?;
            let place = made_file(folder.as_fd(), Path::new(name)).map_err(at("making", path))?;
            mount_calls::attach(tree.as_fd(), place.as_fd()).map_err(at("mounting", path))?;
        }
        for (to, name) in DEVICE_LINKS {
            rustix::fs::symlinkat(to, &folder, name).map_err(at("making a link in", path))?;
        }
        for name in ["shm", "pts"] {
            rustix::fs::mkdirat(&folder, name, FOLDER).map_err(at("making a folder in", path))?;
        }
        let frozen = mount_calls::set_attributes(folder.as_fd(), READ_ONLY, false);
        frozen.map_err(at("making read-only", path))
    }

    /// Attaches a new file system at a folder.
    fn put(&self, made: &OwnedFd, path: &Path) -> Result<(), Failed> {
        let place = self.made_place(path, true).map_err(at("making a place for", path))?;
        mount_calls::attach(made.as_fd(), place.as_fd()).map_err(at("mounting", path))
    }

    /// The file at a path of the new tree.
    fn place(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        open(self.top.as_fd(), path, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS)
    }

    /// The same; makes a folder or an empty file if there is nothing.
    fn made_place(&self, path: &Path, folder: bool) -> rustix::io::Result<OwnedFd> {
        match self.place(path) {
            Err(Errno::NOENT) if folder => self.made_folder(path),
            Err(Errno::NOENT) => {
                let parent = self.parent(path)?;
                made_file(parent.as_fd(), Path::new(path.file_name().unwrap_or_default()))
            }
            found => found,
        }
    }

    /// The folder of a path; makes it if there is none.
    fn parent(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        self.made_folder(path.parent().unwrap_or(Path::new("/")))
    }

    fn made_folder(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        let mut folder = self.place(Path::new("/"))?;
        let mut reached = PathBuf::from("/");
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            reached.push(name);
            folder = match self.place(&reached) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&folder, name, FOLDER)?;
                    self.place(&reached)?
                }
                found => found?,
            };
        }
        Ok(folder)
    }
}

/// Opens a path from `folder`, for mounting.
fn open(folder: BorrowedFd<'_>, path: &Path, how: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // A new root has no absolute paths of its own.
    let path = match how.contains(ResolveFlags::IN_ROOT) {
        true => path.strip_prefix("/").unwrap_or(path),
        false => path,
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat2(folder, path.as_os_str().as_bytes(), flags, Mode::empty(), how)
}

fn copy(opened: BorrowedFd<'_>, writable: Writable) -> io::Result<OwnedFd> {
    let tree = mount_calls::copy_tree(opened)?;
    let access = if writable { 0 } else { READ_ONLY };
    mount_calls::set_attributes(tree.as_fd(), access | NO_SUID | NO_DEVICES, true)?;
    Ok(tree)
}

fn empty_folder() -> io::Result<OwnedFd> {
    mount_calls::new_file_system(c"tmpfs", &[(c"mode", c"0755")], NO_SUID | NO_DEVICES)
}

fn made_file(folder: BorrowedFd<'_>, name: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
    drop(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o444))?);
    rustix::fs::openat(
        folder,
        name,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

fn device(folder: &OwnedFd) -> rustix::io::Result<u64> {
    Ok(rustix::fs::statat(folder, "", AtFlags::EMPTY_PATH)?.st_dev)
}

fn is_folder(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}
