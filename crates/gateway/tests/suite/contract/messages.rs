//! `POST /v1/messages`: what a request reserves, what its answer costs, and the form of its errors
//! and headers.

use hyper::Method;
use serde_json::{Value, json};

use super::start;
use super::upstreams::gzip;
use crate::common::gateway::{Answer, Tenant, TestGateway, UPSTREAM_KEY, config};
use crate::common::upstream::{Script, Step, Upstream, chat, usage};

const MESSAGES: &str = "/v1/messages?beta=true";
/// In micro-dollars: input 1, cached 0.1, written 1.25 or 2, output 10, a search 10,000.
const BIG: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n\
    price = { input = 1.0, cached_input = 0.1, cache_write = 1.25, cache_write_1h = 2.0, \
    output = 10.0, web_search = 0.01 }\n";
const LIMIT: u64 = 1_000_000;

/// A request without output, with more members.
fn ask(more: Value) -> Value {
    let mut body = json!({ "model": "big", "max_tokens": 0, "messages": [] });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn user(content: Value) -> Value {
    ask(json!({ "messages": [{ "role": "user", "content": content }] }))
}

#[tokio::test]
async fn all_text_of_a_request_is_estimated() {
    let limits = format!("{BIG}[tiers.free.limits.big]\ntpm = {LIMIT}\n");
    let (gateway, _upstream) = start(&limits).await;
    let tenant = gateway.tenant("free").await;
    let base64 = json!({ "type": "base64", "media_type": "image/png", "data": "A".repeat(4000) });
    let text = json!({ "data": "x".repeat(40), "media_type": "text/plain", "type": "text" });
    let block = |block: Value| user(json!([block]));
    for (body, tokens) in [
        (ask(json!({})), 1),
        (ask(json!({ "max_tokens": 50 })), 50),
        // Servers of Messages do not know the other names.
        (ask(json!({ "max_tokens": 50, "max_output_tokens": 1 })), 50),
        (user(json!("x".repeat(40))), 10),
        (user(json!("\u{65e5}\u{672c}\u{8a9e}\u{6587}\u{5b57}")), 2),
        (ask(json!({ "system": "x".repeat(40) })), 10),
        (ask(json!({ "system": [{ "type": "text", "text": "x".repeat(40) }] })), 10),
        (block(json!({ "type": "text", "text": "x".repeat(40) })), 10),
        (
            block(
                json!({ "type": "thinking", "thinking": "x".repeat(40), "signature": "s".repeat(400) }),
            ),
            110,
        ),
        (
            block(
                json!({ "type": "tool_use", "id": "toolu_1", "name": "ab", "input": { "path": "x".repeat(34) } }),
            ),
            10,
        ),
        (
            block(
                json!({ "type": "tool_use", "id": "toolu_1", "name": "ab", "input": { "metadata": { "file_id": "x".repeat(23) } } }),
            ),
            10,
        ),
        (
            block(
                json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": "x".repeat(40) }),
            ),
            10,
        ),
        (
            block(
                json!({ "type": "tool_result", "content": [{ "type": "text", "text": "x".repeat(40) }] }),
            ),
            10,
        ),
        (block(json!({ "type": "image", "source": base64 })), 1),
        (block(json!({ "type": "document", "source": text, "title": "abcd" })), 11),
        (
            block(
                json!({ "type": "document", "source": { "type": "content", "content": "x".repeat(40) } }),
            ),
            10,
        ),
        (
            ask(
                json!({ "tools": [{ "name": "ab", "description": "cd", "input_schema": { "properties": "x".repeat(26) } }] }),
            ),
            10,
        ),
        (ask(json!({ "output_config": { "format": "x".repeat(34) } })), 10),
        (ask(json!({ "metadata": { "user_id": "x".repeat(400) }, "stop_sequences": ["x"] })), 1),
    ] {
        let answer = gateway.post(&tenant, MESSAGES, &body).await;
        assert_eq!(answer.status, 200, "{body}: {}", answer.text());
        let left: u64 = answer.limits("tokens")[1].parse().unwrap();
        assert_eq!(LIMIT - left, tokens, "{body}");
        gateway.is_idle().await;
        gateway.clock.advance(60_000_000);
    }
}

#[tokio::test]
async fn the_dearest_price_that_can_apply_is_reserved() {
    let mark = |ttl: &str| json!({ "type": "ephemeral", "ttl": ttl });
    let text =
        |mark: Value| json!([{ "type": "text", "text": "x".repeat(4000), "cache_control": mark }]);
    let search = |more: Value| {
        let mut tool = json!({ "type": "web_search_20260318", "name": "web_search" });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    // A thousand tokens of input, and what remains of three cents for output.
    for (body, output) in [
        (ask(json!({ "system": "x".repeat(4000) })), 2900),
        (ask(json!({ "system": text(Value::Null) })), 2900),
        (ask(json!({ "system": text(json!({ "type": "ephemeral" })) })), 2875),
        (ask(json!({ "system": text(mark("5m")) })), 2875),
        (ask(json!({ "system": text(mark("1h")) })), 2800),
        (ask(json!({ "system": "x".repeat(4000), "cache_control": mark("1h") })), 2800),
        (user(json!([{ "type": "tool_result", "content": text(mark("1h")) }])), 2800),
        (
            ask(json!({ "tools": [{ "name": "x".repeat(4000), "cache_control": mark("1h") }] })),
            2800,
        ),
        // Arguments of a tool mark nothing.
        (user(json!([{ "input": { "cache_control": { "ttl": "x".repeat(4000 - 16) } } }])), 2900),
        // Twenty characters are its name twice.
        (ask(json!({ "tools": [search(json!({ "max_uses": 2 }))] })), 999),
        (
            ask(
                json!({ "tools": [search(json!({ "max_uses": 1 })), search(json!({ "max_uses": 1 }))] }),
            ),
            999,
        ),
        (ask(json!({ "tools": [{ "name": "web_search", "max_uses": 2 }] })), 2999),
    ] {
        for (more, status) in [(1, 429), (0, 200)] {
            let (gateway, _upstream) = start(BIG).await;
            let tenant = gateway.tenant("free").await;
            gateway.hard_limit(&tenant, true, 3).await;
            let mut body = body.clone();
            body["max_tokens"] = json!(output + more);
            let answer = gateway.post(&tenant, MESSAGES, &body).await;
            let code = &answer.json()["error"]["details"]["error_code"];
            assert_eq!(
                answer.status,
                status,
                "{more} {code} {}",
                &body.to_string()[..200.min(body.to_string().len())]
            );
            let expected =
                if more == 1 { json!("project_spend_limit_exceeded") } else { Value::Null };
            assert_eq!(code, &expected);
        }
    }
}

#[tokio::test]
async fn searches_without_a_maximum_are_refused_under_a_hard_limit() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    for uses in [Value::Null, json!(-1), json!("3"), json!(1.5)] {
        let tool = json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": uses });
        let body = ask(json!({ "tools": [tool] }));
        assert_eq!(gateway.post(&tenant, MESSAGES, &body).await.status, 200);
        let limited = gateway.tenant("free").await;
        gateway.hard_limit(&limited, true, 1000).await;
        let before = upstream.count();
        let answer = gateway.post(&limited, MESSAGES, &body).await;
        refused(&answer, 400, "invalid_request_error", "invalid_value");
        assert_eq!(upstream.count(), before, "{uses}");
    }
}

fn event_text(value: &Value) -> String {
    let kind = value["type"].as_str().unwrap();
    format!("event: {kind}\ndata: {value}\n\n")
}

fn event(value: &Value) -> Step {
    Step::Bytes(event_text(value).into())
}

/// The beginning of a stream: 100 tokens, 1,000 read from a cache and 50 written to it; 385 in all.
fn begun() -> Value {
    json!({ "type": "message_start", "message": { "id": "msg_1", "content": [], "usage": {
        "input_tokens": 100, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 50,
        "cache_creation": { "ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30 },
        "output_tokens": 1,
    } } })
}

fn delta(text: &str) -> Value {
    let delta = json!({ "type": "text_delta", "text": text });
    json!({ "type": "content_block_delta", "index": 0, "delta": delta })
}

fn ended() -> Value {
    let delta = json!({ "stop_reason": "end_turn" });
    json!({ "type": "message_delta", "delta": delta, "usage": {
        "output_tokens": 10, "server_tool_use": { "web_search_requests": 2 },
    } })
}

#[tokio::test]
async fn an_answer_costs_what_its_events_report() {
    let error =
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
    let stop = json!({ "type": "message_stop" });
    let mut whole = begun()["message"].clone();
    whole["usage"]["output_tokens"] = json!(10);
    whole["usage"]["server_tool_use"] = json!({ "web_search_requests": 2 });
    let input = 100 + 100 + 25 + 60;
    let text = || event(&delta("12345678"));
    let all = [begun(), delta("12345678"), ended(), stop.clone()];
    let packed = gzip(&all.iter().map(event_text).collect::<String>());
    let packed = Script::new(200, "text/event-stream", packed).header("content-encoding", "gzip");
    for (name, script, output, searches, how) in [
        ("whole", Script::json(&whole), 10, 2, "complete"),
        (
            "streamed",
            Script::stream(vec![event(&begun()), text(), event(&ended()), event(&stop)]),
            10,
            2,
            "complete",
        ),
        ("compressed", packed, 10, 2, "complete"),
        ("cut off", Script::stream(vec![event(&begun()), text(), Step::Cut]), 3, 0, "cut"),
        ("no end", Script::stream(vec![event(&begun()), text()]), 3, 0, "cut"),
        ("an error", Script::stream(vec![event(&begun()), text(), event(&error)]), 3, 0, "error"),
        ("an early error", Script::stream(vec![event(&begun()), event(&error)]), 1, 0, "error"),
    ] {
        let (gateway, upstream) = start(BIG).await;
        let tenant = gateway.tenant("free").await;
        upstream.script([script]);
        let body = ask(json!({ "max_tokens": 100, "stream": name != "whole" }));
        let mut answer = gateway.stream_from(&tenant, MESSAGES, &body).await;
        assert_eq!(answer.status, 200, "{name}");
        answer.rest().await;
        gateway.is_idle().await;
        let expected = input + 10 * output + 10_000 * searches;
        assert_eq!(gateway.cost(&tenant.organization).await, expected, "{name} {how}");
        let usage = gateway.usage(&tenant.organization, "completions").await;
        assert_eq!(usage, [1, 1150, output], "{name}");
    }
    // An error before all else costs nothing.
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::stream(vec![event(&error)])]);
    gateway.stream_from(&tenant, MESSAGES, &ask(json!({ "stream": true }))).await.rest().await;
    gateway.is_idle().await;
    assert_eq!(gateway.cost(&tenant.organization).await, 0);
}

