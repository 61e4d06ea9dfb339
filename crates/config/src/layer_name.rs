//! The sources of configuration.

use std::path::PathBuf;

/// The source of a layer, in ascending precedence.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerName {
    /// The administrator's file.
    System {
        /// Its path.
        file: PathBuf,
    },
    /// The user's file.
    User {
        /// Its path.
        file: PathBuf,
    },
    /// A project's file.
    Project {
        /// The `.agent` folder that contains it.
        folder: PathBuf,
    },
    /// The command line, and features switched in this process.
    SessionFlags,
    /// The `config` of a thread's request.
    Thread,
    /// The file of a role for agents (`agents.<name>.config_file`).
    Role {
        /// Its path.
        file: PathBuf,
    },
    /// A `requirements.toml`, which is an origin of values and not a layer.
    Requirements {
        /// Its path.
        file: PathBuf,
    },
}

impl LayerName {
    /// The file of the layer, if it has one.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            LayerName::System { file }
            | LayerName::User { file }
            | LayerName::Role { file }
            | LayerName::Requirements { file } => Some(file.clone()),
            LayerName::Project { folder } => Some(folder.join("config.toml")),
            LayerName::SessionFlags | LayerName::Thread => None,
        }
    }

    /// Returns whether the selected profile overrides the layer: it overrides files, but not that
    /// of a role.
    pub(crate) fn is_below_profile(&self) -> bool {
        self.file().is_some() && !matches!(self, LayerName::Role { .. })
    }
}
