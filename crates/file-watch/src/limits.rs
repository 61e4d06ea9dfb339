//! Bounds of a watcher.

use std::time::Duration;

/// Bounds of a watcher.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Watches at one time. The next one is refused.
    pub watches: usize,
    /// Folders that are watched for all watches. A watch that needs more is examined at intervals.
    pub folders: usize,
    /// Bytes of changed paths that wait in all watches. More lead to overflows.
    pub waiting_bytes: usize,
    /// Paths that are examined at intervals. A watch that would need more is refused.
    pub polled: usize,
    /// Entries that are remembered of all paths that are examined. A path with more has only overflows.
    pub polled_entries: usize,
    /// Shortest time between two examinations of a path.
    pub interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            watches: 4_096,
            folders: 250_000,
            waiting_bytes: 64 << 20,
            polled: 64,
            polled_entries: 250_000,
            interval: Duration::from_secs(2),
        }
    }
}
