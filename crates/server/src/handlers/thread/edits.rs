//! Changes of a thread that need not be loaded: its name, its metadata, archiving and deletion.

use ::hooks::EndReason;
use jsonrpc::Notification;
use protocol::*;
use serde::Serialize;
use store::{ThreadChanges, Write};

use crate::handlers::thread::command;
use crate::server::Server;
use services::connections::Connections;
use services::error::Error;
use services::loaded_threads::LoadedThreads;
use services::peer::Caller;
use services::thread_locks::ThreadLock;
use services::thread_port::{Command, Extra, wire};

/// Longest name of a thread, in characters.
const MAX_NAME: usize = 1000;
/// Longest fact about a repository, in bytes.
const MAX_FACT: usize = 4096;

impl Server {
    /// Archives a thread. Does nothing, and notifies no client, when it is archived already.
    pub(super) async fn archive(&self, caller: &Caller, id: &str) -> Result<Empty, Error> {
        let _lock = self.services.threads.lock(id).await;
        let found = self.services.store.get().await?.thread(id).await?;
        let found = found.ok_or_else(|| match self.services.threads.get(id) {
            Some(_) => Error::wrong_state("an ephemeral thread cannot be archived"),
            None => Error::unknown_thread(id),
        })?;
        if found.record.archived {
            return Ok(Empty {});
        }
        if found.turn_count == 0 {
            return Err(Error::wrong_state(format!(
                "thread {id} has no turns, so there is nothing to archive"
            )));
        }
        let _ending = self.services.threads.begin_end(id, EndReason::Archived);
        let was_loaded = self.services.threads.end(id, EndReason::Archived).await;
        self.services.agents.close_children(id).await;
        let written = self.archive_stored(id).await;
        if written.is_ok() {
            self.forget_changes(id).await;
        }
        let (params, done) = (named(id), written.is_ok());
        self.after_response(caller, move |threads, connections| {
            if was_loaded {
                threads.notify_unloaded(&params.thread_id);
            }
            if done {
                connections.notify_all::<ThreadArchived>(&params);
            }
        });
        written.map(|()| Empty {})
    }

    /// Archives a thread that is not loaded. Its queue, if it has one, waits for a client then: a thread that is
    /// taken out of the archive does not begin to work by itself.
    async fn archive_stored(&self, id: &str) -> Result<(), Error> {
        let store = self.services.store.get().await?;
        let mut changes = ThreadChanges { archived: Some(true), ..ThreadChanges::default() };
        if !store.queue(id).await?.is_empty() {
            let found = store.thread(id).await?.ok_or_else(|| Error::unknown_thread(id))?;
            let pause =
                ThreadQueuePause { reason: ThreadQueuePauseReason::Archived, message: None };
            let extra = Extra { queue_pause: Some(pause), ..Extra::read(&found.record)? };
            changes.extra = Some(Some(extra.json()));
        }
        let (thread, changes) = (id.to_owned(), Box::new(changes));
        self.write_unloaded(id, Write::UpdateThread { thread, changes }).await
    }

