//! Conversations that go on with a backend of the caller's own wire, after another one has given reasoning that the
//! gateway has sealed: that alone is cut out, and the rest passes as it was sent.

use serde_json::{Value, json};
use wire::Wire;

use super::super::PRICE;
use super::super::dialects::{PROMPT, Reply, answer, document, path, request, send};
use crate::common::gateway::{Answer, Tenant, TestGateway};
use crate::common::upstream::{Script, Upstream};

/// The answer of a server of Messages or of Responses that thinks.
fn thinking(wire: Wire) -> Script {
    let mut whole = document(wire, Reply::Text);
    match wire {
        Wire::Messages => {
            let text = whole["content"][0].clone();
            whole["content"] = json!([
                { "type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl" }, text]);
        }
        _ => {
            let text = whole["output"][0].clone();
            whole["output"] = json!([
                { "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA" }, text]);
        }
    }
    Script::json(&whole)
}

/// Two models: `big` thinks in another wire than the caller's, `own` is of the caller's.
async fn start(first: &Upstream, second: &Upstream, caller: Wire) -> (TestGateway, Wire) {
    let thinker = if caller == Wire::Messages { Wire::Responses } else { Wire::Messages };
    let version = if caller == Wire::Gemini { "v1beta" } else { "v1" };
    let gateway = TestGateway::start(&format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"{}\"\nwire = \"{thinker}\"\n\
         env_key = \"UPSTREAM_KEY\"\n[upstreams.other]\nbase_url = \"http://{}/{version}\"\nwire = \"{caller}\"\n\
         env_key = \"UPSTREAM_KEY\"\n[models.big]\nupstream = \"main\"\nupstream_model = \"up\"\n{PRICE}\n\
         [models.own]\nupstream = \"other\"\nupstream_model = \"up\"\n{PRICE}\n",
        first.url(),
        second.address
    ))
    .await;
    (gateway, thinker)
}

/// The next request after an answer: all that a client has of it, and members that no translation carries.
fn continued(caller: Wire, answered: &Value) -> Value {
    let user = || json!({ "role": "user", "content": PROMPT });
    match caller {
        Wire::Responses => {
            let mut input = vec![user()];
            input.extend(answered["output"].as_array().unwrap().iter().cloned());
            // The provider reads no text of a user, whatever it looks like.
            input.push(json!({ "role": "user", "content": "gateway:1:mine" }));
            json!({ "model": "own", "input": input, "max_output_tokens": 50, "truncation": "auto", "max_tool_calls": 3,
                "tools": [{ "type": "mcp", "server_label": "s", "server_url": "https://h/mcp" }] })
        }
        Wire::Chat => {
            let message = &answered["choices"][0]["message"];
            json!({ "model": "own", "messages": [user(), message, user()], "max_tokens": 50, "n": 1, "logprobs": true,
                "logit_bias": { "5": 1 } })
        }
        Wire::Messages => {
            json!({ "model": "own", "max_tokens": 50, "top_k": 3, "messages": [user(),
            { "role": "assistant", "content": answered["content"] }, user()] })
        }
        Wire::Gemini => {
            let part = json!({ "role": "user", "parts": [{ "text": PROMPT }] });
            json!({ "contents": [part, answered["candidates"][0]["content"], part], "safetySettings": [],
                "generationConfig": { "maxOutputTokens": 50, "responseModalities": ["TEXT"] } })
        }
    }
}

/// What the provider gets of it.
fn cut(caller: Wire, body: &Value) -> Value {
    let mut cut = body.clone();
    match caller {
        Wire::Responses => {
            cut["input"].as_array_mut().unwrap().retain(|item| item["type"] != "reasoning");
        }
        Wire::Chat => {
            let message = cut["messages"][1].as_object_mut().unwrap();
            assert!(message.remove("reasoning_details").is_some(), "{body}");
            message.remove("reasoning_content");
        }
        Wire::Messages => {
            let content = cut["messages"][1]["content"].as_array_mut().unwrap();
            content.retain(|block| block["type"] != "thinking");
        }
        Wire::Gemini => {
            let parts = cut["contents"][1]["parts"].as_array_mut().unwrap();
            let before = parts.len();
            let is_kept = |part: &Value| part["text"] != "" || part["thoughtSignature"].is_null();
            parts.retain(is_kept);
            for part in parts.iter_mut() {
                part.as_object_mut().unwrap().remove("thoughtSignature");
            }
            assert!(before > 0);
        }
    }
    if caller != Wire::Gemini {
        cut["model"] = json!("up");
    }
    assert_ne!(cut, *body, "something is cut");
    cut
}

