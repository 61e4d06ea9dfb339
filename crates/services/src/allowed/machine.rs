//! The door to the session's machine. Settings enter it as [`Allowed`] values only: [`MachineInput`]
//! has the session's inputs but for those that carry settings, which have methods here.
//!
//! The limits that the threads above an agent have at present bound it in the same place: every
//! step of its machine passes `LimitedMachine`, which applies a changed bound first.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use config::Config;
use session::{
    Action, AgentOutcome, Author, Configured, Decision, Effect, Failure, Fragment, GoalChange,
    Grant, HookEvents, Id, Ids, Input, Machine, ModelEvent, NetworkTarget, Overrides, Prepared,
    ProcessEnd, ProjectDocument, ResponseUsage, Restored, ReviewResponse, ReviewedAction,
    ServerOutcome, Settings, ToolAnswer, ToolError, UsedSkill, UserAnswers, UserContent,
    UserQuestion,
};

use super::bound::{BoundedBy, ThreadAbove, ThreadBound, replacements};
use super::{Allowed, check_grantable};
use crate::options::Clock;

/// Declares [`MachineInput`] and what each input is to the session.
macro_rules! machine_inputs {
    ($($variant:ident { $($field:ident: $type:ty),* })+) => {
        /// An event of a thread other than a change of its settings; see [`Input`].
        #[derive(Clone, Debug)]
        pub enum MachineInput {
            $($variant { $($field: $type),* },)+
        }

        impl From<MachineInput> for Input {
            fn from(input: MachineInput) -> Self {
                match input {
                    $(MachineInput::$variant { $($field),* } => Self::$variant { $($field),* },)+
                }
            }
        }
    };
}

machine_inputs! {
    Steer { reply: u64, content: Vec<UserContent>, expected_turn: String }
    StartQueued { reply: u64, content: Vec<UserContent>, client_id: Arc<str> }
    MessagesWait { any: bool }
    Skills { catalog: Option<Arc<str>> }
    SandboxLimits { limits: Option<Arc<str>> }
    ProjectDocuments { documents: Vec<ProjectDocument> }
    SkillsOpened { skills: Vec<UsedSkill> }
    Interrupt { reply: u64, turn: String }
    Compact { reply: u64 }
    Review { reply: u64, subject: String, prompt: Option<String>, model: Option<String> }
    ReviewPrompt { turn: Id, prompt: String }
    Shell { reply: u64, script: String, cwd: PathBuf, actions: Vec<Action> }
    Inject { reply: u64, fragments: Vec<Fragment> }
    CleanTerminals { reply: u64 }
    SetGoal { reply: u64, change: GoalChange }
    ClearGoal { reply: u64 }
    Model { sample: u64, events: Vec<ModelEvent> }
    RetryDue { sample: u64 }
    Prepared { call: u64, outcome: Prepared }
    Applied { call: u64, outcome: Result<String, ToolError> }
    Output { process: u64, text: String }
    Exited { process: u64, end: ProcessEnd }
    NotTyped { process: u64 }
    Elapsed { call: u64 }
    Decided { request: u64, decision: Decision }
    Reviewed { review: u64, outcome: Result<ReviewResponse, Failure> }
    ReviewRetryDue { review: u64 }
    ReviewOverdue { review: u64 }
    StoreTexts {}
    ApproveDenied { reply: u64, review: String, action: ReviewedAction }
    NetworkAsk { process: u64, key: u64, target: NetworkTarget }
    NetworkWithdrawn { key: u64 }
    ToolAnswered { request: u64, outcome: Result<ToolAnswer, ToolError> }
    UserAnswered { request: u64, outcome: Result<UserAnswers, ToolError> }
    AgentsProgressed { request: u64, message: String }
    AgentsAnswered { request: u64, outcome: Box<AgentOutcome> }
    ServerProgressed { request: u64, message: String }
    ServerAnswered { request: u64, outcome: Box<ServerOutcome> }
    SkillNeedsFound { request: u64, questions: Vec<UserQuestion> }
    SkillNeedsMet { request: u64, notes: Vec<String> }
    RootWords { words: Arc<str> }
    Hooks { events: HookEvents }
    HooksAnswered { run: u64, outcome: Box<hooks::Outcome>, usage: Vec<ResponseUsage> }
    Spent { turn: Id, usage: ResponseUsage }
    StoreFailed { message: String }
    FailTurn { turn: Id, failure: Failure }
    Drain {}
    Shutdown {}
}

/// The session's machine, which takes settings only when they are allowed, and keeps them within
/// what the threads above an agent may do.
pub struct LimitedMachine {
    machine: Machine,
    bound: ThreadBound,
    /// The version of the settings that were published.
    published: u64,
    clock: Arc<dyn Clock>,
}

