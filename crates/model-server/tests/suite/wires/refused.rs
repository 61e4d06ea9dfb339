//! Requests that a provider refuses, each with one mistake: the status, and a message that says what is wrong and where.

use serde_json::{Value, json};

use super::support::{Answer, Server};

pub(super) async fn server() -> Server {
    let steps = json!([{"message": "x"}]);
    Server::start(&json!({"on_exhausted": "repeat_last", "responses": [{"steps": steps}]})).await
}

/// The answer is a refusal whose message has this part.
pub(super) fn refused(answer: &Answer, part: &str, request: &Value) {
    assert_eq!(answer.status, 400, "{request}: {}", answer.text());
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(part), "{request}: `{message}` does not have `{part}`");
}

pub(super) fn said(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// As the official client sends it back.
fn tool_use(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {}, "caller": null, "toolset_name": null})
}

fn tool_result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "plum"})
}

#[tokio::test]
async fn messages_members() {
    let server = server().await;
    let text = |mark: Value| json!({"type": "text", "text": "x", "cache_control": mark});
    let (short, long) = (json!({"type": "ephemeral"}), json!({"type": "ephemeral", "ttl": "1h"}));
    let tool = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let open = json!({"name": "f", "strict": true, "input_schema": {"type": "object", "properties":
        {"a": {"type": "object"}}, "additionalProperties": false}});
    let thinking = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
    for (members, part) in [
        (json!({"max_tokens": null}), "max_tokens: Field required"),
        (json!({"model": null}), "model: Field required"),
        (json!({"messages": null}), "messages: Field required"),
        (json!({"max_tokens": "7"}), "max_tokens: Input should be a valid integer"),
        (json!({"frequency_penalty": 1}), "frequency_penalty: Extra inputs are not permitted"),
        (json!({"temperature": 1.5}), "temperature: Input should be from 0 to 1"),
        (json!({"system": [{"type": "image"}]}), "system.0.type: Input should be 'text'"),
        (
            json!({"metadata": {"user_id": "x".repeat(257)}}),
            "metadata.user_id: String should have at most 256",
        ),
        (json!({"stop_sequences": ["a", " "]}), "stop_sequences.1: each stop sequence"),
        (json!({"thinking": {"type": "enabled"}}), "thinking.budget_tokens: Field required"),
        (json!({"thinking": thinking(7)}), "greater than or equal to 1024"),
        (json!({"thinking": thinking(2000)}), "`max_tokens` must be greater than"),
        (
            json!({"thinking": {"type": "adaptive"}, "tools": [tool("f")], "tool_choice": {"type": "any"}}),
            "Thinking may not be enabled when tool_choice forces",
        ),
        (json!({"tools": [tool("a b")]}), "tools.0.name: String should match pattern"),
        (json!({"tools": [tool("f"), tool("f")]}), "tools.1.name: Tool names must be unique"),
        (json!({"tools": [{"name": "f"}]}), "tools.0.input_schema: Field required"),
        (
            json!({"tools": [{"name": "f", "input_schema": {}}]}),
            "tools.0.input_schema.type: Field required",
        ),
        (
            json!({"tools": [{"name": "f", "input_schema": {"type": "object"}, "parameters": {}}]}),
            "tools.0.parameters: Extra inputs",
        ),
        (json!({"tools": [open]}), "tools.0.input_schema.properties.a: For 'object' type"),
        (
            json!({"tool_choice": {"type": "any"}}),
            "tool_choice: may only be specified while providing tools",
        ),
        (
            json!({"tools": [tool("f")], "tool_choice": {"type": "tool", "name": "g"}}),
            "Tool 'g' not found",
        ),
        (
            json!({"system": [text(short.clone()), text(short.clone()), text(short.clone()), text(short.clone()),
            text(short.clone())]}),
            "system.4: A maximum of 4 blocks with cache_control",
        ),
        (
            json!({"system": [text(short.clone()), text(long)]}),
            "system.1.cache_control: a ttl='1h'",
        ),
        (json!({"system": [text(json!({"type": "persistent"}))]}), "system.0.cache_control.type"),
    ] {
        refused(&server.messages(members.clone()).await, part, &members);
    }
    let body = || json!({"model": "m", "max_tokens": 9, "messages": [said("x")]});
    let none = server.post("/v1/messages", &[], body()).await;
    refused(&none, "anthropic-version: header is required", &json!(null));
    let other = [("anthropic-version", "2024-01-01")];
    refused(
        &server.post("/v1/messages", &other, body()).await,
        "is not a valid version",
        &json!(null),
    );
    let new = [("anthropic-version", "2026-10-21")];
    let mut warm = body();
    warm["temperature"] = json!(0.5);
    refused(
        &server.post("/v1/messages", &new, warm).await,
        "temperature: Extra inputs",
        &json!(null),
    );
    server.post("/v1/messages", &new, body()).await.ok();
    refused(
        &server.get("/v1/models", &[("anthropic-version", "x")]).await,
        "not a valid version",
        &json!(null),
    );
}

