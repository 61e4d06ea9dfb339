//! The outcome of a commit whose answer was lost.
//!
//! The row of a thread in `lease` holds a random number of the last append to it. So a commit finds
//! out that it is stored, and does not take the append of another owner for its own.

use super::connection::Connection;
use super::failure::Failure;
use super::inner::Inner;
use super::owned::{Held, Owned};
use super::recovery::Taken;
use super::rows::{Fence, lost, not_found};
use super::value::{Columns, Value};
use crate::Write;

/// Returns whether the commit `token` is stored. Waits for a transaction that is still under way.
///
/// # Errors
/// Another owner has a thread of the commit, so that nothing is known.
pub(super) async fn was_written(
    inner: &Inner,
    connection: &Connection,
    token: i64,
    writes: &[Write],
    held: &Held,
) -> Result<bool, Failure> {
    let fences = held.fences();
    let is_deleted = |id: &str| {
        writes.iter().any(|write| matches!(write, Write::DeleteThread { thread } if thread == id))
    };
    // A thread that is gone may have been deleted by another owner.
    let kept = fences.iter().find(|(id, _)| !is_deleted(id));
    if let Some((id, fence)) = kept.or_else(|| fences.iter().next()) {
        let sent = Taken { fence: *fence, held_before: true };
        return match state_of(connection, token, sent).await? {
            State::Before => Ok(false),
            State::After => Ok(true),
            State::Gone if is_deleted(id) => Ok(true),
            State::Gone | State::Unknown => Err(lost(id)),
        };
    }
    // All threads of the commit are new, or this node does not own them.
    let Some(created) = writes.iter().find_map(Write::creates) else { return Ok(false) };
    let found = connection
        .row(
            "SELECT 1 FROM #thread AS thread JOIN #lease AS lease ON lease.thread = thread.pk
             WHERE thread.tenant = $1 AND thread.id = $2 AND lease.created_by = $3
             FOR SHARE OF lease",
            &[inner.tenant.as_str().into(), created.into(), token.into()],
        )
        .await?;
    Ok(found.is_some())
}

/// Returns whether the commit `token`, which took a thread, is stored. Waits for a transaction that is
/// still under way.
///
/// # Errors
/// Another owner has had the thread since, or it is gone.
pub(super) async fn was_written_unloaded(
    connection: &Connection,
    token: i64,
    (thread, writes): (&str, &[Write]),
    sent: Taken,
) -> Result<bool, Failure> {
    let deletes = writes.iter().any(|write| matches!(write, Write::DeleteThread { .. }));
    match state_of(connection, token, sent).await? {
        State::Before => Ok(false),
        State::After => Ok(true),
        State::Gone if deletes => Ok(true),
        State::Gone => Err(not_found(thread)),
        State::Unknown => Err(lost(thread)),
    }
}

/// Reads the fences of held threads after a commit whose answer was lost.
pub(super) async fn learn(
    inner: &Inner,
    connection: &Connection,
    me: &str,
    held: &mut Held,
) -> Result<(), Failure> {
    let ids = Value::texts(held.0.keys().map(String::as_str));
    let rows = connection
        .rows(
            "SELECT thread.id, thread.pk, lease.epoch, lease.last_seq
             FROM #thread AS thread JOIN #lease AS lease ON lease.thread = thread.pk
             WHERE thread.tenant = $1 AND thread.id = ANY ($2) AND lease.owner = $3",
            &[inner.tenant.as_str().into(), ids, me.into()],
        )
        .await?;
    held.reset();
    for row in &rows {
        let mut columns = Columns::of(row);
        let id = columns.text()?;
        let fence = Fence { thread: columns.int()?, epoch: columns.int()?, seq: columns.int()? };
        held.set(&id, Some(Owned { fence, places: None }));
    }
    Ok(())
}

/// The state of a thread, seen by a commit that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The commit has not been stored.
    Before,
    /// The commit, and none after it, is stored.
    After,
    /// Another owner has had the thread since.
    Unknown,
    /// The thread is deleted.
    Gone,
}

async fn state_of(connection: &Connection, token: i64, sent: Taken) -> Result<State, Failure> {
    let locked = "SELECT epoch, last_seq, appended_by FROM #lease WHERE thread = $1 FOR SHARE";
    let Some(row) = connection.row(locked, &[sent.fence.thread.into()]).await? else {
        return Ok(State::Gone);
    };
    let mut columns = Columns::of(&row);
    let found = Fence { thread: sent.fence.thread, epoch: columns.int()?, seq: columns.int()? };
    Ok(compared(found, columns.int()? == token, sent))
}

/// The state of a thread with the fence `found`, whose last append is that of the commit if `is_own`.
fn compared(found: Fence, is_own: bool, sent: Taken) -> State {
    let Taken { fence, held_before } = sent;
    if is_own {
        return State::After;
    }
    // A commit that took the thread has freed it again, so that the next one has a new epoch: one of
    // the same epoch took it because this one was not stored.
    let is_before = match held_before {
        true => found == fence,
        false => found.epoch <= fence.epoch,
    };
    if is_before { State::Before } else { State::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_append_counts_as_stored() {
        let fence = |epoch, seq| Fence { thread: 1, epoch, seq };
        let owned = Taken { fence: fence(2, 7), held_before: true };
        let took = Taken { held_before: false, ..owned };
        for (found, is_own, sent, expected) in [
            (fence(2, 7), false, owned, State::Before),
            (fence(2, 8), true, owned, State::After),
            (fence(2, 8), false, owned, State::Unknown),
            (fence(3, 7), false, owned, State::Unknown),
            (fence(1, 7), false, took, State::Before),
            (fence(2, 8), true, took, State::After),
            (fence(2, 8), false, took, State::Before),
            (fence(3, 8), false, took, State::Unknown),
        ] {
            assert_eq!(compared(found, is_own, sent), expected, "{found:?} {is_own} {sent:?}");
        }
    }
}
