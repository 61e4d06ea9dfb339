//! The index of a working folder, replaced without git's own lock on it: git works on a private copy, and this
//! program holds `index.lock` meanwhile, in its own name. If it is killed, the lock shows whose it is. Waits for
//! the file system.

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use protocol::WorktreeErrorReason;

use super::failure::refused;
use super::folder::unusable;
use services::error::Error;

/// Larger indexes are not copied.
const MAX_INDEX: u64 = 256 << 20;
/// Bytes of a lock that are compared.
const MAX_TOKEN: u64 = 256;
const INDEX: &str = "index";
const LOCK: &str = "index.lock";
/// The lock before it has its name, so that it never lacks its contents.
const DRAFT: &str = "agentd-lock.new";
/// The private copy.
const COPY: &str = "agentd-index";

/// The lock of the index of the git folder `own`, in the name `token`.
#[derive(Clone, Debug)]
pub(super) struct IndexLock {
    own: PathBuf,
    token: String,
}

impl IndexLock {
    /// Takes the lock, or goes on with one that a killed program took in the same name.
    ///
    /// # Errors
    /// Another program has it; it cannot be written.
    pub(super) fn take(own: &Path, token: &str) -> Result<Self, Error> {
        let taken = Self { own: own.to_owned(), token: token.to_owned() };
        if taken.is_held() {
            return Ok(taken);
        }
        let (draft, lock) = (own.join(DRAFT), own.join(LOCK));
        let take = || -> io::Result<()> {
            remove_if_there(&draft)?;
            std::fs::File::create_new(&draft)?.write_all(token.as_bytes())?;
            match std::fs::hard_link(&draft, &lock) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    // A file system without hard links.
                    std::fs::File::create_new(&lock)?.write_all(token.as_bytes())
                }
                linked => linked,
            }
        };
        let outcome = take();
        // Without it, the next one replaces it.
        let _ = std::fs::remove_file(&draft);
        match outcome {
            Ok(()) => Ok(taken),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(locked(own)),
            Err(error) => Err(unusable(&lock, &error)),
        }
    }

    /// One that was taken before.
    pub(super) fn taken_before(own: &Path, token: &str) -> Self {
        Self { own: own.to_owned(), token: token.to_owned() }
    }

    /// Returns whether the lock is held in this name.
    pub(super) fn is_held(&self) -> bool {
        let held = files::open_without_links(&self.own.join(LOCK))
            .and_then(|open| open.read(&self.own.join(LOCK), MAX_TOKEN));
        held.is_ok_and(|held| held == self.token.as_bytes())
    }

    /// The lock of a program that was killed, if it is there.
    pub(super) fn left_behind(own: &Path, token: &str) -> Option<Self> {
        let lock = Self { own: own.to_owned(), token: token.to_owned() };
        lock.is_held().then_some(lock)
    }

    /// The private copy.
    pub(super) fn copy(&self) -> PathBuf {
        self.own.join(COPY)
    }

    /// Makes the private copy.
    pub(super) fn make_copy(&self) -> Result<PathBuf, Error> {
        let copy = self.copy();
        copy_index(&self.own, &copy)?;
        Ok(copy)
    }

    /// Puts the copy in the place of the index.
    pub(super) fn install(&self) -> Result<(), Error> {
        let index = self.own.join(INDEX);
        std::fs::rename(self.copy(), &index).map_err(|error| unusable(&index, &error))
    }

    /// As [`Self::install`], unless a killed program had done so already.
    pub(super) fn install_if_there(&self) -> Result<(), Error> {
        match self.copy().symlink_metadata() {
            Ok(_) => self.install(),
            Err(_) => Ok(()),
        }
    }

    /// Deletes the copy and the lock.
    pub(super) fn release(&self) -> Result<(), Error> {
        remove_copy(&self.copy())?;
        let lock = self.own.join(LOCK);
        match self.is_held() {
            true => remove_if_there(&lock).map_err(|error| unusable(&lock, &error)),
            // The user took it away.
            false => Ok(()),
        }
    }
}

/// Refuses to go on while another program has the index of the git folder `own`.
pub(super) fn check_unlocked(own: &Path) -> Result<(), Error> {
    match own.join(LOCK).symlink_metadata() {
        Ok(_) => Err(locked(own)),
        Err(_) => Ok(()),
    }
}

/// Copies the index of the git folder `own`.
pub(super) fn copy_index(own: &Path, copy: &Path) -> Result<(), Error> {
    // A program that was killed may have left one.
    remove_copy(copy)?;
    let bytes = match files::read(&own.join(INDEX), MAX_INDEX) {
        Ok(bytes) => bytes,
        // Without an index, all files are read.
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(Error::from(error)),
    };
    std::fs::write(copy, bytes).map_err(|error| unusable(copy, &error))
}

/// Deletes the copy of an index, and git's lock of it, which it leaves behind when it is killed.
pub(super) fn remove_copy(copy: &Path) -> Result<(), Error> {
    let mut lock = copy.as_os_str().to_owned();
    lock.push(".lock");
    for file in [copy, Path::new(&lock)] {
        remove_if_there(file).map_err(|error| unusable(file, &error))?;
    }
    Ok(())
}

/// Deletes a file that may be missing.
pub(super) fn remove_if_there(file: &Path) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

fn locked(own: &Path) -> Error {
    let lock = own.join(LOCK);
    let message = format!("{} exists: another git is at work there, or was killed", lock.display());
    refused(WorktreeErrorReason::Unfinished, message, Vec::new())
        .next_step("wait for its end; if there is none, remove that file")
}