#[tokio::test]
async fn messages_conversations() {
    let server = server().await;
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    let user = |content: Value| json!({"role": "user", "content": content});
    let image = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}});
    let thinking =
        |signature: &str| json!({"type": "thinking", "thinking": "Hm.", "signature": signature});
    for (messages, part) in [
        (json!([]), "messages: at least one message is required"),
        (
            json!([assistant(json!("x"))]),
            "messages.0.role: first message must use the \"user\" role",
        ),
        (
            json!([{"role": "tool", "content": "x"}]),
            "messages.0.role: Input should be 'user', 'assistant' or 'system'",
        ),
        (json!([said(""), said("x")]), "messages.0: all messages must have non-empty content"),
        (
            json!([user(json!([{"type": "text", "text": ""}]))]),
            "messages.0.content.0: text content blocks must be non-empty",
        ),
        (
            json!([user(json!([{"type": "text", "text": "x", "more": 1}]))]),
            "messages.0.content.0.more: Extra inputs",
        ),
        (json!([user(json!([{"type": "video"}]))]), "messages.0.content.0.type"),
        (
            json!([user(json!([image("%%")]))]),
            "messages.0.content.0.source.data: invalid base64 data",
        ),
        (
            json!([user(json!([tool_use("a")]))]),
            "messages.0.content.0: `tool_use` blocks can only be in `assistant`",
        ),
        (
            json!([said("x"), assistant(json!([tool_use("a b")])), said("y")]),
            "messages.1.content.0.id: String should match",
        ),
        (
            json!([said("x"), assistant(json!([tool_use("a")])), said("y")]),
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: a",
        ),
        (
            json!([said("x"), assistant(json!([tool_use("a")]))]),
            "without `tool_result` blocks immediately after: a",
        ),
        (
            json!([
                said("x"),
                assistant(json!([tool_use("a"), tool_use("b")])),
                user(json!([tool_result("a")]))
            ]),
            "immediately after: b",
        ),
        (
            json!([
                said("x"),
                assistant(json!([tool_use("a")])),
                user(json!([{"type": "text", "text": "first"}, tool_result("a")]))
            ]),
            "immediately after: a",
        ),
        (
            json!([
                said("x"),
                assistant(json!([tool_use("a")])),
                user(json!([tool_result("a"), tool_result("a")]))
            ]),
            "each tool_use must have a single result",
        ),
        (
            json!([
                said("x"),
                assistant(json!([tool_use("a"), tool_use("a")])),
                user(json!([tool_result("a")]))
            ]),
            "messages.1.content.1.id: `tool_use` ids must be unique",
        ),
        (
            json!([user(json!([tool_result("z")]))]),
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: z",
        ),
        (
            json!([said("x"), assistant(json!("Well"))]),
            "does not support assistant message prefill",
        ),
        (
            json!([
                said("x"),
                assistant(json!([thinking("c2ln"), {"type": "text", "text": "y"}])),
                said("z")
            ]),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        (
            json!([
                said("x"),
                assistant(
                    json!([{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "y"}])
                ),
                said("z")
            ]),
            "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
        ),
        (
            json!([
                said("x"),
                assistant(json!([{"type": "thinking", "thinking": "x"}])),
                said("z")
            ]),
            "messages.1.content.0.signature: Field required",
        ),
    ] {
        let members = json!({ "messages": messages });
        refused(&server.messages(members.clone()).await, part, &members);
    }
    // What is allowed: neighbours of one role, results before texts, the beginning of an older model's answer.
    for messages in [
        json!([said("x"), said("y")]),
        json!([
            said("x"),
            assistant(json!([tool_use("a")])),
            user(json!([tool_result("a"), {"type": "text", "text": "y"}]))
        ]),
        json!([
            said("x"),
            assistant(json!([tool_use("a"), tool_use("b")])),
            user(json!([tool_result("b")])),
            user(json!([tool_result("a")]))
        ]),
        json!([said("x"), {"role": "system", "content": "Be brief."}, assistant(json!("y")), said("z")]),
    ] {
        server.messages(json!({ "messages": messages })).await.ok();
    }
    let prefill =
        json!({"model": "claude-3-5-sonnet", "messages": [said("x"), assistant(json!("Well,"))]});
    server.messages(prefill).await.ok();
}

/// Thinking goes back unchanged: with its text, its signature and its model, before the call that it led to.
#[tokio::test]
async fn thinking_comes_back_unchanged() {
    let script = json!({"on_exhausted": "repeat_last", "responses": [{"steps": [{"reasoning": "Hm."},
        {"function_call": {"name": "f", "arguments": {}, "call_id": "call_1"}}]}]});
    let server = Server::start(&script).await;
    let asks = json!({"thinking": {"type": "adaptive"}});
    let given = server.messages(asks).await.ok()["content"].clone();
    let send = async |content: &Value, model: &str| {
        let messages = json!([said("x"), {"role": "assistant", "content": content},
            {"role": "user", "content": [tool_result("call_1")]}]);
        let members =
            json!({"model": model, "thinking": {"type": "adaptive"}, "messages": messages});
        (server.messages(members.clone()).await, members)
    };
    send(&given, "claude").await.0.ok();
    for (change, part) in [
        (
            json!({"thinking": "Hm!"}),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
        (
            json!({"signature": "AAAA"}),
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
    ] {
        let mut changed = given.clone();
        for (name, value) in change.as_object().unwrap() {
            changed[0][name] = value.clone();
        }
        let (answer, request) = send(&changed, "claude").await;
        refused(&answer, part, &request);
    }
    let (answer, request) = send(&given, "another").await;
    refused(&answer, "Invalid `signature`", &request);
    let (answer, request) = send(&json!([given[1]]), "claude").await;
    refused(&answer, "messages.1.content.0.type: Expected `thinking`", &request);
    let (answer, request) = send(&json!([given[1], given[0]]), "claude").await;
    refused(
        &answer,
        "messages.1.content.1: The final block in an assistant message cannot be",
        &request,
    );
    // Without thinking, and in turns that are over, it may be left out.
    let messages = json!([said("x"), {"role": "assistant", "content": [given[1]]},
        {"role": "user", "content": [tool_result("call_1"), {"type": "text", "text": "more"}]}]);
    server.messages(json!({ "messages": messages })).await.ok();
    server.messages(json!({"thinking": {"type": "adaptive"}, "messages": messages})).await.ok();
}
