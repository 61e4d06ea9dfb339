//! Skills: instructions that the agent loads on demand.

use serde::{Deserialize, Serialize};

use crate::common::{AbsolutePath, Empty};
use crate::encoded::Encoded;
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Skills, SkillsMethods;

    /// Lists the skills that apply in the given folders.
    SkillsList = "skills/list",
        skills_list(SkillsListParams) -> SkillsListResponse,
        Stable, Concurrent, [];

    /// Enables or disables a skill.
    SkillsConfigWrite = "skills/config/write",
        skills_config_write(SkillsConfigWriteParams) -> SkillsConfigWriteResponse,
        Stable, Concurrent, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// Skill files changed; list them again.
    SkillsChanged = "skills/changed", Empty, Stable;
}

/// Parameters of `skills/list`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListParams {
    /// The server's working folder when empty.
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub cwds: Vec<String>,
    /// Reloads the files.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub force_reload: bool,
    /// Entries for folders not in `cwds` are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_cwd_extra_user_roots: Option<Vec<SkillsListExtraUserRoots>>,
}

/// Additional skill folders for a working directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsListExtraUserRoots {
    pub cwd: String,
    pub extra_user_roots: Vec<AbsolutePath>,
}

/// Result of `skills/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillsListResponse {
    #[schemars(with = "Vec<SkillsListEntry>")]
    pub data: Vec<Encoded<SkillsListEntry>>,
}

/// Skills of one folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillsListEntry {
    pub cwd: String,
    pub skills: Vec<SkillMetadata>,
    pub errors: Vec<SkillErrorInfo>,
}

/// A skill (specification, "Skill entry").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillMetadata {
    pub name: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_description: Option<String>,
    pub path: AbsolutePath,
    pub scope: SkillScope,
    pub enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<SkillInterface>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<SkillDependencies>,
}

/// Where a skill comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SkillScope {
    User,
    Repo,
    System,
    Admin,
}

/// Display information of a skill.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillInterface {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brand_color: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_large: Option<AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_small: Option<AbsolutePath>,
}

/// Dependencies of a skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillDependencies {
    pub tools: Vec<SkillToolDependency>,
}

/// A tool that a skill needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillToolDependency {
    /// `env_var` or `mcp`.
    #[serde(rename = "type")]
    pub kind: String,
    pub value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// For example `streamable_http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A skill that could not be loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillErrorInfo {
    pub path: String,
    pub message: String,
}

/// A summary of a skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillSummary {
    pub name: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<SkillInterface>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsolutePath>,
    pub enabled: bool,
}

/// Parameters of `skills/config/write`: a skill by path or by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SkillsConfigWriteParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<AbsolutePath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub enabled: bool,
}

/// Result of `skills/config/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillsConfigWriteResponse {
    pub effective_enabled: bool,
}
