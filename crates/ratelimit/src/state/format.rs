//! The format of the state file: a header, then slots of equal size, one per meter. It encodes and
//! decodes words, and does no I/O.
//!
//! A slot holds two versions of its meter. Each has a sequence number and a checksum, and a write
//! replaces the older one: if the process is killed between two stores, the other version is
//! intact.

use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use crate::bucket::Bucket;
use crate::mapped::checksum;
use crate::meter::Meter;
use crate::{Limit, Micros};

/// Bytes before the first slot.
pub(super) const HEADER: usize = 4096;
/// Words of a slot: 256 bytes, so that no slot spans two sectors.
pub(super) const SLOT_WORDS: usize = 32;
/// Bytes of a slot.
pub(super) const SLOT: usize = SLOT_WORDS * 8;
/// Words of one version: sequence and kind, six of content, a checksum.
pub(super) const VERSION_WORDS: usize = 8;
/// Offset of the name, in words.
pub(super) const NAME_AT: usize = 2;
/// Offsets of the two versions, in words: each is one cache line.
pub(super) const VERSIONS: [usize; 2] = [16, 24];
/// Longest name: longer ones are stored as their beginning and a digest.
pub(super) const NAME: usize = (VERSIONS[0] - NAME_AT) * 8;

/// First words of the header: a magic number, and the version of this format.
const MAGIC: [u64; 3] =
    [u64::from_le_bytes(*b"agentd l"), u64::from_le_bytes(*b"imits\r\n\x1a"), 1];
/// The upper half of the first word of a used slot.
const IN_USE: u64 = 0x51_07 << 48;

const RATE: u64 = 0;
const SPEND: u64 = 1;

/// One slot's words.
pub(super) type Slot = [u64; SLOT_WORDS];
/// One version's words.
pub(super) type Version = [u64; VERSION_WORDS];

/// Offset of the number of slots in the header, in bytes.
pub(super) const COUNT_AT: u64 = 64;

/// The header of a new file.
pub(super) fn header() -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let words = MAGIC.into_iter().chain([checksum(&MAGIC, 0), 0, 0, 0, 0, count_word(0)]);
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The number of slots as stored: one word, so that it is written atomically.
pub(super) fn count_word(count: u32) -> u64 {
    u64::from(count) << 32 | u64::from(!count)
}

/// The minimum number of slots of a file with this header, or the error in it.
pub(super) fn check_header(bytes: &[u8]) -> Result<u32, &'static str> {
    let fresh = header();
    if bytes.len() < HEADER {
        return Err("it is cut off");
    }
    if bytes[..16] != fresh[..16] {
        return Err("it is not a state file");
    }
    let (from, to) = (COUNT_AT as usize, COUNT_AT as usize + 8);
    let word = bytes[from..to].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let count = (word >> 32) as u32;
    let is_whole = bytes[..from] == fresh[..from] && bytes[to..HEADER] == fresh[to..];
    if !is_whole || word != count_word(count) {
        return Err("it is damaged, or of another version");
    }
    Ok(count)
}

/// A meter as stored in a slot.
#[derive(Debug)]
pub(crate) struct Record {
    /// See [`name`].
    pub(crate) name: Box<[u8]>,
    pub(crate) meter: Meter,
    /// The sequence number of the valid version.
    pub(crate) sequence: u64,
}

/// Decodes slot `number`: `None` when it is free.
pub(super) fn read(slot: &Slot, number: u64) -> Result<Option<Record>, &'static str> {
    if slot[0] == 0 {
        return Ok(None);
    }
    let length = (slot[0] & 0xffff) as usize;
    if slot[0] != IN_USE | length as u64 || length > NAME {
        return Err("its signature is damaged");
    }
    if slot[1] != checksum(&slot[NAME_AT..VERSIONS[0]], slot[0]) {
        return Err("its name is damaged");
    }
    let name: Vec<u8> =
        slot[NAME_AT..VERSIONS[0]].iter().flat_map(|word| word.to_le_bytes()).collect();
    let newest = VERSIONS.iter().filter_map(|at| {
        let version: Version = slot[*at..*at + VERSION_WORDS].try_into().ok()?;
        let is_whole = version[7] == checksum(&version[..7], number) && version[0] != 0;
        is_whole.then_some(version)
    });
    let version =
        newest.max_by_key(|version| version[0]).ok_or("both of its versions are damaged")?;
    let meter = decode(&version).ok_or("its kind is unknown")?;
    Ok(Some(Record { name: name[..length].into(), meter, sequence: version[0] >> 2 }))
}

/// Encodes the first two words and the name of a slot.
pub(super) fn name_words(name: &[u8]) -> Slot {
    let mut slot = [0; SLOT_WORDS];
    slot[0] = IN_USE | name.len() as u64;
    for (word, bytes) in slot[NAME_AT..VERSIONS[0]].iter_mut().zip(name.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(whole);
    }
    slot[1] = checksum(&slot[NAME_AT..VERSIONS[0]], slot[0]);
    slot
}

/// Encodes a version; `None` for a meter that is not stored.
pub(super) fn encode(meter: &Meter, sequence: u64, number: u64) -> Option<Version> {
    let mut words = match meter {
        Meter::Rate { bucket, limit } => {
            let (level, at, promised) = bucket.kept();
            let (low, high) = (level as u64, (level >> 64) as u64);
            [sequence << 2 | RATE, low, high, at, promised, limit.amount, limit.window, 0]
        }
        // What was reserved when the process ended counts as spent.
        Meter::Spend { month, amount, .. } => {
            [sequence << 2 | SPEND, u64::from(*month), *amount, 0, 0, 0, 0, 0]
        }
        Meter::Held { .. } => return None,
    };
    words[7] = checksum(&words[..7], number);
    Some(words)
}

fn decode(version: &Version) -> Option<Meter> {
    let [kind, first, second, at, promised, amount, window, _] = *version;
    match kind & 3 {
        RATE => {
            let level = u128::from(second) << 64 | u128::from(first);
            let bucket = Bucket::restored(level, at, promised);
            // A bucket with such a limit is never written.
            let window = (window > 0).then_some(window)?;
            Some(Meter::Rate { bucket, limit: Limit { amount, window } })
        }
        SPEND => {
            let month = u32::try_from(first).ok()?;
            Some(Meter::Spend { month, amount: second, reserved: 0 })
        }
        _ => None,
    }
}

/// A time in the future was written by a wrong clock: time continues from `now`, and usage stays.
pub(crate) fn not_ahead(meter: Meter, now: Micros) -> Meter {
    match meter {
        Meter::Rate { bucket, limit } => {
            let (level, at, promised) = bucket.kept();
            let latest = now.saturating_add(limit.window);
            let bucket = Bucket::restored(level, at.min(now), promised.min(latest));
            Meter::Rate { bucket, limit }
        }
        other => other,
    }
}

/// The stored name of a meter, including its organization.
pub(crate) type Name = SmallVec<[u8; NAME]>;

/// The stored name: organization and meter separated by NUL, or the beginning of that and a digest
/// of all of it.
pub(crate) fn name(organization: &str, meter: &str) -> Name {
    let length = organization.len() + 1 + meter.len();
    let mut name = Name::new();
    if length <= NAME {
        name.extend_from_slice(organization.as_bytes());
        name.push(0);
        name.extend_from_slice(meter.as_bytes());
        return name;
    }
    let whole = format!("{organization}\0{meter}");
    name.extend_from_slice(&whole.as_bytes()[..NAME - 33]);
    name.push(1);
    for byte in &Sha256::digest(whole.as_bytes())[..16] {
        name.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    name
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
