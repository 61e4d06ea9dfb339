//! The folders that stand where a protected path is missing while a command runs.

use std::fs::{self, Metadata};
#[cfg(target_os = "linux")]
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

/// An empty folder that stands where a protected name is missing, while a command runs.
///
/// It has to exist outside of the sandbox: a mount needs something to be mounted on. It is told
/// from a folder of the user by its sticky bit, which it has from its first moment on, and, where
/// there are no such bits, by its modification time; one that a killed server left behind is taken
/// over by the next. Every holder has a shared lock on it, the last one removes it; when
/// the user put something into it meanwhile, it stays.
#[derive(Debug)]
pub(crate) struct Placeholder {
    path: PathBuf,
    folder: fs::File,
}

/// One second after the epoch: no folder of a user has this modification time.
const PLACEHOLDER_MTIME: i64 = 1;
/// How long a killed server's lock is waited for. The kernel closes its files within milliseconds once
/// the process gets a processor.
#[cfg(target_os = "linux")]
const MAX_WAIT_FOR_LOCK: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// Another holder removes a placeholder within microseconds; this is far more than needed.
const MAX_TRIES: usize = 1000;

const PLACEHOLDER_MODE: u32 = 0o1755;
const STICKY: u32 = 0o1000;
#[cfg(unix)]
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Where no command runs, there are none.
#[cfg(not(unix))]
pub(super) fn is_placeholder(_path: &Path, _meta: &Metadata) -> bool {
    false
}

/// What the user put something into is the user's.
#[cfg(unix)]
pub(super) fn is_placeholder(path: &Path, meta: &Metadata) -> bool {
    let marked = meta.mtime() == PLACEHOLDER_MTIME && meta.mtime_nsec() == 0;
    // One that is gone by now was removed by its last holder.
    let empty = || fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    // `/tmp` has the sticky bit too, and is writable by others.
    let sticky = meta.mode() & (STICKY | WRITABLE_BY_OTHERS) == STICKY;
    meta.is_dir() && (sticky || marked) && empty()
}

#[cfg(target_os = "linux")]
mod on_linux {
    use super::*;
    use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps};

    impl Placeholder {
        /// Holds `path`. `None` when nothing need be held: the user created it meanwhile, or
        /// nobody with our rights can create it.
        pub(crate) fn hold(path: &Path) -> io::Result<Option<Placeholder>> {
            for _ in 0..MAX_TRIES {
                match rustix::fs::mkdir(path, Mode::from_raw_mode(PLACEHOLDER_MODE)) {
                    Ok(()) => mark(path)?,
                    Err(rustix::io::Errno::EXIST) => {}
                    Err(rustix::io::Errno::ACCESS | rustix::io::Errno::ROFS) => return Ok(None),
                    Err(e) => return Err(e.into()),
                }
                let folder = match rustix::fs::open(path, OPEN_FOLDER, Mode::empty()) {
                    Ok(folder) => fs::File::from(folder),
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => return Ok(None),
                    Err(e) => return Err(e.into()),
                };
                if !is_placeholder(path, &folder.metadata()?) {
                    return Ok(None);
                }
                let locked =
                    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared).is_ok();
                if locked && same_file(path, &folder) {
                    return Ok(Some(Placeholder { path: path.to_owned(), folder }));
                }
                std::thread::yield_now();
            }
            Err(io::Error::other(format!(
                "{} is locked by another program, so that it cannot be protected",
                path.display()
            )))
        }
    }

    impl Placeholder {
        /// The place that it holds.
        pub(crate) fn path(&self) -> &Path {
            &self.path
        }

        /// Removes a placeholder whose server was killed.
        ///
        /// A killed process closes its descriptors one by one, and on a busy machine it may still
        /// hold its lock when its sockets are closed already: the lock is waited for. Another
        /// server that uses the same placeholder removes it itself.
        pub(crate) fn release(path: &Path) {
            let Ok(folder) = rustix::fs::open(path, OPEN_FOLDER, Mode::empty()) else { return };
            let folder = fs::File::from(folder);
            let is_ours = || folder.metadata().is_ok_and(|meta| is_placeholder(path, &meta));
            let deadline = Instant::now() + MAX_WAIT_FOR_LOCK;
            while is_ours() && same_file(path, &folder) {
                if remove_if_last(path, &folder) || Instant::now() >= deadline {
                    return;
                }
                std::thread::sleep(LOCK_RETRY);
            }
        }
    }

    /// Returns whether nobody else holds `folder`; `path` is removed then.
    fn remove_if_last(path: &Path, folder: &fs::File) -> bool {
        let last = rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok();
        if last && same_file(path, folder) {
            // Fails when something was put into it: then it belongs to the user.
            let _ = fs::remove_dir(path);
        }
        last
    }

    impl Drop for Placeholder {
        fn drop(&mut self) {
            remove_if_last(&self.path, &self.folder);
        }
    }

    const OPEN_FOLDER: OFlags =
        OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    fn mark(path: &Path) -> io::Result<()> {
        let time = Timespec { tv_sec: PLACEHOLDER_MTIME, tv_nsec: 0 };
        let times = Timestamps { last_access: time, last_modification: time };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        match rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags) {
            // Removed by the previous holder in between: the caller tries again.
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn same_file(path: &Path, file: &fs::File) -> bool {
        let (Ok(there), Ok(here)) = (path.symlink_metadata(), file.metadata()) else {
            return false;
        };
        (there.dev(), there.ino()) == (here.dev(), here.ino())
    }
}
