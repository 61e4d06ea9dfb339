//! Search in what was said: in all threads by the index of the store, and in one thread by reading it.

use protocol::{
    Empty, SearchMethods, SnippetMatchRange, ThreadListParams, ThreadSearchCancelParams,
    ThreadSearchOccurrence, ThreadSearchOccurrencesParams, ThreadSearchOccurrencesResponse,
    ThreadSearchParams, ThreadSearchPartial, ThreadSearchPartialNotification, ThreadSearchResponse,
    ThreadSearchResult,
};
use store::{Direction, TextMatch, TextQuery, TurnsQuery};

use crate::handlers::page::PAGE;
use crate::handlers::thread::list_query;
use crate::server::Server;
use crate::text_searches::TextSearch;
use services::error::Error;
use services::peer::Caller;
use services::searched_text;

/// Threads that `thread/search/stream` reports at a time.
const PART: u32 = 10;
/// Longest term, in characters.
const MAX_TERM: usize = 1000;
/// Reads of a thread's items for one request, each of up to a page; the next request continues.
const MAX_READS: usize = 200;

impl SearchMethods<Caller> for Server {
    async fn thread_search(
        &self,
        caller: Caller,
        params: ThreadSearchParams,
    ) -> Result<ThreadSearchResponse, Error> {
        check_term("thread/search", &params.search_term)?;
        let search = self.services.text_searches.begin(caller.peer.id, caller.request());
        caller.begun();
        self.search_text(search, params, None).await
    }

    async fn thread_search_stream(
        &self,
        caller: Caller,
        params: ThreadSearchParams,
    ) -> Result<ThreadSearchResponse, Error> {
        check_term("thread/search/stream", &params.search_term)?;
        let search = self.services.text_searches.begin(caller.peer.id, caller.request());
        caller.begun();
        self.search_text(search, params, Some(&caller)).await
    }

    async fn thread_search_cancel(
        &self,
        caller: Caller,
        params: ThreadSearchCancelParams,
    ) -> Result<Empty, Error> {
        self.services.text_searches.cancel(caller.peer.id, params.request_id);
        Ok(Empty {})
    }

    async fn thread_search_stream_cancel(
        &self,
        caller: Caller,
        params: ThreadSearchCancelParams,
    ) -> Result<Empty, Error> {
        self.thread_search_cancel(caller, params).await
    }

    async fn thread_search_occurrences(
        &self,
        _: Caller,
        params: ThreadSearchOccurrencesParams,
    ) -> Result<ThreadSearchOccurrencesResponse, Error> {
        check_term("thread/searchOccurrences", &params.search_term)?;
        let (thread, term) = (params.thread_id.as_str(), params.search_term.as_str());
        let limit = PAGE.rows(params.limit) as usize;
        let store = self.services.store.get().await?;
        let (mut data, mut cursor) = (Vec::new(), params.cursor);
        for _ in 0..MAX_READS {
            // The page ends with an item that was read, so that the next one begins after it.
            let rows = u32::try_from(limit - data.len()).unwrap_or(1);
            let query = TurnsQuery { limit: rows, cursor, direction: Direction::Descending };
            let page = store.items_page(thread, None, query).await;
            let page = page.map_err(|error| self.unlisted(thread, error))?;
            for (turn, item) in page.rows {
                let text = searched_text::message(&item.kind, &item.payload);
                let Some(found) = text.and_then(|text| store::snippet(&text, term)) else {
                    continue;
                };
                let turn_cursor = store.turn_cursor(thread, &turn).await?;
                data.push(ThreadSearchOccurrence {
                    turn_id: turn,
                    item_id: item.id,
                    snippet: found.text,
                    snippet_match_range: SnippetMatchRange {
                        start: position(found.matched.start),
                        end: position(found.matched.end),
                    },
                    turn_cursor,
                });
            }
            cursor = page.next_cursor;
            if cursor.is_none() || data.len() >= limit {
                break;
            }
        }
        Ok(ThreadSearchOccurrencesResponse { data, next_cursor: cursor })
    }
}

impl Server {
    /// Searches for a page; part by part where a client is sent what is found.
    async fn search_text(
        &self,
        mut search: TextSearch,
        params: ThreadSearchParams,
        audience: Option<&Caller>,
    ) -> Result<ThreadSearchResponse, Error> {
        let mut list = list_query(ThreadListParams {
            cursor: params.cursor,
            limit: params.limit,
            sort_key: params.sort_key,
            sort_direction: params.sort_direction,
            source_kinds: params.source_kinds,
            archived: params.archived,
            cwd: params.cwd,
            ..ThreadListParams::default()
        });
        search.unless_cancelled(self.services.search_index.catch_up()).await?;
        let store = self.services.store.get().await?;
        let mut left = list.limit;
        let (mut data, mut backwards_cursor) = (Vec::new(), None);
        let next_cursor = loop {
            list.limit = if audience.is_some() { left.min(PART) } else { left };
            let query = TextQuery { term: params.search_term.clone(), list: list.clone() };
            let part = async { Ok(store.search_text(query, searched_text::TEXTS).await?) };
            let page = search.unless_cancelled(part).await?;
            let rows = u32::try_from(page.rows.len()).unwrap_or(u32::MAX);
            let result = |TextMatch { thread, turn, snippet }| ThreadSearchResult {
                thread: self.listed(&thread),
                turn_id: turn,
                snippet: snippet.text,
            };
            let found: Vec<ThreadSearchResult> = page.rows.into_iter().map(result).collect();
            if let Some(caller) = audience.filter(|_| !found.is_empty()) {
                report(caller, &found);
            }
            data.extend(found);
            backwards_cursor = backwards_cursor.or(page.backwards_cursor);
            left = left.saturating_sub(rows);
            if left == 0 || page.next_cursor.is_none() {
                break page.next_cursor;
            }
            list.cursor = page.next_cursor;
        };
        let indexing = store.is_partly_indexed().await?;
        Ok(ThreadSearchResponse { data, next_cursor, backwards_cursor, indexing })
    }
}

/// Sends a client the threads that its search has found.
fn report(caller: &Caller, found: &[ThreadSearchResult]) {
    if let Some(id) = caller.request() {
        caller.peer.notify::<ThreadSearchPartial>(&ThreadSearchPartialNotification {
            request_id: id.clone(),
            data: found.to_vec(),
        });
    }
}

fn check_term(method: &str, term: &str) -> Result<(), Error> {
    let characters = term.chars().count();
    if term.trim().is_empty() {
        return Err(Error::wrong_state(format!("{method} requires a non-empty searchTerm")));
    }
    if characters > MAX_TERM {
        return Err(Error::invalid_params(format!(
            "`searchTerm` must have at most {MAX_TERM} characters, not {characters}"
        )));
    }
    Ok(())
}

fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
