//! The state machine of one loaded thread: what it holds, and where each input goes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::approvals::Grants;
use crate::context::{self, Context};
use crate::effect::{Effect, Prompt, Record};
use crate::event::{Event, Status};
use crate::goal::Goal;
use crate::history::{self, Fragment, History, Mark};
use crate::input::{Input, Usage};
use crate::network::Prompts;
use crate::processes::{Ended, Process};
use crate::settings::{Mode, Overrides, Settings};
use crate::tools::{self, PatchTool, ToolSet};
use crate::turn::Turn;
use crate::{Id, Millis, review};

/// Where new ids come from.
pub trait Ids: Send {
    /// A new turn id.
    fn turn(&mut self) -> Id;
    /// A new item id.
    fn item(&mut self) -> Id;
}

/// Bounds of a thread's work.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Kept of a command's output in its item, in bytes: head and tail.
    pub output_bytes: usize,
    /// Streamed of a command's output, in bytes; past it only the item tells.
    pub streamed_bytes: usize,
    /// Given to the model of a tool's output, in tokens of about four bytes.
    pub tool_output_tokens: u64,
    /// Commands that may run at once, those in the background included.
    pub processes: usize,
    /// Tool calls of one response.
    pub calls: usize,
    /// Text of one response, in bytes.
    pub response_bytes: usize,
    /// Retries of a request that failed before its response began.
    pub request_retries: u32,
    /// Retries of a stream that broke.
    pub stream_retries: u32,
    /// The longest wait of an empty `write_stdin`, in milliseconds.
    pub max_poll_ms: u64,
    /// Steering inputs waiting for the model.
    pub pending_inputs: usize,
    /// Tokens of history from which on it is compacted before the next request.
    pub compact_at_tokens: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            output_bytes: 1024 * 1024,
            streamed_bytes: 4 * 1024 * 1024,
            tool_output_tokens: 10_000,
            processes: 64,
            calls: 128,
            response_bytes: 64 * 1024 * 1024,
            request_retries: 4,
            stream_retries: 5,
            max_poll_ms: 300_000,
            pending_inputs: 1_000,
            compact_at_tokens: None,
        }
    }
}

/// What a stored thread brings back.
#[derive(Clone, Debug, Default)]
pub struct Restored {
    /// The model's history; `None`: it comes later, by [`Machine::restore`].
    pub history: Option<Vec<Fragment>>,
    /// What the model was last told of the settings; `None` for a thread without a turn.
    pub introduced: Option<Settings>,
    /// Tokens so far.
    pub usage: Usage,
    /// Whether the last turn failed.
    pub failed: bool,
    /// Whether the thread has its preview.
    pub previewed: bool,
    /// What the thread works towards.
    pub goal: Option<Goal>,
}

/// What a thread takes from its configuration.
#[derive(Clone, Debug)]
pub struct Configured {
    /// The settings from now on.
    pub settings: Settings,
    /// What the model is told.
    pub context: Context,
    /// What the model can call.
    pub tools: ToolSet,
    /// Bounds.
    pub limits: Limits,
    /// Reasoning effort while a plan is made, in place of the settings'.
    pub plan_effort: Option<String>,
}

