//! Leases: an open store must hold the lease of a thread to write to it. The lease of a dead
//! process is free, however the process ended.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::error::Failure;
use crate::{OrphanedTurn, StoreError, owner, recovery};

/// Takes the lease of a thread for the store `me`, and claims its orphaned turns. The caller is
/// only loading the thread, so it runs none of them.
pub(crate) fn take(
    conn: &mut Connection,
    owners: Option<&Path>,
    me: &str,
    thread: &str,
) -> Result<Vec<OrphanedTurn>, Failure> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: Option<(i64, Option<String>)> = transaction
        .prepare_cached("SELECT pk, lease FROM thread WHERE id = ?1 AND deleted = 0")?
        .query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((pk, lease)) = found else {
        return Err(StoreError::ThreadNotFound { thread: thread.to_owned() }.into());
    };
    if let (Some(holder), Some(owners)) = (lease.as_deref().filter(|holder| *holder != me), owners)
        && !owner::is_dead(owners, holder)?
    {
        let (thread, holder) = (thread.to_owned(), owner::described(owners, holder));
        return Err(StoreError::Leased { thread, holder }.into());
    }
    if lease.as_deref() != Some(me) {
        transaction
            .prepare_cached("UPDATE thread SET lease = ?2 WHERE pk = ?1")?
            .execute(params![pk, me])?;
    }
    let orphans = recovery::claim_of(&transaction, me, pk)?;
    transaction.commit()?;
    Ok(orphans)
}

/// Releases the lease of a thread.
pub(crate) fn release(conn: &Connection, me: &str, thread: &str) -> Result<(), Failure> {
    conn.prepare_cached("UPDATE thread SET lease = NULL WHERE id = ?1 AND lease = ?2")?
        .execute([thread, me])?;
    Ok(())
}

/// Releases all leases.
pub(crate) fn release_all(conn: &Connection, me: &str) -> Result<(), Failure> {
    conn.execute("UPDATE thread SET lease = NULL WHERE lease = ?1", [me])?;
    Ok(())
}
