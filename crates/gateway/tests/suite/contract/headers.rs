//! The headers of responses: which are present, on which kind of response, and their values.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{
    Answer, StreamingResponse, TestGateway, chat_request, chat_with, config,
};
use crate::common::upstream::{Script, Upstream, chat, usage};

const ALWAYS: [&str; 3] = ["x-request-id", "openai-organization", "openai-processing-ms"];

fn has_all(answer: &Answer, organization: &str) {
    for name in ALWAYS {
        assert!(!answer.header(name).is_empty(), "{name} in {:?}", answer.headers);
    }
    assert_eq!(answer.header("openai-organization"), organization);
    for of in ["requests", "tokens"] {
        assert!(answer.limits(of).iter().all(|value| !value.is_empty()), "{:?}", answer.headers);
    }
    assert_eq!(answer.limits("project-tokens"), ["", "", ""]);
}

#[tokio::test]
async fn every_kind_of_response_has_limit_headers() {
    let tier = format!("{BIG}[tiers.free.limits.big]\nrpm = 10\ntpm = 1000\n");
    let upstream = Upstream::start().await;
    let rest = tier + "[regions]\nprefixes = [\"eu\"]\n";
    let config = config(&upstream, &rest).replace("env_key", "timeout_ms = 100\nenv_key");
    let gateway = TestGateway::start(&config).await;
    let tenant = gateway.tenant("free").await;
    let html = Script::new(200, "text/html", "<html>").header("server", "inside");
    let error = json!({ "error": { "message": "no", "type": "server_error" } });
    upstream.script([
        Script::json(&chat(&usage(3, 2))),
        Script::error(500, &error),
        html,
        Script::error(400, &error),
        Script::error(429, &error),
        Script::json(&error).before(crate::common::upstream::Step::Hang),
    ]);
    let mut ids = std::collections::HashSet::new();
    for (status, left) in [(200, 9), (500, 8), (502, 7), (400, 6), (429, 5), (504, 4)] {
        let answer = gateway.chat(&tenant).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        has_all(&answer, &tenant.organization);
        assert_eq!(answer.header("x-ratelimit-remaining-requests"), left.to_string());
        assert!(ids.insert(answer.header("x-request-id").to_owned()));
    }
    // Refused before they are counted.
    for wrong in [
        chat_with(json!({ "max_tokens": -1 })),
        chat_with(json!({ "messages": [{ "role": "user", "content": [
            { "type": "file", "file": { "file_id": "file-nobody" } }] }] })),
    ] {
        let answer = gateway.post(&tenant, "/v1/chat/completions", &wrong).await;
        assert!(answer.status.is_client_error());
        has_all(&answer, &tenant.organization);
        assert_eq!(answer.header("x-ratelimit-remaining-requests"), "4");
    }
    let region = [("host", "eu.example.org"), ("content-type", "application/json")];
    let body = chat_request().to_string();
    let path = "/v1/chat/completions";
    let answer = gateway.with(&tenant, Method::POST, path, &region, body).await;
    assert_eq!(answer.error().1, "region_not_available");
    has_all(&answer, &tenant.organization);
    for left in [3, 2, 1, 0] {
        let answer = gateway.chat(&tenant).await;
        assert_eq!(answer.header("x-ratelimit-remaining-requests"), left.to_string());
    }
    let refused = gateway.chat(&tenant).await;
    assert_eq!(refused.error(), (429, "rate_limit_exceeded".into(), String::new()));
    has_all(&refused, &tenant.organization);
    // The model in a model request is also recognised.
    let model = gateway.get(&tenant, "/v1/models/big").await;
    assert_eq!(model.status, 200);
    has_all(&model, &tenant.organization);
}

