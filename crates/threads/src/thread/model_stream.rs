//! The response that the model streams to a thread, one at a time, within the budgets of the turn.

mod meter;
mod previews;
mod response;
mod sender;
mod span;

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use http_client::retry::Wait;
use model::Arrival;
use model::catalog::ModelInfo;
use session::{Failure, Id, ModelEvent, Prompt, Settings};

use crate::thread::pausable_clock::PausableClock;
use crate::thread::reviewer::Reviewer;
use response::Unsent;
use services::accounts::Accounts;
use services::allowed::MachineInput;
use services::budget::{BudgetLimits, BudgetPause, Budgets, TurnBudget};
use services::models::Models;
use services::options::Options;
use services::telemetry::TurnTrace;

pub(in crate::thread) use response::Response;
pub(in crate::thread) use sender::Asker;
use sender::Sender;

/// The response that the model streams to a thread.
pub struct ModelStream {
    thread: Id,
    client: model::Client,
    models: Arc<Models>,
    accounts: Arc<Accounts>,
    options: Arc<Options>,
    /// The response that streams in.
    current: Option<(u64, Response)>,
    /// Of the request whose response has not begun: tries of it share a place in the queue of its key.
    arrival: Option<Arrival>,
    /// Budgets that requests ask for, by the turns that they started and that have not begun here.
    requested: Vec<(Id, TurnBudget)>,
    running: Option<RunningTurn>,
    /// The turn that ended last.
    ended: Option<RunningTurn>,
    reviewer: Reviewer,
    /// The running turn in its trace.
    trace: TurnTrace,
}

/// A report of the model stream.
pub(super) enum FromModel {
    /// The next events of the response to this request; none when it has ended.
    Events(u64, Vec<ModelEvent>),
    /// The running turn has used up its budget.
    OverBudget(MachineInput),
}

struct RunningTurn {
    turn: Id,
    budgets: Budgets,
    /// True if the first of them is the turn's own, and not that of a turn above.
    owns_first: bool,
    /// True if the turn was stopped.
    is_stopped: bool,
    /// Stops the clocks of the budgets too.
    clock: PausableClock,
    /// While `clock` stands still.
    pause: Option<BudgetPause>,
}

impl ModelStream {
    pub fn new(
        thread: Id,
        (client, accounts): (model::Client, Arc<Accounts>),
        models: Arc<Models>,
        options: Arc<Options>,
        reviewer: Reviewer,
    ) -> Self {
        Self {
            thread,
            client,
            models,
            accounts,
            options,
            current: None,
            arrival: None,
            requested: Vec::new(),
            running: None,
            ended: None,
            reviewer,
            trace: TurnTrace::default(),
        }
    }

    /// From now on requests belong to this trace.
    pub(super) fn set_trace(&mut self, trace: TurnTrace) {
        self.trace = trace;
    }

    /// Returns the known facts about `model`, or about the model of the settings.
    pub(super) fn describe(
        &self,
        config: &Config,
        settings: &Settings,
        model: Option<&str>,
    ) -> ModelInfo {
        self.models.info(config, &settings.provider, model.unwrap_or(&settings.model))
    }

    /// Keeps the budget that the request for a turn asked for until the turn begins.
    pub(super) fn request_budget(&mut self, turn: Id, budget: TurnBudget) {
        self.requested.push((turn, budget));
    }

