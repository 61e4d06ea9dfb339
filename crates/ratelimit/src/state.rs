//! Usage of each meter, in a memory-mapped file: a process that is killed at any instant loses
//! nothing that it has answered, a power cut at most the changes since the last
//! [`StateFile::sync`]. It keeps no names in memory and makes no decisions.
//!
//! Open reservations are not in the file: what they took stays taken. Held amounts are not in it
//! either: their owner holds them again after a restart.

mod format;

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use format::{HEADER, SLOT, SLOT_WORDS, VERSION_WORDS, VERSIONS};
pub(crate) use format::{Record, name, not_ahead};

use crate::Error;
use crate::mapped::{MappedFile, OpenFailure, open_locked};
use crate::meter::Meter;

/// Slots by which the file grows: one MiB.
const STEP: u32 = 4096;
/// Most meters in one file: one GiB.
const MOST: u32 = 4 * 1024 * 1024;

/// The slot of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MeterSlot {
    number: u32,
    sequence: u64,
}

/// The open state file.
#[derive(Debug)]
pub(crate) struct StateFile {
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

impl StateFile {
    /// Opens or creates the file, locks it, and passes each stored meter to `found`.
    pub(crate) fn open(
        path: &Path,
        mut found: impl FnMut(Record, MeterSlot),
    ) -> Result<Self, Error> {
        let failed = |source| Error::state_file(path, source);
        let mut file = open_locked(path, &format::header()).map_err(|failure| match failure {
            OpenFailure::InUse => Error::state_file_in_use(path),
            OpenFailure::Failed(source) => failed(source),
        })?;
        let mut free = Vec::new();
        let slots = read_all(path, &mut file, |number, record| match record {
            Some(record) => {
                let slot = MeterSlot { number, sequence: record.sequence };
                found(record, slot);
            }
            None => free.push(number),
        })?;
        // Lowest first, so that the file stays dense.
        free.reverse();
        let map = MappedFile::new(file, offset(slots), offset(MOST) as usize).map_err(failed)?;
        Ok(Self { map, slots: Mutex::new(Slots { len: slots, free }) })
    }

    /// Allocates a slot for a new meter and writes its name. Errors: the disk is full, or [`MOST`]
    /// slots are in use.
    pub(crate) fn add(&self, name: &[u8], meter: &Meter) -> io::Result<Option<MeterSlot>> {
        if matches!(meter, Meter::Held { .. }) {
            return Ok(None);
        }
        let number = self.take_free()?;
        let words = self.words(number)?;
        let name = format::name_words(name);
        for (word, value) in words.iter().zip(name).skip(1) {
            word.store(value, Ordering::Relaxed);
        }
        let mut slot = MeterSlot { number, sequence: 0 };
        self.write(&mut slot, meter)?;
        // From here on the slot is in use.
        words[0].store(name[0], Ordering::Release);
        Ok(Some(slot))
    }

    /// Writes the meter over the older of the two versions.
    pub(crate) fn write(&self, slot: &mut MeterSlot, meter: &Meter) -> io::Result<()> {
        slot.sequence += 1;
        let Some(version) = format::encode(meter, slot.sequence, u64::from(slot.number)) else {
            return Ok(());
        };
        let at = VERSIONS[(slot.sequence % 2) as usize];
        let words = &self.words(slot.number)?[at..at + VERSION_WORDS];
        for (word, value) in words.iter().zip(version) {
            // The stores happen in this order: a checksum is never visible before its content.
            word.store(value, Ordering::Release);
        }
        Ok(())
    }

    /// Frees the slot.
    pub(crate) fn remove(&self, slot: MeterSlot) {
        if let Ok(words) = self.words(slot.number) {
            words[0].store(0, Ordering::Release);
            self.lock().free.push(slot.number);
        }
    }

    /// Flushes changes to the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.map.sync()
    }

    fn words(&self, slot: u32) -> io::Result<&[std::sync::atomic::AtomicU64]> {
        let words = self.map.words(offset(slot), SLOT_WORDS);
        words.ok_or_else(|| io::Error::other("the state file was truncated"))
    }

    fn take_free(&self) -> io::Result<u32> {
        let mut slots = self.lock();
        if let Some(slot) = slots.free.pop() {
            return Ok(slot);
        }
        let (old, new) = (slots.len, slots.len + STEP);
        self.map.grow(offset(new))?;
        // Only after the file has the slots: a file that is shorter than its count was truncated.
        if let Some(count) = self.map.words(format::COUNT_AT, 1) {
            count[0].store(format::count_word(new), Ordering::Release);
        }
        slots.len = new;
        slots.free.extend((old + 1..new).rev());
        Ok(old)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a whole state file from memory and returns its number of meters. For tests of the reader
/// with damaged files.
pub fn check_state(bytes: &[u8]) -> Result<usize, Error> {
    let mut meters = 0;
    let mut rest = bytes;
    read_all(Path::new("(memory)"), &mut rest, |_, record| {
        meters += usize::from(record.is_some());
    })?;
    Ok(meters)
}

/// A state file without meters: see [`check_state`].
#[must_use]
pub fn empty_state() -> Vec<u8> {
    format::header().to_vec()
}

fn offset(slot: u32) -> u64 {
    HEADER as u64 + u64::from(slot) * SLOT as u64
}

/// Reads the header and the slots; returns the number of slots.
fn read_all(
    path: &Path,
    file: &mut impl Read,
    mut found: impl FnMut(u32, Option<Record>),
) -> Result<u32, Error> {
    let failed = |source| Error::state_file(path, source);
    let damaged = |position: &str, what| Error::state_file_damaged(path, position, what);
    let mut header = Vec::with_capacity(HEADER);
    file.take(HEADER as u64).read_to_end(&mut header).map_err(failed)?;
    let in_header = |what| damaged("in its header", what);
    let least = format::check_header(&header).map_err(in_header)?;
    let mut number = 0;
    let mut bytes = Vec::with_capacity(STEP as usize * SLOT);
    loop {
        bytes.clear();
        file.take(bytes.capacity() as u64).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.is_empty() {
            let is_whole = number >= least;
            return is_whole.then_some(number).ok_or_else(|| in_header("its slots are cut off"));
        }
        for slot in bytes.chunks(SLOT) {
            let position = || format!("slot {number} at byte {}", offset(number));
            if slot.len() < SLOT {
                return Err(damaged(&position(), "it is cut off"));
            }
            if number == MOST {
                return Err(damaged(&position(), "it is larger than a state file can be"));
            }
            let mut words = [0; SLOT_WORDS];
            for (word, bytes) in words.iter_mut().zip(slot.chunks_exact(8)) {
                *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            }
            let record = format::read(&words, u64::from(number));
            found(number, record.map_err(|what| damaged(&position(), what))?);
            number += 1;
        }
    }
}

#[cfg(test)]
#[path = "state/state_tests.rs"]
mod tests;
