//! Text in the database: short text is stored as it is, longer text compressed, and long text in
//! deduplicated chunks. The content determines where a chunk ends, so that texts which differ in
//! one place share all other chunks.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use zstd::bulk::{Compressor, Decompressor};

use crate::sqlite::failure::Failure;

/// Length from which text is compressed.
const PACK_FROM: usize = 512;
/// Length from which text is stored in chunks.
const CHUNK_FROM: usize = 8 << 10;
/// Smallest size of a chunk, except the last one.
const MIN_CHUNK: usize = 2 << 10;
/// Largest size of a chunk.
const MAX_CHUNK: usize = 32 << 10;
/// A chunk ends at one position in 2^13, so its average size is 8 KiB plus the smallest size.
const END_MASK: u64 = (1 << 13) - 1;
/// Fast, with most of the possible compression.
const LEVEL: i32 = 1;

/// First byte of a packed value with the size in eight bytes, then the text.
const PLAIN: u8 = 0;
/// First byte of a packed value with the size in eight bytes, then compressed text.
const COMPRESSED: u8 = 1;
/// First byte of a packed value with ids of chunks, eight bytes each.
const CHUNKED: u8 = 2;

/// Text in the form of the two columns.
pub(crate) struct Stored<'t> {
    pub(crate) text: &'t str,
    pub(crate) packed: Option<Vec<u8>>,
}

/// Prepares `text` for the two columns, and adds a reference to each of its chunks.
pub(crate) fn store<'t>(conn: &Connection, text: &'t str) -> Result<Stored<'t>, Failure> {
    let bytes = text.as_bytes();
    let packed = if bytes.len() >= CHUNK_FROM {
        let mut packed = vec![CHUNKED];
        for range in chunks(bytes) {
            packed.extend(keep_chunk(conn, &bytes[range])?.to_le_bytes());
        }
        Some(packed)
    } else if bytes.len() >= PACK_FROM {
        compressed(bytes).map(|data| {
            let mut packed = vec![COMPRESSED];
            packed.extend((bytes.len() as u64).to_le_bytes());
            packed.extend(data);
            packed
        })
    } else {
        None
    };
    Ok(Stored { text: if packed.is_some() { "" } else { text }, packed })
}

/// The text from the two columns; the reverse of [`store`].
pub(crate) fn load(
    conn: &Connection,
    text: String,
    packed: Option<Vec<u8>>,
) -> Result<String, Failure> {
    let Some(packed) = packed else { return Ok(text) };
    let bytes = match packed.split_first() {
        Some((&COMPRESSED, rest)) => {
            let (size, data) = rest.split_first_chunk().ok_or_else(|| damaged("a packed text"))?;
            expand(data, u64::from_le_bytes(*size))?
        }
        Some((&CHUNKED, ids)) => {
            let mut bytes = Vec::new();
            for id in chunk_ids(ids) {
                bytes.extend(read_chunk(conn, id)?);
            }
            bytes
        }
        _ => return Err(damaged("a packed text")),
    };
    String::from_utf8(bytes).map_err(|_| damaged("a packed text"))
}

/// Releases the chunks of a packed value. A chunk without references is deleted.
pub(crate) fn release(conn: &Connection, packed: Option<&[u8]>) -> Result<(), Failure> {
    let Some((&CHUNKED, ids)) = packed.and_then(<[u8]>::split_first) else { return Ok(()) };
    let mut less =
        conn.prepare_cached("UPDATE chunk SET refs = refs - 1 WHERE id = ?1 RETURNING refs")?;
    let mut remove = conn.prepare_cached("DELETE FROM chunk WHERE id = ?1")?;
    for id in chunk_ids(ids) {
        let left: Option<i64> = less.query_row([id], |row| row.get(0)).optional()?;
        if left.is_some_and(|refs| refs <= 0) {
            remove.execute([id])?;
        }
    }
    Ok(())
}