    /// A turn begins: it has a budget. One that joins the running turn adds its budget to those of
    /// the turn, or lowers the limit.
    pub(super) fn turn_started(&mut self, turn: &Id, limits: BudgetLimits, clock: PausableClock) {
        let position = self.requested.iter().position(|(requested, _)| requested == turn);
        let requested = position.map(|position| self.requested.swap_remove(position).1);
        let Some(running) = &mut self.running else {
            let (budgets, owns_first) = match requested {
                Some(TurnBudget::Shared(budgets)) => (budgets, false),
                Some(TurnBudget::Own { max_tokens }) => (own_budget(limits, max_tokens), true),
                None => (own_budget(limits, None), true),
            };
            let (turn, is_stopped, pause) = (turn.clone(), false, None);
            let running = RunningTurn { turn, budgets, owns_first, is_stopped, clock, pause };
            self.running = Some(running);
            return;
        };
        // The next pause is for the budgets as they are then.
        running.pause = None;
        match requested {
            Some(TurnBudget::Shared(budgets)) => running.budgets.join(&budgets),
            Some(TurnBudget::Own { max_tokens: Some(max_tokens) }) if running.owns_first => {
                running.budgets.lower(max_tokens);
            }
            // A joining turn's limit does not apply to the turns above it.
            Some(TurnBudget::Own { max_tokens: Some(max_tokens) }) => {
                let limits = BudgetLimits { tokens: Some(max_tokens), time: None };
                running.budgets.join(&Budgets::new(limits));
            }
            Some(TurnBudget::Own { max_tokens: None }) | None => {}
        }
    }

    /// The turn that has just begun goes on with the work of the one before it: within its budgets.
    pub(super) fn turn_continues(&mut self, turn: &Id) {
        let running = self.running.as_mut().filter(|running| running.turn == *turn);
        if let (Some(running), Some(ended)) = (running, self.ended.take()) {
            running.budgets = ended.budgets;
            running.owns_first = ended.owns_first;
            running.pause = None;
        }
    }

    /// The budgets that agents of the running turn share.
    pub(super) fn shared_budget(&self) -> TurnBudget {
        match &self.running {
            Some(running) => TurnBudget::Shared(running.budgets.share()),
            None => TurnBudget::Own { max_tokens: None },
        }
    }

    /// The running turn has ended.
    pub(super) fn turn_ended(&mut self) {
        self.arrival = None;
        self.trace = TurnTrace::default();
        self.ended = self.running.take().map(|running| RunningTurn { pause: None, ..running });
    }

    /// Returns the tokens of the running turn and its agents together, when it has agents.
    pub(super) fn used_with_agents(&self) -> Option<i64> {
        self.running.as_ref().and_then(|running| running.budgets.used_with_agents())
    }

    /// Returns the cost of the running turn and its agents together, when it has agents;
    /// `Some(None)`: the price of a part is not known.
    pub(super) fn cost_with_agents(&self) -> Option<Option<i64>> {
        self.running.as_ref().and_then(|running| running.budgets.cost_with_agents())
    }

    /// Sends a prompt; its response replaces the current one. Returns the failure of one that cannot
    /// be sent.
    pub(super) fn start(
        &mut self,
        sample: u64,
        prompt: Prompt,
        config: &Config,
        user_agent: Option<&str>,
    ) -> Option<MachineInput> {
        let cache_key = self.thread.to_string();
        match self.request(prompt, cache_key, (config, user_agent)) {
            Ok(request) => {
                let arrival = self.arrival.get_or_insert_with(|| self.client.arrival());
                let request = Unsent { takes_notice: true, arrival: arrival.clone(), ..request };
                self.current = Some((sample, Response::begin(request)));
                None
            }
            Err(failure) => {
                Some(MachineInput::Model { sample, events: vec![ModelEvent::Failed(failure)] })
            }
        }
    }

    /// Sends the prompt of an approvals reviewer, in parallel with the current response. Returns the failure
    /// of one that cannot be sent.
    pub(super) fn review(
        &mut self,
        review: u64,
        prompt: Prompt,
        config: &Config,
        user_agent: Option<&str>,
    ) -> Option<MachineInput> {
        // Reviews share their instructions with each other and nothing with the thread.
        let cache_key = format!("{}/approvals", self.thread);
        let request = self.request(prompt, cache_key, (config, user_agent));
        self.reviewer.start(review, request.map(Response::begin))
    }

