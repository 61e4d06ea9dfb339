//! Recreates lost rows of `turn` from references: items, the index of turns, and the model's
//! history. A recreated turn has its position, its items and, if the index has it, its id. Its
//! error reports that its record is lost.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use super::lineages::{live_threads, lost_turns};
use super::refill::Losses;
use super::scan::Scan;
use crate::TurnStatus;
use crate::sqlite::failure::Failure;
use crate::sqlite::keys;
use crate::sqlite::lineage::Lineage;

/// Recreates turns.
pub(super) struct Turns<'s> {
    conn: &'s Connection,
    scan: &'s Scan,
    /// JSON text: the error of recreated turns; `None` makes them interrupted.
    error: Option<&'s str>,
    remade: BTreeSet<i64>,
}

impl<'s> Turns<'s> {
    pub(super) fn new(conn: &'s Connection, scan: &'s Scan, error: Option<&'s str>) -> Self {
        Self { conn, scan, error, remade: BTreeSet::new() }
    }

    /// Recreates the turns that an item or the index of turns refers to.
    pub(super) fn remake_named(&mut self, losses: &mut Losses) -> Result<(), Failure> {
        let with_items = self
            .conn
            .prepare("SELECT DISTINCT turn FROM item WHERE turn NOT IN (SELECT pk FROM turn)")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<BTreeSet<i64>, _>>()?;
        let mut exists = self.conn.prepare("SELECT 1 FROM turn WHERE pk = ?1")?;
        let mut lost = with_items;
        for turn in self.scan.indexed.turns.keys() {
            if !exists.exists([turn])? {
                lost.insert(*turn);
            }
        }
        lost.into_iter().try_for_each(|turn| self.remake(turn, losses))
    }

    /// Recreates visible turns with history. At positions that no thread shows, history can exist
    /// without a turn.
    pub(super) fn remake_shown(&mut self, losses: &mut Losses) -> Result<(), Failure> {
        for thread in live_threads(self.conn)? {
            for segment in Lineage::of(self.conn, thread)?.segments {
                for turn in lost_turns(self.conn, &segment)? {
                    if self.has_history(turn)? {
                        self.remake(turn, losses)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets the time of recreated turns to that of an adjacent turn, or of their thread.
    pub(super) fn date(&self) -> Result<(), Failure> {
        let mut date = self.conn.prepare(
            "UPDATE turn SET started_at_ms = coalesce(
                 (SELECT started_at_ms FROM turn AS other WHERE other.pk BETWEEN ?2 AND ?1 - 1
                     AND other.started_at_ms > 0 ORDER BY other.pk DESC LIMIT 1),
                 (SELECT started_at_ms FROM turn AS other WHERE other.pk BETWEEN ?1 + 1 AND ?3
                     AND other.started_at_ms > 0 ORDER BY other.pk LIMIT 1),
                 (SELECT created_at * 1000 FROM thread WHERE pk = turn.thread), 0)
             WHERE pk = ?1",
        )?;
        for turn in &self.remade {
            let places = keys::turns_of(keys::thread_of(*turn));
            date.execute([*turn, places.start, places.end - 1])?;
        }
        Ok(())
    }

    fn has_history(&self, turn: i64) -> Result<bool, Failure> {
        let entries = keys::entries_of(turn, turn);
        Ok(self
            .conn
            .prepare_cached("SELECT 1 FROM history WHERE pk >= ?1 AND pk < ?2")?
            .exists([entries.start, entries.end])?)
    }

    fn remake(&mut self, turn: i64, losses: &mut Losses) -> Result<(), Failure> {
        if keys::ordinal(turn) == 0 {
            return Ok(());
        }
        let made_up = format!("00000000-0000-7000-8000-{turn:012x}");
        let known = self.scan.indexed.turns.get(&turn).unwrap_or(&made_up);
        // A damaged entry can contain the id of another turn of the thread.
        let made = self.insert(turn, known)? || self.insert(turn, &made_up)?;
        let lost = losses.of_turn(turn);
        (lost.turn, lost.record) = (!made, made);
        if made {
            self.remade.insert(turn);
        }
        Ok(())
    }

    fn insert(&self, turn: i64, id: &str) -> Result<bool, Failure> {
        let status = match self.error {
            Some(_) => TurnStatus::Failed,
            None => TurnStatus::Interrupted,
        };
        let added = self
            .conn
            .prepare_cached(
                "INSERT OR IGNORE INTO turn (pk, thread, id, status, started_at_ms, error)
                 VALUES (?1, ?2, ?3, ?4, 0, ?5)",
            )?
            .execute(params![turn, keys::thread_of(turn), id, status.code(), self.error])?;
        Ok(added > 0)
    }
}