/// The ids of the chunks of a packed value.
pub(crate) fn references(packed: &[u8]) -> Vec<i64> {
    match packed.split_first() {
        Some((&CHUNKED, ids)) => chunk_ids(ids).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether a chunk exists and its text matches its hash.
pub(crate) fn is_readable(conn: &Connection, id: i64) -> bool {
    let hash: Result<Vec<u8>, _> =
        conn.query_row("SELECT hash FROM chunk WHERE id = ?1", [id], |row| row.get(0));
    let (Ok(hash), Ok(bytes)) = (hash, read_chunk(conn, id)) else { return false };
    Sha256::digest(bytes).as_slice() == hash
}

/// Returns whether the text of a chunk with these columns matches its hash.
pub(crate) fn is_chunk(hash: &[u8], size: i64, data: &[u8]) -> bool {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    let text = if data.len() as u64 == size { Ok(data.to_vec()) } else { expand(data, size) };
    text.is_ok_and(|text| Sha256::digest(text).as_slice() == hash)
}

fn chunk_ids(ids: &[u8]) -> impl Iterator<Item = i64> {
    ids.as_chunks().0.iter().map(|id| i64::from_le_bytes(*id))
}

fn keep_chunk(conn: &Connection, bytes: &[u8]) -> Result<i64, Failure> {
    let hash = Sha256::digest(bytes);
    let known: Option<i64> = conn
        .prepare_cached("UPDATE chunk SET refs = refs + 1 WHERE hash = ?1 RETURNING id")?
        .query_row([hash.as_slice()], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    let data = compressed(bytes);
    conn.prepare_cached("INSERT INTO chunk (hash, refs, size, data) VALUES (?1, 1, ?2, ?3)")?
        .execute(params![
            hash.as_slice(),
            i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            data.as_deref().unwrap_or(bytes)
        ])?;
    Ok(conn.last_insert_rowid())
}

fn read_chunk(conn: &Connection, id: i64) -> Result<Vec<u8>, Failure> {
    let found: Option<(i64, Vec<u8>)> = conn
        .prepare_cached("SELECT size, data FROM chunk WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (size, data) = found.ok_or_else(|| damaged("a chunk of text"))?;
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    if data.len() as u64 == size { Ok(data) } else { expand(&data, size) }
}

/// Compresses `bytes`, if that saves at least an eighth.
fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let data = COMPRESSOR.with_borrow_mut(|kept| {
        let compressor = match kept {
            Some(compressor) => compressor,
            None => kept.insert(compressor()?),
        };
        compressor.compress(bytes).ok()
    })?;
    (data.len() < bytes.len() - bytes.len() / 8).then_some(data)
}

/// With a checksum, to detect damage.
fn compressor() -> Option<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL).ok()?;
    compressor.include_checksum(true).ok()?;
    Some(compressor)
}

/// A text in one value, compressed where that saves an eighth; the reverse of [`unpack`].
pub(crate) fn pack(bytes: &[u8]) -> Vec<u8> {
    let data = if bytes.len() >= PACK_FROM { compressed(bytes) } else { None };
    let (kind, data) = match data {
        Some(data) => (COMPRESSED, Cow::Owned(data)),
        None => (PLAIN, Cow::Borrowed(bytes)),
    };
    let mut packed = vec![kind];
    packed.extend((bytes.len() as u64).to_le_bytes());
    packed.extend(&*data);
    packed
}

/// The text of a value of at most `most` bytes.
pub(crate) fn unpack(packed: &[u8], most: usize) -> Result<String, Failure> {
    let bad = || damaged("a packed text");
    let (kind, rest) = packed.split_first().ok_or_else(bad)?;
    let (size, data) = rest.split_first_chunk().ok_or_else(bad)?;
    let size = usize::try_from(u64::from_le_bytes(*size)).ok().filter(|size| *size <= most);
    let size = size.ok_or_else(bad)?;
    let bytes = match *kind {
        PLAIN if data.len() == size => data.to_vec(),
        COMPRESSED => decompress(data, size)?,
        _ => return Err(bad()),
    };
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Compresses a large piece; the reverse of [`expand_piece`].
pub(crate) fn compress_piece(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let failed = |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(error.into());
    let mut compressor = Compressor::new(LEVEL).map_err(failed)?;
    compressor.include_checksum(true).map_err(failed)?;
    let mut packed = (bytes.len() as u64).to_le_bytes().to_vec();
    packed.extend(compressor.compress(bytes).map_err(failed)?);
    Ok(packed)
}

/// Decompresses a piece of at most `most` bytes.
pub(crate) fn expand_piece(packed: &[u8], most: usize) -> Result<Vec<u8>, Failure> {
    let (size, data) = packed.split_first_chunk().ok_or_else(|| damaged("a piece of text"))?;
    let size = usize::try_from(u64::from_le_bytes(*size)).ok().filter(|size| *size <= most);
    decompress(data, size.ok_or_else(|| damaged("a piece of text"))?)
}

/// Returns whether a packed value refers to chunks.
pub(crate) fn is_chunked(packed: &[u8]) -> bool {
    packed.first() == Some(&CHUNKED)
}

fn expand(data: &[u8], size: u64) -> Result<Vec<u8>, Failure> {
    // A written size is bounded by the packed text, so a larger one is damage.
    let size = usize::try_from(size).ok().filter(|size| *size <= MAX_CHUNK);
    let size = size.ok_or_else(|| damaged("a packed text"))?;
    decompress(data, size)
}

fn decompress(data: &[u8], size: usize) -> Result<Vec<u8>, Failure> {
    let text = DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress(data, size)
    });
    text.map_err(|_: std::io::Error| damaged("a packed text"))
}

