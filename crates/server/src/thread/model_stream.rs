//! The response that the model streams to a thread, one at a time, within the budget of the turn.

use std::sync::Arc;
use std::time::Duration;

use config::Config;
use http_client::retry::Policy;
use model::ResponseStream;
use session::{Failure, FailureKind, Id, ModelEvent, Prompt};

use crate::allowed::MachineInput;
use crate::convert;
use crate::options::Options;
use crate::provider::{Models, provider};
use crate::thread::budget::{Admission, Budget, BudgetLimits};
use crate::thread::reviewer::Reviewer;

/// Bytes of a prompt for each token that it is expected to use.
const BYTES_PER_TOKEN: usize = 4;

/// See the module.
pub(crate) struct ModelStream {
    thread: Id,
    client: model::Client,
    models: Arc<Models>,
    options: Arc<Options>,
    /// The response that streams in.
    current: Option<(u64, Response)>,
    /// Budgets that requests ask for, by the turns that they started and that have not begun here.
    requested: Vec<(Id, TurnBudget)>,
    running: Option<RunningTurn>,
    reviewer: Reviewer,
}

/// A response, within the budget of the turn.
pub(super) struct Response {
    stream: ResponseStream,
    /// Reserves its tokens.
    _admission: Option<Admission>,
}

/// The budget that a request asks for.
#[derive(Clone, Debug)]
pub(crate) enum TurnBudget {
    /// A budget of the turn's own with at most this many tokens.
    Own { max_tokens: Option<i64> },
    /// The budget of the turn that started an agent.
    Shared(Arc<Budget>),
}

/// What the model stream reports.
pub(super) enum FromModel {
    /// The next events of the response to this request; none when it has ended.
    Events(u64, Vec<model::Event>),
    /// The running turn has used up its budget.
    OverBudget(MachineInput),
}

struct RunningTurn {
    turn: Id,
    budget: Arc<Budget>,
    /// Whether the turn was told to stop.
    is_stopped: bool,
}

impl ModelStream {
    pub(crate) fn new(
        thread: Id,
        client: model::Client,
        models: Arc<Models>,
        options: Arc<Options>,
        reviewer: Reviewer,
    ) -> Self {
        let (current, requested, running) = (None, Vec::new(), None);
        Self { thread, client, models, options, current, requested, running, reviewer }
    }

    /// Keeps the budget that the request for a turn asked for until the turn begins.
    pub(super) fn request_budget(&mut self, turn: Id, budget: TurnBudget) {
        self.requested.push((turn, budget));
    }

    /// A turn begins: it has a budget. One that joins the running turn can only lower the budget.
    pub(super) fn turn_started(&mut self, turn: &Id, limits: BudgetLimits) {
        let position = self.requested.iter().position(|(requested, _)| requested == turn);
        let requested = position.map(|position| self.requested.swap_remove(position).1);
        match (&self.running, requested) {
            (Some(running), Some(TurnBudget::Own { max_tokens: Some(max_tokens) })) => {
                running.budget.lower(max_tokens);
            }
            // An agent works within the budget of the turn that asked first.
            (Some(_), _) => {}
            (None, Some(TurnBudget::Shared(budget))) => self.begin(turn, budget),
            (None, Some(TurnBudget::Own { max_tokens: Some(max_tokens) })) => {
                let tokens = limits.tokens.map_or(max_tokens, |tokens| tokens.min(max_tokens));
                self.begin(turn, Budget::new(BudgetLimits { tokens: Some(tokens), ..limits }));
            }
            (None, Some(TurnBudget::Own { max_tokens: None }) | None) => {
                self.begin(turn, Budget::new(limits));
            }
        }
    }

    fn begin(&mut self, turn: &Id, budget: Arc<Budget>) {
        self.running = Some(RunningTurn { turn: turn.clone(), budget, is_stopped: false });
    }

    /// The budget that agents of the running turn share.
    pub(super) fn shared_budget(&self) -> TurnBudget {
        match &self.running {
            Some(running) => TurnBudget::Shared(running.budget.share()),
            None => TurnBudget::Own { max_tokens: None },
        }
    }

    /// The running turn has ended.
    pub(super) fn turn_ended(&mut self) {
        self.running = None;
    }

    /// Counts what a response used. Returns what the turn and its agents used together, when it has
    /// agents.
    pub(super) fn charge(&self, tokens: i64) -> Option<i64> {
        self.running.as_ref().and_then(|running| running.budget.charge(tokens))
    }

