//! Responses in the background on several nodes, and over restarts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::later::{
    COMPLETE, MOST, RESPONSES, ask, configured, counted, ended_as, open, pass, row, settled, spent,
    until,
};
use crate::common::background::{Background, text};
use crate::common::batching;
use crate::common::gateway::{SECOND, Tenant, TestGateway};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream::{Gate, Script, Step, chat, usage};
use gateway_store::records::spend;

/// A restart keeps what is open, also when the state of the limits is lost.
#[tokio::test]
async fn open_responses_outlive_a_restart() {
    for loses_limits in [false, true] {
        let background = Background::start().await;
        let text_of = configured(&background);
        let mut gateway = TestGateway::start(&text_of).await;
        let tenant = gateway.tenant("free").await;
        gateway.hard_limit(&tenant, false, 1).await;
        open(&gateway, &tenant).await;
        let folder = Arc::clone(&gateway.folder);
        gateway.end().await;
        drop(gateway);
        if loses_limits {
            std::fs::remove_file(folder.path().join("gateway.limits")).expect("the state");
        }
        let gateway = TestGateway::start_in(folder, &text_of, 2).await;
        assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 429);
        assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
        background.set("resp_1", &json!({ "status": "completed", "output": text() }));
        pass(&gateway, 10 * SECOND);
        ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "after a restart");
        let meters = async || (spent(&gateway, &tenant).await == [31; 2]).then_some(());
        until("the meters", meters).await;
        assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 200);
    }
}

async fn nodes(
    background: &Background,
    postgres: &Postgres,
    redis: &Redis,
) -> ([TestGateway; 2], Tenant) {
    let (store, limits) = (postgres.url(), redis.url());
    let stores = format!("[store]\nurl = \"{store}\"\n[limits]\nurl = \"{limits}\"\n");
    let text = format!("{}{stores}", configured(background));
    let node = async |seed| {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        TestGateway::start_in(folder, &text, seed).await
    };
    let nodes = [node(1).await, node(2).await];
    let tenant = nodes[0].tenant("free").await;
    (nodes, tenant)
}

/// Both nodes see the ends, each by a client and by itself, at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_on_postgres_settle_a_response_once() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let background = Background::start().await;
    let (nodes, tenant) = nodes(&background, &postgres, &redis).await;
    for _ in 0..8 {
        open(&nodes[0], &tenant).await;
    }
    for node in &nodes {
        until("the meters", async || (spent(node, &tenant).await == [8 * MOST; 2]).then_some(()))
            .await;
    }
    for response in 1..=8 {
        let id = format!("resp_{response}");
        background.set(&id, &json!({ "status": "completed", "output": text() }));
    }
    let paths: Vec<String> = (1..=8).map(|id| format!("/v1/responses/resp_{id}")).collect();
    let fetch = async |node: &TestGateway| {
        pass(node, 10 * SECOND);
        for path in &paths {
            node.get(&tenant, path).await;
        }
    };
    tokio::join!(fetch(&nodes[0]), fetch(&nodes[1]));
    let rows = until("all rows", async || {
        Some(settled(&nodes[1], &tenant).await).filter(|rows| rows.len() >= 8)
    })
    .await;
    assert_eq!(rows.len(), 8);
    for node in &nodes {
        until("the meters", async || (spent(node, &tenant).await == [8 * 31; 2]).then_some(()))
            .await;
        assert_eq!(node.cost(&tenant.organization).await, 8 * 31);
    }
    // Each is in the metrics of one node.
    until("the metrics", async || {
        (counted(&nodes[0], 200).await + counted(&nodes[1], 200).await == 8).then_some(())
    })
    .await;
}

/// A node that dies while it asks leaves the response to another, once its claim has lapsed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_of_a_node_that_died_is_settled_by_another_on_postgres() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let background = Background::start().await;
    let ([first, second], tenant) = nodes(&background, &postgres, &redis).await;
    second.gateway.crash_poller();
    open(&first, &tenant).await;
    let gate = Gate::closed();
    let held = Script::json(&json!({ "id": "resp_1", "status": "queued" }))
        .before(Step::Wait(gate.clone()));
    background.upstream.script([held]);
    pass(&first, 10 * SECOND);
    until("a look", async || (background.looks("resp_1") == 1).then_some(())).await;
    first.gateway.crash_poller();
    drop(first);
    background.set("resp_1", &json!({ "status": "completed", "output": text() }));
    let third = {
        let (store, limits) = (postgres.url(), redis.url());
        let stores = format!("[store]\nurl = \"{store}\"\n[limits]\nurl = \"{limits}\"\n");
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        // A node of its own: the store of the limits knows the first one.
        TestGateway::start_in(folder, &format!("{}{stores}", configured(&background)), 3).await
    };
    // The claim holds.
    pass(&third, 20 * SECOND);
    let database = third.gateway.database();
    let found =
        gateway_store::records::later_answers::due(database, third.gateway.clock().now(), 9);
    assert_eq!(found.await.expect("a store").len(), 0);
    pass(&third, 60 * SECOND);
    ended_as(&row(&third, &tenant).await, COMPLETE, [1, 3], "of a node that died");
    until("the meters", async || (spent(&third, &tenant).await == [31; 2]).then_some(())).await;
}