/// One loaded thread.
pub struct Machine {
    pub(crate) settings: Settings,
    pub(crate) context: Context,
    pub(crate) limits: Limits,
    pub(crate) ids: Box<dyn Ids>,
    pub(crate) history: History,
    /// Whether the history is here.
    restored: bool,
    pub(crate) goal: Option<Goal>,
    /// Since when a turn works on the goal, as far as it is not accounted for.
    pub(crate) goal_since: Option<Millis>,
    /// The response that comes in says that the goal is reached.
    pub(crate) goal_reached: bool,
    pub(crate) introduced: Option<Settings>,
    pub(crate) usage: Usage,
    pub(crate) status: Status,
    pub(crate) previewed: bool,
    pub(crate) turn: Option<Turn>,
    pub(crate) processes: BTreeMap<u64, Process>,
    /// Commands that ended in the background, until the model asks for them.
    pub(crate) ended: BTreeMap<u64, Ended>,
    pub(crate) grants: Grants,
    pub(crate) network: Prompts,
    pub(crate) now: Millis,
    /// Set by the shutdown, and what leads up to it.
    pub(crate) closed: bool,
    /// The running turn ends at its next safe point.
    pub(crate) draining: bool,
    /// Outputs that a restored history lacked, until a turn stores them.
    repairs: Vec<Fragment>,
    /// What the model is to be told with the next turn, besides the settings.
    untold: Vec<Fragment>,
    instructions: Arc<str>,
    pub(crate) tools: ToolSet,
    /// As JSON, while commands are confined and while they are not.
    offered: [Arc<str>; 2],
    plan_effort: Option<String>,
    next: u64,
    effects: Vec<Effect>,
}

impl Machine {
    /// A thread, new or restored. A history that a crash cut is completed.
    pub fn new(configured: Configured, ids: Box<dyn Ids>, restored: Restored) -> Self {
        let Configured { settings, context, tools, limits, plan_effort } = configured;
        let instructions = context.instructions.clone().unwrap_or_else(context::instructions);
        let mut machine = Self {
            settings,
            context,
            limits,
            ids,
            history: History::default(),
            restored: false,
            goal: restored.goal,
            goal_since: None,
            goal_reached: false,
            introduced: restored.introduced,
            usage: restored.usage,
            status: if restored.failed { Status::SystemError } else { Status::Idle },
            previewed: restored.previewed,
            turn: None,
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            grants: Grants::default(),
            network: Prompts::default(),
            now: 0,
            closed: false,
            draining: false,
            repairs: Vec::new(),
            untold: Vec::new(),
            instructions,
            offered: tools::offered(&tools),
            tools,
            plan_effort,
            next: 1,
            effects: Vec::new(),
        };
        if let Some(history) = restored.history {
            machine.restore(history);
        }
        machine
    }

    /// Whether the history must come before anything that the model is told.
    pub fn needs_history(&self) -> bool {
        !self.restored
    }

    /// Takes the stored history over. One that a crash cut is completed.
    pub fn restore(&mut self, mut history: Vec<Fragment>) {
        for fragment in &mut history {
            fragment.mark = fragment.settled_mark();
        }
        self.repairs = history::missing_outputs(&history);
        history.extend(self.repairs.iter().cloned());
        // Session ids that an earlier run told the model must not name other commands now: a run
        // takes fewer numbers than it leaves fragments, eight times over.
        self.next = self.next.max(1 + 8 * history.len() as u64);
        self.history = History::new(history);
        self.restored = true;
    }

    /// Turns were dropped, so that the history is another one: it comes again before the next turn,
    /// and the model is told of the settings again.
    pub fn forget_history(&mut self) {
        self.history = History::default();
        self.restored = false;
        self.introduced = None;
        self.repairs.clear();
    }

    /// What the model was last told of the settings.
    pub fn introduced(&self) -> Option<&Settings> {
        self.introduced.as_ref()
    }

    /// How often the history tells the model of its settings and surroundings; `None` while the
    /// history is not here.
    pub fn introductions(&self) -> Option<usize> {
        let told = |part: &&Fragment| part.mark == Mark::Context;
        self.restored.then(|| self.history.fragments().iter().filter(told).count())
    }

