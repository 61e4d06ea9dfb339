//! A turn in progress, and what remains of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use jsonrpc::{DecodeError, Notification as Marker, read_params};
use protocol::{
    ItemAgentMessageDelta, ItemCompleted, ItemStarted, ThreadItem, ThreadTokenUsage,
    ThreadTokenUsageUpdated, TurnCompleted, TurnInterruptParams, TurnStarted, TurnStatus,
    TurnSteerParams,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::hub::TurnNotification;
use crate::shared::Shared;
use crate::{Error, Input};

/// A turn in progress: a stream of its events. Dropping it does not interrupt the turn.
pub struct Turn {
    shared: Arc<Shared>,
    thread_id: String,
    id: String,
    events: mpsc::Receiver<TurnNotification>,
    /// True if the server has begun it.
    has_begun: bool,
    /// The turn of another client that it joined, whose items are its own from then on; with it those that
    /// joined the same.
    joined: Vec<String>,
    items: Vec<ThreadItem>,
    usage: Option<ThreadTokenUsage>,
    /// The end of the turn, or the reason why no further event arrives.
    ended: Option<Result<protocol::Turn, Error>>,
}

/// An event of a turn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEvent {
    /// The agent's message goes on.
    Text(String),
    /// A part of the turn begins.
    ItemStarted(Box<ThreadItem>),
    /// A part of the turn in its final form.
    ItemCompleted(Box<ThreadItem>),
    /// The turn's usage so far.
    Usage(Box<ThreadTokenUsage>),
    /// The turn has ended; the last event.
    Completed(Box<protocol::Turn>),
    /// Every other notification about the turn, and items that only a later version of this crate knows.
    Other(Notification),
}

/// A notification as the server sent it.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Its name.
    pub method: String,
    /// Its parameters.
    pub params: Box<RawValue>,
}

/// A turn that has ended.
#[derive(Clone, Debug)]
pub struct TurnResult {
    /// The agent's last message.
    pub text: String,
    /// The parts of the turn that this version of the crate knows.
    pub items: Vec<ThreadItem>,
    /// The turn's usage.
    pub usage: Option<ThreadTokenUsage>,
    /// The turn at its end.
    pub turn: protocol::Turn,
}

impl Notification {
    /// The parameters, if it is this notification.
    ///
    /// ```
    /// use agentd_embed::Notification;
    /// use agentd_embed::protocol::TurnPlanUpdated;
    ///
    /// fn steps(notification: &Notification) -> Option<usize> {
    ///     let plan = notification.read::<TurnPlanUpdated>()?.ok()?;
    ///     Some(plan.plan.len())
    /// }
    /// ```
    pub fn read<N>(&self) -> Option<Result<N::Params, DecodeError>>
    where
        N: Marker<Params: DeserializeOwned>,
    {
        self.is::<N>().then(|| read_params(Some(&self.params)))
    }

    /// Returns whether it is this notification.
    #[must_use]
    pub fn is<N: Marker>(&self) -> bool {
        self.method == N::NAME
    }
}

impl Turn {
    pub(crate) fn new(
        shared: Arc<Shared>,
        thread_id: String,
        id: String,
        events: mpsc::Receiver<TurnNotification>,
    ) -> Self {
        Self {
            shared,
            thread_id,
            id,
            events,
            has_begun: false,
            joined: Vec::new(),
            items: Vec::new(),
            usage: None,
            ended: None,
        }
    }

