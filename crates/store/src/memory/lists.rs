//! Pages of threads in memory, and the search in what was said.

use crate::cursor::ThreadPosition;
use crate::query::{fold, searched_text};
use crate::text::{Term, Words, rated};
use crate::{
    Direction, ItemRow, ItemTexts, ListQuery, Page, SortKey, StoreError, StoredThread, TextMatch,
    TextQuery,
};

use super::{Reader, Thread, is_in_progress};

impl Reader<'_> {
    pub(crate) fn threads(&self, query: &ListQuery) -> Result<Page<StoredThread>, StoreError> {
        let tag = query.tag();
        let rows = self.positions(query, &tag)?;
        let limit = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
        Ok(Page::cut(rows, limit, |(at, _)| at.write(&tag)).map(|(_, thread)| stored(thread)))
    }

    /// The threads of a list after its cursor, in order.
    fn positions(
        &self,
        query: &ListQuery,
        tag: &str,
    ) -> Result<Vec<(ThreadPosition, &Thread)>, StoreError> {
        let behind = match &query.cursor {
            Some(cursor) => Some(ThreadPosition::read(cursor, tag)?),
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
        Ok(rows)
    }
}

impl Reader<'_> {
    pub(crate) fn search_text(
        &self,
        query: &TextQuery,
        texts: &ItemTexts,
    ) -> Result<Page<TextMatch>, StoreError> {
        let (term, tag) = (Term::of(&query.term), query.tag());
        let all = self.positions(&query.list, &tag)?;
        let limit = usize::try_from(query.list.limit.max(1)).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        for (at, thread) in all {
            if term.is_empty() || found.len() > limit {
                break;
            }
            let newest = self.0.places_of(at.rowid).rev().filter(|place| !is_in_progress(place));
            let mut matched = newest.filter_map(|place| {
                let said: Vec<String> =
                    place.items.iter().filter_map(|item| said(item, texts)).collect();
                let mut words = Words::default();
                said.iter().for_each(|text| words.add(text));
                let turn = place.turn.as_ref().filter(|_| words.match_term(&term))?;
                let best = said.iter().map(|text| rated(text, &query.term, &term));
                Some((turn.id.clone(), best.min_by_key(|(rating, _)| *rating)?.1))
            });
            if let Some((turn, snippet)) = matched.next() {
                found.push((at, TextMatch { thread: stored(thread), turn, snippet }));
            }
        }
        Ok(Page::cut(found, limit, |(at, _)| at.write(&tag)).map(|(_, found)| found))
    }
}

/// The text of an item.
fn said(item: &ItemRow, texts: &ItemTexts) -> Option<String> {
    let has_text = texts.kinds.contains(&item.kind.as_str());
    has_text.then(|| (texts.text)(&item.kind, &item.payload)).flatten()
}

fn stored(thread: &Thread) -> StoredThread {
    StoredThread { record: thread.record.clone(), turn_count: thread.turn_count }
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
