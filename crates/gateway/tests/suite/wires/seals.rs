//! Reasoning that a backend needs again: what a caller holds of it is sealed for its project, counts as input, and
//! reaches the model only as the gateway gave it.

mod own_wire;

use std::sync::Arc;

use serde_json::{Value, json};
use wire::Wire;

use super::dialects::{PROMPT, request, send};
use super::{PRICE, start, start_with};
use crate::common::gateway::{Answer, Tenant, TestGateway};
use crate::common::upstream::{Script, Upstream};

const SIGNATURE: &str = "c2lnbmF0dXJl";

/// An answer of a Messages server that thinks.
fn thinking() -> Script {
    Script::json(&json!({
        "id": "msg_9", "type": "message", "role": "assistant", "model": "up",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": SIGNATURE },
            { "type": "text", "text": "Hello there." },
        ],
        "stop_reason": "end_turn", "stop_sequence": null,
        "usage": { "input_tokens": 20, "output_tokens": 10 },
    }))
}

/// A request of Responses with the items of an answer before it.
fn continued(items: &Value) -> Value {
    let user = json!({ "role": "user", "content": PROMPT });
    let mut input = vec![user.clone()];
    input.extend(items.as_array().unwrap().iter().cloned());
    input.push(user);
    json!({ "model": "big", "input": input, "max_output_tokens": 50 })
}

async fn ask(gateway: &TestGateway, tenant: &Tenant, items: &Value) -> Answer {
    send(gateway, tenant, Wire::Responses, false, &continued(items)).await
}

/// The first answer's items.
async fn begun(gateway: &TestGateway, upstream: &Upstream, tenant: &Tenant) -> Value {
    upstream.script([thinking()]);
    let body = request(Wire::Responses, false);
    let answered = send(gateway, tenant, Wire::Responses, false, &body).await;
    let items = answered.json()["output"].clone();
    let text = items[0]["encrypted_content"].as_str().unwrap();
    assert!(text.starts_with("gateway:1:"), "{items}");
    items
}

/// Returns whether the upstream got its block back, as it was.
fn has_thinking(upstream: &Upstream) -> bool {
    let messages = upstream.last().json()["messages"].clone();
    let content = messages[1]["content"].as_array().unwrap().clone();
    let thought = content.iter().find(|block| block["type"] == "thinking");
    assert!(thought.is_none_or(|block| block["signature"] == SIGNATURE), "{messages}");
    thought.is_some()
}

const LEFT_OUT: &str =
    "input[]: reasoning that was changed, or given to another project, is not sent";

#[tokio::test]
async fn reasoning_comes_back_as_it_was_or_not_at_all() {
    let upstream = Upstream::answering(|_| thinking()).await;
    let gateway = start(&upstream, Wire::Messages, "").await;
    let tenant = gateway.tenant("free").await;
    let items = begun(&gateway, &upstream, &tenant).await;
    let answered = ask(&gateway, &tenant, &items).await;
    assert_eq!((answered.status.as_u16(), answered.header("x-translation-warnings")), (200, ""));
    assert!(has_thinking(&upstream));

    let sealed = items[0]["encrypted_content"].as_str().unwrap();
    let (_, envelope) = sealed.rsplit_once("wire:1:").unwrap();
    let forged = [
        format!("wire:1:{envelope}"),
        format!("gateway:1::wire:1:{envelope}"),
        format!("{sealed}A"),
        sealed.replacen("gateway:1:", "gateway:2:", 1),
    ];
    for text in forged {
        let mut changed = items.clone();
        changed[0]["encrypted_content"] = json!(text);
        let answered = ask(&gateway, &tenant, &changed).await;
        assert_eq!(answered.status, 200, "{}", answered.text());
        assert_eq!(answered.header("x-translation-warnings"), LEFT_OUT, "{text}");
        assert!(!has_thinking(&upstream), "{text}");
    }
    // Another project did not get it.
    let other = gateway.tenant("free").await;
    let answered = ask(&gateway, &other, &items).await;
    assert_eq!(answered.header("x-translation-warnings"), LEFT_OUT);
    assert!(!has_thinking(&upstream));
}

#[tokio::test]
async fn callers_of_every_wire_send_it_back() {
    for caller in [Wire::Chat, Wire::Gemini] {
        let upstream = Upstream::answering(|_| thinking()).await;
        let gateway = start(&upstream, Wire::Messages, "").await;
        let tenant = gateway.tenant("free").await;
        let mut body = request(caller, false);
        let answered = send(&gateway, &tenant, caller, false, &body).await.json();
        match caller {
            Wire::Chat => {
                let message = answered["choices"][0]["message"].clone();
                let data = message["reasoning_details"][0]["data"].as_str().unwrap();
                assert!(data.starts_with("gateway:1:"), "{message}");
                let messages = body["messages"].as_array_mut().unwrap();
                messages.push(message);
                messages.push(messages[0].clone());
            }
            _ => {
                let content = answered["candidates"][0]["content"].clone();
                assert!(content.to_string().contains("thoughtSignature"), "{content}");
                let contents = body["contents"].as_array_mut().unwrap();
                contents.push(content);
                contents.push(contents[0].clone());
            }
        }
        let again = send(&gateway, &tenant, caller, false, &body).await;
        assert_eq!(again.status, 200, "{caller}: {}", again.text());
        assert!(has_thinking(&upstream), "{caller}: {}", upstream.last().json());
    }
}

