//! Threads: started, resumed, forked, read, changed (specification: Threads). `lists` has the lists,
//! `edits` the changes of threads that need not be loaded.

mod edits;
mod elicitation;
mod import;
mod inject;
mod lists;
mod reconnect;
mod tools;

use std::collections::HashMap;
use std::path::PathBuf;

use protocol::permission::{ActivePermissionProfile, PermissionProfileModification};
use protocol::*;
use session::Overrides;
use tokio::sync::oneshot;

pub(super) use lists::list_query;

use crate::handlers::refuse_missing;
use crate::handlers::turn::{ask, send};
use crate::server::Server;
use services::allowed::MachineInput;
use services::convert::settings::{wire_approval, wire_reviewer, wire_sandbox};
use services::error::Error;
use services::peer::{Caller, Gate, Peer};
use services::thread_port::{
    Command, ElicitationChange, EventPosition, Extra, Snapshot, ThreadHandle, wire,
};
use services::undo::FileRollback;
use services::{convert, folders, image_reader, warnings};
use threads::thread_loader::{ClientOverrides, Fork};

/// Longest name of a client's own in `threadSource`, in characters.
const MAX_SOURCE: usize = 64;

fn check_source(source: Option<&ThreadSource>) -> Result<(), Error> {
    match source {
        Some(ThreadSource::Other(name)) if !(1..=MAX_SOURCE).contains(&name.chars().count()) => {
            let message = format!("`threadSource` has 1 to {MAX_SOURCE} characters");
            Err(Error::invalid_params(message))
        }
        Some(_) | None => Ok(()),
    }
}

impl ThreadMethods<Caller> for Server {
    async fn thread_start(
        &self,
        caller: Caller,
        mut params: ThreadStartParams,
    ) -> Result<ThreadStartResponse, Error> {
        refuse_missing(
            "thread/start",
            &[
                ("environments", params.environments.is_some()),
                ("experimentalRawEvents", params.experimental_raw_events),
            ],
        )?;
        check_source(params.thread_source.as_ref())?;
        let given = params.take_overrides();
        let worktree = params.worktree.take();
        let mut extra = Extra {
            service_name: params.service_name,
            thread_source: params.thread_source,
            dynamic_tools: tools::checked(params.dynamic_tools.unwrap_or_default())?,
            ..Extra::default()
        };
        // The loader looks at the folder, together with what it reads there.
        let cwd = given.cwd.as_deref().map(|cwd| folders::absolute("cwd", cwd)).transpose()?;
        let mut overrides = opening_overrides(given, cwd, params.personality);
        let ephemeral = params.ephemeral.unwrap_or(false);
        let mut made = None;
        if let Some(wanted) = worktree {
            let worktree = self.make_worktree(&caller, overrides.cwd.as_deref(), &wanted).await?;
            overrides.cwd = Some(worktree.record.cwd.clone());
            extra.worktree = Some(worktree.on_wire());
            made = Some(worktree);
        }
        let started =
            self.services.loader.new_thread(caller.clients(), overrides, ephemeral, extra);
        let started = started.await;
        if let (Err(_), Some(worktree)) = (&started, &made) {
            self.discard_worktree(worktree).await;
        }
        let handle = started?;
        self.attach(&caller, &handle, Overrides::default(), true).await
    }

    async fn thread_resume(
        &self,
        caller: Caller,
        mut params: ThreadResumeParams,
    ) -> Result<ThreadStartResponse, Error> {
        let given = params.take_overrides();
        let mut overrides = self.client_overrides(given, params.personality).await?;
        overrides.service_name = params.service_name;
        overrides.dynamic_tools = params.dynamic_tools.map(tools::checked).transpose()?;
        let since = reconnect::position(&caller.peer, params.event_cursor)?;
        let (handle, overrides) = match (params.history, params.path) {
            (Some(_), Some(_)) => {
                return Err(Error::exclusive("history", "path"));
            }
            (Some(items), None) => {
                (self.given_items(&caller, &items, overrides).await?, Overrides::default())
            }
            (None, path) => {
                let id = match path {
                    Some(path) => self.of_file(&path).await?,
                    None => params.thread_id,
                };
                self.check_worktree(&id, overrides.cwd.as_deref()).await?;
                self.services.loader.resume_thread(caller.clients(), &id, &overrides).await?
            }
        };
        let whole = self.whole_thread(&caller, params.exclude_turns).await;
        let attaching = Attaching { overrides, since, announce: false, gate: caller.gate() };
        let mut response = self.attach_at(&caller, &handle, attaching).await?;
        if params.exclude_turns {
            response.thread.turns.clear();
        } else if whole.is_some() {
            self.add_turns(&mut response).await?;
        }
        Ok(response)
    }

