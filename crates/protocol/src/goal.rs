//! Goals of threads (experimental; specification, "Goal").

use serde::{Deserialize, Serialize};

use crate::table::{methods, notifications};
use crate::thread::ThreadIdParams;
use crate::thread_record::ThreadIdNotification;
use crate::wire;

methods! {
    Goal, GoalMethods;

    /// Sets or changes a thread's goal.
    ThreadGoalSet = "thread/goal/set",
        thread_goal_set(ThreadGoalSetParams) -> ThreadGoalSetResponse,
        Experimental, InThread, [];

    /// Reads a thread's goal.
    ThreadGoalGet = "thread/goal/get",
        thread_goal_get(ThreadIdParams) -> ThreadGoalGetResponse,
        Experimental, Independent, [];

    /// Removes a thread's goal.
    ThreadGoalClear = "thread/goal/clear",
        thread_goal_clear(ThreadIdParams) -> ThreadGoalClearResponse,
        Experimental, InThread, [];
}

notifications! {
    NOTIFICATIONS, notification_schemas;

    /// A goal was set, or its usage increased.
    ThreadGoalUpdated = "thread/goal/updated", ThreadGoalUpdatedNotification, Experimental, Newest;

    /// A goal was removed.
    ThreadGoalCleared = "thread/goal/cleared", ThreadIdNotification, Experimental;
}

/// A thread's goal and its usage so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoal {
    pub thread_id: String,
    /// 1 to 4000 characters.
    pub objective: String,
    pub status: ThreadGoalStatus,
    pub token_budget: Option<i64>,
    pub tokens_used: i64,
    pub time_used_seconds: i64,
    /// Unix time in seconds.
    pub created_at: i64,
    /// Unix time in seconds.
    pub updated_at: i64,
}

/// State of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ThreadGoalStatus {
    Active,
    Paused,
    BudgetLimited,
    Complete,
}

/// Parameters of `thread/goal/set`. A new objective replaces the goal and resets its usage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ThreadGoalSetParams {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ThreadGoalStatus>,
    /// At least 1; null removes the budget.
    #[serde(
        default,
        deserialize_with = "wire::double_option",
        skip_serializing_if = "Option::is_none"
    )]
    pub token_budget: Option<Option<i64>>,
}

/// Result of `thread/goal/set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadGoalSetResponse {
    pub goal: ThreadGoal,
}

/// Result of `thread/goal/get`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadGoalGetResponse {
    pub goal: Option<ThreadGoal>,
}

/// Result of `thread/goal/clear`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ThreadGoalClearResponse {
    /// True if the thread had a goal.
    pub cleared: bool,
}

/// Payload of `thread/goal/updated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadGoalUpdatedNotification {
    pub thread_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    pub goal: ThreadGoal,
}
