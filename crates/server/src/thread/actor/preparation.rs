//! What a turn needs before the machine starts it: the configuration as it is now, overrides that the
//! requirements allow, and the model's history.

use std::sync::Arc;

use protocol::permission::PermissionProfileSelectionParams;
use session::Overrides;

use crate::allowed::{Allowed, MachineInput};
use crate::connection::Peer;
use crate::error::Error;
use crate::thread::actor::Actor;
use crate::thread::configuration::Reconfigured;
use crate::thread::step::{Step, append_steps};
use crate::undo::{FileRollback, RestoredFiles};
use crate::warnings;

impl Actor {
    /// Prepares a turn: the configuration as it is now, the model's history, and overrides that the
    /// requirements allow.
    pub(super) async fn before_turn(
        &mut self,
        mut overrides: Overrides,
        permissions: Option<PermissionProfileSelectionParams>,
        steps: &mut Vec<Step>,
    ) -> Result<Allowed<Overrides>, Error> {
        let above = self.agents.read_above(self.machine.unloaded_above()).await?;
        self.machine.set_stored_above(above);
        let is_idle = self.machine.active_turn().is_none();
        let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
        let followed = self.configuration.follow(settings, is_idle, extra, &self.broadcast).await?;
        self.reconfigure(followed, steps);
        if is_idle {
            let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
            let adapted =
                self.configuration.adapt_to_model(settings, &overrides, extra, &self.broadcast);
            let adapted = adapted.await;
            self.reconfigure(adapted, steps);
            self.offer_server_tools(steps).await;
            self.offer_skills(steps).await?;
            self.follow_hooks(steps).await?;
        }
        let reviewer = overrides.reviewer.unwrap_or(self.machine.settings().reviewer);
        if !reviewer.is_user() {
            let read = self.agents.read_root_words().await;
            read.map_err(|error| error.within("what the user wrote at the root cannot be read"))?;
        }
        if let Some(selection) = permissions {
            overrides.sandbox = Some(self.configuration.profile_policy(&selection)?);
        }
        self.ensure_history(steps).await?;
        Ok(self.allow(overrides, None))
    }

    /// Prepares a request that may begin a turn by itself, such as a compaction: its history and hooks.
    pub(super) async fn before_request(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        if self.machine.active_turn().is_none() {
            self.follow_hooks(steps).await?;
        }
        self.ensure_history(steps).await
    }

    /// Takes over the tools of MCP servers as they are now; they stay so for the turn.
    pub(super) async fn offer_server_tools(&mut self, steps: &mut Vec<Step>) {
        let refreshed = self.mcp.refreshed_tools(self.configuration.config());
        let has_new_mode = self.memories.take_new_mode();
        let kept = || has_new_mode.then(|| self.configuration.server_tools());
        let Some(tools) = refreshed.or_else(kept) else { return };
        let (settings, extra) = (self.machine.chosen_settings(), self.journal.extra());
        let offered =
            self.configuration.offer_server_tools(tools, settings, extra, &self.broadcast);
        let offered = offered.await;
        self.reconfigure(offered, steps);
    }

    /// Uses the MCP servers of the configuration as the files have it now, also during a turn. The rest of a
    /// changed configuration, and its tools, come with the next turn, which also reports its mistakes.
    pub(super) async fn reload_servers(&mut self) {
        let cwd = &self.machine.chosen_settings().cwd;
        match self.configuration.latest(cwd).await {
            Ok(Some(config)) => {
                self.mcp.update(cwd, &Arc::new(config), self.configuration.origin());
            }
            Ok(None) => {}
            Err(error) => self.broadcast.warn(&error.to_string()),
        }
    }

    /// Takes over the skills as they are now; the model is informed of them when the turn begins.
    async fn offer_skills(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        let (settings, config) = (self.machine.allowed_settings(), self.configuration.config());
        let remote = self.mcp.offered_skills();
        if let Some(catalog) = self.skills.changed_catalog(&settings, config, remote).await? {
            append_steps(self.machine.step(MachineInput::Skills { catalog }), steps);
        }
        Ok(())
    }

    pub(super) fn reconfigure(&mut self, changed: Option<Reconfigured>, steps: &mut Vec<Step>) {
        let Some(Reconfigured { configured, context_window }) = changed else { return };
        self.broadcast.set_context_window(context_window);
        self.warn_of_changes(self.machine.exceeding(&configured.settings));
        let config = self.configuration.config();
        self.mcp.update(&configured.settings.cwd, config, self.configuration.origin());
        append_steps(self.machine.configure(configured, config), steps);
    }

    /// Overrides that the requirements allow. The machine keeps what follows from them within the
    /// bound of an agent. The clients learn what was replaced, and so does `sender`.
    pub(super) fn allow(&self, overrides: Overrides, sender: Option<&Peer>) -> Allowed<Overrides> {
        let cwd = &self.machine.settings().cwd;
        let (overrides, mut replaced) = self.configuration.allow(overrides, cwd);
        let mut settings = self.machine.chosen_settings().clone();
        if settings.apply(overrides.clone().into_inner()) {
            replaced.extend(self.machine.exceeding(&settings));
        }
        let subscribers = self.broadcast.subscribers();
        if let Some(peer) = sender.filter(|peer| !subscribers.contains(peer.id)) {
            replaced.iter().for_each(|sentence| warnings::send_plain(peer, sentence.clone()));
        }
        self.warn_of_changes(replaced);
        overrides
    }

    fn warn_of_changes(&self, replaced: Vec<String>) {
        for sentence in replaced {
            self.broadcast.warn_of_change(&warnings::plain(sentence));
        }
    }

    /// Reads the model's history unless it is loaded: loading a thread leaves it out.
    pub(super) async fn ensure_history(&mut self, steps: &mut Vec<Step>) -> Result<(), Error> {
        if !self.machine.needs_history() {
            return Ok(());
        }
        // Records that wait to be stored are part of it.
        self.execute(std::mem::take(steps)).await;
        let history = self.journal.history().await;
        let history = history.map_err(|error| error.within("the history cannot be read"))?;
        let variables = self.skill_needs.variables();
        self.machine.restore(history, |name| variables.has(name));
        Ok(())
    }

    /// Drops the last turns, after their changes of files are undone where that is asked for. Only
    /// describes these changes for [`FileRollback::Preview`].
    pub(super) async fn roll_back(
        &mut self,
        turns: u32,
        files: Option<FileRollback>,
    ) -> Result<Option<RestoredFiles>, Error> {
        if self.machine.active_turn().is_some() && !self.journal.is_ephemeral() {
            return Err(Error::wrong_state("a turn is running")
                .next_step("wait for its end, or interrupt it, then roll back"));
        }
        let restored = match files {
            Some(how) => Some(self.restore_files(turns, how).await?),
            None => None,
        };
        if matches!(files, Some(FileRollback::Preview)) {
            return Ok(restored);
        }
        let (introduced, introductions) =
            (self.machine.introduced().cloned(), self.machine.introductions());
        self.journal.roll_back(turns).await?;
        self.machine.forget_history();
        self.broadcast.cut_event_log();
        // The model is informed of the settings again, unless its history shows that the message with
        // them is still there. A history that cannot be read now is read before the next turn.
        if introductions.is_some_and(|count| count > 0)
            && let Ok(history) = self.journal.history().await
        {
            let variables = self.skill_needs.variables();
            self.machine.restore(history, |name| variables.has(name));
            if self.machine.introductions() == introductions {
                self.machine.keep_introduced(introduced);
            }
        }
        Ok(restored)
    }
}
