//! The skills that a thread's model is offered: the catalog, rewritten only when something changed.

use std::sync::Arc;

use config::Config;
use sandbox::Resolved;
use session::{SandboxPolicy, Settings};
use skills::Skill;
use skills::catalog::RemoteSkill;

use super::{SkillSet, Skills, Switches};
use crate::allowed::Allowed;
use crate::command_environment::command_tmpdir;
use crate::error::Error;

/// The catalog of skills in a thread.
pub struct ThreadSkills {
    skills: Arc<Skills>,
    /// The state that the catalog was made from.
    offered: Option<MadeOf>,
}

struct MadeOf {
    set: Arc<SkillSet>,
    config: Arc<Config>,
    /// Skills of MCP servers.
    remote: Vec<RemoteSkill>,
    /// The policy that decides which files the model can read.
    sandbox: SandboxPolicy,
}

impl ThreadSkills {
    pub fn new(skills: Arc<Skills>) -> Self {
        Self { skills, offered: None }
    }

    /// Returns the reader of skills.
    pub fn shared(&self) -> Arc<Skills> {
        self.skills.clone()
    }

    /// The catalog with the skills of MCP servers, unless nothing of it can have changed since the last call.
    ///
    /// # Errors
    /// The file system does not answer.
    pub async fn changed_catalog(
        &mut self,
        settings: &Allowed<Settings>,
        config: &Arc<Config>,
        remote: Vec<RemoteSkill>,
    ) -> Result<Option<Option<Arc<str>>>, Error> {
        let (cwd, sandbox) = (&settings.cwd, &settings.sandbox);
        let set = self.skills.in_folder(cwd, config, false).await?;
        if let Some(known) = &self.offered
            && Arc::ptr_eq(&known.set, &set)
            && Arc::ptr_eq(&known.config, config)
            && known.remote == remote
            && known.sandbox == *sandbox
        {
            return Ok(None);
        }
        // A skill that the model cannot read is of no use to it.
        let policy = sandbox.restricts_reading().then(|| settings.sandbox().confinement(cwd));
        let (given, offered) = (set.clone(), remote.clone());
        let switches = Switches::new(config);
        let tmpdir = command_tmpdir(&self.skills.options, config);
        let rendered = self.skills.on_files(cwd, move || {
            let policy = policy.map(|policy| Resolved::new(&policy, tmpdir.as_deref()).settle());
            let is_readable = |skill: &&Skill| {
                policy.as_ref().is_none_or(|policy| policy.check_read(&skill.path).is_ok())
            };
            let readable: Vec<&Skill> = given.enabled(&switches).filter(is_readable).collect();
            skills::catalog::render(readable.into_iter(), &offered).map(Arc::from)
        });
        let catalog = rendered.await?;
        let (config, sandbox) = (config.clone(), sandbox.clone());
        self.offered = Some(MadeOf { set, config, remote, sandbox });
        Ok(Some(catalog))
    }
}
