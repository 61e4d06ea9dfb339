//! The journal of open requests: one slot per request in a mapped file, which says at any instant what the request
//! would cost if it ended there. A process that is killed leaves it behind, and the next one settles from it
//! ([`recover`]); a power cut may lose the last second.
//!
//! A slot is taken before the request is admitted, follows its answer, and is freed when the ledger has its row. All of
//! this is stores to memory: no call of the system, and no lock but that of the list of free slots.
//!
//! Each process has a file of its own, which it locks: the first of `NAME.open-0`, `NAME.open-1`, … that is free. Bounds:
//! [`MOST`] slots of 1 KiB in a file, and [`FILES`] files. The file grows by a MiB and does not shrink.

mod format;
mod open_request;
mod recovery;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use format::{HEADER, SLOT, SLOT_WORDS, VERSION_WORDS, VERSIONS};
pub use open_request::OpenRequest;
use ratelimit::{MappedFile, Micros, OpenFailure, open_locked};
pub use recovery::{Recovered, recover};

use crate::ledger::{Ended, Endpoint, Entry};
use crate::{Error, ErrorKind};
use gateway_policy::tenants::MicroDollars;

/// Most slots of a file: all open requests, and all rows that may wait for the store.
pub const MOST: u32 = 512 * 1024;
/// Most files: processes that share a folder.
pub const FILES: usize = 64;
/// Slots by which a file grows.
const STEP: u32 = 1024;

/// A journal. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    map: MappedFile,
    slots: Mutex<Slots>,
}

/// The free slots.
#[derive(Debug)]
struct Slots {
    /// Number of slots in the file.
    len: u32,
    /// Free slots below `len`.
    free: Vec<u32>,
}

/// The facts that identify a request: they do not change.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// `req_…`.
    pub request: &'a str,
    /// `org-…`.
    pub organization: &'a str,
    /// `proj_…`.
    pub project: &'a str,
    /// `key_…`; empty for work that no key requested.
    pub key: &'a str,
    /// The snapshot that serves it.
    pub model: &'a str,
    /// The usage page that counts it.
    pub endpoint: Endpoint,
    /// True if it is a line of a batch.
    pub batch: bool,
    /// When it was received: the time of its row if the process is killed.
    pub received: Micros,
}

/// The figures that a request's row in the ledger would have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of `Entry`")]
pub struct Figures {
    pub at: Micros,
    pub status: u16,
    pub ended: Ended,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub cache_write_tokens: u64,
    pub cache_write_1h_tokens: u64,
    pub output_tokens: u64,
    pub web_searches: u64,
    pub images: u64,
    pub audio_milliseconds: u64,
    pub cost: MicroDollars,
    /// The amount that it has reserved of the limits of spend.
    pub held: MicroDollars,
}

impl From<&Entry> for Figures {
    fn from(entry: &Entry) -> Self {
        Self {
            at: entry.at,
            status: entry.status,
            ended: entry.ended,
            input_tokens: entry.input_tokens,
            cached_tokens: entry.cached_tokens,
            cache_write_tokens: entry.cache_write_tokens,
            cache_write_1h_tokens: entry.cache_write_1h_tokens,
            output_tokens: entry.output_tokens,
            web_searches: entry.web_searches,
            images: entry.images,
            audio_milliseconds: entry.audio_milliseconds,
            cost: entry.cost,
            held: 0,
        }
    }
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is not admitted yet: nothing is charged. Also a settlement that changes the ledger before the meters.
    Asking = 1,
    /// It runs.
    Open = 2,
    /// It runs, and the store may have it as an answer that comes later.
    Later = 3,
    /// It has ended: this is its row.
    Settled = 4,
}

impl Phase {
    fn numbered(number: u64) -> Option<Self> {
        [Self::Asking, Self::Open, Self::Later, Self::Settled]
            .into_iter()
            .find(|phase| *phase as u64 == number)
    }
}

/// The slot of a request.
#[derive(Debug)]
pub(crate) struct Place {
    number: u32,
    sequence: u64,
    /// The checksum of what identifies the request.
    salt: u64,
}

impl Journal {
    /// Opens the first file of `base` that no other process has, created if missing: `base` with `open-0`, … as its
    /// extension. What is in it must be [`recover`]ed before its first request. Returns also the files of processes that
    /// have ended.
    ///
    /// # Errors
    /// A file cannot be opened, is damaged, or is no journal: it is never replaced. Or all of them are in use.
    pub fn open(base: &Path) -> Result<(Self, Vec<Self>), Error> {
        let (mut own, mut others) = (None, Vec::new());
        for number in 0..FILES {
            let path = base.with_extension(format!("open-{number}"));
            if own.is_some() && !std::fs::exists(&path).map_err(|error| failed(&path, error))? {
                break;
            }
            match (Self::open_one(&path)?, &own) {
                (None, _) => {}
                (Some(journal), None) => own = Some(journal),
                (Some(journal), Some(_)) => others.push(journal),
            }
        }
        let full = || Error::journal(format!("all {FILES} files are in use"));
        let step = "stop a process, or give this one a folder of its own";
        let own = own.ok_or_else(|| full().at(base).next_step(step))?;
        own.0.slots().grow(&own.0.map).map_err(|error| failed(&own.0.path, error))?;
        Ok((own, others))
    }

