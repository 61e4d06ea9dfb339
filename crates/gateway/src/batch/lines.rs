//! The lines of a batch in progress or being cancelled: runs a few concurrently until all are
//! finished. The contents of lines are opaque here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::lease::Lease;
use super::line::{self, Job, LineEnd};
use super::outcome;
use crate::batch_runner::{LEASE, Phase};
use crate::state::Gateway;
use gateway_policy::dates::seconds;
use gateway_policy::error::ApiError;
use gateway_policy::tenants::Caller;
use gateway_store::records::batches::{self, Batch, Status};
use gateway_store::records::{batch_lines, ids};
use gateway_store::{Error, ErrorKind};

/// Interval at which the states of the batch and its project are read.
const TICK: Duration = Duration::from_secs(1);
/// Longest time for open lines of a cancelled batch.
const CANCEL_PATIENCE: Duration = Duration::from_secs(60);

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// All lines are finished.
    Done,
    /// This node is stopping.
    Paused,
}

/// Runs the lines of a batch.
///
/// # Errors
/// The store's; open lines have been released.
pub(super) async fn run(
    lease: &Lease,
    batch: &Batch,
    phase: watch::Receiver<Phase>,
    cut: watch::Receiver<bool>,
) -> Result<Ended, Error> {
    let mut lines = Lines {
        gateway: &lease.gateway,
        owner: &lease.owner,
        batch: Arc::new(batch.clone()),
        running: JoinSet::new(),
        stop: watch::Sender::new(false),
        caller: None,
        rest: None,
        alone: false,
        is_claimable: true,
        cancelled_at: None,
    };
    let result = lines.go(phase, cut).await;
    lines.stop.send_replace(true);
    while lines.running.join_next().await.is_some() {}
    result
}

struct Lines<'a> {
    gateway: &'a Arc<Gateway>,
    owner: &'a str,
    batch: Arc<Batch>,
    running: JoinSet<LineEnd>,
    /// Cancels lines that wait for their upstream.
    stop: watch::Sender<bool>,
    /// The caller.
    caller: Option<Arc<Caller>>,
    /// The reason to run no more lines, which ends the remaining ones.
    rest: Option<SkipReason>,
    /// Close to a spend limit: runs one line at a time, so that none is refused because of another
    /// line's reservation, which may exceed its actual cost.
    alone: bool,
    /// True if there may be lines that no node holds.
    is_claimable: bool,
    cancelled_at: Option<Instant>,
}

/// The code and message for lines that are not run.
#[derive(Clone, Debug)]
struct SkipReason {
    code: &'static str,
    message: String,
}

