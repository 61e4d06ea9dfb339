//! What a node needs to run batches, and how that ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratelimit::Micros;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinHandle;

/// How long a node holds what it works at, without word from it.
pub(crate) const LEASE: Micros = 30_000_000;
/// Input files that are checked at once: each is held by the line, and its names.
const MAX_CHECKS: usize = 4;
/// How long is waited for work that was told to stop at once.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Runner {
    /// Who this node is.
    node: Box<str>,
    /// Leases that it has asked for.
    leases: AtomicU64,
    /// Places for checks.
    pub(crate) checks: Semaphore,
    /// Permits for lines, of all batches of the node.
    pub(crate) lines: Arc<Semaphore>,
    wake: Notify,
    phase: watch::Sender<Phase>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the runner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It works.
    Run,
    /// It ends what it has begun, and begins nothing.
    Stop,
    /// It gives back what it has begun.
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

    /// Who holds a new lease. Each has a name of its own: what a node has lost is lost to itself
    /// too.
    pub(crate) fn owner(&self) -> Box<str> {
        format!("{}-{}", self.node, self.leases.fetch_add(1, Ordering::Relaxed)).into()
    }

    /// There is something to do.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Lets lines under way end within that time, and gives everything else back to other nodes.
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

    /// What the node does now, and when that changes.
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