    /// The id of the turn.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The next event; `None` when the turn has ended. Cancel safe: no event is lost.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`] and [`Error::Unread`], after which no event comes.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, Error>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The next piece of the agent's messages; `None` when the turn has ended. Cancel safe.
    ///
    /// # Errors
    /// As [`Turn::next`].
    pub async fn next_text(&mut self) -> Result<Option<String>, Error> {
        while let Some(event) = self.next().await {
            if let TurnEvent::Text(text) = event? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// Waits for the end. Dropping the future leaves the turn as it is: to limit the wait, use a timeout and
    /// [`Turn::interrupt`].
    ///
    /// # Errors
    /// [`Error::TurnFailed`], [`Error::TurnInterrupted`], [`Error::ConnectionLost`] and [`Error::Unread`].
    pub async fn result(&mut self) -> Result<TurnResult, Error> {
        while let Some(event) = self.next().await {
            event?;
        }
        let turn = match &self.ended {
            Some(ended) => ended.clone()?,
            None => return Err(Error::TurnInterrupted),
        };
        match turn.status {
            TurnStatus::Failed => return Err(Error::TurnFailed(turn.error.map(Box::new))),
            TurnStatus::Interrupted => return Err(Error::TurnInterrupted),
            TurnStatus::Completed | TurnStatus::InProgress => {}
        }
        let text = self.items.iter().rev().find_map(|item| match item {
            ThreadItem::AgentMessage(message) => Some(message.text.clone()),
            _ => None,
        });
        let text = text.unwrap_or_default();
        Ok(TurnResult { text, items: self.items.clone(), usage: self.usage.clone(), turn })
    }

    /// Adds a message to the turn.
    ///
    /// # Errors
    /// [`Error::Refused`], when it has ended, and [`Error::ConnectionLost`].
    pub async fn steer(&self, message: impl Into<Input>) -> Result<(), Error> {
        let Input(input) = message.into();
        let params = TurnSteerParams {
            thread_id: self.thread_id.clone(),
            input,
            expected_turn_id: self.id.clone(),
            responsesapi_client_metadata: None,
        };
        self.shared.request::<protocol::TurnSteer>(&params).await.map(|_| ())
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// [`Error::Refused`], when it has ended, and [`Error::ConnectionLost`].
    pub async fn interrupt(&self) -> Result<(), Error> {
        let (thread_id, turn_id) = (self.thread_id.clone(), self.id.clone());
        let params = TurnInterruptParams { thread_id, turn_id };
        self.shared.request::<protocol::TurnInterrupt>(&params).await.map(|_| ())
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<TurnEvent, Error>>> {
        while self.ended.is_none() {
            let Some(event) = ready!(self.events.poll_recv(cx)) else {
                let why = self.shared.lost().unwrap_or(Error::Unread);
                return Poll::Ready(Some(Err(self.fail(why))));
            };
            if !self.concerns(&event) {
                continue;
            }
            let name = event.notification.method.clone();
            return Poll::Ready(Some(self.take(event.notification).map_err(|error| {
                let why = Error::not_the_protocol(format!("`{name}`: {error}"));
                let why = self.shared.give_up(why);
                self.fail(why)
            })));
        }
        Poll::Ready(None)
    }

    /// Returns whether an event is one of this turn, or of the turn that it joined, after it did.
    fn concerns(&mut self, event: &TurnNotification) -> bool {
        let Some(turn_id) = event.turn_id.as_deref() else { return false };
        let notification = &event.notification;
        if turn_id == self.id {
            self.has_begun |= notification.is::<TurnStarted>();
            return true;
        }
        // A thread runs one turn: what begins now in another one is the answer to both.
        let begins = notification.is::<ItemStarted>() || notification.is::<ItemAgentMessageDelta>();
        let is_known = self.joined.iter().any(|joined| joined == turn_id);
        if self.has_begun && begins && !is_known {
            self.joined.push(turn_id.to_owned());
            return true;
        }
        is_known && !notification.is::<TurnCompleted>()
    }

    fn fail(&mut self, why: Error) -> Error {
        self.ended = Some(Err(why.clone()));
        why
    }

    fn take(&mut self, notification: Notification) -> Result<TurnEvent, DecodeError> {
        Ok(if let Some(delta) = notification.read::<ItemAgentMessageDelta>() {
            TurnEvent::Text(delta?.delta)
        } else if let Some(completed) = notification.read::<TurnCompleted>() {
            let turn = completed?.turn;
            self.ended = Some(Ok(turn.clone()));
            TurnEvent::Completed(Box::new(turn))
        } else if let Some(Ok(started)) = notification.read::<ItemStarted>() {
            TurnEvent::ItemStarted(Box::new(started.item))
        } else if let Some(Ok(completed)) = notification.read::<ItemCompleted>() {
            let item = completed.item;
            self.items.push(item.clone());
            TurnEvent::ItemCompleted(Box::new(item))
        } else if let Some(Ok(updated)) = notification.read::<ThreadTokenUsageUpdated>() {
            let usage = updated.token_usage;
            self.usage = Some(usage.clone());
            TurnEvent::Usage(Box::new(usage))
        } else {
            TurnEvent::Other(notification)
        })
    }
}

impl Stream for Turn {
    type Item = Result<TurnEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

impl TurnResult {
    /// The agent's last message as the value that an output schema asked for.
    ///
    /// # Errors
    /// [`Error::InvalidOutput`], with the message.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.text)
            .map_err(|why| Error::InvalidOutput { why: why.to_string(), text: self.text.clone() })
    }
}