impl Lines<'_> {
    async fn go(
        &mut self,
        mut phase: watch::Receiver<Phase>,
        mut cut: watch::Receiver<bool>,
    ) -> Result<Ended, Error> {
        let permits = Arc::clone(&self.gateway.batches.lines);
        let mut tick = tokio::time::interval(TICK);
        loop {
            let stops = *phase.borrow_and_update() != Phase::Run || *cut.borrow_and_update();
            if *cut.borrow() {
                self.stop.send_replace(true);
            }
            if self.running.is_empty() {
                if stops {
                    return Ok(Ended::Paused);
                }
                if !self.is_claimable && patient(self.is_done().await)?.unwrap_or(false) {
                    return Ok(Ended::Done);
                }
            }
            let wants = !stops && self.wants_more();
            tokio::select! {
                Some(gone) = self.running.join_next() => self.take(gone),
                permit = Arc::clone(&permits).acquire_owned(), if wants => {
                    let Ok(permit) = permit else { return Ok(Ended::Paused) };
                    self.is_claimable = patient(self.begin(permit, &permits).await)?.is_some()
                        && self.is_claimable;
                }
                _ = tick.tick() => drop(patient(self.look(stops).await)?),
                _ = phase.changed(), if !stops => {}
                _ = cut.changed(), if !*self.stop.borrow() => {}
            }
        }
    }

    fn wants_more(&self) -> bool {
        let settings = self.gateway.settings.load().batches;
        let most = if self.alone { 1 } else { settings.lines_at_once as usize };
        self.is_claimable
            && self.rest.is_none()
            && self.caller.is_some()
            && self.running.len() < most
    }

    /// Starts as many lines as fit, at least one.
    async fn begin(
        &mut self,
        first: OwnedSemaphorePermit,
        permits: &Arc<Semaphore>,
    ) -> Result<(), Error> {
        let Some(caller) = self.caller.clone() else { return Ok(()) };
        let settings = self.gateway.settings.load().batches;
        let most = if self.alone { 1 } else { settings.lines_at_once as usize };
        let room = most.saturating_sub(self.running.len());
        let more = || Arc::clone(permits).try_acquire_owned().ok();
        let permits: Vec<_> =
            std::iter::once(first).chain(std::iter::from_fn(more).take(room - 1)).collect();
        let (database, owner) = (&self.gateway.database, self.owner);
        let now = self.gateway.clock.now();
        let limit = u32::try_from(permits.len()).unwrap_or(1);
        let lines =
            batch_lines::claim(database, &self.batch.id, owner, limit, now + LEASE, now).await?;
        self.is_claimable = lines.len() == permits.len();
        for (line, permit) in lines.into_iter().zip(permits) {
            let job = Job {
                gateway: Arc::clone(self.gateway),
                owner: self.owner.into(),
                batch: Arc::clone(&self.batch),
                caller: Arc::clone(&caller),
                line,
                alone: self.alone,
            };
            let stop = self.stop.subscribe();
            self.running.spawn(async move {
                let gone = line::run(job, stop).await;
                drop(permit);
                gone
            });
        }
        Ok(())
    }

    fn take(&mut self, gone: Result<LineEnd, tokio::task::JoinError>) {
        match gone {
            Ok(LineEnd::Recorded | LineEnd::Lost) => {}
            Ok(LineEnd::Released) => self.is_claimable = true,
            Ok(LineEnd::NoMoney { error, alone }) => {
                self.is_claimable = true;
                self.alone = true;
                if alone && self.rest.is_none() {
                    self.rest = Some(SkipReason::from_error(&error));
                }
            }
            // The line is released when its lease expires.
            Err(error) => {
                tracing::warn!("{}: a line: {error}", self.batch.id);
            }
        }
    }

    /// Reads what may have changed: the batch's state, its project, the time.
    async fn look(&mut self, stops: bool) -> Result<(), Error> {
        let database = &self.gateway.database;
        // Leases of a dead node expire eventually.
        self.is_claimable = true;
        let batch = batches::find(database, &self.batch.id).await?;
        let now = self.gateway.clock.now();
        match batch {
            Some(batch) if batch.status == Status::Cancelling => {
                self.rest = Some(SkipReason::new("batch_cancelled", "The batch was cancelled."));
                let since = *self.cancelled_at.get_or_insert_with(Instant::now);
                if since.elapsed() >= CANCEL_PATIENCE {
                    self.stop.send_replace(true);
                }
            }
            Some(batch) if batch.status == Status::InProgress => {
                let is_over = batch.expiring_at.is_some()
                    || seconds(self.gateway.expiry.now()) >= batch.expires_at;
                if is_over && batch_lines::left(database, &batch.id).await? > 0 {
                    batches::expire(database, &batch.id, seconds(now)).await?;
                    let message = "The batch did not complete within its completion window.";
                    self.rest = Some(SkipReason::new("batch_expired", message));
                    self.stop.send_replace(true);
                }
            }
            _ => {}
        }
        self.ask_for_caller().await;
        // Lines that are being cancelled are still released one by one.
        let is_stopping = *self.stop.borrow() && !self.running.is_empty();
        if self.rest.is_some() && !stops && !is_stopping {
            self.end_rest().await?;
        }
        Ok(())
    }

    async fn ask_for_caller(&mut self) {
        let batch = &self.batch;
        match self.gateway.directory.on_behalf(&batch.key, &batch.project).await {
            Ok(now) => {
                // Keeps values derived from the caller while nothing has changed.
                let is_same = |known: &Arc<Caller>| {
                    Arc::ptr_eq(&known.project, &now.project)
                        && Arc::ptr_eq(&known.organization, &now.organization)
                        && known.models == now.models
                };
                if !self.caller.as_ref().is_some_and(is_same) {
                    self.caller = Some(now);
                }
            }
            Err(error) if error.kind() == ErrorKind::UnknownKey => {
                let message = "The project of the batch is archived.";
                self.rest.get_or_insert_with(|| SkipReason::new("project_archived", message));
            }
            // Retried at the next tick; running lines continue.
            Err(_) => {}
        }
    }

    /// Ends all lines that no node holds.
    async fn end_rest(&mut self) -> Result<(), Error> {
        let Some(rest) = &self.rest else { return Ok(()) };
        let (gateway, batch) = (self.gateway, &self.batch);
        let text = |_, custom_id: &str| {
            let id = ids::new("batch_req_", gateway.clock.now(), &*gateway.random);
            outcome::refused(&id, custom_id, rest.code, &rest.message)
        };
        loop {
            let now = gateway.clock.now();
            let (database, owner) = (&gateway.database, self.owner);
            let ended =
                batch_lines::end_rest(database, &batch.id, owner, now + LEASE, now, text).await?;
            if ended == 0 {
                self.is_claimable = false;
                return Ok(());
            }
        }
    }

    /// Returns whether all lines are finished; those of another node may not be.
    async fn is_done(&mut self) -> Result<bool, Error> {
        let database = &self.gateway.database;
        if batch_lines::left(database, &self.batch.id).await? == 0 {
            return Ok(true);
        }
        // A call whose reply was lost may have leased lines to us that do not run.
        let freed = batch_lines::release_all(database, &self.batch.id, self.owner).await?;
        self.is_claimable |= freed > 0;
        Ok(false)
    }
}

/// Turns unavailability into `None`, because the next tick retries: running lines continue until
/// the lease expires. The same for changes that another node has made already.
fn patient<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unmet { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl SkipReason {
    fn new(code: &'static str, message: &str) -> Self {
        Self { code, message: message.to_owned() }
    }

    fn from_error(error: &ApiError) -> Self {
        Self::new(error.code().unwrap_or("insufficient_quota"), error.message())
    }
}
