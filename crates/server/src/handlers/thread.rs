//! Threads: started, resumed, read, listed (specification: Threads).

use jsonrpc::ErrorObject;
use protocol::permission::ActivePermissionProfile;
use protocol::*;
use session::Overrides;
use store::{Direction, ListQuery, SortKey, StoredThread, TurnsQuery};
use tokio::sync::oneshot;

use crate::connection::Cx;
use crate::convert;
use crate::convert::settings::{name, wire_approval, wire_sandbox};
use crate::handlers::turn::existing_folder;
use crate::handlers::{not_implemented, refuse_missing};
use crate::loading::{self, Extra, Wishes, stored, unknown};
use crate::server::Server;
use crate::thread::{Command, Snapshot, ThreadHandle};

/// Rows of a page when the client names no number.
const PAGE: u32 = 25;
/// Rows of a page at most.
const MAX_PAGE: u32 = 100;

impl ThreadMethods<Cx> for Server {
    async fn thread_start(
        &self,
        cx: Cx,
        params: ThreadStartParams,
    ) -> Result<ThreadStartResponse, ErrorObject> {
        refuse_missing(
            "thread/start",
            &[
                (
                    "dynamicTools",
                    params.dynamic_tools.as_ref().is_some_and(|tools| !tools.is_empty()),
                ),
                ("environments", params.environments.is_some()),
                ("experimentalRawEvents", params.experimental_raw_events),
            ],
        )?;
        let extra = Extra {
            service_name: params.service_name,
            thread_source: params.thread_source,
            ..Extra::default()
        };
        let wishes = Wishes {
            model: params.model,
            model_provider: params.model_provider,
            service_tier: params.service_tier,
            cwd: params.cwd.as_deref().map(existing_folder).transpose()?,
            approval_policy: params.approval_policy,
            approvals_reviewer: params.approvals_reviewer,
            sandbox: params.sandbox,
            permissions: params.permissions,
            personality: params.personality,
            base_instructions: params.base_instructions,
            developer_instructions: params.developer_instructions,
            config: params.config.map(|config| config.into_iter().collect()),
        };
        let ephemeral = params.ephemeral.unwrap_or(false);
        let (_, handle) =
            loading::new_thread(&self.core, &cx.peer, wishes, ephemeral, extra).await?;
        attach(&cx, &handle, Overrides::default(), true).await
    }

    async fn thread_resume(
        &self,
        cx: Cx,
        params: ThreadResumeParams,
    ) -> Result<ThreadStartResponse, ErrorObject> {
        refuse_missing(
            "thread/resume",
            &[("history", params.history.is_some()), ("path", params.path.is_some())],
        )?;
        let wishes = Wishes {
            model: params.model,
            model_provider: params.model_provider,
            service_tier: params.service_tier,
            cwd: params.cwd.as_deref().map(existing_folder).transpose()?,
            approval_policy: params.approval_policy,
            approvals_reviewer: params.approvals_reviewer,
            sandbox: params.sandbox,
            permissions: params.permissions,
            personality: params.personality,
            base_instructions: params.base_instructions,
            developer_instructions: params.developer_instructions,
            config: params.config.map(|config| config.into_iter().collect()),
        };
        let (handle, overrides) =
            loading::resume_thread(&self.core, &cx.peer, &params.thread_id, &wishes).await?;
        attach(&cx, &handle, overrides, false).await
    }

    async fn thread_read(
        &self,
        _cx: Cx,
        params: ThreadReadParams,
    ) -> Result<ThreadReadResponse, ErrorObject> {
        let id = &params.thread_id;
        let loaded = match self.core.loaded(id) {
            Some(handle) => look(&handle).await,
            None => None,
        };
        if loaded.as_ref().is_some_and(|snapshot| snapshot.ephemeral) && params.include_turns {
            return Err(ErrorObject::invalid_request("an ephemeral thread keeps no turns"));
        }
        let turns = if params.include_turns { self.all_turns(id).await? } else { Vec::new() };
        if let Some(snapshot) = loaded {
            return Ok(ThreadReadResponse { thread: convert::thread::loaded(&snapshot, turns) });
        }
        let found = self.core.store().await?.thread(id).await.map_err(|error| stored(&error))?;
        let found = found.ok_or_else(|| unknown(id))?;
        let thread = convert::thread::stored(&found, ThreadStatus::NotLoaded, turns);
        Ok(ThreadReadResponse { thread })
    }

