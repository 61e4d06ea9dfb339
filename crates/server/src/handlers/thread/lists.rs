//! Pages of threads, of turns and of items.

use protocol::*;
use store::{Direction, ListQuery, SortKey, StoredThread, TurnsQuery};
use tokio::sync::SemaphorePermit;

use crate::handlers::page::{PAGE, PageSize};
use crate::server::Server;
use services::convert;
use services::convert::settings::name;
use services::error::{Error, start_of};
use services::peer::Caller;
use services::thread_port::wire;

/// Ids are short, so a page may have as many as there may be connections.
const IDS: PageSize = PageSize { default: 10_000, max: 10_000 };

impl Server {
    pub(super) async fn list_threads(
        &self,
        params: ThreadListParams,
    ) -> Result<ThreadListResponse, Error> {
        let query = list_query(params);
        let page = self.services.store.get().await?.threads(query).await?;
        let data = page.rows.iter().map(|row| self.listed(row)).collect();
        Ok(ThreadListResponse {
            data,
            next_cursor: page.next_cursor,
            backwards_cursor: page.backwards_cursor,
        })
    }

    pub(super) async fn list_turns(
        &self,
        params: ThreadTurnsListParams,
    ) -> Result<ThreadTurnsListResponse, Error> {
        let query = turns_query(params.limit, params.cursor, params.sort_direction);
        let view = params.items_view.unwrap_or(TurnItemsView::Summary);
        self.close_dead_turns(&params.thread_id).await?;
        let store = self.services.store.get().await?;
        let (rows, next_cursor, backwards_cursor) = if view == TurnItemsView::NotLoaded {
            let page = store.turns(&params.thread_id, query).await;
            let page = page.map_err(|error| self.unlisted(&params.thread_id, error))?;
            let rows = page.rows.into_iter().map(|turn| (turn, Vec::new())).collect();
            (rows, page.next_cursor, page.backwards_cursor)
        } else {
            let page = store.turns_with_items(&params.thread_id, query).await;
            let page = page.map_err(|error| self.unlisted(&params.thread_id, error))?;
            (page.rows, page.next_cursor, page.backwards_cursor)
        };
        let data =
            rows.iter().map(|(turn, items)| convert::thread::turn(turn, items, view)).collect();
        Ok(ThreadTurnsListResponse { data, next_cursor, backwards_cursor })
    }

    pub(super) async fn list_items(
        &self,
        params: ThreadItemsListParams,
    ) -> Result<ThreadItemsListResponse, Error> {
        let query = turns_query(params.limit, params.cursor, params.sort_direction);
        let store = self.services.store.get().await?;
        let turn = params.turn_id.as_deref();
        let page = store.items_page(&params.thread_id, turn, query).await;
        let page = page.map_err(|error| self.unlisted(&params.thread_id, error))?;
        let entry = |(turn_id, row): (String, store::ItemRow)| {
            let item = serde_json::from_str(&row.payload).ok()?;
            Some(ThreadItemEntry { turn_id, item })
        };
        Ok(ThreadItemsListResponse {
            data: page.rows.into_iter().filter_map(entry).collect(),
            next_cursor: page.next_cursor,
            backwards_cursor: page.backwards_cursor,
        })
    }

    pub(super) fn list_loaded(
        &self,
        params: ThreadLoadedListParams,
    ) -> Result<ThreadLoadedListResponse, Error> {
        let limit = IDS.rows(params.limit) as usize;
        let mut ids = self.services.threads.ids();
        if let Some(cursor) = &params.cursor {
            ids.retain(|id| id > cursor);
        }
        let next_cursor = (ids.len() > limit).then(|| ids[limit - 1].clone());
        ids.truncate(limit);
        Ok(ThreadLoadedListResponse { data: ids, next_cursor })
    }

    pub(crate) fn listed(&self, row: &StoredThread) -> Thread {
        let status =
            match self.services.threads.get(&row.record.id).and_then(|handle| handle.status()) {
                Some(status) => convert::event::status(status),
                None => ThreadStatus::NotLoaded,
            };
        wire::stored(row, status, Vec::new())
    }

    /// Every turn with its items, oldest first.
    pub(crate) async fn all_turns(&self, thread: &str) -> Result<Vec<Turn>, Error> {
        self.close_dead_turns(thread).await?;
        self.stored_turns(thread).await
    }

