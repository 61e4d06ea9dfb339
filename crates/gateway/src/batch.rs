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
mod runner;

use std::sync::{Arc, Weak};
use std::time::Duration;

pub(crate) use check::check;
use lease::Lease;
pub(crate) use lease::hand_over;
use runner::Phase;
pub(crate) use runner::{LEASE, Runner};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::state::Gateway;
use gateway_store::records::batches;

/// How often the store is asked for batches that nobody works at.
const POLL: Duration = Duration::from_secs(1);
/// Polls between two rounds of tidying: a minute.
const TIDY_EVERY: u32 = 60;
/// Steps of a round of tidying: each takes some thousand lines.
const TIDY_STEPS: u32 = 20;
/// Batches that a node works at, at once. What is beyond waits in the store.
const MAX_BATCHES: usize = 64;
/// Begins to run batches, for as long as there is a gateway.
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

/// Ends when there may be something to do.
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

/// Takes batches that nobody works at; now and then deletes what is no longer needed.
async fn round(
    gateway: &Arc<Gateway>,
    phase: &watch::Receiver<Phase>,
    running: &mut JoinSet<()>,
    polls: u32,
) -> Result<(), gateway_store::database::DatabaseError> {
    let database = &gateway.database;
    while running.len() < MAX_BATCHES {
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

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::warn!("a batch was abandoned: {error}");
    }
}
