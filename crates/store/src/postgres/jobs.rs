//! Jobs of threads and their rows.

use tokio_postgres::Row;

use super::connection::Connection;
use super::failure::Failure;
use super::rows::Transaction;
use super::value::{Columns, Value};
use crate::{
    Job, JobItem, JobItemCounts, JobItemOutcome, JobItemStatus, JobStatus, JobWrite, MAX_JOB_ITEMS,
    NewJobItem, StoreError,
};

/// Applies a change of a job of a thread.
pub(super) async fn apply(
    transaction: &mut Transaction<'_>,
    thread: &str,
    write: &JobWrite,
) -> Result<(), Failure> {
    let thread = transaction.leased_thread(thread).await?;
    let connection = transaction.connection;
    match write {
        JobWrite::Create { id, fingerprint, created_at_ms, detail } => {
            let values = [
                thread.into(),
                id.into(),
                Value::Bytes(Some(fingerprint.to_vec())),
                JobStatus::Running.code().into(),
                (*created_at_ms).into(),
                Value::payload(detail),
            ];
            connection
                .execute(
                    "INSERT INTO #job (thread, id, fingerprint, status, created_at_ms, detail)
                     VALUES ($1, $2, $3, $4, $5, $6)",
                    &values,
                )
                .await?;
            Ok(())
        }
        JobWrite::AddItems { job, items } => {
            check_job(connection, thread, *job).await?;
            add_items(connection, *job, items).await
        }
        JobWrite::Reopen { job, detail } => {
            check_job(connection, thread, *job).await?;
            let values = [(*job).into(), JobStatus::Running.code().into(), Value::payload(detail)];
            let reopen =
                "UPDATE #job SET status = $2, ended_at_ms = NULL, detail = $3 WHERE pk = $1";
            connection.execute(reopen, &values).await?;
            let from = [JobItemStatus::Running, JobItemStatus::Stopped];
            let again = "UPDATE #job_item SET status = $2, error = NULL
                WHERE job = $1 AND status = ANY ($3)";
            let values = [(*job).into(), JobItemStatus::Pending.code().into(), codes(&from)];
            connection.execute(again, &values).await?;
            Ok(())
        }
        JobWrite::Describe { job, detail } => {
            check_job(connection, thread, *job).await?;
            let describe = "UPDATE #job SET detail = $2 WHERE pk = $1";
            connection.execute(describe, &[(*job).into(), Value::payload(detail)]).await?;
            Ok(())
        }
        JobWrite::StartItem { job, number, worker } => {
            check_job(connection, thread, *job).await?;
            let values = [
                (*job).into(),
                item_number(*number)?,
                JobItemStatus::Running.code().into(),
                worker.into(),
                JobItemStatus::Pending.code().into(),
            ];
            let start = "UPDATE #job_item SET status = $3, worker = $4
                WHERE job = $1 AND number = $2 AND status = $5";
            must_change(connection.execute(start, &values).await?, *number)
        }
        JobWrite::FinishItem { job, number, worker, outcome } => {
            check_job(connection, thread, *job).await?;
            finish_item(connection, *job, (*number, worker), outcome).await
        }
        JobWrite::Finish { job, status, ended_at_ms } => {
            check_job(connection, thread, *job).await?;
            let finish = "UPDATE #job SET status = $2, ended_at_ms = $3 WHERE pk = $1";
            let values = [(*job).into(), status.code().into(), (*ended_at_ms).into()];
            connection.execute(finish, &values).await?;
            end_open_items(connection, *job, JobItemStatus::Stopped).await
        }
    }
}

async fn add_items(connection: &Connection, job: i64, items: &[NewJobItem]) -> Result<(), Failure> {
    for item in items {
        item_number(item.number)?;
    }
    let row = |item: &NewJobItem| Some(item.row.as_bytes().to_vec());
    let values = [
        job.into(),
        Value::ints(items.iter().map(|item| item.number.into())),
        Value::texts(items.iter().map(|item| item.id.as_str())),
        Value::AllBytes(items.iter().map(row).collect()),
        JobItemStatus::Pending.code().into(),
    ];
    connection
        .execute(
            "INSERT INTO #job_item (job, number, id, values_json, status)
             SELECT $1, added.number, added.id, added.row_json, $5
             FROM unnest($2, $3, $4) AS added (number, id, row_json)
             ON CONFLICT (job, number) DO NOTHING",
            &values,
        )
        .await?;
    Ok(())
}

async fn finish_item(
    connection: &Connection,
    job: i64,
    (number, worker): (u32, &str),
    outcome: &JobItemOutcome,
) -> Result<(), Failure> {
    use JobItemStatus::{Completed, Failed, Pending, Running, Stopped};
    let (status, result, error) = match outcome {
        JobItemOutcome::Completed { result, .. } => (Completed, Some(result), None),
        JobItemOutcome::Failed(error) => (Failed, None, Some(error)),
        JobItemOutcome::Stopped(error) => (Stopped, None, Some(error)),
    };
    // Finished work counts although it comes late, as long as no other worker has the row.
    let from: &[JobItemStatus] = match outcome {
        JobItemOutcome::Completed { .. } => &[Running, Pending, Stopped],
        JobItemOutcome::Failed(_) | JobItemOutcome::Stopped(_) => &[Running],
    };
    let values = [
        job.into(),
        item_number(number)?,
        status.code().into(),
        Value::payload_or_null(result.map(String::as_str)),
        Value::payload_or_null(error.map(String::as_str)),
        worker.into(),
        codes(from),
    ];
    let finish = "UPDATE #job_item SET status = $3, result = $4, error = $5
        WHERE job = $1 AND number = $2 AND worker = $6 AND status = ANY ($7)";
    must_change(connection.execute(finish, &values).await?, number)?;
    match outcome {
        JobItemOutcome::Completed { ends_job: true, .. } => {
            end_open_items(connection, job, JobItemStatus::Cancelled).await
        }
        _ => Ok(()),
    }
}

