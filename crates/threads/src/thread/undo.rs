//! The state that a thread keeps for its undo records (`features.undo`).

use std::sync::Arc;

use tokio::task::JoinHandle;

use services::undo::UndoRecords;

/// The thread's part of the records.
pub struct ThreadUndo {
    pub(super) records: Arc<UndoRecords>,
    /// Resolves when the beginning of the running turn is marked.
    pub(super) marking: Option<JoinHandle<()>>,
}

impl ThreadUndo {
    pub fn new(records: Arc<UndoRecords>) -> Self {
        Self { records, marking: None }
    }
}