async fn begun(
    gateway: &TestGateway,
    first: &Upstream,
    tenant: &Tenant,
    wires: (Wire, Wire),
) -> Value {
    let (caller, thinker) = wires;
    first.script([thinking(thinker)]);
    let answered = send(gateway, tenant, caller, false, &request(caller, false)).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    continued(caller, &answered.json())
}

async fn post(
    gateway: &TestGateway,
    tenant: &Tenant,
    caller: Wire,
    path: &str,
    body: &Value,
) -> Answer {
    let key = if caller == Wire::Gemini { "x-goog-api-key" } else { "authorization" };
    let value = match caller {
        Wire::Gemini => tenant.key.clone(),
        _ => format!("Bearer {}", tenant.key),
    };
    let headers =
        [(key, &*value), ("content-type", "application/json"), ("anthropic-version", "2023-06-01")];
    gateway.send(hyper::Method::POST, path, &headers, body.to_string()).await
}

#[tokio::test]
async fn only_sealed_reasoning_is_cut_out_of_a_request_in_its_own_wire() {
    for caller in Wire::ALL {
        let (first, second) = (Upstream::start().await, Upstream::start().await);
        let (gateway, thinker) = start(&first, &second, caller).await;
        let tenant = gateway.tenant("free").await;
        let body = begun(&gateway, &first, &tenant, (caller, thinker)).await;
        let whole = answer(caller, Reply::Text, false);
        second.script([whole]);
        let path = path(caller, false).replace("models/big", "models/own");
        let answered = post(&gateway, &tenant, caller, &path, &body).await;
        assert_eq!(answered.status, 200, "{caller}: {}", answered.text());
        assert_eq!(answered.json(), document(caller, Reply::Text), "{caller}: it passes unchanged");
        let mut got = second.last().json();
        // The gateway adds it.
        got.as_object_mut().unwrap().remove("prompt_cache_retention");
        assert_eq!(got, cut(caller, &body), "{caller}");
        let named = answered.header("x-translation-warnings");
        assert!(named.contains("reasoning of another model is not sent"), "{caller}: {named}");
        if caller == Wire::Responses {
            // The provider keeps it, and the gateway knows whose it is.
            second.script([answer(caller, Reply::Text, false)]);
            let next = json!({ "model": "own", "input": "go", "previous_response_id": "resp_9" });
            let next = post(&gateway, &tenant, caller, &path, &next).await;
            assert_eq!(next.status, 200, "{}", next.text());
        }
    }
}

#[tokio::test]
async fn counts_and_compactions_send_no_sealed_reasoning() {
    for (caller, path, answer) in [
        (Wire::Responses, "/v1/responses/input_tokens", json!({ "input_tokens": 5 })),
        (Wire::Responses, "/v1/responses/compact", document(Wire::Responses, Reply::Text)),
        (Wire::Messages, "/v1/messages/count_tokens", json!({ "input_tokens": 5 })),
        (Wire::Gemini, "/v1beta/models/own:countTokens", json!({ "totalTokens": 5 })),
    ] {
        let (first, second) = (Upstream::start().await, Upstream::start().await);
        let (gateway, thinker) = start(&first, &second, caller).await;
        let tenant = gateway.tenant("free").await;
        let mut body = begun(&gateway, &first, &tenant, (caller, thinker)).await;
        if caller == Wire::Gemini {
            body = json!({ "contents": body["contents"] });
        }
        second.script([Script::json(&answer)]);
        let answered = post(&gateway, &tenant, caller, path, &body).await;
        assert_eq!(answered.status, 200, "{path}: {}", answered.text());
        assert_eq!(second.last().json(), cut(caller, &body), "{path}");
    }
}
