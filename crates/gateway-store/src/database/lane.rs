//! The lanes of calls to the store, and their bounds.

use std::time::Duration;

/// How long a call may take in all.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How long a report may take.
pub const REPORT_PATIENCE: Duration = Duration::from_secs(30);
/// Most calls that wait; the next one is refused.
pub const MAX_WAITING: usize = 1024;
/// How often a transaction that lost against another one is tried.
pub(super) const ATTEMPTS: u32 = 6;

/// Which of the lanes takes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Read,
    Report,
    Write,
}

impl Lane {
    pub(super) fn patience(self) -> Duration {
        match self {
            Self::Report => REPORT_PATIENCE,
            Self::Read | Self::Write => PATIENCE,
        }
    }
}
