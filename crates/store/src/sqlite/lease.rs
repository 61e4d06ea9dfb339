//! Leases: an open store must hold the lease of a thread to write to it. The lease of a dead
//! process is free, however the process ended.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::sqlite::failure::Failure;
use crate::sqlite::{apply, log_writes, owner, queue, read, recovery};
use crate::{OpenedThread, StoreError, Write};

/// A thread whose lease `me` has just taken.
pub(crate) struct Taken {
    pub(crate) key: i64,
    /// True if `me` had the lease before.
    pub(crate) held_before: bool,
}

/// Takes the lease of a thread for the store `me`.
pub(crate) fn take(
    conn: &Connection,
    owners: &Path,
    me: &str,
    thread: &str,
) -> Result<Taken, Failure> {
    let found: Option<(i64, Option<String>)> = conn
        .prepare_cached("SELECT pk, lease FROM thread WHERE id = ?1 AND deleted = 0")?
        .query_row([thread], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((key, lease)) = found else {
        return Err(StoreError::ThreadNotFound { thread: thread.to_owned() }.into());
    };
    let held_before = lease.as_deref() == Some(me);
    if let Some(holder) = lease.as_deref().filter(|_| !held_before)
        && !owner::is_dead(owners, holder)?
    {
        return Err(StoreError::LeasedBy {
            thread: thread.to_owned(),
            holder: owner::described(owners, holder),
            owner: holder.to_owned(),
        }
        .into());
    }
    if !held_before {
        conn.prepare_cached("UPDATE thread SET lease = ?2 WHERE pk = ?1")?
            .execute(params![key, me])?;
    }
    Ok(Taken { key, held_before })
}

/// Takes the lease of a thread, and claims its orphaned turns. The caller is only loading the
/// thread, so it runs none of them.
pub(crate) fn open_thread(
    conn: &mut Connection,
    owners: &Path,
    me: &str,
    thread: &str,
) -> Result<OpenedThread, Failure> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken = take(&transaction, owners, me, thread)?;
    let orphans = recovery::claim_of(&transaction, me, taken.key)?;
    let stored = read::thread(&transaction, thread)?
        .ok_or_else(|| StoreError::ThreadNotFound { thread: thread.to_owned() })?;
    let last_turn = read::last_turn(&transaction, thread)?;
    let queue = queue::read(&transaction, taken.key)?;
    log_writes::in_one_piece(|| transaction.commit())?;
    Ok(OpenedThread { stored, last_turn, orphans, queue })
}

/// Applies `writes` to a thread under its lease. A lease that `me` did not have before is released
/// again.
pub(crate) fn write_unloaded(
    conn: &mut Connection,
    owners: &Path,
    me: &str,
    thread: &str,
    writes: &[Write],
) -> Result<(), Failure> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let taken = take(&transaction, owners, me, thread)?;
    writes.iter().try_for_each(|write| apply::apply(&transaction, me, write))?;
    if !taken.held_before {
        release_one(&transaction, me, thread)?;
    }
    log_writes::in_one_piece(|| transaction.commit())?;
    Ok(())
}

/// Releases the leases of threads.
pub(crate) fn release(conn: &mut Connection, me: &str, threads: &[String]) -> Result<(), Failure> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    threads.iter().try_for_each(|thread| release_one(&transaction, me, thread))?;
    log_writes::in_one_piece(|| transaction.commit())?;
    Ok(())
}

fn release_one(conn: &Connection, me: &str, thread: &str) -> Result<(), Failure> {
    conn.prepare_cached("UPDATE thread SET lease = NULL WHERE id = ?1 AND lease = ?2")?
        .execute([thread, me])?;
    Ok(())
}

/// Releases all leases.
pub(crate) fn release_all(conn: &Connection, me: &str) -> Result<(), Failure> {
    conn.execute("UPDATE thread SET lease = NULL WHERE lease = ?1", [me])?;
    Ok(())
}
