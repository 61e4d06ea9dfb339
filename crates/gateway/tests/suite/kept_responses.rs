//! The records of kept responses on both kinds of store: chains, isolation, room and expiry, with two nodes at work.

use crate::common::both_stores::on_both_stores;
use crate::common::node::{NOW, Node};
use gateway_store::database::{Database, Statement};
use gateway_store::records::kept_responses::{self, Bounds, KeptResponse, Link};

const AT: i64 = NOW as i64;
const DAY: i64 = 86_400;
const BOUNDS: Bounds = Bounds { now: AT, retention: 10 * DAY, project_bytes: 1 << 20 };

on_both_stores!(
    a_chain_comes_back_in_order,
    other_projects_find_nothing,
    a_deleted_response_breaks_its_chain,
    conversations_expire_as_a_whole,
    the_least_recently_used_conversations_make_room,
    an_insertion_that_is_repeated_counts_once,
    nodes_that_continue_and_sweep_at_once_leave_no_halves,
);

fn response(id: &str, previous: Option<&Link>, bytes: usize) -> KeptResponse {
    KeptResponse {
        id: id.into(),
        project: "proj_1".into(),
        previous: previous.cloned(),
        input: format!("[\"{id}{}\"]", "x".repeat(bytes)).into_bytes().into(),
        output: b"{\"output\":[]}".as_slice().into(),
    }
}

async fn insert(database: &Database, id: &str, previous: Option<&str>, bounds: Bounds) {
    let previous = match previous {
        Some(previous) => Some(find(database, previous, bounds).await.unwrap()),
        None => None,
    };
    let made = response(id, previous.as_ref(), 0);
    kept_responses::insert(database, &made, bounds).await.unwrap();
}

async fn find(database: &Database, id: &str, bounds: Bounds) -> Option<Link> {
    kept_responses::find(database, "proj_1", id, bounds).await.unwrap()
}

async fn is_there(database: &Database, id: &str, now: i64) -> bool {
    kept_responses::read(database, "proj_1", id, now).await.unwrap().is_some()
}

/// The ids in the inputs of a chain; `None` if it is broken.
async fn chain(database: &Database, id: &str) -> Option<Vec<String>> {
    let link = find(database, id, BOUNDS).await?;
    let chain = kept_responses::chain(database, "proj_1", &link).await.unwrap()?;
    let read = chain.iter().map(|one| serde_json::from_slice::<[String; 1]>(&one.input).unwrap());
    Some(read.map(|[id]| id).collect())
}

/// Rows and bytes, as they are and as they are counted.
async fn sums(database: &Database) -> [u64; 4] {
    let sql = "SELECT (SELECT COUNT(*) FROM kept_responses), \
               (SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM kept_responses), \
               (SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM kept_conversations), \
               (SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM kept_bytes)";
    let rows = database.query(Statement::new(sql, [])).await.unwrap();
    [0, 1, 2, 3].map(|column| rows[0].count(column).unwrap())
}

async fn assert_counted(database: &Database) {
    let [_, bytes, conversations, projects] = sums(database).await;
    assert_eq!((bytes, bytes), (conversations, projects));
}

async fn a_chain_comes_back_in_order(node: &Node) {
    let database = &*node.database;
    insert(database, "a", None, BOUNDS).await;
    for at in 0..200 {
        let (id, previous) = (format!("b{at}"), format!("b{}", at - 1));
        insert(database, &id, Some(if at == 0 { "a" } else { &previous }), BOUNDS).await;
    }
    // A second branch.
    insert(database, "c", Some("b1"), BOUNDS).await;
    let link = find(database, "b199", BOUNDS).await.unwrap();
    assert_eq!((&*link.conversation, link.place), ("a", 200));
    let found = chain(database, "b199").await.unwrap();
    assert_eq!((found.len(), &*found[0], &*found[200]), (201, "a", "b199"));
    assert_eq!(chain(database, "c").await.unwrap(), ["a", "b0", "b1", "c"]);
    let other = node.another().await;
    assert_eq!(chain(&other.database, "b0").await.unwrap(), ["a", "b0"]);
    assert_counted(database).await;
}

async fn other_projects_find_nothing(node: &Node) {
    let database = &*node.database;
    insert(database, "a", None, BOUNDS).await;
    let link = find(database, "a", BOUNDS).await.unwrap();
    let of_other = "proj_2";
    assert_eq!(kept_responses::find(database, of_other, "a", BOUNDS).await.unwrap(), None);
    assert_eq!(kept_responses::chain(database, of_other, &link).await.unwrap(), None);
    assert_eq!(kept_responses::read(database, of_other, "a", AT).await.unwrap(), None);
    assert!(!kept_responses::delete(database, of_other, "a").await.unwrap());
    assert!(is_there(database, "a", AT).await);
    // A known id keeps its contents.
    let taken = KeptResponse { project: of_other.into(), ..response("a", None, 50) };
    kept_responses::insert(database, &taken, BOUNDS).await.unwrap();
    assert_eq!(chain(database, "a").await.unwrap(), ["a"]);
    assert_eq!(kept_responses::read(database, of_other, "a", AT).await.unwrap(), None);
}

