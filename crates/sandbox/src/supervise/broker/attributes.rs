//! Changes modes, owners, times and extended attributes on behalf of a caller. Landlock does not control them, so the
//! kernel is never left to decide.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::caller::Caller;
use super::changes::At;
use super::entry::{Entry, descriptor, real_path, through_proc};
use super::outcome::Outcome;
use crate::supervise::places::Places;

/// The largest value of the kernel.
const MAX_VALUE: u64 = 64 << 10;
const NANOSECONDS: i64 = 1_000;

/// The file whose attributes change.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Open(i32),
    /// The file that a path names, or the link itself.
    Path {
        at: At,
        follow: bool,
    },
}

/// Changes of attributes.
pub(super) struct Attributes<'a> {
    pub(super) caller: &'a Caller,
    pub(super) places: &'a Places,
}

type Made = Result<Outcome, Errno>;

/// A file whose attributes may change.
struct Found {
    file: OwnedFd,
    is_link: bool,
}

impl Attributes<'_> {
    fn find(&self, target: Target) -> Result<Found, Errno> {
        match target {
            Target::Open(descriptor) => {
                let file = self.caller.file(descriptor)?;
                self.check_open(&file)?;
                Ok(Found { file, is_link: false })
            }
            Target::Path { at, follow } => {
                let path = self.caller.string(at.1)?;
                if let Some(descriptor) = descriptor(&path).filter(|_| follow) {
                    return self.find(Target::Open(descriptor));
                }
                let base = self.caller.file(at.0)?;
                // The folder itself, which has no name there.
                if matches!(path.as_bytes(), b"." | b"./") {
                    self.check_open(&base)?;
                    return Ok(Found { file: base, is_link: false });
                }
                let entry = Entry::find(base, path, follow)?;
                let file = entry.open()?;
                if !self.places.may_change(&entry.path) {
                    return Err(Errno::PERM);
                }
                let found = rustix::fs::fstat(&file)?;
                let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
                // It has just become one.
                if is_link && follow { Err(Errno::LOOP) } else { Ok(Found { file, is_link }) }
            }
        }
    }

    /// An open file without a name belongs to those who have it open.
    fn check_open(&self, file: &OwnedFd) -> Result<(), Errno> {
        let found = rustix::fs::fstat(file)?;
        let is_pipe = matches!(
            FileType::from_raw_mode(found.st_mode),
            FileType::Fifo | FileType::Socket | FileType::RegularFile
        );
        if is_pipe && found.st_nlink == 0 {
            return Ok(());
        }
        match real_path(file) {
            Ok(path) if self.places.may_change(&path) => Ok(()),
            _ => Err(Errno::PERM),
        }
    }

    pub(super) fn mode(&self, target: Target, mode: u64) -> Made {
        let found = self.find(target)?;
        if found.is_link {
            return Err(Errno::OPNOTSUPP);
        }
        let mode = Mode::from_bits_truncate(u32::try_from(mode & 0o7777).unwrap_or(0));
        done(rustix::fs::chmodat(CWD, through_proc(&found.file), mode, AtFlags::empty()))
    }

    pub(super) fn owner(&self, target: Target, user: u64, group: u64) -> Made {
        let found = self.find(target)?;
        // All ones leave it as it is.
        let raw = |id: u64| Some(u32::try_from(id & 0xffff_ffff).unwrap_or(u32::MAX));
        let user = raw(user).filter(|id| *id != u32::MAX).map(Uid::from_raw);
        let group = raw(group).filter(|id| *id != u32::MAX).map(Gid::from_raw);
        done(rustix::fs::chownat(&found.file, c"", user, group, AtFlags::EMPTY_PATH))
    }

    /// Times as `utimensat` takes them; address 0 is now.
    pub(super) fn times(&self, target: Target, address: u64) -> Made {
        let times = match address {
            0 => [0, libc::UTIME_NOW, 0, libc::UTIME_NOW],
            _ => self.caller.numbers::<4>(address)?,
        };
        self.set_times(target, times)
    }

    /// Times in seconds and microseconds; address 0 is now.
    pub(super) fn times_in_microseconds(&self, target: Target, address: u64) -> Made {
        if address == 0 {
            return self.times(target, 0);
        }
        let [a, b, c, d] = self.caller.numbers::<4>(address)?;
        let nano = |micro: i64| micro.checked_mul(NANOSECONDS).ok_or(Errno::INVAL);
        self.set_times(target, [a, nano(b)?, c, nano(d)?])
    }

    /// Times in seconds; address 0 is now.
    pub(super) fn times_in_seconds(&self, target: Target, address: u64) -> Made {
        if address == 0 {
            return self.times(target, 0);
        }
        let [accessed, modified] = self.caller.numbers::<2>(address)?;
        self.set_times(target, [accessed, 0, modified, 0])
    }

    fn set_times(&self, target: Target, [a, b, c, d]: [i64; 4]) -> Made {
        let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time(a, b), last_modification: time(c, d) };
        let found = self.find(target)?;
        if found.is_link {
            let Target::Path { at, .. } = target else { return Err(Errno::INVAL) };
            let entry = Entry::find(self.caller.file(at.0)?, self.caller.string(at.1)?, false)?;
            let itself = AtFlags::SYMLINK_NOFOLLOW;
            return match self.places.may_change(&entry.path) {
                true => done(rustix::fs::utimensat(&entry.folder, &entry.name, &times, itself)),
                false => Err(Errno::PERM),
            };
        }
        done(rustix::fs::utimensat(CWD, through_proc(&found.file), &times, AtFlags::empty()))
    }

    pub(super) fn set_attribute(
        &self,
        target: Target,
        name: u64,
        [value, length, flags]: [u64; 3],
    ) -> Made {
        if length > MAX_VALUE {
            return Err(Errno::TOOBIG);
        }
        let found = self.find(target)?;
        let name = self.caller.string(name)?;
        let value = self.caller.bytes(value, usize::try_from(length).unwrap_or(0))?;
        let flags = XattrFlags::from_bits_retain(u32::try_from(flags).unwrap_or(u32::MAX));
        if found.is_link {
            return Err(Errno::PERM);
        }
        done(rustix::fs::setxattr(through_proc(&found.file), &name, &value, flags))
    }

    pub(super) fn remove_attribute(&self, target: Target, name: u64) -> Made {
        let found = self.find(target)?;
        let name = self.caller.string(name)?;
        if found.is_link {
            return Err(Errno::PERM);
        }
        done(rustix::fs::removexattr(through_proc(&found.file), &name))
    }
}

fn done(result: Result<(), Errno>) -> Made {
    result.map(|()| Outcome::Value(0))
}
