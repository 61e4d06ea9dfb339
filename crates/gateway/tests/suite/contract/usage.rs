//! The reported usage of a response, and the charge when it is false, when the response is cut off,
//! or when the client disconnects.

use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{Tenant, TestGateway, chat_with};
use crate::common::upstream::{Gate, Script, Step, Upstream, chat, event, usage};

const CHAT: &str = "/v1/chat/completions";
const LIMIT: u64 = 1_000_000;

async fn limited() -> (TestGateway, Upstream, Tenant) {
    let (gateway, upstream) =
        start(&format!("{BIG}[tiers.free.limits.big]\ntpm = {LIMIT}\n")).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

/// Tokens used, from the headers of a request for one token.
async fn used(gateway: &TestGateway, tenant: &Tenant) -> u64 {
    gateway.is_idle().await;
    let answer = gateway.post(tenant, CHAT, &chat_with(json!({ "max_tokens": 0 }))).await;
    LIMIT - answer.limits("tokens")[1].parse::<u64>().expect("a number")
}

#[tokio::test]
async fn implausible_upstream_usage_is_ignored() {
    let usage_objects = [
        (json!({ "prompt_tokens": -5, "completion_tokens": 1 }), true),
        (json!({ "prompt_tokens": 1, "completion_tokens": 1e9 as u64 }), true),
        (json!({ "prompt_tokens": "7", "completion_tokens": 1 }), true),
        (json!({ "prompt_tokens": 1.5, "completion_tokens": 1 }), true),
        (
            json!({ "prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": { "cached_tokens": 9 } }),
            true,
        ),
        (json!({ "prompt_tokens": [1] }), true),
        (json!({ "prompt_tokens": 1e300 }), true),
        (json!({ "prompt_tokens": 18446744073709551615_u64, "completion_tokens": 1 }), true),
        (json!({}), false),
        (Value::Null, false),
        (json!("many"), true),
        (json!([1]), true),
    ];
    for (usage_object, is_implausible) in usage_objects {
        let (gateway, upstream, tenant) = limited().await;
        upstream.script([Script::json(&chat(&usage_object))]);
        let answer = gateway.post(&tenant, CHAT, &chat_with(json!({ "max_tokens": 40 }))).await;
        assert_eq!(answer.status, 200);
        assert_eq!(used(&gateway, &tenant).await, 40, "{usage_object}");
        // The estimate is charged, also as spend.
        assert_eq!(gateway.cost(&tenant.organization).await, 401, "{usage_object}");
        let reported = gateway.metric("gateway_usage_invalid_total").await;
        assert_eq!(reported, u64::from(is_implausible), "{usage_object}");
    }
}

#[tokio::test]
async fn both_spellings_of_usage_are_read() {
    let (gateway, upstream, tenant) = limited().await;
    let reported = json!({ "input_tokens": 30, "output_tokens": 12, "total_tokens": 42 });
    upstream.script([Script::json(&json!({ "id": "resp_1", "usage": reported }))]);
    gateway.post(&tenant, "/v1/responses", &json!({ "model": "big", "input": "x" })).await;
    assert_eq!(used(&gateway, &tenant).await, 42);
    let events = [
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_2\",\"usage\":null}}\n\n".to_owned(),
        format!("event: response.completed\ndata: {}\n\n", json!({ "type": "response.completed", "response": { "id": "resp_2", "usage": reported } })),
    ];
    upstream.script([Script::events(events)]);
    let body = json!({ "model": "big", "input": "x", "stream": true });
    assert_eq!(gateway.post(&tenant, "/v1/responses", &body).await.status, 200);
    assert_eq!(used(&gateway, &tenant).await, 84);
    // Its new object is known by its id immediately.
    assert_eq!(gateway.get(&tenant, "/v1/responses/resp_2").await.status, 200);
    upstream.script([Script::json(
        &json!({ "data": [], "usage": { "prompt_tokens": 9, "total_tokens": 9 } }),
    )]);
    gateway.post(&tenant, "/v1/embeddings", &json!({ "model": "big", "input": "x" })).await;
    assert_eq!(used(&gateway, &tenant).await, 93);
    assert_eq!(gateway.usage(&tenant.organization, "embeddings").await, [1, 9, 0]);
}

fn delta(text: &str) -> Step {
    Step::Bytes(event(&json!({ "choices": [{ "delta": { "content": text } }] })).into())
}

#[tokio::test]
async fn a_disconnected_client_is_settled_once() {
    let (gateway, upstream, tenant) = limited().await;
    upstream.script([Script::stream(vec![delta("12345678"), delta("1234"), Step::Hang])]);
    let body = chat_with(json!({ "stream": true, "max_tokens": 500 }));
    let mut begun = gateway.stream(&tenant, &body).await;
    let mut text = String::new();
    while text.matches("content").count() < 2 {
        text += &String::from_utf8_lossy(&begun.next().await.unwrap().unwrap());
    }
    drop(begun);
    // One input token, and twelve forwarded characters.
    assert_eq!(used(&gateway, &tenant).await, 1 + 3);
    assert_eq!(gateway.cost(&tenant.organization).await, 1 + 30);
    assert_eq!(gateway.usage(&tenant.organization, "completions").await, [1, 1, 3]);
}

#[tokio::test]
async fn an_aborted_stream_costs_its_usage_or_at_most_the_reservation() {
    for (steps, tokens) in [
        (
            vec![
                delta("x"),
                Step::Bytes(event(&json!({ "choices": [], "usage": usage(20, 7) })).into()),
                Step::Cut,
            ],
            27,
        ),
        (vec![delta(&"x".repeat(4000)), Step::Cut], 50),
        (vec![Step::Bytes(": hello\n\n".into()), Step::Cut], 1),
        // It ends properly, but not with its last event.
        (vec![delta("12345678")], 3),
    ] {
        let (gateway, upstream, tenant) = limited().await;
        let is_cut = matches!(steps.last(), Some(Step::Cut));
        upstream.script([Script::stream(steps)]);
        let body = chat_with(json!({ "stream": true, "max_tokens": 50 }));
        let (_, ended) = gateway.stream(&tenant, &body).await.rest().await;
        assert_eq!(ended, !is_cut);
        assert_eq!(used(&gateway, &tenant).await, tokens);
    }
}

#[tokio::test]
async fn a_client_that_disconnects_before_the_response_pays_for_its_input() {
    let (gateway, upstream, tenant) = limited().await;
    upstream.script([Script::json(&chat(&usage(1, 1))).before(Step::Hang)]);
    let body = chat_with(json!({ "max_tokens": 500, "messages": [{ "content": "x".repeat(40) }] }));
    tokio::select! {
        _ = gateway.post(&tenant, CHAT, &body) => unreachable!("it hangs"),
        () = upstream.has_received(1) => {}
    }
    assert_eq!(used(&gateway, &tenant).await, 10);
}

#[tokio::test]
async fn a_silent_upstream_stream_times_out() {
    let upstream = Upstream::start().await;
    let text = crate::common::gateway::config(
        &upstream,
        &format!("idle_timeout_ms = 100\n{BIG}[tiers.free.limits.big]\ntpm = {LIMIT}\n"),
    );
    let gateway = TestGateway::start(&text).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::stream(vec![delta("1234"), Step::Hang])]);
    let body = chat_with(json!({ "stream": true, "max_tokens": 50 }));
    let (text, ended) = gateway.stream(&tenant, &body).await.rest().await;
    assert!(text.contains("1234") && !ended);
    assert_eq!(used(&gateway, &tenant).await, 2);
}

#[tokio::test]
async fn events_are_forwarded_as_they_arrive() {
    let (gateway, upstream, tenant) = limited().await;
    let gate = Gate::closed();
    let done = Step::Bytes("data: [DONE]\n\n".into());
    upstream.script([Script::stream(vec![
        delta("one"),
        Step::Wait(gate.clone()),
        delta("two"),
        done,
    ])]);
    let mut begun = gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
    // The first piece arrives while the upstream is still waiting.
    let first = begun.next().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("one"));
    gate.open(1);
    let (rest, ended) = begun.rest().await;
    assert!(rest.contains("two") && rest.ends_with("data: [DONE]\n\n") && ended);
    assert_eq!(gateway.usage(&tenant.organization, "completions").await[0], 1);
}
