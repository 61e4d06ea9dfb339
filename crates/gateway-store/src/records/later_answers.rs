//! Answers that come after their requests, such as responses in the background: what settles them, kept from the request until
//! their end is seen. A row and the entry of the ledger that replaces it change in one transaction, so that any node may
//! settle an answer, and only one does.

use std::sync::{Arc, LazyLock};

use ratelimit::Micros;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{FAR_AHEAD, found};
use crate::Error;
use crate::database::{Database, Row, Statement, Value};
use crate::ledger::{self, Endpoint, Entry};
use gateway_policy::dates;
use gateway_policy::price::{Asked, Price};
use gateway_policy::tenants::MicroDollars;

/// An answer that is not settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterAnswer {
    /// The upstream's id of the answer.
    pub id: Box<str>,
    /// The name of its kind.
    pub kind: Box<str>,
    /// The request that asked for it, `req_…`.
    pub request: Box<str>,
    /// `org-…`.
    pub organization: Box<str>,
    /// `proj_…`.
    pub project: Box<str>,
    /// `key_…`.
    pub key: Box<str>,
    /// The model that serves it.
    pub model: Box<str>,
    /// The name of the upstream that has it.
    pub upstream: Box<str>,
    /// The name of the backend that has it; empty: the first one.
    pub backend: Box<str>,
    /// The region of that upstream, if the request named one.
    pub region: Option<Box<str>>,
    /// The usage page that counts it.
    pub endpoint: Endpoint,
    /// True if it is a line of a batch.
    pub batch: bool,
    /// The money that spend counts until it is settled.
    pub held: MicroDollars,
    /// The tokens that limits counted at the request.
    pub tokens: u64,
    /// True if it has a long context.
    pub long_context: bool,
    /// Estimated input tokens.
    pub input_estimate: u64,
    /// Its maximum of output tokens.
    pub most_output: u64,
    /// Larger numbers of tokens in a usage are not believed.
    pub most_reported: u64,
    /// The price at its request.
    pub price: Option<Arc<Price>>,
    /// The parts of the request that its price depends on.
    pub asked: Asked,
    /// The text that was seen of it so far, in eighths of an estimated token.
    pub seen_eighths: u64,
    /// When it was requested.
    pub created_at: Micros,
    /// When it is settled even if its end is unknown.
    pub expires_at: Micros,
    /// When to ask for it next.
    pub poll_at: Micros,
    /// Number of times that it was asked for.
    pub polls: u32,
}

impl LaterAnswer {
    /// The month in which its spend counts.
    #[must_use]
    pub fn month(&self) -> u32 {
        dates::month(self.created_at)
    }
}

const COLUMNS: [&str; 26] = [
    "id",
    "kind",
    "request",
    "organization",
    "project",
    "api_key",
    "model",
    "upstream",
    "region",
    "endpoint",
    "batch",
    "month",
    "held",
    "tokens",
    "long_context",
    "input_estimate",
    "most_output",
    "most_reported",
    "price",
    "asked",
    "seen_eighths",
    "created_at",
    "expires_at",
    "poll_at",
    "polls",
    "backend",
];

static INSERT: LazyLock<String> = LazyLock::new(|| {
    let places: Vec<String> = (1..=COLUMNS.len()).map(|place| format!("${place}")).collect();
    // The same row again: the answer to its first insertion was lost.
    format!(
        "INSERT INTO later_answers ({}) VALUES ({}) ON CONFLICT (id) \
         DO UPDATE SET polls = later_answers.polls WHERE later_answers.request = excluded.request",
        COLUMNS.join(", "),
        places.join(", ")
    )
});
/// The price, also of a row by a node of an earlier version, which has only prices of tokens.
const PRICE: &str = "COALESCE(price, \
    '{\"tokens\":{\"short\":{\"input\":' || price_input || ',\"cached_input\":' || price_cached_input \
    || ',\"cache_write\":' || price_cache_write || ',\"cache_write_1h\":' || price_cache_write_1h \
    || ',\"output\":' || price_output || '}},\"calls\":[' || price_web_search || ',null,null,null]}')";

/// The columns as they are read.
static READ: LazyLock<String> = LazyLock::new(|| {
    let all: Vec<&str> =
        COLUMNS.iter().map(|name| if *name == "price" { PRICE } else { name }).collect();
    all.join(", ")
});
static FIND: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM later_answers WHERE id = $1", *READ));
static DUE: LazyLock<String> = LazyLock::new(|| {
    let columns = &*READ;
    format!(
        "SELECT {columns} FROM later_answers WHERE poll_at <= $1 OR poll_at > $3 \
         ORDER BY poll_at, id LIMIT $2"
    )
});

/// Keeps an answer. May be repeated. Returns `false` if the id is that of another request's answer.
///
/// # Errors
/// See [`Error`].
pub async fn keep(database: &Database, answer: &LaterAnswer) -> Result<bool, Error> {
    let insert = Statement::new(&INSERT, values(answer)).expecting(1);
    Ok(found(database.transact(vec![insert]).await)?.is_some())
}

/// The answer with that id, unless it is settled.
///
/// # Errors
/// See [`Error`].
pub async fn find(database: &Database, id: &str) -> Result<Option<LaterAnswer>, Error> {
    let rows = database.query(Statement::new(&FIND, [id.into()])).await?;
    rows.first().map(read).transpose()
}

