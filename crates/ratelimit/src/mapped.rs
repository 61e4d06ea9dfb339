//! A mapped file: words that are shared with the file, without an interpretation. The only module of
//! the crate with `unsafe` code. What is written survives the end of the process, however it ends;
//! a power cut may lose the changes since the last [`MappedFile::sync`].
//!
//! The largest possible file is mapped at once, and the file grows under the mapping: no address
//! ever changes, and unused pages take no memory. Blocks are allocated before a page is touched, so
//! that a full disk is an error and not a signal.
#![allow(unsafe_code, reason = "a file that is shared with memory cannot be had without it")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};

/// A file and its mapping.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapRaw,
    file: File,
    /// Length of the file: pages beyond it must not be touched.
    length: AtomicU64,
}

impl MappedFile {
    /// Maps `file`, which this process has locked and which has `length` bytes, for up to `most`
    /// bytes.
    ///
    /// # Errors
    /// The system cannot map it.
    pub fn new(file: File, length: u64, most: usize) -> io::Result<Self> {
        let map = MmapOptions::new().len(most).map_raw(&file)?;
        Ok(Self { map, file, length: AtomicU64::new(length) })
    }

    /// Extends the file to this length, if it is shorter. One caller at a time.
    ///
    /// # Errors
    /// The disk is full, or the file has its maximum size.
    pub fn grow(&self, length: u64) -> io::Result<()> {
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
    #[must_use]
    pub fn words(&self, at: u64, words: usize) -> Option<&[AtomicU64]> {
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

    /// Flushes changes to the disk: call it off the path of requests.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        let length = self.length.load(Ordering::Acquire);
        self.map.flush_range(0, usize::try_from(length).unwrap_or(usize::MAX))
    }
}

/// Why a file cannot be opened for a mapping.
#[derive(Debug)]
pub enum OpenFailure {
    /// Another process has locked it.
    InUse,
    /// The cause.
    Failed(io::Error),
}

impl From<io::Error> for OpenFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Opens a file for reading and writing, and locks it. A missing one is created with `header` as its content, readable
/// by its owner only.
///
/// # Errors
/// It is locked, cannot be opened or created, or is not a regular file.
pub fn open_locked(path: &Path, header: &[u8]) -> Result<File, OpenFailure> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    let file = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path, header).and_then(|()| open())
        }
        other => other,
    }?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(OpenFailure::InUse),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file").into());
    }
    Ok(file)
}

/// Creates the file atomically; keeps an existing one.
fn create(path: &Path, header: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    file.write_all(header)?;
    file.sync_all()?;
    let linked = match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    std::fs::remove_file(&new)?;
    linked?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A checksum that detects damage, not manipulation. `salt` binds the words to their place.
#[must_use]
pub fn checksum(words: &[u64], salt: u64) -> u64 {
    let start = salt ^ 0x9e37_79b9_7f4a_7c15;
    words.iter().fold(start, |sum, word| {
        let product = u128::from(sum ^ word) * 0xd6e8_feb8_6659_fd93_u128;
        (product as u64) ^ ((product >> 64) as u64) ^ sum.rotate_left(23)
    })
}
