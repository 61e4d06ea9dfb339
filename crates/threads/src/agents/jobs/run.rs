//! Runs a job: keeps as many workers at work as it may, reports how far it has come, and writes the
//! results at the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use session::{AgentJob, AgentOutcome, JobOutput, ToolError};
use store::{Job, JobItem, JobItemCounts, JobItemStatus, JobStatus, JobWrite, Store, Write};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::NAME;
use super::claims::Claim;
use super::course::Course;
use super::export::Export;
use super::opening::{self, OpenedJob};
use super::outputs::WrittenOutputs;
use super::plan::JobPlan;
use super::progress::{ProgressSender, Tally};
use super::rows::Room;
use super::storing::{BATCH, unstored};
use crate::agents::{AgentCaller, Agents, CallItem};
use services::options::Options;

/// Bytes that all results of a job may have: the results are joined in memory at the end.
const MAX_RESULTS: u64 = 64 << 20;

/// Failures, and stopped rows, that the output of the call shows.
const SHOWN_ROWS: u32 = 5;

/// Characters of an error that the output shows.
const MAX_SHOWN_ERROR: usize = 500;

/// The advice for the model about stopped rows.
const GO_ON: &str = "Call this again with the same arguments to run the stopped rows; the others do \
                     not run again.";

/// Interval at which clients are sent the progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// The run of a job.
pub(super) struct JobRun {
    pub(super) agents: Arc<Agents>,
    pub(super) caller: Arc<AgentCaller>,
    pub(super) plan: Arc<JobPlan>,
    pub(super) job: Job,
    /// The time of a worker for its row.
    pub(super) row_limit: Duration,
    pub(super) room: Room,
    pub(super) course: Course,
    /// Where the job is stored.
    pub(super) store: Store,
    concurrency: usize,
    /// The earlier output of the job.
    written: WrittenOutputs,
    tally: Mutex<Tally>,
}

impl Agents {
    /// Runs a job to its end; its file is allowed. Dropped before, it is cancelled, and its workers
    /// are stopped.
    pub(in crate::agents) async fn run_job(
        self: &Arc<Self>,
        caller: Arc<AgentCaller>,
        call: &CallItem,
        job: (AgentJob, &JobOutput),
        progress: &ProgressSender,
    ) -> AgentOutcome {
        let outcome = self.carry_job_out(caller, call, job, progress).await;
        let nothing = AgentOutcome::failed(ToolError::new(""));
        AgentOutcome { output: outcome, ..nothing }
    }

    async fn carry_job_out(
        self: &Arc<Self>,
        caller: Arc<AgentCaller>,
        call: &CallItem,
        (job, output): (AgentJob, &JobOutput),
        progress: &ProgressSender,
    ) -> Result<String, ToolError> {
        let limits = self.limits(&caller);
        limits.check_depth(caller.depth() + 1)?;
        let call = json!({ "turn": &*call.turn, "item": &*call.item });
        let (plan, rows) = self.read_plan(&caller, &job, call).await?;
        plan.check_is_as_decided(output)?;
        let plan = Arc::new(plan);
        // Before the job is looked for: an interrupted call of it may be just ending.
        let claim = self.claims.claim(&caller.id, plan.fingerprint).await?;
        let store = match caller.ephemeral {
            true => {
                let record = opening::thread_record(&caller);
                self.ephemeral_jobs.open(record, plan.fingerprint).await?
            }
            false => self.store.get().await.map_err(|error| unstored(&error))?.clone(),
        };
        let now = self.options.clock.now_ms();
        let earlier = self.ephemeral_jobs.written(&caller.id, plan.fingerprint);
        let outputs = (&self.files, earlier);
        let opened = opening::open(&store, &caller.id, &plan, rows, (output, now), outputs).await;
        if opened.is_err() && caller.ephemeral {
            self.ephemeral_jobs.remove_unused(&caller.id, plan.fingerprint).await;
        }
        let OpenedJob { job: found, is_continued, written } = opened?;
        let ending = Ending {
            store: store.clone(),
            options: self.options.clone(),
            thread: caller.id.clone(),
            job: found.key,
            claim: Some(claim),
        };
        let counts = store.job_counts(found.key).await.map_err(|error| unstored(&error))?;
        let row_limit = match job.max_runtime_seconds {
            Some(seconds) => Duration::from_secs(seconds),
            None => caller.config.agents.job_max_runtime_seconds.duration(),
        };
        let run = Arc::new(JobRun {
            agents: self.clone(),
            caller,
            plan,
            job: found,
            row_limit,
            room: Room::new(MAX_RESULTS.saturating_sub(counts.result_bytes)),
            course: Course::open(),
            concurrency: job.max_concurrency.min(limits.max_threads).max(1),
            written,
            store,
            tally: Mutex::new(Tally::new(counts)),
        });
        let worked = run.work(progress).await;
        let exported = match worked {
            Ok(()) => run.export().await,
            Err(error) => Err(error),
        };
        match exported {
            Ok(()) => {
                let status = run.final_status().await?;
                ending.end(status).await?;
                if status == JobStatus::Completed && run.caller.ephemeral {
                    let (thread, job) = (&run.caller.id, run.plan.fingerprint);
                    self.ephemeral_jobs.complete(thread, job, &run.store).await;
                }
            }
            Err(error) => {
                // The first error is the one to report.
                if let Err(second) = ending.end(JobStatus::Failed).await {
                    tracing::warn!(target: "server::store", "{}", second.message());
                }
                return Err(error);
            }
        }
        run.summary(counts, is_continued).await
    }
}