    async fn thread_fork(
        &self,
        caller: Caller,
        mut params: ThreadForkParams,
    ) -> Result<ThreadStartResponse, Error> {
        let given = [
            ("ephemeral", params.ephemeral),
            ("lastTurnId", params.last_turn_id.is_some()),
            ("path", params.path.is_some()),
        ];
        import::at_most_one(&given)?;
        check_source(params.thread_source.as_ref())?;
        let overrides = self.client_overrides(params.take_overrides(), None).await?;
        let (handle, overrides) = if let Some(path) = params.path {
            let id = self.copy_of_file(&path, params.thread_source).await?;
            self.services.loader.resume_thread(caller.clients(), &id, &overrides).await?
        } else {
            self.check_worktree(&params.thread_id, overrides.cwd.as_deref()).await?;
            let fork = Fork {
                parent: &params.thread_id,
                last_turn: params.last_turn_id,
                ephemeral: params.ephemeral,
                source: params.thread_source,
                session_source: None,
            };
            let forked = self.services.loader.fork_thread(caller.clients(), fork, overrides);
            (forked.await?, Overrides::default())
        };
        let whole = self.whole_thread(&caller, params.exclude_turns).await;
        let mut response = self.attach(&caller, &handle, overrides, true).await?;
        if whole.is_some() {
            self.add_turns(&mut response).await?;
        }
        Ok(response)
    }

    async fn thread_read(
        &self,
        _caller: Caller,
        params: ThreadReadParams,
    ) -> Result<ThreadReadResponse, Error> {
        let id = &params.thread_id;
        let loaded = match self.services.threads.get(id) {
            Some(handle) => handle.snapshot().await,
            None => None,
        };
        if loaded.as_ref().is_some_and(|snapshot| snapshot.ephemeral) && params.include_turns {
            return Err(Error::wrong_state("an ephemeral thread keeps no turns"));
        }
        let turns = if params.include_turns { self.all_turns(id).await? } else { Vec::new() };
        if let Some(snapshot) = loaded {
            return Ok(ThreadReadResponse { thread: wire::loaded(&snapshot, turns) });
        }
        Ok(ThreadReadResponse { thread: self.stored_thread(id, turns).await? })
    }

    async fn thread_list(
        &self,
        _caller: Caller,
        params: ThreadListParams,
    ) -> Result<ThreadListResponse, Error> {
        self.list_threads(params).await
    }

    async fn thread_turns_list(
        &self,
        _caller: Caller,
        params: ThreadTurnsListParams,
    ) -> Result<ThreadTurnsListResponse, Error> {
        self.list_turns(params).await
    }

    async fn thread_items_list(
        &self,
        _caller: Caller,
        params: ThreadItemsListParams,
    ) -> Result<ThreadItemsListResponse, Error> {
        self.list_items(params).await
    }

    async fn thread_loaded_list(
        &self,
        _caller: Caller,
        params: ThreadLoadedListParams,
    ) -> Result<ThreadLoadedListResponse, Error> {
        self.list_loaded(params)
    }

