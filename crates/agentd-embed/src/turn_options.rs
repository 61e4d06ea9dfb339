//! A turn that is to start: its message, its settings, and what ends it early.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::{ReasoningEffort, TurnStartParams};
use schemars::JsonSchema;
use serde_json::Value;

use crate::context::UserValue;
use crate::output::OutputType;
use crate::{Amount, Input};

/// A turn that is to start.
///
/// ```
/// use agentd_embed::{OnBusy, TurnOptions};
///
/// # fn example() -> Result<TurnOptions, agentd_embed::Error> {
/// let options = TurnOptions::new("Fix the test").on_busy(OnBusy::Error).max_cost("0.50".parse()?);
/// # Ok(options)
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TurnOptions {
    /// The message, and settings of the turn. The id of the thread need not be given.
    pub params: TurnStartParams,
    /// The behaviour while another turn runs in the thread.
    pub on_busy: OnBusy,
    /// The cost, in US dollars with the turn's agents, above which the turn is interrupted and its result is
    /// [`crate::Error::BudgetExceeded`], even when the price is not known. The request that passes it is paid.
    pub max_cost: Option<Amount>,
    /// Time from the call on, the wait for an earlier turn of the thread included, after which the turn is interrupted
    /// and its result is [`crate::Error::TurnTimeout`].
    pub timeout: Option<Duration>,
    /// Interrupts the turn when its [`crate::Turn`], or a future that waits for it, is dropped before its end.
    pub interrupt_on_drop: bool,
    pub(crate) context: Option<UserValue>,
    pub(crate) output_type: Option<OutputType>,
}

/// The start of a turn in a thread in which another one runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnBusy {
    /// It waits for what this agent started in the thread before it, and joins the turn of another client.
    #[default]
    Wait,
    /// The message is added to the running turn of any client, and that turn is returned.
    Join,
    /// [`crate::Error::ThreadBusy`].
    Error,
}

impl TurnOptions {
    /// A turn with this message.
    pub fn new(message: impl Into<Input>) -> Self {
        let Input(input) = message.into();
        TurnStartParams { input, ..Default::default() }.into()
    }

    /// Sets the behaviour while another turn runs.
    #[must_use]
    pub fn on_busy(self, on_busy: OnBusy) -> Self {
        Self { on_busy, ..self }
    }

    /// Sets the model, of this turn and later ones.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.params.model = Some(model.into());
        self
    }

    /// Sets how long the model reasons, in this turn and later ones.
    #[must_use]
    pub fn effort(mut self, effort: ReasoningEffort) -> Self {
        self.params.effort = Some(effort);
        self
    }

    /// Sets the working folder, of this turn and later ones.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.params.cwd = Some(folder.into().to_string_lossy().into_owned());
        self
    }

    /// Sets the limit of the tokens, input and output, that the turn may use with its agents: the server holds it.
    #[must_use]
    pub fn max_total_tokens(mut self, limit: i64) -> Self {
        self.params.max_total_tokens = Some(limit);
        self
    }

    /// Sets the limit of its cost.
    #[must_use]
    pub fn max_cost(self, limit: Amount) -> Self {
        Self { max_cost: Some(limit), ..self }
    }

    /// Sets the time after which the turn is interrupted.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        Self { timeout: Some(limit), ..self }
    }

    /// Sets whether the turn is interrupted when nothing waits for it any longer.
    #[must_use]
    pub fn interrupt_on_drop(self, interrupts: bool) -> Self {
        Self { interrupt_on_drop: interrupts, ..self }
    }

    /// Asks for an answer that is a value of a type: [`crate::TurnResult::output`] has it. The schema that is sent is
    /// strict, as the hosted API takes it, with the members in their order: every member is required, and none else is
    /// allowed; one with a default may be null, and has its default then. A type that would mean something else so, such
    /// as a map with free keys, is sent as it is.
    #[must_use]
    pub fn output<T: JsonSchema>(self) -> Self {
        let of = OutputType::of::<T>();
        Self { output_type: Some(of.clone()), ..self.output_schema(of.sent()) }
    }

    /// Asks for an answer that follows a JSON Schema, which is sent as it is.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.params.output_schema = Some(schema.into());
        Self { output_type: None, ..self }
    }

    /// Sets the application's own value for the callbacks and tools of this turn: [`crate::CallContext::user`].
    #[must_use]
    pub fn context<C: Send + Sync + 'static>(self, value: C) -> Self {
        Self { context: Some(Arc::new(value)), ..self }
    }
}

impl From<TurnStartParams> for TurnOptions {
    fn from(params: TurnStartParams) -> Self {
        Self { params, ..Default::default() }
    }
}
