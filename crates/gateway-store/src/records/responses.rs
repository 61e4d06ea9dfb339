//! Which project and upstream a response belongs to, for 30 days. Not its contents.

use crate::database::{Database, DatabaseError, Statement};

/// How long they are kept, in seconds.
pub const KEPT: i64 = 30 * 86_400;
/// Rows deleted at once.
const PRUNED: u32 = 1000;

/// Where a response is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOwner {
    /// Whose it is.
    pub project: Box<str>,
    /// The upstream's name.
    pub upstream: Box<str>,
}

/// Remembers a response. An id that is known already keeps its first project: nobody takes over
/// another one's.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn insert(
    database: &Database,
    id: &str,
    owner: &ObjectOwner,
    at: i64,
) -> Result<(), DatabaseError> {
    database.transact(vec![remembering(id, owner, at)]).await.map(drop)
}

/// The statement of [`insert`], for many at once.
#[must_use]
pub fn remembering(id: &str, owner: &ObjectOwner, at: i64) -> Statement {
    Statement::new(
        "INSERT INTO responses (id, project, upstream, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (id) DO NOTHING",
        [id.into(), (&owner.project).into(), (&owner.upstream).into(), at.into()],
    )
}

/// Where the response of that id is, if it is not too old.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn find(
    database: &Database,
    id: &str,
    now: i64,
) -> Result<Option<ObjectOwner>, DatabaseError> {
    let sql = "SELECT project, upstream FROM responses WHERE id = $1 AND created_at > $2";
    let rows = database.query(Statement::new(sql, [id.into(), (now - KEPT).into()])).await?;
    let read =
        rows.first().map(|row| Ok(ObjectOwner { project: row.text(0)?, upstream: row.text(1)? }));
    read.transpose()
}

/// Forgets one.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn delete(database: &Database, id: &str) -> Result<(), DatabaseError> {
    database.transact(vec![forgetting(id)]).await.map(drop)
}

/// The statement of [`delete`], for many at once.
#[must_use]
pub fn forgetting(id: &str) -> Statement {
    Statement::new("DELETE FROM responses WHERE id = $1", [id.into()])
}

/// Forgets some that are too old, and says whether there may be more.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn prune(database: &Database, now: i64) -> Result<bool, DatabaseError> {
    let delete = Statement::new(
        "DELETE FROM responses WHERE id IN \
         (SELECT id FROM responses WHERE created_at <= $1 ORDER BY created_at LIMIT $2)",
        [(now - KEPT).into(), PRUNED.into()],
    );
    let done = database.transact(vec![delete]).await?;
    Ok(done.first().is_some_and(|done| done.affected == u64::from(PRUNED)))
}
