//! The project and upstream of objects that upstreams created: files, vector stores, videos and
//! others. Rows are kept until the object is deleted.

use super::responses::ObjectOwner;
use crate::Error;
use crate::database::{Database, Statement};

/// Records an object. A known id keeps its first project.
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

/// The statement of [`insert`], for transactions over many objects.
#[must_use]
pub fn remembering(id: &str, owner: &ObjectOwner, at: i64) -> Statement {
    Statement::new(
        "INSERT INTO owned_objects (id, project, upstream, created_at, backend) \
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

/// The project and upstream of an object.
///
/// # Errors
/// See [`Error`].
pub async fn find(database: &Database, id: &str) -> Result<Option<ObjectOwner>, Error> {
    let sql = "SELECT project, upstream, backend FROM owned_objects WHERE id = $1";
    let rows = database.query(Statement::new(sql, [id.into()])).await?;
    rows.first().map(ObjectOwner::read).transpose()
}

/// Returns whether a project has any object at an upstream. Files cannot be distinguished, because
/// the upstream chooses the format of ids.
///
/// # Errors
/// See [`Error`].
pub async fn has_any(database: &Database, project: &str) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM owned_objects WHERE project = $1 LIMIT 1";
    Ok(!database.query(Statement::new(sql, [project.into()])).await?.is_empty())
}

/// The given ids that belong to the project, at most 1000 per call. Filters the lists of an
/// upstream.
///
/// # Errors
/// See [`Error`].
pub async fn owned(
    database: &Database,
    project: &str,
    ids: &[&str],
) -> Result<Vec<Box<str>>, Error> {
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

/// Deletes the record of an object.
///
/// # Errors
/// See [`Error`].
pub async fn delete(database: &Database, id: &str) -> Result<(), Error> {
    database.transact(vec![forgetting(id)]).await.map(drop)
}

/// The statement of [`delete`], for transactions over many objects.
#[must_use]
pub fn forgetting(id: &str) -> Statement {
    Statement::new("DELETE FROM owned_objects WHERE id = $1", [id.into()])
}
