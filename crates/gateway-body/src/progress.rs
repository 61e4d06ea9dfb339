//! The progress of an answer that is not complete with its response: a response in the background, a job.

/// The progress of an answer that may come after its response: what its `status` says, whatever kind of object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It waits or runs, or is in a state that is not known as an end.
    Open,
    /// It is complete.
    Completed,
    /// It ended at a limit, with what it had.
    Incomplete,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// The server gave up on it.
    Expired,
}

impl Progress {
    /// The progress that a `status` names.
    pub(super) fn named(status: &[u8]) -> Self {
        match status {
            b"completed" | b"succeeded" => Self::Completed,
            b"incomplete" => Self::Incomplete,
            b"failed" => Self::Failed,
            b"cancelled" | b"canceled" => Self::Cancelled,
            b"expired" => Self::Expired,
            _ => Self::Open,
        }
    }

    /// The progress that an event of this type tells.
    pub(super) fn of_event(kind: &str) -> Option<Self> {
        match kind.strip_prefix("response.")? {
            "completed" => Some(Self::Completed),
            "incomplete" => Some(Self::Incomplete),
            "failed" => Some(Self::Failed),
            "cancelled" => Some(Self::Cancelled),
            _ => None,
        }
    }

    /// Returns whether nothing follows.
    #[must_use]
    pub fn is_end(self) -> bool {
        self != Self::Open
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
