//! Sharing plugins with other people.

use serde::{Deserialize, Serialize};

use crate::common::{AbsolutePath, Empty};
use crate::plugin::PluginSummary;
use crate::table::methods;

methods! {
    PluginShare, PluginShareMethods;

    /// Lists the plugins that this account shares.
    PluginShareList = "plugin/share/list",
        plugin_share_list(Empty) -> PluginShareListResponse,
        Stable, Concurrent, [];

    /// Uploads a plugin to share it.
    PluginShareSave = "plugin/share/save",
        plugin_share_save(PluginShareSaveParams) -> PluginShareSaveResponse,
        Stable, Concurrent, [];

    /// Changes with whom a plugin is shared.
    PluginShareUpdateTargets = "plugin/share/updateTargets",
        plugin_share_update_targets(PluginShareUpdateTargetsParams) -> PluginShareUpdateTargetsResponse,
        Stable, Concurrent, [];

    /// Stops sharing a plugin.
    PluginShareDelete = "plugin/share/delete",
        plugin_share_delete(PluginShareDeleteParams) -> Empty,
        Stable, Concurrent, [];
}

/// Result of `plugin/share/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PluginShareListResponse {
    pub data: Vec<PluginShareListItem>,
}

/// A shared plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginShareListItem {
    pub plugin: PluginSummary,
    pub share_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_plugin_path: Option<AbsolutePath>,
}

/// Parameters of `plugin/share/save`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginShareSaveParams {
    pub plugin_path: AbsolutePath,
    /// Id of the shared plugin to replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_plugin_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discoverability: Option<PluginShareDiscoverability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_targets: Option<Vec<PluginShareTarget>>,
}

/// Result of `plugin/share/save`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginShareSaveResponse {
    pub remote_plugin_id: String,
    pub share_url: String,
}

/// Parameters of `plugin/share/updateTargets`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginShareUpdateTargetsParams {
    pub remote_plugin_id: String,
    pub discoverability: PluginShareUpdateDiscoverability,
    pub share_targets: Vec<PluginShareTarget>,
}

/// Result of `plugin/share/updateTargets`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PluginShareUpdateTargetsResponse {
    pub discoverability: PluginShareDiscoverability,
    pub principals: Vec<PluginSharePrincipal>,
}

/// Parameters of `plugin/share/delete`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginShareDeleteParams {
    pub remote_plugin_id: String,
}

/// Who can find a shared plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PluginShareDiscoverability {
    Listed,
    Unlisted,
    Private,
}

/// Values that the discoverability can be changed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PluginShareUpdateDiscoverability {
    Unlisted,
    Private,
}

/// A principal to share with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginShareTarget {
    pub principal_type: PluginSharePrincipalType,
    pub principal_id: String,
}

/// Kind of principal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PluginSharePrincipalType {
    User,
    Group,
    Workspace,
}

/// A principal that a plugin is shared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginSharePrincipal {
    pub principal_type: PluginSharePrincipalType,
    pub principal_id: String,
    pub name: String,
}

/// Sharing state of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginShareContext {
    pub remote_plugin_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator_account_user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creator_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_targets: Option<Vec<PluginSharePrincipal>>,
}
