//! Closes turns in flight that no server runs: as `interrupted` when their process is gone, as
//! `failed` when their thread panicked; their unfinished items as `failed`. Exactly one end a turn,
//! even after a crash.

use serde_json::Value;
use store::{OrphanedTurn, Store, StoreError, TurnOutcome, Write};

/// The outcome of closing a turn that no server runs.
pub enum OrphanOutcome {
    Interrupted,
    Failed {
        /// In the store's format.
        error: String,
    },
}

/// An item that was closed with its turn.
pub struct ClosedItem {
    pub turn: String,
    pub item: String,
    /// As clients get it.
    pub payload: String,
}

/// Closes every orphaned turn.
pub async fn close_orphans(store: &Store, now_ms: i64) -> Result<(), StoreError> {
    for orphan in store.claim_orphaned_turns().await? {
        let thread = orphan.thread.clone();
        let (writes, _) = closing_writes(orphan, now_ms, &OrphanOutcome::Interrupted);
        match store.write_unloaded(&thread, writes).await {
            // The thread was loaded since, which closed the turn, or was deleted.
            Err(
                StoreError::LeasedBy { .. }
                | StoreError::LeaseLost { .. }
                | StoreError::TurnFinished { .. }
                | StoreError::ThreadNotFound { .. },
            ) => {}
            other => other?,
        }
    }
    Ok(())
}

/// Closes these turns of a thread whose lease this server holds; returns the items that were closed
/// with them.
pub async fn close(
    store: &Store,
    orphans: Vec<OrphanedTurn>,
    now_ms: i64,
    outcome: &OrphanOutcome,
) -> Result<Vec<ClosedItem>, StoreError> {
    let mut closed = Vec::new();
    for orphan in orphans {
        let (writes, items) = closing_writes(orphan, now_ms, outcome);
        match store.commit(writes).await {
            Ok(()) => closed.extend(items),
            // Claimed before the thread was loaded, and closed since.
            Err(StoreError::TurnFinished { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(closed)
}

fn closing_writes(
    orphan: OrphanedTurn,
    now_ms: i64,
    outcome: &OrphanOutcome,
) -> (Vec<Write>, Vec<ClosedItem>) {
    let OrphanedTurn { thread, turn, started_at_ms, items } = orphan;
    let (mut writes, mut closed) = (Vec::new(), Vec::new());
    for item in items {
        if item.status.as_deref() != Some("inProgress") {
            continue;
        }
        let Ok(Value::Object(mut payload)) = serde_json::from_str(&item.payload) else { continue };
        payload.insert("status".to_owned(), Value::from("failed"));
        payload.shift_remove("awaitsApproval");
        let payload = Value::Object(payload).to_string();
        closed.push(ClosedItem {
            turn: turn.clone(),
            item: item.id.clone(),
            payload: payload.clone(),
        });
        writes.push(Write::PutItem {
            thread: thread.clone(),
            turn: turn.clone(),
            item: item.id,
            kind: item.kind,
            status: Some("failed".to_owned()),
            payload,
        });
    }
    let (outcome, error) = match outcome {
        OrphanOutcome::Interrupted => (TurnOutcome::Interrupted, None),
        OrphanOutcome::Failed { error } => (TurnOutcome::Failed, Some(error.clone())),
    };
    writes.push(Write::FinishTurn {
        thread,
        turn,
        outcome,
        error,
        completed_at_ms: now_ms,
        duration_ms: (now_ms - started_at_ms).max(0),
        usage: None,
    });
    (writes, closed)
}
