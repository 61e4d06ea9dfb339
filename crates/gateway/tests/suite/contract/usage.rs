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
        // The estimated input is charged, and the text.
        assert_eq!(used(&gateway, &tenant).await, 1 + 2, "{usage_object}");
        assert_eq!(gateway.cost(&tenant.organization).await, 1 + 20, "{usage_object}");
        let reported = gateway.metric("gateway_usage_invalid_total").await;
        assert_eq!(reported, u64::from(is_implausible), "{usage_object}");
    }
}

/// Numbers that are not believed are not learnt from either: the text of the next answer counts as before.
#[tokio::test]
async fn a_false_usage_changes_no_other_charge() {
    let text = "x".repeat(2000);
    let answer = |usage: &Value| {
        let mut answer = chat(usage);
        answer["choices"][0]["message"]["content"] = json!(text);
        Script::json(&answer)
    };
    for (completion, learnt) in [(0, false), (900_000_000, false), (250, true)] {
        let (gateway, upstream, tenant) = limited().await;
        upstream.script([answer(&usage(1, completion)), answer(&Value::Null)]);
        let body = chat_with(json!({ "max_tokens": 40 }));
        assert_eq!(gateway.post(&tenant, CHAT, &body).await.status, 200);
        gateway.is_idle().await;
        let first = gateway.cost(&tenant.organization).await;
        // No output is no answer to two thousand characters.
        let expected = if learnt { 250 } else { 500 };
        assert_eq!(first, 1 + 10 * expected, "{completion}");
        assert_eq!(gateway.metric("gateway_usage_invalid_total").await, u64::from(!learnt));
        assert_eq!(gateway.post(&tenant, CHAT, &body).await.status, 200);
        gateway.is_idle().await;
        let second = gateway.cost(&tenant.organization).await - first;
        assert_eq!(second, 1 + 10 * expected, "{completion}");
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
async fn an_aborted_stream_costs_its_usage_or_the_received_text() {
    for (steps, tokens) in [
        (
            vec![
                delta("x"),
                Step::Bytes(event(&json!({ "choices": [], "usage": usage(20, 7) })).into()),
                Step::Cut,
            ],
            27,
        ),
        // More text than the request allows.
        (vec![delta(&"x".repeat(4000)), Step::Cut], 1 + 1000),
        // A usage so far, and text after it.
        (
            vec![
                delta("x"),
                Step::Bytes(event(&json!({ "choices": [], "usage": usage(20, 7) })).into()),
                delta("12345678"),
                Step::Cut,
            ],
            27 + 2,
        ),
        (vec![Step::Bytes(": hello\n\n".into()), Step::Cut], 1),
        // It ends properly, but not with its last event.
        (vec![delta("12345678")], 3),
    ] {
        let (gateway, upstream, tenant) = limited().await;
        upstream.script([Script::stream(steps)]);
        let body = chat_with(json!({ "stream": true, "max_tokens": 50 }));
        let (text, ended) = gateway.stream(&tenant, &body).await.rest().await;
        assert!(ended && text.contains("\"error\""), "{text}");
        assert_eq!(used(&gateway, &tenant).await, tokens);
    }
}

#[tokio::test]
async fn the_received_part_is_counted_whatever_the_request_reserved() {
    const RESPONSES: &str = "/v1/responses";
    let text = "x".repeat(4000);
    let chat = |delta: Value| json!({ "choices": [{ "index": 0, "delta": delta }] });
    let second = |delta: Value| json!({ "choices": [{ "index": 1, "delta": delta }] });
    let event_of = |kind: &str| json!({ "type": kind, "delta": text });
    let item = json!({ "type": "function_call", "name": "f", "arguments": text });
    let item = json!({ "type": "response.output_item.done", "item": item });
    let call = json!({ "tool_calls": [{ "index": 0, "function": { "arguments": text } }] });
    for (name, path, extra, events, output) in [
        ("text", CHAT, json!({}), vec![chat(json!({ "content": text }))], 1000),
        (
            "a maximum",
            CHAT,
            json!({ "max_tokens": 600 }),
            vec![chat(json!({ "content": text }))],
            1000,
        ),
        ("a call", CHAT, json!({}), vec![chat(call.clone())], 1000),
        (
            "an old call",
            CHAT,
            json!({}),
            vec![chat(json!({ "function_call": { "arguments": text } }))],
            1000,
        ),
        ("reasoning", CHAT, json!({}), vec![chat(json!({ "reasoning_content": text }))], 1000),
        ("reasoning", CHAT, json!({}), vec![chat(json!({ "reasoning": text }))], 1000),
        (
            "two choices",
            CHAT,
            json!({ "n": 2, "max_tokens": 600 }),
            vec![chat(json!({ "content": text })), second(json!({ "content": text }))],
            2000,
        ),
        ("text", RESPONSES, json!({}), vec![event_of("response.output_text.delta")], 1000),
        (
            "a call",
            RESPONSES,
            json!({}),
            vec![event_of("response.function_call_arguments.delta")],
            1000,
        ),
        ("reasoning", RESPONSES, json!({}), vec![event_of("response.reasoning_text.delta")], 1000),
        (
            "summary",
            RESPONSES,
            json!({}),
            vec![event_of("response.reasoning_summary_text.delta")],
            1000,
        ),
        ("an item without deltas", RESPONSES, json!({}), vec![item.clone()], 1000),
        (
            "an item after its deltas",
            RESPONSES,
            json!({}),
            vec![event_of("response.function_call_arguments.delta"), item],
            1000,
        ),
    ] {
        // The client leaves, the upstream dies, and the stream ends without a usage.
        for last in [Some(Step::Hang), Some(Step::Cut), None] {
            let (gateway, upstream, tenant) = limited().await;
            let leaves = matches!(last, Some(Step::Hang));
            let steps = events.iter().map(|value| Step::Bytes(event(value).into()));
            upstream.script([Script::stream(steps.chain(last).collect())]);
            let mut body = json!({ "model": "big", "stream": true });
            match path {
                CHAT => body["messages"] = json!([{ "content": "12345678" }]),
                _ => body["input"] = json!("12345678"),
            }
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            let mut begun = gateway.stream_from(&tenant, path, &body).await;
            if leaves {
                let mut received = String::new();
                while received.matches("\n\n").count() < events.len() {
                    received += &String::from_utf8_lossy(&begun.next().await.unwrap().unwrap());
                }
                drop(begun);
            } else {
                begun.rest().await;
            }
            assert_eq!(used(&gateway, &tenant).await, 2 + output, "{name} {path}");
            let counted = gateway.usage(&tenant.organization, "completions").await;
            assert_eq!(counted, [1, 2, output], "{name} {path}");
            assert_eq!(gateway.cost(&tenant.organization).await, 2 + output * 10, "{name} {path}");
        }
    }
}

#[tokio::test]
async fn a_complete_answer_without_usage_costs_at_least_its_text() {
    let text = "x".repeat(4000);
    let whole = json!({ "id": "c", "choices": [{ "index": 0, "message": { "content": text } }] });
    let done = Step::Bytes("data: [DONE]\n\n".into());
    let streamed = Script::stream(vec![delta(&text), done]);
    for (script, stream) in [(Script::json(&whole), false), (streamed, true)] {
        let (gateway, upstream, tenant) = limited().await;
        upstream.script([script]);
        gateway.post(&tenant, CHAT, &chat_with(json!({ "stream": stream }))).await;
        assert_eq!(used(&gateway, &tenant).await, 1 + 1000);
        assert_eq!(gateway.usage(&tenant.organization, "completions").await, [1, 1, 1000]);
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
    assert!(text.contains("1234") && text.contains("sent nothing for too long"), "{text}");
    assert!(ended, "the error ends it");
    assert_eq!(used(&gateway, &tenant).await, 2);
}

#[tokio::test]
async fn a_stream_far_beyond_its_maximum_is_cut_off() {
    let (gateway, upstream, tenant) = limited().await;
    // 1,024 tokens each.
    let piece = "x".repeat(4096);
    upstream.script([Script::stream((0..400).map(|_| delta(&piece)).collect())]);
    let body = chat_with(json!({ "stream": true, "max_tokens": 50 }));
    let (text, ended) = gateway.stream(&tenant, &body).await.rest().await;
    assert!(ended && text.len() < 400 * 1024, "{}", text.len());
    assert!(text.contains("far more than the request's maximum"), "its last event says so");
    gateway.is_idle().await;
    assert!(used(&gateway, &tenant).await < 100_000);
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