    /// `None`: another process has it.
    fn open_one(path: &Path) -> Result<Option<Self>, Error> {
        let mut file = match open_locked(path, &format::header()) {
            Ok(file) => file,
            Err(OpenFailure::InUse) => return Ok(None),
            Err(OpenFailure::Failed(error)) => return Err(failed(path, error)),
        };
        let refused = |what: &str| {
            let step = "move it away: then requests that were open when their process was killed are missing in the \
                        ledger, and stay reserved";
            Error::journal(what.to_owned()).at(path).next_step(step)
        };
        let length = file.metadata().map_err(|error| failed(path, error))?.len();
        let mut header = Vec::with_capacity(HEADER);
        let read = (&mut file).take(HEADER as u64).read_to_end(&mut header);
        read.map_err(|error| failed(path, error))?;
        let words: Vec<u64> = header
            .chunks_exact(8)
            .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
            .collect();
        let least = format::check_header(&words).map_err(refused)?;
        let slots = length.saturating_sub(HEADER as u64) / SLOT as u64;
        if header.len() < HEADER || slots < u64::from(least) {
            return Err(refused("it is cut off"));
        }
        if slots > u64::from(MOST) {
            return Err(refused("it is larger than a journal can be"));
        }
        let len = slots as u32;
        let map = MappedFile::new(file, offset(len), offset(MOST) as usize);
        let map = map.map_err(|error| failed(path, error))?;
        let shared = Shared {
            path: path.to_owned(),
            map,
            slots: Mutex::new(Slots { len, free: Vec::new() }),
        };
        let free = (0..len).rev().filter(|number| {
            let first = shared.words(*number).map(|words| words[0].load(Ordering::Acquire));
            matches!(first, Ok(0))
        });
        let free = free.collect();
        shared.slots().free = free;
        Ok(Some(Self(Arc::new(shared))))
    }

    /// Takes a slot for a request that is not admitted yet.
    ///
    /// # Errors
    /// The disk is full, or all slots are in use.
    pub(crate) fn begin(&self, identity: &Identity<'_>) -> io::Result<Place> {
        let shared = &*self.0;
        let number = shared.slots().take(&shared.map)?;
        let words = shared.words(number)?;
        let given = format::identity_words(identity, u64::from(number));
        let Some(given) = given else {
            shared.slots().free.push(number);
            return Err(io::Error::other("the names of its model and its owners are too long"));
        };
        let mut place = Place { number, sequence: 0, salt: given[1] };
        for (word, value) in words[1..VERSIONS[0]].iter().zip(&given[1..VERSIONS[0]]) {
            word.store(*value, Ordering::Relaxed);
        }
        self.note(&mut place, Phase::Asking, &Figures::default());
        // From here on the slot is in use.
        words[0].store(given[0], Ordering::Release);
        Ok(place)
    }

    /// Writes the figures over the older of the two versions.
    pub(crate) fn note(&self, place: &mut Place, phase: Phase, figures: &Figures) {
        place.sequence += 1;
        let version = format::version((phase, place.sequence), figures, place.salt);
        let at = VERSIONS[(place.sequence % 2) as usize];
        // The slot exists, because it was begun.
        let Ok(words) = self.0.words(place.number) else { return };
        for (word, value) in words[at..at + VERSION_WORDS].iter().zip(version) {
            // The stores happen in this order: a checksum is never visible before its content.
            word.store(value, Ordering::Release);
        }
    }

    /// Frees a slot: its request is in the ledger, or was refused.
    pub(crate) fn free(&self, place: Place) {
        self.free_slot(place.number);
    }

    fn free_slot(&self, number: u32) {
        if let Ok(words) = self.0.words(number) {
            words[0].store(0, Ordering::Release);
            self.0.slots().free.push(number);
        }
    }

    /// Number of slots in use.
    #[cfg(test)]
    fn open_slots(&self) -> usize {
        let slots = self.0.slots();
        slots.len as usize - slots.free.len()
    }

    /// Flushes changes to the disk: call it once a second, off the request's path.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        self.0.map.sync()
    }

    fn header_word(&self, at: usize) -> &AtomicU64 {
        let word = self.0.map.words(at as u64 * 8, 1);
        &word.expect("a file that is open has a header")[0]
    }
}

impl Shared {
    fn words(&self, slot: u32) -> io::Result<&[AtomicU64]> {
        let words = self.map.words(offset(slot), SLOT_WORDS);
        words.ok_or_else(|| io::Error::other("the journal of open requests was truncated"))
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn take(&mut self, map: &MappedFile) -> io::Result<u32> {
        if self.free.is_empty() {
            self.extend(map)?;
        }
        self.free.pop().ok_or_else(|| io::Error::other("no slot is free"))
    }

    /// Makes room for the first requests, so that a full disk is found at the start.
    fn grow(&mut self, map: &MappedFile) -> io::Result<()> {
        if self.len == 0 { self.extend(map) } else { Ok(()) }
    }

    fn extend(&mut self, map: &MappedFile) -> io::Result<()> {
        if self.len + STEP > MOST {
            return Err(io::Error::other(format!(
                "{MOST} requests are open or wait for the store"
            )));
        }
        let new = self.len + STEP;
        map.grow(offset(new))?;
        // Only after the file has the slots: a file that is shorter than its count was truncated.
        if let Some(count) = map.words(format::COUNT_AT as u64 * 8, 1) {
            count[0].store(format::count_word(new), Ordering::Release);
        }
        self.free.extend((self.len..new).rev());
        self.len = new;
        Ok(())
    }
}

fn offset(slot: u32) -> u64 {
    HEADER as u64 + u64::from(slot) * SLOT as u64
}

fn failed(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Journal).at(path).caused_by(error)
}

#[cfg(test)]
#[path = "journal/journal_tests.rs"]
mod tests;
