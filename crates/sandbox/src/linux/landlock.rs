//! The layer for machines without namespaces: Landlock rules for files, which the
//! process applies before it becomes the command, together with the seccomp filter.
//!
//! Landlock grants whole trees and cannot exclude a name, so a writable root is granted entry by
//! entry: all existing entries except the protected names. By itself it lets no entry be made at the top of a root (and of
//! `/tmp`), and modes, owners and times cannot be limited to folders: stricter than the policy, never laxer. The command's
//! supervisor makes what is missing (`supervise/broker.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use policy::ReadAccess;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::sys;
use crate::platform::PLATFORM_READABLE;
use crate::protect::{self, Protection};
use crate::resolved::Resolved;

/// The first version that controls `truncate`; under an older one, files could be emptied.
pub(crate) const MIN_ABI: u32 = 3;

/// The first version that controls signals.
pub(crate) const SIGNALS_ABI: u32 = 6;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// No right of the kernel's: marks the access to a real path, which is opened through no symbolic
/// link.
const REAL_PATH: u64 = 1 << 63;
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
/// The rights of ABI 3; later versions add [`IOCTL_DEV`].
const ALL_ABI_3: u64 = (1 << 15) - 1;

const BIND_AND_CONNECT_TCP: u64 = 3;
const ABSTRACT_SOCKETS_AND_SIGNALS: u64 = 3;

/// Devices that every command can use.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx"];
/// Holds the machine's terminals, memory that processes share, and devices, none of which a command in namespaces sees.
const DEVICE_FOLDER: &str = "/dev";

/// A set of rules that can be sent to another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ruleset {
    pub(crate) abi: u32,
    pub(crate) network: bool,
    /// Paths, and the access that is allowed to each and below it.
    pub(crate) rules: Vec<(Vec<u8>, u64)>,
}

impl Ruleset {
    /// The rules that enforce `resolved`, whose writable roots have this `protection`.
    /// With `is_managed`, the command connects to nothing by itself.
    pub(crate) fn new(
        abi: u32,
        resolved: &Resolved,
        protection: &Protection,
        is_managed: bool,
    ) -> io::Result<Self> {
        let network = resolved.network && !is_managed;
        let mut ruleset = Ruleset { abi, network, rules: Vec::new() };
        let rules = resolved.real_rules();
        match &resolved.read {
            ReadAccess::Full => ruleset.allow_machine()?,
            ReadAccess::Restricted { platform_defaults, .. } => {
                match &resolved.rules {
                    None => {
                        for (_, real) in resolved.readable_folders() {
                            ruleset.allow(&real, READ | REAL_PATH);
                        }
                    }
                    Some(_) => {
                        let is_named = |path: &Path| rules.iter().any(|(rule, _)| rule == path);
                        for path in protect::readable_paths(&rules)? {
                            match path.to_str() {
                                Some("/") => ruleset.allow_machine()?,
                                Some(DEVICE_FOLDER) if !is_named(&path) => {}
                                _ => ruleset.allow(&path, READ | REAL_PATH),
                            }
                        }
                    }
                }
                if *platform_defaults {
                    PLATFORM_READABLE.iter().for_each(|path| ruleset.allow(Path::new(path), READ));
                }
                ruleset.allow(Path::new("/proc/self"), READ);
            }
        }
        for device in DEVICES {
            ruleset.allow(Path::new(device), READ | WRITE_FILE | TRUNCATE | IOCTL_DEV);
        }
        if resolved.rules.is_none() {
            for root in resolved.writable_folders() {
                ruleset.allow(&root, READ | REAL_PATH);
            }
        }
        for root in &protection.roots {
            for entry in protect::unprotected_entries(root, protection)? {
                ruleset.allow(&entry, u64::MAX);
            }
        }
        Ok(ruleset)
    }

    /// Lets all files be read but those in `/dev`.
    fn allow_machine(&mut self) -> io::Result<()> {
        self.allow(Path::new("/"), READ_DIR);
        for entry in std::fs::read_dir("/")? {
            let entry = entry?;
            let path = entry.path();
            if path != Path::new(DEVICE_FOLDER) && !entry.file_type()?.is_symlink() {
                self.allow(&path, READ);
            }
        }
        Ok(())
    }

