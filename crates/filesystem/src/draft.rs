//! A new file next to the one that it replaces, and a new folder next to its future place: written in full
//! and on disk before it takes the name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// Attempts at a name that is free. Only leftovers of a killed process with our number are in the way.
const ATTEMPTS: usize = 16;

/// The mode of a new file, as of other programs: the process's mask is taken from it.
pub(crate) const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
/// The mode of a file that gets the one of another file when it is complete.
pub(crate) const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// A file without its final name. Dropped before [`Draft::publish`], it is removed.
pub(crate) struct Draft {
    pub(crate) file: File,
    path: PathBuf,
    is_published: bool,
}

impl Draft {
    /// Creates an empty file in the folder of `target`.
    pub(crate) fn beside(target: &Path, mode: Mode) -> io::Result<Self> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = |path: &Path| rustix::fs::openat(CWD, path, flags, mode);
        let (fd, path) = at_free_name(target, create)?;
        Ok(Self { file: fd.into(), path, is_published: false })
    }

    /// Puts the contents on disk, and then the file in the place of whatever is at `target`.
    pub(crate) fn publish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, target)?;
        self.is_published = true;
        sync_folder(target.parent().unwrap_or(Path::new("/")))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_published {
            // Nothing more can be done about a file that cannot be removed.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A folder without its final name. Dropped before [`DraftFolder::publish`], it is removed with its
/// contents.
pub(crate) struct DraftFolder {
    path: PathBuf,
    is_published: bool,
}

impl DraftFolder {
    /// Creates an empty folder in the folder of `target`, private to its owner.
    pub(crate) fn beside(target: &Path) -> io::Result<Self> {
        let ((), path) = at_free_name(target, |path| rustix::fs::mkdirat(CWD, path, Mode::RWXU))?;
        Ok(Self { path, is_published: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the folder at `target`, where nothing is, or an empty folder.
    pub(crate) fn publish(mut self, target: &Path) -> io::Result<()> {
        sync_folder(&self.path)?;
        std::fs::rename(&self.path, target)?;
        self.is_published = true;
        sync_folder(target.parent().unwrap_or(Path::new("/")))
    }
}

impl Drop for DraftFolder {
    fn drop(&mut self) {
        if !self.is_published {
            // Nothing more can be done about a folder that cannot be removed.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Creates something in the folder of `target`, under a name that is free.
fn at_free_name<T>(
    target: &Path,
    create: impl Fn(&Path) -> rustix::io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..ATTEMPTS {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = target.with_file_name(format!(".agentd-{}-{count}.tmp", std::process::id()));
        match create(&path) {
            Ok(made) => return Ok((made, path)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::EXIST.into())
}

/// Makes a change of the entries of `folder` durable. A file system that cannot is not an error: the
/// entries are as durable as they can be. Never waits for what may have taken the folder's place.
///
/// # Errors
/// `folder` is not a folder, or its file system reports an error.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match open_folder(folder).and_then(|fd| Ok(rustix::fs::fsync(&fd)?)) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        // A folder may be writable and not readable.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Copies the extended attributes of `from`, access lists among them. Those that the target's file
/// system or this user cannot set are left out, as `cp --preserve` does.
pub(crate) fn copy_attributes(from: &File, to: &File) -> io::Result<()> {
    for name in attribute_names(from)? {
        let Some(value) = attribute(from, &name)? else { continue };
        match rustix::fs::fsetxattr(to, &name, &value, rustix::fs::XattrFlags::empty()) {
            Ok(()) | Err(Errno::NOTSUP | Errno::PERM | Errno::ACCESS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn attribute_names(file: &File) -> io::Result<Vec<OsString>> {
    let mut buffer = vec![0; 64 << 10];
    match rustix::fs::flistxattr(file, &mut buffer) {
        Ok(length) => {
            use std::os::unix::ffi::OsStrExt;
            let names = buffer[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
            Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
        }
        Err(Errno::NOTSUP) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// `None` for an attribute that is gone, or that this user cannot read.
fn attribute(file: &File, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 64 << 10];
    match rustix::fs::fgetxattr(file, name, &mut value) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
