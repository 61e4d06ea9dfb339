//! A thread follows its configuration: before a turn starts, files that changed are read again.

use std::path::PathBuf;
use std::sync::Arc;

use protocol::ConfigWarning;
use serde_json::{Map, Value};
use session::{Input, Overrides, Settings};

use crate::error::Error;
use crate::loading;
use crate::thread::Actor;
use crate::thread::actor::Step;
use crate::{required, warnings};

/// Where a thread's configuration comes from.
#[derive(Clone)]
pub(crate) struct Source {
    /// The folder whose project has a say.
    pub(crate) cwd: PathBuf,
    /// Files that it came or could have come from.
    pub(crate) files: Vec<PathBuf>,
    /// Of the configuration source when the files were read.
    pub(crate) generation: u64,
    /// The `config` of the client's request.
    pub(crate) overrides: Option<Map<String, Value>>,
}

impl Actor {
    /// Takes over what changed on disk since the last turn, or came with another folder. A
    /// configuration that cannot be used leaves everything as it is, and the clients hear why.
    ///
    /// # Errors
    /// A file system that does not answer: without its files the turn cannot start.
    pub(super) async fn follow_configuration(
        &mut self,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        let cwd = self.machine.settings().cwd.clone();
        let moved = self.source.cwd != cwd;
        let looks = self.machine.active_turn().is_none();
        let (core, config) = (self.core.clone(), self.config.clone());
        let (files, since) = (self.source.files.clone(), self.source.generation);
        let (overrides, folder) = (self.source.overrides.clone(), cwd.clone());
        let looked = self.core.files.run(&cwd, move || {
            let source = &core.config;
            let changed = looks && (moved || source.changed(&files, since));
            let generation = source.generation();
            let load = || source.load(&core.options, &folder, overrides.as_ref());
            let loaded = changed.then(|| (generation, load()));
            let holds = match &loaded {
                Some((_, Ok(loaded))) => &loaded.resolved.config,
                _ => &*config,
            };
            let problems = core.rules.problems(holds);
            (loaded, problems)
        });
        let (loaded, problems) = looked.await?;
        self.tell_plainly(&problems);
        let Some((generation, loaded)) = loaded else { return Ok(()) };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                self.source.generation = generation;
                self.source.cwd = cwd;
                self.subscribers.remark::<ConfigWarning>(&warnings::kept(&error));
                return Ok(());
            }
        };
        let source =
            Source { files: loaded.files, generation, cwd: cwd.clone(), ..self.source.clone() };
        for peer in self.subscribers.iter() {
            warnings::tell(peer, &loaded.resolved.warnings);
        }
        let new = loaded.resolved.config;
        if new == *self.config {
            self.source = source;
            return Ok(());
        }
        let new = Arc::new(new);
        let now = self.machine.settings();
        let (before, after) = (
            loading::configured(&self.core, &self.config, &cwd),
            loading::configured(&self.core, &new, &cwd),
        );
        let mut settings = followed(now, before, after);
        for told in required::constrain_settings(&mut settings, &new) {
            self.subscribers.remark::<ConfigWarning>(&warnings::plain(told));
        }
        let parts = loading::parts(&self.core, &new, &self.extra, settings).await;
        let parts = match parts {
            Ok(parts) => parts,
            Err(error) => {
                let summary =
                    format!("{error}; the previous configuration stays in force until it is fixed");
                self.subscribers.remark::<ConfigWarning>(&warnings::plain(summary));
                return Ok(());
            }
        };
        (self.source, self.config) = (source, new);
        self.tell_plainly(&parts.problems);
        self.teller.set_context_window(parts.context_window);
        self.instruction_sources = parts.instruction_sources;
        self.step(Input::Configure(Box::new(parts.configured)), steps);
        Ok(())
    }

    /// Tells the clients what cannot be read, each client once.
    fn tell_plainly(&self, problems: &[String]) {
        for problem in problems {
            for peer in self.subscribers.iter() {
                warnings::tell_plain(peer, problem.clone());
            }
        }
    }

    /// Keeps a client's wishes within the administrator's requirements, and says what was changed.
    pub(super) fn allowed(&self, mut overrides: Overrides) -> Overrides {
        let cwd = overrides.cwd.as_ref().unwrap_or(&self.machine.settings().cwd).clone();
        let workspace = &self.config.sandbox_workspace_write;
        for told in required::constrain(&mut overrides, &self.config.requirements, workspace, &cwd)
        {
            self.subscribers.remark::<ConfigWarning>(&warnings::plain(told));
        }
        overrides
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
        sandbox: follow(&now.sandbox, before.sandbox, after.sandbox),
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
    use session::{ApprovalPolicy, Mode, SandboxPolicy};

    use super::*;

    fn settings(model: &str, effort: Option<&str>) -> Settings {
        Settings {
            model: model.to_owned(),
            provider: "p".to_owned(),
            cwd: "/w".into(),
            approval: ApprovalPolicy::Never,
            sandbox: SandboxPolicy::DangerFullAccess,
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
    fn what_a_client_chose_stays_and_the_rest_follows() {
        let before = settings("old", Some("low"));
        let after = settings("new", None);
        let chosen = settings("chosen", Some("low"));
        assert_eq!(followed(&chosen, before.clone(), after.clone()), settings("chosen", None));
        assert_eq!(followed(&before, before.clone(), after.clone()), after);
    }
}