#[tokio::test]
async fn responses_without_a_known_key_or_model_have_no_limit_headers() {
    let (gateway, _upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 3\n")).await;
    let tenant = gateway.tenant("free").await;
    let no_key = gateway.send(Method::GET, "/v1/models", &[], "").await;
    assert_eq!(no_key.status, 401);
    assert!(!no_key.header("x-request-id").is_empty());
    let unknown = chat_with(json!({ "model": "unknown" }));
    let unknown = gateway.post(&tenant, "/v1/chat/completions", &unknown).await;
    assert_eq!(unknown.error().1, "model_not_found");
    assert_eq!(unknown.header("openai-organization"), tenant.organization);
    for answer in [no_key, unknown] {
        assert_eq!(answer.limits("requests"), ["", "", ""]);
    }
    // None of them counted.
    assert_eq!(gateway.chat(&tenant).await.limits("requests"), ["3", "2", "20s"]);
}

#[tokio::test]
async fn limit_headers_state_the_remainder_after_the_reservation() {
    let (gateway, upstream) =
        start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 10\ntpm = 1000\n")).await;
    let tenant = gateway.tenant("free").await;
    let first = gateway.chat(&tenant).await;
    assert_eq!(first.limits("requests"), ["10", "9", "6s"]);
    assert_eq!(first.limits("tokens"), ["1000", "999", "60ms"]);
    gateway.is_idle().await;
    // The first one's actual usage, and the second one's estimate.
    upstream.script([Script::json(&chat(&usage(0, 0)))]);
    let body = chat_with(json!({ "max_tokens": 400 }));
    let second = gateway.post(&tenant, "/v1/chat/completions", &body).await;
    assert_eq!(second.limits("requests"), ["10", "8", "12s"]);
    assert_eq!(second.limits("tokens"), ["1000", "595", "24.3s"]);
    gateway.is_idle().await;
    gateway.clock.advance(60_000_000);
    let third = gateway.chat(&tenant).await;
    assert_eq!(third.limits("requests"), ["10", "9", "6s"]);
}

/// The response to `body`, where `tier` sets the limits of `big` and its group `family`.
async fn shown(tier: &str, body: Value) -> Answer {
    let models = "[models.big]\nshared_limit = \"family\"\nlong_context_tokens = 500\n";
    let (gateway, _upstream) = start(&format!("{models}{tier}")).await;
    let tenant = gateway.tenant("free").await;
    gateway.post(&tenant, "/v1/chat/completions", &body).await
}

#[tokio::test]
async fn limit_headers_show_the_scarcer_of_model_and_group() {
    let body = || chat_with(json!({ "max_tokens": 100 }));
    let check = async |tier: &str, requests: [&str; 3], tokens: [&str; 3]| {
        let answer = shown(tier, body()).await;
        assert_eq!(answer.limits("requests"), requests, "{tier}");
        assert_eq!(answer.limits("tokens"), tokens, "{tier}");
    };
    check(
        "[tiers.free.limits]\nbig = { rpm = 10, tpm = 1000 }\nfamily = { rpm = 5, tpm = 500 }\n",
        ["5", "4", "12s"],
        ["500", "400", "12s"],
    )
    .await;
    check(
        "[tiers.free.limits]\nbig = { rpm = 10, tpm = 300 }\nfamily = { rpm = 50, tpm = 500 }\n",
        ["10", "9", "6s"],
        ["300", "200", "20s"],
    )
    .await;
    // The daily limit only where there is no limit per minute.
    check(
        "[tiers.free.limits]\nbig = { rpd = 200, tpd = 1000 }\nfamily = { rpd = 100 }\n",
        ["100", "99", "14m24s"],
        ["1000", "900", "2h24m0s"],
    )
    .await;
    check(
        "[tiers.free.limits]\nbig = { rpd = 2, tpd = 200 }\nfamily = { rpm = 100, tpm = 1000 }\n",
        ["100", "99", "600ms"],
        ["1000", "900", "6s"],
    )
    .await;
    check("", ["", "", ""], ["", "", ""]).await;
}

#[tokio::test]
async fn a_long_context_shows_its_own_bucket() {
    let tier = "[tiers.free.limits]\nbig = { tpm = 1000, tpd = 100000, long_context_tpm = 6000 }\n";
    let of = |input: usize| json!([{ "content": "x".repeat(4 * input) }]);
    let long = shown(tier, chat_with(json!({ "messages": of(600) }))).await;
    assert_eq!(long.limits("tokens"), ["6000", "5400", "6s"]);
    let usual = shown(tier, chat_with(json!({ "messages": of(500) }))).await;
    assert_eq!(usual.limits("tokens"), ["1000", "500", "30s"]);
    // A long answer is no long context.
    let answer = chat_with(json!({ "messages": of(1), "max_tokens": 600 }));
    assert_eq!(shown(tier, answer).await.limits("tokens"), ["1000", "400", "36s"]);
}

#[tokio::test]
async fn project_headers_appear_with_a_project_token_limit() {
    let (gateway, _upstream) =
        start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 10\ntpm = 1000\n")).await;
    let tenant = gateway.tenant("free").await;
    let other = gateway.project(&tenant.organization, Value::Null).await;
    gateway.project_limits(&tenant, "big", json!({ "max_requests_per_1_minute": 5 })).await;
    assert_eq!(gateway.chat(&tenant).await.limits("project-tokens"), ["", "", ""]);
    gateway.project_limits(&tenant, "big", json!({ "max_tokens_per_1_minute": 600 })).await;
    gateway.is_idle().await;
    // Its tokens count from now on.
    let limited = gateway.chat(&tenant).await;
    assert_eq!(limited.limits("project-tokens"), ["600", "599", "100ms"]);
    assert_eq!(limited.limits("tokens")[0], "1000");
    gateway.is_idle().await;
    assert_eq!(gateway.chat(&other).await.limits("project-tokens"), ["", "", ""]);
    // Also on its refusals and errors.
    let wrong = chat_with(json!({ "max_tokens": 0 }));
    let wrong = gateway.post(&tenant, "/v1/chat/completions", &wrong).await;
    assert_eq!(wrong.limits("project-tokens"), ["600", "595", "500ms"]);
    let large = chat_with(json!({ "max_tokens": 601 }));
    let large = gateway.post(&tenant, "/v1/chat/completions", &large).await;
    assert_eq!(large.limits("project-tokens"), ["600", "595", "500ms"]);
}

#[tokio::test]
async fn project_headers_appear_with_a_project_request_limit() {
    let (gateway, _upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 10\n")).await;
    for (limits, shown) in [
        (Value::Null, ["", "", ""]),
        (json!({ "max_tokens_per_1_minute": 600 }), ["", "", ""]),
        (json!({ "max_requests_per_1_minute": 5 }), ["5", "4", "12s"]),
        (json!({ "max_requests_per_1_day": 100 }), ["100", "99", "14m24s"]),
        (
            json!({ "max_requests_per_1_minute": 6, "max_requests_per_1_day": 100 }),
            ["6", "5", "10s"],
        ),
    ] {
        let tenant = gateway.tenant("free").await;
        if !limits.is_null() {
            gateway.project_limits(&tenant, "big", limits.clone()).await;
        }
        let answer = gateway.chat(&tenant).await;
        assert_eq!(answer.limits("project-requests"), shown, "{limits}");
        assert_eq!(answer.limits("requests"), ["10", "9", "6s"], "{limits}");
    }
}

#[tokio::test]
async fn a_stream_has_limit_headers_before_its_first_event() {
    let (gateway, upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 10\n")).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::events(["data: {\"choices\":[]}\n\n", "data: [DONE]\n\n"])]);
    let begun: StreamingResponse =
        gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
    assert_eq!(begun.headers["x-ratelimit-remaining-requests"], "9");
    assert_eq!(begun.headers["content-type"], "text/event-stream");
}

