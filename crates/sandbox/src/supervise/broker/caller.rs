//! The thread that makes a call: its memory, its open files and its folder. All of it can change at any time, so each
//! thing is read once.

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The longest path of the kernel, with its NUL.
const MAX_PATH: usize = 4096;

/// The thread that makes a call.
#[derive(Debug)]
pub(super) struct Caller {
    /// `/proc/THREAD`, open: what it has is that of this thread, and not of a later one with the same number.
    files: OwnedFd,
    memory: File,
}

impl Caller {
    /// `None`: the thread that has made the call has ended, as `is_waiting` says.
    ///
    /// # Errors
    /// The thread does not let itself be read.
    pub(super) fn new(
        thread: u32,
        is_waiting: impl FnOnce() -> bool,
    ) -> Result<Option<Self>, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let files = rustix::fs::open(format!("/proc/{thread}"), flags, Mode::empty())?;
        if !is_waiting() {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let memory = rustix::fs::openat(&files, "mem", flags, Mode::empty())?;
        Ok(Some(Self { files, memory: memory.into() }))
    }

    /// The string at an address.
    pub(super) fn string(&self, address: u64) -> Result<CString, Errno> {
        let mut bytes = vec![0; MAX_PATH];
        let mut length = 0;
        // A read ends where memory ends, perhaps after the string.
        while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
            let at = address.checked_add(length as u64).ok_or(Errno::FAULT)?;
            let count = self.memory.read_at(rest, at).map_err(|_| Errno::FAULT)?;
            if let Some(end) = rest.iter().take(count).position(|byte| *byte == 0) {
                bytes.truncate(length + end);
                return CString::new(bytes).map_err(|_| Errno::INVAL);
            }
            if count == 0 {
                return Err(Errno::FAULT);
            }
            length += count;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// `length` bytes at an address.
    pub(super) fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, address).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// Numbers of 64 bits at an address.
    pub(super) fn numbers<const N: usize>(&self, address: u64) -> Result<[i64; N], Errno> {
        let bytes = self.bytes(address, N * size_of::<i64>())?;
        let mut numbers = [0; N];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = i64::from_ne_bytes(*bytes);
        }
        Ok(numbers)
    }

    /// An open file of the caller, or with `AT_FDCWD` its folder, as a file that cannot be read or written.
    pub(super) fn file(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        let path = match descriptor {
            libc::AT_FDCWD => "cwd".to_owned(),
            _ => format!("fd/{descriptor}"),
        };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat(&self.files, path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            other => other,
        })
    }

    /// The mode bits that new files do not get.
    pub(super) fn umask(&self) -> Result<Mode, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.files, "status", flags, Mode::empty())?;
        let mut status = String::new();
        File::from(file).read_to_string(&mut status).map_err(|_| Errno::PERM)?;
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
        mask.map(Mode::from_bits_retain).ok_or(Errno::PERM)
    }
}
