//! The part of a configuration that comes from an installed plugin.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value as Json;

/// The settings that one installed plugin adds.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginParts {
    /// `NAME@MARKETPLACE`.
    pub id: String,
    /// The prefix of its skills.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// Its folder.
    pub root: PathBuf,
    /// A digest of all its files.
    pub digest: String,
    /// Folders that have a folder for each skill.
    pub skill_folders: Vec<PathBuf>,
    /// Its hooks: each a file and its text, in the form of `hooks.json`.
    pub hooks: Vec<(PathBuf, String)>,
    /// The ids of its apps.
    pub apps: Vec<String>,
    /// Its MCP servers, each in the form of an entry of `mcp_servers`.
    pub servers: BTreeMap<String, Json>,
}
