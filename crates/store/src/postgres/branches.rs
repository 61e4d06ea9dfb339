//! Forks, rollbacks and removals: threads that show the turns of others, or fewer of their own. No row
//! of a turn is copied, and none is deleted while a thread shows it.
//!
//! A fork locks the lease of its parent, so that the turns which the parent shows stay. Transactions
//! that stop showing turns of a deleted thread lock that thread, so that the last of them deletes the
//! turns.

use super::connection::Connection;
use super::failure::Failure;
use super::lineage::Lineage;
use super::rows::{Transaction, not_found, turn_not_found};
use super::value::{Columns, Value};
use crate::{StoreError, ThreadRecord};

/// Stores `record` as a thread that starts with the turns of `parent`, up to and including
/// `last_turn`, or else up to the first turn in progress.
pub(super) async fn fork(
    transaction: &mut Transaction<'_>,
    record: &ThreadRecord,
    parent: &str,
    last_turn: Option<&str>,
) -> Result<(), Failure> {
    let connection = transaction.connection;
    let source = lock_parent(transaction, parent).await?;
    let mut lineage = Lineage::of(connection, source).await?;
    let finished = match first_in_flight(connection, source).await? {
        Some(ordinal) => ordinal - 1,
        None => lineage.newest(),
    };
    let end = match last_turn {
        None => finished,
        Some(id) => {
            let found = super::read::visible_turn(connection, source, id).await?;
            let ordinal = found.ok_or_else(|| turn_not_found(parent, id))?.1;
            if ordinal > finished {
                return Err(StoreError::TurnInFlight { thread: parent.to_owned() }.into());
            }
            ordinal
        }
    };
    lineage.cut(end);
    lineage.freeze(connection).await?;
    let thread = transaction.create_thread(record).await?;
    lineage.write(connection, thread, end + 1).await?;
    set_places(connection, thread, end + 1, Some(lineage.turns())).await
}

/// Key of a thread whose turns stay until the end of the transaction.
async fn lock_parent(transaction: &Transaction<'_>, parent: &str) -> Result<i64, Failure> {
    if let Some(fence) = transaction.locked.get(parent) {
        return Ok(fence.thread);
    }
    let found = transaction
        .connection
        .row(
            "SELECT thread.pk FROM #thread AS thread JOIN #lease AS lease
                 ON lease.thread = thread.pk
             WHERE thread.tenant = $1 AND thread.id = $2 AND NOT thread.deleted
             FOR SHARE OF lease",
            &[transaction.tenant.into(), parent.into()],
        )
        .await?;
    Columns::of(&found.ok_or_else(|| not_found(parent))?).int()
}

/// Hides the last turns of a thread. Their rows stay, because forks may share them.
pub(super) async fn roll_back(
    transaction: &mut Transaction<'_>,
    id: &str,
    turns: u32,
) -> Result<(), Failure> {
    let thread = transaction.leased_thread(id).await?;
    let connection = transaction.connection;
    if first_in_flight(connection, thread).await?.is_some() {
        return Err(StoreError::TurnInFlight { thread: id.to_owned() }.into());
    }
    let mut lineage = Lineage::of(connection, thread).await?;
    let has = lineage.turns();
    let too_few = || StoreError::TooFewTurns { thread: id.to_owned(), asked: turns, has };
    if i64::from(turns) > has {
        return Err(too_few().into());
    }
    let newest = lineage.newest();
    lineage.cut(lineage.ordinal_before(turns.into()).ok_or_else(too_few)?);
    let sources = sources(connection, thread).await?;
    lineage.write(connection, thread, newest + 1).await?;
    set_places(connection, thread, newest + 1, None).await?;
    collect(connection, sources).await
}

