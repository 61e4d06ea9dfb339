//! Closes the turns that a process which is gone left in flight: as `interrupted`, their
//! unfinished items as `failed`. Exactly one end a turn, also after a crash.

use serde_json::Value;
use store::{OrphanedTurn, Store, StoreError, TurnOutcome, Write};

/// Closes every orphaned turn.
pub(crate) async fn close_orphans(store: &Store, now_ms: i64) -> Result<(), StoreError> {
    close(store, store.claim_orphaned_turns().await?, now_ms).await
}

/// Closes these turns.
pub(crate) async fn close(
    store: &Store,
    orphans: Vec<OrphanedTurn>,
    now_ms: i64,
) -> Result<(), StoreError> {
    for orphan in orphans {
        store.commit(closing_writes(orphan, now_ms)).await?;
    }
    Ok(())
}

fn closing_writes(orphan: OrphanedTurn, now_ms: i64) -> Vec<Write> {
    let OrphanedTurn { thread, turn, started_at_ms, items } = orphan;
    let mut writes = Vec::new();
    for item in items {
        if item.status.as_deref() != Some("inProgress") {
            continue;
        }
        let Ok(Value::Object(mut payload)) = serde_json::from_str(&item.payload) else { continue };
        payload.insert("status".to_owned(), Value::from("failed"));
        writes.push(Write::PutItem {
            thread: thread.clone(),
            turn: turn.clone(),
            item: item.id,
            kind: item.kind,
            status: Some("failed".to_owned()),
            payload: Value::Object(payload).to_string(),
        });
    }
    writes.push(Write::FinishTurn {
        thread,
        turn,
        outcome: TurnOutcome::Interrupted,
        error: None,
        completed_at_ms: now_ms,
        duration_ms: (now_ms - started_at_ms).max(0),
        usage: None,
    });
    writes
}
