//! The changes that the caches of all nodes must see. A change is numbered in its own transaction
//! under the counter's row lock: numbers have no gaps and become visible in order, on both
//! backends.

use crate::Error;
use crate::database::{Database, Statement};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A key was revoked, rotated or given an expiry: its hash in hexadecimal.
    Key(Box<str>),
    /// A project or its limits.
    Project(Box<str>),
    /// An organization or its limits.
    Organization(Box<str>),
}

/// Time that changes are kept, in seconds. A node that was away longer drops its whole cache.
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

/// The statements that announce a change. Put them last in the transaction, so that the counter is
/// locked only briefly. `at` is in seconds.
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

/// The changes after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The number of the latest change.
    pub last: u64,
    /// The next changes, in order. Kinds that only a later version knows are `None`.
    pub changes: Vec<(u64, Option<Change>)>,
}

/// The number of the latest change, and at most `limit` changes after `sequence`.
///
/// # Errors
/// See [`Error`].
pub async fn behind(database: &Database, sequence: u64, limit: u32) -> Result<Behind, Error> {
    let statement = Statement::new(
        "SELECT change_counter.value, changes.sequence, changes.kind, changes.id \
         FROM change_counter LEFT JOIN changes ON changes.sequence > $1 \
         ORDER BY changes.sequence LIMIT $2",
        [sequence.into(), limit.into()],
    );
    let rows = database.query(statement).await?;
    let last = rows.first().map_or(Ok(0), |row| row.count(0))?;
    let mut changes = Vec::new();
    for row in &rows {
        let Some(sequence) = row.optional_count(1)? else { break };
        let id = row.text(3)?;
        let change = match &*row.text(2)? {
            "key" => Some(Change::Key(id)),
            "project" => Some(Change::Project(id)),
            "organization" => Some(Change::Organization(id)),
            _ => None,
        };
        changes.push((sequence, change));
    }
    Ok(Behind { last, changes })
}

/// Deletes changes from before that second.
///
/// # Errors
/// See [`Error`].
pub async fn prune(database: &Database, before: i64) -> Result<(), Error> {
    let delete = Statement::new("DELETE FROM changes WHERE at < $1", [before.into()]);
    database.transact(vec![delete]).await.map(drop)
}
