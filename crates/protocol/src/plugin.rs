//! Plugins: listing, reading, installing and removing them.

use serde::{Deserialize, Serialize};

use crate::app::AppSummary;
use crate::common::{AbsolutePath, Empty};
use crate::hooks::HookEventName;
use crate::plugin_share::PluginShareContext;
use crate::skills::SkillSummary;
use crate::table::methods;

methods! {
    Plugin, PluginMethods;

    /// Lists marketplaces and their plugins.
    PluginList = "plugin/list",
        plugin_list(PluginListParams) -> PluginListResponse,
        Stable, Concurrent, [];

    /// Returns the details of a plugin.
    PluginRead = "plugin/read",
        plugin_read(PluginReadParams) -> PluginReadResponse,
        Stable, Concurrent, [];

    /// Returns the text of a remote plugin's skill.
    PluginSkillRead = "plugin/skill/read",
        plugin_skill_read(PluginSkillReadParams) -> PluginSkillReadResponse,
        Stable, Concurrent, [];

    /// Installs a plugin.
    PluginInstall = "plugin/install",
        plugin_install(PluginInstallParams) -> PluginInstallResponse,
        Stable, Concurrent, [];

    /// Removes a plugin.
    PluginUninstall = "plugin/uninstall",
        plugin_uninstall(PluginUninstallParams) -> Empty,
        Stable, Concurrent, [];
}

/// Parameters of `plugin/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginListParams {
    /// Adds the marketplaces of these projects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwds: Option<Vec<AbsolutePath>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marketplace_kinds: Option<Vec<PluginListMarketplaceKind>>,
}

/// Kind of marketplace to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PluginListMarketplaceKind {
    Local,
    WorkspaceDirectory,
    SharedWithMe,
}

/// Result of `plugin/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginListResponse {
    pub marketplaces: Vec<PluginMarketplaceEntry>,
    #[serde(default)]
    pub marketplace_load_errors: Vec<MarketplaceLoadErrorInfo>,
    #[serde(default)]
    pub featured_plugin_ids: Vec<String>,
}

/// A marketplace that could not be loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceLoadErrorInfo {
    pub marketplace_path: AbsolutePath,
    pub message: String,
}

/// A marketplace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PluginMarketplaceEntry {
    pub name: String,
    /// Null for a remote marketplace, and for one that no longer exists: only installed plugins are left of
    /// it.
    pub path: Option<AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<MarketplaceInterface>,
    pub plugins: Vec<PluginSummary>,
}

/// Display information of a marketplace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceInterface {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
}

/// A summary of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginSummary {
    pub id: String,
    pub name: String,
    pub source: PluginSource,
    pub installed: bool,
    pub enabled: bool,
    pub install_policy: PluginInstallPolicy,
    pub auth_policy: PluginAuthPolicy,
    #[serde(default)]
    pub availability: PluginAvailability,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<PluginInterface>,
    #[serde(default)]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_context: Option<PluginShareContext>,
}

/// Location of a plugin's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PluginSource {
    Local { path: AbsolutePath },
    Git { url: String, path: Option<String>, ref_name: Option<String>, sha: Option<String> },
    Remote,
}

/// The rule for installing a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PluginInstallPolicy {
    NotAvailable,
    Available,
    InstalledByDefault,
}

/// When a plugin's apps require a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PluginAuthPolicy {
    OnInstall,
    OnUse,
}

/// The availability of a plugin under the administrator's rules.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PluginAvailability {
    #[default]
    Available,
    DisabledByAdmin,
}

/// Display information of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginInterface {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    pub capabilities: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy_policy_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms_of_service_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_prompt: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand_color: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composer_icon: Option<AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub composer_icon_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo_url: Option<String>,
    pub screenshots: Vec<AbsolutePath>,
    pub screenshot_urls: Vec<String>,
}

/// Parameters of `plugin/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginReadParams {
    pub plugin_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marketplace_path: Option<AbsolutePath>,
    /// Replaces `marketplacePath` for a remote marketplace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_marketplace_name: Option<String>,
}

/// Result of `plugin/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PluginReadResponse {
    pub plugin: PluginDetail,
}

/// Details of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginDetail {
    pub marketplace_name: String,
    pub marketplace_path: Option<AbsolutePath>,
    pub summary: PluginSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub skills: Vec<SkillSummary>,
    pub hooks: Vec<PluginHookSummary>,
    pub apps: Vec<AppSummary>,
    pub mcp_servers: Vec<String>,
    /// The programs and addresses that its hooks and MCP servers would run or reach, a sentence
    /// each. Line breaks and hidden characters are written as numbers, as in `\u{a}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// Of an installed plugin: what an installation would change now, a sentence each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<String>>,
}

/// A hook that a plugin contains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginHookSummary {
    pub key: String,
    pub event_name: HookEventName,
}

/// Parameters of `plugin/skill/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginSkillReadParams {
    pub remote_marketplace_name: String,
    pub remote_plugin_id: String,
    pub skill_name: String,
}

/// Result of `plugin/skill/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PluginSkillReadResponse {
    pub contents: Option<String>,
}

/// Parameters of `plugin/install`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginInstallParams {
    pub plugin_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marketplace_path: Option<AbsolutePath>,
    /// Replaces `marketplacePath` for a remote marketplace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_marketplace_name: Option<String>,
}

/// Result of `plugin/install`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginInstallResponse {
    pub auth_policy: PluginAuthPolicy,
    pub apps_needing_auth: Vec<AppSummary>,
}

/// Parameters of `plugin/uninstall`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginUninstallParams {
    pub plugin_id: String,
}