    async fn thread_list(
        &self,
        _cx: Cx,
        params: ThreadListParams,
    ) -> Result<ThreadListResponse, ErrorObject> {
        let query = list_query(params);
        let page = self.core.store().await?.threads(query).await.map_err(|error| stored(&error))?;
        let data = page.rows.iter().map(|row| self.listed(row)).collect();
        Ok(ThreadListResponse {
            data,
            next_cursor: page.next_cursor,
            backwards_cursor: page.backwards_cursor,
        })
    }

    async fn thread_turns_list(
        &self,
        _cx: Cx,
        params: ThreadTurnsListParams,
    ) -> Result<ThreadTurnsListResponse, ErrorObject> {
        let query = TurnsQuery {
            limit: page_size(params.limit),
            cursor: params.cursor,
            direction: direction(params.sort_direction),
        };
        let view = params.items_view.unwrap_or(TurnItemsView::Summary);
        let store = self.core.store().await?;
        let page = store
            .turns_with_items(&params.thread_id, query)
            .await
            .map_err(|error| stored(&error))?;
        let data = page
            .rows
            .iter()
            .map(|(turn, items)| convert::thread::turn(turn, items, view))
            .collect();
        Ok(ThreadTurnsListResponse {
            data,
            next_cursor: page.next_cursor,
            backwards_cursor: page.backwards_cursor,
        })
    }

    async fn thread_turns_items_list(
        &self,
        _cx: Cx,
        _params: ThreadTurnsItemsListParams,
    ) -> Result<ThreadTurnsItemsListResponse, ErrorObject> {
        Err(ErrorObject::new(
            jsonrpc::code::METHOD_NOT_FOUND,
            "thread/turns/items/list is not supported; read the items with thread/turns/list",
        ))
    }

    async fn thread_loaded_list(
        &self,
        _cx: Cx,
        params: ThreadLoadedListParams,
    ) -> Result<ThreadLoadedListResponse, ErrorObject> {
        let mut ids: Vec<String> = self.core.threads().keys().cloned().collect();
        ids.sort_unstable();
        if let Some(cursor) = &params.cursor {
            ids.retain(|id| id > cursor);
        }
        let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
        let next_cursor = (ids.len() > limit).then(|| ids[limit - 1].clone());
        ids.truncate(limit);
        Ok(ThreadLoadedListResponse { data: ids, next_cursor })
    }

    async fn thread_unsubscribe(
        &self,
        cx: Cx,
        params: ThreadIdParams,
    ) -> Result<ThreadUnsubscribeResponse, ErrorObject> {
        let Some(handle) = self.core.loaded(&params.thread_id) else {
            return Ok(ThreadUnsubscribeResponse { status: ThreadUnsubscribeStatus::NotLoaded });
        };
        let (was_subscribed, answer) = oneshot::channel();
        let connection = cx.peer.id;
        handle.send(Command::Unsubscribe { connection, was_subscribed }).await;
        let status = match answer.await {
            Ok(true) => ThreadUnsubscribeStatus::Unsubscribed,
            Ok(false) => ThreadUnsubscribeStatus::NotSubscribed,
            Err(_) => ThreadUnsubscribeStatus::NotLoaded,
        };
        Ok(ThreadUnsubscribeResponse { status })
    }

    not_implemented! {
        thread_fork(ThreadForkParams) -> ThreadStartResponse = "thread/fork";
        thread_items_list(ThreadItemsListParams) -> ThreadItemsListResponse = "thread/items/list";
        thread_archive(ThreadIdParams) -> Empty = "thread/archive";
        thread_unarchive(ThreadIdParams) -> ThreadReadResponse = "thread/unarchive";
        thread_delete(ThreadIdParams) -> Empty = "thread/delete";
        thread_name_set(ThreadNameSetParams) -> Empty = "thread/name/set";
        thread_metadata_update(ThreadMetadataUpdateParams) -> ThreadReadResponse
            = "thread/metadata/update";
        thread_compact_start(ThreadIdParams) -> Empty = "thread/compact/start";
        thread_shell_command(ThreadShellCommandParams) -> Empty = "thread/shellCommand";
        thread_background_terminals_clean(ThreadIdParams) -> Empty
            = "thread/backgroundTerminals/clean";
        thread_rollback(ThreadRollbackParams) -> ThreadReadResponse = "thread/rollback";
        thread_inject_items(ThreadInjectItemsParams) -> Empty = "thread/inject_items";
        thread_approve_guardian_denied_action(ThreadApproveGuardianDeniedActionParams) -> Empty
            = "thread/approveGuardianDeniedAction";
        thread_increment_elicitation(ThreadIdParams) -> ThreadElicitationResponse
            = "thread/increment_elicitation";
        thread_decrement_elicitation(ThreadIdParams) -> ThreadElicitationResponse
            = "thread/decrement_elicitation";
        thread_memory_mode_set(ThreadMemoryModeSetParams) -> Empty = "thread/memoryMode/set";
    }
}

