//! A conversation with the agent.

use std::sync::Arc;

use protocol::{ThreadIdParams, ThreadNameSetParams, ThreadReadParams, TurnStartParams};

use crate::shared::Shared;
use crate::{Error, Input, Turn, TurnResult};

/// A conversation with the agent.
#[derive(Clone)]
pub struct Thread {
    shared: Arc<Shared>,
    id: String,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, id: String) -> Self {
        Self { shared, id }
    }

    /// By which [`crate::Agent::resume`] finds it again.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Starts a turn.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn turn(&self, message: impl Into<Input>) -> Result<Turn, Error> {
        let Input(input) = message.into();
        self.turn_with(TurnStartParams { input, ..Default::default() }).await
    }

    /// Starts a turn with settings of its own. The id of the thread need not be given.
    ///
    /// ```no_run
    /// # async fn example(thread: &agentd_sdk::Thread) -> Result<(), agentd_sdk::Error> {
    /// use agentd_sdk::protocol::TurnStartParams;
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
    ///     output_schema: Some(schema),
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
        // Before the turn starts, so that no event of it is missed.
        let events = self.shared.hub.subscribe(&self.id);
        let params = TurnStartParams { thread_id: self.id.clone(), ..params };
        let started = self.shared.request::<protocol::TurnStart>(&params).await?;
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

    /// Summarizes the thread's history, in a turn of its own.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn compact(&self) -> Result<(), Error> {
        let params = ThreadIdParams { thread_id: self.id.clone() };
        self.shared.request::<protocol::ThreadCompactStart>(&params).await.map(|_| ())
    }
}
