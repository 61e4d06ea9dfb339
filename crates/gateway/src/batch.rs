//! Batches in the background, outside the limits of synchronous traffic: which node runs which
//! batch, and how that ends. What a batch goes through is in `run`, its lines are in `lines`.
//!
//! Everything that a batch is stands in the store. A node works at a batch while it holds its
//! lease, and at a line while it holds that line's; a node that dies loses them after [`LEASE`], and
//! whoever comes next goes on where it was: lines that are done stay done.

mod check;
mod lease;
mod line;
mod lines;
mod outcome;
mod reading;
mod results;
mod run;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lease::Lease;
use ratelimit::Micros;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use check::check;

use crate::state::Gateway;
use gateway_store::records::batches;

/// How long a node holds what it works at, without word from it.
pub(crate) const LEASE: Micros = 30_000_000;
/// How often the store is asked for batches that nobody works at.
const POLL: Duration = Duration::from_secs(1);
/// Polls between two rounds of tidying: a minute.
const TIDY_EVERY: u32 = 60;
/// Steps of a round of tidying: each takes some thousand lines.
const TIDY_STEPS: u32 = 20;
/// Batches that a node works at, at once. What is beyond waits in the store.
const MOST_BATCHES: usize = 64;
/// Input files that are checked at once: each is held by the line, and its names.
const MOST_CHECKS: usize = 4;
/// How long is waited for work that was told to stop at once.
const GRACE: Duration = Duration::from_secs(5);

/// See the module.
#[derive(Debug)]
pub(crate) struct Runner {
    /// Who this node is.
    node: Box<str>,
    /// Leases that it has asked for.
    leases: AtomicU64,
    /// Places for checks.
    pub(crate) checks: Semaphore,
    lines: Arc<Semaphore>,
    wake: Notify,
    phase: watch::Sender<Phase>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the runner does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
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
            checks: Semaphore::new(MOST_CHECKS),
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

    fn take_task(&self) -> Option<JoinHandle<()>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Begins to run batches, for as long as there is a gateway.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let task = tokio::spawn(follow(Arc::downgrade(gateway), gateway.batches.phase.subscribe()));
    let mut place = gateway.batches.task.lock().unwrap_or_else(PoisonError::into_inner);
    *place = Some(task);
}

/// Gives a batch that was checked to whoever runs it.
pub(crate) async fn hand_over(gateway: &Gateway, batch: &str, owner: &str) {
    if let Err(error) = batches::renew(&gateway.database, batch, owner, 0).await {
        gateway.log.line(format_args!("{batch} is free when its lease is over: {error}"));
    }
    gateway.batches.wake();
}

async fn follow(gateway: Weak<Gateway>, mut phase: watch::Receiver<Phase>) {
    let mut running = JoinSet::new();
    let mut polls: u32 = 0;
    let mut failed = false;
    loop {
        let Some(strong) = gateway.upgrade() else { return };
        if *phase.borrow_and_update() != Phase::Run {
            break;
        }
        match round(&strong, &phase, &mut running, polls).await {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                failed = true;
                strong.log.line(format_args!("batches: {error}"));
            }
            Err(_) => {}
        }
        let wait = wait(&strong, &mut running, &mut phase);
        if tokio::time::timeout(POLL, wait).await.is_err() {
            polls = polls.wrapping_add(1);
        }
    }
    while let Some(ended) = running.join_next().await {
        log_panic(&gateway, ended);
    }
}

/// Ends when there may be something to do.
async fn wait(
    gateway: &Arc<Gateway>,
    running: &mut JoinSet<()>,
    phase: &mut watch::Receiver<Phase>,
) {
    tokio::select! {
        () = gateway.batches.wake.notified() => {}
        Some(ended) = running.join_next() => log_panic(&Arc::downgrade(gateway), ended),
        _ = phase.changed() => {}
    }
}

/// Takes batches that nobody works at; now and then forgets what is not needed any more.
async fn round(
    gateway: &Arc<Gateway>,
    phase: &watch::Receiver<Phase>,
    running: &mut JoinSet<()>,
    polls: u32,
) -> Result<(), gateway_store::database::DatabaseError> {
    let database = &gateway.database;
    while running.len() < MOST_BATCHES {
        let now = gateway.clock.now();
        if !batches::waits(database, now).await? {
            break;
        }
        let (owner, until) = (gateway.batches.owner(), now + LEASE);
        let Some(batch) = batches::claim(database, &owner, until, now).await? else { break };
        let lease = Lease { gateway: Arc::clone(gateway), batch: batch.id, owner, until };
        running.spawn(run::run(lease, phase.clone()));
    }
    if polls.is_multiple_of(TIDY_EVERY) {
        // A little at a time: what is left is for the next round.
        for _ in 0..TIDY_STEPS {
            if !batches::tidy(database).await? {
                break;
            }
        }
    }
    Ok(())
}

fn log_panic(gateway: &Weak<Gateway>, ended: Result<(), tokio::task::JoinError>) {
    if let (Err(error), Some(gateway)) = (ended, gateway.upgrade()) {
        gateway.log.line(format_args!("a batch was given up: {error}"));
    }
}
