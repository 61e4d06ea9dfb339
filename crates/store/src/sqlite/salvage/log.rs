//! Reads the write-ahead log of a database, and the index that SQLite keeps next to it, without
//! SQLite. Knows both formats, but not the contents of pages.
//!
//! Formats: <https://www.sqlite.org/fileformat2.html>, section 4, and
//! <https://www.sqlite.org/walformat.html>, section 2.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::pages::{PAGE, open};
use crate::StoreError;

const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + PAGE;

/// The contents of a write-ahead log.
#[derive(Default)]
pub(crate) struct Log {
    /// The position of the latest committed version of each page.
    pages: HashMap<u32, u64>,
    /// Pages of the database after the last commit.
    size: Option<u32>,
    /// True if valid frames follow a damaged one. SQLite reads only up to the first damaged frame,
    /// and would silently lose the others.
    pub(crate) damaged: bool,
    /// The header of the database after the last commit, if the log contains it.
    pub(crate) header: Option<Vec<u8>>,
    /// Size of the file in bytes.
    bytes: u64,
    /// Distinguishes this log from earlier ones in the same file; `None` if its header is damaged.
    salts: Option<[u8; 8]>,
    /// Frames up to the last commit that SQLite reads.
    frames: u32,
}

impl Log {
    /// Returns whether it contains commits.
    pub(crate) fn has_commits(&self) -> bool {
        self.damaged || !self.pages.is_empty()
    }

    /// The position of the latest committed version of each page.
    pub(super) fn into_pages(self) -> HashMap<u32, u64> {
        self.pages
    }

    /// Returns whether the header of the log is unreadable. SQLite would overwrite such a log.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.bytes > 0 && self.salts.is_none()
    }

    /// Describes what the log lacks of the commits in its index.
    pub(crate) fn lacks(&self, index: &LogIndex) -> Option<String> {
        let same = self.salts == Some(index.salts);
        if same && self.frames < index.frames {
            let (lost, all) = (index.frames - self.frames, index.frames);
            return Some(format!("the last {lost} of {all} pages of its log are missing"));
        }
        // Frames that were copied into the database are not needed.
        (!same && index.copied < index.frames).then(|| match self.bytes {
            0 => "its log is missing".to_owned(),
            _ => "another log is at the path of its log".to_owned(),
        })
    }

    /// Returns whether the database lacks pages at its end that the log does not contain either.
    /// `header` is the beginning of the database file, which has `bytes` bytes.
    pub(crate) fn shows_truncation(&self, bytes: u64, header: &[u8]) -> bool {
        let number = |at: usize| word(header, at, true);
        // The page count in the header is valid if it was updated with the last change.
        let noted = if number(24) == number(92) { number(28) } else { 0 };
        let size = self.size.unwrap_or(noted);
        let held = u32::try_from(bytes / PAGE as u64).unwrap_or(u32::MAX);
        (held.saturating_add(1)..=size).any(|page| !self.pages.contains_key(&page))
    }

    /// Reads a log. Checks each frame with the checksum that the previous one contains, so that a
    /// damaged frame does not invalidate later ones.
    pub(crate) fn read(path: &Path) -> Result<Self, StoreError> {
        let mut found = Self::default();
        let Some(mut log) = open(path)? else { return Ok(found) };
        let failed = |error| StoreError::io("read", path, error);
        found.bytes = log.metadata().map_err(failed)?.len();
        let mut header = [0; LOG_HEADER];
        if !fill(&mut log, &mut header).map_err(failed)? {
            return Ok(found);
        }
        let big_endian = word(&header, 0, true) == 0x377f_0683;
        let start = checksum(big_endian, (0, 0), &header[..24]);
        let header_holds = matches!(word(&header, 0, true), 0x377f_0682 | 0x377f_0683)
            && start == (word(&header, 24, true), word(&header, 28, true));
        let mut salts = header_holds.then(|| header[16..24].to_vec());
        found.salts = salts.as_deref().and_then(|salts| salts.try_into().ok());
        let mut count = 0;
        let mut before = header_holds.then_some(start);
        let mut bad = !header_holds;
        let mut pending: HashMap<u32, u64> = HashMap::new();
        let mut first = None;
        let mut frame = vec![0; FRAME];
        let mut at = LOG_HEADER as u64;
        while fill(&mut log, &mut frame).map_err(failed)? {
            let body = at + FRAME_HEADER as u64;
            at += FRAME as u64;
            let noted = (word(&frame, 16, true), word(&frame, 20, true));
            let same_log = salts.as_deref().is_none_or(|salts| *salts == frame[8..16]);
            if !same_log {
                // Either from before the last restart of the log, or damaged; the next frame
                // decides.
                before = Some(noted);
                bad = true;
                continue;
            }
            // The checksum of zeros is zero.
            let is_frame = word(&frame, 0, true) > 0;
            let holds = before.filter(|_| is_frame).is_some_and(|before| {
                let sum = checksum(big_endian, before, &frame[..8]);
                checksum(big_endian, sum, &frame[FRAME_HEADER..]) == noted
            });
            before = Some(noted);
            if !holds {
                bad = true;
                continue;
            }
            if salts.is_none() {
                salts = Some(frame[8..16].to_vec());
            }
            found.damaged |= bad;
            count += u32::from(!bad);
            if word(&frame, 0, true) == 1 {
                first = Some(frame[FRAME_HEADER..FRAME_HEADER + 100].to_vec());
            }
            pending.insert(word(&frame, 0, true), body);
            let size = word(&frame, 4, true);
            if size > 0 {
                found.pages.extend(pending.drain());
                found.header = first.take().or(found.header);
                found.size = Some(size);
                if !bad {
                    found.frames = count;
                }
            }
        }
        Ok(found)
    }
}