    /// Confines this process permanently, and lets it use its terminal. Needs no-new-privileges.
    pub(crate) fn apply(&self, terminal: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let handled = if self.abi >= 5 { ALL_ABI_3 | IOCTL_DEV } else { ALL_ABI_3 };
        let attr = sys::RulesetAttr {
            handled_access_fs: handled,
            handled_access_net: if self.network { 0 } else { BIND_AND_CONNECT_TCP },
            scoped: ABSTRACT_SOCKETS_AND_SIGNALS,
        };
        let ruleset = sys::landlock_create(&attr, attr_size(self.abi))?;
        for (path, access) in &self.rules {
            allow_path(&ruleset, path, *access, handled)?;
        }
        if let Some(terminal) = terminal {
            let access = READ | WRITE_FILE | TRUNCATE | IOCTL_DEV;
            allow_open(&ruleset, terminal, access & handled)?;
        }
        sys::landlock_restrict(ruleset.as_fd())
    }

    fn allow(&mut self, path: &Path, access: u64) {
        self.rules.push((path.as_os_str().as_bytes().to_vec(), access));
    }
}

/// The size of the attributes in a version.
fn attr_size(abi: u32) -> usize {
    match abi {
        ..=3 => 8,
        4..=5 => 16,
        6.. => 24,
    }
}

/// Changes of contents, names and folders.
const WRITE: u64 = ALL_ABI_3 & !READ;

/// Lets this process and its descendants write nothing outside of `roots`, `/dev` and `/proc`. Each of the roots was
/// opened before it was mounted at its path, where it must be. Needs no-new-privileges.
///
/// # Errors
/// A root is not at its path, or the kernel has no Landlock.
pub(crate) fn narrow(roots: &[(Vec<u8>, OwnedFd)]) -> io::Result<()> {
    let attr = sys::RulesetAttr { handled_access_fs: WRITE, handled_access_net: 0, scoped: 0 };
    let ruleset = sys::landlock_create(&attr, attr_size(MIN_ABI))?;
    for (path, opened) in roots {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let mounted = rustix::fs::statat(rustix::fs::CWD, path.as_slice(), flags)?;
        let found = rustix::fs::fstat(opened)?;
        if (found.st_dev, found.st_ino) != (mounted.st_dev, mounted.st_ino) {
            return Err(io::Error::other("a writable folder changed while it was mounted"));
        }
        allow_open(&ruleset, opened.as_fd(), WRITE)?;
    }
    for own in ["/dev", "/proc"] {
        allow_path(&ruleset, own.as_bytes(), WRITE, WRITE)?;
    }
    sys::landlock_restrict(ruleset.as_fd())
}

/// Opens a real path: `None` if it no longer exists, or if a component has become a symbolic link,
/// which indicates an attack.
pub(crate) fn open_real(path: &[u8]) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT | Errno::ACCESS | Errno::LOOP | Errno::NOTDIR) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Allows access to a path. A path that no longer exists is skipped.
fn allow_path(ruleset: &impl AsFd, path: &[u8], access: u64, handled: u64) -> io::Result<()> {
    let opened = if access & REAL_PATH != 0 {
        open_real(path)?
    } else {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(opened) => Some(opened),
            Err(Errno::NOENT | Errno::ACCESS) => None,
            Err(e) => return Err(e.into()),
        }
    };
    opened.map_or(Ok(()), |opened| allow_open(ruleset, opened.as_fd(), access & handled))
}

fn allow_open(ruleset: &impl AsFd, parent: BorrowedFd<'_>, access: u64) -> io::Result<()> {
    let access = match FileType::from_raw_mode(rustix::fs::fstat(parent)?.st_mode) {
        FileType::Directory => access,
        FileType::Symlink => return Ok(()),
        _ => access & FILE_RIGHTS,
    };
    sys::landlock_allow(ruleset.as_fd(), parent, access)
}
