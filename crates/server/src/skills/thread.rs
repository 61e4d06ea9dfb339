//! What a thread's model is offered of skills: the catalog, written anew only when something changed.

use std::path::Path;
use std::sync::Arc;

use config::Config;

use super::{SkillSet, Skills, Switches};
use crate::error::Error;

/// See the module.
pub(crate) struct ThreadSkills {
    skills: Arc<Skills>,
    /// What the catalog was made from.
    offered: Option<(Arc<SkillSet>, Arc<Config>)>,
}

impl ThreadSkills {
    pub(crate) fn new(skills: Arc<Skills>) -> Self {
        Self { skills, offered: None }
    }

    /// The catalog, unless nothing of it can have changed since the last call.
    ///
    /// # Errors
    /// The file system does not answer.
    pub(crate) async fn changed_catalog(
        &mut self,
        cwd: &Path,
        config: &Arc<Config>,
    ) -> Result<Option<Option<Arc<str>>>, Error> {
        let set = self.skills.in_folder(cwd, config, false).await?;
        if let Some((known, of)) = &self.offered
            && Arc::ptr_eq(known, &set)
            && Arc::ptr_eq(of, config)
        {
            return Ok(None);
        }
        let catalog = skills::catalog::render(set.enabled(&Switches::new(config))).map(Arc::from);
        self.offered = Some((set, config.clone()));
        Ok(Some(catalog))
    }
}
