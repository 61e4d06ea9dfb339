//! Lost connections and servers: what was acknowledged is stored, once, and an error comes in time.

use std::time::{Duration, Instant};

use crate::common::proxy::{Cut, Proxy};
use crate::common::servers::Postgres;
use crate::common::{
    administer, append, create, delete, finish, fork, history, new_name, new_schema, new_tenant,
    node, put, record, roll_back, server, start,
};
use proptest::prelude::*;
use store::{PostgresConfig, Store, StoreError, Write};
use tokio::task::JoinHandle;

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
const COMMIT: &str = "COMMIT\0";
const READ: &str = "REPEATABLE READ";
const RENEWAL: &str = "SET heartbeat_at";

/// A session that keeps a lock on a table of a schema until its next `COMMIT`.
async fn lock(schema: &str, table: &str) -> tokio_postgres::Client {
    let url = server().url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("BEGIN; LOCK TABLE \"{schema}\".{table}")).await.unwrap();
    client
}

/// Starts an operation of a store.
fn started<T: Send + 'static, F: Future<Output = Result<T, StoreError>> + Send + 'static>(
    store: &Store,
    operation: impl FnOnce(Store) -> F,
) -> JoinHandle<Result<T, StoreError>> {
    tokio::spawn(operation(store.clone()))
}

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
async fn an_unloaded_write_that_was_lost_is_not_taken_for_that_of_another_node() {
    for is_released in [false, true] {
        let (options, proxy) = (new_tenant().await, Proxy::start(server().port()));
        let owner = new_name("other");
        let other = Store::open(PostgresConfig { owner, ..options.clone() }).await.unwrap();
        let store = Store::open(PostgresConfig { url: proxy.url(), ..options }).await.unwrap();
        other.commit(vec![create(record("a", 1)), append("a", None, &["1"])]).await.unwrap();
        other.release("a").await.unwrap();
        proxy.cut_and_leave(Cut::Before, COMMIT);
        let writing = started(&store, async |store| {
            store.write_unloaded("a", vec![append("a", None, &["2"])]).await
        });
        proxy.wait_for_a_cut().await;
        // It takes the thread as the lost transaction did, and appends as often.
        other.open_thread("a").await.unwrap();
        other.commit(vec![append("a", None, &["other"])]).await.unwrap();
        if is_released {
            other.release("a").await.unwrap();
        }
        proxy.set_away(false);
        let outcome = writing.await.unwrap();
        let mut expected = vec!["1", "other"];
        if is_released {
            outcome.unwrap();
            expected.push("2");
        } else {
            assert!(matches!(outcome, Err(StoreError::LeasedBy { .. })), "{outcome:?}");
        }
        assert_eq!(history(&other, "a").await, expected);
    }
}

#[tokio::test]
async fn an_unloaded_write_is_stored_once_if_the_look_at_its_outcome_is_lost_too() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    store.release("a").await.unwrap();
    proxy.cut(Cut::After, COMMIT, 1);
    proxy.also_cut(Cut::Before, "FOR SHARE", 1);
    store.write_unloaded("a", vec![append("a", None, &["2"])]).await.unwrap();
    assert_eq!(proxy.cuts(), 2);
    assert_eq!(history(&store, "a").await, ["1", "2"]);
}

#[tokio::test]
async fn a_new_thread_is_not_refused_because_its_own_commit_was_late() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    for (number, (id, write)) in
        [("b", create(record("b", 1))), ("c", fork("c", "a", None))].into_iter().enumerate()
    {
        // The commit takes effect while it is sent again.
        proxy.delay(COMMIT, "INSERT INTO");
        store.commit(vec![write]).await.unwrap();
        assert_eq!(proxy.cuts(), u32::try_from(number).unwrap() + 1);
        store.commit(vec![append(id, None, &["its own"])]).await.unwrap();
    }
}

#[tokio::test]
async fn an_append_that_takes_effect_while_it_is_sent_again_is_stored_once() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    store.commit(vec![append("a", Some("t"), &["2"])]).await.unwrap();
    proxy.delay(APPEND, APPEND);
    store.commit(vec![append("a", Some("t"), &["3"])]).await.unwrap();
    assert_eq!(proxy.cuts(), 1);
    store.commit(vec![append("a", Some("t"), &["4"])]).await.unwrap();
    assert_eq!(history(&store, "a").await, ["1", "2", "3", "4"]);
}

#[tokio::test]
async fn reads_without_an_answer_end_and_delay_no_write() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    // Of the three connections, one is for reads.
    proxy.freeze_at(READ, u32::MAX);
    let reads: Vec<_> =
        (0..3).map(|_| started(&store, async |store| store.history("a").await)).collect();
    proxy.wait_for_a_cut().await;
    let write = store.commit(vec![append("a", Some("t"), &["2"])]);
    tokio::time::timeout(Duration::from_secs(30), write)
        .await
        .expect("it waits for reads")
        .unwrap();
    assert!(!reads.iter().any(JoinHandle::is_finished));
    let mut errors = Vec::new();
    for read in reads {
        errors.push(read.await.unwrap().unwrap_err().to_string());
    }
    let of = |part: &str| errors.iter().filter(|error| error.contains(part)).count();
    assert_eq!((of("it did not answer in time"), of("is too slow")), (2, 1), "{errors:?}");
}

