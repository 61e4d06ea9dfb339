//! What changes a loaded thread besides its turns: its history is fetched, turns are dropped, facts
//! about it are set.

use session::Action;
use store::{ThreadChanges, Write};

use crate::convert;
use crate::error::Error;
use crate::thread::Actor;
use crate::thread::actor::Step;

impl Actor {
    /// Fetches the model's history, unless it is here: loading a thread leaves it out.
    pub(super) async fn ensure_history(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        if !self.machine.needs_history() {
            return Ok(());
        }
        // What waits to be stored is part of it.
        self.execute(std::mem::take(steps)).await;
        self.fetch_history().await.map_err(|error| error.within("the history cannot be read"))
    }

    async fn fetch_history(&mut self) -> Result<(), Error> {
        let store = self.core.store().await?;
        let history = store.history(&self.id).await?;
        self.machine.restore(convert::thread::fragments(history));
        Ok(())
    }

    /// Drops the last turns.
    pub(super) async fn roll_back(&mut self, turns: u32) -> Result<(), Error> {
        if self.ephemeral {
            return Err(Error::wrong_state(
                "an ephemeral thread keeps no turns, so there is nothing to roll back",
            ));
        }
        if self.machine.active_turn().is_some() {
            return Err(Error::wrong_state("a turn is running")
                .next_step("wait for its end, or interrupt it, then roll back"));
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
        store.commit(writes).await?;
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
    pub(super) async fn change(&mut self, changes: ThreadChanges) -> Result<(), Error> {
        if !self.ephemeral {
            let (thread, changes) = (self.id.to_string(), Box::new(changes.clone()));
            let store = self.core.store().await?;
            let write = Write::UpdateThread { thread, changes };
            store.commit(vec![write]).await?;
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
    pub(super) async fn user_shell(&mut self, script: &str) -> Result<Vec<Action>, Error> {
        let (inspector, script) = (self.inspector(), script.to_owned());
        let place = self.machine.settings().cwd.clone();
        self.core.files.run(&place, move || inspector.user_shell(&script)).await?
    }
}
