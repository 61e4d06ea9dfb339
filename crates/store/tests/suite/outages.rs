//! Lost connections and servers: what was acknowledged is stored, once, and an error comes in time.

use std::time::{Duration, Instant};

use crate::common::proxy::{Cut, Proxy};
use crate::common::servers::Postgres;
use crate::common::{
    append, create, delete, finish, fork, history, new_tenant, put, record, roll_back, server,
    start,
};
use proptest::prelude::*;
use store::{PostgresConfig, Store, StoreError, Write};

/// A store whose connections go through a proxy.
async fn proxied() -> (Store, Proxy) {
    let proxy = Proxy::start(server().port());
    let options = PostgresConfig { url: proxy.url(), ..new_tenant().await };
    (Store::open(options).await.unwrap(), proxy)
}

async fn fill(store: &Store) {
    let writes = vec![
        create(record("a", 1)),
        start("a", "t", 1),
        put("a", "t", "i", "1"),
        append("a", Some("t"), &["1"]),
    ];
    store.commit(writes).await.unwrap();
}

/// A statement of the append of a turn, and the end of any other commit.
const APPEND: &str = "WITH fence AS";
const COMMIT: &str = "COMMIT";

#[tokio::test]
async fn a_commit_whose_connection_is_lost_is_stored_once() {
    for cut in [Cut::Before, Cut::After] {
        for times in [1, 3] {
            let (store, proxy) = proxied().await;
            fill(&store).await;
            proxy.cut(cut, APPEND, times);
            store.commit(vec![append("a", Some("t"), &["2"])]).await.unwrap();
            store.commit(vec![append("a", Some("t"), &["3"])]).await.unwrap();
            assert!(proxy.cuts() > 0, "{cut:?}");
            proxy.cut(cut, COMMIT, times);
            let queued = vec![finish("a", "t"), start("a", "u", 2), create(record("new", 1))];
            store.commit(queued).await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.commit(vec![create(record("b", 1)), append("b", None, &["b"])]).await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.commit(vec![fork("c", "a", Some("t"))]).await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.commit(vec![finish("a", "u"), roll_back("a", 1)]).await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.release("b").await.unwrap();
            store.write_unloaded("b", vec![append("b", None, &["unloaded"])]).await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.open_thread("b").await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.commit(vec![delete("new")]).await.unwrap();
            proxy.cut(cut, COMMIT, times);
            store.release("b").await.unwrap();
            store.write_unloaded("b", vec![delete("b")]).await.unwrap();

            assert_eq!(history(&store, "a").await, ["1", "2", "3"], "{cut:?} {times}");
            assert_eq!(history(&store, "c").await, ["1", "2", "3"], "{cut:?} {times}");
            for gone in ["b", "new"] {
                assert_eq!(store.thread(gone).await.unwrap(), None);
            }
            // The threads are not left without an owner, or with a wrong count.
            store.commit(vec![start("a", "v", 3), append("a", Some("v"), &["4"])]).await.unwrap();
            assert_eq!(history(&store, "a").await, ["1", "2", "3", "4"], "{cut:?} {times}");
        }
    }
}

