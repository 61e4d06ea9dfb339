//! A conversation with the agent.

use std::sync::Arc;

use protocol::{ThreadIdParams, ThreadNameSetParams, ThreadReadParams, TurnStartParams};
use tokio::sync::oneshot;

use crate::compaction;
use crate::order::ThreadOrder;
use crate::shared::Shared;
use crate::{Error, Input, Turn, TurnResult};

/// A conversation with the agent.
#[derive(Clone)]
pub struct Thread {
    shared: Arc<Shared>,
    id: String,
    order: ThreadOrder,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, id: String) -> Self {
        let order = shared.orders.of_thread(&id);
        Self { shared, id, order }
    }

    /// By which [`crate::Agent::resume`] finds it again.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
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
        let Input(input) = message.into();
        self.turn_with(TurnStartParams { input, ..Default::default() }).await
    }

    /// Starts a turn with settings of its own, as [`Thread::turn`] does. The id of the thread need not be given.
    ///
    /// ```no_run
    /// # async fn example(thread: &agentd_embed::Thread) -> Result<(), agentd_embed::Error> {
    /// use agentd_embed::protocol::TurnStartParams;
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Plan {
    ///     steps: Vec<String>,
    /// }
    ///
    /// let schema = json!({
    ///     "type": "object",
    ///     "properties": { "steps": { "type": "array", "items": { "type": "string" } } },
    ///     "required": ["steps"],
    ///     "additionalProperties": false,
    /// });
    /// let params = TurnStartParams {
    ///     input: vec!["Plan it".into()],
    ///     output_schema: Some(schema.into()),
    ///     ..Default::default()
    /// };
    /// let plan: Plan = thread.turn_with(params).await?.result().await?.output()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn turn_with(&self, params: TurnStartParams) -> Result<Turn, Error> {
        let place = self.order.take().await;
        // Before the turn starts, so that no event of it is missed.
        let events = self.shared.hub.subscribe(&self.id);
        let mut ends = self.shared.hub.ends(&self.id);
        let params = TurnStartParams { thread_id: self.id.clone(), ..params };
        let (sender, response) = oneshot::channel();
        let shared = self.shared.clone();
        // Outside of this future, which may be dropped: the turn runs all the same.
        tokio::spawn(async move {
            let started = shared.request::<protocol::TurnStart>(&params).await;
            let turn_id = started.as_ref().ok().map(|started| started.turn.id.clone());
            // Without a receiver, there is no follower of the turn.
            let _ = sender.send(started);
            if let Some(turn_id) = turn_id {
                while ends.recv().await.is_some_and(|ended| ended != turn_id) {}
            }
            drop(place);
        });
        let started = response.await.unwrap_or_else(|_| Err(no_runtime()))?;
        Ok(Turn::new(self.shared.clone(), self.id.clone(), started.turn.id, events))
    }

    /// Runs a turn to its end.
    ///
    /// # Errors
    /// As [`Thread::turn`] and [`Turn::result`].
    pub async fn run(&self, message: impl Into<Input>) -> Result<TurnResult, Error> {
        self.turn(message).await?.result().await
    }

    /// The stored thread with its turns.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn read(&self) -> Result<protocol::Thread, Error> {
        let params = ThreadReadParams { thread_id: self.id.clone(), include_turns: true };
        Ok(self.shared.request::<protocol::ThreadRead>(&params).await?.thread)
    }

    /// Sets the thread's title.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn rename(&self, name: &str) -> Result<(), Error> {
        let params = ThreadNameSetParams { thread_id: self.id.clone(), name: name.to_owned() };
        self.shared.request::<protocol::ThreadNameSet>(&params).await.map(|_| ())
    }

    /// Moves the thread out of the list.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn archive(&self) -> Result<(), Error> {
        let params = ThreadIdParams { thread_id: self.id.clone() };
        self.shared.request::<protocol::ThreadArchive>(&params).await.map(|_| ())
    }

    /// Summarizes the thread's history, in a turn of its own, and waits for its end. It begins once the turn
    /// that this agent started before it has ended. Dropping the future does not end it.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::TurnFailed`], [`Error::TurnInterrupted`] and [`Error::ConnectionLost`].
    pub async fn compact(&self) -> Result<(), Error> {
        let place = self.order.take().await;
        let events = self.shared.hub.subscribe(&self.id);
        let params = ThreadIdParams { thread_id: self.id.clone() };
        let shared = self.shared.clone();
        let compacting = tokio::spawn(async move {
            let _place = place;
            shared.request::<protocol::ThreadCompactStart>(&params).await?;
            compaction::ended(&shared, events).await
        });
        compacting.await.unwrap_or_else(|_| Err(no_runtime()))
    }
}

/// A task of this crate was ended from outside.
fn no_runtime() -> Error {
    Error::ConnectionLost("the tokio runtime is shutting down".to_owned())
}
