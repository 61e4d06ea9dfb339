//! Nodes that share a database: a thread has one owner, a node that lost its lease changes nothing,
//! and another node goes on.

use crate::common::proxy::{Cut, Proxy};
use crate::common::{
    administer, append, create, finish, fork, history, new_name, new_schema, new_tenant, node, put,
    record, server, start,
};
use proptest::prelude::*;
use store::{Direction, PostgresConfig, Store, StoreError, TurnStatus, TurnsQuery, Write};

/// Ends the leases of all nodes of a schema, as if they had been silent for too long.
async fn end_leases(schema: &str) {
    administer(&format!(
        "UPDATE \"{schema}\".node SET lease_until = clock_timestamp() - interval '1 minute'"
    ))
    .await;
}

fn is_lost<T: std::fmt::Debug>(outcome: &Result<T, StoreError>) -> bool {
    matches!(outcome, Err(StoreError::LeaseLost { .. }))
}

/// The turns of a thread with their states, oldest first.
async fn turns(store: &Store, thread: &str) -> Vec<(String, TurnStatus)> {
    let direction = Direction::Ascending;
    let query = TurnsQuery { limit: 100, direction, ..TurnsQuery::default() };
    let page = store.turns(thread, query).await.unwrap();
    page.rows.into_iter().map(|turn| (turn.id, turn.status)).collect()
}

#[tokio::test]
async fn a_thread_has_one_owner_whose_name_others_get() {
    let schema = new_schema().await;
    let mut named = node(&schema);
    named.holder = "process 7 on build-3".to_owned();
    let (one, two) = (Store::open(named).await.unwrap(), Store::open(node(&schema)).await.unwrap());
    one.commit(vec![create(record("a", 1)), start("a", "t", 1)]).await.unwrap();
    for refused in [
        two.open_thread("a").await.map(drop),
        two.write_unloaded("a", vec![append("a", None, &["x"])]).await,
    ] {
        assert_eq!(
            refused.unwrap_err().to_string(),
            "thread a is open in another server (process 7 on build-3); use that server, or stop \
             it first"
        );
    }
    let elsewhere = two.turns_elsewhere().await.unwrap();
    assert_eq!((elsewhere.len(), &*elsewhere[0].holder), (1, "process 7 on build-3"));
    assert_eq!(two.claim_orphaned_turns().await.unwrap(), [], "its node lives");
    // Reads and forks need no lease.
    two.commit(vec![fork("b", "a", None)]).await.unwrap();
    one.commit(vec![finish("a", "t")]).await.unwrap();
    // A node that ends in an orderly way hands its threads over at once.
    one.close().await.unwrap();
    let opened = two.open_thread("a").await.unwrap();
    assert_eq!((opened.orphans.len(), opened.last_turn.unwrap().id.as_str()), (0, "t"));
}

#[tokio::test]
async fn a_node_that_lost_its_lease_changes_nothing() {
    let schema = new_schema().await;
    let (paused, other) =
        (Store::open(node(&schema)).await.unwrap(), Store::open(node(&schema)).await.unwrap());
    let writes = vec![create(record("a", 1)), start("a", "t", 1), append("a", Some("t"), &["1"])];
    paused.commit(writes).await.unwrap();
    // An append in one statement, after which the node knows all numbers of the thread.
    paused.commit(vec![append("a", Some("t"), &["2"])]).await.unwrap();
    paused.commit(vec![create(record("kept", 1))]).await.unwrap();
    end_leases(&schema).await;
    let opened = other.open_thread("a").await.unwrap();
    assert_eq!((opened.orphans.len(), opened.orphans[0].turn.as_str()), (1, "t"));
    for write in [
        append("a", Some("t"), &["late"]),
        put("a", "t", "i", "late"),
        finish("a", "t"),
        start("a", "u", 2),
        Write::RollBack { thread: "a".into(), turns: 1 },
        Write::DeleteThread { thread: "a".into() },
    ] {
        let outcome = paused.commit(vec![write.clone()]).await;
        assert!(is_lost(&outcome), "{write:?}: {outcome:?}");
    }
    other.commit(vec![finish("a", "t"), start("a", "u", 3), finish("a", "u")]).await.unwrap();
    assert_eq!(history(&other, "a").await, ["1", "2"]);
    let ended = TurnStatus::Completed;
    assert_eq!(turns(&other, "a").await, [("t".into(), ended), ("u".into(), ended)]);
}

