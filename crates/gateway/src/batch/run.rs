//! Runs one batch from state to state, on the node that holds its lease. Every step can be
//! repeated: it starts from the state in the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::check::check;
use super::lease::{Lease, hand_over};
use super::{lines, results};
use crate::batch_runner::{GRACE, Phase};
use crate::state::Gateway;
use gateway_policy::dates::seconds;
use gateway_store::records::batches::{self, Batch, Outcome, Status};

/// Delay after a failed call to the store.
const PAUSE: Duration = Duration::from_secs(1);

/// Works on a batch until it ends, the lease is lost, or the node stops.
pub(super) async fn run(lease: Lease, mut phase: watch::Receiver<Phase>) {
    let (cut, is_cut) = watch::channel(false);
    let mut work = std::pin::pin!(work(&lease, phase.clone(), is_cut));
    let is_over = tokio::select! {
        () = &mut work => true,
        () = lease.keep() => false,
        () = cut_phase(&mut phase) => false,
    };
    if !is_over {
        cut.send_replace(true);
        // What does not end in time is dropped; its lines are released when their leases expire.
        let _ = tokio::time::timeout(GRACE, work).await;
    }
    hand_over(&lease.gateway, &lease.batch, &lease.owner).await;
}

async fn cut_phase(phase: &mut watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::Cut).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn work(lease: &Lease, phase: watch::Receiver<Phase>, cut: watch::Receiver<bool>) {
    let id = &lease.batch;
    loop {
        match step(lease, &phase, &cut).await {
            Ok(Next::Go) => {}
            Ok(Next::End) => return,
            Err(error) => {
                tracing::warn!("{id}: {error}");
                if *cut.borrow() || *phase.borrow() != Phase::Run {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The action after a step.
enum Next {
    Go,
    End,
}

async fn step(
    lease: &Lease,
    phase: &watch::Receiver<Phase>,
    cut: &watch::Receiver<bool>,
) -> Result<Next, gateway_store::Error> {
    let (gateway, id) = (&lease.gateway, &*lease.batch);
    let stops = || *cut.borrow() || *phase.borrow() != Phase::Run;
    let Some(batch) = batches::find(&gateway.database, id).await? else { return Ok(Next::End) };
    if batch.status.is_final() || stops() {
        return Ok(Next::End);
    }
    match batch.status {
        Status::Validating => check(gateway, &batch).await?,
        Status::InProgress | Status::Cancelling => {
            match lines::run(lease, &batch, phase.clone(), cut.clone()).await? {
                lines::Ended::Paused => return Ok(Next::End),
                lines::Ended::Done => after_lines(gateway, id).await?,
            }
        }
        _ => end(gateway, &batch, Status::Completed).await?,
    }
    Ok(Next::Go)
}

/// Advances a batch whose lines are all finished, depending on why they are.
async fn after_lines(gateway: &Arc<Gateway>, id: &str) -> Result<(), gateway_store::Error> {
    let (database, now) = (&gateway.database, seconds(gateway.clock.now()));
    let Some(batch) = batches::find(database, id).await? else { return Ok(()) };
    match batch.status {
        Status::Cancelling => end(gateway, &batch, Status::Cancelled).await,
        Status::InProgress if batch.expiring_at.is_some() => {
            end(gateway, &batch, Status::Expired).await
        }
        from => {
            let outcome = Outcome::default();
            batches::advance(database, id, &[from], Status::Finalizing, &outcome, now).await?;
            Ok(())
        }
    }
}

/// Writes the files, and ends the batch with them.
async fn end(
    gateway: &Arc<Gateway>,
    batch: &Batch,
    to: Status,
) -> Result<(), gateway_store::Error> {
    let (database, now) = (&gateway.database, seconds(gateway.clock.now()));
    let output = results::write(database, batch, false, now).await?;
    let error = results::write(database, batch, true, now).await?;
    let outcome = Outcome {
        output_file: output.as_deref(),
        error_file: error.as_deref(),
        ..Outcome::default()
    };
    batches::advance(database, &batch.id, &[batch.status], to, &outcome, now).await?;
    Ok(())
}
