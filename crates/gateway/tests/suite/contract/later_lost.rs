//! Responses in the background that are cancelled, deleted, forgotten or never end, and the questions of the gateway about them.

use hyper::Method;
use serde_json::{Value, json};

use super::ends;
use super::later::{
    COMPLETE, MOST, ask, configured, counted, ended_as, open, pass, row, settled, spent, start,
    until,
};
use crate::common::background::{Background, text};
use crate::common::gateway::{SECOND, TestGateway, UPSTREAM_KEY};
use crate::common::upstream::{Script, event};
use ratelimit::DAY;

#[tokio::test]
async fn a_cancelled_response_is_settled() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "in_progress", "output": text() }));
    let answer = gateway.post(&tenant, "/v1/responses/resp_1/cancel", &json!({})).await;
    assert_eq!(answer.json()["status"], "cancelled");
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "cancelled");
    // The request to cancel costs nothing of its own.
    assert_eq!(gateway.cost(&tenant.organization).await, 31);
    assert_eq!(ends::rows(&gateway, &tenant).await.len(), 2);
}

#[tokio::test]
async fn a_deleted_response_is_settled_after_a_last_look() {
    let reports = json!({ "input_tokens": 20, "output_tokens": 7 });
    let gone = (499, "client_gone");
    for (name, state, end, tokens) in [
        ("ended", json!({ "status": "completed", "usage": reports }), COMPLETE, [20, 7]),
        ("with text", json!({ "status": "in_progress", "output": text() }), gone, [1, 3]),
        ("with a usage", json!({ "status": "in_progress", "usage": reports }), gone, [20, 7]),
        ("unseen", json!({ "status": "in_progress" }), gone, [1, 500]),
    ] {
        let (gateway, background, tenant) = start().await;
        open(&gateway, &tenant).await;
        background.set("resp_1", &state);
        let path = "/v1/responses/resp_1";
        let answer = gateway.with(&tenant, Method::DELETE, path, &[], "").await;
        assert_eq!(answer.status, 200, "{name}");
        ended_as(&row(&gateway, &tenant).await, end, tokens, name);
        let cost = tokens[0] + 10 * tokens[1];
        assert_eq!(spent(&gateway, &tenant).await, [cost; 2], "{name}");
    }
}

/// A deletion that the upstream refuses settles nothing.
#[tokio::test]
async fn a_response_that_was_not_deleted_stays_open() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.upstream.script([
        Script::json(&json!({ "id": "resp_1", "status": "queued" })),
        Script::error(409, &json!({ "error": { "message": "It runs" } })),
    ]);
    let path = "/v1/responses/resp_1";
    assert_eq!(gateway.with(&tenant, Method::DELETE, path, &[], "").await.status, 409);
    gateway.is_idle().await;
    assert_eq!(settled(&gateway, &tenant).await.len(), 0);
    assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
}

/// What is never seen to end costs what is known of it: never nothing, and never more than its maximum.
#[tokio::test]
async fn a_response_whose_end_is_never_seen_is_settled() {
    for (name, state, forgotten, end, tokens) in [
        ("forgotten", json!({}), true, (502, "cut"), [1, 500]),
        ("expired", json!({ "status": "in_progress" }), false, (504, "stalled"), [1, 500]),
        ("expired with text", json!({ "output": text() }), false, (504, "stalled"), [1, 3]),
        ("expired in a strange state", json!({ "status": 5 }), false, (504, "stalled"), [1, 500]),
    ] {
        let (gateway, background, tenant) = start().await;
        open(&gateway, &tenant).await;
        background.set("resp_1", &state);
        if forgotten {
            background.forget("resp_1");
            pass(&gateway, 10 * SECOND);
        } else {
            pass(&gateway, DAY - SECOND);
            until(name, async || (background.looks("resp_1") == 1).then_some(())).await;
            assert_eq!(settled(&gateway, &tenant).await.len(), 0, "{name}");
            pass(&gateway, SECOND);
        }
        ended_as(&row(&gateway, &tenant).await, end, tokens, name);
        let cost = tokens[0] + 10 * tokens[1];
        until(name, async || (spent(&gateway, &tenant).await == [cost; 2]).then_some(())).await;
        until("a line", async || gateway.log().contains(&tenant.organization).then_some(())).await;
        assert!(gateway.log().contains("resp_1"), "{name}: {}", gateway.log());
        assert_eq!(counted(&gateway, end.0).await, 1, "{name}");
    }
}

/// Text that a client saw of a response that goes on is charged, even if nothing of it is seen later.
#[tokio::test]
async fn text_that_a_client_has_fetched_counts() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "in_progress", "output": text() }));
    assert_eq!(gateway.get(&tenant, "/v1/responses/resp_1").await.status, 200);
    gateway.flush().await;
    background.set("resp_1", &json!({ "output": [] }));
    assert_eq!(gateway.get(&tenant, "/v1/responses/resp_1").await.status, 200);
    gateway.flush().await;
    background.forget("resp_1");
    pass(&gateway, 10 * SECOND);
    ended_as(&row(&gateway, &tenant).await, (502, "cut"), [1, 3], "fetched");
}