/// Answers to ask for now, at most `most`, those that have waited longest first.
///
/// # Errors
/// See [`Error`].
pub async fn due(database: &Database, now: Micros, most: usize) -> Result<Vec<LaterAnswer>, Error> {
    let values = [now.into(), most.into(), now.saturating_add(FAR_AHEAD).into()];
    let rows = database.query(Statement::new(&DUE, values)).await?;
    rows.iter().map(read).collect()
}

/// Returns whether answers of an organization hold money of that month.
///
/// # Errors
/// See [`Error`].
pub async fn holds_money(
    database: &Database,
    organization: &str,
    month: u32,
) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM later_answers \
               WHERE organization = $1 AND month = $2 AND held > 0 LIMIT 1";
    let rows = database.query(Statement::new(sql, [organization.into(), month.into()])).await?;
    Ok(!rows.is_empty())
}

/// Claims a due answer until that moment. Returns `false` if another node has claimed or settled it.
///
/// # Errors
/// See [`Error`].
pub async fn claim(
    database: &Database,
    answer: &LaterAnswer,
    until: Micros,
) -> Result<bool, Error> {
    let update = Statement::new(
        "UPDATE later_answers SET poll_at = $1, polls = polls + 1 \
         WHERE id = $2 AND request = $3 AND poll_at = $4",
        [until.into(), (&answer.id).into(), (&answer.request).into(), answer.poll_at.into()],
    );
    Ok(found(database.transact(vec![update.expecting(1)]).await)?.is_some())
}

/// Sets when to ask next, and notes the text that was seen. Without effect on a settled answer.
///
/// # Errors
/// See [`Error`].
pub async fn postpone(
    database: &Database,
    answer: &LaterAnswer,
    poll_at: Micros,
    seen_eighths: u64,
) -> Result<(), Error> {
    let update = Statement::new(
        "UPDATE later_answers SET poll_at = $1, \
         seen_eighths = CASE WHEN seen_eighths < $2 THEN $2 ELSE seen_eighths END \
         WHERE id = $3 AND request = $4",
        [poll_at.into(), seen_eighths.into(), (&answer.id).into(), (&answer.request).into()],
    );
    database.transact(vec![update]).await.map(drop)
}

/// Replaces an answer by its entry in the ledger. Returns `false` if it was settled before.
///
/// # Errors
/// See [`Error`].
pub async fn settle(
    database: &Database,
    answer: &LaterAnswer,
    entry: Entry,
) -> Result<bool, Error> {
    let sql = "DELETE FROM later_answers WHERE id = $1 AND request = $2";
    let delete = Statement::new(sql, [(&answer.id).into(), (&answer.request).into()]);
    let mut statements = vec![delete.expecting(1)];
    statements.extend(ledger::recording(entry));
    Ok(found(database.transact(statements).await)?.is_some())
}

fn values(answer: &LaterAnswer) -> Vec<Value> {
    let price = answer.price.as_ref().map(|price| json(&**price));
    vec![
        (&answer.id).into(),
        (&answer.kind).into(),
        (&answer.request).into(),
        (&answer.organization).into(),
        (&answer.project).into(),
        (&answer.key).into(),
        (&answer.model).into(),
        (&answer.upstream).into(),
        answer.region.clone().into(),
        answer.endpoint.number().into(),
        answer.batch.into(),
        answer.month().into(),
        answer.held.into(),
        answer.tokens.into(),
        answer.long_context.into(),
        answer.input_estimate.into(),
        answer.most_output.into(),
        answer.most_reported.into(),
        price.map_or(Value::Null, Value::from),
        json(&answer.asked).into(),
        answer.seen_eighths.into(),
        answer.created_at.into(),
        answer.expires_at.into(),
        answer.poll_at.into(),
        answer.polls.into(),
        (&answer.backend).into(),
    ]
}

fn read(row: &Row) -> Result<LaterAnswer, Error> {
    Ok(LaterAnswer {
        id: row.text(0)?,
        kind: row.text(1)?,
        request: row.text(2)?,
        organization: row.text(3)?,
        project: row.text(4)?,
        key: row.text(5)?,
        model: row.text(6)?,
        upstream: row.text(7)?,
        region: row.optional_text(8)?,
        endpoint: Endpoint::numbered(row.integer(9)?),
        batch: row.boolean(10)?,
        held: row.count(12)?,
        tokens: row.count(13)?,
        long_context: row.boolean(14)?,
        input_estimate: row.count(15)?,
        most_output: row.count(16)?,
        most_reported: row.count(17)?,
        price: row.optional_text(18)?.map(|text| parsed(&text)).transpose()?.map(Arc::new),
        asked: row.optional_text(19)?.map(|text| parsed(&text)).transpose()?.unwrap_or_default(),
        seen_eighths: row.count(20)?,
        created_at: row.count(21)?,
        expires_at: row.count(22)?,
        poll_at: row.count(23)?,
        polls: u32::try_from(row.count(24)?).unwrap_or(u32::MAX),
        backend: row.text(25)?,
    })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data can be written")
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::failed(format!("a price is not valid: {error}")))
}
