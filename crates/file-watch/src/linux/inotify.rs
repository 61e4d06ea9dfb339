//! The calls of inotify, with the events that each kind of watch needs.

use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::error::Unwatchable;

/// A watch of an inode; all watches of it are the same. Numbers are not used again.
pub(super) type WatchNumber = i32;

/// Bytes of events that are read at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// A folder: its entries.
pub(super) const FOLDER: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);
/// A file that is not a folder.
pub(super) const FILE: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DONT_FOLLOW);
/// A folder on the way to a watched path, whose next name is there. Few events, because it can be a busy one
/// such as `/tmp`. `DELETE_SELF` is not enough: it waits until no program has the folder as its current one.
pub(super) const ON_THE_WAY: WatchFlags = WatchFlags::DELETE
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::DONT_FOLLOW);
/// A folder on the way whose next name is missing, or is the watched path.
pub(super) const LAST_ON_THE_WAY: WatchFlags =
    ON_THE_WAY.union(WatchFlags::CREATE).union(WatchFlags::MOVED_TO).union(WatchFlags::ATTRIB);
/// A symbolic link on the way: the link itself.
pub(super) const LINK: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DONT_FOLLOW);

/// Why nothing was added.
pub(super) enum Refusal {
    /// Something else is there, or nothing, or it may not be read.
    Gone(Errno),
    /// The system's limit.
    Full(Unwatchable),
}

pub(super) struct Inotify(OwnedFd);

impl Inotify {
    pub(super) fn new() -> Result<Self, Unwatchable> {
        let opened = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        opened.map(Self).map_err(|error| match error {
            Errno::MFILE => Unwatchable::limit(
                "the system's limit of inotify instances (fs.inotify.max_user_instances) or of open files is reached",
            ),
            error => Unwatchable::limit(format!("no inotify instance: {error}")),
        })
    }

    /// Watches what is at `path`, for these events in addition to those that it is watched for already.
    pub(super) fn add(&self, path: &Path, events: WatchFlags) -> Result<WatchNumber, Refusal> {
        use Errno as E;
        let added = inotify::add_watch(&self.0, path, events | WatchFlags::MASK_ADD);
        added.map_err(|error| match error {
            E::NOSPC => Refusal::Full(Unwatchable::limit(
                "the system's limit of inotify watches (fs.inotify.max_user_watches) is reached",
            )),
            E::NOMEM => Refusal::Full(Unwatchable::limit(format!("inotify: {error}"))),
            error => Refusal::Gone(error),
        })
    }

    pub(super) fn remove(&self, number: WatchNumber) {
        // It is gone when its inode is.
        let _ = inotify::remove_watch(&self.0, number);
    }

    /// Reads events into `buffer`, at least one when there is one.
    pub(super) fn read<'b>(&self, buffer: &'b mut [MaybeUninit<u8>]) -> Reader<'b, BorrowedFd<'_>> {
        Reader::new(self.0.as_fd(), buffer)
    }

    /// Drops all events that have happened.
    pub(super) fn discard(&self, buffer: &mut [MaybeUninit<u8>]) {
        let mut waiting = rustix::io::ioctl_fionread(&self.0).unwrap_or(u64::MAX);
        while waiting > 0 {
            let Ok((read, _)) = rustix::io::read(&self.0, &mut *buffer) else { return };
            waiting = waiting.saturating_sub(read.len() as u64);
        }
    }
}

impl AsFd for Inotify {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Of an event: its watch, what happened, and the name of the entry.
pub(super) struct Event<'e> {
    pub(super) number: WatchNumber,
    pub(super) flags: ReadFlags,
    pub(super) name: Option<&'e std::ffi::OsStr>,
}

impl<'e> From<&'e inotify::Event<'e>> for Event<'e> {
    fn from(event: &'e inotify::Event<'e>) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let name = event.file_name().map(|name| std::ffi::OsStr::from_bytes(name.to_bytes()));
        Self { number: event.wd(), flags: event.events(), name }
    }
}
