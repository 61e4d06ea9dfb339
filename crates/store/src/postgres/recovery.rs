//! Takes the leases of threads, and claims the turns that a dead node left in progress.

use super::connection::Connection;
use super::failure::Failure;
use super::node::LIVES;
use super::rows::{Fence, Lease, Transaction, lost};
use super::value::{Columns, Value};
use crate::{OrphanedTurn, StoreError, TurnElsewhere};

/// A thread whose lease this node has just taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) fence: Fence,
    /// True if this store had the lease before, and knows what is stored.
    pub(super) held_before: bool,
}

/// Takes the lease of a thread. Its epoch grows, unless this store has the lease and knows that
/// nothing which it sent can still take effect.
///
/// # Errors
/// [`StoreError::LeasedBy`] if another living node has it.
pub(super) async fn take(
    transaction: &mut Transaction<'_>,
    thread: &str,
) -> Result<Taken, Failure> {
    let connection = transaction.connection;
    let Lease { mut fence, owner } = transaction.lease(thread).await?;
    let is_own = owner.as_deref() == Some(transaction.me);
    let held_before = is_own && transaction.known.get(thread) == Some(&fence);
    if let Some(owner) = owner.filter(|_| !is_own) {
        let living = "SELECT holder FROM #node
            WHERE id = $1 AND lease_until > clock_timestamp()";
        if let Some(row) = connection.row(living, &[owner.as_str().into()]).await? {
            let (thread, holder) = (thread.to_owned(), Columns::of(&row).text()?);
            let owner = super::node::name_of(&owner).to_owned();
            return Err(StoreError::LeasedBy { thread, holder, owner }.into());
        }
    }
    if !held_before {
        fence.epoch += 1;
        let take = "UPDATE #lease SET owner = $2, epoch = $3 WHERE thread = $1";
        let values = [fence.thread.into(), transaction.me.into(), fence.epoch.into()];
        connection.execute(take, &values).await?;
    }
    transaction.locked.insert(thread.to_owned(), fence);
    Ok(Taken { fence, held_before })
}

/// Releases the lease of a thread, if this node has it.
pub(super) async fn release(
    connection: &Connection,
    tenant: &str,
    me: &str,
    thread: &str,
) -> Result<(), Failure> {
    connection
        .execute(
            "UPDATE #lease AS lease SET owner = NULL FROM #thread AS thread
             WHERE lease.thread = thread.pk AND lease.owner = $3
                 AND thread.tenant = $1 AND thread.id = $2",
            &[tenant.into(), thread.into(), me.into()],
        )
        .await?;
    Ok(())
}

/// Claims the turns in progress of a thread whose lease `me` has just taken.
pub(super) async fn claim_of(
    connection: &Connection,
    me: &str,
    thread: i64,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let claim = "UPDATE #turn SET owner = $2 WHERE status = 0 AND thread = $1";
    connection.execute(claim, &[thread.into(), me.into()]).await?;
    in_progress(connection, me, Some(thread)).await
}

/// Claims every turn in progress whose node is dead. Of concurrent nodes, exactly one gets a turn.
/// The threads of the dead node are freed with a new epoch, so that it cannot write to them when it
/// was only paused.
pub(super) async fn claim(
    connection: &Connection,
    tenant: &str,
    me: &str,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let dead = format!(
        "SELECT turn.thread, turn.ordinal FROM #turn AS turn
             JOIN #thread AS thread ON thread.pk = turn.thread
         WHERE turn.status = 0 AND turn.owner <> $2 AND thread.tenant = $1 AND NOT {LIVES}
         ORDER BY turn.thread, turn.ordinal FOR UPDATE OF turn"
    );
    let (mut threads, mut ordinals) = (Vec::new(), Vec::new());
    for row in &connection.rows(&dead, &[tenant.into(), me.into()]).await? {
        let mut columns = Columns::of(row);
        threads.push(columns.int()?);
        ordinals.push(columns.int()?);
    }
    if threads.is_empty() {
        return Ok(Vec::new());
    }
    let free = format!(
        "UPDATE #lease SET owner = NULL, epoch = epoch + 1
         WHERE thread = ANY ($1) AND owner <> $2 AND NOT {LIVES}"
    );
    let claimed = Value::ints(threads.iter().copied());
    connection.execute(&free, &[claimed.clone(), me.into()]).await?;
    let claim = "UPDATE #turn AS turn SET owner = $3
        FROM unnest($1, $2) AS dead (thread, ordinal)
        WHERE turn.thread = dead.thread AND turn.ordinal = dead.ordinal";
    let places = Value::ints(ordinals.iter().copied());
    connection.execute(claim, &[claimed, places, me.into()]).await?;
    let mut orphans = Vec::with_capacity(threads.len());
    for place in threads.into_iter().zip(ordinals) {
        orphans.push(orphan(connection, place).await?);
    }
    Ok(orphans)
}

