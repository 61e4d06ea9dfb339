//! Claims turns that a dead process left in progress for one living store, which then ends them.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::owner;
use crate::sqlite::read::items_of;
use crate::sqlite::rows::leased_thread;
use crate::{OrphanedTurn, TurnElsewhere};

/// Claims every turn in progress whose owner is dead. Of concurrent stores, exactly one gets a
/// turn; if that store dies as well, the turn can be claimed again.
pub(crate) fn claim(
    conn: &mut Connection,
    owners: &Path,
    me: &str,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let mut dead = Vec::new();
    for owner in others_in_flight(conn, me)? {
        if owner::is_dead(owners, &owner)? {
            dead.push(owner);
        }
    }
    owner::sweep(owners)?;
    if dead.is_empty() {
        return Ok(Vec::new());
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut orphans = Vec::new();
    for owner in dead {
        claim_from(&transaction, me, &owner, &mut orphans)?;
    }
    transaction.commit()?;
    orphans.sort_unstable_by_key(|(turn, _)| *turn);
    Ok(orphans.into_iter().map(|(_, orphan)| orphan).collect())
}

fn others_in_flight(conn: &Connection, me: &str) -> Result<Vec<String>, Failure> {
    let owners = conn
        .prepare("SELECT DISTINCT owner FROM turn WHERE status = 0 AND owner <> ?1")?
        .query_map([me], |row| row.get(0))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(owners)
}

/// The turns in progress of living stores other than `me`. Changes nothing.
pub(crate) fn elsewhere(
    conn: &Connection,
    owners: &Path,
    me: &str,
) -> Result<Vec<TurnElsewhere>, Failure> {
    let mut turns = Vec::new();
    for owner in others_in_flight(conn, me)? {
        if !owner::is_alive(owners, &owner)? {
            continue;
        }
        let holder = owner::described(owners, &owner);
        let rows = conn
            .prepare_cached(
                "SELECT DISTINCT thread.id, thread.cwd FROM turn JOIN thread ON thread.pk = turn.thread
                 WHERE turn.status = 0 AND turn.owner = ?1 AND thread.deleted = 0",
            )?
            .query_map([&owner], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<Vec<(String, String)>, _>>()?;
        let found = rows.into_iter().map(|(thread, cwd)| {
            let holder = holder.clone();
            TurnElsewhere { thread, cwd, holder }
        });
        turns.extend(found);
    }
    Ok(turns)
}

/// Claims the turns in progress of a thread whose lease `me` has just taken.
pub(crate) fn claim_of(
    conn: &Connection,
    me: &str,
    thread: i64,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let turns = conn
        .prepare_cached(
            "SELECT pk FROM turn INDEXED BY turn_in_flight WHERE status = 0 AND thread = ?1",
        )?
        .query_map([thread], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    let mut orphans = Vec::new();
    for turn in turns {
        conn.prepare_cached("UPDATE turn SET owner = ?2 WHERE pk = ?1")?
            .execute(params![turn, me])?;
        orphans.push((turn, orphan(conn, turn)?));
    }
    orphans.sort_unstable_by_key(|(turn, _)| *turn);
    Ok(orphans.into_iter().map(|(_, orphan)| orphan).collect())
}

/// The turns in progress of a thread that `me` runs.
///
/// # Errors
/// `me` does not hold the lease of the thread.
pub(crate) fn in_progress(
    conn: &Connection,
    me: &str,
    thread: &str,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let thread = leased_thread(conn, me, thread)?;
    let turns = conn
        .prepare_cached(
            "SELECT pk FROM turn INDEXED BY turn_in_flight
             WHERE status = 0 AND thread = ?1 AND owner = ?2 ORDER BY pk",
        )?
        .query_map(params![thread, me], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    turns.into_iter().map(|turn| orphan(conn, turn)).collect()
}

/// Changes and returns only rows that still belong to the dead owner.
fn claim_from(
    conn: &Connection,
    me: &str,
    dead: &str,
    orphans: &mut Vec<(i64, OrphanedTurn)>,
) -> Result<(), Failure> {
    let claimed = conn
        .prepare("UPDATE turn SET owner = ?1 WHERE status = 0 AND owner = ?2 RETURNING pk")?
        .query_map(params![me, dead], |row| row.get(0))?
        .collect::<Result<Vec<i64>, _>>()?;
    for turn in claimed {
        orphans.push((turn, orphan(conn, turn)?));
    }
    Ok(())
}

fn orphan(conn: &Connection, turn: i64) -> Result<OrphanedTurn, Failure> {
    let mut orphan = conn.query_row(
        "SELECT thread.id, turn.id, turn.started_at_ms
         FROM turn JOIN thread ON thread.pk = turn.thread WHERE turn.pk = ?1",
        [turn],
        |row| {
            let (thread, started_at_ms) = (row.get(0)?, row.get(2)?);
            Ok(OrphanedTurn { thread, turn: row.get(1)?, started_at_ms, items: Vec::new() })
        },
    )?;
    orphan.items = items_of(conn, turn)?;
    Ok(orphan)
}
