//! Messages to a webhook, and the marks of the alerts that they are about. A mark and its message are
//! written together: an alert is raised once in a month, on one node, and its message is kept until
//! it is delivered or too old. A message that is being sent is claimed; the claim of a node that ends
//! lapses.

use ratelimit::Micros;

use super::found;
use crate::Error;
use crate::database::{Database, Row, Statement};
use gateway_policy::tenants::{MicroDollars, SpendAlert};

/// A message that is due only after more than this time waits for a moment of a clock that was wrong, and is due: the
/// longest wait between two attempts is six hours.
const FAR_AHEAD: Micros = 12 * 3_600_000_000;

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// `msg_…`, the same at each attempt.
    pub id: Box<str>,
    /// JSON.
    pub body: Box<str>,
    /// When it was written.
    pub created_at: Micros,
    /// When it is due; while it is claimed, when the claim lapses.
    pub due_at: Micros,
    /// Attempts so far.
    pub attempts: u32,
}

/// Marks an alert as raised in that month, with its message, if it has one. Returns `false` if it was
/// raised before at this threshold.
///
/// # Errors
/// See [`Error`].
pub async fn raise(
    database: &Database,
    alert: &SpendAlert,
    month: u32,
    message: Option<&Message>,
) -> Result<bool, Error> {
    let threshold: MicroDollars = alert.threshold;
    let mark = Statement::new(
        "INSERT INTO raised_alerts (alert, month, threshold) VALUES ($1, $2, $3) \
         ON CONFLICT (alert, month, threshold) DO NOTHING",
        [(&alert.id).into(), month.into(), threshold.into()],
    );
    let mut statements = vec![mark.expecting(1)];
    statements.extend(message.map(|message| {
        Statement::new(
            "INSERT INTO outbox (id, body, created_at, due_at, attempts) VALUES ($1, $2, $3, $4, $5)",
            [
                (&message.id).into(),
                (&message.body).into(),
                message.created_at.into(),
                message.due_at.into(),
                message.attempts.into(),
            ],
        )
    }));
    Ok(found(database.transact(statements).await)?.is_some())
}

/// Messages that are due, at most `most`, those that have waited longest first.
///
/// # Errors
/// See [`Error`].
pub async fn due(database: &Database, now: Micros, most: u32) -> Result<Vec<Message>, Error> {
    let sql = "SELECT id, body, created_at, due_at, attempts FROM outbox WHERE due_at <= $1 OR due_at > $3 \
               ORDER BY due_at, id LIMIT $2";
    let ahead = now.saturating_add(FAR_AHEAD);
    let rows = database.query(Statement::new(sql, [now.into(), most.into(), ahead.into()])).await?;
    rows.iter().map(read).collect()
}

/// The moment at which the next message is due; `None` without messages.
///
/// # Errors
/// See [`Error`].
pub async fn next_due(database: &Database) -> Result<Option<Micros>, Error> {
    let sql = "SELECT due_at FROM outbox ORDER BY due_at LIMIT 1";
    let rows = database.query(Statement::new(sql, [])).await?;
    rows.first().map(|row| row.count(0)).transpose()
}

/// Claims a due message until that moment, for another attempt. Returns the message as claimed, or
/// `None` if another node has it.
///
/// # Errors
/// See [`Error`].
pub async fn claim(
    database: &Database,
    message: &Message,
    until: Micros,
) -> Result<Option<Message>, Error> {
    let update = Statement::new(
        "UPDATE outbox SET due_at = $1, attempts = attempts + 1 WHERE id = $2 AND due_at = $3",
        [until.into(), (&message.id).into(), message.due_at.into()],
    );
    let claimed = found(database.transact(vec![update.expecting(1)]).await)?;
    let attempts = message.attempts.saturating_add(1);
    Ok(claimed.map(|_| Message { due_at: until, attempts, ..message.clone() }))
}

/// Sets when a claimed message is due again. Without effect if the claim has lapsed.
///
/// # Errors
/// See [`Error`].
pub async fn postpone(database: &Database, message: &Message, due_at: Micros) -> Result<(), Error> {
    let update = Statement::new(
        "UPDATE outbox SET due_at = $1 WHERE id = $2 AND due_at = $3",
        [due_at.into(), (&message.id).into(), message.due_at.into()],
    );
    database.transact(vec![update]).await.map(drop)
}

/// Deletes a message that was delivered, or is too old. Returns `false` if it was deleted before.
///
/// # Errors
/// See [`Error`].
pub async fn delete(database: &Database, message: &Message) -> Result<bool, Error> {
    let delete = Statement::new("DELETE FROM outbox WHERE id = $1", [(&message.id).into()]);
    Ok(found(database.transact(vec![delete.expecting(1)]).await)?.is_some())
}

/// Deletes the marks of other months than this one and those next to it: later ones are of a clock that was wrong.
///
/// # Errors
/// See [`Error`].
pub(super) async fn prune(database: &Database, month: u32) -> Result<(), Error> {
    let sql = "DELETE FROM raised_alerts WHERE month < $1 OR month > $2";
    let (first, last) = (month.saturating_sub(1), month.saturating_add(1));
    let delete = Statement::new(sql, [first.into(), last.into()]);
    database.transact(vec![delete]).await.map(drop)
}

fn read(row: &Row) -> Result<Message, Error> {
    Ok(Message {
        id: row.text(0)?,
        body: row.text(1)?,
        created_at: row.count(2)?,
        due_at: row.count(3)?,
        attempts: u32::try_from(row.count(4)?).unwrap_or(u32::MAX),
    })
}