    async fn thread_unsubscribe(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<ThreadUnsubscribeResponse, Error> {
        let Some(handle) = self.services.threads.get(&params.thread_id) else {
            return Ok(ThreadUnsubscribeResponse { status: ThreadUnsubscribeStatus::NotLoaded });
        };
        let (was_subscribed, answer) = oneshot::channel();
        let connection = caller.peer.id;
        handle.send(Command::Unsubscribe { connection, was_subscribed }).await;
        let status = match answer.await {
            Ok(true) => ThreadUnsubscribeStatus::Unsubscribed,
            Ok(false) => ThreadUnsubscribeStatus::NotSubscribed,
            Err(_) => ThreadUnsubscribeStatus::NotLoaded,
        };
        Ok(ThreadUnsubscribeResponse { status })
    }

    async fn thread_increment_elicitation(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<ThreadElicitationResponse, Error> {
        self.change_elicitation(&caller, &params.thread_id, ElicitationChange::Increment).await
    }

    async fn thread_decrement_elicitation(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<ThreadElicitationResponse, Error> {
        self.change_elicitation(&caller, &params.thread_id, ElicitationChange::Decrement).await
    }

    async fn thread_memory_mode_set(
        &self,
        _: Caller,
        params: ThreadMemoryModeSetParams,
    ) -> Result<Empty, Error> {
        self.set_memory_mode(params).await
    }

    async fn thread_archive(&self, caller: Caller, params: ThreadIdParams) -> Result<Empty, Error> {
        self.archive(&caller, &params.thread_id).await
    }

    async fn thread_unarchive(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<ThreadReadResponse, Error> {
        self.unarchive(&caller, &params.thread_id).await
    }

    async fn thread_delete(&self, caller: Caller, params: ThreadIdParams) -> Result<Empty, Error> {
        self.delete(&caller, &params.thread_id).await
    }

    async fn thread_name_set(
        &self,
        caller: Caller,
        params: ThreadNameSetParams,
    ) -> Result<Empty, Error> {
        self.set_name(&caller, params).await
    }

    async fn thread_metadata_update(
        &self,
        caller: Caller,
        params: ThreadMetadataUpdateParams,
    ) -> Result<ThreadReadResponse, Error> {
        self.update_metadata(&caller, params).await
    }

    /// Drops the last turns and returns those that remain.
    async fn thread_rollback(
        &self,
        caller: Caller,
        params: ThreadRollbackParams,
    ) -> Result<ThreadRollbackResponse, Error> {
        if params.num_turns == 0 {
            return Err(Error::invalid_params("`numTurns` must be at least 1"));
        }
        let handle = self.loaded_thread(&params.thread_id).await?;
        let (turns, files) = (params.num_turns, file_rollback(&params)?);
        let done = command(&handle, |answer| Command::RollBack { turns, files, answer }).await;
        let restored =
            done.map_err(|error| error.with_info(AgentErrorInfo::ThreadRollbackFailed))?;
        if !params.dry_run {
            let id = params.thread_id.clone();
            let dropped = ThreadRolledBackNotification { thread_id: id, num_turns: turns };
            self.announce::<ThreadRolledBack>(&caller, params.thread_id.clone(), dropped);
        }
        let turns = self.all_turns(&params.thread_id).await?;
        let snapshot = handle.snapshot().await.ok_or_else(|| handle.unloaded())?;
        let thread = wire::loaded(&snapshot, turns);
        Ok(ThreadRollbackResponse { thread, files: restored.map(convert::files::restored) })
    }

    async fn thread_inject_items(
        &self,
        caller: Caller,
        params: ThreadInjectItemsParams,
    ) -> Result<Empty, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        let info = handle.model_info(None).await?;
        let bounds = image_reader::bounds_of(&info);
        let items = params.items;
        let fragments = inject::fragments("items", items, (&self.services.images, bounds)).await?;
        ask(&handle, caller.gate(), move |reply| MachineInput::Inject { reply, fragments }).await?;
        Ok(Empty {})
    }

    async fn thread_approve_guardian_denied_action(
        &self,
        caller: Caller,
        params: ThreadApproveGuardianDeniedActionParams,
    ) -> Result<Empty, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        let (review, action) = convert::auto_review::refused(&params.thread_id, &params.event)?;
        let approve = move |reply| MachineInput::ApproveDenied { reply, review, action };
        ask(&handle, caller.gate(), approve).await?;
        Ok(Empty {})
    }

    async fn thread_compact_start(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<Empty, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        ask(&handle, caller.gate(), |reply| MachineInput::Compact { reply }).await?;
        Ok(Empty {})
    }

    async fn thread_shell_command(
        &self,
        caller: Caller,
        params: ThreadShellCommandParams,
    ) -> Result<Empty, Error> {
        let script = params.command;
        if script.trim().is_empty() {
            return Err(Error::invalid_params("`command` must not be empty"));
        }
        if script.contains('\0') {
            return Err(Error::invalid_params("`command` must not contain a NUL character"));
        }
        let handle = self.loaded_thread(&params.thread_id).await?;
        send(&handle, caller.gate(), |answer, gate| Command::Shell { script, answer, gate })
            .await?;
        Ok(Empty {})
    }

    async fn thread_background_terminals_clean(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<Empty, Error> {
        let handle = self.loaded_thread(&params.thread_id).await?;
        ask(&handle, caller.gate(), |reply| MachineInput::CleanTerminals { reply }).await?;
        Ok(Empty {})
    }
}

impl Server {
    /// Returns the client's settings for opening a thread, with its folder checked.
    async fn client_overrides(
        &self,
        given: OpeningOverrides,
        personality: Option<Personality>,
    ) -> Result<ClientOverrides, Error> {
        let cwd = folders::optional_cwd(&self.services.files, given.cwd.as_deref()).await?;
        Ok(opening_overrides(given, cwd, personality))
    }

    /// The loaded thread of that id.
    pub(crate) async fn loaded_thread(&self, id: &str) -> Result<ThreadHandle, Error> {
        let threads = &self.services.threads;
        if let Some(reason) = threads.ending(id) {
            return Err(Error::thread_ends(reason));
        }
        if let Some(handle) = threads.get(id) {
            return Ok(handle);
        }
        let store = self.services.store.get().await?;
        let found = store.thread(id).await?;
        let found = found.ok_or_else(|| Error::unknown_thread(id))?;
        if found.record.archived {
            return Err(Error::archived(id));
        }
        // Loaded where it is open.
        self.services.store.check_not_elsewhere(id).await?;
        Err(Error::wrong_state(format!("thread not loaded: {id}"))
            .next_step("call thread/resume first"))
    }

    /// Subscribes the caller and returns the thread. A running turn is returned with the items that
    /// it has so far; notifications continue from there.
    pub(crate) async fn attach(
        &self,
        caller: &Caller,
        handle: &ThreadHandle,
        overrides: Overrides,
        announce: bool,
    ) -> Result<ThreadStartResponse, Error> {
        let attaching = Attaching { overrides, since: None, announce, gate: caller.gate() };
        self.attach_at(caller, handle, attaching).await
    }

    /// See [`Server::attach`].
    pub(crate) async fn attach_at(
        &self,
        caller: &Caller,
        handle: &ThreadHandle,
        attaching: Attaching,
    ) -> Result<ThreadStartResponse, Error> {
        let Attaching { overrides, since, announce, gate } = attaching;
        let (snapshot, answer) = oneshot::channel();
        let peer = caller.peer.clone();
        let position = since.clone();
        let attach = Command::Attach { peer, since: position, overrides, announce, snapshot, gate };
        handle.send(attach).await;
        let snapshot = answer.await.map_err(|_| handle.unloaded())?;
        if !snapshot.settings.sandbox.is_unconfined() {
            self.warn_of_sandbox(caller);
        }
        // The thread waits until the response is queued.
        let mut items = HashMap::new();
        if !snapshot.ephemeral && !snapshot.live.turns.is_empty() {
            let store = self.services.store.get().await?;
            for turn in &snapshot.live.turns {
                let found = store.items(&snapshot.record.id, &turn.id).await;
                items.insert(turn.id.to_string(), found?);
            }
        }
        let running = convert::thread::running(&snapshot.live, &items);
        let (turns, replay) = self.missed(&snapshot, since.as_ref(), running).await?;
        Ok(response(&snapshot, turns, replay, &caller.peer))
    }

    /// The client learns once what the sandbox cannot do on this machine. The response does not wait for that:
    /// the first look runs a program.
    fn warn_of_sandbox(&self, caller: &Caller) {
        let (runner, peer) = (self.services.runner.clone(), caller.peer.clone());
        if runner.is_known_whole() {
            return;
        }
        let gate = caller.gate();
        tokio::spawn(async move {
            gate.opened().await;
            if let Some(degradation) = runner.degradation().await {
                warnings::send_warning(&peer, degradation.warning);
            }
        });
    }

    /// A stored thread that is not loaded.
    pub(crate) async fn stored_thread(&self, id: &str, turns: Vec<Turn>) -> Result<Thread, Error> {
        let found = self.services.store.get().await?.thread(id).await?;
        let found = found.ok_or_else(|| Error::unknown_thread(id))?;
        Ok(wire::stored(&found, ThreadStatus::NotLoaded, turns))
    }
}

/// The client's settings for opening a thread in `cwd`.
fn opening_overrides(
    given: OpeningOverrides,
    cwd: Option<PathBuf>,
    personality: Option<Personality>,
) -> ClientOverrides {
    ClientOverrides {
        model: given.model,
        model_provider: given.model_provider,
        service_tier: given.service_tier,
        cwd,
        approval_policy: given.approval_policy,
        approvals_reviewer: given.approvals_reviewer,
        sandbox: given.sandbox,
        permissions: given.permissions,
        personality,
        base_instructions: given.base_instructions,
        developer_instructions: given.developer_instructions,
        config: given.config.map(|config| config.into_iter().collect()),
        ..ClientOverrides::default()
    }
}

/// The parameters of a connection's subscription to a thread.
pub(crate) struct Attaching {
    pub(crate) overrides: Overrides,
    /// The last event that the client saw.
    pub(crate) since: Option<EventPosition>,
    /// True if it is sent `thread/started`.
    pub(crate) announce: bool,
    /// Holds notifications back until the response is queued.
    pub(crate) gate: Gate,
}

/// Sends a command and waits for its result.
pub(crate) async fn command<T>(
    handle: &ThreadHandle,
    make: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command,
) -> Result<T, Error> {
    let (sender, answer) = oneshot::channel();
    handle.send(make(sender)).await;
    answer.await.map_err(|_| handle.unloaded())?
}

fn response(
    snapshot: &Snapshot,
    turns: Vec<Turn>,
    event_replay: Option<EventReplay>,
    peer: &Peer,
) -> ThreadStartResponse {
    let settings = &snapshot.settings;
    let active_permission_profile =
        peer.is_experimental().then(|| active_profile(snapshot)).flatten();
    let effort = settings.effort.as_deref().map(serde_json::Value::from);
    ThreadStartResponse {
        thread: wire::loaded(snapshot, turns),
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
        approvals_reviewer: wire_reviewer(settings.reviewer),
        sandbox: wire_sandbox(&settings.sandbox),
        reasoning_effort: effort.and_then(|effort| serde_json::from_value(effort).ok()),
        active_permission_profile,
        permission_profile: None,
        event_cursor: snapshot.cursor.clone().filter(|_| peer.wants_cursors()),
        event_replay,
    }
}

/// The permission profile that a thread runs under, when it is one, with the folders that the user
/// granted beyond it.
fn active_profile(snapshot: &Snapshot) -> Option<ActivePermissionProfile> {
    let session::SandboxPolicy::Profile { name, .. } = &snapshot.settings.sandbox else {
        return None;
    };
    let granted = snapshot.granted.write.iter().map(|path| path.display().to_string());
    let modifications =
        granted.map(|path| PermissionProfileModification::AdditionalWritableRoot { path });
    Some(ActivePermissionProfile {
        id: name.clone(),
        extends: None,
        modifications: modifications.collect(),
    })
}

/// Returns the way in which `thread/rollback` restores files, if it does.
fn file_rollback(params: &ThreadRollbackParams) -> Result<Option<FileRollback>, Error> {
    match (params.restore_files, params.dry_run, params.overwrite_changes) {
        (true, true, _) => Ok(Some(FileRollback::Preview)),
        (true, false, true) => Ok(Some(FileRollback::Overwrite)),
        (true, false, false) => Ok(Some(FileRollback::Restore)),
        (false, false, false) => Ok(None),
        (false, ..) => Err(Error::invalid_params(
            "`dryRun` and `overwriteChanges` are about files: give `restoreFiles`, too",
        )),
    }
}