impl JobRun {
    /// Works on all pending rows.
    async fn work(self: &Arc<Self>, progress: &ProgressSender) -> Result<(), ToolError> {
        let mut rows = PendingRows::new(self.store.clone(), self.job.key);
        let mut workers = JoinSet::new();
        let mut ticks = interval(PROGRESS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut outcome = Ok(());
        loop {
            while workers.len() < self.concurrency && self.course.is_open() {
                match rows.next().await {
                    Ok(Some(row)) => drop(workers.spawn(self.clone().work_on(row))),
                    Ok(None) => break,
                    Err(error) => {
                        outcome = Err(error);
                        self.course.end();
                    }
                }
            }
            if workers.is_empty() {
                break;
            }
            tokio::select! {
                Some(ended) = workers.join_next() => {
                    let ended = ended.unwrap_or_else(|error| Err(ToolError::new(format!("{NAME}: {error}"))));
                    if let Err(error) = ended {
                        // Nothing more can be stored: the other workers are stopped.
                        self.course.end();
                        outcome = outcome.and(Err(error));
                    }
                }
                _ = ticks.tick() => progress.send(&self.tally().message(&self.job.id)),
            }
        }
        if outcome.is_ok() {
            // A worker that ends the job cancels rows that no worker had.
            let counts = self.counts().await?;
            self.tally().counts = counts;
        }
        let last = self.tally().message(&self.job.id);
        progress.send_last(&last).await;
        outcome
    }

    /// The status of the job when its results are written: rows that were stopped can still run.
    async fn final_status(&self) -> Result<JobStatus, ToolError> {
        let JobItemCounts { pending, running, stopped, .. } = self.counts().await?;
        Ok(match pending + running + stopped {
            0 => JobStatus::Completed,
            _ => JobStatus::Cancelled,
        })
    }

    async fn counts(&self) -> Result<JobItemCounts, ToolError> {
        self.store.job_counts(self.job.key).await.map_err(|error| unstored(&error))
    }

    /// Writes the results to the output file.
    async fn export(self: &Arc<Self>) -> Result<(), ToolError> {
        let mut export = Export::new(&self.plan.header)?;
        let mut behind = 0;
        loop {
            let items = self.items(behind, None, BATCH).await?;
            let Some(last) = items.last() else { break };
            behind = last.number;
            items.iter().try_for_each(|item| export.add(item))?;
        }
        let contents = export.into_bytes()?;
        // Stored first: after a crash, the file is known to be the job's.
        let detail = self.written.with(&contents).describe(self.plan.detail.clone());
        let described = self.store(JobWrite::Describe { job: self.job.key, detail }).await;
        described.map_err(|error| unstored(&error))?;
        let (plan, path, before) =
            (self.plan.clone(), self.plan.output.clone(), self.written.clone());
        let written = self.agents.files.run(&path, move || plan.write(contents, &before)).await;
        let written = written.map_err(|error| error.to_string()).and_then(|written| written);
        written.map_err(|why| {
            ToolError::new(format!(
                "{NAME}: all rows have ended and their results are stored, but {} cannot be \
                 written: {why}. Call this again with the same arguments to write it; no row runs \
                 again",
                path.display()
            ))
        })
    }

    /// The output of the call. `before`: the rows when it began.
    async fn summary(
        &self,
        before: JobItemCounts,
        is_continued: bool,
    ) -> Result<String, ToolError> {
        let counts = self.counts().await?;
        let failed = self.items(0, Some(JobItemStatus::Failed), SHOWN_ROWS).await?;
        let stopped = self.items(0, Some(JobItemStatus::Stopped), SHOWN_ROWS).await?;
        let shown = |rows: &[JobItem]| rows.iter().map(shown_error).collect::<Vec<Value>>();
        let status = match (counts.stopped, counts.cancelled) {
            (0, 0) => "completed",
            (0, _) => "stopped by a worker",
            (_, _) => "stopped",
        };
        let mut summary = json!({
            "job_id": self.job.id,
            "status": status,
            "continued": is_continued,
            "total": counts.completed + counts.failed + counts.stopped + counts.cancelled,
            "completed": counts.completed,
            "failed": counts.failed,
            "stopped": counts.stopped,
            "cancelled": counts.cancelled,
            "finished_before_this_call": before.completed + before.failed,
            "output_csv_path": self.plan.output.display().to_string(),
            "first_failures": shown(&failed),
        });
        if counts.stopped > 0 {
            summary["first_stopped"] = shown(&stopped).into();
            summary["next_step"] = GO_ON.into();
        }
        Ok(summary.to_string())
    }

    /// Stores a change of the job.
    pub(super) async fn store(&self, write: JobWrite) -> Result<(), store::StoreError> {
        let thread = self.caller.id.clone();
        self.store.commit(vec![Write::Job { thread, write }]).await
    }

    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn items(
        &self,
        behind: u32,
        status: Option<JobItemStatus>,
        limit: u32,
    ) -> Result<Vec<JobItem>, ToolError> {
        let items = self.store.job_items(self.job.key, behind, status, limit).await;
        items.map_err(|error| unstored(&error))
    }
}

/// The pending rows of a job, read in batches.
struct PendingRows {
    store: Store,
    job: i64,
    batch: std::vec::IntoIter<JobItem>,
    last: u32,
}

impl PendingRows {
    fn new(store: Store, job: i64) -> Self {
        Self { store, job, batch: Vec::new().into_iter(), last: 0 }
    }

