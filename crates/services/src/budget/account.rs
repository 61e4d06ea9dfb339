//! One budget: what it has used, what the requests in flight may still use, and when it is used up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_client::{Failure, FailureKind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::BudgetLimits;
use super::stopwatch::Stopwatch;

/// Share of a budget in percent from which on the model is informed of it.
const NOTICE_FROM: u64 = 80;

/// Most tokens that are reserved for a request: sums of it do not overflow.
const MAX_RESERVED: i64 = 1 << 40;

/// A budget. Shared by a turn and the turns of its agents.
#[derive(Debug)]
pub(super) struct Budget {
    max_time: Option<Duration>,
    account: Mutex<Account>,
    /// Its clock stopped, or goes on.
    paused: watch::Sender<()>,
    /// True if the tokens are used up.
    is_used_up: watch::Sender<bool>,
    /// A request in flight has ended.
    settled: watch::Sender<()>,
}

#[derive(Debug)]
struct Account {
    stopwatch: Stopwatch,
    max_tokens: Option<i64>,
    used: i64,
    /// In picodollars; `None`: the price of a part is not known.
    cost: Option<i64>,
    /// Most that the requests in flight can use.
    reserved: i64,
    in_flight: usize,
    /// True if agents share it.
    is_shared: bool,
}

/// A budget that no other task changes meanwhile.
pub(super) struct OpenBudget<'a> {
    account: MutexGuard<'a, Account>,
    max_time: Option<Duration>,
    elapsed: Duration,
}

impl Budget {
    pub(super) fn new(limits: BudgetLimits) -> Arc<Self> {
        Arc::new(Self {
            max_time: limits.time,
            account: Mutex::new(Account {
                stopwatch: Stopwatch::start(Instant::now()),
                max_tokens: limits.tokens,
                used: 0,
                cost: Some(0),
                reserved: 0,
                in_flight: 0,
                is_shared: false,
            }),
            paused: watch::Sender::new(()),
            is_used_up: watch::Sender::new(false),
            settled: watch::Sender::new(()),
        })
    }

    pub(super) fn lower(&self, max_tokens: i64) {
        let mut account = self.account();
        account.max_tokens = Some(account.max_tokens.map_or(max_tokens, |it| it.min(max_tokens)));
        self.signal(&account);
    }

    pub(super) fn set_shared(&self) {
        self.account().is_shared = true;
    }

    /// Returns the used tokens, when agents share it.
    pub(super) fn used_with_agents(&self) -> Option<i64> {
        let account = self.account();
        account.is_shared.then_some(account.used)
    }

    pub(super) fn spend(&self, cost: Option<i64>) {
        let mut account = self.account();
        account.cost = account.cost.and_then(|sum| sum.checked_add(cost?));
    }

    pub(super) fn cost_with_agents(&self) -> Option<Option<i64>> {
        let account = self.account();
        account.is_shared.then_some(account.cost)
    }