/// Ends the rows of a job that have no end.
async fn end_open_items(
    connection: &Connection,
    job: i64,
    to: JobItemStatus,
) -> Result<(), Failure> {
    let open = [JobItemStatus::Pending, JobItemStatus::Running, JobItemStatus::Stopped];
    let end = "UPDATE #job_item SET status = $2 WHERE job = $1 AND status = ANY ($3)";
    connection.execute(end, &[job.into(), to.code().into(), codes(&open)]).await?;
    Ok(())
}

fn codes(states: &[JobItemStatus]) -> Value {
    Value::ints(states.iter().map(|status| status.code()))
}

async fn check_job(connection: &Connection, thread: i64, job: i64) -> Result<(), Failure> {
    let of_thread = "SELECT 1 FROM #job WHERE pk = $1 AND thread = $2";
    match connection.row(of_thread, &[job.into(), thread.into()]).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::JobNotFound { job }.into()),
    }
}

fn item_number(number: u32) -> Result<Value, Failure> {
    if number > MAX_JOB_ITEMS {
        let limit = i64::from(MAX_JOB_ITEMS);
        let what = "the number of rows in a job";
        return Err(StoreError::TooMany { what, limit }.into());
    }
    Ok(number.into())
}

fn must_change(changed: u64, number: u32) -> Result<(), Failure> {
    match changed {
        0 => Err(StoreError::JobItemEnded { number }.into()),
        _ => Ok(()),
    }
}

/// The newest job of a thread with this fingerprint.
pub(super) async fn latest(
    connection: &Connection,
    thread: i64,
    fingerprint: &[u8; 32],
) -> Result<Option<Job>, Failure> {
    let newest = "SELECT pk, id, status, created_at_ms, ended_at_ms, detail FROM #job
        WHERE thread = $1 AND fingerprint = $2 ORDER BY pk DESC LIMIT 1";
    let values = [thread.into(), Value::Bytes(Some(fingerprint.to_vec()))];
    connection.row(newest, &values).await?.as_ref().map(job).transpose()
}

/// The jobs of a thread, oldest first.
pub(super) async fn all(connection: &Connection, thread: i64) -> Result<Vec<Job>, Failure> {
    let all = "SELECT pk, id, status, created_at_ms, ended_at_ms, detail FROM #job
        WHERE thread = $1 ORDER BY pk";
    connection.rows(all, &[thread.into()]).await?.iter().map(job).collect()
}

fn job(row: &Row) -> Result<Job, Failure> {
    let mut columns = Columns::of(row);
    let (key, id, code) = (columns.int()?, columns.text()?, columns.int()?);
    let unknown = || Failure::damaged(format!("job status {code}"));
    Ok(Job {
        key,
        id,
        status: JobStatus::from_code(code).ok_or_else(unknown)?,
        created_at_ms: columns.int()?,
        ended_at_ms: columns.int_or_null()?,
        detail: columns.payload()?,
    })
}

/// Rows of a job after the row `behind`, in order.
pub(super) async fn items(
    connection: &Connection,
    job: i64,
    behind: u32,
    status: Option<JobItemStatus>,
    limit: u32,
) -> Result<Vec<JobItem>, Failure> {
    let page = "SELECT number, id, values_json, status, worker, result, error FROM #job_item
        WHERE job = $1 AND number > $2 AND ($3::bigint IS NULL OR status = $3)
        ORDER BY number LIMIT $4";
    let status = status.map(JobItemStatus::code);
    let values = [job.into(), behind.into(), status.into(), limit.into()];
    connection.rows(page, &values).await?.iter().map(item).collect()
}

fn item(row: &Row) -> Result<JobItem, Failure> {
    let mut columns = Columns::of(row);
    let (number, id, values) = (columns.small()?, columns.text()?, columns.payload()?);
    let code = columns.int()?;
    let unknown = || Failure::damaged(format!("status {code} of a row"));
    Ok(JobItem {
        number,
        id,
        row: values,
        status: JobItemStatus::from_code(code).ok_or_else(unknown)?,
        worker: columns.text_or_null()?,
        result: columns.payload_or_null()?,
        error: columns.payload_or_null()?,
    })
}

/// The number of a job's rows in each status.
pub(super) async fn counts(connection: &Connection, job: i64) -> Result<JobItemCounts, Failure> {
    let counted = "SELECT status, count(*), coalesce(sum(length(result)), 0)::bigint FROM #job_item
        WHERE job = $1 GROUP BY status";
    let mut counts = JobItemCounts::default();
    for row in &connection.rows(counted, &[job.into()]).await? {
        let mut columns = Columns::of(row);
        let code = columns.int()?;
        let number = columns.small()?;
        counts.result_bytes += u64::try_from(columns.int()?).unwrap_or(0);
        let unknown = || Failure::damaged(format!("status {code} of a row"));
        *match JobItemStatus::from_code(code).ok_or_else(unknown)? {
            JobItemStatus::Pending => &mut counts.pending,
            JobItemStatus::Running => &mut counts.running,
            JobItemStatus::Completed => &mut counts.completed,
            JobItemStatus::Failed => &mut counts.failed,
            JobItemStatus::Stopped => &mut counts.stopped,
            JobItemStatus::Cancelled => &mut counts.cancelled,
        } = number;
    }
    Ok(counts)
}
