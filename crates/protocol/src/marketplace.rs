//! Marketplaces, which are sources of plugins.

use serde::{Deserialize, Serialize};

use crate::common::AbsolutePath;
use crate::table::methods;

methods! {
    Marketplace, MarketplaceMethods;

    /// Adds a marketplace.
    MarketplaceAdd = "marketplace/add",
        marketplace_add(MarketplaceAddParams) -> MarketplaceAddResponse,
        Stable, Concurrent, [];

    /// Removes a marketplace.
    MarketplaceRemove = "marketplace/remove",
        marketplace_remove(MarketplaceRemoveParams) -> MarketplaceRemoveResponse,
        Stable, Concurrent, [];

    /// Updates one marketplace or all of them.
    MarketplaceUpgrade = "marketplace/upgrade",
        marketplace_upgrade(MarketplaceUpgradeParams) -> MarketplaceUpgradeResponse,
        Stable, Concurrent, [];
}

/// Parameters of `marketplace/add`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MarketplaceAddParams {
    /// Folder, repository URL or `owner/name`.
    pub source: String,
    /// Branch, tag or commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ref_name: Option<String>,
    /// Folders to check out; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse_paths: Option<Vec<String>>,
}

/// Result of `marketplace/add`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceAddResponse {
    pub marketplace_name: String,
    pub installed_root: AbsolutePath,
    pub already_added: bool,
}

/// Parameters of `marketplace/remove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MarketplaceRemoveParams {
    pub marketplace_name: String,
}

/// Result of `marketplace/remove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceRemoveResponse {
    pub marketplace_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub installed_root: Option<AbsolutePath>,
    /// The plugins from it that stay installed, and in use.
    #[serde(default)]
    pub installed_plugin_ids: Vec<String>,
}

/// Parameters of `marketplace/upgrade`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MarketplaceUpgradeParams {
    /// The marketplace to update; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marketplace_name: Option<String>,
}

/// Result of `marketplace/upgrade`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceUpgradeResponse {
    pub selected_marketplaces: Vec<String>,
    pub upgraded_roots: Vec<AbsolutePath>,
    pub errors: Vec<MarketplaceUpgradeErrorInfo>,
}

/// A marketplace that could not be upgraded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MarketplaceUpgradeErrorInfo {
    pub marketplace_name: String,
    pub message: String,
}