    /// Sends a prompt; its response replaces the current one. Returns the failure of one that cannot
    /// be sent.
    pub(super) fn start(
        &mut self,
        sample: u64,
        mut prompt: Prompt,
        config: &Config,
        user_agent: Option<&str>,
    ) -> Option<MachineInput> {
        let opened = self.admit(&prompt).and_then(|admission| {
            let notice = admission.as_ref().and_then(|admission| admission.notice.as_deref());
            notice.into_iter().for_each(|notice| prompt.add_notice(notice));
            self.open(prompt, &self.thread, admission, (config, user_agent))
        });
        match opened {
            Ok(response) => {
                self.current = Some((sample, response));
                None
            }
            Err(failure) => {
                Some(MachineInput::Model { sample, events: vec![ModelEvent::Failed(failure)] })
            }
        }
    }

    /// Sends the prompt of an approvals reviewer, beside the current response. Returns the failure
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
        let opened = self.admit(&prompt);
        let opened = opened
            .and_then(|admission| self.open(prompt, &cache_key, admission, (config, user_agent)));
        self.reviewer.start(review, opened)
    }

    /// Drops the answer of a reviewer.
    pub(super) fn cancel_review(&mut self, review: u64) {
        self.reviewer.cancel(review);
    }

    /// Asks the budget of the running turn.
    fn admit(&self, prompt: &Prompt) -> Result<Option<Admission>, Failure> {
        let admit = |running: &RunningTurn| running.budget.admit(expected_tokens(prompt));
        self.running.as_ref().map(admit).transpose()
    }

    fn open(
        &self,
        mut prompt: Prompt,
        cache_key: &str,
        admission: Option<Admission>,
        (config, user_agent): (&Config, Option<&str>),
    ) -> Result<Response, Failure> {
        let Some(configured) = config.providers.get(&prompt.provider) else {
            let message = format!(
                "the provider `{}` is not in the configuration; add it to `model_providers`",
                prompt.provider
            );
            return Err(Failure::new(FailureKind::BadRequest, message));
        };
        let provider = provider(configured, user_agent);
        let info = self.models.info(config, &prompt.provider, &prompt.model);
        if !config.features.fast_mode {
            prompt.service_tier.take_if(|tier| tier == "fast");
        }
        let prompt = convert::model::prompt(prompt, cache_key, &info);
        let stream = self.client.stream_prompt(&provider, &prompt);
        Ok(Response { stream, _admission: admission })
    }

    /// Drops the response, if it is the current one.
    pub(super) fn cancel(&mut self, sample: u64) {
        self.current.take_if(|(current, _)| *current == sample);
    }

    pub(super) fn clear(&mut self) {
        self.current = None;
        self.reviewer.clear();
    }

    /// What the model stream reports next. Cancel safe.
    pub(super) async fn next(&mut self) -> FromModel {
        let Self { current, running, .. } = self;
        tokio::select! {
            biased;
            input = over_budget(running) => FromModel::OverBudget(input),
            (sample, events) = next_events(current) => FromModel::Events(sample, events),
        }
    }

    /// How long to wait before a retry: somewhat longer than the machine asks for, so that many
    /// threads do not return to a provider at once.
    pub(super) fn retry_wait(&self, wait_ms: u64) -> Duration {
        let wait = Duration::from_millis(wait_ms);
        Policy::INTERACTIVE.with_jitter(wait, (self.options.jitter)())
    }
}

impl Response {
    /// The next batch of events; none after the last.
    pub(super) async fn next(&mut self) -> Option<Vec<model::Event>> {
        self.stream.next().await
    }
}

/// A rough estimate of the tokens of a request, before its output.
fn expected_tokens(prompt: &Prompt) -> i64 {
    let input: usize = prompt.input.iter().map(|fragment| fragment.len()).sum();
    let bytes = input + prompt.instructions.len() + prompt.tools.len();
    i64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(i64::MAX)
}

/// The next events of the response. Never resolves without a response.
async fn next_events(current: &mut Option<(u64, Response)>) -> (u64, Vec<model::Event>) {
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

/// Resolves once, when the running turn has used up its budget.
async fn over_budget(running: &mut Option<RunningTurn>) -> MachineInput {
    let Some(running) = running.as_mut().filter(|running| !running.is_stopped) else {
        return std::future::pending().await;
    };
    let failure = running.budget.exceeded().await;
    running.is_stopped = true;
    MachineInput::FailTurn { turn: running.turn.clone(), failure }
}