    async fn next(&mut self) -> Result<Option<JobItem>, ToolError> {
        if self.batch.len() == 0 {
            let pending = Some(JobItemStatus::Pending);
            let read = self.store.job_items(self.job, self.last, pending, BATCH).await;
            self.batch = read.map_err(|error| unstored(&error))?.into_iter();
        }
        let next = self.batch.next();
        self.last = next.as_ref().map_or(self.last, |item| item.number);
        Ok(next)
    }
}

/// Ends the stored job. Dropped before it has, the job was interrupted.
struct Ending {
    store: Store,
    options: Arc<Options>,
    thread: String,
    job: i64,
    /// Taken by the end.
    claim: Option<Claim>,
}

impl Ending {
    async fn end(mut self, status: JobStatus) -> Result<(), ToolError> {
        let ended = self.store.commit(vec![self.write(status)]).await;
        ended.map_err(|error| unstored(&error))?;
        drop(self.claim.take());
        Ok(())
    }

    fn write(&self, status: JobStatus) -> Write {
        let ended_at_ms = self.options.clock.now_ms();
        let write = JobWrite::Finish { job: self.job, status, ended_at_ms };
        Write::Job { thread: self.thread.clone(), write }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let (store, write) = (self.store.clone(), self.write(JobStatus::Cancelled));
        tokio::spawn(async move {
            // A failure leaves the job as after a crash: the next call continues it too.
            if let Err(error) = store.commit(vec![write]).await {
                tracing::warn!(target: "server::store", "an interrupted job stays open: {error}");
            }
            drop(claim);
        });
    }
}

fn shown_error(item: &JobItem) -> Value {
    let error = item.error.as_deref().unwrap_or_default();
    let shown: String = error.chars().take(MAX_SHOWN_ERROR).collect();
    json!({ "row": item.number, "item_id": item.id, "error": shown })
}
