//! A folder that is opened component by component without following symbolic links, so that changes
//! happen in the folder that was checked.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

pub(super) struct Folder {
    fd: OwnedFd,
}

/// An existing entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Existing {
    pub(super) is_file: bool,
    pub(super) is_folder: bool,
    pub(super) mode: Mode,
    pub(super) owner: (u32, u32),
}

/// Suffices for `*at` calls, and needs no permission to list the folder.
#[cfg(target_os = "linux")]
const HOLD: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HOLD: OFlags = OFlags::RDONLY;
const FOLDER: OFlags = HOLD.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    /// Opens `path`, an absolute real path. Adds created folders to `created`.
    ///
    /// # Errors
    /// A component is a symbolic link, or cannot be opened.
    pub(super) fn open(path: &Path, create: bool, created: &mut Vec<PathBuf>) -> io::Result<Self> {
        let mut fd = rustix::fs::open("/", FOLDER, Mode::empty())?;
        let mut reached = PathBuf::from("/");
        for component in path.components() {
            let name = match component {
                Component::RootDir => continue,
                Component::Normal(name) => name,
                _ => return Err(Errno::INVAL.into()),
            };
            reached.push(name);
            fd = match rustix::fs::openat(&fd, name, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) if create => {
                    match rustix::fs::mkdirat(&fd, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) => created.push(reached.clone()),
                        Err(Errno::EXIST) => {}
                        Err(e) => return Err(e.into()),
                    }
                    rustix::fs::openat(&fd, name, FOLDER, Mode::empty())?
                }
                opened => opened?,
            };
        }
        Ok(Folder { fd })
    }

    pub(super) fn existing(&self, name: &OsStr) -> io::Result<Option<Existing>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let kind = FileType::from_raw_mode(stat.st_mode);
                Ok(Some(Existing {
                    is_file: kind.is_file(),
                    is_folder: kind.is_dir(),
                    mode: Mode::from_raw_mode(stat.st_mode),
                    owner: (stat.st_uid, stat.st_gid),
                }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// Creates an empty file exclusively.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<OwnedFd> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(0o666))?)
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Renames an entry; fails if `to` exists.
    pub(super) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match self.rename_with(from, to, RenameFlags::NOREPLACE) {
            Err(e) if is_unsupported(e) => {
                if self.existing(to)?.is_some() {
                    return Err(Errno::EXIST.into());
                }
                Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
            }
            done => Ok(done?),
        }
    }

    /// Exchanges two entries; through `spare` if the file system cannot do that atomically.
    pub(super) fn exchange(&self, one: &OsStr, other: &OsStr, spare: &OsStr) -> io::Result<()> {
        match self.rename_with(one, other, RenameFlags::EXCHANGE) {
            Err(e) if is_unsupported(e) => {
                self.rename_new(other, spare)?;
                if let Err(error) = self.rename_new(one, other) {
                    self.rename_new(spare, other)?;
                    return Err(error);
                }
                self.rename_new(spare, one)
            }
            done => Ok(done?),
        }
    }

    fn rename_with(&self, from: &OsStr, to: &OsStr, flags: RenameFlags) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&self.fd, from, &self.fd, to, flags)
    }
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}
