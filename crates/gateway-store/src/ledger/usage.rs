//! Sums over the ledger, by buckets of time and by group. Buckets align with whole minutes, hours
//! and days of UTC; the first and last are cut where the query begins and ends.

use std::fmt::Write;

use super::entry::Endpoint;
use crate::Error;
use crate::database::{Database, Row, Statement, Value};

/// Most sums in the result of a query.
pub const MAX_SUMS: usize = 20_000;

/// A query. Moments are Unix seconds.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    /// Id of the organization.
    pub organization: Box<str>,
    /// Start, inclusive.
    pub start: u64,
    /// End, exclusive.
    pub end: u64,
    /// Width of a bucket in seconds, at least 1.
    pub width: u64,
    /// The usage page; `None`: all pages.
    pub endpoint: Option<Endpoint>,
    /// `true`: only batches; `false`: all but batches.
    pub batch: Option<bool>,
    /// Ids of projects; empty: all projects.
    pub projects: Vec<Box<str>>,
    /// Ids of keys; empty: all keys.
    pub keys: Vec<Box<str>>,
    /// Names of models; empty: all models.
    pub models: Vec<Box<str>>,
    /// The dimensions to group by.
    pub group_by: GroupBy,
}

/// Dimensions that sums are grouped by, besides the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupBy {
    pub project: bool,
    pub key: bool,
    pub model: bool,
    pub batch: bool,
    pub endpoint: bool,
}

/// A sum. Dimensions that are not grouped by are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Sum {
    /// `at / width` of all its entries.
    pub bucket: u64,
    pub project: Option<Box<str>>,
    pub key: Option<Box<str>>,
    pub model: Option<Box<str>>,
    pub batch: Option<bool>,
    pub endpoint: Option<Endpoint>,
    pub requests: u64,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    pub images: u64,
    pub audio_milliseconds: u64,
    /// Cost in micro-dollars.
    pub cost: u64,
}

/// There are more than [`MAX_SUMS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Computes the sums, in the order of buckets.
///
/// # Errors
/// See [`Error`]. The inner error: there are too many sums.
pub async fn sums(
    database: &Database,
    query: &UsageQuery,
) -> Result<Result<Vec<Sum>, TooMany>, Error> {
    let rows = database.report(statement(query)).await?;
    if rows.len() > MAX_SUMS {
        return Ok(Err(TooMany));
    }
    rows.iter().map(|row| read(row, query.group_by)).collect::<Result<_, _>>().map(Ok)
}

/// An organization's use of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUse {
    /// `org-…`.
    pub organization: Box<str>,
    /// Display name of the organization.
    pub name: Box<str>,
    /// Number of requests.
    pub requests: u64,
    /// Last use, in Unix seconds.
    pub last: i64,
}

/// Organizations that used a model since `start` (Unix seconds), heaviest users first, at most
/// `limit`. Reads the ledger of all organizations, which may take long.
///
/// # Errors
/// See [`Error`].
pub async fn users_of(
    database: &Database,
    model: &str,
    start: u64,
    limit: u32,
) -> Result<Vec<ModelUse>, Error> {
    let sql = "SELECT used.organization, organizations.name, used.requests, used.last FROM \
               (SELECT organization, CAST(SUM(requests) AS BIGINT) AS requests, \
               MAX(at) / 1000000 AS last FROM ledger WHERE at >= $1 AND model = $2 \
               AND organization IN (SELECT id FROM organizations) \
               GROUP BY organization) AS used \
               JOIN organizations ON organizations.id = used.organization \
               ORDER BY used.requests DESC, used.organization LIMIT $3";
    let start = start.saturating_mul(1_000_000);
    let rows =
        database.report(Statement::new(sql, [start.into(), model.into(), limit.into()])).await?;
    let read = |row: &Row| {
        Ok(ModelUse {
            organization: row.text(0)?,
            name: row.text(1)?,
            requests: row.count(2)?,
            last: row.integer(3)?,
        })
    };
    rows.iter().map(read).collect()
}

fn statement(query: &UsageQuery) -> Statement {
    let micros = |seconds: u64| seconds.saturating_mul(1_000_000);
    let mut values: Vec<Value> = vec![
        micros(query.width.max(1)).into(),
        (&query.organization).into(),
        micros(query.start).into(),
        micros(query.end).into(),
    ];
    let mut conditions = String::from("organization = $2 AND at >= $3 AND at < $4");
    let mut narrow = |column: &str, allowed: Vec<Value>| {
        if allowed.is_empty() {
            return;
        }
        let first = values.len() + 1;
        let places: Vec<String> =
            (first..first + allowed.len()).map(|place| format!("${place}")).collect();
        values.extend(allowed);
        // Writing to a string cannot fail.
        let _ = write!(conditions, " AND {column} IN ({})", places.join(", "));
    };
    let texts = |texts: &[Box<str>]| texts.iter().map(Value::from).collect::<Vec<_>>();
    narrow("endpoint", query.endpoint.iter().map(|one| one.number().into()).collect());
    narrow("batch", query.batch.iter().map(|batch| (*batch).into()).collect());
    narrow("project", texts(&query.projects));
    narrow("api_key", texts(&query.keys));
    narrow("model", texts(&query.models));
    let group = query.group_by;
    let column = |wanted: bool, column: &'static str| if wanted { column } else { "NULL" };
    let columns = [
        column(group.project, "project"),
        column(group.key, "api_key"),
        column(group.model, "model"),
        column(group.batch, "batch"),
        column(group.endpoint, "endpoint"),
    ];
    let grouped: Vec<&str> = columns.into_iter().filter(|column| *column != "NULL").collect();
    let by: String = grouped.iter().map(|column| format!(", {column}")).collect();
    let sql = format!(
        "SELECT at / $1 AS bucket, {}, {SUMS} FROM ledger WHERE {conditions} \
         GROUP BY bucket{by} ORDER BY bucket{by} LIMIT {}",
        columns.join(", "),
        MAX_SUMS + 1
    );
    Statement::composed(sql, values)
}

const SUMS: &str = "CAST(SUM(requests) AS BIGINT), CAST(SUM(input_tokens) AS BIGINT), \
    CAST(SUM(cached_tokens) AS BIGINT), CAST(SUM(output_tokens) AS BIGINT), \
    CAST(SUM(images) AS BIGINT), CAST(SUM(audio_milliseconds) AS BIGINT), \
    CAST(SUM(cost) AS BIGINT)";

fn read(row: &Row, group: GroupBy) -> Result<Sum, Error> {
    let text = |wanted: bool, column| if wanted { row.text(column).map(Some) } else { Ok(None) };
    let endpoint = match group.endpoint {
        true => usize::try_from(row.integer(5)?).ok().and_then(|at| Endpoint::ALL.get(at).copied()),
        false => None,
    };
    Ok(Sum {
        bucket: row.count(0)?,
        project: text(group.project, 1)?,
        key: text(group.key, 2)?,
        model: text(group.model, 3)?,
        batch: if group.batch { Some(row.boolean(4)?) } else { None },
        endpoint,
        requests: row.count(6)?,
        input_tokens: row.count(7)?,
        cached_tokens: row.count(8)?,
        output_tokens: row.count(9)?,
        images: row.count(10)?,
        audio_milliseconds: row.count(11)?,
        cost: row.count(12)?,
    })
}