async fn a_deleted_response_breaks_its_chain(node: &Node) {
    let database = &*node.database;
    for (id, previous) in [("a", None), ("b", Some("a")), ("c", Some("b"))] {
        insert(database, id, previous, BOUNDS).await;
    }
    assert!(kept_responses::delete(database, "proj_1", "b").await.unwrap());
    assert!(!kept_responses::delete(database, "proj_1", "b").await.unwrap());
    assert_eq!(chain(database, "c").await, None);
    assert_eq!(chain(database, "a").await.unwrap(), ["a"]);
    assert_counted(database).await;
    for id in ["a", "c"] {
        assert!(kept_responses::delete(database, "proj_1", id).await.unwrap());
    }
    assert_eq!(sums(database).await, [0; 4]);
    let rows = database.query(Statement::new("SELECT id FROM kept_conversations", [])).await;
    assert!(rows.unwrap().is_empty());
}

async fn conversations_expire_as_a_whole(node: &Node) {
    let database = &*node.database;
    let at = |days: i64| Bounds { now: AT + days * DAY, ..BOUNDS };
    insert(database, "a", None, at(0)).await;
    insert(database, "z", None, at(0)).await;
    insert(database, "b", Some("a"), at(9)).await;
    // The sweep leaves the first response, which is older than ten days, because another one continues it.
    kept_responses::prune(database, AT + 12 * DAY).await.unwrap();
    assert!(is_there(database, "a", AT + 12 * DAY).await && !is_there(database, "z", AT).await);
    // Reading it to continue it, too.
    assert!(find(database, "a", at(18)).await.is_some());
    kept_responses::prune(database, AT + 27 * DAY).await.unwrap();
    assert_eq!(chain(database, "b").await.unwrap(), ["a", "b"]);
    // What has expired is not found, also before the sweep.
    let late = Bounds { now: AT + 60 * DAY, ..BOUNDS };
    assert_eq!(find(database, "b", late).await, None);
    assert!(!is_there(database, "b", late.now).await);
    assert!(!kept_responses::prune(database, late.now).await.unwrap());
    assert_eq!(sums(database).await, [0; 4]);
}

async fn the_least_recently_used_conversations_make_room(node: &Node) {
    let database = &*node.database;
    let at = |seconds: i64| Bounds { now: AT + seconds, project_bytes: 10_000, ..BOUNDS };
    for (seconds, id) in ["a", "b", "c"].into_iter().enumerate() {
        let made = response(id, None, 2500);
        kept_responses::insert(database, &made, at(seconds as i64)).await.unwrap();
    }
    let other = KeptResponse { project: "proj_2".into(), ..response("other", None, 9000) };
    kept_responses::insert(database, &other, at(0)).await.unwrap();
    // The oldest one is used again.
    assert!(find(database, "a", at(5)).await.is_some());
    kept_responses::insert(database, &response("d", None, 2500), at(6)).await.unwrap();
    let mut left = Vec::new();
    for id in ["a", "b", "c", "d"] {
        left.push(is_there(database, id, AT).await);
    }
    assert_eq!(left, [true, false, true, true]);
    assert!(kept_responses::read(database, "proj_2", "other", AT).await.unwrap().is_some());
    assert_counted(database).await;
}

async fn an_insertion_that_is_repeated_counts_once(node: &Node) {
    let database = &*node.database;
    for _ in 0..3 {
        kept_responses::insert(database, &response("a", None, 100), BOUNDS).await.unwrap();
    }
    assert_eq!(sums(database).await[0], 1);
    assert_counted(database).await;
}

async fn nodes_that_continue_and_sweep_at_once_leave_no_halves(node: &Node) {
    let other = node.another().await;
    let (one, two) = (&*node.database, &*other.database);
    let small = Bounds { project_bytes: 3000, ..BOUNDS };
    let continues = async |database: &Database, name: &str| {
        for at in 0..20 {
            let (first, second) = (format!("{name}{at}"), format!("{name}{at}+"));
            let made = response(&first, None, 100);
            kept_responses::insert(database, &made, small).await.unwrap();
            if let Some(link) = find(database, &first, small).await {
                let made = response(&second, Some(&link), 100);
                kept_responses::insert(database, &made, small).await.unwrap();
            }
            kept_responses::prune(database, AT + 30 * DAY).await.unwrap();
        }
    };
    tokio::join!(continues(one, "a"), continues(two, "b"));
    assert_counted(one).await;
}
