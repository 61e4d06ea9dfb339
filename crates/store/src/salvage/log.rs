//! The write-ahead log of a database and the index that SQLite keeps beside it, read without SQLite.
//! Knows the formats of both, not what is on a page.
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

/// What a write-ahead log holds.
#[derive(Default)]
pub(crate) struct Log {
    /// Where the latest committed version of each page is.
    pages: HashMap<u32, u64>,
    /// Pages of the database after the last commit.
    size: Option<u32>,
    /// There are good frames behind one that is not. SQLite reads up to the first damaged frame, and
    /// what is behind that would be lost without a word.
    pub(crate) damaged: bool,
    /// The header of the database after the last commit, when it is in the log.
    pub(crate) header: Option<Vec<u8>>,
    /// Bytes of the file.
    bytes: u64,
    /// What tells this log from earlier ones in the same file; `None` when its header is damaged.
    salts: Option<[u8; 8]>,
    /// Frames up to the last commit that SQLite reads.
    frames: u32,
}

impl Log {
    /// Whether there is anything to lose in it.
    pub(crate) fn has_commits(&self) -> bool {
        self.damaged || !self.pages.is_empty()
    }

    /// Where the latest committed version of each page is.
    pub(super) fn into_pages(self) -> HashMap<u32, u64> {
        self.pages
    }

    /// Whether there is a log whose header cannot be read: SQLite would write over it.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.bytes > 0 && self.salts.is_none()
    }

    /// What the log lacks of what its index says was committed, for people.
    pub(crate) fn lacks(&self, index: &LogIndex) -> Option<String> {
        let same = self.salts == Some(index.salts);
        if same && self.frames < index.frames {
            let (lost, all) = (index.frames - self.frames, index.frames);
            return Some(format!("the last {lost} of {all} pages of its log are gone"));
        }
        // What was copied into the database is not missed.
        (!same && index.copied < index.frames).then(|| match self.bytes {
            0 => "its log is gone".to_owned(),
            _ => "another log has taken the place of its log".to_owned(),
        })
    }

    /// Whether the database lacks pages at its end, also with what the log holds. `header` is the
    /// begin of the database file, which has `bytes` bytes.
    pub(crate) fn shows_truncation(&self, bytes: u64, header: &[u8]) -> bool {
        let number = |at: usize| word(header, at, true);
        // The count in the header is good when it was made at the last change.
        let noted = if number(24) == number(92) { number(28) } else { 0 };
        let size = self.size.unwrap_or(noted);
        let held = u32::try_from(bytes / PAGE as u64).unwrap_or(u32::MAX);
        (held.saturating_add(1)..=size).any(|page| !self.pages.contains_key(&page))
    }

    /// Reads a log. Each frame is checked with the checksum that the one before it noted, so that
    /// one damaged frame does not cost those behind it.
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
                // Left from before the log was last started over, or damaged: the next one tells.
                before = Some(noted);
                bad = true;
                continue;
            }
            // Zeros have the checksum of zeros.
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

/// What the index of a log says of it. It is a shared piece of memory backed by a file, and stays
/// when a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogIndex {
    /// Committed frames.
    pub(crate) frames: u32,
    /// Those of them that are in the database too.
    pub(crate) copied: u32,
    salts: [u8; 8],
}

impl LogIndex {
    /// Reads an index; `None` when there is none, or none that holds.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, StoreError> {
        let Some(mut file) = open(path)? else { return Ok(None) };
        let mut bytes = [0; 100];
        if !fill(&mut file, &mut bytes).map_err(|error| StoreError::io("read", path, error))? {
            return Ok(None);
        }
        // Written twice, in the byte order of the machine; marked once it is whole.
        let native = |at: usize| word(&bytes, at, cfg!(target_endian = "big"));
        let sum = checksum(cfg!(target_endian = "big"), (0, 0), &bytes[..40]);
        let holds = bytes[..48] == bytes[48..96] && sum == (native(40), native(44));
        if !holds || bytes[12] != 1 {
            return Ok(None);
        }
        let salts = bytes[32..40].try_into().unwrap_or_default();
        Ok(Some(Self { frames: native(16), copied: native(96), salts }))
    }

    /// Bytes that the log has at least.
    pub(crate) fn bytes_of_log(&self) -> u64 {
        bytes_of_log(self.frames)
    }
}

/// Bytes of a log of so many frames.
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

/// Fills `into`; `false` when the file ends before.
fn fill(file: &mut File, into: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