#[tokio::test]
async fn a_commit_that_was_lost_and_then_refused_reports_its_own_error() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    for cut in [Cut::Before, Cut::After] {
        proxy.cut(cut, "BEGIN", 1);
        let outcome = store.commit(vec![create(record("a", 1))]).await;
        assert!(matches!(outcome, Err(StoreError::ThreadExists { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn reads_go_on_after_lost_connections() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    proxy.cut(Cut::After, "history", 1);
    assert_eq!(history(&store, "a").await, ["1"]);
    proxy.set_away(true);
    let error = store.history("a").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("cannot use PostgreSQL at 127.0.0.1:"), "{text}");
    proxy.set_away(false);
    assert_eq!(history(&store, "a").await, ["1"]);
}

#[tokio::test]
async fn nothing_is_acknowledged_after_the_lease() {
    let proxy = Proxy::start(server().port());
    let lease = Duration::from_secs(3);
    let options = PostgresConfig { url: proxy.url(), lease, ..new_tenant().await };
    let store = Store::open(options).await.unwrap();
    fill(&store).await;
    proxy.set_away(true);
    let since = Instant::now();
    let write = || vec![append("a", Some("t"), &["lost"])];
    let error = store.commit(write()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    let error = store.commit(write()).await.unwrap_err();
    assert!(matches!(error, StoreError::LeaseLost { .. }), "{error}");
    let error = store.commit(vec![create(record("new", 1))]).await.unwrap_err();
    assert!(error.to_string().contains("has not confirmed the lease"), "{error}");
    proxy.set_away(false);
    // It comes back under a new name, without its threads.
    while store.open_thread("a").await.is_err() {}
    store.commit(vec![append("a", None, &["2"])]).await.unwrap();
    assert_eq!(history(&store, "a").await, ["1", "2"]);
}

#[tokio::test]
async fn a_lock_that_another_session_keeps_delays_a_commit_for_a_bounded_time() {
    let lease = Duration::from_secs(2);
    let options = PostgresConfig { lease, ..new_tenant().await };
    let schema = options.schema.clone();
    let store = Store::open(options).await.unwrap();
    fill(&store).await;
    let url = server().url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("BEGIN; LOCK TABLE \"{schema}\".lease")).await.unwrap();
    for write in [append("a", Some("t"), &["lost"]), create(record("b", 1))] {
        let error = store.commit(vec![write]).await.unwrap_err();
        let is_late = matches!(error, StoreError::Unavailable(_) | StoreError::LeaseLost { .. });
        assert!(is_late, "{error}");
    }
    client.batch_execute("COMMIT").await.unwrap();
    // It may be stored now. So the thread has to be read again.
    let unsure = store.commit(vec![append("a", Some("t"), &["lost"])]).await;
    assert!(matches!(unsure, Err(StoreError::LeaseLost { .. })), "{unsure:?}");
    while store.open_thread("a").await.is_err() {}
    store.commit(vec![append("a", Some("t"), &["2"])]).await.unwrap();
    assert_eq!(history(&store, "a").await.last().unwrap(), "2");
}

#[tokio::test]
async fn a_server_that_crashes_and_starts_again_loses_nothing() {
    let mut server = Postgres::start();
    let options = PostgresConfig {
        url: server.url(),
        lease: Duration::from_secs(120),
        ..PostgresConfig::new("", crate::common::new_name("node"))
    };
    store::migrate(&options).await.unwrap();
    let store = Store::open(options).await.unwrap();
    fill(&store).await;
    let mut expected = vec!["1".to_owned()];
    for round in 0..3 {
        let said = format!("round {round}");
        server.kill();
        let writing = {
            let (store, said) = (store.clone(), said.clone());
            tokio::spawn(async move { store.commit(vec![append("a", Some("t"), &[&said])]).await })
        };
        tokio::task::yield_now().await;
        server.restart();
        writing.await.unwrap().unwrap();
        expected.push(said);
        assert_eq!(history(&store, "a").await, expected);
    }
}

#[tokio::test]
async fn a_pool_of_transactions_can_be_between_unless_statements_are_prepared() {
    for prepares in [false, true] {
        let proxy = Proxy::start(server().port());
        let options = PostgresConfig { url: proxy.url(), prepares, ..new_tenant().await };
        let store = Store::open(options).await.unwrap();
        fill(&store).await;
        store.commit(vec![append("a", Some("t"), &["2"]), finish("a", "t")]).await.unwrap();
        store.index_turns(crate::common::TEXTS, true, 9).await.unwrap();
        store.threads(Default::default()).await.unwrap();
        store.release("a").await.unwrap();
        store.open_thread("a").await.unwrap();
        assert_eq!(history(&store, "a").await, ["1", "2"]);
        store.close().await.unwrap();
        assert_eq!(proxy.bound_to_session().is_empty(), !prepares);
    }
}

/// A fault, and a commit during it.
#[derive(Debug, Clone)]
enum Step {
    Append,
    Turn,
    Queue,
    Reopen,
    Cut(Cut, &'static str, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let cut = prop_oneof![Just(Cut::Before), Just(Cut::After)];
    let part = prop_oneof![
        Just(APPEND),
        Just(COMMIT),
        Just("BEGIN"),
        Just("FOR UPDATE OF lease"),
        Just("FOR SHARE"),
        Just("last_seq + 1"),
    ];
    prop_oneof![
        4 => Just(Step::Append),
        2 => Just(Step::Turn),
        1 => Just(Step::Queue),
        1 => Just(Step::Reopen),
        4 => (cut, part, 1..4_u32).prop_map(|(cut, part, times)| Step::Cut(cut, part, times)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// Whatever connections are cut at whatever statement: each acknowledged commit is stored once,
    /// in order.
    #[test]
    fn any_cuts_leave_each_commit_stored_once(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (store, proxy) = proxied().await;
            fill(&store).await;
            let mut said = vec!["1".to_owned()];
            let (mut turn, mut queued) = ("t".to_owned(), 0);
            for (number, step) in steps.iter().enumerate() {
                let text = format!("{number}");
                match step {
                    Step::Append => {
                        store.commit(vec![append("a", Some(&turn), &[&text])]).await.unwrap();
                        said.push(text);
                    }
                    Step::Turn => {
                        let next = format!("turn {number}");
                        let writes = vec![
                            finish("a", &turn),
                            start("a", &next, 1),
                            append("a", Some(&next), &[&text]),
                        ];
                        store.commit(writes).await.unwrap();
                        said.push(text);
                        turn = next;
                    }
                    Step::Queue => {
                        let entry = store::QueuedEntry { id: text, payload: "{}".into() };
                        let write = store::QueueWrite::Add(entry);
                        store.commit(vec![Write::Queue { thread: "a".into(), write }]).await.unwrap();
                        queued += 1;
                    }
                    Step::Reopen => {
                        let opened = store.open_thread("a").await.unwrap();
                        assert_eq!(opened.orphans[0].turn, turn);
                    }
                    Step::Cut(cut, part, times) => proxy.cut(*cut, part, *times),
                }
            }
            proxy.cut(Cut::Before, COMMIT, 0);
            assert_eq!(history(&store, "a").await, said);
            assert_eq!(store.queue("a").await.unwrap().len(), queued);
        });
    }
}