/// Everything that the machine can be asked without changing it.
impl Deref for LimitedMachine {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.machine
    }
}

impl LimitedMachine {
    pub fn new(
        configured: Allowed<Configured>,
        bound: ThreadBound,
        ids: Box<dyn Ids + Send>,
        restored: Restored,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let machine = Machine::new(configured.0, ids, restored);
        bound.publish(machine.chosen_settings());
        let published = machine.settings_version();
        Self { machine, bound, published, clock }
    }

    /// The threads above an agent that are not loaded: the store may have newer policies for them.
    pub fn unloaded_above(&self) -> Vec<String> {
        self.bound.unloaded()
    }

    /// Takes over what the store has of threads above that are not loaded.
    pub fn set_stored_above(&self, above: Vec<ThreadAbove>) {
        self.bound.set_stored(above);
    }

    /// One sentence about each policy of `settings` that allows more than the threads above an agent
    /// may do: it has no effect.
    pub fn exceeding(&self, settings: &Settings) -> Vec<String> {
        let Some(bound) = self.bound.current() else { return Vec::new() };
        replacements(&bound.limit(&mut settings.clone()), BoundedBy::Agent)
    }

    /// Returns the effects of an input.
    pub fn step(&mut self, input: MachineInput) -> Vec<Effect> {
        self.take(input.into())
    }

    /// A client or another agent starts a turn.
    pub fn start_turn(
        &mut self,
        reply: u64,
        author: Author,
        content: Vec<UserContent>,
        overrides: Allowed<Overrides>,
        output_schema: Option<Arc<str>>,
    ) -> Vec<Effect> {
        self.take(Input::Start { reply, author, content, overrides: overrides.0, output_schema })
    }

    /// A client changes the settings outside of a turn.
    pub fn override_settings(&mut self, overrides: Allowed<Overrides>) -> Vec<Effect> {
        self.take(Input::Override { overrides: overrides.0 })
    }

    /// The configuration changed to `config`. What was granted beyond the sandbox policy no longer
    /// holds when the new requirements forbid it.
    pub fn configure(&mut self, configured: Allowed<Configured>, config: &Config) -> Vec<Effect> {
        let mut effects = self.take(Input::Configure(Box::new(configured.0)));
        let (granted, chosen) = (self.machine.granted(), self.machine.chosen_settings());
        if check_grantable(&granted, &chosen.sandbox, config, &chosen.cwd).is_err() {
            effects.extend(self.take(Input::DropGrants));
        }
        effects
    }

    /// Records the user's grant for a call, or the reason why it is not possible.
    pub fn grant(&mut self, call: u64, outcome: Result<Allowed<Grant>, ToolError>) -> Vec<Effect> {
        let outcome = outcome.map(Allowed::into_inner);
        self.take(Input::Granted { call, outcome })
    }

    /// The settings, which were allowed when they came in.
    pub fn allowed_settings(&self) -> Allowed<Settings> {
        Allowed(self.machine.settings().clone())
    }

    /// As [`LimitedMachine::allowed_settings`], without what the user granted to this thread alone.
    pub fn allowed_chosen_settings(&self) -> Allowed<Settings> {
        Allowed(self.machine.bounded_settings())
    }

    /// Takes the model's history, which loading the thread left out. `is_set`: whether commands
    /// of the thread have this variable that the user gave for a skill.
    pub fn restore(&mut self, history: Vec<Fragment>, is_set: impl Fn(&str) -> bool) {
        self.machine.restore(history, is_set);
    }

    /// Drops the model's history: it is read again before the next turn.
    pub fn forget_history(&mut self) {
        self.machine.forget_history();
    }

    /// Restores the settings that the model was last informed of.
    pub fn keep_introduced(&mut self, settings: Option<Settings>) {
        self.machine.keep_introduced(settings);
    }

    /// The end of a turn could not be stored: the turn has failed.
    pub fn turn_failed_to_end(&mut self) {
        self.machine.turn_failed_to_end();
    }

    /// Every step passes here: what changed above an agent holds before anything else happens, and
    /// what changed of the thread holds for its agents from then on.
    fn take(&mut self, input: Input) -> Vec<Effect> {
        let now = self.clock.now_ms();
        let mut effects = match self.bound.changed() {
            Some(bound) => self.machine.step(now, Input::Bound(Box::new(bound))),
            None => Vec::new(),
        };
        effects.extend(self.machine.step(now, input));
        if self.published != self.machine.settings_version() {
            self.published = self.machine.settings_version();
            self.bound.publish(&self.machine.bounded_settings());
        }
        effects
    }
}
