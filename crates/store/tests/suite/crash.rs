//! Killed processes: every commit that was reported to them is stored, once, and exactly one other
//! process claims their orphaned turns. The children run this test program again.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::common::{
    append, create, finish, history, listed, new_name, new_schema, node, open, put, record, server,
    start,
};
use store::{PostgresConfig, Store, StoreError, TurnStatus};

const ROLE: &str = "STORE_TEST_CHILD";
const DIR: &str = "STORE_TEST_DIR";
const URL: &str = "STORE_TEST_URL";
const SCHEMA: &str = "STORE_TEST_SCHEMA";

/// Not a test by itself: the code of a child process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(role) = env::var(ROLE) else { return };
    let store = match (env::var(URL), env::var(SCHEMA)) {
        (Ok(url), Ok(schema)) => {
            let mut options = PostgresConfig::new(url, new_name("child"));
            options.schema = schema;
            Store::open(options).await.unwrap()
        }
        _ => open(Path::new(&env::var(DIR).unwrap())),
    };
    match role.as_str() {
        "commit" => commit_for_ever(&store).await,
        "orphan" => leave_in_flight(&store).await,
        other => panic!("no role {other}"),
    }
}

/// Several concurrent writers; each commit is acknowledged on stdout once the store reports it.
async fn commit_for_ever(store: &Store) {
    let writers = (0..4).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            let thread = format!("p{}-w{writer}", std::process::id());
            store.commit(vec![create(record(&thread, 1))]).await.unwrap();
            for n in 0.. {
                let (turn, text) = (format!("t{n}"), format!("f{n}"));
                let writes = vec![
                    start(&thread, &turn, n),
                    put(&thread, &turn, "i", &text),
                    append(&thread, Some(&turn), &[&text]),
                    finish(&thread, &turn),
                ];
                store.commit(writes).await.unwrap();
                say(&format!("ack {thread} {n}"));
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

async fn leave_in_flight(store: &Store) {
    let writes = vec![
        create(record("a", 1)),
        start("a", "t", 5),
        put("a", "t", "i", "{}"),
        start("a", "u", 6),
    ];
    store.commit(writes).await.unwrap();
    store.commit(vec![finish("a", "u")]).await.unwrap();
    say("ready");
    // Runs until it is killed or its parent has ended.
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Writes one line in one call, so that a kill cannot cut it. `println` would be captured.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes()).unwrap();
    stdout.flush().unwrap();
}

fn spawn(role: &str, dir: &Path) -> (Child, BufReader<ChildStdout>) {
    spawn_with(role, &[(DIR, dir.to_str().unwrap())])
}

/// A child with a store in a schema of the server.
fn spawn_node(role: &str, schema: &str) -> (Child, BufReader<ChildStdout>) {
    spawn_with(role, &[(URL, &server().url()), (SCHEMA, schema)])
}

fn spawn_with(role: &str, place: &[(&str, &str)]) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .envs(place.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The thread and number of an acknowledgement; `None` for lines of the test runner.
fn ack(line: &str) -> Option<(String, usize)> {
    // The runner's first line has no line break before the first acknowledgement.
    let (_, rest) = line.split_once("ack ")?;
    let (thread, number) = rest.split_once(' ')?;
    Some((thread.to_owned(), number.parse().ok()?))
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..30 {
        let (child, stdout) = spawn("commit", dir.path());
        let mut lines = stdout.lines().map(Result::unwrap);
        let enough = 1 + round * round % 37;
        acknowledged.extend(lines.by_ref().filter_map(|line| ack(&line)).take(enough));
        kill(child);
        acknowledged.extend(lines.filter_map(|line| ack(&line)));
    }
    assert!(acknowledged.len() > 300);
    let store = open(dir.path());
    check_acknowledged(&store, &acknowledged).await;
    assert_eq!(store.claim_orphaned_turns().await.unwrap(), []);
    assert_eq!(fs::read_dir(dir.path().join("owners")).unwrap().count(), 1, "the dead are swept");
}

#[tokio::test]
async fn acknowledged_writes_of_a_killed_node_survive() {
    let schema = new_schema().await;
    let mut acknowledged = Vec::new();
    for round in 0..10 {
        let (child, stdout) = spawn_node("commit", &schema);
        let mut lines = stdout.lines().map(Result::unwrap);
        let enough = 1 + round * round % 37;
        acknowledged.extend(lines.by_ref().filter_map(|line| ack(&line)).take(enough));
        kill(child);
        acknowledged.extend(lines.filter_map(|line| ack(&line)));
    }
    assert!(acknowledged.len() > 50);
    let store = Store::open(node(&schema)).await.unwrap();
    check_acknowledged(&store, &acknowledged).await;
}

#[tokio::test]
async fn turns_of_a_killed_node_are_claimed_when_its_lease_is_over() {
    let schema = new_schema().await;
    let (child, mut stdout) = spawn_node("orphan", &schema);
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "the child ended early");
    }
    let store = Store::open(node(&schema)).await.unwrap();
    kill(child);
    // The lease is not over yet.
    assert_eq!(store.claim_orphaned_turns().await.unwrap(), []);
    let refused = store.open_thread("a").await;
    assert!(matches!(refused, Err(StoreError::LeasedBy { .. })), "{refused:?}");
    let since = Instant::now();
    let orphans = loop {
        let orphans = store.claim_orphaned_turns().await.unwrap();
        if !orphans.is_empty() {
            break orphans;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "the lease of 8 s never ends");
        // tidy: sleep between polls of a lease that ends by the clock of the database.
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!((orphans[0].turn.as_str(), orphans[0].items.len()), ("t", 1));
    store.write_unloaded("a", vec![finish("a", "t")]).await.unwrap();
}

/// Checks that what was acknowledged is stored, once and in order.
async fn check_acknowledged(store: &Store, acknowledged: &[(String, usize)]) {
    let threads: HashSet<_> = acknowledged.iter().map(|(thread, _)| thread.clone()).collect();
    for thread in threads {
        let numbers = acknowledged.iter().filter(|(of, _)| *of == thread).map(|(_, n)| *n);
        let least = numbers.max().unwrap() + 1;
        let history = history(store, &thread).await;
        // At most one more commit was stored but not yet acknowledged.
        assert!((least..=least + 1).contains(&history.len()), "{least} of {}", history.len());
        let expected: Vec<_> = (0..history.len()).map(|n| format!("f{n}")).collect();
        assert_eq!(history, expected, "{thread}");
        let stored = store.thread(&thread).await.unwrap().unwrap();
        assert_eq!(stored.turn_count as usize, history.len());
        let last = store.last_turn(&thread).await.unwrap().unwrap();
        assert_eq!(last.status, TurnStatus::Completed);
        let items = store.items(&thread, &last.id).await.unwrap();
        assert_eq!(items.len(), 1);
    }
}

#[tokio::test]
async fn orphans_are_claimed_once_and_only_from_the_dead() {
    let dir = tempfile::tempdir().unwrap();
    let (child, mut stdout) = spawn("orphan", dir.path());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "the child ended early");
    }
    let (one, two) = (open(dir.path()), open(dir.path()));
    one.commit(listed(record("b", 1))).await.unwrap();
    one.commit(vec![start("b", "mine", 1)]).await.unwrap();
    assert_eq!(one.claim_orphaned_turns().await.unwrap(), [], "its owner lives");
    assert_eq!(two.claim_orphaned_turns().await.unwrap(), [], "so do both of ours");
    let is_ours = |turn: &store::TurnElsewhere| turn.thread == "b";
    let elsewhere = two.turns_elsewhere().await.unwrap();
    let ours = elsewhere.iter().find(|turn| is_ours(turn)).unwrap();
    assert_eq!(ours.holder, format!("process {}", std::process::id()));
    assert_eq!(elsewhere.len(), 2, "{elsewhere:?}");
    let elsewhere = one.turns_elsewhere().await.unwrap();
    assert!(elsewhere.len() == 1 && !is_ours(&elsewhere[0]), "{elsewhere:?}");
    kill(child);
    assert_eq!(one.turns_elsewhere().await.unwrap(), [], "no process runs it");

    let (first, second) = tokio::join!(one.claim_orphaned_turns(), two.claim_orphaned_turns());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.len() + second.len(), 1);
    let (winner, orphans) = if second.is_empty() { (&one, first) } else { (&two, second) };
    let orphan = &orphans[0];
    assert_eq!((orphan.thread.as_str(), orphan.turn.as_str()), ("a", "t"));
    assert_eq!((orphan.started_at_ms, orphan.items.len()), (5, 1));
    winner.write_unloaded("a", vec![finish("a", "t")]).await.unwrap();
    assert_eq!(one.claim_orphaned_turns().await.unwrap(), []);
}

#[tokio::test]
async fn a_claim_of_a_dead_process_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path());
    first.commit(vec![create(record("a", 1)), start("a", "t", 1)]).await.unwrap();
    drop(first);
    let second = open(dir.path());
    assert_eq!(second.claim_orphaned_turns().await.unwrap().len(), 1);
    assert_eq!(second.claim_orphaned_turns().await.unwrap().len(), 0, "already its own");
    drop(second);
    let third = open(dir.path());
    assert_eq!(third.claim_orphaned_turns().await.unwrap().len(), 1);
}
