//! Responses that the gateway keeps itself, for models whose servers keep none: the items of their requests, and the
//! responses. Each belongs to a project, and to the conversation that it continues, which is deleted as a whole: when
//! its time is over, or when its project needs the room.

use crate::Error;
use crate::database::{Database, Row, Statement, StatementResult, Value};

/// Longest chain of responses; a longer one is not continued.
pub const MAX_CHAIN: u64 = 2000;
/// Bytes that are counted for a response besides its contents.
const OVERHEAD: u64 = 256;
/// Conversations deleted per call.
const PRUNED: u32 = 100;

/// A response to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResponse {
    /// `resp_…`, unique on all nodes.
    pub id: Box<str>,
    /// The project that created it.
    pub project: Box<str>,
    /// The response that it continues.
    pub previous: Option<Link>,
    /// The items of its request, as a JSON array.
    pub input: Box<[u8]>,
    /// The response, as JSON.
    pub output: Box<[u8]>,
}

/// A kept response, as one that continues it needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its id.
    pub id: Box<str>,
    /// The first response of its chain.
    pub conversation: Box<str>,
    /// The number of responses before it.
    pub place: u64,
    /// The bytes of its chain, with its own.
    pub context_bytes: u64,
}

/// The contents of a kept response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// The items of its request, as a JSON array.
    pub input: Box<[u8]>,
    /// The response, as JSON.
    pub output: Box<[u8]>,
}

/// The time of a conversation, and its project's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Now, in seconds.
    pub now: i64,
    /// Seconds that a conversation is kept after its last use.
    pub retention: i64,
    /// Most bytes of a project.
    pub project_bytes: u64,
}

impl KeptResponse {
    fn bytes(&self) -> u64 {
        (self.input.len() + self.output.len()) as u64 + OVERHEAD
    }

    fn conversation(&self) -> &str {
        self.previous.as_ref().map_or(&*self.id, |previous| &previous.conversation)
    }
}

/// Keeps a response. The conversations of its project that were not used for the longest time make room for it.
///
/// # Errors
/// See [`Error`].
pub async fn insert(
    database: &Database,
    response: &KeptResponse,
    bounds: Bounds,
) -> Result<(), Error> {
    let bytes = response.bytes();
    let (place, before) = match &response.previous {
        Some(previous) => (previous.place + 1, previous.context_bytes),
        None => (0, 0),
    };
    let (conversation, project) = (response.conversation().to_owned(), response.project.clone());
    // Of a row that is there already, because the answer to its insertion was lost, nothing is counted twice.
    let counted = move |done: &[StatementResult]| match done.first() {
        Some(first) if first.affected == 0 => Value::from(0_u64),
        _ => Value::from(bytes),
    };
    let of_project = project.clone();
    let statements = vec![
        Statement::new(
            "INSERT INTO kept_responses (id, project, conversation, previous, place, context_bytes, bytes, input, \
             output) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING",
            [
                (&response.id).into(),
                (&response.project).into(),
                response.conversation().into(),
                response.previous.as_ref().map(|previous| &previous.id).into(),
                place.into(),
                (before + bytes).into(),
                bytes.into(),
                (&*response.input).into(),
                (&*response.output).into(),
            ],
        ),
        Statement::computed(
            "INSERT INTO kept_conversations (id, project, bytes, used_at, expires_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (id) DO UPDATE SET bytes = kept_conversations.bytes + excluded.bytes, \
             used_at = excluded.used_at, expires_at = excluded.expires_at",
            move |done| {
                vec![
                    conversation.clone().into(),
                    project.clone().into(),
                    counted(done),
                    bounds.now.into(),
                    bounds.now.saturating_add(bounds.retention).into(),
                ]
            },
        ),
        Statement::computed(
            "INSERT INTO kept_bytes (project, bytes) VALUES ($1, $2) \
             ON CONFLICT (project) DO UPDATE SET bytes = kept_bytes.bytes + excluded.bytes RETURNING bytes",
            move |done| vec![of_project.clone().into(), counted(done)],
        ),
    ];
    let done = database.transact(statements).await?;
    let total = done.last().and_then(|done| done.rows.first()).map_or(Ok(0), |row| row.count(0))?;
    make_room(database, response, total, bounds.project_bytes).await
}

