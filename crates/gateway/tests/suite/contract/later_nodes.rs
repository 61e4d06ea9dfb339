//! Responses in the background on several nodes, and over restarts.

use std::sync::Arc;

use serde_json::json;

use super::later::{
    COMPLETE, MOST, RESPONSES, ask, configured, counted, ended_as, open, pass, row, settled, spent,
    until,
};
use crate::common::background::{Background, text};
use crate::common::gateway::{SECOND, Tenant, TestGateway};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream::{Gate, Script, Step};

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
async fn two_nodes_settle_a_response_once() {
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
async fn a_response_of_a_node_that_died_is_settled_by_another() {
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
        TestGateway::start(&format!("{}{stores}", configured(&background))).await
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
