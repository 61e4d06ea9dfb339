//! Events of the session as notifications of the wire (specification: Events).

use protocol::error::AgentErrorInfo;
use protocol::thread_record as record;
use protocol::turn as wire;
use serde::Serialize;
use serde_json::value::RawValue;
use session::{
    Cost, FailureKind, Goal, GoalStatus, Millis, PlanStep, PlanStepStatus, Retrying, Status,
    TurnError, TurnStatus, TurnView, Usage,
};

/// Parameters of `item/started`, around an item that is JSON already.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemStarted<'a> {
    pub item: &'a RawValue,
    pub thread_id: &'a str,
    pub turn_id: &'a str,
    pub started_at_ms: Millis,
}

/// Parameters of `item/completed`, around an item that is JSON already.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemCompleted<'a> {
    pub item: &'a RawValue,
    pub thread_id: &'a str,
    pub turn_id: &'a str,
    pub completed_at_ms: Millis,
}

/// The members of a delta besides its text.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeltaParams<'a> {
    pub thread_id: &'a str,
    pub turn_id: &'a str,
    pub item_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_index: Option<usize>,
}

/// The runtime status of a loaded thread.
pub fn status(status: Status) -> record::ThreadStatus {
    match status {
        Status::Idle => record::ThreadStatus::Idle,
        Status::SystemError => record::ThreadStatus::SystemError,
        Status::Active { waiting_on_approval, waiting_on_user_input } => {
            let approval =
                waiting_on_approval.then_some(record::ThreadActiveFlag::WaitingOnApproval);
            let user_input =
                waiting_on_user_input.then_some(record::ThreadActiveFlag::WaitingOnUserInput);
            let active_flags = approval.into_iter().chain(user_input).collect();
            record::ThreadStatus::Active { active_flags }
        }
    }
}

/// A turn without its items.
pub fn turn(view: &TurnView) -> wire::Turn {
    wire::Turn {
        id: view.id.to_string(),
        status: turn_status(view.status),
        items: Vec::new(),
        items_view: wire::TurnItemsView::NotLoaded,
        error: view.error.as_ref().map(turn_error),
        started_at: Some(view.started_at / 1000),
        completed_at: view.completed_at.map(|at| at / 1000),
        duration_ms: view.completed_at.map(|at| (at - view.started_at).max(0)),
    }
}

fn turn_status(status: TurnStatus) -> wire::TurnStatus {
    match status {
        TurnStatus::InProgress => wire::TurnStatus::InProgress,
        TurnStatus::Completed => wire::TurnStatus::Completed,
        TurnStatus::Interrupted => wire::TurnStatus::Interrupted,
        TurnStatus::Failed => wire::TurnStatus::Failed,
    }
}

/// Why a turn failed.
pub fn turn_error(error: &TurnError) -> protocol::error::TurnError {
    protocol::error::TurnError {
        message: error.message.clone(),
        agent_error_info: Some(error_info(error)),
        additional_details: error.details.clone(),
    }
}

/// The attempt that follows a failed request.
pub fn retrying(retrying: Retrying) -> wire::ErrorRetry {
    wire::ErrorRetry {
        attempt: retrying.attempt,
        max_attempts: retrying.limit,
        wait_ms: u64::try_from(retrying.wait.longest().as_millis()).unwrap_or(u64::MAX),
    }
}

fn error_info(error: &TurnError) -> AgentErrorInfo {
    use AgentErrorInfo as Info;
    let http_status_code = error.http_status;
    match error.kind {
        FailureKind::ContextWindowExceeded => Info::ContextWindowExceeded,
        FailureKind::UsageLimitExceeded => Info::UsageLimitExceeded,
        FailureKind::HttpConnectionFailed => Info::HttpConnectionFailed { http_status_code },
        FailureKind::ResponseStreamConnectionFailed => {
            Info::ResponseStreamConnectionFailed { http_status_code }
        }
        FailureKind::ResponseStreamDisconnected => {
            Info::ResponseStreamDisconnected { http_status_code }
        }
        FailureKind::ResponseTooManyFailedAttempts => {
            Info::ResponseTooManyFailedAttempts { http_status_code }
        }
        FailureKind::BadRequest => Info::BadRequest,
        FailureKind::Unauthorized => Info::Unauthorized,
        FailureKind::SandboxError => Info::SandboxError,
        FailureKind::ServerOverloaded => Info::ServerOverloaded,
        FailureKind::CyberPolicy => Info::CyberPolicy,
        FailureKind::InternalServerError => Info::InternalServerError,
        FailureKind::Other => Info::Other,
    }
}

/// Token usage of a thread.
pub fn usage(
    total: Usage,
    last: Usage,
    window: Option<i64>,
    tokens_with_agents: Option<i64>,
) -> record::ThreadTokenUsage {
    record::ThreadTokenUsage {
        total: breakdown(total),
        last: breakdown(last),
        model_context_window: window,
        tokens_with_agents,
        cost: None,
    }
}

/// Returns the cost of tokens. Without agents, a turn with its agents costs what the turn does.
pub fn cost(cost: Cost, with_agents: Option<Option<i64>>) -> record::TokenCost {
    let dollars = |pico: Option<i64>| pico.map(|pico| model::dollars(pico.into()));
    record::TokenCost {
        currency: "USD".to_owned(),
        last: dollars(cost.last),
        turn: dollars(cost.turn),
        turn_with_agents: dollars(with_agents.unwrap_or(cost.turn)),
        thread: dollars(cost.thread),
    }
}

fn breakdown(usage: Usage) -> record::TokenUsageBreakdown {
    record::TokenUsageBreakdown {
        total_tokens: usage.total,
        input_tokens: usage.input,
        cached_input_tokens: usage.cached_input,
        cache_write_input_tokens: usage.cache_write_input,
        output_tokens: usage.output,
        reasoning_output_tokens: usage.reasoning_output,
    }
}

/// A thread's goal.
pub fn goal(thread: &str, goal: &Goal) -> protocol::goal::ThreadGoal {
    use protocol::goal::ThreadGoalStatus as Status;
    protocol::goal::ThreadGoal {
        thread_id: thread.to_owned(),
        objective: goal.objective.clone(),
        status: match goal.status {
            GoalStatus::Active => Status::Active,
            GoalStatus::Paused => Status::Paused,
            GoalStatus::BudgetLimited => Status::BudgetLimited,
            GoalStatus::Complete => Status::Complete,
        },
        token_budget: goal.token_budget,
        tokens_used: goal.tokens_used,
        time_used_seconds: goal.time_used_ms / 1000,
        created_at: goal.created_at / 1000,
        updated_at: goal.updated_at / 1000,
    }
}

/// A step of the agent's plan.
pub fn plan_step(step: PlanStep) -> wire::TurnPlanStep {
    wire::TurnPlanStep {
        step: step.step,
        status: match step.status {
            PlanStepStatus::Pending => wire::TurnPlanStepStatus::Pending,
            PlanStepStatus::InProgress => wire::TurnPlanStepStatus::InProgress,
            PlanStepStatus::Completed => wire::TurnPlanStepStatus::Completed,
        },
    }
}
