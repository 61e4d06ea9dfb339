//! Goals of threads (specification: Goal).

use jsonrpc::ErrorObject;
use protocol::{
    GoalMethods, ThreadGoalClearResponse, ThreadGoalGetResponse, ThreadGoalSetParams,
    ThreadGoalSetResponse, ThreadGoalStatus, ThreadIdParams,
};
use session::{Answer, GoalChange, GoalStatus, Input};

use crate::connection::Cx;
use crate::convert;
use crate::handlers::thread::look;
use crate::handlers::turn::ask;
use crate::loading::{Extra, stored, unknown};
use crate::server::Server;

/// Longest objective, in characters (specification: Limits).
const MAX_OBJECTIVE: usize = 4000;

impl GoalMethods<Cx> for Server {
    async fn thread_goal_set(
        &self,
        cx: Cx,
        params: ThreadGoalSetParams,
    ) -> Result<ThreadGoalSetResponse, ErrorObject> {
        self.goals_enabled(&cx)?;
        let change = change(&params)?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        match ask(&handle, cx.gate(), move |reply| Input::SetGoal { reply, change }).await? {
            Answer::Goal(goal) => {
                let goal = convert::event::goal(&params.thread_id, &goal);
                Ok(ThreadGoalSetResponse { goal })
            }
            _ => Err(ErrorObject::internal("thread/goal/set was answered as something else")),
        }
    }

    async fn thread_goal_get(
        &self,
        cx: Cx,
        params: ThreadIdParams,
    ) -> Result<ThreadGoalGetResponse, ErrorObject> {
        self.goals_enabled(&cx)?;
        let id = &params.thread_id;
        let loaded = match self.core.loaded(id) {
            Some(handle) => look(&handle).await,
            None => None,
        };
        let goal = match loaded {
            Some(snapshot) => snapshot.goal,
            None => {
                let store = self.core.store().await?;
                let found = store.thread(id).await.map_err(|error| stored(&error))?;
                Extra::read(&found.ok_or_else(|| unknown(id))?.record).goal
            }
        };
        Ok(ThreadGoalGetResponse { goal: goal.map(|goal| convert::event::goal(id, &goal)) })
    }

    async fn thread_goal_clear(
        &self,
        cx: Cx,
        params: ThreadIdParams,
    ) -> Result<ThreadGoalClearResponse, ErrorObject> {
        self.goals_enabled(&cx)?;
        let handle = self.loaded_thread(&params.thread_id).await?;
        match ask(&handle, cx.gate(), |reply| Input::ClearGoal { reply }).await? {
            Answer::Cleared(cleared) => Ok(ThreadGoalClearResponse { cleared }),
            _ => Err(ErrorObject::internal("thread/goal/clear was answered as something else")),
        }
    }
}

impl Server {
    fn goals_enabled(&self, cx: &Cx) -> Result<(), ErrorObject> {
        if self.own_configuration(cx)?.config.features.goals {
            return Ok(());
        }
        let message = "goals are switched off; set `features.goals = true`";
        Err(ErrorObject::invalid_request(message))
    }
}

fn change(params: &ThreadGoalSetParams) -> Result<GoalChange, ErrorObject> {
    let objective = params.objective.as_deref().map(str::trim).map(str::to_owned);
    if let Some(objective) = &objective {
        let characters = objective.chars().count();
        if !(1..=MAX_OBJECTIVE).contains(&characters) {
            return Err(ErrorObject::invalid_params(format!(
                "`objective` must have 1 to {MAX_OBJECTIVE} characters, not {characters}"
            )));
        }
    }
    if let Some(Some(budget)) = params.token_budget
        && budget < 1
    {
        let message = format!("`tokenBudget` must be at least 1, not {budget}; null lifts it");
        return Err(ErrorObject::invalid_params(message));
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