#[tokio::test]
async fn a_client_that_leaves_pays_for_what_was_sent() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::stream(vec![event(&begun()), event(&delta("12345678")), Step::Hang])]);
    let mut answer = gateway.stream_from(&tenant, MESSAGES, &ask(json!({ "stream": true }))).await;
    let mut text = String::new();
    while !text.contains("12345678") {
        text += &String::from_utf8_lossy(&answer.next().await.unwrap().unwrap());
    }
    drop(answer);
    gateway.is_idle().await;
    assert_eq!(gateway.cost(&tenant.organization).await, 285 + 30);
}

#[tokio::test]
async fn counting_tokens_is_a_request_and_nothing_else() {
    let limits = format!("{BIG}[tiers.free.limits.big]\nrpm = 5\ntpm = 100\n");
    let (gateway, upstream) = start(&limits).await;
    let tenant = gateway.tenant("free").await;
    gateway.hard_limit(&tenant, true, 1).await;
    // More than all money is used up.
    upstream.script([Script::json(&chat(&usage(1, 2000)))]);
    assert_eq!(gateway.post(&tenant, MESSAGES, &ask(json!({}))).await.status, 200);
    gateway.is_idle().await;
    assert_eq!(gateway.post(&tenant, MESSAGES, &ask(json!({}))).await.status, 429);
    let spent = gateway.cost(&tenant.organization).await;
    // Nor does it wait for tokens, of which it takes none.
    upstream.script([Script::json(&json!({ "input_tokens": 1 }))]);
    let short = json!({ "model": "big", "messages": [] });
    let answer = gateway.post(&tenant, "/v1/messages/count_tokens", &short).await;
    assert_eq!((answer.status.as_u16(), answer.limits("tokens")[1]), (200, "0"));
    gateway.clock.advance(30 * 60_000_000);
    upstream.script([Script::json(&json!({ "input_tokens": 2095 }))]);
    let body =
        json!({ "model": "big", "messages": [{ "role": "user", "content": "x".repeat(4000) }] });
    let answer = gateway.post(&tenant, "/v1/messages/count_tokens", &body).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "input_tokens": 2095 })));
    assert_eq!(answer.limits("requests")[1], "4");
    assert_eq!(answer.limits("tokens")[..2], ["100", "100"]);
    gateway.is_idle().await;
    assert_eq!(gateway.cost(&tenant.organization).await, spent);
    assert_eq!(gateway.usage(&tenant.organization, "completions").await, [1, 1, 2000]);
    assert_eq!(upstream.last().json()["model"], "big-2026-08-01");
}

