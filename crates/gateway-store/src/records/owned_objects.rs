//! Which project and upstream the objects of upstreams belong to: files, vector stores, videos and
//! whatever else has an id. They are remembered until they are deleted.

use super::responses::ObjectOwner;
use crate::database::{Database, DatabaseError, Statement};

/// Remembers an object. An id that is known already keeps its first project.
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
        "INSERT INTO owned_objects (id, project, upstream, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (id) DO NOTHING",
        [id.into(), (&owner.project).into(), (&owner.upstream).into(), at.into()],
    )
}

/// Where the object of that id is.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn find(database: &Database, id: &str) -> Result<Option<ObjectOwner>, DatabaseError> {
    let sql = "SELECT project, upstream FROM owned_objects WHERE id = $1";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    let read =
        rows.first().map(|row| Ok(ObjectOwner { project: row.text(0)?, upstream: row.text(1)? }));
    read.transpose()
}

/// Whether a project has anything at an upstream, files perhaps: what their ids look like is for the
/// upstream.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn has_any(database: &Database, project: &str) -> Result<bool, DatabaseError> {
    let sql = "SELECT 1 FROM owned_objects WHERE project = $1 LIMIT 1";
    Ok(!database.query(Statement::new(sql, [project.into()])).await?.is_empty())
}

/// Of those ids, the ones that belong to the project: by it lists of an upstream are narrowed. At
/// most 1000 ids at once.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn owned(
    database: &Database,
    project: &str,
    ids: &[&str],
) -> Result<Vec<Box<str>>, DatabaseError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let places: Vec<String> = (2..ids.len() + 2).map(|number| format!("${number}")).collect();
    let places = places.join(", ");
    let sql = format!("SELECT id FROM owned_objects WHERE project = $1 AND id IN ({places})");
    let values = std::iter::once(project).chain(ids.iter().copied()).map(Into::into).collect();
    let rows = database.query(Statement::composed(sql, values)).await?;
    rows.iter().map(|row| row.text(0)).collect()
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
    Statement::new("DELETE FROM owned_objects WHERE id = $1", [id.into()])
}