    /// Restores an archived thread. Does nothing, and notifies no client, when it is not archived.
    pub(super) async fn unarchive(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<ThreadReadResponse, Error> {
        {
            let _lock = self.services.threads.lock(id).await;
            let store = self.services.store.get().await?;
            let found = store.thread(id).await?;
            let found = found.ok_or_else(|| Error::unknown_thread(id))?;
            if found.record.archived {
                self.write_unloaded(id, unarchived(id)).await?;
                let params = named(id);
                self.after_response(caller, move |_, connections| {
                    connections.notify_all::<ThreadUnarchived>(&params);
                });
            }
        }
        self.current(id).await
    }

    pub(super) async fn delete(&self, caller: &Caller, id: &str) -> Result<Empty, Error> {
        let _lock = self.services.threads.lock(id).await;
        let store = self.services.store.get().await?;
        let found = store.thread(id).await?;
        let is_loaded = self.services.threads.get(id).is_some();
        if found.is_none() && !is_loaded {
            return Err(Error::unknown_thread(id));
        }
        if found.is_some() && !is_loaded {
            // Refused before anything happens when another server has it.
            self.services.store.open_thread(id).await?;
        }
        let _ending = self.services.threads.begin_end(id, EndReason::Deleted);
        let was_loaded = self.services.threads.end(id, EndReason::Deleted).await;
        self.services.agents.close_children(id).await;
        let written = match found {
            Some(_) => self.write_unloaded(id, Write::DeleteThread { thread: id.to_owned() }).await,
            None => Ok(()),
        };
        match &written {
            Ok(()) => self.forget_changes(id).await,
            // It was taken above.
            Err(_) => self.services.store.release(id).await,
        }
        let (params, done) = (named(id), written.is_ok());
        self.after_response(caller, move |threads, connections| {
            if was_loaded {
                threads.notify_unloaded(&params.thread_id);
            }
            if done {
                connections.notify_all::<ThreadDeleted>(&params);
            }
        });
        written.map(|()| Empty {})
    }

    /// Forgets the changes of a deleted thread, which can no longer be undone.
    async fn forget_changes(&self, id: &str) {
        let home = match self.services.configurations.own() {
            Ok(loaded) => loaded.resolved.config.sqlite_home,
            Err(_) => self.services.options.home.clone(),
        };
        if let Err(error) = self.services.undo.forget(&home, id).await {
            let message = "the contents of files that the deleted thread changed are kept for undo";
            tracing::warn!(target: "server::undo", "{message}: {error}");
        }
    }

    pub(super) async fn set_name(
        &self,
        caller: &Caller,
        params: ThreadNameSetParams,
    ) -> Result<Empty, Error> {
        let name = params.name.trim();
        let characters = name.chars().count();
        if !(1..=MAX_NAME).contains(&characters) {
            return Err(Error::invalid_params(format!(
                "`name` must have 1 to {MAX_NAME} characters, not {characters}"
            )));
        }
        let changes =
            ThreadChanges { name: Some(Some(name.to_owned())), ..ThreadChanges::default() };
        let lock = self.services.threads.lock(&params.thread_id).await;
        self.change(&params.thread_id, &lock, changes).await?;
        drop(lock);
        let renamed = ThreadNameUpdatedNotification {
            thread_id: params.thread_id.clone(),
            thread_name: Some(name.to_owned()),
        };
        self.announce::<ThreadNameUpdated>(caller, params.thread_id, renamed);
        Ok(Empty {})
    }

    /// Keeps members that are left out and clears those that are null.
    pub(super) async fn update_metadata(
        &self,
        caller: &Caller,
        params: ThreadMetadataUpdateParams,
    ) -> Result<ThreadReadResponse, Error> {
        let id = &params.thread_id;
        if let Some(update) = params.git_info {
            // Others that change single members wait.
            let lock = self.services.threads.lock(id).await;
            let mut info = self.current(id).await?.thread.git_info.unwrap_or_default();
            for (member, new, slot) in [
                ("sha", update.sha, &mut info.sha),
                ("branch", update.branch, &mut info.branch),
                ("originUrl", update.origin_url, &mut info.origin_url),
            ] {
                let Some(new) = new else { continue };
                let long = new.as_ref().is_some_and(|text| text.len() > MAX_FACT);
                if long || new.as_ref().is_some_and(String::is_empty) {
                    return Err(Error::invalid_params(format!(
                        "`gitInfo.{member}` must have 1 to {MAX_FACT} bytes; null clears it"
                    )));
                }
                *slot = new;
            }
            let json = serde_json::to_string(&info).expect("plain data");
            let info = (info != GitInfo::default()).then_some(info);
            let git_info = info.as_ref().map(|_| json);
            let changes = ThreadChanges { git_info: Some(git_info), ..ThreadChanges::default() };
            self.change(id, &lock, changes).await?;
            let updated =
                ThreadMetadataUpdatedNotification { thread_id: id.clone(), git_info: info };
            self.announce::<ThreadMetadataUpdated>(caller, id.clone(), updated);
        }
        self.current(id).await
    }

    /// Notifies every client of a change of a thread, once the response to the caller is queued.
    pub(super) fn announce<N>(&self, caller: &Caller, thread: String, params: N::Params)
    where
        N: Notification<Params: Serialize + Send + Sync + 'static>,
    {
        let (threads, gate) = (self.services.threads.clone(), caller.gate());
        tokio::spawn(async move {
            gate.opened().await;
            threads.notify_all_about::<N>(&thread, &params).await;
        });
    }

    /// Sends notifications that follow from a request, once its response is queued.
    fn after_response(
        &self,
        caller: &Caller,
        notify: impl FnOnce(&LoadedThreads, &Connections) + Send + 'static,
    ) {
        let (threads, gate) = (self.services.threads.clone(), caller.gate());
        let connections = self.services.connections.clone();
        tokio::spawn(async move {
            gate.opened().await;
            notify(&threads, &connections);
        });
    }

    /// The thread as it is now, loaded or not.
    async fn current(&self, id: &str) -> Result<ThreadReadResponse, Error> {
        let loaded = match self.services.threads.get(id) {
            Some(handle) => handle.snapshot().await,
            None => None,
        };
        let thread = match loaded {
            Some(snapshot) => wire::loaded(&snapshot, Vec::new()),
            None => self.stored_thread(id, Vec::new()).await?,
        };
        Ok(ThreadReadResponse { thread })
    }

    /// Sets whether a thread leaves notes for later ones, and gets those of others.
    pub(super) async fn set_memory_mode(
        &self,
        params: ThreadMemoryModeSetParams,
    ) -> Result<Empty, Error> {
        let ThreadMemoryModeSetParams { thread_id: id, mode } = params;
        let _lock = self.services.threads.lock(&id).await;
        if let Some(handle) = self.services.threads.get(&id) {
            command(&handle, |answer| Command::SetMemoryMode { mode, answer }).await?;
            return Ok(Empty {});
        }
        let store = self.services.store.get().await?;
        let record = store.thread(&id).await?.ok_or_else(|| Error::unknown_thread(&id))?.record;
        let (without_memories, extra) = (mode == ThreadMemoryMode::Disabled, Extra::read(&record)?);
        if extra.without_memories
            && !without_memories
            && let Some(turn) = store.last_turn(&id).await?
        {
            self.services.memories.skip(id.clone(), turn.id).await?;
        }
        let extra = Extra { without_memories, ..extra };
        let changes = ThreadChanges { extra: Some(Some(extra.json())), ..ThreadChanges::default() };
        let changes = Box::new(changes);
        self.write_unloaded(&id, Write::UpdateThread { thread: id.clone(), changes }).await?;
        Ok(Empty {})
    }

    /// Changes a thread, whose lock the caller holds, through its actor, or in the store when it has none.
    async fn change(&self, id: &str, _: &ThreadLock, changes: ThreadChanges) -> Result<(), Error> {
        let changes = Box::new(changes);
        if let Some(handle) = self.services.threads.get(id) {
            return command(&handle, |answer| Command::Change { changes, answer }).await;
        }
        self.write_unloaded(id, Write::UpdateThread { thread: id.to_owned(), changes }).await
    }

    /// Writes to a thread that is not loaded. The caller holds its lock.
    pub(super) async fn write_unloaded(&self, id: &str, write: Write) -> Result<(), Error> {
        self.services.store.write_unloaded(id, vec![write]).await
    }
}

fn named(id: &str) -> ThreadIdNotification {
    ThreadIdNotification { thread_id: id.to_owned() }
}

fn unarchived(id: &str) -> Write {
    let changes = Box::new(ThreadChanges { archived: Some(false), ..ThreadChanges::default() });
    Write::UpdateThread { thread: id.to_owned(), changes }
}
