//! Shorthand for the values that the tests store. Contains no expectations.
#![allow(dead_code, unreachable_pub)]

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::{
    Fragment, ItemTexts, Notice, Salvage, SqliteConfig, Store, StoreError, ThreadRecord,
    TurnOutcome, Write,
};
use tempfile::TempDir;

/// Options with an owner that no other store of this run has; [`open_with`] adds the folder.
pub fn options() -> SqliteConfig {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    SqliteConfig::new("", 0, format!("owner-{}-{next}", std::process::id()))
}

/// The texts of a thread's history.
pub async fn history(store: &Store, thread: &str) -> Vec<String> {
    let found = store.history(thread).await.unwrap();
    found.iter().map(|fragment| fragment.text.to_string()).collect()
}

pub fn open(dir: &Path) -> Store {
    open_with(dir, options()).unwrap()
}

/// Opens the store in `dir`, and waits for it.
pub fn open_with(dir: &Path, options: SqliteConfig) -> Result<Store, StoreError> {
    let config = SqliteConfig { dir: dir.to_owned(), ..options };
    // On a thread of its own, because the runtime of a test cannot wait here.
    let open = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(Store::open(config))
    };
    std::thread::scope(|scope| scope.spawn(open).join().unwrap())
}

/// The result of the salvage with which the store was opened.
pub fn salvaged(store: &Store) -> Option<&Salvage> {
    store.notices().iter().map(|Notice::Salvaged(salvage)| salvage).next()
}

/// A backend, on which a test of the contract runs.
#[derive(Clone, Copy, Debug)]
pub enum Backend {
    Memory,
    Sqlite,
}

impl Backend {
    pub const ALL: [Self; 2] = [Self::Memory, Self::Sqlite];

    /// An empty store.
    pub fn empty(self) -> EmptyStore {
        match self {
            Self::Memory => EmptyStore { store: Store::in_memory(), dir: None },
            Self::Sqlite => {
                let dir = tempfile::tempdir().unwrap();
                EmptyStore { store: open(dir.path()), dir: Some(dir) }
            }
        }
    }
}

/// A store, and its folder.
pub struct EmptyStore {
    store: Store,
    dir: Option<TempDir>,
}

impl EmptyStore {
    /// The folder of a store that has one.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_ref().map(TempDir::path)
    }
}

impl Deref for EmptyStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// The searched text of an item: all of its payload.
pub const TEXTS: ItemTexts = ItemTexts {
    kinds: &["agentMessage", "userMessage"],
    text: |_, payload| Some(payload.to_owned()),
};

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

pub fn fork(id: &str, parent: &str, last_turn: Option<&str>) -> Write {
    let record = Box::new(record(id, 1));
    Write::Fork { record, parent: parent.into(), last_turn: last_turn.map(Into::into) }
}

pub fn roll_back(thread: &str, turns: u32) -> Write {
    Write::RollBack { thread: thread.into(), turns }
}

pub fn delete(thread: &str) -> Write {
    Write::DeleteThread { thread: thread.into() }
}