    /// The model knows these settings after all.
    pub fn keep_introduced(&mut self, settings: Option<Settings>) {
        self.introduced = settings;
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The runtime status.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The running turn's id.
    pub fn active_turn(&self) -> Option<&Id> {
        self.turn.as_ref().map(|turn| &turn.view.id)
    }

    /// Whether nothing runs: no turn and no command.
    pub fn is_quiet(&self) -> bool {
        self.turn.is_none() && self.processes.is_empty()
    }

    /// Tokens of the thread so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Takes one input at the time `now`.
    pub fn step(&mut self, now: Millis, input: Input) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Start { reply, content, overrides, output_schema } => {
                self.start(reply, content, overrides, output_schema);
            }
            Input::Steer { reply, content, expected_turn } => {
                self.steer(reply, content, &expected_turn);
            }
            Input::Interrupt { reply, turn } => self.interrupt(reply, &turn),
            Input::Compact { reply } => self.compact(reply),
            Input::Review { reply, subject, prompt, model } => {
                self.review(reply, subject, prompt, model);
            }
            Input::ReviewPrompt { turn, prompt } => self.review_prompt(&turn, &prompt),
            Input::Shell { reply, script, cwd, actions } => {
                self.user_shell(reply, script, cwd, actions);
            }
            Input::Inject { reply, fragments } => self.inject(reply, fragments),
            Input::CleanTerminals { reply } => self.clean_terminals(reply),
            Input::SetGoal { reply, change } => self.set_goal(reply, change),
            Input::ClearGoal { reply } => self.clear_goal(reply),
            Input::Override { overrides } => self.override_settings(overrides),
            Input::Configure(configured) => self.configure(*configured),
            Input::Model { sample, events } => self.model(sample, events),
            Input::RetryDue { sample } => self.retry_due(sample),
            Input::Prepared { call, outcome } => self.prepared(call, outcome),
            Input::Applied { call, outcome } => self.applied(call, outcome),
            Input::ImageRead { call, outcome } => self.image_read(call, outcome),
            Input::Output { process, text } => self.process_output(process, text),
            Input::Exited { process, end } => self.process_exited(process, end),
            Input::NotTyped { process } => self.not_typed(process),
            Input::Elapsed { call } => self.elapsed(call),
            Input::Decided { request, decision } => self.decided(request, decision),
            Input::NetworkAsk { process, key, target } => self.network_ask(process, key, target),
            Input::NetworkWithdrawn { key } => self.network_withdrawn(key),
            Input::ToolAnswered { request, outcome } => self.tool_answered(request, outcome),
            Input::StoreFailed { message } => self.store_failed(message),
            Input::Drain => self.drain(),
            Input::Shutdown => self.shutdown(),
        }
        self.end_at_safe_point();
        std::mem::take(&mut self.effects)
    }

    /// A number for a sample, call, process or request: unique in this thread's life.
    pub(crate) fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(crate) fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn emit(&mut self, event: Event) {
        self.effects.push(Effect::Emit(event));
    }

    pub(crate) fn persist(&mut self, record: Record) {
        self.effects.push(Effect::Persist(record));
    }

    /// Appends to the model's history, and stores it. A review's history is its own.
    pub(crate) fn remember(&mut self, turn: &Id, fragments: Vec<Fragment>) {
        if fragments.is_empty() {
            return;
        }
        if let Some(review) = self.turn.as_mut().and_then(Turn::review_mut) {
            return review.history.extend(fragments);
        }
        self.history.extend(fragments.iter().cloned());
        self.persist(Record::History { turn: Some(turn.clone()), fragments });
    }

    /// How many parts of the history are kept word for word.
    pub(crate) fn kept_fragments(&self) -> usize {
        let is_kept = |part: &&Fragment| part.mark == Mark::Kept;
        self.history.fragments().iter().filter(is_kept).count()
    }

    /// Tells the model with its next request.
    pub(crate) fn tell_soon(&mut self, fragment: Fragment) {
        self.untold.push(fragment);
    }

    /// What was to be told is told otherwise.
    pub(crate) fn forget_untold(&mut self) {
        self.untold.clear();
    }

    /// Stores what completed a restored history, so that it stands in the same place next time.
    pub(crate) fn store_repairs(&mut self, turn: &Id) {
        let fragments = std::mem::take(&mut self.repairs);
        if !fragments.is_empty() {
            self.persist(Record::History { turn: Some(turn.clone()), fragments });
        }
    }

    pub(crate) fn set_status(&mut self, status: Status) {
        if self.status != status {
            self.status = status;
            self.emit(Event::StatusChanged(status));
        }
    }

    pub(crate) fn override_settings(&mut self, overrides: Overrides) {
        if self.settings.apply(overrides) {
            let settings = Box::new(self.settings.clone());
            self.persist(Record::Settings(settings));
        }
    }

    /// Takes a changed configuration over: the model is told with the next turn.
    fn configure(&mut self, configured: Configured) {
        let Configured { settings, context, tools, limits, plan_effort } = configured;
        if self.introduced.is_some() && context.developer != self.context.developer {
            self.untold.extend(context.developer.as_deref().map(context::developer_message));
        }
        self.instructions = context.instructions.clone().unwrap_or_else(context::instructions);
        self.offered = tools::offered(&tools);
        self.tools = tools;
        self.plan_effort = plan_effort;
        self.context = context;
        self.limits = limits;
        if self.settings != settings {
            self.settings = settings;
            self.persist(Record::Settings(Box::new(self.settings.clone())));
        }
    }

    /// Tells the model what it does not know yet of the settings.
    pub(crate) fn introduce(&mut self, turn: &Id) {
        if self.turn.as_ref().is_some_and(Turn::is_review) {
            // A review begins with all of it.
            return;
        }
        let untold = std::mem::take(&mut self.untold);
        let mut fragments = match &self.introduced {
            None => {
                let mut all = context::introduction(&self.context, &self.settings);
                all.extend(self.goal_context());
                all
            }
            Some(old) if *old != self.settings => {
                context::changes(&self.context, old, &self.settings)
            }
            Some(_) if untold.is_empty() => return,
            Some(_) => Vec::new(),
        };
        fragments.extend(untold);
        self.introduced = Some(self.settings.clone());
        self.persist(Record::Introduced(Box::new(self.settings.clone())));
        self.remember(turn, fragments);
    }

    pub(crate) fn prompt(&self, output_schema: Option<Arc<str>>) -> Prompt {
        let planning = self.settings.mode == Mode::Plan;
        let effort = self.plan_effort.clone().filter(|_| planning);
        let review = self.turn.as_ref().and_then(Turn::review);
        let history = review.map_or(&self.history, |review| &review.history);
        let model = review.and_then(|review| review.model.clone());
        Prompt {
            provider: self.settings.provider.clone(),
            model: model.unwrap_or_else(|| self.settings.model.clone()),
            instructions: match review {
                Some(_) => review::instructions(),
                None => self.instructions.clone(),
            },
            input: history.fragments().iter().map(|part| part.text.clone()).collect(),
            tools: self.offered(),
            effort: effort.or_else(|| self.settings.effort.clone()),
            summary: self.settings.summary.clone(),
            verbosity: self.settings.verbosity.clone(),
            output_schema,
            service_tier: self.settings.service_tier.clone(),
        }
    }

    /// The tools of the running turn.
    pub(crate) fn toolset(&self) -> Cow<'_, ToolSet> {
        let in_review = self.turn.as_ref().is_some_and(Turn::is_review);
        let goal = self.offers_goal() && !in_review;
        let reads_only = self.is_planning();
        if !in_review && !goal && !reads_only {
            return Cow::Borrowed(&self.tools);
        }
        let patch = if in_review { PatchTool::Off } else { self.tools.patch };
        Cow::Owned(ToolSet { goal, patch, reads_only, ..self.tools.clone() })
    }

    fn offered(&self) -> Arc<str> {
        let open = usize::from(self.settings.in_force().sandbox.is_unconfined());
        match self.toolset() {
            Cow::Borrowed(_) => self.offered[open].clone(),
            Cow::Owned(tools) => tools::offered(&tools)[open].clone(),
        }
    }
}
