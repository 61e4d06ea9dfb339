//! The format of a journal: a header, then slots of equal size, one per request. It encodes and decodes words, and
//! does no I/O.
//!
//! A slot has what identifies its request, written once, and two versions of its figures. Each version has a sequence
//! number and a checksum, and a write replaces the older one: if the process is killed between two stores, the other
//! version is intact.

use ratelimit::checksum;

use super::{Figures, Identity, Phase};
use crate::ledger::{Ended, Endpoint, Entry};

/// Bytes before the first slot.
pub(super) const HEADER: usize = 4096;
/// Words of a slot: 1 KiB.
pub(super) const SLOT_WORDS: usize = 128;
/// Bytes of a slot.
pub(super) const SLOT: usize = SLOT_WORDS * 8;
/// Words of a version.
pub(super) const VERSION_WORDS: usize = 16;
/// Offsets of the two versions, in words.
pub(super) const VERSIONS: [usize; 2] = [96, 112];
/// Offset of the texts, in words.
const TEXTS_AT: usize = 7;
/// Most bytes of all texts of a slot.
const TEXTS: usize = (VERSIONS[0] - TEXTS_AT) * 8;
/// Number of texts.
const PARTS: usize = 5;

/// First words of the header: a magic number, and the version of this format.
const MAGIC: [u64; 3] =
    [u64::from_le_bytes(*b"agentd o"), u64::from_le_bytes(*b"pen\r\n\x1a\0\0"), 1];
/// Offset of the number of slots in the header, in words.
pub(super) const COUNT_AT: usize = 4;
/// Offset of the id of the process that writes the ledger, in words.
pub(super) const WRITER_AT: usize = 5;
/// Offset of the number of recoveries, in words.
pub(super) const RECOVERIES_AT: usize = 6;

/// The first word of a slot in use.
const IN_USE: u64 = 0x510f_510f_510f_510f;

/// One slot's words.
pub(super) type Slot = [u64; SLOT_WORDS];
/// One version's words.
pub(super) type Version = [u64; VERSION_WORDS];

/// The header of a new file.
pub(super) fn header() -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let words = MAGIC.into_iter().chain([checksum(&MAGIC, 0), count_word(0)]);
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The number of slots as stored: one word, so that it is written atomically.
pub(super) fn count_word(count: u32) -> u64 {
    u64::from(count) << 32 | u64::from(!count)
}

/// The least number of slots of a file that begins with these words.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_header(words: &[u64]) -> Result<u32, &'static str> {
    let Some((magic, rest)) = words.split_first_chunk::<3>() else { return Err("it is cut off") };
    if magic[..2] != MAGIC[..2] {
        return Err("it is not a journal of open requests");
    }
    if magic[2] != MAGIC[2] {
        return Err("another version of this program wrote it");
    }
    let [sum, count, ..] = *rest else { return Err("it is cut off") };
    if sum != checksum(&MAGIC, 0) || count != count_word((count >> 32) as u32) {
        return Err("its header is damaged");
    }
    Ok((count >> 32) as u32)
}

/// A slot in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) phase: Phase,
    pub(super) entry: Entry,
    pub(super) held: u64,
}

/// Decodes slot `number`: `None` when it is free.
///
/// # Errors
/// What is damaged.
pub(super) fn read(slot: &Slot, number: u64) -> Result<Option<Record>, &'static str> {
    if slot[0] == 0 {
        return Ok(None);
    }
    if slot[0] != IN_USE || slot[1] != checksum(&slot[2..VERSIONS[0]], number) {
        return Err("what identifies its request is damaged");
    }
    let (kind, lengths) = (slot[3], [slot[4], slot[5]]);
    let bytes: Vec<u8> =
        slot[TEXTS_AT..VERSIONS[0]].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut rest = &bytes[..];
    let mut texts: [Box<str>; PARTS] = Default::default();
    for (part, text) in texts.iter_mut().enumerate() {
        let length = (lengths[part / 4] >> (part % 4 * 16) & 0xffff) as usize;
        let (own, after) = rest.split_at_checked(length).ok_or("its texts are too long")?;
        *text = std::str::from_utf8(own).map_err(|_| "a text is not valid")?.into();
        rest = after;
    }
    let newest = VERSIONS.iter().filter_map(|at| {
        let version: Version = slot[*at..*at + VERSION_WORDS].try_into().ok()?;
        let is_whole = version[15] == checksum(&version[..15], slot[1]);
        (is_whole && version[0] != 0).then_some(version)
    });
    let version = newest
        .max_by_key(|version| version[0])
        .ok_or("both versions of its figures are damaged")?;
    let phase = Phase::numbered(version[0] & 7).ok_or("its phase is unknown")?;
    let [request, organization, project, key, model] = texts;
    let ended = Ended::ALL.get((version[2] >> 16) as usize).ok_or("its end is unknown")?;
    let entry = Entry {
        // The request was noted before one was chosen.
        backend: Box::default(),
        at: version[1],
        request,
        organization,
        project,
        key,
        model,
        endpoint: Endpoint::numbered((kind & 0xffff) as i64),
        status: version[2] as u16,
        ended: *ended,
        batch: kind >> 16 & 1 == 1,
        input_tokens: version[3],
        cached_tokens: version[4],
        cache_write_tokens: version[5],
        cache_write_1h_tokens: version[6],
        output_tokens: version[7],
        web_searches: version[8],
        images: version[9],
        audio_milliseconds: version[10],
        cost: version[11],
    };
    Ok(Some(Record { phase, entry, held: version[12] }))
}

/// Encodes the words of a slot before its figures; `None` when its texts are too long.
pub(super) fn identity_words(identity: &Identity<'_>, number: u64) -> Option<Slot> {
    let mut slot = [0; SLOT_WORDS];
    slot[0] = IN_USE;
    slot[2] = identity.received;
    slot[3] = identity.endpoint.number() as u64 | u64::from(identity.batch) << 16;
    let texts =
        [identity.request, identity.organization, identity.project, identity.key, identity.model];
    let mut at = 0;
    for (part, text) in texts.iter().enumerate() {
        if at + text.len() > TEXTS {
            return None;
        }
        slot[4 + part / 4] |= (text.len() as u64) << (part % 4 * 16);
        for byte in text.bytes() {
            slot[TEXTS_AT + at / 8] |= u64::from(byte) << (at % 8 * 8);
            at += 1;
        }
    }
    slot[1] = checksum(&slot[2..VERSIONS[0]], number);
    Some(slot)
}

/// Encodes a version. `salt` is the checksum of what identifies the request: a version of one request is none of the
/// next one in its slot.
pub(super) fn version((phase, sequence): (Phase, u64), figures: &Figures, salt: u64) -> Version {
    let mut words = [
        sequence << 3 | phase as u64,
        figures.at,
        u64::from(figures.status) | (figures.ended as u64) << 16,
        figures.input_tokens,
        figures.cached_tokens,
        figures.cache_write_tokens,
        figures.cache_write_1h_tokens,
        figures.output_tokens,
        figures.web_searches,
        figures.images,
        figures.audio_milliseconds,
        figures.cost,
        figures.held,
        0,
        0,
        0,
    ];
    words[15] = checksum(&words[..15], salt);
    words
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
