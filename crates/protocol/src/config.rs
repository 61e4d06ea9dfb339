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

    /// Returns the effective configuration and the origin of each value.
    ConfigRead = "config/read",
        config_read(ConfigReadParams) -> ConfigReadResponse,
        Stable, Independent, [];

    /// Writes one value.
    ConfigValueWrite = "config/value/write",
        config_value_write(ConfigValueWriteParams) -> ConfigWriteResponse,
        Stable, Ordered, [];

    /// Writes several values atomically.
    ConfigBatchWrite = "config/batchWrite",
        config_batch_write(ConfigBatchWriteParams) -> ConfigWriteResponse,
        Stable, Ordered, [];

    /// Returns the administrator's requirements.
    ConfigRequirementsRead = "configRequirements/read",
        config_requirements_read(Empty) -> ConfigRequirementsReadResponse,
        Stable, Ordered, [];
}

/// Parameters of `config/read`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReadParams {
    /// Adds the project layers that apply to this folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub include_layers: bool,
    /// Adds the defaults of unset keys: `config` is then the effective configuration, with absolute
    /// paths.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub include_defaults: bool,
}

/// Result of `config/read`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ConfigReadResponse {
    /// Keys and values as in the configuration file.
    pub config: BTreeMap<String, Value>,
    /// Layer of each value, by dotted key.
    pub origins: BTreeMap<String, ConfigLayerMetadata>,
    /// Layers, highest priority first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<Vec<ConfigLayer>>,
}

/// One source of configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayer {
    pub name: ConfigLayerSource,
    /// Changes whenever the content does.
    pub version: String,
    pub config: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_reason: Option<String>,
}

/// A layer and its version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigLayerMetadata {
    pub name: ConfigLayerSource,
    pub version: String,
    /// Why the written value has no effect: the program does not contain the part that it
    /// configures. A feature disabled for that reason is shown as `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_off: Option<String>,
}

/// Where a layer comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ConfigLayerSource {
    /// Mobile device management.
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
    /// Not set in any layer; only with `includeDefaults`. Its version is the program's.
    Default,
}

/// Parameters of `config/value/write`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// The write is refused if the file has another version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<String>,
}

/// The treatment of an existing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MergeStrategy {
    Replace,
    Upsert,
}

/// Parameters of `config/batchWrite`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigBatchWriteParams {
    pub edits: Vec<ConfigEdit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<String>,
    /// Applies the new values to loaded threads.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub reload_user_config: bool,
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigEdit {
    pub key_path: String,
    pub value: Value,
    pub merge_strategy: MergeStrategy,
}

/// Result of a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigWriteResponse {
    pub status: ConfigWriteStatus,
    /// New version of the file.
    pub version: String,
    pub file_path: AbsolutePath,
    pub overridden_metadata: Option<ConfigOverriddenMetadata>,
}

/// The effect of the written value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConfigWriteStatus {
    Ok,
    OkOverridden,
}

/// Why the written value is not effective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOverriddenMetadata {
    pub message: String,
    pub overriding_layer: ConfigLayerMetadata,
    pub effective_value: Value,
}
