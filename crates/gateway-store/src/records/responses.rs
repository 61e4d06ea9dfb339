//! The project and upstream of each response, kept for 30 days. Contents are not stored.

use crate::Error;
use crate::database::{Database, Row, Statement};

/// Time that rows are kept, in seconds.
pub const KEPT: i64 = 30 * 86_400;
/// Rows deleted per call.
const PRUNED: u32 = 1000;

/// The project and upstream of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOwner {
    /// Id of its project.
    pub project: Box<str>,
    /// The upstream's name.
    pub upstream: Box<str>,
    /// The name of the backend that has it; empty: the first one of the upstream.
    pub backend: Box<str>,
}

impl ObjectOwner {
    pub(super) fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self { project: row.text(0)?, upstream: row.text(1)?, backend: row.text(2)? })
    }
}

/// Records a response. A known id keeps its first project, so that no project can take over another
/// one's response.
///
/// # Errors
/// See [`Error`].
pub async fn insert(
    database: &Database,
    id: &str,
    owner: &ObjectOwner,
    at: i64,
) -> Result<(), Error> {
    database.transact(vec![remembering(id, owner, at)]).await.map(drop)
}

/// The statement of [`insert`], for transactions over many responses.
#[must_use]
pub fn remembering(id: &str, owner: &ObjectOwner, at: i64) -> Statement {
    Statement::new(
        "INSERT INTO responses (id, project, upstream, created_at, backend) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING",
        [
            id.into(),
            (&owner.project).into(),
            (&owner.upstream).into(),
            at.into(),
            (&owner.backend).into(),
        ],
    )
}

/// The project and upstream of a response, unless its row has expired.
///
/// # Errors
/// See [`Error`].
pub async fn find(database: &Database, id: &str, now: i64) -> Result<Option<ObjectOwner>, Error> {
    let sql = "SELECT project, upstream, backend FROM responses WHERE id = $1 AND created_at > $2";
    let rows = database.query(Statement::new(sql, [id.into(), (now - KEPT).into()])).await?;
    rows.first().map(ObjectOwner::read).transpose()
}

/// Deletes the record of a response.
///
/// # Errors
/// See [`Error`].
pub async fn delete(database: &Database, id: &str) -> Result<(), Error> {
    database.transact(vec![forgetting(id)]).await.map(drop)
}

/// The statement of [`delete`], for transactions over many responses.
#[must_use]
pub fn forgetting(id: &str) -> Statement {
    Statement::new("DELETE FROM responses WHERE id = $1", [id.into()])
}

/// Deletes some expired rows. Returns whether there may be more.
///
/// # Errors
/// See [`Error`].
pub async fn prune(database: &Database, now: i64) -> Result<bool, Error> {
    let delete = Statement::new(
        "DELETE FROM responses WHERE id IN \
         (SELECT id FROM responses WHERE created_at <= $1 ORDER BY created_at LIMIT $2)",
        [(now - KEPT).into(), PRUNED.into()],
    );
    let done = database.transact(vec![delete]).await?;
    Ok(done.first().is_some_and(|done| done.affected == u64::from(PRUNED)))
}
