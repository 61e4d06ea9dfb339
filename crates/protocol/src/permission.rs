//! Permission profiles: named or inline sets of file-system and network permissions.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::common::AbsolutePath;
use crate::wire;

/// A complete set of permissions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum PermissionProfile {
    /// Enforced by the server's sandbox.
    Managed { file_system: FileSystemPermissions, network: NetworkPermissions },
    /// No sandbox.
    Disabled {},
    /// Sandboxed by the caller.
    External { network: NetworkPermissions },
}

/// File-system part of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FileSystemPermissions {
    /// Only the access in the entries.
    Restricted {
        entries: Vec<FileSystemSandboxEntry>,
        #[serde(skip_serializing_if = "Option::is_none")]
        glob_scan_max_depth: Option<u64>,
    },
    /// Full access.
    Unrestricted {},
}

/// Network part of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkPermissions {
    pub enabled: bool,
}

/// One rule: a location and the access to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSystemSandboxEntry {
    pub path: FileSystemPath,
    pub access: FileSystemAccessMode,
}

/// Access to a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileSystemAccessMode {
    Read,
    Write,
    None,
}

/// A location in the file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FileSystemPath {
    Path { path: AbsolutePath },
    GlobPattern { pattern: String },
    Special { value: FileSystemSpecialPath },
}

/// A location that depends on the machine or the project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FileSystemSpecialPath {
    /// The whole file system.
    Root {},
    /// The files that a program needs to start.
    Minimal {},
    /// The detected project roots.
    ProjectRoots {
        #[serde(skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
    /// The folder named by `TMPDIR`.
    Tmpdir {},
    /// `/tmp`.
    SlashTmp {},
    /// A location defined by a newer version.
    Unknown {
        path: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        subpath: Option<String>,
    },
}

/// Selects a configured profile, with modifications. Newer clients send its name alone, a text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionProfileSelectionParams {
    #[serde(rename = "type")]
    pub kind: PermissionProfileSelectionType,
    /// Name of the profile.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modifications: Option<Vec<PermissionProfileModification>>,
}

/// Decodes a selection, or the name of a profile.
pub(crate) fn selection<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PermissionProfileSelectionParams>, D::Error> {
    struct Selection;

    impl<'de> Visitor<'de> for Selection {
        type Value = Option<PermissionProfileSelectionParams>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a permission profile, or the name of one")
        }

        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: de::Error>(self, id: &str) -> Result<Self::Value, E> {
            let kind = PermissionProfileSelectionType::Profile;
            let id = id.to_owned();
            Ok(Some(PermissionProfileSelectionParams { kind, id, modifications: None }))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            PermissionProfileSelectionParams::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }

    deserializer.deserialize_any(Selection)
}

/// Discriminator of a profile selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PermissionProfileSelectionType {
    Profile,
}

/// A modification of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum PermissionProfileModification {
    /// An additional writable folder.
    AdditionalWritableRoot { path: AbsolutePath },
}

/// The profile in effect for a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ActivePermissionProfile {
    pub id: String,
    /// Profile that this one extends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,
    #[serde(default, deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub modifications: Vec<PermissionProfileModification>,
}

/// Permissions beyond those in effect, requested or granted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdditionalPermissionProfile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<AdditionalFileSystemPermissions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<AdditionalNetworkPermissions>,
}

/// Additional file-system permissions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdditionalFileSystemPermissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<FileSystemSandboxEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glob_scan_max_depth: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<AbsolutePath>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Vec<AbsolutePath>>,
}

/// Additional network permissions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdditionalNetworkPermissions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}
