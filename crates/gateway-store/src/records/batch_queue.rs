//! The queue of batches: the input tokens of those that have not ended, which is their sum in the
//! store and nothing beside it. So it is the same for all nodes, and a batch that ends gives its
//! tokens back in the moment it ends, whoever dies (specification: What the service does, item 4).

use super::found;
use crate::database::{Database, DatabaseError, Statement, Value};

/// A limit of queued tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is added up.
    pub scope: Scope,
    /// The most of it.
    pub most: u64,
}

/// See [`Limit::scope`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The organization's batches for these models that have not ended.
    Queued(Vec<Box<str>>),
    /// The project's batches for this model that were accepted behind that second, ended or not.
    Since(Box<str>, i64),
}

/// A batch that was checked, and is to be run.
#[derive(Clone, Debug)]
pub struct Checked<'a> {
    /// Its id.
    pub id: &'a str,
    /// Whose it is.
    pub organization: &'a str,
    /// Whose it is.
    pub project: &'a str,
    /// The snapshot that its lines are for.
    pub model: &'a str,
    /// The sum of its lines' estimates.
    pub tokens: u64,
    /// Its lines.
    pub total: u64,
}

/// What became of a batch that asked to be queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is in progress.
    Queued,
    /// The limit of that index has no room.
    Full(usize),
    /// It is not being validated any more.
    Gone,
}

/// Puts a batch into the queue if it fits into all limits, in one step.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn admit(
    database: &Database,
    batch: &Checked<'_>,
    limits: &[Limit],
    now: i64,
) -> Result<Admission, DatabaseError> {
    // What another node ends between the two looks makes room: then it is tried again.
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
    Err(DatabaseError::Unavailable("the queue of batches changes too quickly".to_owned()))
}

/// What counts towards a limit.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn used(
    database: &Database,
    organization: &str,
    project: &str,
    scope: &Scope,
) -> Result<u64, DatabaseError> {
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
) -> Result<Option<()>, DatabaseError> {
    // Whoever queues something in this organization waits here for whoever does so already.
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

async fn is_validating(database: &Database, id: &str) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM batches WHERE id = $1 AND status = 'validating'";
    Ok(!database.query(Statement::new(sql, [id.into()])).await?.is_empty())
}

/// The statement of a sum; its values are added to `values`.
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
