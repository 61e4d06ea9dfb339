//! The stage of a job: whether it continues. The run of the job, its rows and their workers share
//! it.

use tokio::sync::watch;

/// The stage of a job. It only ever comes closer to the end. Clones share it.
#[derive(Clone)]
pub(super) struct Course(watch::Sender<Stage>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Rows are worked on.
    Open,
    /// No further row gets a worker; those that work finish theirs.
    Halted,
    /// The workers end, too.
    Ended,
}

impl Course {
    pub(super) fn open() -> Self {
        Self(watch::Sender::new(Stage::Open))
    }

    /// No further row gets a worker.
    pub(super) fn halt(&self) {
        self.advance(Stage::Halted);
    }

    /// The job ends before its rows have.
    pub(super) fn end(&self) {
        self.advance(Stage::Ended);
    }

    /// Returns whether further rows get workers.
    pub(super) fn is_open(&self) -> bool {
        *self.0.borrow() == Stage::Open
    }

    /// Waits until no further row gets a worker.
    pub(super) async fn halted(&self) {
        self.reached(Stage::Halted).await;
    }

    /// Waits until the job ends before its rows have.
    pub(super) async fn ended(&self) {
        self.reached(Stage::Ended).await;
    }

    async fn reached(&self, stage: Stage) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|current| *current >= stage).await;
    }

    fn advance(&self, to: Stage) {
        self.0.send_if_modified(|stage| {
            let is_later = *stage < to;
            *stage = to.max(*stage);
            is_later
        });
    }
}
