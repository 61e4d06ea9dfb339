//! Fine-tuning jobs cost by the tokens that they train: reserved when a job is created, and settled from its end.

use hyper::Method;
use serde_json::{Value, json};

use super::ends;
use super::later::{pass, spent, until};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, config};
use crate::common::upstream::{Received, Script, Upstream};

const JOBS: &str = "/v1/fine_tuning/jobs";
const JOB: &str = "/v1/fine_tuning/jobs/ftjob-1";
/// 3 micro-dollars a token, and at most 5,000 of them.
const MODEL: &str = "[models.big]\nmax_trained_tokens = 5000\n\
    price = { input = 1.0, output = 1.0, training = 3.0 }\n";
const MOST: u64 = 15_000;

fn job(status: &str, more: &Value) -> Value {
    let mut job = json!({ "id": "ftjob-1", "object": "fine_tuning.job", "status": status,
        "model": "big", "trained_tokens": null, "error": {}, "hyperparameters": {} });
    for (name, value) in more.as_object().expect("members") {
        job[name] = value.clone();
    }
    job
}

async fn start_with(model: &str) -> (TestGateway, Upstream, Tenant) {
    let upstream = Upstream::answering(|received: &Received| match received.method {
        Method::POST => Script::json(&job("validating_files", &json!({}))),
        _ => Script::json(&job("running", &json!({}))),
    })
    .await;
    let gateway = TestGateway::start(&config(&upstream, model)).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

fn ask() -> Value {
    json!({ "model": "big", "suffix": "x" })
}

async fn create(gateway: &TestGateway, tenant: &Tenant) -> Answer {
    let answer = gateway.post(tenant, JOBS, &ask()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    gateway.is_idle().await;
    answer
}

/// The cost and the tokens in the row of the only job, in micro-dollars, once it is there.
async fn charged(gateway: &TestGateway, tenant: &Tenant) -> (u64, u64) {
    let row = until("a row", async || {
        let mut rows = ends::rows(gateway, tenant).await;
        rows.retain(|row| row["model"] == "big");
        assert!(rows.len() <= 1, "{rows:?}");
        rows.pop()
    })
    .await;
    let (whole, micros) = row["cost_usd"].as_str().unwrap().split_once('.').unwrap();
    let cost = whole.parse::<u64>().unwrap() * 1_000_000 + micros.parse::<u64>().unwrap();
    let tokens = |name: &str| row[name].as_u64().unwrap();
    (cost, tokens("input_tokens") + tokens("output_tokens"))
}

#[tokio::test]
async fn a_job_is_charged_by_the_tokens_of_its_end() {
    let told = |tokens: Value| json!({ "trained_tokens": tokens });
    for (status, more, cost) in [
        ("succeeded", told(json!(1000)), 3000),
        ("succeeded", told(json!(0)), 0),
        // It says nothing, or nothing that can be believed.
        ("succeeded", told(json!(null)), MOST),
        ("succeeded", told(json!(9_000_000_000_u64)), MOST),
        ("succeeded", told(json!(-5)), MOST),
        ("succeeded", told(json!("1000")), MOST),
        ("succeeded", told(json!({ "x": 1 })), MOST),
        ("failed", told(json!(null)), 0),
        ("failed", json!({ "trained_tokens": 700, "error": { "message": "x" } }), 2100),
        ("cancelled", told(json!(null)), 0),
        ("cancelled", told(json!(400)), 1200),
    ] {
        let case = format!("{status} {more}");
        let (gateway, upstream, tenant) = start_with(MODEL).await;
        create(&gateway, &tenant).await;
        assert_eq!(spent(&gateway, &tenant).await, [MOST; 2], "{case}");
        // Still at work: nothing changes.
        assert_eq!(gateway.get(&tenant, JOB).await.status, 200);
        gateway.is_idle().await;
        assert_eq!(spent(&gateway, &tenant).await, [MOST; 2], "{case}");
        upstream.script([Script::json(&job(status, &more))]);
        assert_eq!(gateway.get(&tenant, JOB).await.status, 200);
        assert_eq!(charged(&gateway, &tenant).await, (cost, 0), "{case}");
        let meters = async || (spent(&gateway, &tenant).await == [cost; 2]).then_some(());
        until("the meters", meters).await;
    }
}

#[tokio::test]
async fn the_gateway_asks_for_the_end_and_sees_it_in_a_cancellation() {
    let (gateway, upstream, tenant) = start_with(MODEL).await;
    create(&gateway, &tenant).await;
    upstream.script([Script::json(&job("succeeded", &json!({ "trained_tokens": 1000 })))]);
    pass(&gateway, 10 * SECOND);
    assert_eq!(charged(&gateway, &tenant).await, (3000, 0));
    assert_eq!(upstream.last().path, JOB);
    let (gateway, upstream, tenant) = start_with(MODEL).await;
    create(&gateway, &tenant).await;
    upstream.script([Script::json(&job("cancelled", &json!({ "trained_tokens": 10 })))]);
    let cancelled = gateway.post(&tenant, &format!("{JOB}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 200);
    // The cancellation itself is a request that costs nothing.
    let of_job = async || (spent(&gateway, &tenant).await == [30; 2]).then_some(());
    until("the meters", of_job).await;
}

#[tokio::test]
async fn a_job_must_fit_under_a_hard_limit() {
    let (gateway, upstream, tenant) = start_with(MODEL).await;
    // A cent is 10,000 micro-dollars.
    gateway.hard_limit(&tenant, false, 1).await;
    let refused = gateway.post(&tenant, JOBS, &ask()).await;
    assert_eq!(refused.error().1, "organization_spend_limit_exceeded", "{}", refused.text());
    assert_eq!(upstream.count(), 0);
    gateway.hard_limit(&tenant, false, 2).await;
    create(&gateway, &tenant).await;
    let second = gateway.post(&tenant, JOBS, &ask()).await;
    assert_eq!(second.status, 429, "what the first holds is not there: {}", second.text());
}

#[tokio::test]
async fn without_a_price_a_job_is_refused_where_limits_apply() {
    let price = "[models.big]\nprice = { input = 1.0, output = 1.0 }\n";
    let tokens = "[models.big]\n[tiers.free.limits.big]\ntpm = 1000\n";
    let named = "[server]\npass_through = [\"/v1/fine_tuning/jobs\"]\n";
    let other = json!({ "model": "other", "suffix": "x" });
    for (config, body, status) in [
        (price, ask(), 400),
        (tokens, ask(), 400),
        (price, json!({}), 400),
        (price, other, 400),
        ("[models.big]\n", ask(), 200),
        ("[models.big]\nfree = true\n[tiers.free.limits.big]\ntpm = 1000\n", ask(), 200),
        (&format!("{named}{price}"), ask(), 200),
    ] {
        let (gateway, upstream, tenant) = start_with(config).await;
        let answer = gateway.post(&tenant, JOBS, &body).await;
        assert_eq!(answer.status, status, "{config} {body}: {}", answer.text());
        if status == 400 {
            let expected = (400, "price_missing".into(), "model".into());
            assert_eq!(answer.error(), expected, "{config} {body}");
            assert!(answer.message().contains("`training`"), "{}", answer.message());
            assert_eq!(upstream.count(), 0);
        }
        // Reading costs nothing.
        assert_eq!(gateway.get(&tenant, JOBS).await.status.as_u16() / 100, 5, "no list");
    }
}

#[tokio::test]
async fn a_job_that_fails_at_once_costs_nothing() {
    let (gateway, upstream, tenant) = start_with(MODEL).await;
    let error = json!({ "error": { "message": "no such file", "type": "invalid_request_error" } });
    upstream.script([Script::error(400, &error)]);
    assert_eq!(gateway.post(&tenant, JOBS, &ask()).await.status, 400);
    gateway.is_idle().await;
    assert_eq!(spent(&gateway, &tenant).await, [0; 2]);
}