#[tokio::test]
async fn batches_of_messages_are_closed_unless_they_are_opened() {
    let open = format!("{BIG}[server]\npass_through = [\"/v1/messages/batches/*\"]\n");
    for (config, status) in [(BIG, 404), (&*open, 200)] {
        let (gateway, upstream) = start(config).await;
        let tenant = gateway.tenant("free").await;
        upstream.script([Script::json(&json!({ "id": "msgbatch_1" }))]);
        let body = json!({ "requests": [] });
        let made = gateway.post(&tenant, "/v1/messages/batches", &body).await;
        assert_eq!(made.status.as_u16(), status, "{}", made.text());
        if status == 404 {
            refused(&made, 404, "not_found_error", "path_not_open");
            let results = gateway.get(&tenant, "/v1/messages/batches/b/results").await;
            refused(&results, 404, "not_found_error", "path_not_open");
            continue;
        }
        let path = "/v1/messages/batches/msgbatch_1/results";
        assert_eq!(gateway.get(&tenant, path).await.status, 200);
        let other = gateway.tenant("free").await;
        refused(&gateway.get(&other, path).await, 404, "not_found_error", "not_found");
    }
}

/// Checks an error and the id of its request.
#[track_caller]
fn refused(answer: &Answer, status: u16, kind: &str, code: &str) {
    let body = answer.json();
    let error = &body["error"];
    assert_eq!((answer.status.as_u16(), &error["type"]), (status, &json!(kind)), "{body}");
    assert_eq!((&body["type"], &error["details"]["error_code"]), (&json!("error"), &json!(code)));
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
    assert_eq!(body["request_id"], answer.header("request-id"));
    assert_eq!(answer.header("request-id"), answer.header("x-request-id"));
}

