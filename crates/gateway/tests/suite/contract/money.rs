//! Spend: reservation and settlement, the limit that refuses and its code, and agreement with the
//! ledger.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{Answer, Tenant, TestGateway, chat_with};
use crate::common::upstream::{Gate, Script, Step, chat, event, usage};

const CHAT: &str = "/v1/chat/completions";

/// Up to `output` tokens at 10 micro-dollars each, and one input token at 1.
fn ask(output: u64) -> Value {
    chat_with(json!({ "max_tokens": output }))
}

fn refused(answer: &Answer, code: &str) {
    assert_eq!(answer.error(), (429, code.into(), String::new()), "{}", answer.text());
    assert_eq!(answer.json()["error"]["type"], "insufficient_quota");
    assert!(answer.json()["error"]["resets_at"].as_i64().unwrap() % 86_400 == 0, "midnight UTC");
    assert_eq!(answer.header("x-should-retry"), "false");
    assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), ("", ""));
    assert_eq!(answer.limits("requests")[0], "1000");
}

/// A refusal because of other requests' reservations, which every client retries.
fn reserved(answer: &Answer, limit: &str, cost: &str) {
    assert_eq!(answer.error(), (429, "spend_reserved".into(), String::new()), "{}", answer.text());
    let error = &answer.json()["error"];
    assert_eq!((&error["type"], &error["resets_at"]), (&json!("tokens"), &Value::Null));
    let message = error["message"].as_str().unwrap();
    for part in [limit, cost, "requests in progress have reserved", "try again in 5s"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), ("5", "5000"));
    assert_eq!(answer.header("x-should-retry"), "");
}