/// A restart keeps the key, as all nodes of a store have it.
#[tokio::test]
async fn nodes_of_a_store_share_the_seal() {
    let upstream = Upstream::answering(|_| thinking()).await;
    let config = format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"{}\"\nwire = \"messages\"\n\
         env_key = \"UPSTREAM_KEY\"\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n",
        upstream.url()
    );
    let mut gateway = TestGateway::start(&config).await;
    let tenant = gateway.tenant("free").await;
    let items = begun(&gateway, &upstream, &tenant).await;
    gateway.end().await;
    let folder = Arc::clone(&gateway.folder);
    // It holds the files of its limits.
    drop(gateway);
    let again = TestGateway::start_in(folder, &config, 99).await;
    ask(&again, &tenant, &items).await;
    assert!(has_thinking(&upstream));
}

/// A request with text in it that no model's maker could read.
fn with_blob(caller: Wire, blob: &str) -> Value {
    let user = || json!({ "role": "user", "content": PROMPT });
    let part = |role: &str, part: Value| json!({ "role": role, "parts": [part] });
    match caller {
        Wire::Responses => json!({ "model": "big", "max_output_tokens": 50, "input": [
            { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": blob }, user()] }),
        Wire::Chat => json!({ "model": "big", "max_tokens": 50, "messages": [user(),
            { "role": "assistant", "content": "a", "reasoning_details": [
                { "type": "reasoning.encrypted", "data": blob }] },
            user()] }),
        Wire::Messages => json!({ "model": "big", "max_tokens": 50, "messages": [user(),
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "", "signature": blob },
                { "type": "text", "text": "a" }] },
            user()] }),
        Wire::Gemini => json!({ "generationConfig": { "maxOutputTokens": 50 }, "contents": [
            part("user", json!({ "text": PROMPT })),
            part("model", json!({ "text": "a", "thoughtSignature": blob })),
            part("user", json!({ "text": PROMPT })),
        ] }),
    }
}

/// On every route and to every backend, the size of what is opaque counts against the limits of tokens.
#[tokio::test]
async fn opaque_reasoning_counts_as_input() {
    for (caller, backend) in super::pairs() {
        let upstream = Upstream::start().await;
        let limits = "[tiers.free.limits.big]\nrpm = 10\ntpm = 12000\n";
        let gateway = start(&upstream, backend, limits).await;
        let tenant = gateway.tenant("free").await;
        let context = format!("{caller} to {backend}");
        upstream.script([super::answer(backend, super::Reply::Text, false)]);
        let body = with_blob(caller, &"x".repeat(40_000));
        let served = send(&gateway, &tenant, caller, false, &body).await;
        assert_eq!(served.status, 200, "{context}: {}", served.text());
        let left: u64 = served.limits("tokens")[1].parse().unwrap();
        assert!((1_980..2_000).contains(&left), "{context}: {left}");
        let body = with_blob(caller, &"x".repeat(80_000));
        let refused = send(&gateway, &tenant, caller, false, &body).await;
        assert_eq!(refused.status, 429, "{context}: {}", refused.text());
        assert_eq!(upstream.count(), 1, "{context}");
    }
}

/// A conversation that goes on with a backend of the caller's own wire, which could not read what another one gave.
#[tokio::test]
async fn a_backend_of_another_wire_does_not_get_it() {
    let (first, second) = (Upstream::answering(|_| thinking()).await, Upstream::start().await);
    let gateway = TestGateway::start(&format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"{}\"\nwire = \"messages\"\n\
         env_key = \"UPSTREAM_KEY\"\n[upstreams.other]\nbase_url = \"{}\"\nwire = \"responses\"\n\
         env_key = \"UPSTREAM_KEY\"\n[models.big]\nupstream = \"main\"\nupstream_model = \"up\"\n{PRICE}\n\
         [models.other]\nupstream = \"other\"\nupstream_model = \"up\"\n{PRICE}\n",
        first.url(),
        second.url()
    ))
    .await;
    let tenant = gateway.tenant("free").await;
    let items = begun(&gateway, &first, &tenant).await;
    let mut body = continued(&items);
    body["model"] = json!("other");
    for stream in [false, true] {
        second.script([super::answer(Wire::Responses, super::Reply::Text, stream)]);
        body["stream"] = json!(stream);
        let answered = send(&gateway, &tenant, Wire::Responses, stream, &body).await;
        assert_eq!(answered.status, 200, "{}", answered.text());
        let seen = super::read(Wire::Responses, &answered, stream);
        assert_eq!(seen, super::Read::reply(super::Reply::Text), "{}", answered.text());
        let named = answered.header("x-translation-warnings");
        assert!(named.contains("reasoning of another model is not sent"), "{named}");
        let sent = second.last().json().to_string();
        assert!(!sent.contains("gateway:") && sent.contains("Hello there."), "{sent}");
    }
}

/// A model of a list of backends may get both its own text and what other backends gave.
#[tokio::test]
async fn text_of_a_provider_passes_to_it_unsealed() {
    let upstream = Upstream::start().await;
    let gateway = start_with(&upstream, "", Wire::Responses, "").await;
    let tenant = gateway.tenant("free").await;
    upstream.script([super::answer(Wire::Responses, super::Reply::Text, false)]);
    let item =
        json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA" });
    let answered = ask(&gateway, &tenant, &json!([item])).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    assert_eq!(upstream.last().json()["input"][1], item);
}
