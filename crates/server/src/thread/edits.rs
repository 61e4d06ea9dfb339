//! What changes a loaded thread besides its turns: its history is fetched, turns are dropped, facts
//! about it are set.

use jsonrpc::ErrorObject;
use session::{Action, Refusal};
use store::{ThreadChanges, Write};

use crate::convert;
use crate::loading::stored;
use crate::thread::Actor;
use crate::thread::actor::Step;

impl Actor {
    /// Fetches the model's history, unless it is here: loading a thread leaves it out.
    pub(super) async fn ensure_history(&mut self, steps: &mut Vec<Step>) -> Result<(), Refusal> {
        if !self.machine.needs_history() {
            return Ok(());
        }
        // What waits to be stored is part of it.
        self.execute(std::mem::take(steps)).await;
        let fetched = self.fetch_history().await;
        let told =
            |error: ErrorObject| format!("the history cannot be read: {}", error.message).into();
        fetched.map_err(told)
    }

    async fn fetch_history(&mut self) -> Result<(), ErrorObject> {
        let store = self.core.store().await?;
        let history = store.history(&self.id).await.map_err(|error| stored(&error))?;
        self.machine.restore(convert::thread::fragments(history));
        Ok(())
    }

    /// Drops the last turns.
    pub(super) async fn roll_back(&mut self, turns: u32) -> Result<(), ErrorObject> {
        if self.ephemeral {
            let message = "an ephemeral thread keeps no turns: there is nothing to roll back";
            return Err(ErrorObject::invalid_request(message));
        }
        if self.machine.active_turn().is_some() {
            let message = "a turn is running; wait for its end, or interrupt it, then roll back";
            return Err(ErrorObject::invalid_request(message));
        }
        // Unless it shows that what told the model of the settings is still there, it is told again.
        let (told, introductions) =
            (self.machine.introduced().cloned(), self.machine.introductions());
        let mut extra = self.extra.clone();
        extra.introduced = None;
        let changes = ThreadChanges { extra: Some(Some(extra.json())), ..ThreadChanges::default() };
        let thread = self.id.to_string();
        let writes = vec![
            Write::RollBack { thread: thread.clone(), turns },
            Write::UpdateThread { thread, changes: Box::new(changes) },
        ];
        let store = self.core.store().await?;
        store.commit(writes).await.map_err(|error| stored(&error))?;
        self.extra = extra;
        self.machine.forget_history();
        // What clients know is not what is stored any more.
        if let Some(log) = &mut self.subscribers.log {
            log.cut();
        }
        // A history that cannot be read now is read before the next turn.
        if introductions.is_some_and(|count| count > 0)
            && self.fetch_history().await.is_ok()
            && self.machine.introductions() == introductions
        {
            self.machine.keep_introduced(told);
        }
        Ok(())
    }

    /// Sets facts about the thread.
    pub(super) async fn change(&mut self, changes: ThreadChanges) -> Result<(), ErrorObject> {
        if !self.ephemeral {
            let (thread, changes) = (self.id.to_string(), Box::new(changes.clone()));
            let store = self.core.store().await?;
            let write = Write::UpdateThread { thread, changes };
            store.commit(vec![write]).await.map_err(|error| stored(&error))?;
        }
        let ThreadChanges { name, git_info, .. } = changes;
        self.record.name = name.unwrap_or_else(|| self.record.name.take());
        self.record.git_info = git_info.unwrap_or_else(|| self.record.git_info.take());
        Ok(())
    }

    /// What the user's own command does, for display. It runs outside of any sandbox, so the
    /// requirements have to allow that, and the command rules the command.
    ///
    /// # Errors
    /// Why it may not run.
    pub(super) async fn user_shell(&mut self, script: &str) -> Result<Vec<Action>, Refusal> {
        let (inspector, script) = (self.inspector(), script.to_owned());
        let place = self.machine.settings().cwd.clone();
        let found = self.core.files.run(&place, move || inspector.user_shell(&script)).await;
        found.unwrap_or_else(|error| Err(error.to_string())).map_err(Refusal::from)
    }
}