#[tokio::test]
async fn requests_without_a_model_show_the_limits_of_the_pseudo_model() {
    let (gateway, _upstream) = start(&format!("{BIG}[tiers.free.limits.\"*\"]\nrpm = 10\n")).await;
    let tenant = gateway.tenant("free").await;
    let answer = gateway.get(&tenant, "/v1/evals/none").await;
    assert_eq!(answer.limits("requests"), ["10", "9", "6s"]);
    let gone = gateway.get(&tenant, "/v1/responses/resp_none").await;
    assert_eq!((gone.status.as_u16(), gone.limits("requests")), (404, ["10", "9", "6s"]));
}

#[tokio::test]
async fn pass_through_requests_draw_on_the_named_model() {
    let limits = "[tiers.free.limits.\"*\"]\nrpm = 10\n[tiers.free.limits.big]\nrpm = 5\n";
    let (gateway, _upstream) = start(&format!("{BIG}{limits}")).await;
    let tenant = gateway.tenant("free").await;
    let answer = gateway.post(&tenant, "/v1/evals", &json!({ "model": "big" })).await;
    assert_eq!(answer.limits("requests"), ["5", "4", "12s"]);
    let answer = gateway.post(&tenant, "/v1/evals", &json!({ "model": "none" })).await;
    assert_eq!(answer.limits("requests"), ["10", "9", "6s"]);
    let answer = gateway.post(&tenant, "/v1/engines/big/completions", &json!({})).await;
    assert_eq!(answer.error().1, "endpoint_retired");
}

#[tokio::test]
async fn only_allowed_upstream_headers_are_returned() {
    let (gateway, upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 10\n")).await;
    let tenant = gateway.tenant("free").await;
    let names = [
        "x-ratelimit-limit-requests",
        "x-ratelimit-reset-project-tokens",
        "set-cookie",
        "server",
        "via",
        "location",
        "x-request-id",
        "openai-organization",
        "openai-processing-ms",
        "x-internal",
        "alt-svc",
        "strict-transport-security",
        "retry-after",
        "x-should-retry",
    ];
    let with_all =
        |script: Script| names.iter().fold(script, |script, name| script.header(name, "leak"));
    upstream.script([
        with_all(Script::json(&chat(&usage(1, 1)))).header("openai-model", "m"),
        with_all(Script::error(500, &json!({ "error": { "message": "x" } }))),
    ]);
    for status in [200, 500] {
        let answer = gateway.chat(&tenant).await;
        assert_eq!(answer.status, status);
        let leaked = answer.headers.iter().filter(|(_, value)| value.as_bytes() == b"leak");
        assert_eq!(leaked.count(), 0, "{:?}", answer.headers);
        assert_eq!(answer.header("x-ratelimit-limit-requests"), "10");
    }
}
