//! The configuration of a thread. Before a turn starts, files that have changed are read again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::Config;
use session::{Configured, Overrides, ServerTool, Settings};

use crate::thread::broadcast::Broadcast;
use services::allowed::Allowed;
use services::configurations::{ConfigurationOrigin, Configurations, Reload};
use services::error::Error;
use services::thread_defaults::{ModelName, Parts, ThreadDefaults};
use services::thread_port::Extra;
use services::warnings;

/// The configuration of a thread.
pub struct ThreadConfiguration {
    config: Arc<Config>,
    origin: ConfigurationOrigin,
    instruction_sources: Vec<PathBuf>,
    configurations: Arc<Configurations>,
    defaults: Arc<ThreadDefaults>,
    /// The model that the tools and bounds are for.
    model: ModelName,
    /// The tools of MCP servers that the thread offers.
    server_tools: Arc<[ServerTool]>,
}

/// The new state of a thread after a changed configuration.
pub(super) struct Reconfigured {
    pub(super) configured: Allowed<Configured>,
    pub(super) context_window: Option<i64>,
}

impl ThreadConfiguration {
    pub fn new(
        config: Arc<Config>,
        origin: ConfigurationOrigin,
        instruction_sources: Vec<PathBuf>,
        configurations: Arc<Configurations>,
        defaults: Arc<ThreadDefaults>,
        model: ModelName,
    ) -> Self {
        let server_tools = Arc::default();
        Self { config, origin, instruction_sources, configurations, defaults, model, server_tools }
    }

    /// The configuration in force.
    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Where the configuration comes from.
    pub(super) fn origin(&self) -> &ConfigurationOrigin {
        &self.origin
    }

    /// Returns the reader and editor of configurations.
    pub(super) fn shared(&self) -> Arc<Configurations> {
        self.configurations.clone()
    }

    /// The tools of MCP servers that the thread offers.
    pub(super) fn server_tools(&self) -> Arc<[ServerTool]> {
        self.server_tools.clone()
    }

    /// The documents that the thread's instructions came from.
    pub(super) fn instruction_sources(&self) -> &[PathBuf] {
        &self.instruction_sources
    }

    /// The policy of the permission profile that a client selects.
    ///
    /// # Errors
    /// Invalid parameters: there is no such profile.
    pub(super) fn profile_policy(
        &self,
        selection: &protocol::permission::PermissionProfileSelectionParams,
        cwd: &Path,
    ) -> Result<session::SandboxPolicy, Error> {
        self.defaults.profile_policy(&self.config, selection, cwd)
    }

    /// Keeps a client's overrides within the requirements, and returns a sentence about each that was
    /// changed.
    pub(super) fn allow(
        &self,
        overrides: Overrides,
        cwd: &Path,
    ) -> (Allowed<Overrides>, Vec<String>) {
        let cwd = overrides.cwd.clone().unwrap_or_else(|| cwd.to_owned());
        Allowed::new(overrides, &self.config, &cwd)
    }

