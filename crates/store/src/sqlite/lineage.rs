//! The turns that a thread shows: segments of its own turns and of its ancestors', in order. A fork
//! and a rollback write a few segments and copy no turn, so their cost does not grow with the
//! history.
//!
//! Ordinals increase along a lineage, so an ordinal identifies a visible turn even of another
//! thread. The first position of each segment has no turn, only history outside of turns.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};

use crate::StoreError;
use crate::sqlite::failure::Failure;
use crate::sqlite::keys;

/// A sequence of visible turns, with the ordinals after `first` up to and including `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    /// A position without a turn.
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// The thread that has the rows.
    pub(crate) source: i64,
    /// The last visible key of the history. What the source adds to its last turn later is hidden.
    pub(crate) history_end: i64,
}

impl Segment {
    /// The keys of its turns.
    pub(crate) fn turns(&self) -> Result<Range<i64>, StoreError> {
        Ok(keys::turn_key(self.source, self.first)? + 1
            ..keys::turn_key(self.source, self.last)? + 1)
    }

    /// The keys of its part of the model's history.
    pub(crate) fn history(&self) -> Result<Range<i64>, StoreError> {
        let first = keys::turn_key(self.source, self.first)?;
        let last = keys::turn_key(self.source, self.last)?;
        let range = keys::entries_of(first, last);
        Ok(range.start..range.end.min(self.history_end))
    }

    fn holds(&self, turn: i64) -> Result<bool, StoreError> {
        Ok(self.turns()?.contains(&turn))
    }
}

/// All segments of a thread. New turns go to the last one.
#[derive(Debug)]
pub(crate) struct Lineage {
    pub(crate) segments: Vec<Segment>,
}

impl Lineage {
    /// The lineage of the thread with this row id.
    pub(crate) fn of(conn: &Connection, thread: i64) -> Result<Self, Failure> {
        let mut segments = conn
            .prepare_cached(
                "SELECT first, last, source, history_end FROM segment
                 WHERE thread = ?1 ORDER BY first",
            )?
            .query_map([thread], |row| {
                Ok(Segment {
                    first: row.get(0)?,
                    last: row.get(1)?,
                    source: row.get(2)?,
                    history_end: row.get(3)?,
                })
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let (first, last) = conn
            .prepare_cached("SELECT open_from, last_ordinal FROM thread WHERE pk = ?1")?
            .query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))?;
        segments.push(Segment { first, last, source: thread, history_end: i64::MAX });
        Ok(Self { segments })
    }

    /// Number of visible turns.
    pub(crate) fn turns(&self) -> i64 {
        self.segments.iter().map(|segment| segment.last - segment.first).sum()
    }

    /// Key of the visible turn with this id.
    pub(crate) fn find(&self, conn: &Connection, id: &str) -> Result<Option<i64>, Failure> {
        let mut by_id = conn.prepare_cached("SELECT pk FROM turn WHERE thread = ?1 AND id = ?2")?;
        for segment in self.segments.iter().rev() {
            let found: Option<i64> =
                by_id.query_row(params![segment.source, id], |row| row.get(0)).optional()?;
            if let Some(turn) = found
                && segment.holds(turn)?
            {
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }

    /// Drops everything after `ordinal`.
    pub(crate) fn cut(&mut self, ordinal: i64) {
        self.segments.retain(|segment| segment.first <= ordinal);
        if let Some(end) = self.segments.last_mut() {
            end.last = end.last.min(ordinal);
        }
    }

    /// The last ordinal after the last `turns` turns are dropped.
    pub(crate) fn ordinal_before(&self, turns: i64) -> Option<i64> {
        let mut left = turns;
        for segment in self.segments.iter().rev() {
            let own = segment.last - segment.first;
            // A segment without turns is dropped together with turns before it.
            if left <= own && (own > 0 || turns == 0) {
                return Some(segment.last - left);
            }
            left -= own;
        }
        None
    }

    /// Stores the non-empty segments as those of `thread`.
    pub(crate) fn write(&self, conn: &Connection, thread: i64) -> Result<(), Failure> {
        conn.prepare_cached("DELETE FROM segment WHERE thread = ?1")?.execute([thread])?;
        let mut insert = conn.prepare_cached(
            "INSERT INTO segment (thread, first, last, source, history_end)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for segment in &self.segments {
            if segment.last == segment.first && first_fragment(conn, segment)?.is_none() {
                continue;
            }
            let Segment { first, last, source, history_end } = *segment;
            insert.execute(params![thread, first, last, source, history_end])?;
        }
        Ok(())
    }
}

fn first_fragment(conn: &Connection, segment: &Segment) -> Result<Option<i64>, Failure> {
    let range = segment.history()?;
    Ok(conn
        .prepare_cached("SELECT pk FROM history WHERE pk >= ?1 AND pk < ?2 LIMIT 1")?
        .query_row([range.start, range.end], |row| row.get(0))
        .optional()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(segments: &[(i64, i64)]) -> Lineage {
        let segment = |(first, last): &(i64, i64)| Segment {
            first: *first,
            last: *last,
            source: 1,
            history_end: i64::MAX,
        };
        Lineage { segments: segments.iter().map(segment).collect() }
    }

    #[test]
    fn turns_are_counted_back_across_segments() {
        let check = |segments: &[(i64, i64)], turns: i64, expected: Option<i64>| {
            assert_eq!(lineage(segments).ordinal_before(turns), expected, "{segments:?} -{turns}");
        };
        check(&[(0, 5)], 0, Some(5));
        check(&[(0, 5)], 2, Some(3));
        check(&[(0, 5)], 5, Some(0));
        check(&[(0, 5)], 6, None);
        check(&[(0, 3), (6, 8)], 1, Some(7));
        check(&[(0, 3), (6, 8)], 2, Some(6));
        check(&[(0, 3), (6, 8)], 3, Some(2));
        check(&[(0, 3), (6, 6)], 0, Some(6));
        check(&[(0, 3), (6, 6)], 1, Some(2));
        check(&[(0, 0)], 0, Some(0));
        check(&[(0, 0)], 1, None);
    }

    #[test]
    fn a_cut_keeps_earlier_turns() {
        let mut cut = lineage(&[(0, 3), (6, 8)]);
        cut.cut(7);
        assert_eq!(cut.segments, lineage(&[(0, 3), (6, 7)]).segments);
        cut.cut(2);
        assert_eq!(cut.segments, lineage(&[(0, 2)]).segments);
    }
}