#[tokio::test]
async fn a_read_whose_connection_falls_silent_is_repeated_on_another_one() {
    let (store, proxy) = proxied().await;
    fill(&store).await;
    proxy.freeze_at("history.fragment", 1);
    let read = tokio::time::timeout(Duration::from_secs(40), history(&store, "a"));
    assert_eq!(read.await.expect("it has no time limit"), ["1"]);
    assert_eq!(proxy.cuts(), 1);
}

#[tokio::test]
async fn a_node_keeps_its_lease_when_all_of_its_connections_fall_silent() {
    let (options, proxy) = (new_tenant().await, Proxy::start(server().port()));
    let lease = Duration::from_secs(8);
    let options = PostgresConfig { url: proxy.url(), connections: 8, lease, ..options };
    let schema = options.schema.clone();
    let store = Store::open(options).await.unwrap();
    fill(&store).await;
    // As many connections as reads at the same time.
    proxy.watch("history.fragment");
    let locked = lock(&schema, "history").await;
    let reads: Vec<_> =
        (0..4).map(|_| started(&store, async |store| store.history("a").await)).collect();
    proxy.wait_for_more_than(3).await;
    locked.batch_execute("COMMIT").await.unwrap();
    for read in reads {
        read.await.unwrap().unwrap();
    }
    proxy.watch(RENEWAL);
    proxy.freeze();
    proxy.wait_for_more_than(0).await;
    store.commit(vec![append("a", Some("t"), &["2"])]).await.unwrap();
    assert_eq!(history(&store, "a").await, ["1", "2"]);
}

#[tokio::test]
async fn of_several_servers_one_that_does_not_answer_is_passed_over() {
    let silent = Proxy::start(server().port());
    silent.freeze_all();
    let (first, second) = (silent.port(), server().port());
    let url = format!("postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres");
    let store = Store::open(PostgresConfig { url, ..new_tenant().await }).await.unwrap();
    fill(&store).await;
    assert_eq!(history(&store, "a").await, ["1"]);
}

#[tokio::test]
async fn a_store_that_closes_keeps_its_lease_until_its_writes_have_ended() {
    let (options, proxy) = (new_tenant().await, Proxy::start(server().port()));
    let lease = Duration::from_secs(6);
    let options = PostgresConfig { url: proxy.url(), lease, ..options };
    let schema = options.schema.clone();
    let store = Store::open(options).await.unwrap();
    fill(&store).await;
    let locked = lock(&schema, "lease").await;
    proxy.watch(APPEND);
    let write =
        started(&store, async |store| store.commit(vec![append("a", Some("t"), &["2"])]).await);
    proxy.wait_for_more_than(0).await;
    let closing = started(&store, async |store| store.close().await);
    proxy.watch(RENEWAL);
    let renewals = proxy.wait_for_more_than(4);
    // Without them, the lease is over by then.
    tokio::time::timeout(Duration::from_secs(20), renewals).await.expect("renewals");
    locked.batch_execute("COMMIT").await.unwrap();
    write.await.unwrap().unwrap();
    closing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_store_closes_in_bounded_time() {
    let (options, proxy) = (new_tenant().await, Proxy::start(server().port()));
    let lease = Duration::from_secs(2);
    let store = Store::open(PostgresConfig { url: proxy.url(), lease, ..options }).await.unwrap();
    fill(&store).await;
    proxy.freeze_at(READ, u32::MAX);
    let read = started(&store, async |store| store.history("a").await);
    proxy.wait_for_a_cut().await;
    store.close().await.unwrap();
    // Otherwise, this is the error of its last attempt.
    let ended = read.await.unwrap();
    assert!(matches!(ended, Err(StoreError::Closed)), "{ended:?}");
}

#[tokio::test]
async fn a_statement_that_was_cancelled_is_not_run_again() {
    let (schema, proxy) = (new_schema().await, Proxy::start(server().port()));
    let store = Store::open(PostgresConfig { url: proxy.url(), ..node(&schema) }).await.unwrap();
    fill(&store).await;
    let _locked = lock(&schema, "history").await;
    proxy.watch(READ);
    let read = started(&store, async |store| store.history("a").await);
    // As its time limit does.
    let cancel = format!(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
         WHERE wait_event_type = 'Lock' AND query LIKE '%\"{schema}\".history%'"
    );
    while !read.is_finished() {
        administer(&cancel).await;
    }
    let error = read.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("took too long") && error.contains("57014"), "{error}");
    assert_eq!(proxy.seen(), 1);
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
    let client = lock(&schema, "lease").await;
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
        ..PostgresConfig::new("", new_name("node"))
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
