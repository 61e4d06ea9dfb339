//! What the offline model keeps until it ends.

use bytes::Bytes;
use serde_json::Value;

use super::kept::Kept;

#[derive(Debug)]
pub(super) struct File {
    pub(super) object: Value,
    pub(super) content: Bytes,
}

/// A response that can be asked for later.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) object: Value,
    /// It runs in the background, and nobody has asked for it yet.
    pub(super) queued: bool,
}

#[derive(Debug)]
pub(super) struct VectorStore {
    pub(super) object: Value,
    pub(super) files: Kept<Value>,
    /// Each batch, and the ids of its files.
    pub(super) batches: Kept<(Value, Vec<String>)>,
}
