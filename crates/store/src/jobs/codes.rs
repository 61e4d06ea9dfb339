//! The states of jobs and rows in their columns.

use crate::{JobItemStatus, JobStatus};

impl JobStatus {
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Running => 0,
            Self::Completed => 1,
            Self::Failed => 2,
            Self::Cancelled => 3,
        }
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        let all = [Self::Running, Self::Completed, Self::Failed, Self::Cancelled];
        all.into_iter().find(|status| status.code() == code)
    }
}

impl JobItemStatus {
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Pending => 0,
            Self::Running => 1,
            Self::Completed => 2,
            Self::Failed => 3,
            Self::Stopped => 4,
            Self::Cancelled => 5,
        }
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        let ended = [Self::Completed, Self::Failed, Self::Stopped, Self::Cancelled];
        let mut all = [Self::Pending, Self::Running].into_iter().chain(ended);
        all.find(|status| status.code() == code)
    }
}
