//! The rows of queues, in the order of `position`.

use super::connection::Connection;
use super::failure::Failure;
use super::rows::Transaction;
use super::value::{Columns, Value};
use crate::{QueueWrite, QueuedEntry, StoreError};

/// Applies a change of the queue of a thread.
pub(super) async fn apply(
    transaction: &mut Transaction<'_>,
    thread: &str,
    write: &QueueWrite,
) -> Result<(), Failure> {
    let key = transaction.leased_thread(thread).await?;
    let connection = transaction.connection;
    let changed = |id: &str| Failure::from(StoreError::queue_changed(thread, id));
    let (rows, id) = match write {
        QueueWrite::Add(QueuedEntry { id, payload }) => {
            let values = [key.into(), id.into(), Value::payload(payload)];
            let add = "INSERT INTO #queued (thread, id, position, payload)
                SELECT $1, $2, coalesce(max(queued.position), 0) + 1, $3
                FROM #queued AS queued WHERE queued.thread = $1
                ON CONFLICT (thread, id) DO NOTHING";
            (connection.execute(add, &values).await?, id)
        }
        QueueWrite::Replace(QueuedEntry { id, payload }) => {
            let values = [key.into(), id.into(), Value::payload(payload)];
            let replace = "UPDATE #queued SET payload = $3 WHERE thread = $1 AND id = $2";
            (connection.execute(replace, &values).await?, id)
        }
        QueueWrite::Remove { id } => {
            let remove = "DELETE FROM #queued WHERE thread = $1 AND id = $2";
            (connection.execute(remove, &[key.into(), id.into()]).await?, id)
        }
        QueueWrite::Reorder { ids } => {
            let mut left: Vec<String> =
                read(connection, key).await?.into_iter().map(|entry| entry.id).collect();
            for id in ids {
                let at = left.iter().position(|known| known == id).ok_or_else(|| changed(id))?;
                left.remove(at);
            }
            if let Some(id) = left.first() {
                return Err(changed(id));
            }
            let place = "UPDATE #queued AS queued SET position = placed.number
                FROM unnest($2) WITH ORDINALITY AS placed (id, number)
                WHERE queued.thread = $1 AND queued.id = placed.id";
            let values = [key.into(), Value::texts(ids.iter().map(String::as_str))];
            connection.execute(place, &values).await?;
            return Ok(());
        }
    };
    if rows == 0 { Err(changed(id)) } else { Ok(()) }
}

/// The entries of a thread, in order.
pub(super) async fn read(
    connection: &Connection,
    thread: i64,
) -> Result<Vec<QueuedEntry>, Failure> {
    let all = "SELECT id, payload FROM #queued WHERE thread = $1 ORDER BY position";
    let mut entries = Vec::new();
    for row in &connection.rows(all, &[thread.into()]).await? {
        let mut columns = Columns::of(row);
        entries.push(QueuedEntry { id: columns.text()?, payload: columns.payload()? });
    }
    Ok(entries)
}
