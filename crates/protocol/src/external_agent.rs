//! Importing the configuration of another agent.

use serde::{Deserialize, Serialize};

use crate::common::Empty;
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    ExternalAgent, ExternalAgentMethods;

    /// Detects what can be imported.
    ExternalAgentConfigDetect = "externalAgentConfig/detect",
        external_agent_config_detect(ExternalAgentConfigDetectParams) -> ExternalAgentConfigDetectResponse,
        Stable, Concurrent, [];

    /// Imports it.
    ExternalAgentConfigImport = "externalAgentConfig/import",
        external_agent_config_import(ExternalAgentConfigImportParams) -> Empty,
        Stable, Concurrent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// An import is complete, and everything is durable.
    ExternalAgentConfigImportCompleted = "externalAgentConfig/import/completed", Empty, Stable;
}

/// Parameters of `externalAgentConfig/detect`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAgentConfigDetectParams {
    /// Projects to search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwds: Option<Vec<String>>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub include_home: bool,
}

/// Result of `externalAgentConfig/detect`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ExternalAgentConfigDetectResponse {
    pub items: Vec<ExternalAgentConfigMigrationItem>,
}

/// Parameters of `externalAgentConfig/import`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAgentConfigImportParams {
    pub migration_items: Vec<ExternalAgentConfigMigrationItem>,
}

/// An item to import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAgentConfigMigrationItem {
    pub item_type: ExternalAgentConfigMigrationItemType,
    pub description: String,
    /// The project's folder; absent for the home folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<MigrationDetails>,
}

/// Kind of item to import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ExternalAgentConfigMigrationItemType {
    AgentsMd,
    Config,
    Skills,
    Plugins,
    McpServerConfig,
    Subagents,
    Hooks,
    Commands,
    Sessions,
}

/// Details of an item.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MigrationDetails {
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginsMigration>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<NamedMigration>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<NamedMigration>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<NamedMigration>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub subagents: Vec<NamedMigration>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionMigration>,
}

/// An entity identified by its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedMigration {
    pub name: String,
}

/// Plugins of a marketplace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginsMigration {
    pub marketplace_name: String,
    pub plugin_names: Vec<String>,
}

/// A conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionMigration {
    pub path: String,
    pub cwd: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}