async fn priced() -> (TestGateway, crate::common::upstream::Upstream, Tenant) {
    let tier = "[tiers.free.limits.big]\nrpm = 1000\n[tiers.free]\nmonthly_limit_usd = 1\n";
    let (gateway, upstream) = start(&format!("{BIG}{tier}")).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

#[tokio::test]
async fn each_spend_limit_has_its_code() {
    for (of_project, code) in
        [(false, "organization_spend_limit_exceeded"), (true, "project_spend_limit_exceeded")]
    {
        let (gateway, upstream, tenant) = priced().await;
        gateway.hard_limit(&tenant, of_project, 1).await;
        // A cent is 10,000 micro-dollars: 999 tokens of output and one of input fit, 1000 do not.
        refused(&gateway.post(&tenant, CHAT, &ask(1000)).await, code);
        assert_eq!(upstream.count(), 0);
        assert_eq!(gateway.post(&tenant, CHAT, &ask(999)).await.status, 200);
        gateway.is_idle().await;
        // 23 were actually spent.
        refused(&gateway.post(&tenant, CHAT, &ask(998)).await, code);
        assert_eq!(gateway.post(&tenant, CHAT, &ask(997)).await.status, 200);
        let other = gateway.project(&tenant.organization, Value::Null).await;
        let answer = gateway.post(&other, CHAT, &ask(999)).await;
        match of_project {
            true => assert_eq!(answer.status, 200),
            false => refused(&answer, code),
        }
    }
}

#[tokio::test]
async fn every_completion_is_reserved() {
    let (gateway, _upstream, tenant) = priced().await;
    gateway.hard_limit(&tenant, true, 1).await;
    let completions = |best_of: u64| json!({ "model": "big", "prompt": "x", "max_tokens": 100, "n": 1, "best_of": best_of });
    let code = "project_spend_limit_exceeded";
    refused(&gateway.post(&tenant, "/v1/completions", &completions(10)).await, code);
    assert_eq!(gateway.post(&tenant, "/v1/completions", &completions(9)).await.status, 200);
}

#[tokio::test]
async fn every_prompt_is_reserved() {
    let (gateway, _upstream, tenant) = priced().await;
    gateway.hard_limit(&tenant, true, 1).await;
    let completions =
        |prompt: Value| json!({ "model": "big", "prompt": prompt, "max_tokens": 200, "n": 2 });
    let code = "project_spend_limit_exceeded";
    for many in [json!(["x", "y", "z"]), json!([[1], [2], [3]])] {
        refused(&gateway.post(&tenant, "/v1/completions", &completions(many)).await, code);
    }
    for few in [json!(["x", "y"]), json!([1, 2, 3]), json!("x")] {
        let answer = gateway.post(&tenant, "/v1/completions", &completions(few)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        gateway.is_idle().await;
    }
}

/// An output limit that the servers of a wire ignore bounds nothing: what the model may write is reserved.
#[tokio::test]
async fn an_output_limit_that_a_server_ignores_bounds_nothing() {
    let most = format!("{BIG}max_output_tokens = 600\n");
    let (gateway, upstream) = start(&most).await;
    let tenant = gateway.tenant("free").await;
    gateway.hard_limit(&tenant, false, 1).await;
    for (path, ignored, followed) in [
        (CHAT, "max_output_tokens", "max_tokens"),
        ("/v1/responses", "max_tokens", "max_output_tokens"),
        ("/v1/completions", "max_completion_tokens", "max_tokens"),
    ] {
        let ask = |name: &str| {
            let mut body = json!({ "model": "big", "messages": [], "prompt": "x", "input": "x" });
            body[name] = json!(1);
            body
        };
        let gate = Gate::closed();
        let answer = Script::json(&chat(&usage(0, 1))).before(Step::Wait(gate.clone()));
        let before = upstream.count();
        upstream.script([answer]);
        let (first, second, third) = (ask(ignored), ask(ignored), ask(followed));
        let first = gateway.post(&tenant, path, &first);
        let meanwhile = async {
            upstream.has_received(before + 1).await;
            let refused = gateway.post(&tenant, path, &second).await;
            assert_eq!(refused.error().1, "spend_reserved", "{path}");
            assert_eq!(gateway.post(&tenant, path, &third).await.status, 200, "{path}");
            gate.open(1);
        };
        let (first, ()) = tokio::join!(first, meanwhile);
        assert_eq!(first.status, 200);
        gateway.is_idle().await;
    }
}

#[tokio::test]
async fn the_tier_spend_limit_has_its_code() {
    let (gateway, _upstream, tenant) = priced().await;
    refused(&gateway.post(&tenant, CHAT, &ask(100_000)).await, "organization_usage_limit_exceeded");
    assert_eq!(gateway.post(&tenant, CHAT, &ask(99_999)).await.status, 200);
    gateway.is_idle().await;
    // A hard limit above the tier's has no effect; a higher tier takes effect immediately.
    gateway.hard_limit(&tenant, false, 200).await;
    refused(&gateway.post(&tenant, CHAT, &ask(99_999)).await, "organization_usage_limit_exceeded");
    let path = format!("/v1/organizations/{}/payments", tenant.organization);
    gateway.admin(Method::POST, &path, json!({ "amount_cents": 500 })).await;
    assert_eq!(gateway.post(&tenant, CHAT, &ask(99_999)).await.status, 200);
}

#[tokio::test]
async fn requests_in_flight_are_reserved() {
    let (gateway, upstream, tenant) = priced().await;
    gateway.hard_limit(&tenant, false, 1).await;
    let gate = Gate::closed();
    upstream.script([Script::json(&chat(&usage(1, 100))).before(Step::Wait(gate.clone()))]);
    let (first, second) = (ask(600), ask(600));
    let first = gateway.post(&tenant, CHAT, &first);
    let meanwhile = async {
        upstream.has_received(1).await;
        reserved(
            &gateway.post(&tenant, CHAT, &second).await,
            "$0.01 of this organization",
            "$0.006001",
        );
        // What does not fit into the whole limit is no matter of reservations.
        let code = "organization_spend_limit_exceeded";
        refused(&gateway.post(&tenant, CHAT, &ask(1000)).await, code);
        // Refusals for money count nowhere.
        let shown = gateway.post(&tenant, CHAT, &ask(399)).await;
        assert_eq!(shown.status, 200);
        assert_eq!(shown.limits("requests")[1], "998");
        gate.open(1);
    };
    let (first, ()) = tokio::join!(first, meanwhile);
    assert_eq!(first.status, 200);
    gateway.is_idle().await;
    assert_eq!(gateway.post(&tenant, CHAT, &second).await.status, 200);
    assert_eq!(gateway.cost(&tenant.organization).await, 1001 + 23 + 23);
}

/// A stream whose usage comes with its first event, as of the server's own caches: from then on it holds only what it
/// may still cost.
#[tokio::test]
async fn a_stream_releases_money_when_its_input_is_known() {
    let mut cached = usage(2000, 1);
    cached["prompt_tokens_details"] = json!({ "cached_tokens": 2000 });
    for (first_usage, has_room) in
        [(cached.clone(), true), (usage(2000, 1), false), (json!(null), false)]
    {
        let (gateway, upstream, tenant) = priced().await;
        gateway.hard_limit(&tenant, false, 1).await;
        let gate = Gate::closed();
        let chunk = |usage: &Value, finish: Value| {
            let choice = json!({ "delta": { "content": "abcd" }, "finish_reason": finish });
            Step::Bytes(event(&json!({ "choices": [choice], "usage": usage })).into())
        };
        upstream.script([Script::stream(vec![
            chunk(&first_usage, Value::Null),
            Step::Wait(gate.clone()),
            chunk(&cached, json!("stop")),
            Step::Bytes("data: [DONE]\n\n".into()),
        ])]);
        // 2000 of input and 1000 of output; with cached input 200, 1000 and one for rounding.
        let content = "x".repeat(8000);
        let body = json!({
            "model": "big", "stream": true, "max_tokens": 100,
            "messages": [{ "role": "user", "content": content }],
        });
        let mut begun = gateway.stream(&tenant, &body).await;
        assert!(begun.next().await.unwrap().is_ok());
        let answer = gateway.post(&tenant, CHAT, &ask(879)).await;
        match has_room {
            true => assert_eq!(answer.status, 200, "{}", answer.text()),
            false => reserved(&answer, "$0.01", "$0.008791"),
        }
        // All of it is one unit more.
        reserved(&gateway.post(&tenant, CHAT, &ask(880)).await, "$0.01", "$0.008801");
        gate.open(1);
        let (_, ended) = begun.rest().await;
        assert!(ended);
        gateway.is_idle().await;
        let cost = 210 + if has_room { 23 } else { 0 };
        assert_eq!(gateway.cost(&tenant.organization).await, cost, "{first_usage}");
        assert_eq!(gateway.post(&tenant, CHAT, &ask(970)).await.status, 200);
    }
}

#[tokio::test]
async fn the_reservations_of_a_project_and_of_a_tier_are_named() {
    for (of_project, limit) in
        [(true, "$0.01 of this project"), (false, "$1.00 of this organization's tier")]
    {
        let (gateway, upstream, tenant) = priced().await;
        if of_project {
            gateway.hard_limit(&tenant, true, 1).await;
        }
        let gate = Gate::closed();
        upstream.script([Script::json(&chat(&usage(1, 100))).before(Step::Wait(gate.clone()))]);
        let body = ask(if of_project { 600 } else { 60_000 });
        let cost = if of_project { "$0.006001" } else { "$0.61" };
        let first = gateway.post(&tenant, CHAT, &body);
        let meanwhile = async {
            upstream.has_received(1).await;
            reserved(&gateway.post(&tenant, CHAT, &body).await, limit, cost);
            let scope = if of_project { "project" } else { "organization" };
            let metric = format!("gateway_rejected_total{{dimension=\"spend\",scope=\"{scope}\"}}");
            assert_eq!(gateway.metric(&metric).await, 1);
            gate.open(1);
        };
        let (first, ()) = tokio::join!(first, meanwhile);
        assert_eq!(first.status, 200);
        gateway.is_idle().await;
        assert_eq!(gateway.post(&tenant, CHAT, &body).await.status, 200);
    }
}

#[tokio::test]
async fn use_beyond_the_reservation_is_recorded_and_blocks_the_next_request() {
    let (gateway, upstream, tenant) = priced().await;
    gateway.hard_limit(&tenant, true, 1).await;
    upstream.script([Script::json(&chat(&usage(1, 5000)))]);
    assert_eq!(gateway.post(&tenant, CHAT, &ask(10)).await.status, 200);
    gateway.is_idle().await;
    refused(&gateway.post(&tenant, CHAT, &ask(1)).await, "project_spend_limit_exceeded");
    assert_eq!(gateway.cost(&tenant.organization).await, 50_001);
    let path = format!("/v1/organization/projects/{}/spend_limit", tenant.project);
    let shown = gateway.admin_of(&tenant.organization, Method::GET, &path, Value::Null).await;
    assert_eq!(shown["enforcement"]["status"], "enforcing");
}

#[tokio::test]
async fn spend_restarts_at_zero_each_month() {
    let (gateway, _upstream, tenant) = priced().await;
    gateway.hard_limit(&tenant, false, 1).await;
    assert_eq!(gateway.post(&tenant, CHAT, &ask(999)).await.status, 200);
    gateway.is_idle().await;
    assert_eq!(gateway.post(&tenant, CHAT, &ask(999)).await.status, 429);
    // 2026-12-01, midnight UTC.
    gateway.clock.set(1_796_083_200_000_000 - 1);
    assert_eq!(gateway.post(&tenant, CHAT, &ask(999)).await.status, 429);
    gateway.clock.advance(1);
    assert_eq!(gateway.post(&tenant, CHAT, &ask(999)).await.status, 200);
}

#[tokio::test]
async fn cached_input_is_cheaper() {
    let (gateway, upstream, tenant) = priced().await;
    let mut cached = usage(1000, 100);
    cached["prompt_tokens_details"] = json!({ "cached_tokens": 600 });
    upstream.script([Script::json(&chat(&cached))]);
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    // 400 at 1, 600 at 0.1, 100 at 10.
    assert_eq!(gateway.cost(&tenant.organization).await, 400 + 60 + 1000);
    assert_eq!(gateway.metric("gateway_spend_microdollars_total").await, 1460);
}

#[tokio::test]
async fn soft_limits_report_and_refuse_nothing() {
    let (gateway, _upstream, tenant) = priced().await;
    let body = json!({ "currency": "USD", "interval": "month", "threshold_amount": 0 });
    let path = "/v1/organization/spend_alerts";
    gateway.admin_of(&tenant.organization, Method::POST, path, body).await;
    for _ in 0..3 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
        gateway.is_idle().await;
    }
    while gateway.metric("gateway_spend_alerts_total").await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(gateway.metric("gateway_spend_alerts_total").await, 1);
    assert!(gateway.log().contains("spend alert"), "{}", gateway.log());
}

#[tokio::test]
async fn a_free_model_costs_nothing() {
    let (gateway, _upstream) = start("[models.big]\nfree = true\n").await;
    let tenant = gateway.tenant("free").await;
    gateway.hard_limit(&tenant, false, 0).await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    assert_eq!(gateway.cost(&tenant.organization).await, 0);
}
