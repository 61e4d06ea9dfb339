//! What changes a thread whether it is loaded or not: its name, its facts, its place in the archive,
//! its end.

use protocol::*;
use store::{ThreadChanges, Write};

use crate::connection::Cx;
use crate::convert;
use crate::error::Error;
use crate::handlers::thread::{look, told};
use crate::server::{Core, Server};
use crate::thread::Command;

/// Longest name of a thread, in characters.
const MAX_NAME: usize = 1000;
/// Longest fact about a repository, in bytes.
const MAX_FACT: usize = 4096;

impl Server {
    /// Archiving what is archived is good, and tells nobody.
    pub(super) async fn archive(&self, cx: &Cx, id: &str) -> Result<Empty, Error> {
        let _loading = self.core.loading.lock().await;
        let found = self.core.store().await?.thread(id).await?;
        let found = found.ok_or_else(|| match self.core.loaded(id) {
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
        let was_loaded = self.core.end_thread(id).await;
        let written = self.write_unloaded(id, archived(id, true)).await;
        let (params, done) = (named(id), written.is_ok());
        self.after_response(cx, move |core| {
            core.tell_unloaded(&params.thread_id, was_loaded);
            if done {
                core.tell_everybody::<ThreadArchived>(&params);
            }
        });
        written.map(|()| Empty {})
    }

    /// Taking back what is not archived is good, and tells nobody.
    pub(super) async fn unarchive(&self, cx: &Cx, id: &str) -> Result<ThreadReadResponse, Error> {
        {
            let _loading = self.core.loading.lock().await;
            let store = self.core.store().await?;
            let found = store.thread(id).await?;
            let found = found.ok_or_else(|| Error::unknown_thread(id))?;
            if found.record.archived {
                self.write_unloaded(id, archived(id, false)).await?;
                let params = named(id);
                self.after_response(cx, move |core| {
                    core.tell_everybody::<ThreadUnarchived>(&params);
                });
            }
        }
        self.current(id).await
    }

    pub(super) async fn delete(&self, cx: &Cx, id: &str) -> Result<Empty, Error> {
        let _loading = self.core.loading.lock().await;
        let store = self.core.store().await?;
        let found = store.thread(id).await?;
        let is_loaded = self.core.loaded(id).is_some();
        if found.is_none() && !is_loaded {
            return Err(Error::unknown_thread(id));
        }
        if found.is_some() && !is_loaded {
            // Refused before anything happens when another server has it.
            self.core.lease(id).await?;
        }
        let was_loaded = self.core.end_thread(id).await;
        let written = match found {
            Some(_) => self.write_unloaded(id, Write::DeleteThread { thread: id.to_owned() }).await,
            None => Ok(()),
        };
        let (params, done) = (named(id), written.is_ok());
        self.after_response(cx, move |core| {
            core.tell_unloaded(&params.thread_id, was_loaded);
            if done {
                core.tell_everybody::<ThreadDeleted>(&params);
            }
        });
        written.map(|()| Empty {})
    }

    pub(super) async fn set_name(
        &self,
        cx: &Cx,
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
        self.change(&params.thread_id, changes).await?;
        let told = ThreadNameUpdatedNotification {
            thread_id: params.thread_id,
            thread_name: Some(name.to_owned()),
        };
        let (core, gate) = (self.core.clone(), cx.gate());
        tokio::spawn(async move {
            gate.opened().await;
            core.tell_everybody_of::<ThreadNameUpdated>(&told.thread_id, &told).await;
        });
        Ok(Empty {})
    }

    /// A member that is left out stays, one that is null is cleared.
    pub(super) async fn update_metadata(
        &self,
        params: ThreadMetadataUpdateParams,
    ) -> Result<ThreadReadResponse, Error> {
        let id = &params.thread_id;
        if let Some(update) = params.git_info {
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
            let git_info = (info != GitInfo::default()).then_some(json);
            let changes = ThreadChanges { git_info: Some(git_info), ..ThreadChanges::default() };
            self.change(id, changes).await?;
        }
        self.current(id).await
    }

    /// Tells what followed from a request once its response is queued.
    fn after_response(&self, cx: &Cx, tell: impl FnOnce(&Core) + Send + 'static) {
        let (core, gate) = (self.core.clone(), cx.gate());
        tokio::spawn(async move {
            gate.opened().await;
            tell(&core);
        });
    }

    /// The thread as it is now, loaded or not.
    async fn current(&self, id: &str) -> Result<ThreadReadResponse, Error> {
        let loaded = match self.core.loaded(id) {
            Some(handle) => look(&handle).await,
            None => None,
        };
        let thread = match loaded {
            Some(snapshot) => convert::thread::loaded(&snapshot, Vec::new()),
            None => self.stored_thread(id, Vec::new()).await?,
        };
        Ok(ThreadReadResponse { thread })
    }

    /// Changes a thread through its actor, or in the store when it has none.
    async fn change(&self, id: &str, changes: ThreadChanges) -> Result<(), Error> {
        let _loading = self.core.loading.lock().await;
        let changes = Box::new(changes);
        if let Some(handle) = self.core.loaded(id) {
            return told(&handle, |answer| Command::Change { changes, answer }).await;
        }
        self.write_unloaded(id, Write::UpdateThread { thread: id.to_owned(), changes }).await
    }

    /// Writes to a thread that is not loaded. The caller holds `loading`.
    pub(super) async fn write_unloaded(&self, id: &str, write: Write) -> Result<(), Error> {
        self.core.lease(id).await?;
        let store = self.core.store().await?;
        let written = store.commit(vec![write]).await.map_err(Error::from);
        // A lease that stays ends with this server; of a deleted thread there is none.
        let _ = store.release(id).await;
        written
    }
}

fn named(id: &str) -> ThreadIdNotification {
    ThreadIdNotification { thread_id: id.to_owned() }
}

fn archived(id: &str, archived: bool) -> Write {
    let changes = Box::new(ThreadChanges { archived: Some(archived), ..ThreadChanges::default() });
    Write::UpdateThread { thread: id.to_owned(), changes }
}
