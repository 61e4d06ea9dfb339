//! The last known limits of accounts and keys, by provider and model: as the responses of all threads
//! report them, for `account/rateLimits/read` and `account/rateLimits/updated`. They outlive threads, and
//! end with the login that they are of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_client::FailureKind;
use model::{Event, Failure, PlanUsage, PlanWindow, RateLimit, RateLimits};
use protocol::{
    AccountRateLimitsUpdatedNotification, CreditsSnapshot, PlanType, RateLimitReachedType,
    RateLimitSnapshot, RateLimitWindow,
};

use crate::accounts::plan_type;
use crate::connections::Connections;
use crate::options::Options;

/// Shortest time between two notifications about the same limits. Changes in between are sent together.
const NOTIFICATION_INTERVAL: Duration = Duration::from_secs(2);
/// Most limits that are kept; beyond it, those that were reported longest ago are forgotten.
const MAX_KNOWN: usize = 64;

/// The last known limits of accounts and keys.
pub struct AccountLimits {
    connections: Arc<Connections>,
    options: Arc<Options>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that were reported longest ago first.
    known: Vec<Known>,
    /// Counts logins and logouts: what belongs to a former one is ignored.
    login: u64,
    /// The plan of the account that is logged in.
    plan: Option<PlanType>,
    /// Limits ended with their login, and clients were not notified yet.
    is_cleared: bool,
    /// A task notifies clients.
    is_notifying: bool,
}

/// The limits of one provider and model.
struct Known {
    provider: Arc<str>,
    model: Arc<str>,
    uses_account: bool,
    report: Report,
    /// The limits that clients were sent last.
    sent: Option<RateLimitSnapshot>,
}

/// The known state of a limit; all points in time are absolute.
#[derive(Default)]
struct Report {
    requests: Option<RateLimitWindow>,
    tokens: Option<RateLimitWindow>,
    plan: Option<PlanUsage>,
    /// A request was refused; since then none was answered.
    refused: Option<RateLimitWindow>,
}

/// Where the limits of a response belong.
#[derive(Clone)]
pub struct LimitSource {
    limits: Arc<AccountLimits>,
    provider: Arc<str>,
    model: Arc<str>,
    /// True if requests carry the credentials of the account.
    uses_account: bool,
    login: u64,
}

impl AccountLimits {
    pub fn new(connections: Arc<Connections>, options: Arc<Options>) -> Self {
        Self { connections, options, state: Mutex::default() }
    }

    /// The source of a request to `provider`, for the login of this moment.
    pub fn source(
        self: &Arc<Self>,
        provider: &str,
        model: &str,
        uses_account: bool,
    ) -> LimitSource {
        let login = self.state().login;
        let limits = Arc::clone(self);
        LimitSource { limits, provider: provider.into(), model: model.into(), uses_account, login }
    }

    /// The limits of `provider` that were reported last. Without any, only the plan is known.
    pub fn latest(&self, provider: &str) -> RateLimitSnapshot {
        let (state, now) = (self.state(), self.now());
        let known = state.known.iter().rfind(|known| &*known.provider == provider);
        known.map_or_else(|| state.unknown(), |known| known.snapshot(state.plan, now))
    }

    /// Another account is logged in, or none: what is known of the former one is forgotten.
    pub fn clear(self: &Arc<Self>, plan: Option<PlanType>) {
        let mut state = self.state();
        state.login += 1;
        state.plan = plan;
        let count = state.known.len();
        state.known.retain(|known| !known.uses_account);
        state.is_cleared |= state.known.len() < count;
        self.notify(state);
    }

    /// The plan of the account that is logged in.
    pub(crate) fn set_plan(&self, plan: Option<PlanType>) {
        self.state().plan = plan;
    }

    fn update(
        self: &Arc<Self>,
        source: &LimitSource,
        creates: bool,
        edit: impl FnOnce(&mut Report),
    ) {
        let mut state = self.state();
        if source.uses_account && source.login != state.login {
            return;
        }
        let is_same =
            |known: &Known| known.provider == source.provider && known.model == source.model;
        let mut known = match state.known.iter().position(is_same) {
            Some(at) => state.known.remove(at),
            None if creates => Known {
                provider: source.provider.clone(),
                model: source.model.clone(),
                uses_account: source.uses_account,
                report: Report::default(),
                sent: None,
            },
            None => return,
        };
        known.uses_account = source.uses_account;
        edit(&mut known.report);
        if state.known.len() >= MAX_KNOWN {
            state.known.remove(0);
        }
        state.known.push(known);
        self.notify(state);
    }

