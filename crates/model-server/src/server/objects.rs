//! The objects that the offline model stores until it ends.

use bytes::Bytes;
use serde_json::Value;

use super::kept::Kept;

#[derive(Debug)]
pub(super) struct File {
    pub(super) object: Value,
    pub(super) content: Bytes,
}

/// A stored response, which can be retrieved.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) object: Value,
    /// True if it runs in the background and has not been retrieved yet.
    pub(super) queued: bool,
}

#[derive(Debug)]
pub(super) struct VectorStore {
    pub(super) object: Value,
    pub(super) files: Kept<Value>,
    /// Each batch, and the ids of its files.
    pub(super) batches: Kept<(Value, Vec<String>)>,
}
