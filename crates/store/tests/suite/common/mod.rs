//! Shorthand for the values that the tests store. Contains no expectations.
#![allow(dead_code, unreachable_pub)]

pub mod proxy;
#[path = "../../../../gateway/tests/suite/common/servers.rs"]
pub mod servers;

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use servers::Postgres;
use store::{
    Fragment, ItemTexts, Notice, PostgresConfig, Salvage, SqliteConfig, Store, StoreError,
    ThreadRecord, TurnOutcome, Write,
};
use tempfile::TempDir;

/// Options with an owner that no other store of this run has; [`open_with`] adds the folder.
pub fn options() -> SqliteConfig {
    SqliteConfig::new("", 0, new_name("owner"))
}

/// A name that no other test of this run has.
pub fn new_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{next}", std::process::id())
}

/// The PostgreSQL server of this process. Removed when the process ends, however it does.
pub fn server() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(Postgres::start)
}

/// Options of a node with an owner of its own, for a schema of [`server`].
pub fn node(schema: &str) -> PostgresConfig {
    PostgresConfig {
        schema: schema.to_owned(),
        connections: 3,
        // Longer than a test takes on a busy machine.
        lease: std::time::Duration::from_secs(120),
        ..PostgresConfig::new(server().url(), new_name("node"))
    }
}

/// Runs SQL on the server, as an administrator would.
pub async fn administer(sql: &str) {
    let url = server().url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let running = tokio::spawn(connection);
    client.batch_execute(sql).await.unwrap();
    drop(client);
    running.await.unwrap().unwrap();
}

/// A new schema with tables.
pub async fn new_schema() -> String {
    let schema = new_name("schema");
    store::migrate(&node(&schema)).await.unwrap();
    schema
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

/// Options of a node of a new tenant of one schema, because a schema takes longer to make.
pub async fn new_tenant() -> PostgresConfig {
    static SCHEMA: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    let schema = SCHEMA.get_or_init(new_schema).await;
    PostgresConfig { tenant: new_name("tenant"), ..node(schema) }
}

/// A backend, on which a test of the contract runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Memory,
    Sqlite,
    Postgres,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Sqlite, Self::Postgres];
    /// Those whose stores share what is stored.
    pub const SHARED: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// Returns whether a case with this random number is left out: most on PostgreSQL, where each takes
    /// longer.
    pub fn is_skipped(self, number: usize) -> bool {
        self == Self::Postgres && !number.is_multiple_of(8)
    }

    /// An empty store.
    pub async fn empty(self) -> EmptyStore {
        let home = match self {
            Self::Memory => Home::Memory,
            Self::Sqlite => Home::Folder(tempfile::tempdir().unwrap()),
            Self::Postgres => {
                let options = new_tenant().await;
                Home::Schema { schema: options.schema, tenant: options.tenant }
            }
        };
        EmptyStore::of(home).await
    }

    /// An empty store, whose keys begin at 1.
    pub async fn fresh(self) -> EmptyStore {
        if self != Self::Postgres {
            return self.empty().await;
        }
        EmptyStore::of(Home::Schema { schema: new_schema().await, tenant: "t".to_owned() }).await
    }
}

/// Where a store keeps what is stored.
#[derive(Debug)]
pub enum Home {
    Memory,
    Folder(TempDir),
    Schema { schema: String, tenant: String },
}

impl Home {
    /// Opens a store; those of a folder and of a schema share their content.
    pub async fn open(&self) -> Store {
        match self {
            Self::Memory => Store::in_memory(),
            Self::Folder(dir) => open(dir.path()),
            Self::Schema { schema, tenant } => {
                let options = PostgresConfig { tenant: tenant.clone(), ..node(schema) };
                Store::open(options).await.unwrap()
            }
        }
    }
}

/// A store, and its place.
pub struct EmptyStore {
    store: Store,
    home: Home,
}

impl EmptyStore {
    async fn of(home: Home) -> Self {
        let store = home.open().await;
        Self { store, home }
    }

    /// Another store of the same place.
    pub async fn another(&self) -> Store {
        self.home.open().await
    }

    /// The folder of a store that has one.
    pub fn dir(&self) -> Option<&Path> {
        match &self.home {
            Home::Folder(dir) => Some(dir.path()),
            Home::Memory | Home::Schema { .. } => None,
        }
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
