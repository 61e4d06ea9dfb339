//! The changes that caches of all nodes must see. A change is numbered in its own transaction under
//! the counter's row lock: numbers have no gaps and become visible in their order, on any store.

use crate::database::{Database, DatabaseError, Statement};

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key was revoked, rotated or given an end: its hash in hexadecimal.
    Key(Box<str>),
    /// Anything of a project or its limits.
    Project(Box<str>),
    /// Anything of an organization or its limits.
    Organization(Box<str>),
}

/// How long changes are kept, in seconds: a node that was away for longer forgets everything.
pub const KEPT: i64 = 3600;

impl Change {
    fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Project(_) => "project",
            Self::Organization(_) => "organization",
        }
    }

    fn id(&self) -> &str {
        let (Self::Key(id) | Self::Project(id) | Self::Organization(id)) = self;
        id
    }
}

/// The statements that announce a change; they stand last in its transaction, so that the counter
/// is locked for a short time only. `at` is in seconds.
#[must_use]
pub fn announce(change: &Change, at: i64) -> [Statement; 2] {
    [
        Statement::new("UPDATE change_counter SET value = value + 1", []).expecting(1),
        Statement::new(
            "INSERT INTO changes (sequence, kind, id, at) \
             SELECT value, $1, $2, $3 FROM change_counter",
            [change.kind().into(), change.id().into(), at.into()],
        )
        .expecting(1),
    ]
}

/// The number of the last change.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn last(database: &Database) -> Result<u64, DatabaseError> {
    let rows = database.query(Statement::new("SELECT value FROM change_counter", [])).await?;
    rows.first().map_or(Ok(0), |row| row.count(0))
}

/// At most `limit` changes behind that number, in their order. Kinds that a later version writes
/// are `None`.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn after(
    database: &Database,
    sequence: u64,
    limit: u32,
) -> Result<Vec<(u64, Option<Change>)>, DatabaseError> {
    let statement = Statement::new(
        "SELECT sequence, kind, id FROM changes WHERE sequence > $1 ORDER BY sequence LIMIT $2",
        [sequence.into(), limit.into()],
    );
    let rows = database.query(statement).await?;
    let read = rows.iter().map(|row| {
        let id = row.text(2)?;
        let change = match &*row.text(1)? {
            "key" => Some(Change::Key(id)),
            "project" => Some(Change::Project(id)),
            "organization" => Some(Change::Organization(id)),
            _ => None,
        };
        Ok((row.count(0)?, change))
    });
    read.collect()
}

/// Forgets changes from before that second.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn prune(database: &Database, before: i64) -> Result<(), DatabaseError> {
    let delete = Statement::new("DELETE FROM changes WHERE at < $1", [before.into()]);
    database.transact(vec![delete]).await.map(drop)
}
