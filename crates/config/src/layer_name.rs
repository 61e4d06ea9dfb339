//! The sources of configuration.

use std::path::PathBuf;

/// Which source a layer is. Later ones lie over earlier ones.
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
        /// The folder `.agent` that holds it.
        folder: PathBuf,
    },
    /// The command line, and features switched in this process.
    SessionFlags,
    /// The `config` of a thread's request.
    Thread,
    /// A `requirements.toml`: no layer, but an origin of values.
    Requirements {
        /// Its path.
        file: PathBuf,
    },
}

impl LayerName {
    /// The file, when the layer is one.
    pub fn file(&self) -> Option<PathBuf> {
        match self {
            LayerName::System { file }
            | LayerName::User { file }
            | LayerName::Requirements { file } => Some(file.clone()),
            LayerName::Project { folder } => Some(folder.join("config.toml")),
            LayerName::SessionFlags | LayerName::Thread => None,
        }
    }
}