#[tokio::test]
async fn errors_have_the_form_of_messages() {
    let limits = format!("{BIG}[tiers.free.limits.big]\nrpm = 7\ntpm = 500\n");
    let (gateway, upstream) = start(&limits).await;
    let tenant = gateway.tenant("free").await;
    let invalid = "invalid_request_error";
    for (text, status, kind, code) in [
        ("{", 400, invalid, "invalid_json"),
        ("[]", 400, invalid, "invalid_json"),
        ("{}", 400, invalid, "missing_required_parameter"),
        (r#"{"max_tokens":1}"#, 400, invalid, "missing_required_parameter"),
        (r#"{"model":"big","messages":[]}"#, 400, invalid, "missing_required_parameter"),
        (r#"{"model":"big","max_tokens":1}"#, 400, invalid, "missing_required_parameter"),
        (
            r#"{"model":"big","max_tokens":1,"messages":null}"#,
            400,
            invalid,
            "missing_required_parameter",
        ),
        (r#"{"model":"big","max_tokens":null}"#, 400, invalid, "missing_required_parameter"),
        (r#"{"model":"big","max_tokens":-1}"#, 400, invalid, "invalid_value"),
        (r#"{"model":"big","max_tokens":1e3}"#, 400, invalid, "invalid_value"),
        (r#"{"model":"big","max_tokens":"1"}"#, 400, invalid, "invalid_value"),
        (r#"{"model":"big","max_tokens":1,"max_tokens":2}"#, 400, invalid, "invalid_json"),
        (r#"{"model":["big","dear"],"max_tokens":1}"#, 400, invalid, "invalid_type"),
        (
            r#"{"model":"none","max_tokens":1,"messages":[]}"#,
            404,
            "not_found_error",
            "model_not_found",
        ),
        (
            r#"{"model":"big","max_tokens":501,"messages":[]}"#,
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
    ] {
        refused(&gateway.post_text(&tenant, MESSAGES, text).await, status, kind, code);
    }
    assert_eq!(upstream.count(), 0);
    let path = "/v1/messages/count_tokens";
    let answer = gateway.post(&tenant, path, &json!({})).await;
    refused(&answer, 400, invalid, "missing_required_parameter");
    let answer = gateway.send(Method::POST, MESSAGES, &[], "{}").await;
    refused(&answer, 401, "authentication_error", "invalid_api_key");
    let answer = gateway.with(&tenant, Method::PUT, MESSAGES, &[], "{}").await;
    refused(&answer, 405, invalid, "method_not_allowed");

    // An upstream's errors: in this form, and in another one.
    let overloaded = json!({ "type": "overloaded_error", "message": "Overloaded" });
    let own = json!({ "type": "error", "error": overloaded, "request_id": "req_of_the_upstream" });
    upstream.script([Script::error(529, &own).header("retry-after", "7")]);
    let answer = gateway.post(&tenant, MESSAGES, &ask(json!({}))).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (529, "7"));
    assert_eq!(answer.json()["error"], overloaded);
    assert_eq!(answer.json()["request_id"], answer.header("request-id"));
    let other = json!({ "error": { "message": "no", "type": "server_error", "code": "broken" } });
    upstream.script([Script::error(500, &other)]);
    refused(&gateway.post(&tenant, MESSAGES, &ask(json!({}))).await, 500, "api_error", "broken");
    upstream.script([Script::error(401, &own)]);
    let answer = gateway.post(&tenant, MESSAGES, &ask(json!({}))).await;
    refused(&answer, 502, "api_error", "upstream_error");
    // Other routes keep their own form.
    assert!(gateway.post_text(&tenant, "/v1/responses", "{").await.json().get("type").is_none());
}

#[tokio::test]
async fn limits_are_shown_as_clients_of_messages_read_them() {
    let limits = format!("{BIG}[tiers.free.limits.big]\nrpm = 2\ntpm = 600\n");
    let (gateway, _upstream) = start(&limits).await;
    let tenant = gateway.tenant("free").await;
    let shown = |answer: &Answer, of: &str| {
        ["limit", "remaining", "reset"]
            .map(|what| answer.header(&format!("anthropic-ratelimit-{of}-{what}")).to_owned())
    };
    let answer = gateway.post(&tenant, MESSAGES, &ask(json!({ "max_tokens": 15 }))).await;
    assert_eq!(shown(&answer, "requests"), ["2", "1", "2026-11-10T00:00:30Z"]);
    assert_eq!(shown(&answer, "tokens"), ["600", "585", "2026-11-10T00:00:02Z"]);
    for name in answer.headers.keys().map(hyper::header::HeaderName::as_str) {
        assert!(!name.starts_with("x-ratelimit-") && !name.starts_with("openai-"), "{name}");
        assert!(!name.contains("-input-tokens-") && !name.contains("-output-tokens-"), "{name}");
    }
    gateway.is_idle().await;
    gateway.post(&tenant, MESSAGES, &ask(json!({}))).await;
    let answer = gateway.post(&tenant, MESSAGES, &ask(json!({}))).await;
    refused(&answer, 429, "rate_limit_error", "rate_limit_exceeded");
    assert_eq!(shown(&answer, "requests")[..2], ["2", "0"]);
    assert!(!answer.header("retry-after").is_empty());
    // Only on these routes.
    assert_eq!(shown(&gateway.chat(&tenant).await, "requests"), ["", "", ""]);
}

async fn with_key_header(line: &str) -> (TestGateway, Upstream, Tenant) {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, &format!("{line}{BIG}"))).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

#[tokio::test]
async fn an_upstream_gets_its_own_key_where_it_reads_it() {
    let bearer = format!("Bearer {UPSTREAM_KEY}");
    for (line, name, value) in [
        ("", "authorization", &*bearer),
        ("key_header = \"authorization\"\n", "authorization", &*bearer),
        ("key_header = \"x-api-key\"\n", "x-api-key", UPSTREAM_KEY),
        ("key_header = \"api-key\"\n", "api-key", UPSTREAM_KEY),
    ] {
        let (gateway, upstream, tenant) = with_key_header(line).await;
        let headers = [
            ("x-api-key", &*tenant.key),
            ("anthropic-version", "2026-10-21"),
            ("anthropic-beta", "context-1m-2025-08-07,interleaved-thinking-2025-05-14"),
        ];
        let body = ask(json!({})).to_string();
        let answer = gateway.send(Method::POST, MESSAGES, &headers, body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let received = upstream.last();
        assert_eq!(received.path, MESSAGES);
        for key in ["authorization", "x-api-key", "api-key"] {
            let expected = (key == name).then_some(value);
            let sent = received.headers.get(key).map(|value| value.to_str().unwrap());
            assert_eq!(sent, expected, "{line} {key}");
        }
        for (name, value) in &headers[1..] {
            assert_eq!(received.headers[*name], value);
        }
    }
}

#[tokio::test]
async fn a_kept_conversation_belongs_to_its_project() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::json(&json!({ "id": "msg_1", "type": "message" }))]);
    let create = ask(json!({ "thread": { "type": "create" } }));
    assert_eq!(gateway.post(&tenant, MESSAGES, &create).await.status, 200);
    let go_on =
        |id: &str| ask(json!({ "thread": { "type": "continue", "previous_message_id": id } }));
    assert_eq!(gateway.post(&tenant, MESSAGES, &go_on("msg_1")).await.status, 200);
    let other = gateway.tenant("free").await;
    for (tenant, id) in [(&other, "msg_1"), (&tenant, "msg_2")] {
        let answer = gateway.post(tenant, MESSAGES, &go_on(id)).await;
        refused(&answer, 404, "not_found_error", "not_found");
    }
}
