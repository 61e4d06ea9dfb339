//! Goals: what a thread works towards across turns, and what that has cost. While a goal is active
//! and turns get somewhere, the next one starts by itself (specification: Goal).

use serde::{Deserialize, Serialize};

use crate::effect::{Answer, Effect, Record};
use crate::event::{Event, Status, TurnStatus};
use crate::history::{self, Fragment, Mark};
use crate::input::Usage;
use crate::machine::Machine;
use crate::settings::Mode;
use crate::turn::{Kind, Turn};
use crate::{Id, Millis};

/// Where a goal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GoalStatus {
    /// It is worked on.
    Active,
    /// The user stopped the work.
    Paused,
    /// Its budget is used up.
    BudgetLimited,
    /// It is reached.
    Complete,
}

/// A goal and its account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Goal {
    /// What is to be reached: 1 to 4,000 characters.
    pub objective: String,
    /// Where it stands.
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

/// What a client changes of a goal; `None` leaves it.
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
        goal.status = status.unwrap_or(goal.status);
        goal.token_budget = token_budget.unwrap_or(goal.token_budget);
        goal.updated_at = now;
        goal.limit();
        Ok(goal)
    }

    /// Notices that the budget is used up.
    fn limit(&mut self) {
        let spent = self.token_budget.is_some_and(|budget| self.tokens_used >= budget);
        if spent && self.status == GoalStatus::Active {
            self.status = GoalStatus::BudgetLimited;
        }
    }
}

impl Machine {
    /// The goal, if there is one.
    pub fn goal(&self) -> Option<&Goal> {
        self.goal.as_ref()
    }

    /// `thread/goal/set`.
    pub(crate) fn set_goal(&mut self, reply: u64, change: GoalChange) {
        self.goal_clock_stops();
        let goal = match Goal::changed(self.goal.as_ref(), change, self.now) {
            Ok(goal) => goal,
            Err(message) => return self.refuse(reply, message.into()),
        };
        let told = |goal: &Goal| (goal.objective.clone(), goal.status, goal.token_budget);
        let changed = self.goal.as_ref().map(told) != Some(told(&goal));
        self.goal = Some(goal.clone());
        self.effect(Effect::Reply { reply, result: Ok(Answer::Goal(Box::new(goal.clone()))) });
        self.keep_goal(None);
        if changed {
            self.tell_goal(&goal);
        }
        self.goal_clock_starts();
        if goal.status == GoalStatus::Active && self.turn.is_none() && !self.closed {
            self.preview_text(&goal.objective);
            self.start_goal_turn();
        }
    }

    /// `thread/goal/clear`.
    pub(crate) fn clear_goal(&mut self, reply: u64) {
        let cleared = self.goal.take().is_some();
        self.goal_since = None;
        self.effect(Effect::Reply { reply, result: Ok(Answer::Cleared(cleared)) });
        if cleared {
            self.persist(Record::Goal(None));
            self.emit(Event::GoalCleared);
            let text = "<goal>\nThe goal of this thread was cleared by the user.\n</goal>";
            self.tell_soon(Fragment::new(history::message("developer", text), Mark::Context));
        }
    }

    /// The model says that the goal is reached.
    pub(crate) fn complete_goal(&mut self) -> String {
        self.goal_clock_stops();
        let turn = self.active_turn().cloned();
        match &mut self.goal {
            Some(goal) if goal.status != GoalStatus::Complete => {
                goal.status = GoalStatus::Complete;
                self.goal_reached = true;
                goal.updated_at = self.now;
                self.keep_goal(turn);
                "The goal is complete".to_owned()
            }
            Some(_) => "The goal was complete already".to_owned(),
            None => "This thread has no goal".to_owned(),
        }
    }

    /// What the model needs to know of an open goal.
    pub(crate) fn goal_context(&self) -> Option<Fragment> {
        let goal = self.goal.as_ref().filter(|goal| goal.status != GoalStatus::Complete)?;
        Some(Fragment::new(history::message("developer", &goal_text(goal)), Mark::Context))
    }

    /// Whether the model may say that the goal is reached.
    pub(crate) fn offers_goal(&self) -> bool {
        self.goal.as_ref().is_some_and(|goal| goal.status != GoalStatus::Complete)
    }

    /// Adds tokens to the account.
    pub(crate) fn charge_goal(&mut self, turn: &Id, usage: Usage) {
        // The response that says so is part of what it took.
        let reached = std::mem::take(&mut self.goal_reached);
        let counts = |goal: &&mut Goal| goal.status == GoalStatus::Active || reached;
        let Some(goal) = self.goal.as_mut().filter(counts) else { return };
        let fresh = usage.input.saturating_sub(usage.cached_input).max(0);
        let tokens = fresh.saturating_add(usage.output.max(0));
        goal.tokens_used = goal.tokens_used.saturating_add(tokens);
        self.goal_clock_stops();
        self.goal_clock_starts();
        let Some(goal) = &mut self.goal else { return };
        goal.updated_at = self.now;
        goal.limit();
        let limited = goal.status == GoalStatus::BudgetLimited;
        let goal = goal.clone();
        self.keep_goal(Some(turn.clone()));
        if limited {
            self.goal_clock_stops();
            self.tell_goal(&goal);
        }
    }

