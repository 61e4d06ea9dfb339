//! Pages of threads in memory.

use crate::cursor::ThreadPosition;
use crate::query::{fold, searched_text};
use crate::{Direction, ListQuery, Page, SortKey, StoreError, StoredThread};

use super::{Reader, Thread};

impl Reader<'_> {
    pub(crate) fn threads(&self, query: &ListQuery) -> Result<Page<StoredThread>, StoreError> {
        let tag = query.tag();
        let behind = match &query.cursor {
            Some(cursor) => Some(ThreadPosition::read(cursor, &tag)?),
            None => None,
        };
        let term = query.search.as_deref().filter(|term| !term.is_empty()).map(fold);
        let mut rows: Vec<(ThreadPosition, &Thread)> = self
            .0
            .threads
            .iter()
            .map(|(key, thread)| {
                let at = match query.sort {
                    SortKey::Created => thread.record.created_at,
                    SortKey::Updated => thread.record.updated_at,
                };
                (ThreadPosition { at, rowid: *key }, thread)
            })
            .filter(|(at, _)| match query.direction {
                Direction::Ascending => behind.is_none_or(|behind| *at > behind),
                Direction::Descending => behind.is_none_or(|behind| *at < behind),
            })
            .filter(|(_, thread)| is_wanted(thread, query, term.as_deref()))
            .collect();
        rows.sort_unstable_by_key(|(at, _)| *at);
        if query.direction == Direction::Descending {
            rows.reverse();
        }
        let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
        rows.truncate(limit.saturating_add(1));
        let stored = |thread: &Thread| StoredThread {
            record: thread.record.clone(),
            turn_count: thread.turn_count,
        };
        Ok(Page::cut(rows, limit, |(at, _)| at.write(&tag)).map(|(_, thread)| stored(thread)))
    }
}

fn is_wanted(thread: &Thread, query: &ListQuery, term: Option<&str>) -> bool {
    let Thread { record, turn_count, .. } = thread;
    let any_of = |values: &[String], value: &String| values.is_empty() || values.contains(value);
    *turn_count > 0
        && record.archived == query.archived
        && any_of(&query.providers, &record.model_provider)
        && any_of(&query.sources, &record.source_kind)
        && any_of(&query.sessions, &record.session_id)
        && any_of(&query.cwds, &record.cwd)
        && term.is_none_or(|term| {
            searched_text(record.name.as_deref(), &record.preview).contains(term)
        })
}
