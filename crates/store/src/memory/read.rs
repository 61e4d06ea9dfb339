//! Reads threads in memory: their turns, items, history and places, and what they used.

use crate::cursor::{EntryPosition, query_tag};
use crate::{
    Direction, Fragment, ItemRow, OrphanedTurn, Page, Place, StoreError, StoredThread, TurnRow,
    TurnsQuery, UsageQuery, UsageRow,
};

use super::{Reader, is_in_progress, turn_not_found};

impl Reader<'_> {
    pub(crate) fn thread(&self, id: &str) -> Option<StoredThread> {
        let key = self.0.find_thread(id).ok()?;
        let thread = self.0.threads.get(&key)?;
        Some(StoredThread { record: thread.record.clone(), turn_count: thread.turn_count })
    }

    pub(crate) fn turns(
        &self,
        thread: &str,
        query: &TurnsQuery,
    ) -> Result<Page<TurnRow>, StoreError> {
        Ok(self.turns_with_items(thread, query)?.map(|(turn, _)| turn))
    }

    pub(crate) fn turns_with_items(
        &self,
        thread: &str,
        query: &TurnsQuery,
    ) -> Result<Page<(TurnRow, Vec<ItemRow>)>, StoreError> {
        let key = self.0.find_thread(thread)?;
        let tag = query_tag(&["turns", thread]);
        let turns = self.0.places_of(key).filter_map(|place| Some((place.turn.as_ref()?, place)));
        let rows = turns.map(|(turn, place)| {
            let position = EntryPosition { ordinal: turn.ordinal.into(), position: 0 };
            (position, (turn, place))
        });
        let page = page(rows, query, &tag)?;
        Ok(page.map(|(turn, place)| (turn.clone(), place.items.clone())))
    }

    pub(crate) fn last_turn(&self, thread: &str) -> Result<Option<TurnRow>, StoreError> {
        let key = self.0.find_thread(thread)?;
        Ok(self.0.places_of(key).rev().find_map(|place| place.turn.clone()))
    }

    pub(crate) fn items(&self, thread: &str, turn: &str) -> Result<Vec<ItemRow>, StoreError> {
        Ok(self.visible_turn(thread, turn)?.items.clone())
    }

    fn visible_turn(&self, thread: &str, turn: &str) -> Result<&Place, StoreError> {
        let key = self.0.find_thread(thread)?;
        let is_it = |place: &&Place| place.turn.as_ref().is_some_and(|row| row.id == turn);
        let found = self.0.places_of(key).rev().find(is_it);
        found.ok_or_else(|| turn_not_found(thread, turn))
    }

    pub(crate) fn ordinal(&self, thread: &str, turn: &str) -> Result<i64, StoreError> {
        Ok(self.visible_turn(thread, turn)?.ordinal.into())
    }

    pub(crate) fn items_page(
        &self,
        thread: &str,
        turn: Option<&str>,
        query: &TurnsQuery,
    ) -> Result<Page<(String, ItemRow)>, StoreError> {
        let tag = query_tag(&["items", thread, turn.unwrap_or_default()]);
        let places: Vec<&Place> = match turn {
            Some(turn) => vec![self.visible_turn(thread, turn)?],
            None => self.0.places_of(self.0.find_thread(thread)?).collect(),
        };
        let turns = places.into_iter().filter_map(|place| Some((place.turn.as_ref()?, place)));
        let rows = turns.flat_map(|(turn, place)| {
            (0..).zip(&place.items).map(move |(position, item)| {
                (EntryPosition { ordinal: turn.ordinal.into(), position }, (turn, item))
            })
        });
        Ok(page(rows, query, &tag)?.map(|(turn, item)| (turn.id.clone(), item.clone())))
    }

    pub(crate) fn history(&self, thread: &str) -> Result<Vec<Fragment>, StoreError> {
        let key = self.0.find_thread(thread)?;
        let mut history = Vec::new();
        for (fragment, anew) in self.0.places_of(key).flat_map(|place| &place.history) {
            if *anew {
                history.clear();
            }
            history.push(fragment.clone());
        }
        Ok(history)
    }

    pub(crate) fn places(
        &self,
        thread: &str,
        behind: Option<u32>,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let key = self.0.find_thread(thread)?;
        let places = self.0.places_of(key);
        let wanted = places.filter(|place| behind.is_none_or(|behind| place.ordinal > behind));
        Ok(wanted.take(limit).cloned().collect())
    }

    pub(crate) fn turns_in_progress(&self, thread: &str) -> Result<Vec<OrphanedTurn>, StoreError> {
        Ok(self.in_progress(self.0.leased_thread(thread)?))
    }

    pub(super) fn in_progress(&self, key: i64) -> Vec<OrphanedTurn> {
        let Some(thread) = self.0.threads.get(&key) else { return Vec::new() };
        let running = self.0.places_of(key).filter(|place| is_in_progress(place));
        let orphan = |place: &Place| {
            let turn = place.turn.as_ref()?;
            Some(OrphanedTurn {
                thread: thread.record.id.clone(),
                turn: turn.id.clone(),
                started_at_ms: turn.started_at_ms,
                items: place.items.clone(),
            })
        };
        running.filter_map(orphan).collect()
    }

    pub(crate) fn usage(&self, query: UsageQuery) -> Vec<UsageRow> {
        let UsageQuery { after, from_ms, to_ms, limit } = query;
        let is_wanted = |row: &&UsageRow| {
            row.key > after && row.record.at_ms >= from_ms && row.record.at_ms < to_ms
        };
        let rows = self.0.usage.iter().map(|(_, row)| row).filter(is_wanted);
        rows.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect()
    }
}

/// The page of `query` among all rows of a thread, oldest first.
fn page<T>(
    rows: impl Iterator<Item = (EntryPosition, T)>,
    query: &TurnsQuery,
    tag: &str,
) -> Result<Page<T>, StoreError> {
    let behind = match &query.cursor {
        Some(cursor) => Some(EntryPosition::read(cursor, tag)?),
        None => None,
    };
    let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let mut rows: Vec<(EntryPosition, T)> = match query.direction {
        Direction::Ascending => {
            rows.filter(|(at, _)| behind.is_none_or(|behind| *at > behind)).collect()
        }
        Direction::Descending => {
            let mut rows: Vec<_> =
                rows.filter(|(at, _)| behind.is_none_or(|behind| *at < behind)).collect();
            rows.reverse();
            rows
        }
    };
    rows.truncate(limit.saturating_add(1));
    Ok(Page::cut(rows, limit, |(at, _)| at.write(tag)).map(|(_, row)| row))
}
