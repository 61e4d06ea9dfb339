//! The queue of batches: the input tokens of the batches that have not ended. It is computed as a
//! sum in the store, without a separate counter. So it is the same on all nodes, and a batch
//! releases its tokens the moment it ends, whichever node fails (specification: What the service
//! does, item 4).

use super::found;
use crate::Error;
use crate::database::{Database, Statement, Value};

/// A limit of queued tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The batches that count towards the limit.
    pub scope: Scope,
    /// Largest sum of tokens.
    pub most: u64,
}

/// See [`Limit::scope`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The organization's batches for these models that have not ended.
    Queued(Vec<Box<str>>),
    /// The project's batches for this model that were accepted after that second, ended or not.
    Since(Box<str>, i64),
}

/// A validated batch that is ready to be queued.
#[derive(Clone, Debug)]
pub struct Checked<'a> {
    /// Its id.
    pub id: &'a str,
    /// Id of its organization.
    pub organization: &'a str,
    /// Id of its project.
    pub project: &'a str,
    /// The model snapshot of its lines.
    pub model: &'a str,
    /// The sum of its lines' token estimates.
    pub tokens: u64,
    /// Number of its lines.
    pub total: u64,
}

/// The outcome of queueing a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The batch is in progress.
    Queued,
    /// The limit of that index has no room.
    Full(usize),
    /// The batch is no longer being validated.
    Gone,
}

/// Queues a batch if it fits into all limits, atomically.
///
/// # Errors
/// See [`Error`].
pub async fn admit(
    database: &Database,
    batch: &Checked<'_>,
    limits: &[Limit],
    now: i64,
) -> Result<Admission, Error> {
    // A batch of another node that ends between the two reads makes room: then it is tried again.
    for _ in 0..4 {
        if try_admit(database, batch, limits, now).await?.is_some() {
            return Ok(Admission::Queued);
        }
        if !is_validating(database, batch.id).await? {
            return Ok(Admission::Gone);
        }
        for (index, limit) in limits.iter().enumerate() {
            let used = used(database, batch.organization, batch.project, &limit.scope).await?;
            if used.saturating_add(batch.tokens) > limit.most {
                return Ok(Admission::Full(index));
            }
        }
    }
    Err(Error::unavailable("the queue of batches changes too quickly"))
}

/// The tokens that count towards a limit.
///
/// # Errors
/// See [`Error`].
pub async fn used(
    database: &Database,
    organization: &str,
    project: &str,
    scope: &Scope,
) -> Result<u64, Error> {
    let mut values = Vec::new();
    let sql = sum(organization, project, scope, &mut values);
    let rows = database.query(Statement::composed(sql, values)).await?;
    rows.first().map_or(Ok(0), |row| row.count(0))
}

async fn try_admit(
    database: &Database,
    batch: &Checked<'_>,
    limits: &[Limit],
    now: i64,
) -> Result<Option<()>, Error> {
    // Serializes the admissions of one organization.
    let lock = "UPDATE organizations SET name = name WHERE id = $1";
    let lock = Statement::new(lock, [batch.organization.into()]).expecting(1);
    let mut values: Vec<Value> = vec![
        batch.tokens.into(),
        batch.total.into(),
        batch.model.into(),
        now.into(),
        batch.id.into(),
    ];
    let mut sql = "UPDATE batches SET status = 'in_progress', queued_tokens = $1, total = $2, \
                   model = $3, in_progress_at = $4 WHERE id = $5 AND status = 'validating'"
        .to_owned();
    for limit in limits {
        let sum = sum(batch.organization, batch.project, &limit.scope, &mut values);
        values.push(limit.most.into());
        sql += &format!(" AND ({sum}) <= CAST(${} AS BIGINT) - $1", values.len());
    }
    let update = Statement::composed(sql, values).expecting(1);
    found(database.transact(vec![lock, update]).await.map(drop))
}

async fn is_validating(database: &Database, id: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM batches WHERE id = $1 AND status = 'validating'";
    Ok(!database.query(Statement::new(sql, [id.into()])).await?.is_empty())
}

/// The statement that computes a sum; appends its values to `values`.
fn sum(organization: &str, project: &str, scope: &Scope, values: &mut Vec<Value>) -> String {
    let mut place = |value: Value| {
        values.push(value);
        format!("${}", values.len())
    };
    let condition = match scope {
        Scope::Queued(models) => {
            let organization = place(organization.into());
            let models: Vec<String> = models.iter().map(|model| place(model.into())).collect();
            let models = models.join(", ");
            format!("organization = {organization} AND model IN ({models}) AND ended_at IS NULL")
        }
        Scope::Since(model, since) => {
            let (project, model) = (place(project.into()), place(model.into()));
            let since = place((*since).into());
            format!("project = {project} AND model = {model} AND created_at > {since}")
        }
    };
    format!("SELECT CAST(COALESCE(SUM(queued_tokens), 0) AS BIGINT) FROM batches WHERE {condition}")
}
