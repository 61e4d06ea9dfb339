//! Connected apps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::table::{methods, notifications};
use crate::wire;

methods! {
    App, AppMethods;

    /// Lists the apps of a thread's MCP servers, or of those of the configuration.
    AppList = "app/list",
        app_list(AppListParams) -> AppListResponse,
        Stable, Concurrent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// The list of apps changed.
    AppListUpdated = "app/list/updated", AppListUpdatedNotification, Stable;
}

/// Parameters of `app/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppListParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The servers and the configuration of this loaded thread, instead of those of the folder that the
    /// server runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Requests the tools of the servers again.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub force_refetch: bool,
}

/// A page of apps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppListResponse {
    pub data: Vec<AppInfo>,
    pub next_cursor: Option<String>,
}

/// An app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppInfo {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo_url_dark: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distribution_channel: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branding: Option<AppBranding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_metadata: Option<AppMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_url: Option<String>,
    #[serde(default, deserialize_with = "wire::or_default")]
    pub is_accessible: bool,
    #[serde(default = "wire::yes")]
    pub is_enabled: bool,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub plugin_display_names: Vec<String>,
}

/// The publisher of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppBranding {
    pub is_discoverable_app: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub privacy_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terms_of_service: Option<String>,
}

/// The directory's description of an app.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub review: Option<AppReview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_categories: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seo_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub screenshots: Option<Vec<AppScreenshot>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_notes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_party_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_party_requires_install: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_in_composer_when_unlinked: Option<bool>,
}

/// State of an app's review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AppReview {
    pub status: String,
}

/// A screenshot of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppScreenshot {
    pub user_prompt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_id: Option<String>,
}

/// A summary of an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppSummary {
    pub id: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_url: Option<String>,
    pub needs_auth: bool,
}

/// Payload of `app/list/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct AppListUpdatedNotification {
    pub data: Vec<AppInfo>,
}
