//! The turns that a thread shows: segments of its own turns and of its ancestors', in order. A fork
//! and a rollback write a few segments and copy no turn.
//!
//! Ordinals increase along a lineage, so an ordinal identifies a visible turn even of another
//! thread. The first place of each segment has no turn, only history outside of turns.

use super::connection::Connection;
use super::failure::Failure;
use super::value::{Columns, Value};

/// The end of the segment of new turns, and of a history that is shown completely.
pub(super) const OPEN: i64 = i64::MAX;

/// A condition on `segment` and the rows of one of its turns.
pub(super) const SHOWS_TURN: &str = "turn.thread = segment.source AND turn.ordinal > segment.first AND turn.ordinal <= segment.last";

/// A condition on `segment` and a row of the history.
pub(super) const SHOWS_HISTORY: &str = "history.thread = segment.source
    AND history.ordinal >= segment.first AND history.ordinal <= segment.last
    AND (history.ordinal < segment.last OR history.position < segment.last_history)";

/// A sequence of visible turns, with the ordinals after `first` up to and including `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    /// A place without a turn.
    pub(super) first: i64,
    pub(super) last: i64,
    /// The thread that has the rows.
    pub(super) source: i64,
    /// End of the visible history of the place `last`: what the source adds to it later is hidden.
    pub(super) last_history: i64,
}

/// All segments of a thread. New turns go to the last one, which ends with the newest place here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lineage {
    pub(super) segments: Vec<Segment>,
}

impl Lineage {
    /// The lineage of the thread with this key.
    pub(super) async fn of(connection: &Connection, thread: i64) -> Result<Self, Failure> {
        let rows = connection
            .rows(
                "SELECT segment.first, least(segment.last, thread.last_ordinal), segment.source,
                     segment.last_history
                 FROM #segment AS segment JOIN #thread AS thread ON thread.pk = segment.thread
                 WHERE segment.thread = $1 ORDER BY segment.first",
                &[thread.into()],
            )
            .await?;
        let mut segments = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut columns = Columns::of(row);
            segments.push(Segment {
                first: columns.int()?,
                last: columns.int()?,
                source: columns.int()?,
                last_history: columns.int()?,
            });
        }
        Ok(Self { segments })
    }

    /// The newest place.
    pub(super) fn newest(&self) -> i64 {
        self.segments.last().map_or(0, |segment| segment.last)
    }

    /// Number of visible turns.
    pub(super) fn turns(&self) -> i64 {
        self.segments.iter().map(|segment| segment.last - segment.first).sum()
    }

    /// Drops everything after `ordinal`.
    pub(super) fn cut(&mut self, ordinal: i64) {
        self.segments.retain(|segment| segment.first <= ordinal);
        if let Some(end) = self.segments.last_mut()
            && ordinal < end.last
        {
            (end.last, end.last_history) = (ordinal, OPEN);
        }
    }

    /// The last ordinal after the last `turns` turns are dropped.
    pub(super) fn ordinal_before(&self, turns: i64) -> Option<i64> {
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

    /// Hides what the source of the last segment adds to its last place from now on.
    pub(super) async fn freeze(&mut self, connection: &Connection) -> Result<(), Failure> {
        let Some(last) = self.segments.last_mut() else { return Ok(()) };
        let row = connection
            .row(
                "SELECT coalesce(max(position) + 1, 0) FROM #history
                 WHERE thread = $1 AND ordinal = $2",
                &[last.source.into(), last.last.into()],
            )
            .await?;
        if let Some(row) = row {
            last.last_history = last.last_history.min(Columns::of(&row).int()?);
        }
        Ok(())
    }

    /// Stores the non-empty segments as those of `thread`, followed by one of new turns after
    /// `open_from`.
    pub(super) async fn write(
        &self,
        connection: &Connection,
        thread: i64,
        open_from: i64,
    ) -> Result<(), Failure> {
        connection.execute("DELETE FROM #segment WHERE thread = $1", &[thread.into()]).await?;
        let column = |value: fn(&Segment) -> i64| Value::ints(self.segments.iter().map(value));
        connection
            .execute(
                "INSERT INTO #segment (thread, first, last, source, last_history)
                 SELECT $1, segment.first, segment.last, segment.source, segment.last_history
                 FROM unnest($2, $3, $4, $5) AS segment (first, last, source, last_history)
                 WHERE segment.first < segment.last OR EXISTS (
                     SELECT 1 FROM #history AS history
                     WHERE history.thread = segment.source AND history.ordinal = segment.last
                         AND history.position < segment.last_history)
                 UNION ALL SELECT $1, $6, $7, $1, $7",
                &[
                    thread.into(),
                    column(|segment| segment.first),
                    column(|segment| segment.last),
                    column(|segment| segment.source),
                    column(|segment| segment.last_history),
                    open_from.into(),
                    OPEN.into(),
                ],
            )
            .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lineage(segments: &[(i64, i64)]) -> Lineage {
        let segment = |(first, last): &(i64, i64)| Segment {
            first: *first,
            last: *last,
            source: 1,
            last_history: 7,
        };
        Lineage { segments: segments.iter().map(segment).collect() }
    }

    #[test]
    fn turns_are_counted_back_across_segments() {
        let check = |segments: &[(i64, i64)], turns: i64, expected: Option<i64>| {
            assert_eq!(lineage(segments).ordinal_before(turns), expected, "{segments:?} -{turns}");
        };
        check(&[(0, 5)], 0, Some(5));
        check(&[(0, 5)], 6, None);
        check(&[(0, 3), (6, 8)], 2, Some(6));
        check(&[(0, 3), (6, 8)], 3, Some(2));
        check(&[(0, 3), (6, 6)], 0, Some(6));
        check(&[(0, 3), (6, 6)], 1, Some(2));
        check(&[(0, 0)], 1, None);
    }

    #[test]
    fn a_cut_keeps_earlier_turns_with_all_of_their_history() {
        let mut cut = lineage(&[(0, 3), (6, 8)]);
        cut.cut(8);
        assert_eq!(cut, lineage(&[(0, 3), (6, 8)]));
        cut.cut(2);
        assert_eq!(cut.segments.len(), 1);
        assert_eq!((cut.segments[0].last, cut.segments[0].last_history), (2, OPEN));
    }
}
