//! A thread's goal: what it works towards across turns, and what that has cost (specification:
//! Goal).

use serde::Serialize;

use crate::Millis;

/// Status of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GoalStatus {
    /// Turns work on it.
    Active,
    /// The user stopped the work.
    Paused,
    /// Its budget is used up.
    BudgetLimited,
    /// It was reached.
    Complete,
}

/// A goal and its account. The model gets it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    /// The objective: 1 to 4,000 characters.
    pub objective: String,
    /// Its status.
    pub status: GoalStatus,
    /// Tokens that it may cost.
    pub token_budget: Option<i64>,
    /// Tokens that it has cost: output, and input that was not read from the provider's cache.
    pub tokens_used: i64,
    /// Time that turns worked on it, in milliseconds.
    pub time_used_ms: i64,
    /// When it was set.
    pub created_at: Millis,
    /// When it was changed, or its account grew.
    pub updated_at: Millis,
}

/// A client's change of a goal; `None` leaves a member as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalChange {
    /// A new objective replaces the goal and its account.
    pub objective: Option<String>,
    /// See [`Goal::status`].
    pub status: Option<GoalStatus>,
    /// See [`Goal::token_budget`]; `Some(None)` lifts it.
    pub token_budget: Option<Option<i64>>,
}

impl Goal {
    /// The goal after a change at `now`; an error in words without one to change.
    ///
    /// # Errors
    /// There is no goal, and no objective is given.
    pub fn changed(
        goal: Option<&Self>,
        change: GoalChange,
        now: Millis,
    ) -> Result<Self, &'static str> {
        let GoalChange { objective, status, token_budget } = change;
        let same = |goal: &&Self| {
            objective.as_ref().is_none_or(|objective| {
                *objective == goal.objective && goal.status != GoalStatus::Complete
            })
        };
        let mut goal = match (goal.filter(same), objective) {
            (Some(goal), _) => goal.clone(),
            (None, Some(objective)) => Self {
                objective,
                status: GoalStatus::Active,
                token_budget: None,
                tokens_used: 0,
                time_used_ms: 0,
                created_at: now,
                updated_at: now,
            },
            (None, None) => return Err("the thread has no goal: give an `objective`"),
        };
        if let Some(budget) = token_budget {
            goal.token_budget = budget;
            // Work goes on with a budget that is raised or lifted; `limit` notices one that is not enough.
            if goal.status == GoalStatus::BudgetLimited {
                goal.status = GoalStatus::Active;
            }
        }
        goal.status = status.unwrap_or(goal.status);
        goal.updated_at = now;
        goal.limit();
        Ok(goal)
    }

    /// Adds the time from `since` to `now` to the account.
    pub(crate) fn add_time(&mut self, since: Millis, now: Millis) {
        self.time_used_ms = self.time_used_ms.saturating_add((now - since).max(0));
    }

    /// Notices that the budget is used up.
    pub(crate) fn limit(&mut self) {
        let spent = self.token_budget.is_some_and(|budget| self.tokens_used >= budget);
        if spent && self.status == GoalStatus::Active {
            self.status = GoalStatus::BudgetLimited;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(goal: Option<&Goal>, objective: Option<&str>, status: Option<GoalStatus>) -> Goal {
        let change =
            GoalChange { objective: objective.map(str::to_owned), status, token_budget: None };
        Goal::changed(goal, change, 9).unwrap()
    }

    #[test]
    fn a_new_objective_resets_the_account() {
        let mut goal = set(None, Some("a"), None);
        assert_eq!(goal.status, GoalStatus::Active);
        goal.tokens_used = 5;
        assert_eq!(set(Some(&goal), Some("a"), Some(GoalStatus::Paused)).tokens_used, 5);
        assert_eq!(set(Some(&goal), None, Some(GoalStatus::Complete)).tokens_used, 5);
        assert_eq!(set(Some(&goal), Some("b"), None).tokens_used, 0);
        let reached = set(Some(&goal), None, Some(GoalStatus::Complete));
        assert_eq!(
            set(Some(&reached), Some("a"), None).tokens_used,
            0,
            "a new account after the goal was reached"
        );
        assert!(Goal::changed(None, GoalChange::default(), 1).is_err());
    }

    #[test]
    fn a_spent_budget_limits_the_goal() {
        let mut goal = set(None, Some("a"), None);
        goal.tokens_used = 10;
        let change = |budget| GoalChange { token_budget: Some(budget), ..GoalChange::default() };
        let limited = Goal::changed(Some(&goal), change(Some(10)), 1).unwrap();
        assert_eq!(limited.status, GoalStatus::BudgetLimited);
        for (budget, status) in [
            (None, GoalStatus::Active),
            (Some(11), GoalStatus::Active),
            (Some(10), GoalStatus::BudgetLimited),
            (Some(9), GoalStatus::BudgetLimited),
        ] {
            let changed = Goal::changed(Some(&limited), change(budget), 1).unwrap();
            assert_eq!((changed.status, changed.token_budget), (status, budget));
        }
        for (status, kept) in [
            (Some(GoalStatus::Active), GoalStatus::BudgetLimited),
            (Some(GoalStatus::Paused), GoalStatus::Paused),
            (None, GoalStatus::BudgetLimited),
        ] {
            assert_eq!(set(Some(&limited), None, status).status, kept);
        }
        let raised = GoalChange { status: Some(GoalStatus::Paused), ..change(None) };
        assert_eq!(Goal::changed(Some(&limited), raised, 1).unwrap().status, GoalStatus::Paused);
    }
}