    /// From now on time counts, while a turn works on an active goal.
    pub(crate) fn goal_clock_starts(&mut self) {
        let active = self.goal.as_ref().is_some_and(|goal| goal.status == GoalStatus::Active);
        if active && self.turn.is_some() && self.goal_since.is_none() {
            self.goal_since = Some(self.now);
        }
    }

    /// Adds the time since the clock started.
    pub(crate) fn goal_clock_stops(&mut self) {
        let Some(since) = self.goal_since.take() else { return };
        if let Some(goal) = &mut self.goal {
            goal.time_used_ms = goal.time_used_ms.saturating_add((self.now - since).max(0));
        }
    }

    /// After a turn: pauses the goal that the user stopped, goes on with one that gets somewhere.
    pub(crate) fn goal_after_turn(&mut self, turn: &Id, status: TurnStatus, made_calls: bool) {
        self.goal_clock_stops();
        let closed = self.closed;
        let Some(goal) = self.goal.as_mut().filter(|goal| goal.status == GoalStatus::Active) else {
            return;
        };
        if status == TurnStatus::Interrupted && !closed {
            goal.status = GoalStatus::Paused;
        }
        goal.updated_at = self.now;
        self.keep_goal(Some(turn.clone()));
        let goes_on = status == TurnStatus::Completed
            && made_calls
            && !closed
            && self.settings.mode == Mode::Default;
        if goes_on {
            self.start_goal_turn();
        }
    }

    fn start_goal_turn(&mut self) {
        let view = self.new_turn();
        let mut turn = Turn { again: true, ..Turn::new(view.clone(), Kind::Ordinary) };
        turn.kept_before = self.kept_fragments();
        self.persist(Record::TurnStarted { turn: view.id.clone(), at: self.now });
        self.set_status(Status::Active { waiting_on_approval: false });
        self.emit(Event::TurnStarted(view.clone()));
        self.turn = Some(turn);
        self.goal_clock_starts();
        self.store_repairs(&view.id);
        self.introduce(&view.id);
        let text = "<goal_continuation>\nWork on the goal of this thread. Go on from where it \
            stands; when everything that it asks for is done and checked, call `update_goal`.\n\
            </goal_continuation>";
        let fragment = Fragment::passing(history::message("developer", text));
        self.remember(&view.id, vec![fragment]);
        self.advance();
    }

    fn keep_goal(&mut self, turn: Option<Id>) {
        let Some(goal) = self.goal.clone() else { return };
        self.persist(Record::Goal(Some(Box::new(goal.clone()))));
        self.emit(Event::GoalUpdated { turn, goal: Box::new(goal) });
    }

    fn tell_goal(&mut self, goal: &Goal) {
        // A thread without a turn is told with its introduction.
        if self.introduced.is_some() {
            let text = history::message("developer", &goal_text(goal));
            self.tell_soon(Fragment::new(text, Mark::Context));
        }
    }
}

fn goal_text(goal: &Goal) -> String {
    let state = match goal.status {
        GoalStatus::Active => {
            "It is active: work towards it, also across turns. When everything that it asks for is \
             done and checked, call `update_goal` with the status `complete`; not before."
        }
        GoalStatus::Paused => "It is paused: do only what the user asks now.",
        GoalStatus::BudgetLimited => {
            "Its token budget is used up: bring the work to a good place, say what is left, and \
             stop."
        }
        GoalStatus::Complete => "It is complete.",
    };
    let budget = match goal.token_budget {
        Some(budget) => format!("{} of {budget} tokens are used. ", goal.tokens_used),
        None => String::new(),
    };
    format!("<goal>\n<objective>\n{}\n</objective>\n{budget}{state}\n</goal>", goal.objective)
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
    fn an_objective_that_is_new_begins_a_new_account() {
        let mut goal = set(None, Some("a"), None);
        assert_eq!(goal.status, GoalStatus::Active);
        goal.tokens_used = 5;
        assert_eq!(set(Some(&goal), Some("a"), Some(GoalStatus::Paused)).tokens_used, 5);
        assert_eq!(set(Some(&goal), None, Some(GoalStatus::Complete)).tokens_used, 5);
        assert_eq!(set(Some(&goal), Some("b"), None).tokens_used, 0);
        let reached = set(Some(&goal), None, Some(GoalStatus::Complete));
        assert_eq!(set(Some(&reached), Some("a"), None).tokens_used, 0, "done with: begun anew");
        assert!(Goal::changed(None, GoalChange::default(), 1).is_err());
    }

    #[test]
    fn a_spent_budget_limits() {
        let mut goal = set(None, Some("a"), None);
        goal.tokens_used = 10;
        let change = |budget| GoalChange { token_budget: Some(budget), ..GoalChange::default() };
        let limited = Goal::changed(Some(&goal), change(Some(10)), 1).unwrap();
        assert_eq!(limited.status, GoalStatus::BudgetLimited);
        let lifted = GoalChange {
            status: Some(GoalStatus::Active),
            token_budget: Some(None),
            objective: None,
        };
        assert_eq!(Goal::changed(Some(&limited), lifted, 1).unwrap().status, GoalStatus::Active);
    }
}
