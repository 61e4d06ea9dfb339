//! The goal of a thread while turns work on it: its clock, its token account, and what the model
//! is informed of it (specification: Goal).

use crate::cx::Cx;
use crate::port::effect::{Answer, Record};
use crate::port::event::{Event, TurnStatus};
use crate::port::fragment::{Fragment, Mark};
use crate::port::goal::{Goal, GoalChange, GoalStatus};
use crate::port::model::Usage;
use crate::{Id, Millis, history};

/// The goal of a thread while turns work on it.
pub(crate) struct GoalTracker {
    goal: Option<Goal>,
    /// Start of the time that is not accounted for, while a turn works on the goal.
    clock: Option<Millis>,
    /// True if the response that streams in reported the goal as reached: it is still charged.
    reached: bool,
}

impl GoalTracker {
    pub(crate) fn new(goal: Option<Goal>) -> Self {
        Self { goal, clock: None, reached: false }
    }

    pub(crate) fn goal(&self) -> Option<&Goal> {
        self.goal.as_ref()
    }

    /// Returns whether the model may report the goal as reached.
    pub(crate) fn is_open(&self) -> bool {
        self.goal.as_ref().is_some_and(|goal| goal.status != GoalStatus::Complete)
    }

    fn is_active(&self) -> bool {
        self.goal.as_ref().is_some_and(|goal| goal.status == GoalStatus::Active)
    }

    /// `thread/goal/set`. Returns the message for the model, if anything changed; `None` when
    /// the change was refused.
    pub(crate) fn set(
        &mut self,
        reply: u64,
        change: GoalChange,
        cx: &mut Cx,
    ) -> Option<Option<Fragment>> {
        self.stop_clock(cx.now);
        let goal = match Goal::changed(self.goal.as_ref(), change, cx.now) {
            Ok(goal) => goal,
            Err(message) => {
                cx.refuse(reply, message);
                return None;
            }
        };
        let known = |goal: &Goal| (goal.objective.clone(), goal.status, goal.token_budget);
        let changed = self.goal.as_ref().map(known) != Some(known(&goal));
        self.goal = Some(goal.clone());
        cx.reply(reply, Answer::Goal(Box::new(goal.clone())));
        store(&goal, None, cx);
        Some(changed.then(|| announcement(&goal)))
    }

    /// `thread/goal/clear`. Returns the message for the model.
    pub(crate) fn clear(&mut self, reply: u64, cx: &mut Cx) -> Option<Fragment> {
        let cleared = self.goal.take().is_some();
        self.clock = None;
        cx.reply(reply, Answer::Cleared(cleared));
        cleared.then(|| {
            cx.persist(Record::Goal(None));
            cx.emit(Event::GoalCleared);
            let text = "<goal>\nThe goal of this thread was cleared by the user.\n</goal>";
            Fragment::new(history::message("developer", text), Mark::Context)
        })
    }

    /// The model reports the goal as reached. Returns the output of its call.
    pub(crate) fn complete(&mut self, turn: &Id, cx: &mut Cx) -> &'static str {
        self.stop_clock(cx.now);
        match &mut self.goal {
            Some(goal) if goal.status != GoalStatus::Complete => {
                goal.status = GoalStatus::Complete;
                goal.updated_at = cx.now;
                self.reached = true;
                store(goal, Some(turn), cx);
                "The goal is complete"
            }
            Some(_) => "The goal was complete already",
            None => "This thread has no goal",
        }
    }

    /// Returns the text of the introduction about an open goal.
    pub(crate) fn introduction(&self) -> Option<Fragment> {
        self.goal.as_ref().filter(|goal| goal.status != GoalStatus::Complete).map(announcement)
    }

    /// Charges a response of the model to the goal. Returns the message for the model when the
    /// budget is used up.
    pub(crate) fn charge(&mut self, turn: &Id, usage: Usage, cx: &mut Cx) -> Option<Fragment> {
        // The response that reports the goal as reached is part of its cost.
        let reached = std::mem::take(&mut self.reached);
        let goal = self.goal.as_mut()?;
        if goal.status != GoalStatus::Active && !reached {
            return None;
        }
        let fresh = usage.input.saturating_sub(usage.cached_input).max(0);
        let tokens = fresh.saturating_add(usage.output.max(0));
        goal.tokens_used = goal.tokens_used.saturating_add(tokens);
        if let Some(since) = self.clock.take() {
            goal.add_time(since, cx.now);
        }
        if goal.status == GoalStatus::Active {
            self.clock = Some(cx.now);
        }
        goal.updated_at = cx.now;
        goal.limit();
        store(goal, Some(turn), cx);
        let limited = goal.status == GoalStatus::BudgetLimited;
        limited.then(|| {
            self.clock = None;
            announcement(goal)
        })
    }

    /// Counts time from now on, while a turn works on an active goal.
    pub(crate) fn start_clock(&mut self, now: Millis) {
        if self.is_active() && self.clock.is_none() {
            self.clock = Some(now);
        }
    }

    /// Accounts for the time since the clock started.
    fn stop_clock(&mut self, now: Millis) {
        if let Some(since) = self.clock.take()
            && let Some(goal) = &mut self.goal
        {
            goal.add_time(since, now);
        }
    }

    /// Pauses an active goal whose turn the user interrupted. Returns whether the goal is still
    /// active.
    pub(crate) fn after_turn(
        &mut self,
        turn: &Id,
        status: TurnStatus,
        closed: bool,
        cx: &mut Cx,
    ) -> bool {
        self.stop_clock(cx.now);
        let Some(goal) = self.goal.as_mut().filter(|goal| goal.status == GoalStatus::Active) else {
            return false;
        };
        if status == TurnStatus::Interrupted && !closed {
            goal.status = GoalStatus::Paused;
        }
        goal.updated_at = cx.now;
        store(goal, Some(turn), cx);
        goal.status == GoalStatus::Active
    }
}

/// The message of a turn that continues work on the goal without the user.
pub(crate) fn continuation() -> Fragment {
    let text = "<goal_continuation>\nWork on the goal of this thread. Continue from its current state; \
         when everything that it asks for is done and checked, call `update_goal`.\n\
         </goal_continuation>";
    Fragment::summarized(history::message("developer", text))
}

fn store(goal: &Goal, turn: Option<&Id>, cx: &mut Cx) {
    cx.persist(Record::Goal(Some(Box::new(goal.clone()))));
    cx.emit(Event::GoalUpdated { turn: turn.cloned(), goal: Box::new(goal.clone()) });
}

fn announcement(goal: &Goal) -> Fragment {
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
    let objective = &goal.objective;
    let text = format!("<goal>\n<objective>\n{objective}\n</objective>\n{budget}{state}\n</goal>");
    Fragment::new(history::message("developer", &text), Mark::Context)
}