/// Deletes conversations of the project, besides that of the response, until the project has no more than `most` bytes.
async fn make_room(
    database: &Database,
    response: &KeptResponse,
    mut total: u64,
    most: u64,
) -> Result<(), Error> {
    while total > most {
        let sql = "SELECT id, used_at, bytes FROM kept_conversations WHERE project = $1 AND id <> $2 \
                   ORDER BY used_at LIMIT 20";
        let values = [(&response.project).into(), response.conversation().into()];
        let oldest = database.query(Statement::new(sql, values)).await?;
        if oldest.is_empty() {
            return Ok(());
        }
        for row in oldest {
            delete_conversation(database, &row.text(0)?, "used_at", row.integer(1)?).await?;
            total = total.saturating_sub(row.count(2)?);
            if total <= most {
                break;
            }
        }
    }
    Ok(())
}

/// A project's response, to continue it: its conversation expires later from now on.
///
/// # Errors
/// See [`Error`].
pub async fn find(
    database: &Database,
    project: &str,
    id: &str,
    bounds: Bounds,
) -> Result<Option<Link>, Error> {
    let until = bounds.now.saturating_add(bounds.retention);
    let statements = vec![
        Statement::new(
            "UPDATE kept_conversations SET used_at = $1, expires_at = $2 WHERE expires_at > $1 AND id IN \
             (SELECT conversation FROM kept_responses WHERE id = $3 AND project = $4)",
            [bounds.now.into(), until.into(), id.into(), project.into()],
        ),
        Statement::computed(
            "SELECT id, conversation, place, context_bytes FROM kept_responses \
             WHERE id = $1 AND project = $2 AND CAST($3 AS BIGINT) > 0",
            {
                let (id, project) = (id.to_owned(), project.to_owned());
                move |done| {
                    let found = done.first().map_or(0, |done| done.affected);
                    vec![id.clone().into(), project.clone().into(), found.into()]
                }
            },
        ),
    ];
    let done = database.transact(statements).await?;
    let row = done.last().and_then(|done| done.rows.first());
    let read = |row: &Row| {
        Ok(Link {
            id: row.text(0)?,
            conversation: row.text(1)?,
            place: row.count(2)?,
            context_bytes: row.count(3)?,
        })
    };
    row.map(read).transpose()
}

