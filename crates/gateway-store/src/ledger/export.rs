//! Reads the ledger row by row, in parts, so that an export holds only one part in memory.

use super::entry::{Ended, Endpoint, Entry};
use crate::Error;
use crate::database::{Database, Row, Statement};

/// Rows per part.
const PART: u32 = 1000;

/// Position at which an export continues. Moments are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    at: u64,
    id: i64,
    end: u64,
}

impl Cursor {
    /// The start of an export of `start <= at < end`, in seconds.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        let micros = |seconds: u64| seconds.saturating_mul(1_000_000);
        Self { at: micros(start), id: i64::MIN, end: micros(end) }
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The recorded entry; for a folded row, the sums.
    pub entry: Entry,
    /// Number of requests in the row: 1, or more in a folded row.
    pub requests: u64,
}

/// Returns whether no request was ever recorded.
///
/// # Errors
/// See [`Error`].
pub async fn is_empty(database: &Database) -> Result<bool, Error> {
    let any = Statement::new("SELECT 1 FROM ledger LIMIT 1", []);
    database.query(any).await.map(|rows| rows.is_empty())
}

/// The next rows, by time, and the cursor after them. No rows: the export is complete.
///
/// # Errors
/// See [`Error`].
pub async fn export(
    database: &Database,
    organization: &str,
    cursor: Cursor,
) -> Result<(Vec<Exported>, Cursor), Error> {
    let sql = "SELECT id, at, request, project, api_key, model, endpoint, status, batch, \
               requests, input_tokens, cached_tokens, output_tokens, images, \
               audio_milliseconds, cost, ended, cache_write_tokens, cache_write_1h_tokens, \
               web_searches, backend FROM ledger \
               WHERE organization = $1 AND at >= $2 AND at < $3 AND (at > $2 OR id > $4) \
               ORDER BY at, id LIMIT $5";
    let values =
        [organization.into(), cursor.at.into(), cursor.end.into(), cursor.id.into(), PART.into()];
    let rows = database.report(Statement::new(sql, values)).await?;
    let next = match rows.last() {
        Some(row) => Cursor { at: row.count(1)?, id: row.integer(0)?, ..cursor },
        None => cursor,
    };
    let rows = rows.iter().map(|row| read(row, organization)).collect::<Result<_, _>>()?;
    Ok((rows, next))
}

fn read(row: &Row, organization: &str) -> Result<Exported, Error> {
    let ended = usize::try_from(row.integer(16)?).ok();
    let ended = ended.and_then(|number| Ended::ALL.get(number).copied());
    let entry = Entry {
        at: row.count(1)?,
        request: row.text(2)?,
        organization: organization.into(),
        project: row.text(3)?,
        key: row.text(4)?,
        model: row.text(5)?,
        backend: row.text(20)?,
        endpoint: Endpoint::numbered(row.integer(6)?),
        status: u16::try_from(row.integer(7)?).unwrap_or_default(),
        ended: ended.unwrap_or_default(),
        batch: row.boolean(8)?,
        input_tokens: row.count(10)?,
        cached_tokens: row.count(11)?,
        cache_write_tokens: row.count(17)?,
        cache_write_1h_tokens: row.count(18)?,
        output_tokens: row.count(12)?,
        web_searches: row.count(19)?,
        images: row.count(13)?,
        audio_milliseconds: row.count(14)?,
        cost: row.count(15)?,
    };
    Ok(Exported { entry, requests: row.count(9)? })
}
