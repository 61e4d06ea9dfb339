//! Writes waiting rows: groups of rows with their monthly sums, each group exactly once. A group
//! whose commit got no response is retried under the same number, which shows whether it was
//! written.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::Shared;
use super::entry::Entry;
use super::queue::Row;
use crate::database::{Database, Statement, Value};
use crate::{Error, ErrorKind};
use gateway_policy::dates::{month, seconds};
use ratelimit::Micros;

/// Most rows per group.
const GROUP: usize = 4096;
/// Time in which a group is gathered.
const GATHER: Duration = Duration::from_millis(50);
/// Delay after a failure: the first and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Rows per statement.
const ROWS: usize = 64;
const COLUMNS: usize = 21;

static INSERT_ONE: LazyLock<String> = LazyLock::new(|| insert(1));
static INSERT_MANY: LazyLock<String> = LazyLock::new(|| insert(ROWS));

/// Runs until all clones of the ledger are dropped and all rows are written.
pub(super) async fn run(database: Arc<Database>, writer: Box<str>, ledger: Arc<Shared>) {
    let mut sequence = 0;
    loop {
        if ledger.queue().is_empty() {
            if Arc::strong_count(&ledger) == 1 {
                return;
            }
            // Wakes up regularly to check whether the ledger is still in use.
            let _ = tokio::time::timeout(RETRY.1, ledger.filled.notified()).await;
            continue;
        }
        let _ = tokio::time::timeout(GATHER, ledger.hurry.notified()).await;
        let mut parts = vec![ledger.queue().take(GROUP)];
        while let Some(rows) = parts.pop() {
            sequence += 1;
            if let Err(error) = write(&database, &writer, sequence, &rows, &ledger).await {
                parts.extend(give_up(&ledger, rows, &error));
            } else {
                settle(&ledger, rows);
            }
        }
    }
}

/// Writes one group; retries for as long as the store is unreachable.
async fn write(
    database: &Database,
    writer: &str,
    sequence: u64,
    rows: &[Row],
    ledger: &Shared,
) -> Result<(), Error> {
    let at = rows.last().map_or(0, |row| row.entry.at);
    let statements = statements(writer, sequence, at, rows);
    let mut pause = RETRY.0;
    loop {
        let result = match database.transact(statements.clone()).await {
            // The group was written, and the response was lost.
            Err(error) if error.kind() == (ErrorKind::Unmet { statement: 0 }) => Ok(()),
            other => other.map(drop),
        };
        ledger.tell(result.as_ref().err());
        match result {
            Err(error) if error.is_unavailable() => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY.1);
            }
            other => return other,
        }
    }
}

/// Halves a group that the store rejects, down to the rejected row.
fn give_up(ledger: &Shared, mut rows: Vec<Row>, error: &Error) -> Vec<Vec<Row>> {
    if rows.len() > 1 {
        let rest = rows.split_off(rows.len() / 2);
        return vec![rest, rows];
    }
    ledger.tell(Some(error));
    for row in &rows {
        ledger.queue().lose(row.requests, row.entry.cost);
        log_lost(&row.entry, row.requests, &format!("the store refused its row: {error}"));
    }
    settle(ledger, rows);
    Vec::new()
}

/// The line of the log by which the usage of a lost row can be added by hand.
pub(super) fn log_lost(entry: &Entry, requests: u64, cause: &str) {
    let Entry { request, organization, project, key, model, backend, .. } = entry;
    tracing::error!(
        %request, %organization, %project, %key, %model, %backend,
        requests,
        input_tokens = entry.input_tokens,
        output_tokens = entry.output_tokens,
        microdollars = entry.cost,
        "the usage of a request is not in the ledger: {cause}"
    );
}

fn settle(ledger: &Shared, rows: Vec<Row>) {
    ledger.queue().settle(rows.len());
    let requests: u64 = rows.iter().map(|row| row.requests).sum();
    rows.into_iter().for_each(Row::free);
    ledger.done.send_modify(|done| *done += requests);
}

