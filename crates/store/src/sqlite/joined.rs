//! Large pieces of the model's history: copies of sequences of `history` rows, so that a long
//! thread loads from few rows. The rows are authoritative: a piece can be deleted at any time, and
//! without one the rows are read.
//!
//! A piece is a compressed text with a checksum. For each fragment it has a mark, a byte that
//! distinguishes text from a packed value, a length, and the bytes. Reading starts where the
//! history starts over, so no piece spans such a position.

use std::ops::Range;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::Fragment;
use crate::sqlite::failure::Failure;
use crate::sqlite::lineage::Lineage;
use crate::sqlite::rows::find_thread;
use crate::sqlite::{content, keys};

/// The history is joined after every so many turns.
const TURNS: i64 = 16;
/// A turn with more fragments than this is joined when it ends.
const MANY: i64 = 64;
/// A piece ends with the fragment that reaches this size, in bytes. A fragment has less than 8 KiB.
const PIECE: usize = 256 << 10;
/// Largest piece, in bytes; its last fragment can refer to many chunks.
const MOST: usize = 64 << 20;
/// A reader that finds more fragments than this outside of pieces requests a join.
pub(crate) const LOOSE: usize = 512;

/// The bytes are text.
const TEXT: u8 = 0;
/// The bytes are a packed value of the column `packed`.
const PACKED: u8 = 1;

/// Joins the history of a thread if enough fragments have accumulated at the end of `turn`.
pub(crate) fn after_turn(conn: &Connection, turn: i64) -> Result<(), Failure> {
    let range = keys::entries_of(turn, turn);
    let last: Option<i64> = conn
        .prepare_cached(
            "SELECT pk FROM history WHERE pk >= ?1 AND pk < ?2 ORDER BY pk DESC LIMIT 1",
        )?
        .query_row([range.start, range.end], |row| row.get(0))
        .optional()?;
    if keys::ordinal(turn) % TURNS != 0 && last.is_none_or(|last| keys::position(last) < MANY) {
        return Ok(());
    }
    join(conn, keys::thread_of(turn), range.end)
}

