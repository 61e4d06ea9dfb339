//! One process at a time changes a home's plugins.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::time::{Instant, sleep};

use crate::error::{Error, io_at};

/// Maximum wait for another process.
const WAIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(20);

/// Held until it is dropped, or the process ends in any way.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "closing it releases the lock")] File);

impl Lock {
    pub(crate) async fn acquire(path: &Path) -> Result<Self, Error> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600));
        let file = File::from(opened.map_err(io_at(path))?);
        let deadline = Instant::now() + WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::Error(error)) => return Err(io_at(path)(error)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                    return Err(Error::Busy(path.to_owned()));
                }
                Err(TryLockError::WouldBlock) => sleep(POLL).await,
            }
        }
    }
}
