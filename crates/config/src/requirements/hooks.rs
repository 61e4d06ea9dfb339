//! The hooks of requirements: those of the administrator.

use std::path::{Path, PathBuf};

use hooks::{Definitions, Origin as HookOrigin, Source};
use serde_json::{Map, Value as Json};

use super::Requirements;
use crate::error::Error;
use crate::requirements_layer::RequirementsLayer;

/// The hooks that one file requires.
#[derive(Debug, Clone, PartialEq)]
pub struct FileHooks {
    path: PathBuf,
    source: Source,
    groups: Map<String, Json>,
}

impl FileHooks {
    /// The hooks of `layer`; `None` when it has none.
    ///
    /// # Errors
    /// A part of them would have no effect: a guard that is misspelt guards nothing.
    pub(super) fn of(layer: &RequirementsLayer, source: Source) -> Result<Option<Self>, Error> {
        let groups = layer.file.hooks.0.clone();
        if groups.is_empty() {
            return Ok(None);
        }
        let origin = layer.origin(&["hooks"]);
        let path = origin.path().map(Path::to_owned).unwrap_or_default();
        let read = Self { path, source, groups };
        match read.definitions().warnings.first() {
            None => Ok(Some(read)),
            Some(warning) => {
                let message = format!("`hooks.{}`: {}", warning.part, warning.message);
                Err(Error::Requirements { origin, message })
            }
        }
    }

    /// The hooks, in the order of their events.
    pub fn definitions(&self) -> Definitions {
        let origin = HookOrigin { source: self.source, path: self.path.clone(), plugin: None };
        hooks::read_groups(self.groups.clone(), &origin)
    }
}

impl Requirements {
    /// The hooks of each file that has any.
    pub fn hooks(&self) -> &[FileHooks] {
        &self.hooks
    }
}
