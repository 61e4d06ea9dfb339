//! A turn in progress, and its result.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use jsonrpc::DecodeError;
use protocol::{
    ItemAgentMessageDelta, ItemCompleted, ItemStarted, ReviewFinding, ThreadItem, ThreadTokenUsage,
    ThreadTokenUsageUpdated, TokenCost, TokenUsageBreakdown, TurnCompleted, TurnInterruptParams,
    TurnStarted, TurnStatus, TurnSteerParams,
};
use serde::de::DeserializeOwned;

use crate::ends::End;
use crate::error::TurnFailure;
use crate::event::Event;
use crate::feed::{Entry, Feed};
use crate::output::{self, OutputType};
use crate::run::Leash;
use crate::transcript::Transcript;
use crate::{Error, Input, Notification, Progress, Thread};

/// A turn in progress: a stream of its events. Dropping it does not interrupt the turn, unless
/// [`crate::TurnOptions::interrupt_on_drop`] is set.
pub struct Turn {
    thread: Thread,
    id: String,
    feed: Arc<Feed>,
    /// Of a turn that this agent started.
    end: Option<Arc<End>>,
    /// Of a turn that is interrupted when it is dropped.
    _leash: Option<Leash>,
    /// Of the answer, if one was named.
    output_type: Option<OutputType>,
    transcript: Transcript,
    /// Events that were made of one entry.
    queue: VecDeque<TurnEvent>,
    /// True if the server has begun it.
    has_begun: bool,
    /// The turn of another client that it joined, whose items are its own from then on; with it those that
    /// joined the same.
    joined: Vec<String>,
    /// The end of the turn, or the reason why no further event arrives.
    ended: Option<Result<protocol::Turn, Error>>,
}

/// An event of a turn.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TurnEvent {
    /// The answer goes on.
    Text(String),
    /// A message during the work goes on.
    Commentary(String),
    /// A part of the turn begins.
    ItemStarted(Box<ThreadItem>),
    /// A part of the turn in its final form.
    ItemCompleted(Box<ThreadItem>),
    /// The turn's usage so far.
    Usage(Box<ThreadTokenUsage>),
    /// In place of events that are gone, after a lost connection: the turn with its items so far.
    Replaced(Box<protocol::Turn>),
    /// The turn has ended; the last event.
    Completed(Box<protocol::Turn>),
    /// Every other notification about the turn, and items that only a later version of this crate knows.
    Other(Notification),
}

/// A turn that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TurnResult {
    /// The answer: the agent's last message that is no commentary.
    pub text: String,
    /// The agent's messages during the work, in their order.
    pub commentary: Vec<String>,
    /// The parts of the turn that this version of the crate knows.
    pub items: Vec<ThreadItem>,
    /// The tokens of the thread (`total`) and of the last request (`last`).
    pub usage: Option<ThreadTokenUsage>,
    /// The tokens of this turn alone.
    pub turn_usage: Option<TokenUsageBreakdown>,
    /// The cost; `None` where the server reports none.
    pub cost: Option<TokenCost>,
    /// The text of a review; `None` of every other turn.
    pub review: Option<String>,
    /// The findings of a review; `None` where the server does not report them apart from the text.
    pub findings: Option<Vec<ReviewFinding>>,
    /// The review's own summary of its findings.
    pub explanation: Option<String>,
    /// The turn at its end.
    pub turn: protocol::Turn,
    progress: Box<Progress>,
    output_type: Option<OutputType>,
}

/// A turn that has ended, with its answer as a value: [`crate::Thread::run_as`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TypedResult<T> {
    /// The answer.
    pub output: T,
    /// The whole turn.
    pub result: TurnResult,
}

impl Turn {
    pub(crate) fn new(thread: Thread, id: String, feed: Arc<Feed>, end: Option<Arc<End>>) -> Self {
        Self {
            thread,
            id,
            feed,
            end,
            _leash: None,
            output_type: None,
            transcript: Transcript::default(),
            queue: VecDeque::new(),
            has_begun: false,
            joined: Vec::new(),
            ended: None,
        }
    }

    /// The same turn, which is interrupted when it is dropped.
    pub(crate) fn with_leash(self, leash: Option<Leash>) -> Self {
        Self { _leash: leash, ..self }
    }