#[tokio::test]
async fn a_claim_of_turns_fences_the_node_that_is_only_paused() {
    let schema = new_schema().await;
    let lease = std::time::Duration::from_secs(3);
    let (paused, one, two) = (
        Store::open(PostgresConfig { lease, ..node(&schema) }).await.unwrap(),
        Store::open(node(&schema)).await.unwrap(),
        Store::open(node(&schema)).await.unwrap(),
    );
    let writes = vec![create(record("a", 1)), start("a", "t", 5), put("a", "t", "i", "{}")];
    paused.commit(writes).await.unwrap();
    paused.commit(vec![append("a", Some("t"), &["1"])]).await.unwrap();
    let only = format!(
        "UPDATE \"{schema}\".node SET lease_until = clock_timestamp() - interval '1 minute'
         WHERE id = (SELECT owner FROM \"{schema}\".turn)"
    );
    administer(&only).await;
    let (first, second) = tokio::join!(one.claim_orphaned_turns(), two.claim_orphaned_turns());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.len() + second.len(), 1, "one of them gets it");
    let (winner, orphans) = if second.is_empty() { (&one, first) } else { (&two, second) };
    assert_eq!((orphans[0].started_at_ms, orphans[0].items.len()), (5, 1));
    let late = paused.commit(vec![finish("a", "t")]).await;
    assert!(is_lost(&late), "{late:?}");
    winner.write_unloaded("a", vec![finish("a", "t")]).await.unwrap();
    assert_eq!(one.claim_orphaned_turns().await.unwrap(), []);
    // The node that was paused goes on under a new name, and may have the thread again.
    loop {
        match paused.open_thread("a").await {
            Ok(opened) => break assert_eq!(opened.last_turn.unwrap().id, "t"),
            // Until its next renewal.
            Err(StoreError::LeasedBy { .. } | StoreError::LeaseLost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::task::yield_now().await;
    }
    paused.commit(vec![start("a", "again", 6)]).await.unwrap();
}

#[tokio::test]
async fn two_nodes_cannot_have_one_name() {
    let schema = new_schema().await;
    let options = node(&schema);
    let first = Store::open(options.clone()).await.unwrap();
    let second = Store::open(options.clone()).await.unwrap_err();
    assert!(matches!(second, StoreError::BadOwner { .. }), "{second}");
    first.close().await.unwrap();
    Store::open(options).await.unwrap();
}

#[tokio::test]
async fn tenants_of_a_schema_see_nothing_of_each_other() {
    let schema = new_schema().await;
    let mut options = node(&schema);
    options.tenant = new_name("tenant");
    let (one, two) =
        (Store::open(node(&schema)).await.unwrap(), Store::open(options).await.unwrap());
    for (store, said) in [(&one, "by one"), (&two, "by two")] {
        store.commit(vec![create(record("a", 1)), append("a", None, &[said])]).await.unwrap();
        store.commit(vec![start("a", "t", 1), finish("a", "t")]).await.unwrap();
    }
    assert_eq!(history(&one, "a").await, ["by one"]);
    two.commit(vec![Write::DeleteThread { thread: "a".into() }]).await.unwrap();
    assert_eq!(one.threads(Default::default()).await.unwrap().rows.len(), 1);
    assert_eq!(two.threads(Default::default()).await.unwrap().rows.len(), 0);
}

/// An operation of one of three nodes on one of two threads.
#[derive(Debug, Clone)]
enum Step {
    Append(usize, usize),
    Turn(usize, usize),
    Open(usize, usize),
    Release(usize, usize),
    Claim(usize),
    /// The database counts the node as dead, and the node does not know it.
    EndLease(usize),
    Cut(usize, Cut, &'static str),
}

fn step() -> impl Strategy<Value = Step> {
    let (node, thread) = (0..3_usize, 0..2_usize);
    let cut = prop_oneof![Just(Cut::Before), Just(Cut::After)];
    let part = prop_oneof![Just("WITH fence AS"), Just("COMMIT\0"), Just("owner = $2, epoch")];
    prop_oneof![
        6 => (node.clone(), thread.clone()).prop_map(|(node, thread)| Step::Append(node, thread)),
        2 => (node.clone(), thread.clone()).prop_map(|(node, thread)| Step::Turn(node, thread)),
        4 => (node.clone(), thread.clone()).prop_map(|(node, thread)| Step::Open(node, thread)),
        1 => (node.clone(), thread).prop_map(|(node, thread)| Step::Release(node, thread)),
        1 => node.clone().prop_map(Step::Claim),
        2 => node.clone().prop_map(Step::EndLease),
        3 => (node, cut, part).prop_map(|(node, cut, part)| Step::Cut(node, cut, part)),
    ]
}

/// A thread as it should be.
#[derive(Debug, Default)]
struct Expected {
    said: Vec<String>,
    /// The node that took the thread last, unless it released it.
    owner: Option<usize>,
    /// False if the lease of the owner may be over.
    is_certain: bool,
}

/// Three nodes and two threads.
struct Cluster {
    schema: String,
    names: Vec<String>,
    nodes: Vec<(Store, Proxy)>,
    /// Whether the lease of a node may have been over at some time.
    was_dead: Vec<bool>,
    threads: [(&'static str, Expected); 2],
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(16) })]

    /// Nodes that are taken for dead, come back, and lose connections: only the node that took a
    /// thread last writes to it, and each acknowledged write is there, once and in order.
    #[test]
    fn only_the_last_owner_writes(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut cluster = Cluster::start().await;
            for (number, step) in steps.iter().enumerate() {
                cluster.run(number, step).await;
            }
            for (id, thread) in &cluster.threads {
                assert_eq!(history(&cluster.nodes[0].0, id).await, thread.said, "{id}");
            }
        });
    }
}

