//! Finds the entry of a folder that a path names, without trusting the path: the folder is opened, and stays the same
//! whatever happens to the path afterwards.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// As many symbolic links in a row as the kernel follows.
const MAX_LINKS: usize = 40;
/// The file system of `/proc`, whose links lead elsewhere for the supervisor than for the caller.
const PROC_MAGIC: i64 = 0x9fa0;

/// An entry of a folder, which need not exist.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) folder: OwnedFd,
    pub(super) name: CString,
    /// The real path.
    pub(super) path: PathBuf,
    /// True if the path ended with `/`, as that of a folder may.
    pub(super) is_folder: bool,
}

impl Entry {
    /// Finds the entry that `path` names from `base`. With `follow`, it is no symbolic link at that moment.
    ///
    /// # Errors
    /// There is no such folder, or it is not a place of files.
    pub(super) fn find(base: OwnedFd, path: CString, follow: bool) -> Result<Self, Errno> {
        let (mut base, mut path) = (base, path.into_bytes());
        for _ in 0..MAX_LINKS {
            let entry = Self::find_once(&base, &path)?;
            if !follow {
                return Ok(entry);
            }
            match rustix::fs::readlinkat(&entry.folder, &entry.name, Vec::new()) {
                Ok(target) => {
                    path = target.into_bytes();
                    if entry.is_folder {
                        path.push(b'/');
                    }
                    base = entry.folder;
                }
                // It is another kind of file, or does not exist.
                Err(Errno::INVAL | Errno::NOENT) => return Ok(entry),
                Err(error) => return Err(error),
            }
        }
        Err(Errno::LOOP)
    }

    fn find_once(base: &OwnedFd, path: &[u8]) -> Result<Self, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let (trimmed, slashes) = path.split_at(end);
        let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (above, name) = trimmed.split_at(start);
        if matches!(name, b"" | b"." | b"..") {
            return Err(Errno::INVAL);
        }
        let above: &[u8] = if above.is_empty() { b"." } else { above };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let folder = rustix::fs::openat2(base, above, flags, Mode::empty(), resolve)?;
        let path = real_path(&folder)?.join(OsStr::from_bytes(name));
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        Ok(Self { folder, name, path, is_folder: !slashes.is_empty() })
    }

    /// The file itself, not where it leads, as one that cannot be read or written.
    pub(super) fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
    }

    /// The kind of file; `None`: it does not exist.
    pub(super) fn kind(&self) -> Result<Option<FileType>, Errno> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileType::from_raw_mode(found.st_mode))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The place of an open file.
///
/// # Errors
/// It has none: it was removed, never had a name, or is one of the kernel's.
pub(super) fn real_path(file: &OwnedFd) -> Result<PathBuf, Errno> {
    if rustix::fs::fstatfs(file)?.f_type == PROC_MAGIC {
        return Err(Errno::XDEV);
    }
    let path = rustix::fs::readlinkat(CWD, through_proc(file), Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    let found = rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW)?;
    let opened = rustix::fs::fstat(file)?;
    // What the kernel adds to the name of a removed file could be the name of another.
    let is_same = (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino);
    if is_same && path.is_absolute() { Ok(path) } else { Err(Errno::NOENT) }
}

/// The open file of the caller that a path names through `/proc`, as the C library does for calls that take no
/// descriptor.
pub(super) fn descriptor(path: &CStr) -> Option<i32> {
    let path = path.to_str().ok()?;
    let folders = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    let number = folders.iter().find_map(|folder| path.strip_prefix(folder))?;
    number.parse().ok().filter(|number| *number >= 0)
}

/// A path by which this process reaches an open file.
pub(super) fn through_proc(file: &OwnedFd) -> PathBuf {
    Path::new("/proc/self/fd").join(file.as_raw_fd().to_string())
}