    /// Permission to return a thread with all turns, if the caller's dialect wants that. Taken once the
    /// thread is loaded, which may take long, and before it waits for the response: another request that
    /// holds a permit may be waiting for the thread.
    pub(super) async fn whole_thread(
        &self,
        caller: &Caller,
        exclude_turns: bool,
    ) -> Option<SemaphorePermit<'_>> {
        if exclude_turns || !caller.peer.wants_turns_with_thread() {
            return None;
        }
        // It is never closed.
        self.services.long_answers.acquire().await.ok()
    }

    /// Adds the turns that are over to a response which has the running ones. The thread waits until
    /// that response is queued, so it is not asked.
    pub(super) async fn add_turns(&self, response: &mut ThreadStartResponse) -> Result<(), Error> {
        let thread = &mut response.thread;
        if thread.ephemeral || response.event_replay.is_some() {
            return Ok(());
        }
        let running = std::mem::take(&mut thread.turns);
        let mut turns = self.stored_turns(&thread.id).await?;
        turns.retain(|turn| running.iter().all(|other| other.id != turn.id));
        turns.extend(running);
        thread.turns = turns;
        Ok(())
    }

    async fn stored_turns(&self, thread: &str) -> Result<Vec<Turn>, Error> {
        let store = self.services.store.get().await?;
        let mut turns = Vec::new();
        let mut cursor = None;
        loop {
            let query = TurnsQuery { limit: PAGE.max, cursor, direction: Direction::Ascending };
            let page = store.turns_with_items(thread, query).await?;
            turns.extend(
                page.rows
                    .iter()
                    .map(|(turn, items)| convert::thread::turn(turn, items, TurnItemsView::Full)),
            );
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => return Ok(turns),
            }
        }
    }

    /// Closes a turn that another server left in flight when it died, so that it is not listed as
    /// running.
    async fn close_dead_turns(&self, thread: &str) -> Result<(), Error> {
        if let Some(handle) = self.services.threads.get(thread) {
            // Stores the ends of its turns that could not be stored.
            let _ = handle.snapshot().await;
            return Ok(());
        }
        let last = self.services.store.get().await?.last_turn(thread).await;
        let last = last?;
        if last.is_some_and(|turn| turn.status == store::TurnStatus::InProgress) {
            self.services.store.close_orphans().await?;
        }
        Ok(())
    }

    /// The error of a list about one thread: an ephemeral one has nothing to list.
    pub(crate) fn unlisted(&self, thread: &str, error: store::StoreError) -> Error {
        match error {
            store::StoreError::ThreadNotFound { .. }
                if self.services.threads.get(thread).is_some() =>
            {
                Error::wrong_state(
                    "an ephemeral thread keeps no turns, so there is nothing to list",
                )
            }
            store::StoreError::TurnNotFound { turn, .. } => {
                let turn = start_of(&turn);
                Error::not_found(format!("turn not found: {turn} is not a turn of this thread"))
            }
            store::StoreError::ThreadNotFound { .. } => Error::unknown_thread(thread),
            error => error.into(),
        }
    }
}

pub(crate) fn list_query(params: ThreadListParams) -> ListQuery {
    let kinds = params.source_kinds.unwrap_or_default();
    let mut sources: Vec<String> =
        kinds.iter().flat_map(|kind| stored_kinds(*kind)).map(name).collect();
    if sources.is_empty() {
        sources = vec!["cli".to_owned(), "editor".to_owned()];
    }
    ListQuery {
        limit: PAGE.rows(params.limit),
        cursor: params.cursor,
        sort: match params.sort_key {
            Some(ThreadSortKey::UpdatedAt) => SortKey::Updated,
            Some(ThreadSortKey::CreatedAt) | None => SortKey::Created,
        },
        direction: direction(params.sort_direction),
        archived: params.archived.unwrap_or(false),
        providers: params.model_providers.unwrap_or_default(),
        sources,
        sessions: Vec::new(),
        cwds: match params.cwd {
            None => Vec::new(),
            Some(ThreadListCwdFilter::One(cwd)) => vec![cwd],
            Some(ThreadListCwdFilter::Many(cwds)) => cwds,
        },
        search: params.search_term,
    }
}

/// The kinds that threads are stored with: `subAgent` stands for every kind of sub-agent.
fn stored_kinds(kind: ThreadSourceKind) -> &'static [ThreadSourceKind] {
    use ThreadSourceKind::*;
    match kind {
        SubAgent => {
            &[SubAgent, SubAgentReview, SubAgentCompact, SubAgentThreadSpawn, SubAgentOther]
        }
        Cli => &[Cli],
        Editor => &[Editor],
        Exec => &[Exec],
        AppServer => &[AppServer],
        SubAgentReview => &[SubAgentReview],
        SubAgentCompact => &[SubAgentCompact],
        SubAgentThreadSpawn => &[SubAgentThreadSpawn],
        SubAgentOther => &[SubAgentOther],
        Unknown => &[Unknown],
    }
}

fn turns_query(
    limit: Option<u32>,
    cursor: Option<String>,
    sort: Option<SortDirection>,
) -> TurnsQuery {
    TurnsQuery { limit: PAGE.rows(limit), cursor, direction: direction(sort) }
}

fn direction(direction: Option<SortDirection>) -> Direction {
    match direction {
        Some(SortDirection::Asc) => Direction::Ascending,
        Some(SortDirection::Desc) | None => Direction::Descending,
    }
}
