//! Applies changes of jobs to the tables.

use rusqlite::{Connection, params};

use super::keys::{NUMBER_BITS, item_key};
use crate::StoreError;
use crate::sqlite::failure::Failure;
use crate::sqlite::rows::leased_thread;
use crate::{JobItemOutcome, JobItemStatus, JobStatus, JobWrite, NewJobItem};

/// Applies one change on behalf of the store named `owner`.
pub(crate) fn apply(
    conn: &Connection,
    owner: &str,
    thread: &str,
    write: &JobWrite,
) -> Result<(), Failure> {
    let thread = leased_thread(conn, owner, thread)?;
    match write {
        JobWrite::Create { id, fingerprint, created_at_ms, detail } => {
            conn.prepare_cached(
                "INSERT INTO job (id, thread, fingerprint, status, created_at_ms, detail)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                id,
                thread,
                fingerprint,
                JobStatus::Running.code(),
                created_at_ms,
                detail
            ])?;
            Ok(())
        }
        JobWrite::AddItems { job, items } => {
            let job = of_thread(conn, thread, *job)?;
            items.iter().try_for_each(|item| add(conn, job, item))
        }
        JobWrite::Reopen { job, detail } => {
            let job = of_thread(conn, thread, *job)?;
            conn.execute(
                "UPDATE job SET status = ?2, ended_at_ms = NULL, detail = ?3 WHERE pk = ?1",
                params![job, JobStatus::Running.code(), detail],
            )?;
            conn.execute(
                "UPDATE job_item SET status = ?2, error = NULL
                 WHERE pk >= ?1 << ?5 AND pk < (?1 + 1) << ?5 AND status IN (?3, ?4)",
                params![
                    job,
                    JobItemStatus::Pending.code(),
                    JobItemStatus::Running.code(),
                    JobItemStatus::Stopped.code(),
                    NUMBER_BITS
                ],
            )?;
            Ok(())
        }
        JobWrite::Describe { job, detail } => {
            let job = of_thread(conn, thread, *job)?;
            conn.execute("UPDATE job SET detail = ?2 WHERE pk = ?1", params![job, detail])?;
            Ok(())
        }
        JobWrite::StartItem { job, number, worker } => {
            let key = item_key(of_thread(conn, thread, *job)?, *number)?;
            let changed = conn
                .prepare_cached(
                    "UPDATE job_item SET status = ?2, worker = ?3 WHERE pk = ?1 AND status = ?4",
                )?
                .execute(params![
                    key,
                    JobItemStatus::Running.code(),
                    worker,
                    JobItemStatus::Pending.code()
                ])?;
            must_change(changed, *number)
        }
        JobWrite::FinishItem { job, number, worker, outcome } => {
            finish_item(conn, of_thread(conn, thread, *job)?, (*number, worker), outcome)
        }
        JobWrite::Finish { job, status, ended_at_ms } => {
            let job = of_thread(conn, thread, *job)?;
            conn.execute(
                "UPDATE job SET status = ?2, ended_at_ms = ?3 WHERE pk = ?1",
                params![job, status.code(), ended_at_ms],
            )?;
            end_open_items(conn, job, JobItemStatus::Stopped)
        }
    }
}

fn finish_item(
    conn: &Connection,
    job: i64,
    (number, worker): (u32, &str),
    outcome: &JobItemOutcome,
) -> Result<(), Failure> {
    let (status, result, error) = match outcome {
        JobItemOutcome::Completed { result, .. } => (JobItemStatus::Completed, Some(result), None),
        JobItemOutcome::Failed(error) => (JobItemStatus::Failed, None, Some(error)),
        JobItemOutcome::Stopped(error) => (JobItemStatus::Stopped, None, Some(error)),
    };
    let running = JobItemStatus::Running.code();
    // Finished work counts although it comes late, as long as no other worker has the row.
    let from = match outcome {
        JobItemOutcome::Completed { .. } => {
            [running, JobItemStatus::Pending.code(), JobItemStatus::Stopped.code()]
        }
        JobItemOutcome::Failed(_) | JobItemOutcome::Stopped(_) => [running; 3],
    };
    let key = item_key(job, number)?;
    let changed = conn
        .prepare_cached(
            "UPDATE job_item SET status = ?2, result = ?3, error = ?4
             WHERE pk = ?1 AND worker = ?5 AND status IN (?6, ?7, ?8)",
        )?
        .execute(params![key, status.code(), result, error, worker, from[0], from[1], from[2]])?;
    must_change(changed, number)?;
    match outcome {
        JobItemOutcome::Completed { ends_job: true, .. } => {
            end_open_items(conn, job, JobItemStatus::Cancelled)
        }
        _ => Ok(()),
    }
}

/// Deletes the jobs of a thread.
pub(crate) fn remove_of(conn: &Connection, thread: i64) -> Result<(), Failure> {
    let jobs = conn
        .prepare_cached("SELECT pk FROM job WHERE thread = ?1")?
        .query_map([thread], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    for job in jobs {
        conn.prepare_cached("DELETE FROM job_item WHERE pk >= ?1 << ?2 AND pk < (?1 + 1) << ?2")?
            .execute(params![job, NUMBER_BITS])?;
        conn.prepare_cached("DELETE FROM job WHERE pk = ?1")?.execute([job])?;
    }
    Ok(())
}

/// Deletes jobs without a thread and rows without a job, which a salvage can leave.
pub(crate) fn sweep(conn: &Connection) -> Result<(), Failure> {
    conn.execute(
        "DELETE FROM job WHERE thread NOT IN (SELECT pk FROM thread WHERE deleted = 0)",
        [],
    )?;
    conn.execute("DELETE FROM job_item WHERE pk >> ?1 NOT IN (SELECT pk FROM job)", [NUMBER_BITS])?;
    Ok(())
}

/// The key of a job, when it belongs to the thread.
fn of_thread(conn: &Connection, thread: i64, job: i64) -> Result<i64, Failure> {
    let found = conn
        .prepare_cached("SELECT 1 FROM job WHERE pk = ?1 AND thread = ?2")?
        .exists([job, thread])?;
    found.then_some(job).ok_or_else(|| StoreError::JobNotFound { job }.into())
}

fn add(conn: &Connection, job: i64, item: &NewJobItem) -> Result<(), Failure> {
    conn.prepare_cached(
        "INSERT INTO job_item (pk, job, id, row, status) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (pk) DO NOTHING",
    )?
    .execute(params![
        item_key(job, item.number)?,
        job,
        item.id,
        item.row,
        JobItemStatus::Pending.code()
    ])?;
    Ok(())
}

/// Ends the rows of a job that have no end.
fn end_open_items(conn: &Connection, job: i64, to: JobItemStatus) -> Result<(), Failure> {
    conn.execute(
        "UPDATE job_item SET status = ?2
         WHERE pk >= ?1 << ?6 AND pk < (?1 + 1) << ?6 AND status IN (?3, ?4, ?5)",
        params![
            job,
            to.code(),
            JobItemStatus::Pending.code(),
            JobItemStatus::Running.code(),
            JobItemStatus::Stopped.code(),
            NUMBER_BITS
        ],
    )?;
    Ok(())
}

fn must_change(changed: usize, number: u32) -> Result<(), Failure> {
    match changed {
        0 => Err(StoreError::JobItemEnded { number }.into()),
        _ => Ok(()),
    }
}