/// Joins all loose fragments that a thread shows.
pub(crate) fn join_all(conn: &mut Connection, thread: &str) -> Result<(), Failure> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let lineage = Lineage::of(&transaction, find_thread(&transaction, thread)?)?;
    for segment in lineage.segments {
        join(&transaction, segment.source, segment.history()?.end)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Joins the loose fragments of a thread before the key `end`.
pub(crate) fn join(conn: &Connection, thread: i64, end: i64) -> Result<(), Failure> {
    let turns = keys::turns_of(thread);
    let all = keys::entries_of(turns.start, turns.end - 1);
    let from = last_joined(conn, &all)?.map_or(all.start, |last| last + 1);
    let mut piece = Piece::default();
    let mut rows = conn.prepare_cached(
        "SELECT pk, fragment, packed, mark, anew FROM history WHERE pk >= ?1 AND pk < ?2 ORDER BY pk",
    )?;
    let mut rows = rows.query([from, end.min(all.end)])?;
    while let Some(row) = rows.next()? {
        let (key, mark, anew): (i64, u8, bool) = (row.get(0)?, row.get(3)?, row.get(4)?);
        if anew {
            piece.write(conn)?;
        }
        match row.get::<_, Option<Vec<u8>>>(2)? {
            None => piece.add(
                key,
                mark,
                TEXT,
                row.get_ref(1)?.as_bytes().map_err(rusqlite::Error::from)?,
            ),
            Some(packed) if content::is_chunked(&packed) => piece.add(key, mark, PACKED, &packed),
            Some(packed) => {
                let text = content::load(conn, String::new(), Some(packed))?;
                piece.add(key, mark, TEXT, text.as_bytes());
            }
        }
        if piece.bytes.len() >= PIECE {
            piece.write(conn)?;
        }
    }
    piece.write(conn)
}

/// Deletes pieces that end after a fragment about to be inserted.
pub(crate) fn before_insert(conn: &Connection, key: i64) -> Result<(), Failure> {
    let turns = keys::turns_of(keys::thread_of(keys::turn_of(key)));
    let all = keys::entries_of(turns.start, turns.end - 1);
    let joined = last_joined(conn, &all)?;
    if joined.is_some_and(|last| last > key) { erase(conn, &(key..all.end)) } else { Ok(()) }
}

/// The last key of the last piece in this range.
fn last_joined(conn: &Connection, all: &Range<i64>) -> Result<Option<i64>, Failure> {
    Ok(conn
        .prepare_cached(
            "SELECT last FROM joined WHERE pk >= ?1 AND pk < ?2 ORDER BY pk DESC LIMIT 1",
        )?
        .query_row([all.start, all.end], |row| row.get(0))
        .optional()?)
}

/// Deletes the pieces that contain fragments with these keys.
pub(crate) fn erase(conn: &Connection, entries: &Range<i64>) -> Result<(), Failure> {
    let turns = keys::turns_of(keys::thread_of(keys::turn_of(entries.start)));
    let first = keys::entries_of(turns.start, turns.start).start;
    conn.prepare_cached("DELETE FROM joined WHERE pk >= ?1 AND pk < ?2 AND last >= ?3")?
        .execute([first, entries.end, entries.start])?;
    Ok(())
}

/// Appends the fragments with these keys to `into`, and returns the number of loose ones.
pub(crate) fn read(
    conn: &Connection,
    range: Range<i64>,
    into: &mut Vec<Fragment>,
) -> Result<usize, Failure> {
    let mut loose = 0;
    let mut next = range.start;
    let mut pieces = conn.prepare_cached(
        "SELECT pk, last, packed FROM joined WHERE pk >= ?1 AND pk < ?2 ORDER BY pk",
    )?;
    let mut pieces = pieces.query([range.start, range.end])?;
    while let Some(piece) = pieces.next()? {
        let (first, last): (i64, i64) = (piece.get(0)?, piece.get(1)?);
        if last >= range.end {
            break;
        }
        loose += read_loose(conn, next..first, into)?;
        let packed = piece.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        let before = into.len();
        match split(conn, packed, into) {
            Ok(()) => {}
            // The rows have the same content, or are damaged as well.
            Err(Failure::Damaged(_)) => {
                into.truncate(before);
                loose += read_loose(conn, first..last + 1, into)?;
            }
            Err(other) => return Err(other),
        }
        next = last + 1;
    }
    Ok(loose + read_loose(conn, next..range.end, into)?)
}

/// Reads every piece.
///
/// # Errors
/// The first piece that cannot be read.
pub(crate) fn check_all(conn: &Connection) -> Result<(), Failure> {
    let mut pieces = conn.prepare("SELECT packed FROM joined")?;
    let mut pieces = pieces.query([])?;
    while let Some(piece) = pieces.next()? {
        split(conn, piece.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?, &mut Vec::new())?;
    }
    Ok(())
}

/// Loose fragments with their keys, and whether the history starts over at each.
pub(crate) fn fragments_between(
    conn: &Connection,
    range: Range<i64>,
) -> Result<Vec<(i64, Fragment, bool)>, Failure> {
    let mut statement = conn.prepare_cached(
        "SELECT pk, fragment, packed, mark, anew FROM history
         WHERE pk >= ?1 AND pk < ?2 ORDER BY pk",
    )?;
    let mut rows = statement.query([range.start, range.end])?;
    let mut fragments = Vec::new();
    while let Some(row) = rows.next()? {
        let packed: Option<Vec<u8>> = row.get(2)?;
        let text = match packed {
            None => row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?.into(),
            Some(_) => content::load(conn, String::new(), packed)?.into(),
        };
        fragments.push((row.get(0)?, Fragment { text, mark: row.get(3)? }, row.get(4)?));
    }
    Ok(fragments)
}

fn read_loose(
    conn: &Connection,
    range: Range<i64>,
    into: &mut Vec<Fragment>,
) -> Result<usize, Failure> {
    let before = into.len();
    if range.start < range.end {
        let found = fragments_between(conn, range)?;
        into.extend(found.into_iter().map(|(_, fragment, _)| fragment));
    }
    Ok(into.len() - before)
}

/// Splits a piece into fragments.
fn split(conn: &Connection, packed: &[u8], into: &mut Vec<Fragment>) -> Result<(), Failure> {
    let damaged = || content::damaged("a piece of the model's history");
    let bytes = content::expand_piece(packed, MOST)?;
    let mut rest = bytes.as_slice();
    while let Some(([mark, kind, size @ ..], more)) = rest.split_first_chunk::<6>() {
        let size = usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX);
        let (data, more) = more.split_at_checked(size).ok_or_else(damaged)?;
        rest = more;
        let text: Arc<str> = match *kind {
            TEXT => std::str::from_utf8(data).map_err(|_| damaged())?.into(),
            PACKED => content::load(conn, String::new(), Some(data.to_vec()))?.into(),
            _ => return Err(damaged()),
        };
        into.push(Fragment { text, mark: *mark });
    }
    if rest.is_empty() { Ok(()) } else { Err(damaged()) }
}

/// A piece under construction.
#[derive(Default)]
struct Piece {
    /// Keys of the first and the last fragment.
    keys: Option<(i64, i64)>,
    bytes: Vec<u8>,
}

impl Piece {
    fn add(&mut self, key: i64, mark: u8, kind: u8, data: &[u8]) {
        let first = self.keys.map_or(key, |(first, _)| first);
        self.keys = Some((first, key));
        self.bytes.extend([mark, kind]);
        self.bytes.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.bytes.extend(data);
    }

    /// Stores the piece, and starts the next one.
    fn write(&mut self, conn: &Connection) -> Result<(), Failure> {
        if let Some((first, last)) = self.keys.take() {
            let packed = content::compress_piece(&self.bytes)?;
            conn.prepare_cached(
                "INSERT OR REPLACE INTO joined (pk, last, packed) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![first, last, packed])?;
        }
        self.bytes.clear();
        Ok(())
    }
}