    /// Notifies clients of what has changed: now, or when the interval has passed.
    fn notify(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.is_notifying, true) {
            return;
        }
        drop(state);
        let limits = Arc::clone(self);
        tokio::spawn(async move {
            while limits.send_changes() {
                tokio::time::sleep(NOTIFICATION_INTERVAL).await;
            }
        });
    }

    /// Sends what has changed. Returns whether anything had; if not, the task of this call ends.
    fn send_changes(&self) -> bool {
        let now = self.now();
        let mut state = self.state();
        let plan = state.plan;
        let mut changed = Vec::new();
        if std::mem::take(&mut state.is_cleared) {
            changed.push(state.unknown());
        }
        for known in &mut state.known {
            let snapshot = known.snapshot(plan, now);
            if known.sent.as_ref() != Some(&snapshot) {
                known.sent = Some(snapshot.clone());
                changed.push(snapshot);
            }
        }
        state.is_notifying = !changed.is_empty();
        drop(state);
        let has_changed = !changed.is_empty();
        for rate_limits in changed {
            self.connections.notify_all::<protocol::AccountRateLimitsUpdated>(
                &AccountRateLimitsUpdatedNotification { rate_limits },
            );
        }
        has_changed
    }

    /// Unix time in seconds.
    fn now(&self) -> i64 {
        self.options.clock.now_ms() / 1000
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LimitSource {
    /// Provider id.
    pub fn provider(&self) -> &Arc<str> {
        &self.provider
    }

    /// Takes what an event says about limits.
    pub fn observe(&self, event: &Event) {
        let now = self.limits.now();
        match event {
            Event::RateLimits(limits) => self.limits.update(self, true, |report| {
                report.set_rates(limits, now);
            }),
            Event::PlanUsage(usage) => self.limits.update(self, true, |report| {
                report.plan = Some((**usage).clone());
            }),
            Event::Created { .. } => self.limits.update(self, false, |report| {
                report.refused = None;
            }),
            Event::Failed(failure) if is_refusal(failure) => {
                let wait = failure.retry_after.map(|wait| wait.as_millis().div_ceil(1000));
                let resets_at = wait.and_then(|wait| now.checked_add(i64::try_from(wait).ok()?));
                let window =
                    RateLimitWindow { used_percent: 100, window_duration_mins: None, resets_at };
                self.limits.update(self, true, |report| report.refused = Some(window));
            }
            _ => {}
        }
    }
}

/// Returns whether the provider refused a request because of a limit.
fn is_refusal(failure: &Failure) -> bool {
    matches!(
        failure.kind,
        FailureKind::UsageLimitExceeded | FailureKind::ResponseTooManyFailedAttempts
    )
}

impl State {
    /// Returns the limits without any report.
    fn unknown(&self) -> RateLimitSnapshot {
        RateLimitSnapshot { plan_type: self.plan, ..RateLimitSnapshot::default() }
    }
}

impl Report {
    fn set_rates(&mut self, limits: &RateLimits, now: i64) {
        // Of the limits for tokens, the one of which least is left.
        let tokens = limits.tokens.into_iter().chain(limits.project_tokens);
        let tokens = tokens.max_by_key(RateLimit::used_percent);
        self.requests = limits.requests.map(|limit| rate_window(&limit, now));
        self.tokens = tokens.map(|limit| rate_window(&limit, now));
    }
}

impl Known {
    fn snapshot(&self, account_plan: Option<PlanType>, now: i64) -> RateLimitSnapshot {
        let Report { requests, tokens, plan, refused } = &self.report;
        let of_plan = plan.as_ref().map(|plan| (plan.primary, plan.secondary));
        let (primary, secondary) = match of_plan {
            Some((primary, secondary)) if primary.is_some() || secondary.is_some() => {
                (primary.as_ref().map(plan_window), secondary.as_ref().map(plan_window))
            }
            _ => (requests.clone().or_else(|| refused.clone()), tokens.clone()),
        };
        let plan = plan.clone().unwrap_or_default();
        let reported_plan = plan.plan.as_deref().map(|plan| plan_type(Some(plan)));
        let reached = plan.reached.and_then(|name| serde_json::from_value(name.into()).ok());
        let refused = refused.as_ref().filter(|refused| !is_over(refused, now));
        let by_refusal = refused.map(|_| RateLimitReachedType::RateLimitReached);
        RateLimitSnapshot {
            limit_id: Some(
                plan.limit.unwrap_or_else(|| format!("{}/{}", self.provider, self.model)),
            ),
            limit_name: Some(
                plan.name.unwrap_or_else(|| format!("{} at `{}`", self.model, self.provider)),
            ),
            plan_type: reported_plan.or(account_plan.filter(|_| self.uses_account)),
            primary: primary.map(|window| current(window, now)),
            secondary: secondary.map(|window| current(window, now)),
            credits: plan.credits.map(|credits| CreditsSnapshot {
                has_credits: credits.has_credits,
                unlimited: credits.unlimited,
                balance: credits.balance,
            }),
            rate_limit_reached_type: reached.or(by_refusal),
        }
    }
}

fn is_over(window: &RateLimitWindow, now: i64) -> bool {
    window.resets_at.is_some_and(|at| at <= now)
}

/// A window as it is now: all of it is available again once it has reset.
fn current(window: RateLimitWindow, now: i64) -> RateLimitWindow {
    match is_over(&window, now) {
        true => RateLimitWindow { used_percent: 0, resets_at: None, ..window },
        false => window,
    }
}

fn rate_window(limit: &RateLimit, now: i64) -> RateLimitWindow {
    let reset = i64::try_from(limit.reset.as_millis().div_ceil(1000)).ok();
    RateLimitWindow {
        used_percent: limit.used_percent().into(),
        // The headers do not state the window.
        window_duration_mins: None,
        resets_at: reset.and_then(|reset| now.checked_add(reset)),
    }
}

fn plan_window(window: &PlanWindow) -> RateLimitWindow {
    // The conversion saturates.
    let used_percent = window.used_percent.ceil() as i32;
    let PlanWindow { minutes, resets_at, .. } = *window;
    RateLimitWindow { used_percent, window_duration_mins: minutes, resets_at }
}