/// The statements that write a group of entries, unless this writer has written one with that sequence number or a
/// later one: then the first of them fails. `at` is the time of the group.
pub(crate) fn writing_group(
    writer: &str,
    sequence: u64,
    at: Micros,
    entries: &[Entry],
) -> Vec<Statement> {
    let rows: Vec<Row> = entries.iter().map(|entry| Row::new(entry.clone(), None)).collect();
    statements(writer, sequence, at, &rows)
}

fn statements(writer: &str, sequence: u64, at: Micros, rows: &[Row]) -> Vec<Statement> {
    let once = Statement::new(
        "INSERT INTO ledger_writers (writer, sequence, at) VALUES ($1, $2, $3) \
         ON CONFLICT (writer) DO UPDATE SET sequence = excluded.sequence, at = excluded.at \
         WHERE ledger_writers.sequence < excluded.sequence",
        [writer.into(), sequence.into(), seconds(at).into()],
    );
    let mut statements = vec![once.expecting(1)];
    let (many, rest) = rows.as_chunks::<ROWS>();
    statements.extend(many.iter().map(|rows| {
        let mut values = Vec::with_capacity(ROWS * COLUMNS);
        rows.iter().for_each(|row| push(&mut values, row));
        Statement::new(&INSERT_MANY, values)
    }));
    statements.extend(rest.iter().map(|row| {
        let mut values = Vec::with_capacity(COLUMNS);
        push(&mut values, row);
        Statement::new(&INSERT_ONE, values)
    }));
    statements.extend(sums(rows));
    statements
}

/// The statements that write one entry and its sums, for a transaction that decides whether it is written.
#[must_use]
pub fn recording(entry: Entry) -> Vec<Statement> {
    let row = Row::new(entry, None);
    let mut values = Vec::with_capacity(COLUMNS);
    push(&mut values, &row);
    let mut statements = vec![Statement::new(&INSERT_ONE, values)];
    statements.extend(sums(std::slice::from_ref(&row)));
    statements
}

/// Updates of the monthly sums, in the same order on all nodes, which prevents deadlocks.
fn sums(rows: &[Row]) -> impl Iterator<Item = Statement> {
    let mut sums: BTreeMap<(&str, u32, &str), (u64, u64)> = BTreeMap::new();
    for Row { entry, requests, .. } in rows {
        for project in ["", &*entry.project] {
            let key = (&*entry.organization, month(entry.at), project);
            let (cost, count) = sums.entry(key).or_default();
            *cost = cost.saturating_add(entry.cost);
            *count += requests;
        }
    }
    sums.into_iter().map(|((organization, month, project), (cost, requests))| {
        Statement::new(
            "INSERT INTO spend_months (organization, month, project, cost, requests) \
             VALUES ($1, $2, $3, $4, $5) ON CONFLICT (organization, month, project) \
             DO UPDATE SET cost = spend_months.cost + excluded.cost, \
             requests = spend_months.requests + excluded.requests",
            [organization.into(), month.into(), project.into(), cost.into(), requests.into()],
        )
    })
}

fn insert(rows: usize) -> String {
    let row = |row: usize| {
        let places: Vec<String> =
            (1..=COLUMNS).map(|column| format!("${}", row * COLUMNS + column)).collect();
        format!("({})", places.join(", "))
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO ledger (at, organization, project, api_key, request, model, endpoint, \
         status, batch, requests, input_tokens, cached_tokens, output_tokens, images, \
         audio_milliseconds, cost, ended, cache_write_tokens, cache_write_1h_tokens, web_searches, \
         backend) VALUES {}",
        rows.join(", ")
    )
}

fn push(values: &mut Vec<Value>, Row { entry, requests, .. }: &Row) {
    values.extend([
        entry.at.into(),
        (&entry.organization).into(),
        (&entry.project).into(),
        (&entry.key).into(),
        (&entry.request).into(),
        (&entry.model).into(),
        entry.endpoint.number().into(),
        i64::from(entry.status).into(),
        entry.batch.into(),
        (*requests).into(),
        entry.input_tokens.into(),
        entry.cached_tokens.into(),
        entry.output_tokens.into(),
        entry.images.into(),
        entry.audio_milliseconds.into(),
        entry.cost.into(),
        (entry.ended as i64).into(),
        entry.cache_write_tokens.into(),
        entry.cache_write_1h_tokens.into(),
        entry.web_searches.into(),
        (&entry.backend).into(),
    ]);
}
