//! Types of the Agent Client Protocol, version 1, as far as this program reads and writes them; [`v2`] has what
//! is different in version 2. The tests compare every message with the protocol's published JSON Schemas.
//!
//! The published Rust types are not used: their crate turns on `serde_json/preserve_order`, which would
//! change the maps of every crate that is built along with it.

pub(crate) mod content;
pub(crate) mod initialize;
pub(crate) mod permission;
pub(crate) mod session;
pub(crate) mod tool_call;
pub(crate) mod update;
pub(crate) mod v2;

use serde::{Deserialize, Deserializer};

/// A version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    #[default]
    First,
    /// A draft.
    Second,
}

impl Version {
    pub(crate) fn number(self) -> u16 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }
}

/// Names of methods and notifications.
pub(crate) mod method {
    pub(crate) const CANCEL_REQUEST: &str = "$/cancel_request";
    pub(crate) const ELICITATION_COMPLETE: &str = "elicitation/complete";
    pub(crate) const ELICITATION_CREATE: &str = "elicitation/create";
    pub(crate) const READ_TEXT_FILE: &str = "fs/read_text_file";
    pub(crate) const REQUEST_PERMISSION: &str = "session/request_permission";
    pub(crate) const SESSION_CANCEL: &str = "session/cancel";
    pub(crate) const SESSION_UPDATE: &str = "session/update";
}

/// Codes that the protocol adds to those of JSON-RPC.
pub(crate) mod code {
    /// The user must log in first.
    pub(crate) const AUTH_REQUIRED: i64 = -32_000;
    /// A session or a file does not exist.
    pub(crate) const NOT_FOUND: i64 = -32_002;
    /// The request was cancelled.
    pub(crate) const CANCELLED: i64 = -32_800;
}

/// `null` counts as absent.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
