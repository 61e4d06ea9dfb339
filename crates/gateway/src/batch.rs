//! Batches in the background, outside the limits of synchronous requests: which node runs which
//! batch, and how a run ends. The states of a batch are in `run`, its lines in `lines`.
//!
//! The store has the whole state of a batch. A node works on a batch while it holds the batch's
//! lease, and on a line while it holds that line's; a node that dies loses its leases after
//! [`LEASE`], and another node continues: finished lines stay finished.

mod check;
mod lease;
mod line;
mod lines;
mod outcome;
mod reading;
mod results;
mod run;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) use check::check;
use lease::Lease;
pub(crate) use lease::hand_over;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::batch_runner::{LEASE, Phase};
use crate::state::Gateway;
use gateway_store::records::batches;

/// Interval of queries for batches that no node holds.
const POLL: Duration = Duration::from_secs(1);
/// Polls between two rounds of cleanup: a minute.
const TIDY_EVERY: u32 = 60;
/// Steps per round of cleanup, each of some thousand lines.
const TIDY_STEPS: u32 = 20;
/// Concurrent batches per node. Further ones wait in the store.
const MAX_BATCHES: usize = 64;
/// Starts to run batches, for as long as the gateway exists.
pub(crate) fn start(gateway: &Arc<Gateway>) {
    let runner = &gateway.batches;
    runner.set_task(tokio::spawn(follow(Arc::downgrade(gateway), runner.phase())));
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
                tracing::warn!("batches: {error}");
            }
            Err(_) => {}
        }
        let wait = wait(&strong, &mut running, &mut phase);
        if tokio::time::timeout(POLL, wait).await.is_err() {
            polls = polls.wrapping_add(1);
        }
    }
    while let Some(ended) = running.join_next().await {
        log_panic(ended);
    }
}

/// Returns when there may be work.
async fn wait(
    gateway: &Arc<Gateway>,
    running: &mut JoinSet<()>,
    phase: &mut watch::Receiver<Phase>,
) {
    tokio::select! {
        () = gateway.batches.woken() => {}
        Some(ended) = running.join_next() => log_panic(ended),
        _ = phase.changed() => {}
    }
}

/// Leases batches that no node holds; at intervals, deletes obsolete lines.
async fn round(
    gateway: &Arc<Gateway>,
    phase: &watch::Receiver<Phase>,
    running: &mut JoinSet<()>,
    polls: u32,
) -> Result<(), gateway_store::Error> {
    let database = &gateway.database;
    while running.len() < MAX_BATCHES {
        let (now, steady) = (gateway.clock.now(), gateway.clock.steady());
        if !batches::waits(database, now).await? {
            break;
        }
        let (owner, until) = (gateway.batches.owner(), now + LEASE);
        let Some(batch) = batches::claim(database, &owner, until, now).await? else { break };
        let until = steady.after(LEASE);
        let lease = Lease { gateway: Arc::clone(gateway), batch: batch.id, owner, until };
        running.spawn(run::run(lease, phase.clone()));
    }
    if polls.is_multiple_of(TIDY_EVERY) {
        // Bounded: the next round deletes the rest.
        for _ in 0..TIDY_STEPS {
            if !batches::tidy(database).await? {
                break;
            }
        }
    }
    Ok(())
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::warn!("a batch was abandoned: {error}");
    }
}
