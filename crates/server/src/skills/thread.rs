//! What a thread's model is offered of skills: the catalog, written anew only when something changed.

use std::path::Path;
use std::sync::Arc;

use config::Config;
use skills::catalog::RemoteSkill;

use super::{SkillSet, Skills, Switches};
use crate::error::Error;

/// See the module.
pub(crate) struct ThreadSkills {
    skills: Arc<Skills>,
    /// What the catalog was made from.
    offered: Option<MadeOf>,
}

struct MadeOf {
    set: Arc<SkillSet>,
    config: Arc<Config>,
    /// Skills of MCP servers.
    remote: Vec<RemoteSkill>,
}

impl ThreadSkills {
    pub(crate) fn new(skills: Arc<Skills>) -> Self {
        Self { skills, offered: None }
    }

    /// The catalog with the skills of MCP servers, unless nothing of it can have changed since the last call.
    ///
    /// # Errors
    /// The file system does not answer.
    pub(crate) async fn changed_catalog(
        &mut self,
        cwd: &Path,
        config: &Arc<Config>,
        remote: Vec<RemoteSkill>,
    ) -> Result<Option<Option<Arc<str>>>, Error> {
        let set = self.skills.in_folder(cwd, config, false).await?;
        if let Some(known) = &self.offered
            && Arc::ptr_eq(&known.set, &set)
            && Arc::ptr_eq(&known.config, config)
            && known.remote == remote
        {
            return Ok(None);
        }
        let switches = Switches::new(config);
        let catalog = skills::catalog::render(set.enabled(&switches), &remote).map(Arc::from);
        self.offered = Some(MadeOf { set, config: config.clone(), remote });
        Ok(Some(catalog))
    }
}