    /// The same turn, whose answer is a value of this type.
    pub(crate) fn with_output(self, output_type: Option<OutputType>) -> Self {
        Self { output_type, ..self }
    }

    /// The id of the turn.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The thread that it runs in: of a detached review, the fork.
    #[must_use]
    pub fn thread(&self) -> &Thread {
        &self.thread
    }

    /// The part of the turn that was read so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.transcript.progress(self.thread.id(), &self.id)
    }

    /// The next event; `None` when the turn has ended. Cancel safe: no event is lost.
    ///
    /// # Errors
    /// [`Error::ConnectionLost`], after which no event comes.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, Error>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The next piece of the answer; `None` when the turn has ended. Cancel safe.
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

    /// The next piece of the agent's messages during the work; `None` when the turn has ended. Cancel safe.
    ///
    /// # Errors
    /// As [`Turn::next`].
    pub async fn next_commentary(&mut self) -> Result<Option<String>, Error> {
        while let Some(event) = self.next().await {
            if let TurnEvent::Commentary(text) = event? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// Waits for the end. Dropping the future leaves the turn as it is. A limit of the wait is
    /// [`crate::TurnOptions::timeout`].
    ///
    /// # Errors
    /// [`Error::TurnFailed`], [`Error::TurnInterrupted`], [`Error::TurnTimeout`], [`Error::BudgetExceeded`] and
    /// [`Error::ConnectionLost`].
    pub async fn result(&mut self) -> Result<TurnResult, Error> {
        while let Some(event) = self.next().await {
            event?;
        }
        let progress = self.progress();
        let turn = match &self.ended {
            Some(ended) => ended.clone()?,
            None => return Err(Error::TurnInterrupted(Box::new(progress))),
        };
        if let Some(End::Turn(end)) = self.end.as_deref()
            && let Some(why) = end.exceeded()
        {
            return Err(Error::BudgetExceeded { why, progress: Box::new(progress) });
        }
        if turn.status == TurnStatus::Interrupted
            && let Some(End::Turn(end)) = self.end.as_deref()
            && let Some(late) = end.late()
        {
            return Err(late.of_turn(progress));
        }
        ended_well(&turn, || progress.clone())?;
        let review = self.transcript.review();
        Ok(TurnResult {
            text: progress.text.clone(),
            commentary: progress.commentary.clone(),
            items: progress.items.clone(),
            usage: progress.usage.clone(),
            turn_usage: progress.turn_usage,
            cost: progress.cost.clone(),
            review: review.map(|review| review.review.clone()),
            findings: review.and_then(|review| review.findings.clone()),
            explanation: review.and_then(|review| review.explanation.clone()),
            turn,
            progress: Box::new(progress),
            output_type: self.output_type.clone(),
        })
    }

    /// Adds a message to the turn.
    ///
    /// # Errors
    /// [`Error::Refused`], when it has ended, and [`Error::ConnectionLost`].
    pub async fn steer(&self, message: impl Into<Input>) -> Result<(), Error> {
        let Input(input) = message.into();
        let params = TurnSteerParams {
            thread_id: self.thread.id().to_owned(),
            input,
            expected_turn_id: self.id.clone(),
            responsesapi_client_metadata: None,
        };
        self.thread.shared.request::<protocol::TurnSteer>(&params).await.map(|_| ())
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// [`Error::Refused`], when it has ended, and [`Error::ConnectionLost`].
    pub async fn interrupt(&self) -> Result<(), Error> {
        let (thread_id, turn_id) = (self.thread.id().to_owned(), self.id.clone());
        let params = TurnInterruptParams { thread_id, turn_id };
        self.thread.shared.request::<protocol::TurnInterrupt>(&params).await.map(|_| ())
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<TurnEvent, Error>>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.ended.is_some() {
                return Poll::Ready(None);
            }
            match ready!(self.feed.poll_next(cx)) {
                Entry::Event(event) => {
                    if !self.concerns(&event) {
                        continue;
                    }
                    let notification = &event.notification;
                    let cursor = notification.cursor.as_deref();
                    self.thread.state.hand_out(cursor, event.order);
                    if let Err(error) = self.take(&event) {
                        let name = &notification.method;
                        let why = self.thread.shared.broken(format!("`{name}`: {error}"));
                        return Poll::Ready(Some(Err(self.fail(why))));
                    }
                }
                Entry::Turn(turn) => self.replace(&turn),
                Entry::Failed(why) => return Poll::Ready(Some(Err(self.fail(why)))),
                Entry::Replaced(_) | Entry::Reopen | Entry::Lagged => {}
            }
        }
    }

    /// Returns whether an event is one of this turn, or of the turn that it joined, after it did.
    fn concerns(&mut self, event: &Event) -> bool {
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
        let why = why.of_turn(self.progress());
        self.leave();
        self.ended = Some(Err(why.clone()));
        why
    }

    /// Collects no further events.
    fn leave(&self) {
        self.thread.state.remove_turn(&Arc::downgrade(&self.feed));
    }

    fn take(&mut self, event: &Event) -> Result<(), DecodeError> {
        let notification = &event.notification;
        if let Some(delta) = notification.read::<ItemAgentMessageDelta>() {
            let delta = delta?;
            self.transcript.write(&delta.item_id, &delta.delta);
            self.say(&delta.item_id, delta.delta);
        } else if let Some(completed) = notification.read::<TurnCompleted>() {
            self.complete(completed?.turn);
        } else if let Some(Ok(started)) = notification.read::<ItemStarted>() {
            self.transcript.begin(&started.item);
            self.queue.push_back(TurnEvent::ItemStarted(Box::new(started.item)));
        } else if let Some(Ok(completed)) = notification.read::<ItemCompleted>() {
            let item = completed.item;
            if let Some(rest) = self.transcript.complete(&item) {
                self.say(item.id(), rest);
            }
            self.queue.push_back(TurnEvent::ItemCompleted(Box::new(item)));
        } else if let Some(Ok(updated)) = notification.read::<ThreadTokenUsageUpdated>() {
            let usage = updated.token_usage;
            self.transcript.usage.take(usage.clone());
            self.queue.push_back(TurnEvent::Usage(Box::new(usage)));
        } else {
            self.queue.push_back(TurnEvent::Other(notification.clone()));
        }
        Ok(())
    }

    fn replace(&mut self, turn: &protocol::Turn) {
        self.has_begun = true;
        let is_running = turn.status == TurnStatus::InProgress;
        for item in &turn.items {
            let rest = if is_running {
                self.transcript.replace(item)
            } else {
                self.transcript.complete(item)
            };
            if let Some(rest) = rest {
                self.say(item.id(), rest);
            }
        }
        self.queue.push_back(TurnEvent::Replaced(Box::new(turn.clone())));
        if !is_running {
            self.complete(turn.clone());
        }
    }

    fn say(&mut self, item_id: &str, text: String) {
        self.queue.push_back(if self.transcript.is_commentary(item_id) {
            TurnEvent::Commentary(text)
        } else {
            TurnEvent::Text(text)
        });
    }

    fn complete(&mut self, turn: protocol::Turn) {
        self.leave();
        self.ended = Some(Ok(turn.clone()));
        self.queue.push_back(TurnEvent::Completed(Box::new(turn)));
    }
}

/// The error of a turn that did not end well.
pub(crate) fn ended_well(
    turn: &protocol::Turn,
    progress: impl Fn() -> Progress,
) -> Result<(), Error> {
    match turn.status {
        TurnStatus::Failed => Err(Error::TurnFailed(Box::new(TurnFailure {
            error: turn.error.clone(),
            progress: progress(),
        }))),
        TurnStatus::Interrupted => Err(Error::TurnInterrupted(Box::new(progress()))),
        TurnStatus::Completed | TurnStatus::InProgress => Ok(()),
    }
}

impl Stream for Turn {
    type Item = Result<TurnEvent, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

impl TurnResult {
    /// The answer as the value that an output schema or [`crate::TurnOptions::output`] asked for. A member that is null in
    /// place of missing gets its default, if the type was named there.
    ///
    /// # Errors
    /// [`Error::InvalidOutput`], with the answer and the path of the mistake.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, Error> {
        output::read(&self.text, self.output_type.as_ref()).map_err(|(path, why)| {
            Error::InvalidOutput {
                path,
                why,
                text: self.text.clone(),
                progress: self.progress.clone(),
            }
        })
    }
}