/// The turns in progress that `me` runs, of one thread or of all.
async fn in_progress(
    connection: &Connection,
    me: &str,
    thread: Option<i64>,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let running = "SELECT thread, ordinal FROM #turn
        WHERE status = 0 AND owner = $1 AND ($2::bigint IS NULL OR thread = $2)
        ORDER BY thread, ordinal";
    let mut orphans = Vec::new();
    for row in &connection.rows(running, &[me.into(), thread.into()]).await? {
        let mut columns = Columns::of(row);
        orphans.push(orphan(connection, (columns.int()?, columns.int()?)).await?);
    }
    Ok(orphans)
}

/// The turns in progress of a thread that `me` runs.
///
/// # Errors
/// `me` does not hold the lease of the thread.
pub(super) async fn in_progress_of(
    connection: &Connection,
    tenant: &str,
    me: &str,
    thread: &str,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let key = super::read::find_thread(connection, tenant, thread).await?;
    let leased = "SELECT 1 FROM #lease WHERE thread = $1 AND owner = $2";
    match connection.row(leased, &[key.into(), me.into()]).await? {
        Some(_) => in_progress(connection, me, Some(key)).await,
        None => Err(lost(thread)),
    }
}

/// The turns in progress of living nodes other than `me`. Changes nothing.
pub(super) async fn elsewhere(
    connection: &Connection,
    tenant: &str,
    me: &str,
) -> Result<Vec<TurnElsewhere>, Failure> {
    let rows = connection
        .rows(
            "SELECT DISTINCT thread.id, thread.cwd, node.holder
             FROM #turn AS turn JOIN #node AS node ON node.id = turn.owner
                 JOIN #thread AS thread ON thread.pk = turn.thread
             WHERE turn.status = 0 AND turn.owner <> $2 AND thread.tenant = $1
                 AND NOT thread.deleted AND node.lease_until > clock_timestamp()
             ORDER BY thread.id",
            &[tenant.into(), me.into()],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let mut columns = Columns::of(row);
            let (thread, cwd) = (columns.text()?, columns.text()?);
            Ok(TurnElsewhere { thread, cwd, holder: columns.text()? })
        })
        .collect()
}

async fn orphan(
    connection: &Connection,
    (thread, ordinal): (i64, i64),
) -> Result<OrphanedTurn, Failure> {
    let found = connection
        .row(
            "SELECT thread.id, turn.id, turn.started_at_ms
             FROM #turn AS turn JOIN #thread AS thread ON thread.pk = turn.thread
             WHERE turn.thread = $1 AND turn.ordinal = $2",
            &[thread.into(), ordinal.into()],
        )
        .await?;
    let row = found.ok_or_else(|| Failure::damaged(format!("turn {ordinal} of no thread")))?;
    let mut columns = Columns::of(&row);
    let (id, turn, started_at_ms) = (columns.text()?, columns.text()?, columns.int()?);
    let items = super::read::items_of(connection, (thread, ordinal)).await?;
    Ok(OrphanedTurn { thread: id, turn, started_at_ms, items })
}
