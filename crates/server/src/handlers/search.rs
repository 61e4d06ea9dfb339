//! Search in what was said: in all threads by the index of the store, and in one thread by reading it.

use protocol::{
    SearchMethods, SnippetMatchRange, ThreadListParams, ThreadSearchOccurrence,
    ThreadSearchOccurrencesParams, ThreadSearchOccurrencesResponse, ThreadSearchParams,
    ThreadSearchResponse, ThreadSearchResult,
};
use store::{Direction, TextMatch, TextQuery, TurnsQuery};

use crate::handlers::page::PAGE;
use crate::handlers::thread::list_query;
use crate::server::Server;
use services::error::Error;
use services::peer::Caller;
use services::searched_text;

/// Longest term, in characters.
const MAX_TERM: usize = 1000;
/// Reads of a thread's items for one request, each of up to a page; the next request continues.
const MAX_READS: usize = 200;

impl SearchMethods<Caller> for Server {
    async fn thread_search(
        &self,
        _: Caller,
        params: ThreadSearchParams,
    ) -> Result<ThreadSearchResponse, Error> {
        check_term("thread/search", &params.search_term)?;
        let list = list_query(ThreadListParams {
            cursor: params.cursor,
            limit: params.limit,
            sort_key: params.sort_key,
            sort_direction: params.sort_direction,
            source_kinds: params.source_kinds,
            archived: params.archived,
            cwd: params.cwd,
            ..ThreadListParams::default()
        });
        self.services.search_index.catch_up().await?;
        let store = self.services.store.get().await?;
        let query = TextQuery { term: params.search_term, list };
        let page = store.search_text(query, searched_text::TEXTS).await?;
        let result = |TextMatch { thread, turn, snippet }| ThreadSearchResult {
            thread: self.listed(&thread),
            turn_id: turn,
            snippet: snippet.text,
        };
        Ok(ThreadSearchResponse {
            data: page.rows.into_iter().map(result).collect(),
            next_cursor: page.next_cursor,
            backwards_cursor: page.backwards_cursor,
            indexing: store.is_partly_indexed().await?,
        })
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
