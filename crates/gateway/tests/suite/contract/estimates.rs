//! The estimate of a request, before its usage is known.

use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::chat_with;

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_estimate_is_the_larger_of_the_maximum_and_the_characters() {
    let limit = 1_000_000;
    let tier = format!("{BIG}[tiers.free.limits.big]\ntpm = {limit}\n");
    let (gateway, _upstream) = start(&tier).await;
    let tenant = gateway.tenant("free").await;
    let check = async |path: &str, body: Value, expected: u64| {
        let answer = gateway.post(&tenant, path, &body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        let left: u64 = answer.limits("tokens")[1].parse().expect("a number");
        assert_eq!(limit - left, expected, "{path} {body}");
        gateway.is_idle().await;
        gateway.clock.advance(60_000_000);
    };
    let content = |content: Value| chat_with(json!({ "messages": [{ "content": content }] }));
    check(CHAT, content(json!("")), 1).await;
    check(CHAT, content(json!("abcd")), 1).await;
    check(CHAT, content(json!("abcde")), 2).await;
    check(CHAT, content(json!("日本語文字")), 2).await;
    check(CHAT, content(json!("😀😀😀😀😀")), 2).await;
    check(CHAT, content(json!("x".repeat(4001))), 1001).await;
    let image = json!({ "type": "image_url", "image_url": { "url": "data:".repeat(999) } });
    let audio = json!({ "type": "input_audio", "input_audio": { "data": "a".repeat(999) } });
    let text = json!({ "type": "text", "text": "abcdefgh" });
    check(CHAT, content(json!([image, audio, text])), 2).await;
    check(CHAT, chat_with(json!({ "max_tokens": 50 })), 50).await;
    check(CHAT, chat_with(json!({ "max_tokens": 50, "max_completion_tokens": 20 })), 20).await;
    let all = json!({ "max_tokens": 5, "max_completion_tokens": 20, "max_output_tokens": 30 });
    check(CHAT, chat_with(all), 30).await;
    check(CHAT, chat_with(json!({ "max_tokens": null })), 1).await;
    let long = json!([{ "content": "x".repeat(400) }]);
    check(CHAT, chat_with(json!({ "max_tokens": 50, "messages": long })), 100).await;
    let response = json!({ "model": "big", "instructions": "abcd", "input": "efghi" });
    check("/v1/responses", response, 3).await;
    let items =
        json!([{ "role": "user", "content": [{ "type": "input_text", "text": "abcdefgh" }] }]);
    check("/v1/responses", json!({ "model": "big", "input": items }), 2).await;
    let list = json!({ "model": "big", "input": ["abcd", "efgh", "ijkl"] });
    check("/v1/embeddings", list, 3).await;
    check("/v1/completions", json!({ "model": "big", "prompt": ["abcd", "efgh"] }), 2).await;
    // Capped: a default never exceeds the whole limit.
    check(CHAT, content(json!("x".repeat(5_000_000))), limit).await;
}

#[tokio::test]
async fn a_list_of_embeddings_is_one_request() {
    let tier = format!("{BIG}[tiers.free.limits.big]\nrpm = 10\n");
    let (gateway, _upstream) = start(&tier).await;
    let tenant = gateway.tenant("free").await;
    let list = json!({ "model": "big", "input": ["a", "b", "c", "d"] });
    let answer = gateway.post(&tenant, "/v1/embeddings", &list).await;
    assert_eq!(answer.limits("requests")[1], "9");
}

#[tokio::test]
async fn the_cap_is_the_smallest_limit_that_applies() {
    let tier = format!("{BIG}[tiers.free.limits.big]\ntpm = 1000\ntpd = 400\n");
    let (gateway, _upstream) = start(&tier).await;
    let tenant = gateway.tenant("free").await;
    gateway.project_limits(&tenant, "big", json!({ "max_tokens_per_1_minute": 300 })).await;
    let body = chat_with(json!({ "messages": [{ "content": "x".repeat(9000) }] }));
    let answer = gateway.post(&tenant, CHAT, &body).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.limits("tokens")[1], "700");
    assert_eq!(answer.limits("project-tokens")[1], "0");
}

#[tokio::test]
async fn out_of_range_maxima_are_refused_without_a_charge() {
    let tier = format!("{BIG}[tiers.free.limits.big]\nrpm = 10\ntpm = 1000\n");
    let (gateway, upstream) = start(&tier).await;
    let tenant = gateway.tenant("free").await;
    for param in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
        for value in
            ["0", "-1", "1.5", "1e3", "\"5\"", "true", "[]", "99999999999999999999", "1000000001"]
        {
            let body = format!("{{\"model\":\"big\",\"messages\":[],\"{param}\":{value}}}");
            let answer = gateway.post_text(&tenant, CHAT, body).await;
            assert_eq!(answer.error(), (400, "invalid_value".into(), param.into()), "{value}");
            assert_eq!(answer.limits("requests")[1], "10");
        }
    }
    assert_eq!(upstream.count(), 0);
}
