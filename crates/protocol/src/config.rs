//! Reading and writing the configuration files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::{AbsolutePath, Empty};
use crate::requirements::ConfigRequirementsReadResponse;
use crate::table::methods;
use crate::wire;

methods! {
    Config, ConfigMethods;

    /// The configuration in force, and where each value comes from.
    ConfigRead = "config/read",
        config_read(ConfigReadParams) -> ConfigReadResponse,
        Stable, Ordered, [];

    /// Writes one value.
    ConfigValueWrite = "config/value/write",
        config_value_write(ConfigValueWriteParams) -> ConfigWriteResponse,
        Stable, Ordered, [];

    /// Writes several values at once, or none.
    ConfigBatchWrite = "config/batchWrite",
        config_batch_write(ConfigBatchWriteParams) -> ConfigWriteResponse,
        Stable, Ordered, [];

    /// What the administrator requires.
    ConfigRequirementsRead = "configRequirements/read",
        config_requirements_read(Empty) -> ConfigRequirementsReadResponse,
        Stable, Ordered, [];
}

/// Parameters of `config/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadParams {
    /// Adds the project layers that apply there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub include_layers: bool,
    /// Adds the defaults of what is not set: `config` is then what is in force, with absolute paths.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub include_defaults: bool,
}

/// Result of `config/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigReadResponse {
    /// Keys and values as in the configuration file.
    pub config: BTreeMap<String, Value>,
    /// Layer of each value, by dotted key.
    pub origins: BTreeMap<String, ConfigLayerMetadata>,
    /// Highest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<ConfigLayer>>,
}

/// One source of configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayer {
    pub name: ConfigLayerSource,
    /// Changes with the content.
    pub version: String,
    pub config: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}

/// Which layer, in which version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayerMetadata {
    pub name: ConfigLayerSource,
    pub version: String,
    /// Why what is written there is not in force: the part of the program that it is about is
    /// missing. A feature that is held off is shown as `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_off: Option<String>,
}

/// Where a layer comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConfigLayerSource {
    /// Device management.
    Mdm {
        domain: String,
        key: String,
    },
    System {
        file: AbsolutePath,
    },
    User {
        file: AbsolutePath,
    },
    Project {
        dot_agent_folder: AbsolutePath,
    },
    /// Flags and overrides of this process.
    SessionFlags,
    LegacyManagedConfigTomlFromFile {
        file: AbsolutePath,
    },
    LegacyManagedConfigTomlFromMdm,
    /// Not set anywhere; only with `includeDefaults`. Its version is the program's.
    Default,
}

/// Parameters of `config/value/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigValueWriteParams {
    /// Dotted key.
    pub key_path: String,
    /// Null removes the key.
    pub value: Value,
    pub merge_strategy: MergeStrategy,
    /// The user's file when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    /// Refuses the write when the file is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<String>,
}

/// What happens to a table that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum MergeStrategy {
    Replace,
    Upsert,
}

/// Parameters of `config/batchWrite`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigBatchWriteParams {
    pub edits: Vec<ConfigEdit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<String>,
    /// Loaded threads take the new values.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub reload_user_config: bool,
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigEdit {
    pub key_path: String,
    pub value: Value,
    pub merge_strategy: MergeStrategy,
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigWriteResponse {
    pub status: ConfigWriteStatus,
    /// Of the file as it is now.
    pub version: String,
    pub file_path: AbsolutePath,
    pub overridden_metadata: Option<ConfigOverriddenMetadata>,
}

/// Whether the value written is the one in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum ConfigWriteStatus {
    Ok,
    OkOverridden,
}

/// What keeps the value written from being in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfigOverriddenMetadata {
    pub message: String,
    pub overriding_layer: ConfigLayerMetadata,
    pub effective_value: Value,
}
