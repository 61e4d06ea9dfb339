//! One writer a thread: an open store takes a thread's lease before it writes to it, and another
//! one is told who has it. A lease whose holder is dead is free, however it died.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::error::Failure;
use crate::{OrphanedTurn, StoreError, owner, recovery};

/// Takes the lease of a thread for the store named `me`, and with it the turns in flight that
/// nobody runs any more: the caller loads the thread, so it runs none of them itself.
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

/// Lets go of one thread.
pub(crate) fn release(conn: &Connection, me: &str, thread: &str) -> Result<(), Failure> {
    conn.prepare_cached("UPDATE thread SET lease = NULL WHERE id = ?1 AND lease = ?2")?
        .execute([thread, me])?;
    Ok(())
}

/// Lets go of all threads.
pub(crate) fn release_all(conn: &Connection, me: &str) -> Result<(), Failure> {
    conn.execute("UPDATE thread SET lease = NULL WHERE lease = ?1", [me])?;
    Ok(())
}