/// The contents of a response and of all that it continues, oldest first. `None`: one of them was deleted.
///
/// # Errors
/// See [`Error`].
pub async fn chain(
    database: &Database,
    project: &str,
    last: &Link,
) -> Result<Option<Vec<Contents>>, Error> {
    let sql = "WITH RECURSIVE chain (id, previous, place) AS (\
               SELECT id, previous, place FROM kept_responses WHERE id = $1 AND project = $2 \
               UNION ALL SELECT one.id, one.previous, one.place FROM kept_responses one \
               JOIN chain ON one.id = chain.previous WHERE one.project = $2 AND one.place < chain.place) \
               SELECT kept.input, kept.output FROM chain JOIN kept_responses kept ON kept.id = chain.id \
               ORDER BY chain.place";
    let values = [(&last.id).into(), project.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    if rows.len() as u64 != last.place + 1 {
        return Ok(None);
    }
    rows.iter().map(contents).collect::<Result<_, _>>().map(Some)
}

/// The contents of a project's response, unless its conversation has expired.
///
/// # Errors
/// See [`Error`].
pub async fn read(
    database: &Database,
    project: &str,
    id: &str,
    now: i64,
) -> Result<Option<Contents>, Error> {
    let sql = "SELECT kept.input, kept.output FROM kept_responses kept JOIN kept_conversations whole \
               ON whole.id = kept.conversation WHERE kept.id = $1 AND kept.project = $2 AND whole.expires_at > $3";
    let values = [id.into(), project.into(), now.into()];
    let rows = database.query(Statement::new(sql, values)).await?;
    rows.first().map(contents).transpose()
}

fn contents(row: &Row) -> Result<Contents, Error> {
    Ok(Contents { input: row.bytes(0)?, output: row.bytes(1)? })
}

/// Deletes a project's response. Returns whether there was one. Those that continue it stay, and cannot be continued.
///
/// # Errors
/// See [`Error`].
pub async fn delete(database: &Database, project: &str, id: &str) -> Result<bool, Error> {
    let conversation =
        |done: &[StatementResult]| match done.first().and_then(|one| one.rows.first()) {
            Some(row) => row.values().first().cloned().unwrap_or(Value::Null),
            None => Value::Null,
        };
    let bytes = |done: &[StatementResult]| match done.first().and_then(|one| one.rows.first()) {
        Some(row) => row.values().get(1).cloned().unwrap_or(Value::from(0_i64)),
        None => Value::from(0_i64),
    };
    let of_project = project.to_owned();
    let statements = vec![
        Statement::new(
            "DELETE FROM kept_responses WHERE id = $1 AND project = $2 RETURNING conversation, bytes",
            [id.into(), project.into()],
        ),
        Statement::computed(
            "UPDATE kept_conversations SET bytes = bytes - $1 WHERE id = $2",
            move |done| vec![bytes(done), conversation(done)],
        ),
        Statement::computed(
            "DELETE FROM kept_conversations WHERE id = $1 AND NOT EXISTS \
             (SELECT 1 FROM kept_responses WHERE conversation = $1)",
            move |done| vec![conversation(done)],
        ),
        Statement::computed(
            "UPDATE kept_bytes SET bytes = bytes - $1 WHERE project = $2",
            move |done| vec![bytes(done), of_project.clone().into()],
        ),
    ];
    let done = database.transact(statements).await?;
    Ok(done.first().is_some_and(|done| done.affected > 0))
}

/// Deletes a conversation, unless the column has a later moment by now: it was used in the meantime.
async fn delete_conversation(
    database: &Database,
    id: &str,
    column: &'static str,
    at: i64,
) -> Result<(), Error> {
    let first = |done: &[StatementResult], column: usize| {
        let row = done.first().and_then(|done| done.rows.first());
        row.and_then(|row| row.values().get(column).cloned())
    };
    let delete = match column {
        "used_at" => {
            "DELETE FROM kept_conversations WHERE id = $1 AND used_at <= $2 RETURNING id, project, bytes"
        }
        _ => {
            "DELETE FROM kept_conversations WHERE id = $1 AND expires_at <= $2 RETURNING id, project, bytes"
        }
    };
    let statements = vec![
        Statement::new(delete, [id.into(), at.into()]),
        Statement::computed("DELETE FROM kept_responses WHERE conversation = $1", move |done| {
            vec![first(done, 0).unwrap_or(Value::Null)]
        }),
        Statement::computed(
            "UPDATE kept_bytes SET bytes = bytes - $1 WHERE project = $2",
            move |done| {
                let bytes = first(done, 2).unwrap_or(Value::from(0_i64));
                vec![bytes, first(done, 1).unwrap_or(Value::Null)]
            },
        ),
    ];
    database.transact(statements).await.map(drop)
}

/// Deletes some expired conversations. Returns whether there may be more.
///
/// # Errors
/// See [`Error`].
pub async fn prune(database: &Database, now: i64) -> Result<bool, Error> {
    let sql =
        "SELECT id FROM kept_conversations WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2";
    let rows = database.query(Statement::new(sql, [now.into(), PRUNED.into()])).await?;
    for row in &rows {
        delete_conversation(database, &row.text(0)?, "expires_at", now).await?;
    }
    Ok(rows.len() == PRUNED as usize)
}
