//! Queues of threads: order, refusals, and messages that leave the queue with the start of their turn.

use crate::common::{Backend, create, delete, finish, fork, open, options, record, start};
use store::{QueueWrite, QueuedEntry, SqliteConfig, Store, StoreError, Write};

fn entry(id: &str) -> QueuedEntry {
    QueuedEntry { id: id.to_owned(), payload: format!("{{\"text\":\"{id}\"}}") }
}

fn change(write: QueueWrite) -> Write {
    Write::Queue { thread: "t".into(), write }
}

fn add(id: &str) -> Write {
    change(QueueWrite::Add(entry(id)))
}

fn remove(id: &str) -> Write {
    change(QueueWrite::Remove { id: id.to_owned() })
}

fn reorder(ids: &[&str]) -> Write {
    change(QueueWrite::Reorder { ids: ids.iter().map(|id| (*id).to_owned()).collect() })
}

async fn ids(store: &Store, thread: &str) -> Vec<String> {
    store.queue(thread).await.unwrap().into_iter().map(|entry| entry.id).collect()
}

#[tokio::test]
async fn a_queue_keeps_its_order() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("t", 1)), add("a"), add("b"), add("c")]).await.unwrap();
        store.commit(vec![reorder(&["c", "a", "b"]), add("d")]).await.unwrap();
        assert_eq!(ids(&store, "t").await, ["c", "a", "b", "d"]);
        let replaced = QueuedEntry { payload: "{}".into(), ..entry("a") };
        store.commit(vec![change(QueueWrite::Replace(replaced.clone()))]).await.unwrap();
        store.commit(vec![remove("c")]).await.unwrap();
        let found = store.queue("t").await.unwrap();
        assert_eq!(found, [replaced, entry("b"), entry("d")]);
        let opened = store.open_thread("t").await.unwrap();
        assert_eq!(opened.queue, found);
        for wrong in [
            add("a"),
            remove("c"),
            change(QueueWrite::Replace(entry("c"))),
            reorder(&["a", "b"]),
            reorder(&["a", "b", "b"]),
            reorder(&["a", "b", "d", "d"]),
        ] {
            let refused = store.commit(vec![wrong.clone()]).await;
            assert!(matches!(refused, Err(StoreError::QueueChanged { .. })), "{wrong:?}");
        }
        assert_eq!(ids(&store, "t").await, ["a", "b", "d"]);
        let missing = store.queue("none").await.unwrap_err();
        assert!(matches!(missing, StoreError::ThreadNotFound { .. }), "{missing}");
    }
}

#[tokio::test]
async fn a_message_leaves_the_queue_with_the_start_of_its_turn() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("t", 1)), add("a")]).await.unwrap();
        store.commit(vec![start("t", "1", 1), remove("a")]).await.unwrap();
        assert!(ids(&store, "t").await.is_empty());
        // It cannot start another turn.
        let again = store.commit(vec![start("t", "2", 1), remove("a")]).await;
        assert!(matches!(again, Err(StoreError::QueueChanged { .. })), "{again:?}");
        assert_eq!(store.last_turn("t").await.unwrap().unwrap().id, "1");
    }
}

#[tokio::test]
async fn a_queue_belongs_to_one_thread() {
    for backend in Backend::ALL {
        let store = backend.empty().await;
        store.commit(vec![create(record("t", 1)), create(record("u", 2)), add("a")]).await.unwrap();
        store.commit(vec![start("t", "1", 1), finish("t", "1")]).await.unwrap();
        store.commit(vec![fork("f", "t", None)]).await.unwrap();
        assert!(ids(&store, "f").await.is_empty() && ids(&store, "u").await.is_empty());
        store.commit(vec![delete("t"), create(record("t", 3))]).await.unwrap();
        assert!(ids(&store, "t").await.is_empty());
        store.release("t").await.unwrap();
        let refused = store.commit(vec![add("b")]).await;
        assert!(matches!(refused, Err(StoreError::LeaseLost { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_queue_survives_damage_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(vec![create(record("t", 1)), add("b"), add("a")]).await.unwrap();
    store.commit(vec![reorder(&["a", "b"])]).await.unwrap();
    store.close().await.unwrap();
    // The first byte of the header's text.
    let path = dir.path().join("threads.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[0] = 0;
    std::fs::write(&path, bytes).unwrap();
    let store =
        crate::common::open_with(dir.path(), SqliteConfig { salvage: true, ..options() }).unwrap();
    assert!(crate::common::salvaged(&store).is_some());
    assert_eq!(ids(&store, "t").await, ["a", "b"]);
}