impl Cluster {
    async fn start() -> Self {
        let PostgresConfig { schema, tenant, .. } = new_tenant().await;
        let (mut nodes, mut names) = (Vec::new(), Vec::new());
        for number in 0..3 {
            let proxy = Proxy::start(server().port());
            let (url, tenant) = (proxy.url(), tenant.clone());
            let mut options = PostgresConfig { url, tenant, ..node(&schema) };
            if number == 2 {
                // It notices that it was taken for dead, and comes back under another name.
                options.lease = std::time::Duration::from_secs(2);
            }
            names.push(options.owner.clone());
            nodes.push((Store::open(options).await.unwrap(), proxy));
        }
        let thread = || Expected { owner: Some(0), is_certain: true, ..Expected::default() };
        let threads = [("a", thread()), ("b", thread())];
        for (id, _) in &threads {
            nodes[0].0.commit(vec![create(record(id, 1))]).await.unwrap();
        }
        Self { schema, names, nodes, was_dead: vec![false, false, true], threads }
    }

    async fn run(&mut self, number: usize, step: &Step) {
        match step {
            Step::Append(node, at) => {
                let write = append(self.threads[*at].0, None, &[&number.to_string()]);
                self.write(number, *node, *at, vec![write]).await;
            }
            Step::Turn(node, at) => {
                let (id, turn) = (self.threads[*at].0, format!("turn {number}"));
                let said = append(id, Some(&turn), &[&number.to_string()]);
                let writes = vec![start(id, &turn, 1), said, finish(id, &turn)];
                self.write(number, *node, *at, writes).await;
            }
            Step::Open(node, at) => self.open(number, *node, *at).await,
            Step::Release(node, at) => {
                let (id, thread) = &mut self.threads[*at];
                self.nodes[*node].0.release(id).await.unwrap();
                if thread.owner == Some(*node) {
                    thread.owner = None;
                }
            }
            Step::Claim(node) => {
                // No turn is in progress between two steps.
                let claimed = self.nodes[*node].0.claim_orphaned_turns().await;
                assert_eq!(claimed.unwrap_or_default(), []);
            }
            Step::EndLease(node) => {
                let (schema, name) = (&self.schema, &self.names[*node]);
                administer(&format!(
                    "UPDATE \"{schema}\".node
                     SET lease_until = clock_timestamp() - interval '1 minute'
                     WHERE id = '{name}' OR id LIKE '{name}.%'"
                ))
                .await;
                self.was_dead[*node] = true;
                for (_, thread) in &mut self.threads {
                    thread.is_certain &= thread.owner != Some(*node);
                }
            }
            Step::Cut(node, cut, part) => self.nodes[*node].1.cut(*cut, part, 1),
        }
    }