/// Deletes a thread, and turns of deleted ancestors that only it shows.
pub(super) async fn remove(transaction: &mut Transaction<'_>, id: &str) -> Result<(), Failure> {
    let thread = transaction.leased_thread(id).await?;
    let connection = transaction.connection;
    let mut sources = sources(connection, thread).await?;
    let key = || [Value::from(thread)];
    connection.execute("DELETE FROM #segment WHERE thread = $1", &key()).await?;
    connection.execute("DELETE FROM #queued WHERE thread = $1", &key()).await?;
    connection
        .execute(
            "DELETE FROM #job_item USING #job AS job
             WHERE job_item.job = job.pk AND job.thread = $1",
            &key(),
        )
        .await?;
    connection.execute("DELETE FROM #job WHERE thread = $1", &key()).await?;
    connection.execute("DELETE FROM #lease WHERE thread = $1", &key()).await?;
    // What it cost was spent all the same.
    connection
        .execute(
            "UPDATE #usage SET thread = NULL, turn = NULL WHERE tenant = $1 AND thread = $2",
            &[transaction.tenant.into(), id.into()],
        )
        .await?;
    connection
        .execute(
            "UPDATE #thread SET deleted = TRUE, id = 'deleted:' || pk, tenant = '', turn_count = 0,
                 preview = '', searched = '', name = NULL, cwd = '', source = '', settings = '',
                 model = '', model_provider = '', session_id = '', git_info = NULL,
                 token_usage = NULL, extra = NULL
             WHERE pk = $1",
            &key(),
        )
        .await?;
    transaction.locked.remove(id);
    sources.push(thread);
    collect(connection, sources).await
}

/// The other threads whose turns a thread shows.
async fn sources(connection: &Connection, thread: i64) -> Result<Vec<i64>, Failure> {
    let rows = connection
        .rows(
            "SELECT DISTINCT source FROM #segment WHERE thread = $1 AND source <> $1",
            &[thread.into()],
        )
        .await?;
    rows.iter().map(|row| Columns::of(row).int()).collect()
}

/// Deletes the rows of the deleted ones of `threads` that no thread shows.
async fn collect(connection: &Connection, threads: Vec<i64>) -> Result<(), Failure> {
    let deleted = connection
        .rows(
            "SELECT pk FROM #thread WHERE pk = ANY ($1) AND deleted ORDER BY pk FOR UPDATE",
            &[Value::ints(threads)],
        )
        .await?;
    for row in &deleted {
        purge(connection, Columns::of(row).int()?).await?;
    }
    Ok(())
}

/// Deletes the rows of a deleted thread that no fork shows, and the thread if none remains.
async fn purge(connection: &Connection, thread: i64) -> Result<(), Failure> {
    for table in ["item", "history", "turn_words", "turn"] {
        let sql = format!(
            "DELETE FROM #{table} AS place WHERE place.thread = $1 AND NOT EXISTS (
                 SELECT 1 FROM #segment AS segment WHERE segment.source = $1
                     AND segment.first <= place.ordinal AND place.ordinal <= segment.last)"
        );
        connection.execute(&sql, &[thread.into()]).await?;
    }
    connection
        .execute(
            "DELETE FROM #thread WHERE pk = $1
                 AND NOT EXISTS (SELECT 1 FROM #segment WHERE source = $1)",
            &[thread.into()],
        )
        .await?;
    Ok(())
}

/// Makes `place` the newest place of a thread, after which its own turns begin.
async fn set_places(
    connection: &Connection,
    thread: i64,
    place: i64,
    turns: Option<i64>,
) -> Result<(), Failure> {
    connection
        .execute(
            "UPDATE #thread SET open_from = $2, last_ordinal = $2,
                 turn_count = coalesce($3, turn_count)
             WHERE pk = $1",
            &[thread.into(), place.into(), turns.into()],
        )
        .await?;
    Ok(())
}

/// The ordinal of the thread's oldest turn in progress, which is always one of its own.
async fn first_in_flight(connection: &Connection, thread: i64) -> Result<Option<i64>, Failure> {
    let first = "SELECT min(ordinal) FROM #turn WHERE status = 0 AND thread = $1";
    match connection.row(first, &[thread.into()]).await? {
        Some(row) => Columns::of(&row).int_or_null(),
        None => Ok(None),
    }
}
