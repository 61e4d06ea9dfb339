//! Types that several resources share: empty objects, request ids, sort order, paths.

use serde::{Deserialize, Serialize};

/// An object without members, for methods without parameters or result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Empty {}

/// An absolute path, as UTF-8 text. The server refuses a relative one with `-32602`.
pub type AbsolutePath = String;

pub use jsonrpc::RequestId;

/// Id of a JSON-RPC request: an integer or a string.
#[derive(schemars::JsonSchema)]
#[schemars(untagged, rename = "RequestId")]
#[expect(dead_code, reason = "represents the schema of a type of another crate")]
pub(crate) enum RequestIdShape {
    Integer(i64),
    String(String),
}

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SortDirection {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}
