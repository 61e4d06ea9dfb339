//! Finds the job that a call continues, or creates one.

use std::sync::Arc;

use serde_json::Value;
use session::{JobOutput, ToolError};
use store::{Job, JobStatus, JobWrite, NewJobItem, Store, StoreError, ThreadRecord, Write};

use super::NAME;
use super::outputs::WrittenOutputs;
use super::plan::JobPlan;
use super::storing::{BATCH, unstored};
use super::table::TableRow;
use crate::agents::AgentCaller;

/// A job that is about to run.
pub(super) struct OpenedJob {
    pub(super) job: Job,
    /// True if an earlier call began it.
    pub(super) is_continued: bool,
    /// The output of this job, or of an earlier run of the same job.
    pub(super) written: WrittenOutputs,
}

/// The state of a job before a call begins.
pub(super) struct FoundJob {
    /// The job that the call continues.
    pub(super) unfinished: Option<Job>,
    /// The output of an earlier run of the same job.
    pub(super) written: WrittenOutputs,
}

/// Looks for the job that a call continues. `earlier`: what an earlier run of it wrote that the store
/// does not have.
///
/// A completed job is continued, too, when the call that completed it has no output: a crash may have
/// come between the two. Nothing of it runs again, and this call has its results.
pub(super) async fn find(
    store: &Store,
    thread: &str,
    fingerprint: [u8; 32],
    earlier: WrittenOutputs,
) -> Result<FoundJob, ToolError> {
    let latest = store.latest_job(thread, fingerprint).await;
    let latest = latest.map_err(|error| unstored(&error))?;
    let written = latest.as_ref().map_or(earlier, |job| WrittenOutputs::of_job(&job.detail));
    let unfinished = match latest {
        Some(job) if job.status == JobStatus::Completed => {
            let is_delivered = is_delivered(store, thread, &job).await;
            (!is_delivered.map_err(|error| unstored(&error))?).then_some(job)
        }
        found => found,
    };
    Ok(FoundJob { unfinished, written })
}

/// The job in the store, with its rows: the one whose output was decided about, begun at `now_ms` if
/// it is new. `earlier`: as for [`find`].
pub(super) async fn open(
    store: &Store,
    thread: &str,
    plan: &Arc<JobPlan>,
    rows: Vec<TableRow>,
    (output, now_ms): (&JobOutput, i64),
    (files, earlier): (&files::Pool, WrittenOutputs),
) -> Result<OpenedJob, ToolError> {
    let write = |write| {
        let write = Write::Job { thread: thread.to_owned(), write };
        async move { store.commit(vec![write]).await.map_err(|error| unstored(&error)) }
    };
    let FoundJob { unfinished, written } = find(store, thread, plan.fingerprint, earlier).await?;
    check_unused(plan, written.clone(), files).await?;
    let is_continued = unfinished.is_some();
    let is_as_decided = unfinished.as_ref().is_none_or(|job| *job.id == *output.job);
    if is_continued != output.is_continued || !is_as_decided {
        return Err(ToolError::new(format!(
            "{NAME}: another call began or ended this job, or its input changed, while the call was \
             decided about; call this again"
        )));
    }
    let detail = written.describe(plan.detail.clone());
    let job = match unfinished {
        Some(job) => {
            write(JobWrite::Reopen { job: job.key, detail }).await?;
            job
        }
        None => {
            let (id, fingerprint) = (output.job.to_string(), plan.fingerprint);
            write(JobWrite::Create { id, fingerprint, created_at_ms: now_ms, detail }).await?;
            let created = store.latest_job(thread, fingerprint).await;
            created
                .map_err(|error| unstored(&error))?
                .ok_or_else(|| ToolError::new(format!("{NAME}: the job was deleted")))?
        }
    };
    // Those of a continued job too: a crash may have come between two batches.
    let mut numbered = (1..).zip(rows).peekable();
    while numbered.peek().is_some() {
        let new =
            |(number, row): (u32, TableRow)| NewJobItem { number, id: row.id, row: row.values };
        let items = numbered.by_ref().take(BATCH as usize).map(new).collect();
        write(JobWrite::AddItems { job: job.key, items }).await?;
    }
    Ok(OpenedJob { job, is_continued, written })
}

/// Before anything is stored and any worker starts: the results replace no file of others. Returns
/// whether they replace earlier ones.
pub(super) async fn check_unused(
    plan: &Arc<JobPlan>,
    written: WrittenOutputs,
    files: &files::Pool,
) -> Result<bool, ToolError> {
    let (path, plan) = (plan.output.clone(), plan.clone());
    let checked = files.run(&path, move || plan.check_unused(&written)).await;
    let checked = checked.map_err(|error| error.to_string()).and_then(|checked| checked);
    checked
        .map_err(|why| ToolError::new(format!("{NAME}: {why}; choose another `output_csv_path`")))
}

/// Returns whether the call that completed a job has its output: then its item is completed.
async fn is_delivered(store: &Store, thread: &str, job: &Job) -> Result<bool, StoreError> {
    let detail: Value = serde_json::from_str(&job.detail).unwrap_or_default();
    let call = &detail["call"];
    let (Some(turn), Some(item)) = (call["turn"].as_str(), call["item"].as_str()) else {
        return Ok(true);
    };
    match store.items(thread, turn).await {
        Ok(items) => {
            let mut of_call = items.iter().filter(|row| row.id == item);
            Ok(of_call.any(|row| row.status.as_deref() == Some("completed")))
        }
        // The user dropped the turn with its output, or the thread stores no turns.
        Err(StoreError::TurnNotFound { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Returns the record of the thread for the store of an ephemeral thread's job.
pub(super) fn thread_record(caller: &AgentCaller) -> ThreadRecord {
    ThreadRecord {
        id: caller.id.clone(),
        session_id: caller.session_id.clone(),
        forked_from_id: None,
        preview: String::new(),
        name: None,
        model_provider: caller.settings.provider.clone(),
        model: caller.settings.model.clone(),
        cwd: caller.settings.cwd.display().to_string(),
        created_at: 0,
        updated_at: 0,
        source_kind: String::new(),
        source: "null".to_owned(),
        archived: false,
        git_info: None,
        settings: "{}".to_owned(),
        cli_version: String::new(),
        token_usage: None,
        extra: None,
    }
}
