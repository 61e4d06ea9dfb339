//! The state of a node that runs batches, and its shutdown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratelimit::Micros;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

/// Duration of leases.
pub(crate) const LEASE: Micros = 30_000_000;
/// Concurrent validations of input files: each holds one line and all custom ids in memory.
const MAX_CHECKS: usize = 4;
/// Longest wait for work that has been cancelled.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The state of a node that runs batches.
#[derive(Debug)]
pub(crate) struct Runner {
    /// The id of this node.
    node: Box<str>,
    /// Number of leases requested so far.
    leases: AtomicU64,
    /// Permits for validations.
    pub(crate) checks: Semaphore,
    /// Permits for lines of all batches on this node.
    pub(crate) lines: Arc<Semaphore>,
    wake: Notify,
    phase: watch::Sender<Phase>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// The phases of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Runs.
    Run,
    /// Finishes started work, and starts nothing.
    Stop,
    /// Releases started work.
    Cut,
}

impl Runner {
    pub(crate) fn new(node: &str, lines_per_node: u32) -> Self {
        Self {
            node: node.into(),
            leases: AtomicU64::new(0),
            checks: Semaphore::new(MAX_CHECKS),
            lines: Arc::new(Semaphore::new(lines_per_node as usize)),
            wake: Notify::new(),
            phase: watch::Sender::new(Phase::Run),
            task: Mutex::default(),
        }
    }

    /// A lease owner, unique per lease: a lease that this node has lost stays lost even while it holds
    /// a later one.
    pub(crate) fn owner(&self) -> Box<str> {
        format!("{}-{}", self.node, self.leases.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// Signals that there is work.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Lets open lines finish within that time, and releases everything else to other nodes.
    pub(crate) async fn drain(&self, patience: Duration) {
        let Some(mut task) = self.take_task() else { return };
        self.phase.send_replace(Phase::Stop);
        if tokio::time::timeout(patience, &mut task).await.is_ok() {
            return;
        }
        self.phase.send_replace(Phase::Cut);
        if tokio::time::timeout(2 * GRACE, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// Ends everything at once, as a crash does: other nodes continue once the leases have expired.
    #[cfg(feature = "test-support")]
    pub(crate) fn abort(&self) {
        if let Some(task) = self.take_task() {
            task.abort();
        }
    }

    /// The task that runs batches.
    pub(crate) fn set_task(&self, task: JoinHandle<()>) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// The current phase, with notification of changes.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits for [`Runner::wake`].
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    fn take_task(&self) -> Option<JoinHandle<()>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
