//! Opens, makes, renames and removes files on behalf of a caller.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;

use super::caller::Caller;
use super::entry::{Entry, descriptor, real_path, through_proc};
use super::outcome::Outcome;
use super::terminals;
use crate::supervise::places::Places;

/// Changes of files, each relative to a folder of the caller.
pub(super) struct Changes<'a> {
    pub(super) caller: &'a Caller,
    pub(super) places: &'a Places,
}

/// A folder and the address of a path in the caller's memory.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) i32, pub(super) u64);

/// A change that the supervisor does not make is left to the kernel, which refuses it, or allows what Landlock allows.
type Made = Result<Outcome, Errno>;

impl Changes<'_> {
    fn entry(&self, at: At, follow: bool) -> Result<Entry, Errno> {
        Entry::find(self.caller.file(at.0)?, self.caller.string(at.1)?, follow)
    }

    /// Sets the mode bits that a new file does not get, which are those of the caller.
    fn take_umask(&self) -> Result<(), Errno> {
        rustix::process::umask(self.caller.umask()?);
        Ok(())
    }

    pub(super) fn open(&self, at: At, flags: u64, mode: u64) -> Made {
        let flags = OFlags::from_bits_retain(u32::try_from(flags & 0xffff_ffff).unwrap_or(0));
        if flags.contains(OFlags::TMPFILE) {
            // A file without a name could get one anywhere. Every program knows another way.
            return Err(Errno::OPNOTSUPP);
        }
        if flags.contains(OFlags::PATH) {
            return Ok(Outcome::Continue);
        }
        let is_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
        let Ok(entry) = self.entry(at, !is_new && !flags.contains(OFlags::NOFOLLOW)) else {
            return self.open_again(at, flags);
        };
        let kind = entry.kind()?;
        let changes = flags.intersects(OFlags::RWMODE | OFlags::TRUNC);
        let may_open = match kind {
            None => flags.contains(OFlags::CREATE) && self.places.may_name(&entry.path),
            Some(_) if changes => self.places.may_change(&entry.path),
            Some(_) => self.places.may_read(&entry.path),
        };
        let close_on_exec = flags.contains(OFlags::CLOEXEC);
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        match kind {
            Some(FileType::CharacterDevice) if terminals::is_of_command(&entry.path) => {
                let found = entry.open()?;
                // Its other end may have been closed meanwhile, and the name be that of another terminal.
                if !terminals::is_of_command(&entry.path) {
                    return Ok(Outcome::Continue);
                }
                let flags = flags & !(OFlags::CREATE | OFlags::NOFOLLOW);
                let file = rustix::fs::openat(CWD, through_proc(&found), flags, Mode::empty())?;
                Ok(Outcome::Open { file, close_on_exec })
            }
            _ if !may_open || (entry.is_folder && kind != Some(FileType::Directory)) => {
                Ok(Outcome::Continue)
            }
            None | Some(FileType::RegularFile | FileType::Directory) => {
                if kind.is_none() {
                    self.take_umask()?;
                }
                let flags = flags | OFlags::NOFOLLOW;
                let file = rustix::fs::openat(&entry.folder, &entry.name, flags, bits(mode))?;
                Ok(Outcome::Open { file, close_on_exec })
            }
            Some(FileType::Fifo) if !is_new => {
                let (pipe, flags) = (entry.open()?, flags & !(OFlags::CREATE | OFlags::NOFOLLOW));
                let open =
                    move || rustix::fs::openat(CWD, through_proc(&pipe), flags, Mode::empty());
                Ok(Outcome::OpenLater { open: Box::new(open), close_on_exec })
            }
            Some(_) => Ok(Outcome::Continue),
        }
    }

    /// Opens what a path names that names no entry of a folder: `.`, or a file that is open already.
    fn open_again(&self, at: At, flags: OFlags) -> Made {
        let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let name = self.caller.string(at.1)?;
        let found = match descriptor(&name) {
            Some(descriptor) => self.caller.file(descriptor),
            None => {
                let base = self.caller.file(at.0)?;
                rustix::fs::openat2(base, name, path, Mode::empty(), resolve)
            }
        };
        let changes = flags.intersects(OFlags::RWMODE | OFlags::TRUNC);
        let may_open = |path: &Path| match changes {
            true => self.places.may_change(path),
            false => self.places.may_read(path),
        };
        match found.and_then(|found| Ok((real_path(&found)?, found))) {
            Ok((path, found)) if may_open(&path) => {
                let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
                if !matches!(kind, FileType::RegularFile | FileType::Directory) {
                    return Ok(Outcome::Continue);
                }
                let close_on_exec = flags.contains(OFlags::CLOEXEC);
                let flags = (flags & !(OFlags::NOFOLLOW | OFlags::CREATE)) | OFlags::CLOEXEC;
                let file = rustix::fs::openat(CWD, through_proc(&found), flags, Mode::empty())?;
                Ok(Outcome::Open { file, close_on_exec })
            }
            _ => Ok(Outcome::Continue),
        }
    }

    pub(super) fn make_folder(&self, at: At, mode: u64) -> Made {
        self.with_new_name(at, true, |folder, name| rustix::fs::mkdirat(folder, name, bits(mode)))
    }

    /// Makes a file, named pipe or socket; a device can only be made with capabilities.
    pub(super) fn make_file(&self, at: At, mode: u64) -> Made {
        let mode = u32::try_from(mode & 0xffff).unwrap_or(0);
        let kind = match FileType::from_raw_mode(mode) {
            // No kind is that of a file.
            FileType::Unknown if mode & libc::S_IFMT == 0 => FileType::RegularFile,
            kind @ (FileType::RegularFile | FileType::Fifo | FileType::Socket) => kind,
            _ => return Err(Errno::PERM),
        };
        self.with_new_name(at, false, |folder, name| {
            rustix::fs::mknodat(folder, name, kind, bits(mode.into()), 0)
        })
    }

    pub(super) fn make_link(&self, target: u64, at: At) -> Made {
        let target = self.caller.string(target)?;
        self.with_new_name(at, false, |folder, name| rustix::fs::symlinkat(&target, folder, name))
    }

    fn with_new_name(
        &self,
        at: At,
        slashes: bool,
        make: impl FnOnce(&OwnedFd, &CString) -> Result<(), Errno>,
    ) -> Made {
        let Ok(entry) = self.entry(at, false) else { return Ok(Outcome::Continue) };
        if !self.places.may_name(&entry.path) || (entry.is_folder && !slashes) {
            return Ok(Outcome::Continue);
        }
        self.take_umask()?;
        make(&entry.folder, &entry.name)?;
        Ok(Outcome::Value(0))
    }

    pub(super) fn link(&self, from: At, to: At, flags: u64) -> Made {
        let follows = u64::from(libc::AT_SYMLINK_FOLLOW.unsigned_abs());
        let follow = flags & follows != 0;
        if flags & !follows != 0 {
            return Ok(Outcome::Continue);
        }
        let (Ok(old), Ok(new)) = (self.entry(from, follow), self.entry(to, false)) else {
            return Ok(Outcome::Continue);
        };
        let is_plain = !old.is_folder && !new.is_folder;
        // Another name for a file that does not change would let it be changed.
        if !is_plain || !self.places.may_change(&old.path) || !self.places.may_name(&new.path) {
            return Ok(Outcome::Continue);
        }
        let none = AtFlags::empty();
        rustix::fs::linkat(&old.folder, &old.name, &new.folder, &new.name, none)?;
        Ok(Outcome::Value(0))
    }

    pub(super) fn rename(&self, from: At, to: At, flags: u64) -> Made {
        let (Ok(old), Ok(new)) = (self.entry(from, false), self.entry(to, false)) else {
            return Ok(Outcome::Continue);
        };
        let flags = RenameFlags::from_bits_retain(u32::try_from(flags).unwrap_or(u32::MAX));
        let may = |path: &Path| self.places.may_name(path);
        let is_known = (RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags);
        if !is_known || !may(&old.path) || !may(&new.path) {
            return Ok(Outcome::Continue);
        }
        if old.is_folder || new.is_folder {
            match old.kind()? {
                Some(FileType::Directory) => {}
                Some(_) => return Err(Errno::NOTDIR),
                None => return Err(Errno::NOENT),
            }
        }
        rustix::fs::renameat_with(&old.folder, &old.name, &new.folder, &new.name, flags)?;
        Ok(Outcome::Value(0))
    }

    pub(super) fn remove(&self, at: At, flags: u64) -> Made {
        let Ok(entry) = self.entry(at, false) else { return Ok(Outcome::Continue) };
        let is_folder = flags == u64::from(AtFlags::REMOVEDIR.bits());
        if !self.places.may_name(&entry.path)
            || (flags != 0 && !is_folder)
            || (entry.is_folder && !is_folder)
        {
            return Ok(Outcome::Continue);
        }
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&entry.folder, &entry.name, flags)?;
        Ok(Outcome::Value(0))
    }

    pub(super) fn truncate(&self, at: At, length: u64) -> Made {
        let Ok(entry) = self.entry(at, true) else { return Ok(Outcome::Continue) };
        let is_file = entry.kind()? == Some(FileType::RegularFile) && !entry.is_folder;
        if !is_file || !self.places.may_change(&entry.path) {
            return Ok(Outcome::Continue);
        }
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&entry.folder, &entry.name, flags, Mode::empty())?;
        rustix::fs::ftruncate(file, length)?;
        Ok(Outcome::Value(0))
    }
}

fn bits(mode: u64) -> Mode {
    Mode::from_bits_truncate(u32::try_from(mode & 0xffff_ffff).unwrap_or(0))
}
