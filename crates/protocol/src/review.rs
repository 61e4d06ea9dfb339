//! Reviews of changes by the agent.

use serde::{Deserialize, Serialize};

use crate::table::methods;
use crate::turn::Turn;

methods! {
    Review, ReviewMethods;

    /// Starts a review, in the thread or in a new one.
    ReviewStart = "review/start",
        review_start(ReviewStartParams) -> ReviewStartResponse,
        Stable, Concurrent, [], StartsWork;
}

/// Parameters of `review/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewStartParams {
    pub thread_id: String,
    pub target: ReviewTarget,
    /// `inline` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<ReviewDelivery>,
}

/// The target of a review.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum ReviewTarget {
    /// Staged, unstaged and untracked changes.
    UncommittedChanges {},
    /// All changes since the branch diverged from this one.
    BaseBranch { branch: String },
    Commit {
        sha: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
    },
    /// The changes that the instructions describe.
    Custom { instructions: String },
}

/// Where the review runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReviewDelivery {
    /// In the thread itself.
    Inline,
    /// In a fork of it.
    Detached,
}

/// Result of `review/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReviewStartResponse {
    pub turn: Turn,
    /// The thread itself, or the fork.
    pub review_thread_id: String,
}
