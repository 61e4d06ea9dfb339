//! Files on the server's machine. All paths are absolute.

use serde::{Deserialize, Serialize};

use crate::common::{AbsolutePath, Empty};
use crate::table::{methods, notifications};
use crate::wire;

methods! {
    Fs, FsMethods;

    /// Reads a whole file of at most 32 MiB. Follows symbolic links.
    FsReadFile = "fs/readFile",
        fs_read_file(FsReadFileParams) -> FsReadFileResponse,
        Stable, Concurrent, [], LongAnswer;

    /// Writes a whole file of at most 32 MiB: it appears whole or not at all, and keeps the mode, owner and
    /// links of the one that it replaces.
    FsWriteFile = "fs/writeFile",
        fs_write_file(FsWriteFileParams) -> Empty,
        Stable, Concurrent, [];

    /// Creates a folder.
    FsCreateDirectory = "fs/createDirectory",
        fs_create_directory(FsCreateDirectoryParams) -> Empty,
        Stable, Concurrent, [];

    /// Returns kind and times of a path; for a symbolic link, those of its target.
    FsGetMetadata = "fs/getMetadata",
        fs_get_metadata(FsGetMetadataParams) -> FsGetMetadataResponse,
        Stable, Concurrent, [];

    /// Lists the entries of a folder, by name; at most 100,000.
    FsReadDirectory = "fs/readDirectory",
        fs_read_directory(FsReadDirectoryParams) -> FsReadDirectoryResponse,
        Stable, Concurrent, [], LongAnswer;

    /// Removes a file, a folder, or a symbolic link and not its target.
    FsRemove = "fs/remove",
        fs_remove(FsRemoveParams) -> Empty,
        Stable, Concurrent, [];

    /// Copies a file, a folder or a symbolic link.
    FsCopy = "fs/copy",
        fs_copy(FsCopyParams) -> Empty,
        Stable, Concurrent, [];

    /// Watches a file or a folder, which need not exist yet, until `fs/unwatch` or disconnect. Every change after
    /// the response is reported with `fs/changed`.
    FsWatch = "fs/watch",
        fs_watch(FsWatchParams) -> FsWatchResponse,
        Stable, Begins, [];

    /// Ends a watch, if there is one: no notification about it follows the response.
    FsUnwatch = "fs/unwatch",
        fs_unwatch(FsUnwatchParams) -> Empty,
        Stable, Ordered, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A watched path, or something in it, was created, changed, replaced, renamed or removed.
    FsChanged = "fs/changed", FsChangedNotification, Stable;
}

/// Parameters of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FsReadFileParams {
    pub path: AbsolutePath,
}

/// Result of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsReadFileResponse {
    pub data_base64: String,
}

/// Parameters of `fs/writeFile`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FsWriteFileParams {
    pub path: AbsolutePath,
    pub data_base64: String,
}

/// Parameters of `fs/createDirectory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FsCreateDirectoryParams {
    pub path: AbsolutePath,
    /// Defaults to `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
}

/// Parameters of `fs/getMetadata`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FsGetMetadataParams {
    pub path: AbsolutePath,
}

/// Result of `fs/getMetadata`; times in Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsGetMetadataResponse {
    pub is_file: bool,
    pub is_directory: bool,
    pub is_symlink: bool,
    /// 0 where the file system does not record it.
    pub created_at_ms: i64,
    pub modified_at_ms: i64,
}

/// Parameters of `fs/readDirectory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FsReadDirectoryParams {
    pub path: AbsolutePath,
}

/// Result of `fs/readDirectory`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FsReadDirectoryResponse {
    pub entries: Vec<FsReadDirectoryEntry>,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsReadDirectoryEntry {
    pub file_name: String,
    pub is_file: bool,
    pub is_directory: bool,
}

/// Parameters of `fs/remove`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FsRemoveParams {
    pub path: AbsolutePath,
    /// Defaults to `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recursive: Option<bool>,
    /// Defaults to `true`: a missing path is not an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Parameters of `fs/copy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FsCopyParams {
    pub source_path: AbsolutePath,
    pub destination_path: AbsolutePath,
    /// Required to copy a folder.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub recursive: bool,
}

/// Parameters of `fs/watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsWatchParams {
    /// The client's name for the watch, of at most 1,024 bytes; must not be in use in this connection.
    pub watch_id: String,
    pub path: AbsolutePath,
    /// Reports what changes at any depth below a folder; otherwise, the folder and its own entries.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub recursive: bool,
}

/// Result of `fs/watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FsWatchResponse {
    /// The path under watch.
    pub path: AbsolutePath,
}

/// Parameters of `fs/unwatch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsUnwatchParams {
    pub watch_id: String,
}

/// Payload of `fs/changed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FsChangedNotification {
    pub watch_id: String,
    /// The paths that were created, changed, replaced, renamed or removed, in order, as `fs/watch`
    /// wrote them; bytes of a name that are not UTF-8 are replaced by U+FFFD. Of a folder, whatever
    /// is not in it now is gone, and what is new in it is named too.
    pub changed_paths: Vec<AbsolutePath>,
    /// Too much changed to be named: anything at or below the watched path, which `changedPaths` holds then.
    #[serde(
        default,
        deserialize_with = "wire::or_default",
        skip_serializing_if = "wire::is_false"
    )]
    pub overflow: bool,
}