    /// Sends the requests of hooks, in parallel with the current one and within the budgets of the running turn.
    pub(super) fn asker(&self, config: &Arc<Config>, user_agent: Option<&str>) -> Asker {
        Asker {
            sender: self.sender(),
            cache_key: format!("{}/hooks", self.thread),
            config: config.clone(),
            user_agent: user_agent.map(str::to_owned),
        }
    }

    /// Sends the request for the notes of the thread, between turns and beyond their budgets.
    pub(super) fn note_asker(&self, config: &Arc<Config>, user_agent: Option<&str>) -> Asker {
        let cache_key = format!("{}/memories", self.thread);
        Asker { cache_key, ..self.asker(config, user_agent) }
    }

    /// Drops the answer of a reviewer.
    pub(super) fn cancel_review(&mut self, review: u64) {
        self.reviewer.cancel(review);
    }

    /// A request within the budgets of the running turn.
    fn request(
        &self,
        prompt: Prompt,
        cache_key: String,
        with: (&Config, Option<&str>),
    ) -> Result<Unsent, Failure> {
        self.sender().request(prompt, cache_key, with)
    }

    fn sender(&self) -> Sender {
        let budgets = self.running.as_ref().map(|running| running.budgets.clone());
        Sender {
            client: self.client.clone(),
            models: self.models.clone(),
            accounts: self.accounts.clone(),
            budgets: budgets.unwrap_or_default(),
            trace: self.trace.clone(),
        }
    }

    /// Drops the response, if it is the current one.
    pub(super) fn cancel(&mut self, sample: u64) {
        self.current.take_if(|(current, _)| *current == sample);
    }

    pub(super) fn clear(&mut self) {
        self.current = None;
        self.reviewer.clear();
    }

    /// Returns the next report of the model stream. Cancel safe.
    pub(super) async fn next(&mut self) -> FromModel {
        let Self { current, running, arrival, .. } = self;
        tokio::select! {
            biased;
            input = over_budget(running) => FromModel::OverBudget(input),
            (sample, events) = next_events(current) => {
                arrival.take_if(|_| events.iter().any(is_response));
                FromModel::Events(sample, events)
            }
        }
    }

    /// Draws the wait before a retry.
    pub(super) fn retry_wait(&self, wait: Wait) -> Duration {
        wait.drawn((self.options.jitter)())
    }
}

/// A budget of a turn's own: the lower limit applies.
fn own_budget(limits: BudgetLimits, max_tokens: Option<i64>) -> Budgets {
    let tokens = limits.tokens.into_iter().chain(max_tokens).min();
    Budgets::new(BudgetLimits { tokens, ..limits })
}

/// Returns whether the event is part of a response, so that its request no longer needs a place in
/// a queue.
fn is_response(event: &ModelEvent) -> bool {
    !matches!(event, ModelEvent::Notice(_) | ModelEvent::Sent | ModelEvent::Failed(_))
}

/// The next events of the response. Never resolves without a response.
async fn next_events(current: &mut Option<(u64, Response)>) -> (u64, Vec<ModelEvent>) {
    let Some((sample, response)) = current else { return std::future::pending().await };
    let sample = *sample;
    match response.next().await {
        Some(events) => (sample, events),
        None => {
            *current = None;
            (sample, Vec::new())
        }
    }
}

/// Resolves once, when the running turn has used up its budget. Meanwhile the clocks of its budgets
/// follow the clock of the turn.
async fn over_budget(running: &mut Option<RunningTurn>) -> MachineInput {
    let Some(running) = running.as_mut().filter(|running| !running.is_stopped) else {
        return std::future::pending().await;
    };
    let failure = loop {
        let is_paused = running.clock.is_paused();
        if is_paused != running.pause.is_some() {
            running.pause = is_paused.then(|| running.budgets.pause());
        }
        tokio::select! {
            biased;
            failure = running.budgets.exceeded() => break failure,
            changed = running.clock.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
            }
        }
    };
    running.is_stopped = true;
    MachineInput::FailTurn { turn: running.turn.clone(), failure }
}