thread_local! {
    // Cached, because creating one detects processor features, which on a virtual processor takes
    // far longer than compressing a few kilobytes.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

pub(crate) fn damaged(what: &str) -> Failure {
    let why = format!("{what} cannot be read").into();
    Failure::Damaged(rusqlite::Error::FromSqlConversionFailure(0, Type::Blob, why))
}

/// The ranges of the chunks of a text. A hash of the last 64 bytes determines where a chunk ends.
fn chunks(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut hash) = (0, 0_u64);
    for (at, byte) in bytes.iter().enumerate() {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        let size = at + 1 - start;
        if size >= MAX_CHUNK || (size >= MIN_CHUNK && hash >> 51 & END_MASK == 0) {
            found.push(start..at + 1);
            (start, hash) = (at + 1, 0);
        }
    }
    if start < bytes.len() {
        found.push(start..bytes.len());
    }
    found
}

/// A pseudorandom number for each byte. Other numbers would remain compatible, but find fewer equal
/// chunks.
const GEAR: [u64; 256] = {
    let mut gear = [0; 256];
    let mut state: u64 = 0;
    let mut at = 0;
    while at < 256 {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        gear[at] = mixed ^ (mixed >> 31);
        at += 1;
    }
    gear
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn database() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        crate::sqlite::schema::migrate(&mut conn).unwrap();
        conn
    }

    fn count(conn: &Connection) -> i64 {
        conn.query_row("SELECT count(*) FROM chunk", [], |row| row.get(0)).unwrap()
    }

    /// Deterministic text that compresses badly.
    fn noise(seed: u64, bytes: usize) -> String {
        let mut state = seed;
        let mut text = String::new();
        while text.len() < bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(&format!("{:016x}\n", state));
        }
        text
    }

    #[test]
    fn equal_parts_of_long_texts_are_stored_once() {
        let conn = database();
        let output = noise(1, 200_000);
        let first = format!("{{\"id\":\"1\",\"output\":\"{output}\"}}");
        let second = format!("{{\"id\":\"22\",\"wall\":\"0.1\",\"output\":\"{output}\"}}");
        let stored = store(&conn, &first).unwrap();
        let once = count(&conn);
        let again = store(&conn, &second).unwrap();
        assert!(count(&conn) <= once + 2, "{once} {}", count(&conn));
        assert_eq!(load(&conn, String::new(), again.packed.clone()).unwrap(), second);
        release(&conn, stored.packed.as_deref()).unwrap();
        assert_eq!(load(&conn, String::new(), again.packed.clone()).unwrap(), second);
        release(&conn, again.packed.as_deref()).unwrap();
        assert_eq!(count(&conn), 0);
    }

    #[test]
    fn damage_is_an_error() {
        let conn = database();
        for packed in
            [&[][..], &[9], &[COMPRESSED], &[COMPRESSED, 255, 255, 255, 255, 0, 0, 0, 0, 7]]
        {
            assert!(load(&conn, String::new(), Some(packed.to_vec())).is_err(), "{packed:?}");
        }
        let missing = [&[CHUNKED][..], &7_i64.to_le_bytes()].concat();
        assert!(load(&conn, String::new(), Some(missing)).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn stored_text_loads(parts in prop::collection::vec((".{0,40}", 1..3000_usize), 0..8)) {
            let conn = database();
            let text: String = parts.iter().map(|(part, times)| part.repeat(*times)).collect();
            let stored = store(&conn, &text).unwrap();
            let loaded = load(&conn, stored.text.to_owned(), stored.packed.clone()).unwrap();
            prop_assert_eq!(&loaded, &text);
            release(&conn, stored.packed.as_deref()).unwrap();
            prop_assert_eq!(count(&conn), 0);
        }

        #[test]
        fn chunks_cover_the_text(text in prop::collection::vec(any::<u8>(), 0..100_000)) {
            let found = chunks(&text);
            let mut at = 0;
            for range in &found {
                prop_assert_eq!(range.start, at);
                prop_assert!(range.len() <= MAX_CHUNK);
                at = range.end;
            }
            prop_assert_eq!(at, text.len());
        }
    }
}
