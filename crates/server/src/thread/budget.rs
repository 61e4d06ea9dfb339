//! What a turn and all agents that it starts may use together: one count of tokens and one deadline,
//! checked before each request to a model.
//!
//! A request is admitted while the tokens that were used, and those that the requests in flight are
//! expected to use, are below the limit. So the limit is exceeded by what the last admitted request
//! uses, and by the errors of the estimates.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::Agents;
use session::{Failure, FailureKind};
use tokio::sync::watch;
use tokio::time::Instant;

/// Share of a budget in percent from which on the model is informed of it.
const NOTICE_FROM: u64 = 80;

/// Most tokens that a request is expected to use: sums of it do not overflow.
const MAX_EXPECTED: i64 = 1 << 40;

/// The limits of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BudgetLimits {
    pub(crate) tokens: Option<i64>,
    pub(crate) time: Option<Duration>,
}

impl BudgetLimits {
    /// What the configuration allows each turn.
    pub(crate) fn new(agents: &Agents) -> Self {
        Self {
            tokens: agents
                .max_total_tokens
                .map(|tokens| i64::try_from(*tokens).unwrap_or(i64::MAX)),
            time: agents.max_total_seconds.map(|seconds| Duration::from_secs(*seconds)),
        }
    }
}

/// See the module. Shared by a turn and the turns of its agents.
#[derive(Debug)]
pub(crate) struct Budget {
    started: Instant,
    max_time: Option<Duration>,
    account: Mutex<Account>,
    /// Whether the tokens are used up.
    is_used_up: watch::Sender<bool>,
}

#[derive(Debug)]
struct Account {
    max_tokens: Option<i64>,
    used: i64,
    /// Expected use of the requests in flight.
    reserved: i64,
    /// Whether agents share it.
    is_shared: bool,
}

/// An admitted request. Its reservation ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    budget: Arc<Budget>,
    tokens: i64,
    /// Informs the model when little is left.
    pub(super) notice: Option<String>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.budget.account().reserved -= self.tokens;
    }
}

impl Budget {
    pub(crate) fn new(limits: BudgetLimits) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            max_time: limits.time,
            account: Mutex::new(Account {
                max_tokens: limits.tokens,
                used: 0,
                reserved: 0,
                is_shared: false,
            }),
            is_used_up: watch::Sender::new(false),
        })
    }

    /// Lowers the limit of tokens, if that is lower than it was.
    pub(crate) fn lower(&self, max_tokens: i64) {
        let mut account = self.account();
        account.max_tokens = Some(account.max_tokens.map_or(max_tokens, |it| it.min(max_tokens)));
        self.signal(&account);
    }

    /// Admits a request that is expected to use this many tokens.
    ///
    /// # Errors
    /// The budget is used up, or the requests in flight will use it up.
    pub(crate) fn admit(self: &Arc<Self>, tokens: i64) -> Result<Admission, Failure> {
        let elapsed = self.started.elapsed();
        let mut account = self.account();
        if let Some(max) = self.max_time.filter(|max| elapsed >= *max) {
            return Err(out_of_time(max));
        }
        if let Some(max) = account.max_tokens
            && account.used.saturating_add(account.reserved) >= max
        {
            return Err(out_of_tokens(max, account.used));
        }
        let tokens = tokens.clamp(0, MAX_EXPECTED);
        account.reserved += tokens;
        let notice = self.notice(&account, elapsed);
        drop(account);
        Ok(Admission { budget: self.clone(), tokens, notice })
    }

    /// For an agent.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<Self> {
        self.account().is_shared = true;
        self.clone()
    }

    /// Counts what a response used. Returns the sum when agents share the budget.
    pub(crate) fn charge(&self, tokens: i64) -> Option<i64> {
        let mut account = self.account();
        // The number is the provider's, so it may be anything.
        account.used = account.used.saturating_add(tokens.max(0));
        self.signal(&account);
        account.is_shared.then_some(account.used)
    }

    /// Resolves when the budget is used up. Never without a limit: one that is set later counts from
    /// the next call on.
    pub(crate) async fn exceeded(&self) -> Failure {
        if self.max_time.is_none() && self.account().max_tokens.is_none() {
            return std::future::pending().await;
        }
        tokio::select! {
            biased;
            failure = self.tokens_exceeded() => failure,
            failure = self.time_exceeded() => failure,
        }
    }

    async fn tokens_exceeded(&self) -> Failure {
        let mut is_used_up = self.is_used_up.subscribe();
        // The sender lives as long as `self`.
        let _ = is_used_up.wait_for(|is_used_up| *is_used_up).await;
        let account = self.account();
        out_of_tokens(account.max_tokens.unwrap_or(account.used), account.used)
    }

    async fn time_exceeded(&self) -> Failure {
        let Some(max) = self.max_time else { return std::future::pending().await };
        tokio::time::sleep_until(self.started + max).await;
        out_of_time(max)
    }

    fn signal(&self, account: &Account) {
        if account.max_tokens.is_some_and(|max| account.used >= max) {
            self.is_used_up.send_replace(true);
        }
    }

    fn notice(&self, account: &Account, elapsed: Duration) -> Option<String> {
        let used = u64::try_from(account.used).unwrap_or(0);
        let max = account.max_tokens.and_then(|max| u64::try_from(max).ok());
        let tokens = max
            .filter(|max| is_nearly_used(u128::from(used), u128::from(*max)))
            .map(|max| format!("{used} of {max} tokens"));
        let time = self
            .max_time
            .filter(|max| is_nearly_used(elapsed.as_millis(), max.as_millis()))
            .map(|max| format!("{} of {} seconds", elapsed.as_secs(), max.as_secs()));
        let used = match (tokens, time) {
            (None, None) => return None,
            (Some(tokens), Some(time)) => format!("{tokens} and {time}"),
            (Some(one), None) | (None, Some(one)) => one,
        };
        Some(format!(
            "<budget>\nThis turn and its agents have used {used}. All work stops at the limit: \
             finish what is most important now, start nothing new, and report what is left.\n\
             </budget>"
        ))
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Plain numbers: a panic leaves nothing half changed.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_nearly_used(used: u128, max: u128) -> bool {
    used.saturating_mul(100) >= max.saturating_mul(u128::from(NOTICE_FROM))
}

fn out_of_tokens(max: i64, used: i64) -> Failure {
    let message = format!(
        "the budget of {max} tokens for this turn and its agents is used up ({used} used); start \
         another turn to continue, with a larger `maxTotalTokens` or `agents.max_total_tokens`"
    );
    Failure::new(FailureKind::UsageLimitExceeded, message)
}

fn out_of_time(max: Duration) -> Failure {
    let message = format!(
        "the {} s that this turn and its agents may take are over; start another turn to \
         continue, or raise `agents.max_total_seconds`",
        max.as_secs()
    );
    Failure::new(FailureKind::UsageLimitExceeded, message)
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