/// An upstream that is away, or was removed from the configuration, has no end to show.
#[tokio::test]
async fn a_response_of_a_removed_upstream_is_settled_when_it_expires() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    let other = configured(&background).replace("[upstreams.main]", "[upstreams.other]");
    gateway.reload(&format!("{other}[server]\nbackground_expiry_seconds = 60\n"));
    pass(&gateway, DAY);
    ended_as(&row(&gateway, &tenant).await, (504, "stalled"), [1, 500], "away");
    assert_eq!(background.looks("resp_1"), 0);
    assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
}

#[tokio::test]
async fn the_expiry_is_configured() {
    let background = Background::start().await;
    let server = "[server]\nbackground_expiry_seconds = 60\n";
    let gateway = TestGateway::start(&format!("{}{server}", configured(&background))).await;
    let tenant = gateway.tenant("free").await;
    open(&gateway, &tenant).await;
    pass(&gateway, 60 * SECOND);
    ended_as(&row(&gateway, &tenant).await, (504, "stalled"), [1, 500], "expired");
}

/// Two requests whose answers have one id: the second cannot be followed, and settles nothing of the first.
#[tokio::test]
async fn an_id_that_is_taken_is_charged_its_maximum() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    let response = |status: &str| json!({ "id": "resp_1", "status": status });
    background.upstream.script([Script::json(&response("queued"))]);
    open(&gateway, &tenant).await;
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 500], "the second");
    let events = ["created", "completed"].map(|kind| {
        let kind = format!("response.{kind}");
        event(&json!({ "type": kind, "response": response("queued") }))
    });
    background.upstream.script([Script::events(events)]);
    let mut body = ask();
    body["stream"] = json!(true);
    gateway.stream_from(&tenant, "/v1/responses", &body).await.rest().await;
    gateway.is_idle().await;
    let rows = settled(&gateway, &tenant).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    let database = gateway.gateway.database();
    let first = gateway_store::records::later_answers::find(database, "resp_1").await;
    assert!(first.expect("the store").is_some());
}

/// Another project neither sees a response nor settles it.
#[tokio::test]
async fn another_project_settles_nothing() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "completed", "output": text() }));
    let other = gateway.project(&tenant.organization, Value::Null).await;
    let path = "/v1/responses/resp_1";
    assert_eq!(gateway.get(&other, path).await.status, 404);
    assert_eq!(gateway.with(&other, Method::DELETE, path, &[], "").await.status, 404);
    assert_eq!(gateway.post(&other, &format!("{path}/cancel"), &json!({})).await.status, 404);
    assert_eq!(settled(&gateway, &tenant).await.len(), 0);
    assert_eq!(background.looks("resp_1"), 0);
}

/// The gateway asks less and less often, with its own key, and not before its time.
#[tokio::test]
async fn the_gateway_asks_at_growing_intervals() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "in_progress", "output": text() }));
    pass(&gateway, SECOND);
    for looks in 1..=12 {
        pass(&gateway, 125 * SECOND);
        until("a look", async || (background.looks("resp_1") == looks).then_some(())).await;
        // The next one is not due.
        let next = async || {
            let database = gateway.gateway.database();
            let found = gateway_store::records::later_answers::find(database, "resp_1").await;
            found.expect("a store").expect("a row")
        };
        let answer = until("its next look", async || {
            let answer = next().await;
            let wait = answer.poll_at.saturating_sub(gateway.gateway.clock().now());
            (answer.seen_eighths == 24 && wait != 60 * SECOND).then_some(answer)
        })
        .await;
        let wait = answer.poll_at - gateway.gateway.clock().now();
        let longest = ((5 * SECOND) << looks).min(120 * SECOND);
        assert!((longest / 2..=longest).contains(&wait), "{looks}: {wait}");
    }
    let last = background.upstream.last();
    let authorization = last.headers.get("authorization").expect("a key").to_str().expect("text");
    assert_eq!(authorization, format!("Bearer {}", UPSTREAM_KEY));
    assert_eq!(settled(&gateway, &tenant).await.len(), 0);
}

/// A failure to say how far a response is, is no end of it.
#[tokio::test]
async fn the_gateway_asks_again_after_a_failure() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "completed", "output": text() }));
    let answers = [
        Script::error(500, &json!({ "error": { "message": "It failed" } })),
        Script::error(401, &json!({ "error": { "message": "A wrong key" } })),
        Script::new(404, "text/html", "<html>"),
        Script::new(200, "application/json", "{\"id\": \"resp_1\", \"status\": \"comp"),
        Script::json(&json!({ "id": "resp_2", "status": "completed" })),
        Script::json(&json!({ "id": "resp_1", "status": 7 })),
        Script::json(&json!({ "id": "resp_1", "status": null })),
        Script::json(&json!({ "id": "resp_1", "status": "unheard of" })),
        Script::json(&json!([])),
    ];
    for (before, answer) in answers.into_iter().enumerate() {
        background.upstream.script([answer]);
        pass(&gateway, 125 * SECOND);
        until("a look", async || (background.looks("resp_1") > before).then_some(())).await;
        // The claim is given up.
        let database = gateway.gateway.database();
        until("its next look", async || {
            let found = gateway_store::records::later_answers::find(database, "resp_1").await;
            let answer = found.expect("a store").expect("it is open");
            (answer.poll_at != gateway.gateway.clock().now() + 60 * SECOND).then_some(())
        })
        .await;
        assert_eq!(settled(&gateway, &tenant).await.len(), 0);
    }
    pass(&gateway, 125 * SECOND);
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "the end");
}
