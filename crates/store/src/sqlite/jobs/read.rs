//! Reads jobs and their rows.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::keys::{NUMBER_BITS, item_key};
use crate::sqlite::failure::Failure;
use crate::sqlite::rows::find_thread;
use crate::{Job, JobItem, JobItemCounts, JobItemStatus, JobStatus};

const COLUMNS: &str = "pk, id, status, created_at_ms, ended_at_ms, detail";

pub(crate) fn latest_job(
    conn: &Connection,
    thread: &str,
    fingerprint: &[u8; 32],
) -> Result<Option<Job>, Failure> {
    let thread = find_thread(conn, thread)?;
    let found = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM job WHERE thread = ?1 AND fingerprint = ?2
             ORDER BY pk DESC LIMIT 1"
        ))?
        .query_row(params![thread, fingerprint], job)
        .optional()?;
    Ok(found)
}

pub(crate) fn jobs(conn: &Connection, thread: &str) -> Result<Vec<Job>, Failure> {
    let thread = find_thread(conn, thread)?;
    let jobs = conn
        .prepare_cached(&format!("SELECT {COLUMNS} FROM job WHERE thread = ?1 ORDER BY pk"))?
        .query_map([thread], job)?
        .collect::<Result<_, _>>()?;
    Ok(jobs)
}

pub(crate) fn items(
    conn: &Connection,
    job: i64,
    behind: u32,
    status: Option<JobItemStatus>,
    limit: u32,
) -> Result<Vec<JobItem>, Failure> {
    let items = conn
        .prepare_cached(
            "SELECT pk, id, row, status, worker, result, error FROM job_item
         WHERE pk > ?1 AND pk < (?2 + 1) << ?3 AND (?4 IS NULL OR status = ?4)
         ORDER BY pk LIMIT ?5",
        )?
        .query_map(
            params![
                item_key(job, behind)?,
                job,
                NUMBER_BITS,
                status.map(JobItemStatus::code),
                limit
            ],
            item,
        )?
        .collect::<Result<_, _>>()?;
    Ok(items)
}

pub(crate) fn counts(conn: &Connection, job: i64) -> Result<JobItemCounts, Failure> {
    let found = conn
        .prepare_cached(
            "SELECT status, count(*), coalesce(sum(octet_length(result)), 0) FROM job_item
             WHERE pk >= ?1 << ?2 AND pk < (?1 + 1) << ?2 GROUP BY status",
        )?
        .query_map(params![job, NUMBER_BITS], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<Vec<(i64, u32, i64)>, _>>()?;
    let mut counts = JobItemCounts::default();
    for (code, number, bytes) in found {
        counts.result_bytes += u64::try_from(bytes).unwrap_or(0);
        let status = JobItemStatus::from_code(code);
        *match status.ok_or_else(|| Failure::Damaged(unknown_status(0, code)))? {
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

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let code = row.get(2)?;
    Ok(Job {
        key: row.get(0)?,
        id: row.get(1)?,
        status: JobStatus::from_code(code).ok_or_else(|| unknown_status(2, code))?,
        created_at_ms: row.get(3)?,
        ended_at_ms: row.get(4)?,
        detail: row.get(5)?,
    })
}

fn item(row: &Row<'_>) -> rusqlite::Result<JobItem> {
    let number = row.get::<_, i64>(0)? & ((1 << NUMBER_BITS) - 1);
    let code = row.get(3)?;
    Ok(JobItem {
        number: u32::try_from(number).unwrap_or(u32::MAX),
        id: row.get(1)?,
        row: row.get(2)?,
        status: JobItemStatus::from_code(code).ok_or_else(|| unknown_status(3, code))?,
        worker: row.get(4)?,
        result: row.get(5)?,
        error: row.get(6)?,
    })
}

fn unknown_status(column: usize, code: i64) -> rusqlite::Error {
    rusqlite::Error::IntegralValueOutOfRange(column, code)
}