/// A line of a batch may ask for the background; it is settled at the price of batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_a_batch_in_the_background_is_settled() {
    let upstream = batching::Upstream::start(|received| {
        let ended = received.path == "/v1/responses/resp_1";
        let reports = json!({ "input_tokens": 20, "output_tokens": 8 });
        let answer = match ended {
            true => json!({ "id": "resp_1", "status": "completed", "usage": reports }),
            false => json!({ "id": "resp_1", "status": "queued", "usage": null }),
        };
        (200, answer.to_string())
    })
    .await;
    let (folder, clock) = (tempfile::tempdir().expect("a folder"), batching::ManualClock::new());
    let model = "[models.big]\nprice = { input = 1.0, output = 10.0 }\n\
                 batch_price = { input = 0.5, output = 5.0 }\n";
    let stores = ("", "memory:");
    let node = batching::Node::start(folder.path(), &clock, &upstream, stores, model).await;
    let (key, _) = node.key().await;
    let client = batching::Client::new(&node.base, &key);
    let line = json!({ "custom_id": "c0", "method": "POST", "url": RESPONSES, "body": ask() });
    let batch = client.batch(RESPONSES, &format!("{line}\n")).await;
    let batch = client.ended(&batch).await;
    assert_eq!(batch["request_counts"], json!({ "total": 1, "completed": 1, "failed": 0 }));
    clock.add_seconds(10);
    node.gateway.wake_poller();
    let rows = until("a row", async || {
        node.gateway
            .ledger()
            .flush(std::time::Duration::from_secs(10))
            .await
            .expect("it is written");
        let (start, end) = (0, u64::MAX / 2_000_000);
        let cursor = gateway_store::ledger::Cursor::new(start, end);
        let exported =
            gateway_store::ledger::export(node.gateway.database(), "org-default", cursor).await;
        let mut rows = exported.expect("the store").0;
        rows.retain(|row| &*row.entry.model == "big");
        Some(rows).filter(|rows| !rows.is_empty())
    })
    .await;
    let entry = &rows[0].entry;
    assert_eq!((rows.len(), entry.batch, entry.status), (1, true, 200));
    assert_eq!((entry.input_tokens, entry.output_tokens, entry.cost), (20, 8, 50));
    node.end().await;
}

/// A line of a batch waits for money that a response in the background holds, and may give back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_a_batch_waits_for_money_that_the_background_holds() {
    let is_over = Arc::new(AtomicBool::new(false));
    let shows_end = Arc::clone(&is_over);
    let upstream = batching::Upstream::start(move |received| {
        let reports = json!({ "input_tokens": 20, "output_tokens": 8 });
        let ended = received.path == "/v1/responses/resp_1" && shows_end.load(Ordering::SeqCst);
        let answer = match ended {
            true => json!({ "id": "resp_1", "status": "completed", "usage": reports }),
            false if received.path.starts_with(RESPONSES) => {
                json!({ "id": "resp_1", "status": "queued", "usage": null })
            }
            false => chat(&usage(1, 1)),
        };
        (200, answer.to_string())
    })
    .await;
    let (folder, clock) = (tempfile::tempdir().expect("a folder"), batching::ManualClock::new());
    let model = "[models.big]\nprice = { input = 1.0, output = 10.0 }\n";
    let stores = ("", "memory:");
    let node = batching::Node::start(folder.path(), &clock, &upstream, stores, model).await;
    let (key, project) = node.key().await;
    let (database, act) = (node.gateway.database(), node.gateway.act());
    // A cent is 10,000 micro-dollars: the response holds 9501, and the line needs 1001.
    spend::set_hard(database, spend::Scope::Project(&project), Some(1), act)
        .await
        .unwrap()
        .unwrap();
    node.gateway.directory().catch_up().await.unwrap();
    let client = batching::Client::new(&node.base, &key);
    let mut body = ask();
    body["max_output_tokens"] = json!(950);
    assert_eq!(client.post(RESPONSES, &body).await.0, 200);
    let batch = client.batch("/v1/chat/completions", &batching::chats("big", 1)).await;
    let waits = client.until(&batch, |batch| batch["status"] == "in_progress").await;
    assert_eq!(waits["request_counts"]["failed"], 0);
    is_over.store(true, Ordering::SeqCst);
    clock.add_seconds(10);
    node.gateway.wake_poller();
    let batch = client.ended(&batch).await;
    assert_eq!(
        batch["request_counts"],
        json!({ "total": 1, "completed": 1, "failed": 0 }),
        "{batch}"
    );
    node.end().await;
}
