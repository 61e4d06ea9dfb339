//! Shorthand for the values that the tests store. Contains no expectations.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::{Fragment, OpenOptions, Store, ThreadRecord, TurnOutcome, Write};

/// Options with an owner that no other store of this run has.
pub fn options() -> OpenOptions {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    OpenOptions::new(0, format!("owner-{}-{next}", std::process::id()))
}

/// The texts of a thread's history.
pub async fn history(store: &Store, thread: &str) -> Vec<String> {
    let found = store.history(thread).await.unwrap();
    found.iter().map(|fragment| fragment.text.to_string()).collect()
}

pub fn open(dir: &Path) -> Store {
    Store::open(dir, options()).unwrap()
}

pub fn record(id: &str, created_at: i64) -> ThreadRecord {
    ThreadRecord {
        id: id.to_owned(),
        session_id: id.to_owned(),
        preview: format!("preview of {id}"),
        model_provider: "offline".to_owned(),
        model: "echo".to_owned(),
        cwd: "/work".to_owned(),
        created_at,
        updated_at: created_at,
        source_kind: "cli".to_owned(),
        source: "\"cli\"".to_owned(),
        settings: "{}".to_owned(),
        cli_version: "0.1.0".to_owned(),
        ..ThreadRecord::default()
    }
}

pub fn create(record: ThreadRecord) -> Write {
    Write::CreateThread(Box::new(record))
}

pub fn start(thread: &str, turn: &str, started_at_ms: i64) -> Write {
    Write::StartTurn { thread: thread.into(), turn: turn.into(), started_at_ms }
}

pub fn put(thread: &str, turn: &str, item: &str, payload: &str) -> Write {
    Write::PutItem {
        thread: thread.into(),
        turn: turn.into(),
        item: item.into(),
        kind: "agentMessage".into(),
        status: None,
        payload: payload.into(),
    }
}

pub fn append(thread: &str, turn: Option<&str>, fragments: &[&str]) -> Write {
    let fragment = |text: &&str| Fragment { text: Arc::from(*text), mark: 0 };
    let fragments = fragments.iter().map(fragment).collect();
    Write::AppendHistory {
        thread: thread.into(),
        turn: turn.map(Into::into),
        fragments,
        anew: false,
    }
}

pub fn finish(thread: &str, turn: &str) -> Write {
    Write::FinishTurn {
        thread: thread.into(),
        turn: turn.into(),
        outcome: TurnOutcome::Completed,
        error: None,
        completed_at_ms: 2000,
        duration_ms: 1000,
        usage: None,
    }
}

/// A thread with one completed turn, so that lists include it.
pub fn listed(record: ThreadRecord) -> Vec<Write> {
    let id = record.id.clone();
    let started_at_ms = record.created_at * 1000;
    vec![create(record), start(&id, "t", started_at_ms), finish(&id, "t")]
}
