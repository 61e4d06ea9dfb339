//! A file of an installed plugin, as its record describes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A file or symbolic link of an installed plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledFile {
    /// Relative to the plugin's folder.
    pub path: PathBuf,
    /// Of the contents; of a link, of its target. Hexadecimal.
    pub sha256: String,
    /// In bytes.
    pub size: u64,
    pub executable: bool,
    /// The target, if it is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}