    pub(super) fn open(&self) -> OpenBudget<'_> {
        let account = self.account();
        let elapsed = account.stopwatch.elapsed(Instant::now());
        OpenBudget { account, max_time: self.max_time, elapsed }
    }

    /// Stops the clock. It goes on when every pause has ended.
    pub(super) fn pause(&self) {
        self.account().stopwatch.pause(Instant::now());
        self.paused.send_replace(());
    }

    /// Ends a pause.
    pub(super) fn resume(&self) {
        self.account().stopwatch.resume(Instant::now());
        self.paused.send_replace(());
    }

    /// A request for which `reserved` tokens are reserved has ended, and has used `tokens`.
    pub(super) fn charge(&self, reserved: i64, tokens: i64) {
        let mut account = self.account();
        account.reserved -= clamped(reserved);
        account.in_flight -= 1;
        // The number is the provider's, so it may be anything.
        account.used = account.used.saturating_add(tokens.max(0));
        self.signal(&account);
        drop(account);
        self.settled.send_replace(());
    }

    /// Changes whenever a request in flight has ended.
    pub(super) fn settled(&self) -> watch::Receiver<()> {
        self.settled.subscribe()
    }

    /// Resolves when the budget is used up. Never without a limit.
    pub(super) async fn exceeded<U>(&self) -> Failure<U> {
        if self.max_time.is_none() && self.account().max_tokens.is_none() {
            return std::future::pending().await;
        }
        tokio::select! {
            biased;
            failure = self.tokens_exceeded() => failure,
            failure = self.time_exceeded() => failure,
        }
    }

    async fn tokens_exceeded<U>(&self) -> Failure<U> {
        let mut is_used_up = self.is_used_up.subscribe();
        // The sender lives as long as `self`.
        let _ = is_used_up.wait_for(|is_used_up| *is_used_up).await;
        let account = self.account();
        out_of_tokens(account.max_tokens.unwrap_or(account.used), account.used)
    }

    async fn time_exceeded<U>(&self) -> Failure<U> {
        let Some(max) = self.max_time else { return std::future::pending().await };
        let mut paused = self.paused.subscribe();
        loop {
            let end = self.account().stopwatch.time_of(max);
            let reached = async move {
                match end {
                    Some(end) => tokio::time::sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = reached => return out_of_time(max),
                // The sender lives as long as `self`.
                _ = paused.changed() => {}
            }
        }
    }

    /// Used and reserved tokens, and the number of requests in flight.
    #[cfg(test)]
    pub(super) fn state(&self) -> (i64, i64, usize) {
        let account = self.account();
        (account.used, account.reserved, account.in_flight)
    }

    fn signal(&self, account: &Account) {
        if account.max_tokens.is_some_and(|max| account.used >= max) {
            self.is_used_up.send_replace(true);
        }
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Plain numbers: a panic leaves nothing half changed.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenBudget<'_> {
    /// # Errors
    /// The budget is used up.
    pub(super) fn check<U>(&self) -> Result<(), Failure<U>> {
        if let Some(max) = self.max_time.filter(|max| self.elapsed >= *max) {
            return Err(out_of_time(max));
        }
        match self.account.max_tokens {
            Some(max) if self.account.used >= max => Err(out_of_tokens(max, self.account.used)),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether a request that uses so many tokens passes the limit by itself at most.
    pub(super) fn has_room(&self, tokens: i64) -> bool {
        let Account { max_tokens, used, reserved, in_flight, .. } = *self.account;
        let Some(max) = max_tokens else { return true };
        in_flight == 0 || used.saturating_add(reserved).saturating_add(clamped(tokens)) <= max
    }

    pub(super) fn reserve(&mut self, tokens: i64) {
        self.account.reserved += clamped(tokens);
        self.account.in_flight += 1;
    }

    /// Informs the model when little is left.
    pub(super) fn notice(&self) -> Option<String> {
        let used = u64::try_from(self.account.used).unwrap_or(0);
        let max = self.account.max_tokens.and_then(|max| u64::try_from(max).ok());
        let tokens = max
            .filter(|max| is_nearly_used(u128::from(used), u128::from(*max)))
            .map(|max| format!("{used} of {max} tokens"));
        let elapsed = self.elapsed;
        let time = self
            .max_time
            .filter(|max| is_nearly_used(elapsed.as_millis(), max.as_millis()))
            .map(|max| format!("{} of {} seconds", elapsed.as_secs(), max.as_secs_f64()));
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
}

fn clamped(tokens: i64) -> i64 {
    tokens.clamp(0, MAX_RESERVED)
}

fn is_nearly_used(used: u128, max: u128) -> bool {
    used.saturating_mul(100) >= max.saturating_mul(u128::from(NOTICE_FROM))
}

fn out_of_tokens<U>(max: i64, used: i64) -> Failure<U> {
    let message = format!(
        "the budget of {max} tokens for this turn and its agents is used up ({used} used); start \
         another turn to continue, with a larger `maxTotalTokens` or `agents.max_total_tokens`"
    );
    Failure::new(FailureKind::UsageLimitExceeded, message)
}

fn out_of_time<U>(max: Duration) -> Failure<U> {
    let message = format!(
        "the {} s that this turn and its agents may take are over; start another turn to \
         continue, or raise `agents.max_total_seconds`",
        max.as_secs()
    );
    Failure::new(FailureKind::UsageLimitExceeded, message)
}