/// The index of a log: shared memory backed by a file, which remains when a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogIndex {
    /// Committed frames.
    pub(crate) frames: u32,
    /// Committed frames that are also in the database.
    pub(crate) copied: u32,
    salts: [u8; 8],
}

impl LogIndex {
    /// Reads the index of a database that this process does not have open: closing the file releases all locks that
    /// the process has on it. `None` if it does not exist or is invalid.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(mut file) = open(path)? else { return Ok(None) };
        Self::read_open(path, &mut file)
    }

    /// Opens an index; `None` if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Option<File>, StoreError> {
        open(path)
    }

    /// Reads an index that is open at its beginning; `None` if it is invalid.
    pub(crate) fn read_open(path: &Path, file: &mut impl Read) -> Result<Option<Self>, StoreError> {
        let mut bytes = [0; 100];
        if !fill(file, &mut bytes).map_err(|error| StoreError::io("read", path, error))? {
            return Ok(None);
        }
        // Written twice, in the machine's byte order, and marked when complete.
        let native = |at: usize| word(&bytes, at, cfg!(target_endian = "big"));
        let sum = checksum(cfg!(target_endian = "big"), (0, 0), &bytes[..40]);
        let holds = bytes[..48] == bytes[48..96] && sum == (native(40), native(44));
        if !holds || bytes[12] != 1 {
            return Ok(None);
        }
        let salts = bytes[32..40].try_into().unwrap_or_default();
        Ok(Some(Self { frames: native(16), copied: native(96), salts }))
    }

    /// Smallest size of the log in bytes.
    pub(crate) fn bytes_of_log(&self) -> u64 {
        bytes_of_log(self.frames)
    }
}

/// Size in bytes of a log with so many frames.
pub(crate) fn bytes_of_log(frames: u32) -> u64 {
    match frames {
        0 => 0,
        frames => LOG_HEADER as u64 + u64::from(frames) * FRAME as u64,
    }
}

/// The log's checksum, over pairs of words.
fn checksum(big_endian: bool, (mut one, mut two): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for pair in bytes.as_chunks::<8>().0 {
        one = one.wrapping_add(word(pair, 0, big_endian)).wrapping_add(two);
        two = two.wrapping_add(word(pair, 4, big_endian)).wrapping_add(one);
    }
    (one, two)
}

fn word(bytes: &[u8], at: usize, big_endian: bool) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or([0; 4]);
    if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
}

/// Fills `into`; returns `false` if the file is shorter.
fn fill(file: &mut impl Read, into: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
