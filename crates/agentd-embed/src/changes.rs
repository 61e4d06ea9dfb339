//! Changes of a thread: its place in the list, its last turns, its goal.

use std::time::Duration;

use jsonrpc::Method as _;
use protocol::{
    RestoredFiles, ReviewDelivery, ReviewStart, ReviewStartParams, ReviewTarget, ThreadForkParams,
    ThreadGoal, ThreadGoalSetParams, ThreadIdParams, ThreadRollbackParams,
};

use crate::run::Bounds;
use crate::shared::unreadable;
use crate::{Amount, Error, Thread, Turn, run};

/// Settings of [`Thread::review`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReviewOptions {
    /// In the thread itself, which is the default, or in a fork of it: [`Turn::thread`].
    pub delivery: Option<ReviewDelivery>,
    /// As [`crate::TurnOptions::max_cost`].
    pub max_cost: Option<Amount>,
    /// As [`crate::TurnOptions::timeout`].
    pub timeout: Option<Duration>,
    /// As [`crate::TurnOptions::interrupt_on_drop`].
    pub interrupt_on_drop: bool,
}

/// Settings of [`Thread::undo`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct UndoOptions {
    /// Changes nothing, and returns what would be done.
    pub dry_run: bool,
    /// Also restores what something else has changed since.
    pub overwrite: bool,
}

impl ReviewOptions {
    /// Sets where the review runs.
    #[must_use]
    pub fn delivery(self, delivery: ReviewDelivery) -> Self {
        Self { delivery: Some(delivery), ..self }
    }

    /// Sets the limit of its cost.
    #[must_use]
    pub fn max_cost(self, limit: Amount) -> Self {
        Self { max_cost: Some(limit), ..self }
    }

    /// Sets the time after which it is interrupted.
    #[must_use]
    pub fn timeout(self, limit: Duration) -> Self {
        Self { timeout: Some(limit), ..self }
    }

    /// Sets whether it is interrupted when nothing waits for it any longer.
    #[must_use]
    pub fn interrupt_on_drop(self, interrupts: bool) -> Self {
        Self { interrupt_on_drop: interrupts, ..self }
    }
}

impl UndoOptions {
    /// Changes nothing, and returns what would be done.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    /// Also restores what something else has changed since.
    #[must_use]
    pub fn overwrite(self) -> Self {
        Self { overwrite: true, ..self }
    }
}

impl Thread {
    /// Starts a review, in the order of turns. Its [`crate::TurnResult`] has `review`, and `findings` where the server
    /// reports them apart from the text.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn review(
        &self,
        target: ReviewTarget,
        options: ReviewOptions,
    ) -> Result<Turn, Error> {
        let ReviewOptions { delivery, max_cost, timeout, interrupt_on_drop } = options;
        let bounds = Bounds::new(max_cost, timeout, interrupt_on_drop);
        let deadline = bounds.deadline();
        let params = ReviewStartParams { thread_id: self.id().to_owned(), target, delivery };
        let starting = run::start(self, ReviewStart::NAME, params, bounds, None);
        run::within(deadline, starting).await
    }

    /// Copies the thread. The copy has the same [`crate::CallContext::user`].
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn fork(&self) -> Result<Self, Error> {
        self.fork_with(ThreadForkParams { exclude_turns: true, ..Default::default() }).await
    }

    /// As [`Thread::fork`], with settings of its own. The id of the thread need not be given.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn fork_with(&self, params: ThreadForkParams) -> Result<Self, Error> {
        let params = ThreadForkParams { thread_id: self.id().to_owned(), ..params };
        let context = self.state.context();
        let state = self.shared.open(protocol::ThreadFork::NAME, &params, context).await?;
        Ok(Self { shared: self.shared.clone(), state })
    }

    /// Drops the last turns; files stay as they are.
    ///
    /// # Errors
    /// [`Error::Refused`], while a turn runs, say, and [`Error::ConnectionLost`].
    pub async fn rollback(&self, turns: u32) -> Result<protocol::Thread, Error> {
        let params = ThreadRollbackParams { num_turns: turns, ..self.rollback_params() };
        Ok(self.shared.request::<protocol::ThreadRollback>(&params).await?.thread)
    }

    /// Drops the last turns, and undoes what they did to files. Needs `features.undo` from before the turns on.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn undo(&self, turns: u32, options: UndoOptions) -> Result<RestoredFiles, Error> {
        let params = ThreadRollbackParams {
            num_turns: turns,
            restore_files: true,
            dry_run: options.dry_run,
            overwrite_changes: options.overwrite,
            ..self.rollback_params()
        };
        let undone = self.shared.request::<protocol::ThreadRollback>(&params).await?;
        let lacks = || unreadable(protocol::ThreadRollback::NAME, "it has no `files`");
        undone.files.ok_or_else(lacks)
    }

    /// Moves the thread back into the list.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn unarchive(&self) -> Result<(), Error> {
        self.shared.request::<protocol::ThreadUnarchive>(&self.named()).await.map(|_| ())
    }

    /// The goal, on which turns work by themselves until it is reached. Needs `features.goals`.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn goal(&self) -> Result<Option<ThreadGoal>, Error> {
        Ok(self.shared.request::<protocol::ThreadGoalGet>(&self.named()).await?.goal)
    }

    /// Sets the goal, or what is given of it; the id of the thread need not be. A turn starts by itself: follow it with
    /// [`Thread::events`] or [`Thread::running`].
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn set_goal(&self, goal: ThreadGoalSetParams) -> Result<ThreadGoal, Error> {
        let params = ThreadGoalSetParams { thread_id: self.id().to_owned(), ..goal };
        Ok(self.shared.request::<protocol::ThreadGoalSet>(&params).await?.goal)
    }

    /// Removes the goal; false when there was none.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::ConnectionLost`].
    pub async fn clear_goal(&self) -> Result<bool, Error> {
        Ok(self.shared.request::<protocol::ThreadGoalClear>(&self.named()).await?.cleared)
    }

    fn named(&self) -> ThreadIdParams {
        ThreadIdParams { thread_id: self.id().to_owned() }
    }

    fn rollback_params(&self) -> ThreadRollbackParams {
        ThreadRollbackParams {
            thread_id: self.id().to_owned(),
            num_turns: 0,
            restore_files: false,
            dry_run: false,
            overwrite_changes: false,
        }
    }
}
