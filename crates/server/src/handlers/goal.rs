//! Goals of threads (specification: Goal).

use protocol::{
    GoalMethods, ThreadGoalClearResponse, ThreadGoalGetResponse, ThreadGoalSetParams,
    ThreadGoalSetResponse, ThreadGoalStatus, ThreadIdParams,
};
use session::{Answer, GoalChange, GoalStatus};

use crate::handlers::turn::ask;
use crate::server::Server;
use services::allowed::MachineInput;
use services::convert;
use services::error::Error;
use services::peer::Caller;
use services::thread_port::Extra;

/// Longest objective, in characters (specification: Limits).
const MAX_OBJECTIVE: usize = 4000;

impl GoalMethods<Caller> for Server {
    async fn thread_goal_set(
        &self,
        caller: Caller,
        params: ThreadGoalSetParams,
    ) -> Result<ThreadGoalSetResponse, Error> {
        self.goals_enabled(&caller)?;
        let change = change(&params)?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        match ask(&handle, caller.gate(), move |reply| MachineInput::SetGoal { reply, change })
            .await?
        {
            Answer::Goal(goal) => {
                let goal = convert::event::goal(&params.thread_id, &goal);
                Ok(ThreadGoalSetResponse { goal })
            }
            _ => Err(Error::mismatched_answer("thread/goal/set")),
        }
    }

    async fn thread_goal_get(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<ThreadGoalGetResponse, Error> {
        self.goals_enabled(&caller)?;
        let id = &params.thread_id;
        let loaded = match self.services.threads.get(id) {
            Some(handle) => handle.snapshot().await,
            None => None,
        };
        let goal = match loaded {
            Some(snapshot) => snapshot.goal,
            None => {
                let store = self.services.store.get().await?;
                let found = store.thread(id).await?;
                Extra::read(&found.ok_or_else(|| Error::unknown_thread(id))?.record)?.goal
            }
        };
        Ok(ThreadGoalGetResponse { goal: goal.map(|goal| convert::event::goal(id, &goal)) })
    }

    async fn thread_goal_clear(
        &self,
        caller: Caller,
        params: ThreadIdParams,
    ) -> Result<ThreadGoalClearResponse, Error> {
        self.goals_enabled(&caller)?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        match ask(&handle, caller.gate(), |reply| MachineInput::ClearGoal { reply }).await? {
            Answer::Cleared(cleared) => Ok(ThreadGoalClearResponse { cleared }),
            _ => Err(Error::mismatched_answer("thread/goal/clear")),
        }
    }
}

impl Server {
    fn goals_enabled(&self, caller: &Caller) -> Result<(), Error> {
        if self.services.configurations.own_for(&caller.peer)?.resolved.config.features.goals {
            return Ok(());
        }
        Err(Error::wrong_state("goals are disabled").next_step("set `features.goals = true`"))
    }
}

fn change(params: &ThreadGoalSetParams) -> Result<GoalChange, Error> {
    let objective = params.objective.as_deref().map(str::trim).map(str::to_owned);
    if let Some(objective) = &objective {
        let characters = objective.chars().count();
        if !(1..=MAX_OBJECTIVE).contains(&characters) {
            return Err(Error::invalid_params(format!(
                "`objective` must have 1 to {MAX_OBJECTIVE} characters, not {characters}"
            )));
        }
    }
    if let Some(Some(budget)) = params.token_budget
        && budget < 1
    {
        let message = format!("`tokenBudget` must be at least 1, not {budget}; null lifts it");
        return Err(Error::invalid_params(message));
    }
    Ok(GoalChange {
        objective,
        status: params.status.map(|status| match status {
            ThreadGoalStatus::Active => GoalStatus::Active,
            ThreadGoalStatus::Paused => GoalStatus::Paused,
            ThreadGoalStatus::BudgetLimited => GoalStatus::BudgetLimited,
            ThreadGoalStatus::Complete => GoalStatus::Complete,
        }),
        token_budget: params.token_budget,
    })
}
