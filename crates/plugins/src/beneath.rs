//! Opens files and folders below a folder whose contents others control: no path and no link leads out
//! of it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, io_at};

/// Does not wait for the other side of a FIFO, and takes no terminal.
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A folder that is held open: what its path leads to later does not matter.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Error> {
    rustix::fs::open(path, READ | OFlags::DIRECTORY, Mode::empty()).map_err(io_at(path))
}

/// The folder `relative` below `folder`. Follows no link.
pub(crate) fn subfolder(folder: BorrowedFd<'_>, relative: &Path) -> io::Result<OwnedFd> {
    let flags = READ | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut opened = rustix::io::fcntl_dupfd_cloexec(folder, 0)?;
    for component in relative {
        opened = match rustix::fs::openat(&opened, component, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let name = visible::path(Path::new(component));
                let found = rustix::fs::statat(&opened, component, AtFlags::SYMLINK_NOFOLLOW);
                let is_link = found.is_ok_and(|found| {
                    rustix::fs::FileType::from_raw_mode(found.st_mode).is_symlink()
                });
                return Err(io::Error::other(match is_link {
                    true => format!("`{name}` is a symbolic link, which is not followed"),
                    false => format!("`{name}` is not a folder"),
                }));
            }
            opened => opened?,
        };
    }
    Ok(opened)
}

/// The regular file `relative` below `folder`. Follows no link.
pub(crate) fn file(folder: BorrowedFd<'_>, relative: &Path) -> io::Result<File> {
    let parent = subfolder(folder, relative.parent().unwrap_or(Path::new("")))?;
    let name = relative.file_name().ok_or(Errno::INVAL)?;
    let opened = rustix::fs::openat(&parent, name, READ | OFlags::NOFOLLOW, Mode::empty());
    regular(opened.map_err(|error| match error {
        Errno::LOOP => io::Error::other("it is a symbolic link"),
        error => error.into(),
    })?)
}

fn regular(opened: OwnedFd) -> io::Result<File> {
    let file = File::from(opened);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// The contents of the regular file `relative` below `root`, of at most `max_bytes`; `None` if there is
/// none. Follows links as long as they stay below `root`.
pub(crate) fn read(root: &Path, relative: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, Error> {
    let path = root.join(relative);
    let folder = open_folder(root)?;
    let file = match open_within(folder.as_fd(), relative).and_then(regular) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            return Err(Error::refused(path, "a link leads out of the folder"));
        }
        Err(error) if error.raw_os_error().is_none() => {
            return Err(Error::refused(path, error.to_string()));
        }
        Err(error) => return Err(io_at(&path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(io_at(&path))?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::refused(path, format!("it is larger than {} KiB", max_bytes >> 10)));
    }
    Ok(Some(bytes))
}

/// Returns whether the folder `relative` exists below `root`, without a way out of it.
pub(crate) fn has_folder(root: &Path, relative: &Path) -> bool {
    let Ok(folder) = open_folder(root) else { return false };
    let opened = open_within(folder.as_fd(), relative).map(File::from);
    opened.and_then(|folder| folder.metadata()).is_ok_and(|metadata| metadata.is_dir())
}

/// Returns whether the regular file `relative` exists below `root`, without a way out of it.
pub(crate) fn has_file(root: &Path, relative: &Path) -> bool {
    let Ok(folder) = open_folder(root) else { return false };
    open_within(folder.as_fd(), relative).and_then(regular).is_ok()
}

#[cfg(target_os = "linux")]
fn open_within(folder: BorrowedFd<'_>, relative: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::ResolveFlags;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    loop {
        match rustix::fs::openat2(folder, relative, READ, Mode::empty(), resolve) {
            // Somebody renamed a folder meanwhile.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return Ok(opened?),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn open_within(folder: BorrowedFd<'_>, relative: &Path) -> io::Result<OwnedFd> {
    match relative.file_name() {
        None => subfolder(folder, relative),
        Some(name) => {
            let parent = subfolder(folder, relative.parent().unwrap_or(Path::new("")))?;
            Ok(rustix::fs::openat(&parent, name, READ | OFlags::NOFOLLOW, Mode::empty())?)
        }
    }
}