    async fn write(&mut self, number: usize, node: usize, at: usize, writes: Vec<Write>) {
        let (id, thread) = &mut self.threads[at];
        let outcome = self.nodes[node].0.commit(writes).await;
        match (&outcome, thread.owner == Some(node)) {
            (Ok(()), true) => thread.said.push(number.to_string()),
            (Err(StoreError::LeaseLost { .. }), true) if !thread.is_certain => {}
            (Err(StoreError::LeaseLost { .. }), false) => {}
            // The lease ended before the answer came.
            (Err(StoreError::Unavailable(_)), _) if self.was_dead[node] => {
                let said = history(&self.nodes[0].0, id).await;
                let (before, more) = said.split_at(thread.said.len());
                assert!(before == thread.said && (more.is_empty() || more == [number.to_string()]));
                thread.said = said;
                thread.is_certain = false;
            }
            _ => panic!("step {number} of node {node}: {outcome:?}: {thread:?}"),
        }
    }

    async fn open(&mut self, number: usize, node: usize, at: usize) {
        let (id, thread) = &mut self.threads[at];
        let outcome = self.nodes[node].0.open_thread(id).await;
        let of_another = thread.owner.is_some_and(|owner| owner != node);
        match outcome {
            Ok(opened) => {
                assert!(!of_another || !thread.is_certain, "step {number}: two owners: {thread:?}");
                assert_eq!(opened.orphans, []);
                (thread.owner, thread.is_certain) = (Some(node), !self.was_dead[node]);
            }
            Err(StoreError::LeasedBy { .. }) if of_another => {}
            // A node between two names. What it sent may have taken effect.
            Err(StoreError::LeaseLost { .. } | StoreError::Unavailable(_))
                if self.was_dead[node] =>
            {
                thread.is_certain = false;
            }
            Err(error) => panic!("step {number} of node {node}: {error}: {thread:?}"),
        }
    }
}

/// Two nodes delete the last forks of a deleted thread at the same time: the turns go with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_deletions_leave_no_turn_behind() {
    for _ in 0..10 {
        let schema = new_schema().await;
        let (one, two) =
            (Store::open(node(&schema)).await.unwrap(), Store::open(node(&schema)).await.unwrap());
        let delete = |thread: &str| vec![Write::DeleteThread { thread: thread.into() }];
        let turn = vec![start("a", "t", 1), append("a", Some("t"), &["1"]), finish("a", "t")];
        one.commit([vec![create(record("a", 1))], turn].concat()).await.unwrap();
        one.commit(vec![fork("b", "a", None)]).await.unwrap();
        two.commit(vec![fork("c", "a", None)]).await.unwrap();
        one.commit(delete("a")).await.unwrap();
        assert_eq!(history(&two, "c").await, ["1"]);
        let (first, second) = tokio::join!(one.commit(delete("b")), two.commit(delete("c")));
        first.and(second).unwrap();
        let rest = format!(
            "SELECT 1 / (SELECT 1 - count(*) FROM (SELECT 1 FROM \"{schema}\".turn
                 UNION ALL SELECT 1 FROM \"{schema}\".history
                 UNION ALL SELECT 1 FROM \"{schema}\".segment
                 UNION ALL SELECT 1 FROM \"{schema}\".thread LIMIT 1) AS rest)"
        );
        administer(&rest).await;
    }
}