    /// Takes over what has changed on disk since the last turn, or came with another working folder.
    /// A configuration that cannot be used changes nothing, and the clients learn why. With a turn
    /// running, files are not checked.
    ///
    /// # Errors
    /// A file system that does not answer: without its files the turn cannot start.
    pub(super) async fn follow(
        &mut self,
        settings: &Settings,
        is_idle: bool,
        extra: &Extra,
        broadcast: &Broadcast,
    ) -> Result<Option<Reconfigured>, Error> {
        let cwd = &settings.cwd;
        let reload = self.configurations.reload(&self.config, &self.origin, cwd, is_idle).await?;
        let Reload { loaded, rule_problems } = reload;
        rule_problems.iter().for_each(|problem| broadcast.warn(problem));
        let Some((generation, loaded)) = loaded else { return Ok(None) };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                self.origin.generation = generation;
                self.origin.cwd.clone_from(cwd);
                broadcast.warn_of_change(&warnings::kept(&error));
                return Ok(None);
            }
        };
        let origin = ConfigurationOrigin {
            files: loaded.files,
            generation,
            cwd: cwd.clone(),
            overrides: self.origin.overrides.clone(),
            role: self.origin.role.clone(),
        };
        for peer in broadcast.subscribers().iter() {
            warnings::send(peer, &loaded.resolved.warnings);
        }
        let new = loaded.resolved.config;
        if new == *self.config {
            self.origin = origin;
            return Ok(None);
        }
        let new = Arc::new(new);
        let before = self.defaults.settings(&self.config, cwd);
        let after = self.defaults.settings(&new, cwd);
        let settings = followed(settings, before, after);
        let (settings, replacements) = Allowed::new(settings, &new, cwd);
        for replacement in replacements {
            broadcast.warn_of_change(&warnings::plain(replacement));
        }
        let model = ModelName::new(&settings);
        let given = (extra, &self.server_tools);
        let parts = match self.defaults.parts_for(&new, given, settings, &model).await {
            Ok(parts) => parts,
            Err(error) => {
                let summary =
                    format!("{error}; the previous configuration stays in force until it is fixed");
                broadcast.warn_of_change(&warnings::plain(summary));
                return Ok(None);
            }
        };
        (self.origin, self.config, self.model) = (origin, new, model);
        let Parts { configured, instruction_sources, context_window, problems } = parts;
        problems.iter().for_each(|problem| broadcast.warn(problem));
        self.instruction_sources = instruction_sources;
        Ok(Some(Reconfigured { configured, context_window }))
    }

    /// The configuration as the files have it now; `None` when it is the one in force, or cannot be used.
    ///
    /// # Errors
    /// A file system that does not answer.
    pub(super) async fn latest(&self, cwd: &Path) -> Result<Option<Config>, Error> {
        let reload = self.configurations.reload(&self.config, &self.origin, cwd, true).await?;
        let loaded = reload.loaded.and_then(|(_, loaded)| loaded.ok());
        Ok(loaded.map(|loaded| loaded.resolved.config))
    }

    /// Adapts tools and bounds to the model of the next turn, when it is another one than before, and
    /// informs the clients of what they should know about it. Comes between turns only.
    pub(super) async fn adapt_to_model(
        &mut self,
        settings: &Settings,
        overrides: &Overrides,
        extra: &Extra,
        broadcast: &Broadcast,
    ) -> Option<Reconfigured> {
        let model = ModelName {
            provider: overrides.provider.as_ref().unwrap_or(&settings.provider).clone(),
            model: overrides.model.as_ref().unwrap_or(&settings.model).clone(),
        };
        let effort = overrides.effort.as_deref().or(settings.effort.as_deref());
        if broadcast.has_subscribers() {
            let warnings = self.defaults.new_model_warnings(&self.config, &model, effort).await;
            warnings.iter().for_each(|warning| broadcast.warn_about_thread(warning));
        }
        if model == self.model {
            return None;
        }
        // They are in force, so nothing of them is replaced.
        let (settings, _) = Allowed::new(settings.clone(), &self.config, &settings.cwd);
        let given = (extra, &self.server_tools);
        match self.defaults.parts_for(&self.config, given, settings, &model).await {
            Ok(Parts { configured, context_window, .. }) => {
                self.model = model;
                Some(Reconfigured { configured, context_window })
            }
            Err(error) => {
                let summary = format!("{error}; the tools of the previous model stay in force");
                broadcast.warn_of_change(&warnings::plain(summary));
                None
            }
        }
    }

    /// Offers these tools of MCP servers from now on. Comes between turns only.
    pub(super) async fn offer_server_tools(
        &mut self,
        tools: Arc<[ServerTool]>,
        settings: &Settings,
        extra: &Extra,
        broadcast: &Broadcast,
    ) -> Option<Reconfigured> {
        self.server_tools = tools;
        let (settings, _) = Allowed::new(settings.clone(), &self.config, &settings.cwd);
        let given = (extra, &self.server_tools);
        match self.defaults.parts_for(&self.config, given, settings, &self.model).await {
            Ok(Parts { configured, context_window, .. }) => {
                Some(Reconfigured { configured, context_window })
            }
            Err(error) => {
                let summary = format!("{error}; the tools of MCP servers stay as they were");
                broadcast.warn_of_change(&warnings::plain(summary));
                None
            }
        }
    }
}

/// The settings after a change of the configuration: one that still has the configuration's old
/// value follows it, one that a client chose stays.
fn followed(now: &Settings, before: Settings, after: Settings) -> Settings {
    fn follow<T: PartialEq + Clone>(now: &T, before: T, after: T) -> T {
        if *now == before { after } else { now.clone() }
    }
    Settings {
        model: follow(&now.model, before.model, after.model),
        provider: follow(&now.provider, before.provider, after.provider),
        cwd: now.cwd.clone(),
        approval: follow(&now.approval, before.approval, after.approval),
        reviewer: follow(&now.reviewer, before.reviewer, after.reviewer),
        sandbox: follow(&now.sandbox, before.sandbox, after.sandbox),
        granted: now.granted.clone(),
        effort: follow(&now.effort, before.effort, after.effort),
        summary: follow(&now.summary, before.summary, after.summary),
        verbosity: follow(&now.verbosity, before.verbosity, after.verbosity),
        personality: follow(&now.personality, before.personality, after.personality),
        service_tier: follow(&now.service_tier, before.service_tier, after.service_tier),
        mode: now.mode,
        mode_instructions: now.mode_instructions.clone(),
    }
}

#[cfg(test)]
mod tests {
    use session::{ApprovalPolicy, ApprovalsReviewer, Mode, SandboxPolicy};

    use super::*;

    fn settings(model: &str, effort: Option<&str>) -> Settings {
        Settings {
            model: model.to_owned(),
            provider: "p".to_owned(),
            cwd: "/w".into(),
            approval: ApprovalPolicy::Never,
            reviewer: ApprovalsReviewer::User,
            sandbox: SandboxPolicy::DangerFullAccess,
            granted: session::Permissions::default(),
            effort: effort.map(str::to_owned),
            summary: None,
            verbosity: None,
            personality: None,
            service_tier: None,
            mode: Mode::Default,
            mode_instructions: None,
        }
    }

    #[test]
    fn client_overrides_stay_and_other_settings_follow_the_files() {
        let before = settings("old", Some("low"));
        let after = settings("new", None);
        let chosen = settings("chosen", Some("low"));
        assert_eq!(followed(&chosen, before.clone(), after.clone()), settings("chosen", None));
        assert_eq!(followed(&before, before.clone(), after.clone()), after);
    }
}
