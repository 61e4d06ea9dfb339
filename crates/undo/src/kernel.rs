//! The system calls on folders: each opens one folder, component by component and without following
//! a link, and works on names in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::state::Digest;

/// Changes that happen this soon after an entry was looked at may leave its stamps as they are: the
/// system's clock for stamps is coarse.
const STAMP_GRAIN: Duration = Duration::from_millis(20);

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The system's stamps of an entry: equal stamps mean an equal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    inode: u64,
    bytes: u64,
    modified: i64,
    changed: i64,
}

impl Stamp {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn of(stat: &Stat) -> Self {
        let nanos = |seconds: i64, nanos: i64| seconds.wrapping_mul(1_000_000_000) + nanos;
        Self {
            inode: stat.st_ino,
            bytes: stat.st_size as u64,
            modified: nanos(stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: nanos(stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }

    /// The stamp if it tells later changes from now on; otherwise one that equals none.
    pub(crate) fn settled(self) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let limit = now.saturating_sub(STAMP_GRAIN).as_nanos();
        if u128::try_from(self.changed).is_ok_and(|changed| changed < limit) {
            self
        } else {
            Self::default()
        }
    }

    /// Returns whether the last change was certainly earlier than `limit`, in nanoseconds since
    /// 1970.
    pub(crate) fn is_before(self, limit: i64) -> bool {
        let grain = i64::try_from(STAMP_GRAIN.as_nanos()).unwrap_or(i64::MAX);
        self.changed != 0 && self.changed < limit.saturating_sub(grain)
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.inode.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.modified.to_le_bytes());
        bytes[24..].copy_from_slice(&self.changed.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let part = |at: usize| bytes.get(at..at + 8)?.try_into().ok();
        Some(Self {
            inode: u64::from_le_bytes(part(0)?),
            bytes: u64::from_le_bytes(part(8)?),
            modified: i64::from_le_bytes(part(16)?),
            changed: i64::from_le_bytes(part(24)?),
        })
    }

    pub(crate) fn digest(self) -> Digest {
        Digest::of(&self.to_bytes())
    }
}

/// A folder that is held open.
pub(crate) struct OpenFolder {
    fd: OwnedFd,
}

impl OpenFolder {
    /// Opens the folder at an absolute path. Links that lead to it are followed.
    pub(crate) fn root(path: &Path) -> io::Result<Self> {
        let flags = FOLDER.difference(OFlags::NOFOLLOW);
        Ok(Self { fd: rustix::fs::openat(CWD, path, flags, Mode::empty())? })
    }

    /// Opens the folder at a path below this one, through no link.
    pub(crate) fn below(&self, path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            match rustix::fs::openat2(&self.fd, path, FOLDER, Mode::empty(), resolve) {
                Ok(fd) => return Ok(Self { fd }),
                // An old kernel, or a filter of system calls that does not know it.
                Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut folder = Self { fd: self.fd.try_clone()? };
        for component in path.components() {
            let Component::Normal(name) = component else { return Err(Errno::INVAL.into()) };
            folder = folder.entry(name)?;
        }
        Ok(folder)
    }

    fn entry(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self { fd: rustix::fs::openat(&self.fd, name, FOLDER, Mode::empty())? })
    }

    /// Returns the system's metadata of the folder itself.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// Returns the system's metadata of an entry; of a link, not of its target.
    pub(crate) fn stat_entry(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The names of at most `limit` entries, and whether there are more.
    pub(crate) fn names(&self, limit: usize) -> io::Result<(Vec<OsString>, bool)> {
        let mut names = Vec::new();
        // A handle of its own: the position of a listing is shared by all that have the same.
        let own = self.entry(OsStr::new("."))?;
        for entry in Dir::read_from(&own.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if names.len() == limit {
                return Ok((names, true));
            }
            names.push(OsStr::from_bytes(name).to_owned());
        }
        Ok((names, false))
    }

    /// Opens a regular file for reading, through no link and without waiting for a FIFO's writer.
    pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file() {
            Ok(file.into())
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
        }
    }

    /// The contents of a regular file, with its stamp before they were read. `None` for a file of
    /// more than `max_bytes`.
    pub(crate) fn read(&self, name: &OsStr, max_bytes: u64) -> io::Result<Option<(Vec<u8>, Stat)>> {
        let file = self.open_file(name)?;
        let stat = rustix::fs::fstat(&file)?;
        if stat.st_size as u64 > max_bytes {
            return Ok(None);
        }
        let mut contents = Vec::with_capacity(stat.st_size as usize);
        (&file).take(max_bytes + 1).read_to_end(&mut contents)?;
        Ok((contents.len() as u64 <= max_bytes).then_some((contents, stat)))
    }

    pub(crate) fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }
}

impl AsFd for OpenFolder {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The permission bits of a mode.
pub(crate) fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}
