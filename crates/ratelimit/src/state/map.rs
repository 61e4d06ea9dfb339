//! The mapped state file: words that are shared with the file, without an interpretation. The only
//! module of the crate with `unsafe` code.
//!
//! The largest possible file is mapped at once, and the file grows under the mapping: no address
//! ever changes, and unused pages take no memory. Blocks are allocated before a page is touched, so
//! that a full disk is an error and not a signal.
#![allow(unsafe_code, reason = "a file that is shared with memory cannot be had without it")]

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};

/// The mapping.
#[derive(Debug)]
pub(super) struct Map {
    map: MmapRaw,
    file: File,
    /// Length of the file: pages beyond it must not be touched.
    length: AtomicU64,
}

impl Map {
    /// Maps `file`, which this process has locked and which has `length` bytes, for up to `most`
    /// bytes.
    pub(super) fn new(file: File, length: u64, most: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(most).map_raw(&file)?;
        Ok(Self { map, file, length: AtomicU64::new(length) })
    }

    /// Extends the file to this length, if it is shorter.
    pub(super) fn grow(&self, length: u64) -> io::Result<()> {
        let old = self.length.load(Ordering::Acquire);
        if length > old {
            if length > self.map.len() as u64 {
                return Err(io::Error::other("it has reached its maximum size"));
            }
            fallocate(&self.file, FallocateFlags::empty(), old, length - old)?;
            self.file.sync_all()?;
            self.length.fetch_max(length, Ordering::AcqRel);
        }
        Ok(())
    }

    /// The words from byte `at` on; `None` when the file is too short.
    pub(super) fn words(&self, at: u64, words: usize) -> Option<&[AtomicU64]> {
        let end = at.checked_add(words as u64 * 8)?;
        if end > self.length.load(Ordering::Acquire) || !at.is_multiple_of(8) {
            return None;
        }
        let at = usize::try_from(at).ok()?;
        // SAFETY: `at..end` lies inside the mapping, which lives as long as `self`, and inside the
        // file, which no other process shortens, because this one holds its lock. A mapping starts
        // at a page, so a multiple of eight is aligned. All access to these bytes, in this process,
        // is atomic.
        Some(unsafe {
            std::slice::from_raw_parts(self.map.as_ptr().add(at).cast::<AtomicU64>(), words)
        })
    }

    /// Flushes changes to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let length = self.length.load(Ordering::Acquire);
        self.map.flush_range(0, usize::try_from(length).unwrap_or(usize::MAX))
    }
}
