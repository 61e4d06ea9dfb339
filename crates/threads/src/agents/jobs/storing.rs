//! The shared parts of a job that write to a store.

use session::ToolError;

use super::NAME;

/// Rows that are read from the store, or written to it, at a time.
pub(super) const BATCH: u32 = 256;

/// The error about a store that cannot be used.
pub(super) fn unstored(error: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(format!(
        "{NAME}: the job cannot be stored: {error}. Finished rows are kept: call this again with \
         the same arguments to continue"
    ))
}