impl Server {
    /// The loaded thread of that id.
    pub(crate) fn loaded_thread(&self, id: &str) -> Result<ThreadHandle, ErrorObject> {
        self.core.loaded(id).ok_or_else(|| unknown(id))
    }

    fn listed(&self, row: &StoredThread) -> Thread {
        let status = match self.core.loaded(&row.record.id).and_then(|handle| handle.status()) {
            Some(status) => convert::event::status(status),
            None => ThreadStatus::NotLoaded,
        };
        convert::thread::stored(row, status, Vec::new())
    }

    /// Every turn with its items, oldest first.
    async fn all_turns(&self, thread: &str) -> Result<Vec<Turn>, ErrorObject> {
        let store = self.core.store().await?;
        let mut turns = Vec::new();
        let mut cursor = None;
        loop {
            let query = TurnsQuery { limit: MAX_PAGE, cursor, direction: Direction::Ascending };
            let page =
                store.turns_with_items(thread, query).await.map_err(|error| stored(&error))?;
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
}

/// Subscribes the caller and answers with what the thread is.
async fn attach(
    cx: &Cx,
    handle: &ThreadHandle,
    overrides: Overrides,
    announce: bool,
) -> Result<ThreadStartResponse, ErrorObject> {
    let (snapshot, answer) = oneshot::channel();
    let (peer, gate) = (cx.peer.clone(), cx.gate());
    handle.send(Command::Attach { peer, overrides, announce, snapshot, gate }).await;
    let snapshot = answer
        .await
        .map_err(|_| ErrorObject::invalid_request("the thread is not loaded any more"))?;
    Ok(response(&snapshot))
}

async fn look(handle: &ThreadHandle) -> Option<Snapshot> {
    let (snapshot, answer) = oneshot::channel();
    handle.send(Command::Look { snapshot }).await;
    answer.await.ok()
}

fn response(snapshot: &Snapshot) -> ThreadStartResponse {
    let settings = &snapshot.settings;
    let effort = settings.effort.as_deref().map(serde_json::Value::from);
    ThreadStartResponse {
        thread: convert::thread::loaded(snapshot, Vec::new()),
        model: settings.model.clone(),
        model_provider: settings.provider.clone(),
        service_tier: settings.service_tier.clone(),
        cwd: settings.cwd.display().to_string(),
        instruction_sources: snapshot
            .instruction_sources
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        approval_policy: wire_approval(settings.approval),
        approvals_reviewer: ApprovalsReviewer::User,
        sandbox: wire_sandbox(&settings.sandbox),
        reasoning_effort: effort.and_then(|effort| serde_json::from_value(effort).ok()),
        active_permission_profile: active_profile(&settings.sandbox),
        permission_profile: None,
    }
}

/// The permission profile that a thread runs under, when it is one.
fn active_profile(policy: &session::SandboxPolicy) -> Option<ActivePermissionProfile> {
    let session::SandboxPolicy::Profile { name, .. } = policy else { return None };
    Some(ActivePermissionProfile { id: name.clone(), extends: None, modifications: Vec::new() })
}

fn list_query(params: ThreadListParams) -> ListQuery {
    let mut sources: Vec<String> =
        params.source_kinds.unwrap_or_default().iter().map(name).collect();
    if sources.is_empty() {
        sources = vec!["cli".to_owned(), "editor".to_owned()];
    }
    ListQuery {
        limit: page_size(params.limit),
        cursor: params.cursor,
        sort: match params.sort_key {
            Some(ThreadSortKey::UpdatedAt) => SortKey::Updated,
            Some(ThreadSortKey::CreatedAt) | None => SortKey::Created,
        },
        direction: direction(params.sort_direction),
        archived: params.archived.unwrap_or(false),
        providers: params.model_providers.unwrap_or_default(),
        sources,
        cwds: match params.cwd {
            None => Vec::new(),
            Some(ThreadListCwdFilter::One(cwd)) => vec![cwd],
            Some(ThreadListCwdFilter::Many(cwds)) => cwds,
        },
        search: params.search_term,
    }
}

fn page_size(limit: Option<u32>) -> u32 {
    limit.map_or(PAGE, |limit| limit.clamp(1, MAX_PAGE))
}

fn direction(direction: Option<SortDirection>) -> Direction {
    match direction {
        Some(SortDirection::Asc) => Direction::Ascending,
        Some(SortDirection::Desc) | None => Direction::Descending,
    }
}
