//! Folders that stand for missing protected paths while a command runs.

use std::fs::{self, Metadata};
#[cfg(target_os = "linux")]
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::time::{Duration, Instant};

/// An empty folder that stands for a missing protected name while a command runs.
///
/// It must exist outside of the sandbox, because a mount needs a mount point. Its sticky bit, which
/// it has from its creation on, distinguishes it from folders of the user; on file systems without
/// that bit, its modification time does. The next server takes over a placeholder of a killed one.
/// Every holder has a shared lock on it, and the last one removes it, unless the user has put
/// something into it.
#[derive(Debug)]
pub(crate) struct Placeholder {
    path: PathBuf,
    folder: fs::File,
}

/// One second after the epoch: no folder of a user has this modification time.
const PLACEHOLDER_MTIME: i64 = 1;
/// Maximum wait for the lock of a killed server. The kernel closes its files within milliseconds
/// once the process is scheduled.
#[cfg(target_os = "linux")]
const MAX_WAIT_FOR_LOCK: Duration = Duration::from_secs(10);
#[cfg(target_os = "linux")]
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// Time limit for holding a placeholder that another holder is removing. That takes microseconds of
/// its processor time, and on a busy machine it may wait for that longer than a number of attempts.
#[cfg(target_os = "linux")]
const MAX_WAIT_FOR_REMOVAL: Duration = Duration::from_secs(2);

const PLACEHOLDER_MODE: u32 = 0o1755;
const STICKY: u32 = 0o1000;
#[cfg(unix)]
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Always false on systems where no command runs.
#[cfg(not(unix))]
pub(super) fn is_placeholder(_path: &Path, _meta: &Metadata) -> bool {
    false
}

/// Returns whether the folder is a placeholder; one that the user put something into is not.
#[cfg(unix)]
pub(super) fn is_placeholder(path: &Path, meta: &Metadata) -> bool {
    let marked = meta.mtime() == PLACEHOLDER_MTIME && meta.mtime_nsec() == 0;
    // One that no longer exists was removed by its last holder.
    let empty = || fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    // `/tmp` has the sticky bit as well, but is writable by others.
    let sticky = meta.mode() & (STICKY | WRITABLE_BY_OTHERS) == STICKY;
    meta.is_dir() && (sticky || marked) && empty()
}

#[cfg(target_os = "linux")]
mod on_linux {
    use super::*;
    use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps};

    impl Placeholder {
        /// Holds `path`. `None` if that is not necessary: the user has created it, or this user and
        /// its commands cannot create it.
        pub(crate) fn hold(path: &Path) -> io::Result<Option<Placeholder>> {
            let deadline = Instant::now() + MAX_WAIT_FOR_REMOVAL;
            while Instant::now() < deadline {
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
        /// The path that it holds.
        pub(crate) fn path(&self) -> &Path {
            &self.path
        }

        /// Removes a placeholder whose server was killed.
        ///
        /// A killed process closes its descriptors one by one, and on a busy machine can still hold
        /// its lock after its sockets are closed, so this waits for the lock. Another server that
        /// uses the same placeholder removes it itself.
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

    /// Removes `path` if there is no other holder of `folder`; returns whether that is so.
    fn remove_if_last(path: &Path, folder: &fs::File) -> bool {
        let last = rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok();
        if last && same_file(path, folder) {
            // Fails if it is not empty; then it belongs to the user.
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
            // The previous holder removed it in the meantime; the caller tries again.
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
