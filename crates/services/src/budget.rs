//! The common budget of a turn and all agents that it starts: one count of tokens and one deadline,
//! checked before each request to a model.
//!
//! **One request at most passes the limit.** A request is admitted at once while what was used, and
//! the most that it and the requests in flight can use, stay within the limit. Near the limit it
//! waits until it is the only one. It is refused when the tokens are used up.
//!
//! **A request counts against every budget whose work it carries**: see [`Budgets::join`].

mod account;
pub mod first;
mod stopwatch;

use std::sync::Arc;
use std::time::Duration;

use config::Agents;
use session::Failure;

use account::Budget;
use first::first;

/// The limits of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    pub tokens: Option<i64>,
    pub time: Option<Duration>,
}

impl BudgetLimits {
    /// Returns the budget that the configuration allows each turn.
    pub fn new(agents: &Agents) -> Self {
        Self {
            tokens: agents
                .max_total_tokens
                .map(|tokens| i64::try_from(*tokens).unwrap_or(i64::MAX)),
            time: agents.max_total_seconds.map(|limit| limit.duration()),
        }
    }
}

/// The budget that a request asks for.
#[derive(Clone, Debug)]
pub enum TurnBudget {
    /// A budget of the turn's own with at most this many tokens.
    Own { max_tokens: Option<i64> },
    /// The budgets of the turn that started an agent, or sends it input.
    Shared(Budgets),
}

/// The tokens that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSize {
    /// Its input, about: what a request that is cut off is charged for it.
    pub input: i64,
    /// The most that it can use, with its output.
    pub most: i64,
}

/// The budgets whose work a turn does; none outside of turns. The first is the one that it began
/// with.
#[derive(Clone, Debug, Default)]
pub struct Budgets(Vec<Arc<Budget>>);

impl Budgets {
    pub fn new(limits: BudgetLimits) -> Self {
        Self(vec![Budget::new(limits)])
    }

    /// From now on the turn does work of these budgets too: its next requests count against them,
    /// and it stops when one of them is used up.
    pub fn join(&mut self, others: &Self) {
        for other in &others.0 {
            if !self.0.iter().any(|known| Arc::ptr_eq(known, other)) {
                self.0.push(other.clone());
            }
        }
    }

    /// Lowers the first budget's limit of tokens, if that is lower than it was.
    pub fn lower(&self, max_tokens: i64) {
        if let Some(first) = self.0.first() {
            first.lower(max_tokens);
        }
    }

    /// For an agent.
    pub fn share(&self) -> Self {
        self.0.iter().for_each(|budget| budget.set_shared());
        self.clone()
    }

    /// Stops the clocks of the budgets until the guard is dropped. They go on when all guards are.
    pub fn pause(&self) -> BudgetPause {
        self.0.iter().for_each(|budget| budget.pause());
        BudgetPause(self.clone())
    }

    /// Returns the tokens used of the first budget, when agents share it.
    pub fn used_with_agents(&self) -> Option<i64> {
        self.0.first().and_then(|budget| budget.used_with_agents())
    }

    /// Counts what a response cost; `None`: its price is not known.
    pub fn spend(&self, cost: Option<i64>) {
        self.0.iter().for_each(|budget| budget.spend(cost));
    }

    /// Returns the cost of the first budget's turns, when agents share it.
    pub fn cost_with_agents(&self) -> Option<Option<i64>> {
        self.0.first().and_then(|budget| budget.cost_with_agents())
    }

    /// Admits a request, by all budgets or by none. Returns `None` when it must wait for requests in
    /// flight.
    ///
    /// # Errors
    /// A budget is used up.
    pub fn admit<U>(
        &self,
        size: RequestSize,
    ) -> Result<Option<Admission>, http_client::Failure<U>> {
        // In one order for all, so that no two wait for each other's locks.
        let mut budgets: Vec<&Arc<Budget>> = self.0.iter().collect();
        budgets.sort_unstable_by_key(|budget| Arc::as_ptr(budget));
        let mut accounts: Vec<_> = budgets.iter().map(|budget| budget.open()).collect();
        for account in &accounts {
            account.check()?;
        }
        if !accounts.iter().all(|account| account.has_room(size.most)) {
            return Ok(None);
        }
        accounts.iter_mut().for_each(|account| account.reserve(size.most));
        let notice = accounts.iter().find_map(|account| account.notice());
        drop(accounts);
        Ok(Some(Admission { budgets: self.clone(), size, received: 0, notice, is_settled: false }))
    }

    /// Waits until a request is admitted. Cancel safe.
    ///
    /// # Errors
    /// A budget is used up.
    pub async fn admitted<U>(
        &self,
        size: RequestSize,
    ) -> Result<Admission, http_client::Failure<U>> {
        loop {
            let mut settled: Vec<_> = self.0.iter().map(|budget| budget.settled()).collect();
            if let Some(admission) = self.admit(size)? {
                return Ok(admission);
            }
            // The senders live as long as `self`.
            let _ = first(settled.iter_mut().map(|settled| settled.changed())).await;
        }
    }

    /// Resolves when one of the budgets is used up. Never without a limit: one that is set later
    /// counts from the next call on.
    pub async fn exceeded(&self) -> Failure {
        match &self.0[..] {
            [] => std::future::pending().await,
            [budget] => budget.exceeded().await,
            budgets => first(budgets.iter().map(|budget| budget.exceeded())).await,
        }
    }
}

/// While it lives, the seconds of the budgets do not pass.
#[derive(Debug)]
pub struct BudgetPause(Budgets);

impl Drop for BudgetPause {
    fn drop(&mut self) {
        self.0.0.iter().for_each(|budget| budget.resume());
    }
}

/// An admitted request. It is charged what the provider reports, or, dropped before that, what it is
/// likely to have used.
#[derive(Debug)]
pub struct Admission {
    budgets: Budgets,
    size: RequestSize,
    /// Tokens of the response so far, about.
    received: i64,
    /// Informs the model when little is left.
    pub notice: Option<String>,
    is_settled: bool,
}

impl Admission {
    /// More of the response has come.
    pub fn receive(&mut self, tokens: i64) {
        self.received = self.received.saturating_add(tokens);
    }

    /// The request has used so many tokens.
    pub fn settle(mut self, tokens: i64) {
        self.charge(tokens);
    }

    fn charge(&mut self, tokens: i64) {
        self.is_settled = true;
        self.budgets.0.iter().for_each(|budget| budget.charge(self.size.most, tokens));
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.is_settled {
            self.charge(self.size.input.saturating_add(self.received));
        }
    }
}

#[cfg(test)]
mod tests;
