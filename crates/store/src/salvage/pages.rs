//! The pages of a database file and its write-ahead log, read without SQLite: a page that cannot be
//! read costs that page. Knows the container formats, not what is on a page.
//!
//! Formats: <https://www.sqlite.org/fileformat2.html>, sections 1.6 (overflow) and 4 (the log).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::StoreError;

/// Every store has pages of this size; a header that says otherwise is damaged.
pub(super) const PAGE: usize = 4096;

const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + PAGE;

/// The content of one page.
pub(super) type Page = [u8; PAGE];

/// A database and its log; pages in the log replace those in the database.
pub(super) struct Pages {
    database: Option<File>,
    log: Option<File>,
    /// Where in the log the latest committed version of a page is.
    logged: HashMap<u32, u64>,
    count: u32,
}

impl Pages {
    /// Opens the files; each may be missing.
    pub(super) fn open(database: &Path, log: &Path) -> Result<Self, StoreError> {
        let file = open(database)?;
        let bytes = match &file {
            Some(file) => {
                file.metadata().map_err(|error| StoreError::io("read", database, error))?.len()
            }
            None => 0,
        };
        let mut count = u32::try_from(bytes.div_ceil(PAGE as u64)).unwrap_or(u32::MAX);
        let scanned = Log::read(log)?;
        count = scanned.pages.keys().copied().fold(count, u32::max);
        Ok(Self { database: file, log: open(log)?, logged: scanned.pages, count })
    }

    /// Number of pages; the first one is page 1.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The content of a page. What is behind the end of the file reads as zeros.
    ///
    /// # Errors
    /// The disk cannot read it.
    pub(super) fn read(&self, page: u32) -> io::Result<Page> {
        let mut content = [0; PAGE];
        match (self.logged.get(&page), &self.log, &self.database) {
            (Some(at), Some(log), _) => read_at(log, *at, &mut content)?,
            (_, _, Some(database)) => {
                read_at(database, u64::from(page.saturating_sub(1)) * PAGE as u64, &mut content)?;
            }
            _ => {}
        }
        Ok(content)
    }
}

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
}

impl Log {
    /// Whether there is anything to lose in it.
    pub(crate) fn has_commits(&self) -> bool {
        self.damaged || !self.pages.is_empty()
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
        let mut header = [0; LOG_HEADER];
        if !fill(&mut log, &mut header).map_err(failed)? {
            return Ok(found);
        }
        let big_endian = word(&header, 0, true) == 0x377f_0683;
        let start = checksum(big_endian, (0, 0), &header[..24]);
        let header_holds = matches!(word(&header, 0, true), 0x377f_0682 | 0x377f_0683)
            && start == (word(&header, 24, true), word(&header, 28, true));
        let mut salts = header_holds.then(|| header[16..24].to_vec());
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
            let holds = before.is_some_and(|before| {
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
            if word(&frame, 0, true) == 1 {
                first = Some(frame[FRAME_HEADER..FRAME_HEADER + 100].to_vec());
            }
            pending.insert(word(&frame, 0, true), body);
            let size = word(&frame, 4, true);
            if size > 0 {
                found.pages.extend(pending.drain());
                found.header = first.take().or(found.header);
                found.size = Some(size);
            }
        }
        Ok(found)
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

fn open(path: &Path) -> Result<Option<File>, StoreError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("open", path, error)),
    }
}

/// Fills `into`; `false` when the file ends before.
fn fill(file: &mut File, into: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(into) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads what there is at this place.
fn read_at(mut file: &File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    let mut done = 0;
    while done < into.len() {
        match file.read(&mut into[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(())
}
