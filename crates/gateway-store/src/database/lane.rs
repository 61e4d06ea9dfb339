//! The lanes of calls to the store, and their time limits.

use std::time::Duration;

/// Longest duration of a call, its wait included.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// Longest duration of a report.
pub const REPORT_PATIENCE: Duration = Duration::from_secs(30);
/// Most calls that wait; further calls are refused.
pub const MAX_WAITING: usize = 1024;
/// Attempts of a transaction that loses conflicts.
pub(super) const ATTEMPTS: u32 = 6;

/// The lane that a call uses.
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
