//! Videos cost by the second: reserved when they are asked for, and settled from their end, which comes later.

use hyper::Method;
use serde_json::{Value, json};

use super::ends;
use super::later::{pass, spent, until};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, config};
use crate::common::upstream::{Received, Script, Upstream};

const VIDEOS: &str = "/v1/videos";
const MODEL: &str = "[models.big]\nprice = { video_second = [{ usd = 0.1 }, \
    { size = \"1792x1024\", usd = 0.3 }] }\n";

async fn start() -> (TestGateway, Upstream, Tenant) {
    let upstream = Upstream::answering(|received: &Received| match received.method {
        Method::POST => {
            Script::json(&json!({ "id": "video_1", "status": "queued", "object": "video" }))
        }
        _ => Script::json(&json!({ "id": "video_1", "status": "in_progress", "progress": 5 })),
    })
    .await;
    let gateway = TestGateway::start(&config(&upstream, MODEL)).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

fn ask(more: &Value) -> Value {
    let mut body = json!({ "model": "big", "prompt": "x" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn open(gateway: &TestGateway, tenant: &Tenant, more: &Value) -> Answer {
    let answer = gateway.post(tenant, VIDEOS, &ask(more)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    gateway.is_idle().await;
    answer
}

/// The cost in the row of the only video, in micro-dollars, once it is there.
async fn charged(gateway: &TestGateway, tenant: &Tenant) -> u64 {
    let row = until("a row", async || {
        let mut rows = ends::rows(gateway, tenant).await;
        rows.retain(|row| row["model"] == "big");
        assert!(rows.len() <= 1, "{rows:?}");
        rows.pop()
    })
    .await;
    let (whole, micros) = row["cost_usd"].as_str().unwrap().split_once('.').unwrap();
    whole.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap()
}

fn ended(status: &str, more: &Value) -> Script {
    let mut video = json!({ "id": "video_1", "object": "video", "status": status });
    for (name, value) in more.as_object().unwrap() {
        video[name] = value.clone();
    }
    Script::json(&video)
}

#[tokio::test]
async fn a_video_is_settled_when_a_client_sees_its_end() {
    let eight = || json!({ "seconds": "8", "size": "720x1280" });
    let fails = json!({ "error": { "message": "x" } });
    for (asked, status, said, held, cost) in [
        (eight(), "completed", json!({ "seconds": "8" }), 800_000, 800_000),
        (eight(), "completed", json!({}), 800_000, 800_000),
        (eight(), "completed", json!({ "seconds": "4" }), 800_000, 400_000),
        (eight(), "failed", fails, 800_000, 0),
        (
            json!({ "seconds": 4, "size": "1792x1024" }),
            "completed",
            json!({}),
            1_200_000,
            1_200_000,
        ),
        // The server decides: up to 20 seconds of the dearest size.
        (
            json!({}),
            "completed",
            json!({ "seconds": "12", "size": "720x1280" }),
            6_000_000,
            1_200_000,
        ),
        (json!({}), "completed", json!({}), 6_000_000, 6_000_000),
        // An upstream that lies.
        (eight(), "completed", json!({ "seconds": "900" }), 800_000, 800_000),
        (eight(), "completed", json!({ "seconds": -3 }), 800_000, 800_000),
        (eight(), "completed", json!({ "seconds": "x", "size": "1792x1024" }), 800_000, 800_000),
    ] {
        let (gateway, upstream, tenant) = start().await;
        open(&gateway, &tenant, &asked).await;
        assert_eq!(spent(&gateway, &tenant).await, [held; 2], "{asked}");
        // Still at work: nothing changes.
        assert_eq!(gateway.get(&tenant, "/v1/videos/video_1").await.status, 200);
        gateway.is_idle().await;
        assert_eq!(spent(&gateway, &tenant).await, [held; 2], "{asked}");
        upstream.script([ended(status, &said)]);
        assert_eq!(gateway.get(&tenant, "/v1/videos/video_1").await.status, 200);
        // An export that is read right after that has the row.
        assert_eq!(charged(&gateway, &tenant).await, cost, "{asked} {said}");
        let meters = async || (spent(&gateway, &tenant).await == [cost; 2]).then_some(());
        until("the meters", meters).await;
    }
}

#[tokio::test]
async fn the_gateway_asks_for_the_end_of_a_video() {
    let (gateway, upstream, tenant) = start().await;
    open(&gateway, &tenant, &json!({ "seconds": "8", "size": "720x1280" })).await;
    upstream.script([ended("completed", &json!({ "seconds": "8" }))]);
    pass(&gateway, 10 * SECOND);
    assert_eq!(charged(&gateway, &tenant).await, 800_000);
    assert_eq!(upstream.last().path, "/v1/videos/video_1");
}

/// One that the model server forgets, or that a client deletes before its end is seen, costs what was reserved.
#[tokio::test]
async fn a_video_whose_end_is_not_seen_costs_its_seconds() {
    for is_deleted in [false, true] {
        let (gateway, upstream, tenant) = start().await;
        open(&gateway, &tenant, &json!({ "seconds": "8", "size": "720x1280" })).await;
        let gone = Script::error(404, &json!({ "error": { "message": "none" } }));
        if is_deleted {
            let deleted = json!({ "id": "video_1", "object": "video.deleted", "deleted": true });
            upstream.script([gone, Script::json(&deleted)]);
            let path = "/v1/videos/video_1";
            let answer = gateway.with(&tenant, Method::DELETE, path, &[], "").await;
            assert_eq!(answer.status, 200);
        } else {
            upstream.script([gone]);
            pass(&gateway, 10 * SECOND);
        }
        assert_eq!(charged(&gateway, &tenant).await, 800_000, "{is_deleted}");
    }
}

#[tokio::test]
async fn a_video_that_fails_at_once_costs_nothing() {
    let (gateway, upstream, tenant) = start().await;
    upstream.script([ended("failed", &json!({ "error": { "message": "x" } }))]);
    open(&gateway, &tenant, &json!({ "seconds": "8" })).await;
    assert_eq!(charged(&gateway, &tenant).await, 0);
    assert_eq!(spent(&gateway, &tenant).await, [0; 2]);
}

#[tokio::test]
async fn a_video_must_fit_under_the_limit_and_its_length_must_be_a_number() {
    let (gateway, upstream, tenant) = start().await;
    gateway.hard_limit(&tenant, false, 100).await;
    let long = ask(&json!({ "seconds": "11", "size": "720x1280" }));
    let refused = gateway.post(&tenant, VIDEOS, &long).await;
    assert_eq!(refused.error().1, "organization_spend_limit_exceeded", "{}", refused.text());
    for seconds in [
        json!("0"),
        json!("-4"),
        json!("x"),
        json!(""),
        json!(-4),
        json!(1.5),
        json!(1e9),
        json!({}),
        json!(true),
    ] {
        let answer = gateway.post(&tenant, VIDEOS, &ask(&json!({ "seconds": seconds }))).await;
        let expected = (400, "invalid_value".into(), "seconds".into());
        assert_eq!(answer.error(), expected, "{seconds}: {}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
    open(&gateway, &tenant, &json!({ "seconds": "10", "size": "720x1280" })).await;
    // What it holds is not there for another.
    let short = ask(&json!({ "seconds": "1", "size": "720x1280" }));
    let refused = gateway.post(&tenant, VIDEOS, &short).await;
    assert_eq!(refused.error().1, "organization_spend_limit_exceeded", "{}", refused.text());
}
