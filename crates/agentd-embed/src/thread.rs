//! A conversation with the agent.

use std::sync::Arc;

use jsonrpc::Method as _;
use protocol::{
    ThreadIdParams, ThreadNameSetParams, ThreadReadParams, ThreadStatus, ThreadTokenUsage,
    TurnStartParams,
};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::feed::Feed;
use crate::run::{self, Bounds};
use crate::shared::Shared;
use crate::state::ThreadState;
use crate::turn_options::{OnBusy, TurnOptions};
use crate::{Error, Input, RefusalKind, ThreadEvents, Turn, TurnResult, TypedResult};

/// Attempts to steer a turn that ends at that moment, before one is started.
const STEERING: u32 = 3;

/// A conversation with the agent.
#[derive(Clone)]
pub struct Thread {
    pub(crate) shared: Arc<Shared>,
    /// All objects for the thread share one.
    pub(crate) state: Arc<ThreadState>,
}

impl Thread {
    /// By which [`crate::Agent::resume`] finds it again.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// The newest cursor that [`Thread::events`] or a turn handed out; at first that of the thread's opening.
    #[must_use]
    pub fn cursor(&self) -> Option<String> {
        self.state.cursor()
    }

    /// Every event of the thread, of the turns of any client: from now on, or after the event with this cursor, also of
    /// another process. It does not end, and goes on over lost connections. Where the server no longer has the events,
    /// one [`crate::ThreadEvent::Replaced`] holds the turns.
    ///
    /// ```no_run
    /// # async fn example(thread: &agentd_embed::Thread, cursor: Option<&str>) -> Result<(), agentd_embed::Error> {
    /// let mut events = thread.events(cursor);
    /// while let Some(event) = events.next().await {
    ///     let event = event?;
    ///     println!("{event:?}, after which {:?} is the cursor", event.cursor());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events(&self, cursor: Option<&str>) -> ThreadEvents {
        ThreadEvents::new(self.shared.clone(), self.state.clone(), cursor)
    }

    /// The tokens and the cost, as they were reported last to this agent.
    #[must_use]
    pub fn usage(&self) -> Option<ThreadTokenUsage> {
        self.state.usage()
    }

    /// Starts a turn, once the turn or compaction that this agent started before it in the thread has ended,
    /// even when that one was dropped; [`Turn::steer`] adds to a turn that runs. A function of the agent
    /// that the running turn waits for, such as a tool, must not wait for a turn of the same thread.
    ///
    /// A turn that another client runs in the thread is not waited for: the new turn joins it, and has its
    /// events from then on.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn turn(&self, message: impl Into<Input>) -> Result<Turn, Error> {
        self.turn_with(TurnOptions::new(message)).await
    }

    /// Starts a turn with settings of its own. The id of the thread need not be given.
    ///
    /// ```no_run
    /// # async fn example(thread: &agentd_embed::Thread) -> Result<(), agentd_embed::Error> {
    /// use agentd_embed::TurnOptions;
    /// use agentd_embed::protocol::{ReasoningEffort, TurnStartParams};
    ///
    /// let params = TurnStartParams {
    ///     input: vec!["Plan it".into()],
    ///     effort: Some(ReasoningEffort::High),
    ///     ..Default::default()
    /// };
    /// let turn = thread.turn_with(TurnOptions::from(params).max_cost("0.50".parse()?)).await?;
    /// # drop(turn);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::ThreadBusy`] and [`Error::ConnectionLost`].
    pub async fn turn_with(&self, options: impl Into<TurnOptions>) -> Result<Turn, Error> {
        let options = options.into();
        let bounds =
            Bounds::new(options.max_cost.clone(), options.timeout, options.interrupt_on_drop);
        run::within(bounds.deadline(), self.start(options, bounds)).await
    }

    async fn start(&self, options: TurnOptions, bounds: Bounds) -> Result<Turn, Error> {
        let TurnOptions { params, on_busy, context, output_type, .. } = options;
        match on_busy {
            OnBusy::Wait => {}
            OnBusy::Join => {
                let has_options =
                    bounds.are_set() || context.is_some() || takes_more_than_a_message(&params);
                if let Some(turn) = self.join(&params, has_options).await? {
                    return Ok(turn);
                }
            }
            OnBusy::Error => self.refuse_if_busy().await?,
        }
        let params = TurnStartParams { thread_id: self.id().to_owned(), ..params };
        let turn = run::start(self, protocol::TurnStart::NAME, params, bounds, context).await?;
        Ok(turn.with_output(output_type))
    }

    /// Runs a turn to its end.
    ///
    /// # Errors
    /// As [`Thread::turn`] and [`Turn::result`].
    pub async fn run(&self, message: impl Into<Input>) -> Result<TurnResult, Error> {
        self.turn(message).await?.result().await
    }

    /// Runs a turn with settings of its own to its end.
    ///
    /// # Errors
    /// As [`Thread::turn_with`] and [`Turn::result`].
    pub async fn run_with(&self, options: impl Into<TurnOptions>) -> Result<TurnResult, Error> {
        self.turn_with(options).await?.result().await
    }

    /// Runs a turn to its end, whose answer is a value of a type: [`TurnOptions::output`].
    ///
    /// ```no_run
    /// # async fn example(thread: &agentd_embed::Thread) -> Result<(), agentd_embed::Error> {
    /// use agentd_embed::schemars::{self, JsonSchema};
    ///
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Plan {
    ///     title: String,
    ///     /// In the order of the work.
    ///     steps: Vec<String>,
    /// }
    ///
    /// let plan = thread.run_as::<Plan>("Plan it").await?.output;
    /// println!("{}: {} steps", plan.title, plan.steps.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Thread::run`], and [`Error::InvalidOutput`].
    pub async fn run_as<T: JsonSchema + DeserializeOwned>(
        &self,
        message: impl Into<Input>,
    ) -> Result<TypedResult<T>, Error> {
        self.run_as_with(TurnOptions::new(message)).await
    }

    /// As [`Thread::run_as`], with settings of its own.
    ///
    /// # Errors
    /// As [`Thread::run_with`], and [`Error::InvalidOutput`].
    pub async fn run_as_with<T: JsonSchema + DeserializeOwned>(
        &self,
        options: impl Into<TurnOptions>,
    ) -> Result<TypedResult<T>, Error> {
        let result = self.run_with(options.into().output::<T>()).await?;
        Ok(TypedResult { output: result.output()?, result })
    }

    /// The turn in progress of any client, followed to its end; it begins with [`crate::TurnEvent::Replaced`].
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn running(&self) -> Result<Option<Turn>, Error> {
        let feed = Feed::new(self.shared.pressure.clone(), true);
        let running = self.shared.running(&self.state, &feed).await?;
        Ok(running.map(|id| Turn::new(self.clone(), id, feed, None)))
    }

    /// Adds a message to the turn in progress of any client; false when none runs.
    ///
    /// # Errors
    /// [`Error::Refused`], by a review or a compaction, and [`Error::ConnectionLost`].
    pub async fn steer(&self, message: impl Into<Input>) -> Result<bool, Error> {
        let input = message.into();
        Ok(self.steer_running(&input).await?.is_some())
    }

    /// Ends the turn in progress of any client; false when none runs.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn interrupt(&self) -> Result<bool, Error> {
        let Some(turn) = self.running().await? else { return Ok(false) };
        match turn.interrupt().await {
            Ok(()) => Ok(true),
            // It has ended meanwhile.
            Err(Error::Refused { kind: RefusalKind::InvalidRequest, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The stored thread with its turns.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn read(&self) -> Result<protocol::Thread, Error> {
        let params = ThreadReadParams { thread_id: self.id().to_owned(), include_turns: true };
        Ok(self.shared.request::<protocol::ThreadRead>(&params).await?.thread)
    }

    /// Sets the thread's title.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn rename(&self, name: &str) -> Result<(), Error> {
        let (thread_id, name) = (self.id().to_owned(), name.to_owned());
        let params = ThreadNameSetParams { thread_id, name };
        self.shared.request::<protocol::ThreadNameSet>(&params).await.map(|_| ())
    }

    /// Moves the thread out of the list.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn archive(&self) -> Result<(), Error> {
        let params = ThreadIdParams { thread_id: self.id().to_owned() };
        self.shared.request::<protocol::ThreadArchive>(&params).await.map(|_| ())
    }

    /// Summarizes the thread's history, in a turn of its own, and waits for its end. It begins once the turn
    /// that this agent started before it has ended. Dropping the future does not end it.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TurnFailed`], [`Error::TurnInterrupted`] and [`Error::ConnectionLost`].
    pub async fn compact(&self) -> Result<(), Error> {
        run::compact(self).await
    }

    async fn refuse_if_busy(&self) -> Result<(), Error> {
        let params = ThreadReadParams { thread_id: self.id().to_owned(), include_turns: false };
        let is_active = self.state.order.is_held()
            || matches!(
                self.shared.request::<protocol::ThreadRead>(&params).await?.thread.status,
                ThreadStatus::Active { .. }
            );
        // Another call of this agent may have begun meanwhile.
        if is_active || self.state.order.is_held() {
            let why = "a turn or a compaction runs in the thread: wait for its end, or use `OnBusy::Join`";
            return Err(Error::ThreadBusy(why.to_owned()));
        }
        Ok(())
    }

    async fn join(
        &self,
        params: &TurnStartParams,
        has_options: bool,
    ) -> Result<Option<Turn>, Error> {
        if !has_options {
            return self.steer_running(&Input(params.input.clone())).await;
        }
        match self.running().await? {
            None => Ok(None),
            Some(_) => Err(Error::ThreadBusy(
                "a turn runs in the thread, and takes nothing but the message: leave `max_cost`, `timeout`, \
                 `interrupt_on_drop`, `context` and the parameters of a turn out, or wait for its end"
                    .to_owned(),
            )),
        }
    }

    async fn steer_running(&self, message: &Input) -> Result<Option<Turn>, Error> {
        for left in (0..STEERING).rev() {
            let Some(turn) = self.running().await? else { return Ok(None) };
            match turn.steer(message.clone()).await {
                Ok(()) => return Ok(Some(turn)),
                // It has ended meanwhile, unless it is a review or a compaction, which take no message.
                Err(Error::Refused { kind: RefusalKind::InvalidRequest, error, .. })
                    if left > 0
                        && !error.data.as_ref().is_some_and(|data| {
                            data.to_string().contains("ActiveTurnNotSteerable")
                        }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

fn takes_more_than_a_message(params: &TurnStartParams) -> bool {
    let message = TurnStartParams {
        thread_id: params.thread_id.clone(),
        input: params.input.clone(),
        ..Default::default()
    };
    *params != message
}
