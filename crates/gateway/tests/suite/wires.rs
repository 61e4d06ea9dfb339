//! Each route in front of a backend of each wire: answers, calls, streams, early ends, refusals and errors come in the
//! caller's wire, and cost what the backend reports, whichever route is taken.

mod bad_answers;
#[cfg(all(feature = "bedrock", feature = "vertex"))]
mod clouds;
mod dialects;
mod kept;
mod lists;
mod same_wire;
mod seals;
mod spend;

use hyper::Method;
use serde_json::{Value, json};
use wire::Wire;

use crate::common::batching;
use crate::common::gateway::{Tenant, TestGateway, UPSTREAM_KEY};
use crate::common::upstream::{Script, Upstream};
use dialects::{Read, Reply, TOKENS, answer, broken, path, read, request, send, server_path};

/// In micro-dollars: input 1, output 10.
const PRICE: &str = "price = { input = 1.0, output = 10.0 }";

/// A gateway in front of a backend that speaks one wire.
async fn start(upstream: &Upstream, backend: Wire, rest: &str) -> TestGateway {
    start_with(upstream, &format!("wire = \"{backend}\""), backend, rest).await
}

async fn start_with(upstream: &Upstream, wire: &str, backend: Wire, rest: &str) -> TestGateway {
    let version = if backend == Wire::Gemini { "v1beta" } else { "v1" };
    TestGateway::start(&format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"http://{}/{version}\"\n{wire}\n\
         env_key = \"UPSTREAM_KEY\"\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n{rest}",
        upstream.address
    ))
    .await
}

/// All pairs of a route and a backend.
fn pairs() -> impl Iterator<Item = (Wire, Wire)> {
    Wire::ALL.into_iter().flat_map(|caller| Wire::ALL.map(|backend| (caller, backend)))
}

async fn cost(gateway: &TestGateway, tenant: &Tenant) -> u64 {
    gateway.is_idle().await;
    gateway.cost(&tenant.organization).await
}

#[tokio::test]
async fn every_route_is_served_by_every_wire() {
    for (caller, backend) in pairs() {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, backend, "").await;
        let tenant = gateway.tenant("free").await;
        let mut spent = 0;
        for (stream, reply) in
            [(false, Reply::Text), (false, Reply::Call), (true, Reply::Text), (true, Reply::Call)]
        {
            let context = format!("{caller} to {backend}, {reply:?}, stream: {stream}");
            upstream.script([answer(backend, reply, stream)]);
            let body = request(caller, stream);
            let answered = send(&gateway, &tenant, caller, stream, &body).await;
            assert_eq!(answered.status, 200, "{context}: {}", answered.text());
            let seen = read(caller, &answered, stream);
            assert_eq!(seen, Read::reply(reply), "{context}: {}", answered.text());
            spent += TOKENS.0 + 10 * TOKENS.1;
            assert_eq!(cost(&gateway, &tenant).await, spent, "{context}");
            let received = upstream.last();
            assert_eq!(received.path, server_path(backend, stream), "{context}");
            check_key(backend, &received.headers, &tenant, &context);
            let got = received.json();
            if backend != Wire::Gemini {
                assert_eq!(got["model"], "up", "{context}");
                assert_eq!(got["stream"].as_bool().unwrap_or(false), stream, "{context}");
            }
            if caller == backend && backend == Wire::Gemini {
                assert_eq!(got, body, "{context}: the same wire passes");
            }
        }
        let expected = [4, TOKENS.0 * 4, TOKENS.1 * 4];
        assert_eq!(gateway.usage(&tenant.organization, "completions").await, expected);
    }
}

/// The backend's key is in the header of its wire, and the caller's in none.
fn check_key(backend: Wire, headers: &hyper::HeaderMap, tenant: &Tenant, context: &str) {
    let (name, value) = match backend {
        Wire::Responses | Wire::Chat => ("authorization", format!("Bearer {UPSTREAM_KEY}")),
        Wire::Messages => ("x-api-key", UPSTREAM_KEY.to_owned()),
        Wire::Gemini => ("x-goog-api-key", UPSTREAM_KEY.to_owned()),
    };
    assert_eq!(headers[name], value, "{context}");
    if backend == Wire::Messages {
        assert_eq!(headers["anthropic-version"], "2023-06-01", "{context}");
    }
    for other in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
        assert!(other == name || !headers.contains_key(other), "{context}: {other}");
    }
    let has_key = headers.values().any(|value| value.to_str().unwrap().contains(&tenant.key));
    assert!(!has_key, "{context}");
}

/// A route of the backend's own wire passes its bytes, as without the setting.
#[tokio::test]
async fn the_same_wire_passes_unchanged() {
    for wire in Wire::ALL {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, wire, "").await;
        let tenant = gateway.tenant("free").await;
        for stream in [false, true] {
            upstream.script([answer(wire, Reply::Text, stream)]);
            let answered = send(&gateway, &tenant, wire, stream, &request(wire, stream)).await;
            let expected = match stream {
                true => dialects::events(wire, Reply::Text).concat(),
                false => dialects::document(wire, Reply::Text).to_string(),
            };
            assert_eq!(answered.text(), expected, "{wire}");
        }
    }
    // Without the setting, three of them pass, and Gemini is translated to Responses.
    let upstream = Upstream::start().await;
    let gateway = start_with(&upstream, "", Wire::Responses, "").await;
    let tenant = gateway.tenant("free").await;
    for wire in [Wire::Responses, Wire::Chat, Wire::Messages] {
        upstream.script([answer(wire, Reply::Text, false)]);
        let answered = send(&gateway, &tenant, wire, false, &request(wire, false)).await;
        assert_eq!(answered.text(), dialects::document(wire, Reply::Text).to_string());
        assert_eq!(upstream.last().headers["authorization"], format!("Bearer {UPSTREAM_KEY}"));
    }
    upstream.script([answer(Wire::Responses, Reply::Text, false)]);
    let body = request(Wire::Gemini, false);
    let answered = send(&gateway, &tenant, Wire::Gemini, false, &body).await;
    assert_eq!(read(Wire::Gemini, &answered, false), Read::reply(Reply::Text));
}

/// The charge for a stream that breaks off is the same on every route, and its end is an error of the caller's wire.
#[tokio::test]
async fn a_broken_stream_costs_the_same_on_every_route() {
    for backend in Wire::ALL {
        let mut costs = Vec::new();
        for caller in Wire::ALL {
            let upstream = Upstream::start().await;
            let gateway = start(&upstream, backend, "").await;
            let tenant = gateway.tenant("free").await;
            upstream.script([broken(backend)]);
            // Only Messages and Gemini count the text of tools.
            let mut body = request(caller, true);
            body.as_object_mut().unwrap().remove("tools");
            let mut streaming = gateway.stream_from(&tenant, path(caller, true), &body).await;
            let (text, is_regular) = streaming.rest().await;
            let context = format!("{caller} to {backend}: {text}");
            assert!(text.contains("Hello"), "{context}");
            costs.push(cost(&gateway, &tenant).await);
            assert!(is_regular, "the error ends it: {context}");
            let answered = crate::common::gateway::Answer {
                status: streaming.status,
                headers: streaming.headers.clone(),
                body: text.clone().into(),
            };
            let seen = read(caller, &answered, true);
            assert!(!seen.is_complete, "{context}");
            let message = seen.error["message"].as_str().unwrap_or_default();
            assert!(message.contains("before"), "{context}");
            let metric = "gateway_requests_total{model=\"big\",status=\"502\"}";
            assert_eq!(gateway.metric(metric).await, 1, "{context}");
        }
        assert!(costs[0] > 0 && costs.iter().all(|cost| *cost == costs[0]), "{backend}: {costs:?}");
    }
}

/// Type or status, and the code, of an error in a wire.
fn error_of(wire: Wire, body: &Value) -> (String, String) {
    let error = &body["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match wire {
        Wire::Responses | Wire::Chat => (text(&error["type"]), text(&error["code"])),
        Wire::Messages => {
            assert_eq!(body["type"], "error", "{body}");
            (text(&error["type"]), text(&error["details"]["error_code"]))
        }
        Wire::Gemini => {
            assert!(error["code"].is_number(), "{body}");
            let reason = &error["details"][0]["reason"];
            (text(&error["status"]), text(reason))
        }
    }
}

#[tokio::test]
async fn limits_refuse_in_the_wire_of_the_caller() {
    for (caller, backend) in pairs() {
        let context = format!("{caller} to {backend}");
        let upstream = Upstream::start().await;
        let limits = "[tiers.free.limits.big]\nrpm = 1\ntpm = 1000\n";
        let gateway = start(&upstream, backend, limits).await;
        let tenant = gateway.tenant("free").await;
        upstream.script([answer(backend, Reply::Text, false)]);
        let body = request(caller, false);
        let served = send(&gateway, &tenant, caller, false, &body).await;
        assert_eq!(served.status, 200, "{context}: {}", served.text());
        assert_eq!(served.limits("tokens")[0], "1000", "{context}");
        let refused = send(&gateway, &tenant, caller, false, &body).await;
        let (kind, code) = error_of(caller, &refused.json());
        let expected = match caller {
            Wire::Responses | Wire::Chat => "requests",
            Wire::Messages => "rate_limit_error",
            Wire::Gemini => "RESOURCE_EXHAUSTED",
        };
        assert_eq!((refused.status.as_u16(), &*kind), (429, expected), "{context}");
        assert_eq!(code, "rate_limit_exceeded", "{context}");
        assert!(!refused.header("retry-after").is_empty(), "{context}");
        assert_eq!(refused.limits("requests")[..2], ["1", "0"], "{context}");
        if caller == Wire::Messages {
            assert_eq!(refused.header("anthropic-ratelimit-requests-remaining"), "0");
            assert!(!refused.header("request-id").is_empty());
        }
        if caller == Wire::Gemini {
            let retry = &refused.json()["error"]["details"][1]["retryDelay"];
            let expected = format!("{}s", refused.header("retry-after"));
            assert_eq!(retry, &json!(expected), "{context}");
        }
        assert_eq!(upstream.count(), 1, "{context}");
    }
}

#[tokio::test]
async fn spend_limits_refuse_in_the_wire_of_the_caller() {
    for (caller, backend) in pairs() {
        let context = format!("{caller} to {backend}");
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, backend, "max_output_tokens = 100\n").await;
        let tenant = gateway.tenant("free").await;
        // A cent, of which a request may cost a tenth of a cent.
        gateway.hard_limit(&tenant, false, 1).await;
        let mut body = request(caller, false);
        match caller {
            Wire::Responses => body["max_output_tokens"] = json!(2000),
            Wire::Chat | Wire::Messages => body["max_tokens"] = json!(2000),
            Wire::Gemini => body["generationConfig"] = json!({ "max_output_tokens": 2000 }),
        }
        let refused = send(&gateway, &tenant, caller, false, &body).await;
        assert_eq!(refused.status, 429, "{context}: {}", refused.text());
        let (kind, code) = error_of(caller, &refused.json());
        let expected = match caller {
            Wire::Responses | Wire::Chat => "insufficient_quota",
            Wire::Messages => "rate_limit_error",
            Wire::Gemini => "RESOURCE_EXHAUSTED",
        };
        assert_eq!(kind, expected, "{context}: {}", refused.text());
        assert!(!code.is_empty(), "{context}: {}", refused.text());
        assert_eq!(upstream.count(), 0, "{context}");
        // The limit reaches a backend of any wire, also one that the request has not.
        upstream.script([answer(backend, Reply::Text, false)]);
        let mut body = request(caller, false);
        match caller {
            Wire::Responses => body["max_output_tokens"] = Value::Null,
            Wire::Chat => body["max_tokens"] = Value::Null,
            Wire::Messages => body["max_tokens"] = json!(100),
            Wire::Gemini => body["generationConfig"] = Value::Null,
        }
        let served = send(&gateway, &tenant, caller, false, &body).await;
        assert_eq!(served.status, 200, "{context}: {}", served.text());
        let got = upstream.last().json();
        let limit = match backend {
            Wire::Responses => &got["max_output_tokens"],
            Wire::Chat if caller == Wire::Chat => &got["max_completion_tokens"],
            Wire::Chat | Wire::Messages => &got["max_tokens"],
            Wire::Gemini => &got["generationConfig"]["maxOutputTokens"],
        };
        assert_eq!(limit, &json!(100), "{context}: {got}");
    }
}

/// The error of a server of a wire.
fn server_error(wire: Wire, status: u16) -> Script {
    let (kind, name, message) = match status {
        400 => (
            "invalid_request_error",
            "INVALID_ARGUMENT",
            "The input token count exceeds the maximum number of tokens allowed.",
        ),
        429 => ("rate_limit_error", "RESOURCE_EXHAUSTED", "Too many requests."),
        529 | 503 => ("overloaded_error", "UNAVAILABLE", "Overloaded."),
        _ => ("api_error", "INTERNAL", "Something broke."),
    };
    let body = match wire {
        Wire::Responses | Wire::Chat => {
            json!({ "error": { "message": message, "type": kind, "param": null, "code": null } })
        }
        Wire::Messages => json!({ "type": "error", "error": { "type": kind, "message": message } }),
        Wire::Gemini => json!({ "error": { "code": status, "message": message, "status": name } }),
    };
    Script::error(status, &body)
}

#[tokio::test]
async fn errors_of_backends_come_in_the_wire_of_the_caller() {
    for (caller, backend) in pairs().filter(|(caller, backend)| caller != backend) {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, backend, "").await;
        let tenant = gateway.tenant("free").await;
        let [openai, messages, gemini] = [
            ["invalid_request_error", "server_error", "requests", "server_error", "server_error"],
            [
                "invalid_request_error",
                "api_error",
                "rate_limit_error",
                "api_error",
                "overloaded_error",
            ],
            ["INVALID_ARGUMENT", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL", "UNAVAILABLE"],
        ];
        let kinds = match caller {
            Wire::Responses | Wire::Chat => openai,
            Wire::Messages => messages,
            Wire::Gemini => gemini,
        };
        let overloaded = if caller == Wire::Messages { 529 } else { 503 };
        let statuses = [(400, 400), (401, 502), (429, 429), (500, 500), (529, overloaded)];
        for ((status, expected), expected_kind) in statuses.into_iter().zip(kinds) {
            let context = format!("{caller} to {backend}: {status}");
            upstream.script([server_error(backend, status).header("retry-after", "7")]);
            let body = request(caller, true);
            let failed = send(&gateway, &tenant, caller, true, &body).await;
            assert_eq!(failed.status.as_u16(), expected, "{context}: {}", failed.text());
            let (kind, code) = error_of(caller, &failed.json());
            assert_eq!(kind, expected_kind, "{context}: {}", failed.text());
            if status == 400 && matches!(caller, Wire::Responses | Wire::Chat) {
                assert_eq!(code, "context_length_exceeded", "{context}");
            }
            if status == 400 && caller == Wire::Messages {
                assert!(failed.message().contains("prompt is too long"), "{}", failed.text());
            }
            assert_eq!(failed.header("retry-after"), "7", "{context}");
        }
        assert_eq!(cost(&gateway, &tenant).await, 0);
    }
}

/// Servers of Gemini answer 400 for a wrong key: the caller's is not wrong.
#[tokio::test]
async fn a_key_that_a_gemini_server_refuses_is_the_operators_fault() {
    for caller in [Wire::Chat, Wire::Gemini] {
        let upstream = Upstream::start().await;
        let gateway = start(&upstream, Wire::Gemini, "").await;
        let tenant = gateway.tenant("free").await;
        let error = json!({ "error": { "code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
            "details": [{ "reason": "API_KEY_INVALID" }] } });
        upstream.script([Script::error(400, &error)]);
        let failed = send(&gateway, &tenant, caller, false, &request(caller, false)).await;
        assert_eq!(failed.status, 502, "{}", failed.text());
        assert!(failed.message().contains("gateway's credentials"), "{}", failed.text());
    }
}

/// A key is accepted in each dialect, and neither logged nor sent on.
#[tokio::test]
async fn keys_are_accepted_in_every_dialect() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, "").await;
    let tenant = gateway.tenant("free").await;
    let body = request(Wire::Gemini, false).to_string();
    let plain = path(Wire::Gemini, false);
    let in_query = format!("{plain}?key={}", tenant.key);
    let bearer = format!("Bearer {}", tenant.key);
    for (path, headers, status) in [
        (plain, vec![("x-goog-api-key", &*tenant.key)], 200),
        (plain, vec![("x-api-key", &*tenant.key)], 200),
        (plain, vec![("authorization", &*bearer)], 200),
        (&*in_query, vec![], 200),
        (&*in_query, vec![("x-goog-api-key", "other")], 401),
        (plain, vec![], 401),
        (&*format!("{plain}?key=wrong"), vec![], 401),
    ] {
        upstream.script([answer(Wire::Chat, Reply::Text, false)]);
        let answered = gateway.send(Method::POST, path, &headers, body.clone()).await;
        assert_eq!(answered.status.as_u16(), status, "{path}: {}", answered.text());
        if status == 401 {
            let (kind, code) = error_of(Wire::Gemini, &answered.json());
            assert_eq!((&*kind, &*code), ("UNAUTHENTICATED", "invalid_api_key"));
        }
    }
    // Only clients of Gemini send it there.
    let elsewhere = format!("/v1/chat/completions?key={}", tenant.key);
    let body = request(Wire::Chat, false).to_string();
    let answered = gateway.send(Method::POST, &elsewhere, &[], body).await;
    assert_eq!(answered.status, 401);
    assert!(!gateway.log().contains(&tenant.key), "{}", gateway.log());
    for received in upstream.received() {
        assert!(!format!("{received:?}").contains(&tenant.key), "{received:?}");
    }
}

#[tokio::test]
async fn what_a_backend_cannot_do_is_refused_or_named() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Messages, "").await;
    let tenant = gateway.tenant("free").await;
    let with = |wire: Wire, more: Value| {
        let mut body = request(wire, false);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (wire, more, code, param) in [
        (Wire::Responses, json!({ "store": true }), "unsupported_parameter", "store"),
        (
            Wire::Responses,
            json!({ "previous_response_id": "resp_1" }),
            "unsupported_parameter",
            "previous_response_id",
        ),
        (Wire::Responses, json!({ "background": true }), "unsupported_parameter", "background"),
        (
            Wire::Responses,
            json!({ "conversation": "conv_1" }),
            "unsupported_parameter",
            "conversation",
        ),
        (
            Wire::Responses,
            json!({ "conversation": { "id": "conv_1" } }),
            "unsupported_parameter",
            "conversation",
        ),
        (Wire::Responses, json!({ "input": [] }), "missing_required_parameter", "input"),
        (Wire::Chat, json!({ "n": 2 }), "unsupported_parameter", "n"),
        (Wire::Chat, json!({ "logprobs": true }), "unsupported_parameter", "logprobs"),
        (Wire::Chat, json!({ "messages": 1 }), "invalid_type", "messages"),
    ] {
        let refused = send(&gateway, &tenant, wire, false, &with(wire, more.clone())).await;
        assert_eq!(refused.error(), (400, code.into(), param.into()), "{more}: {}", refused.text());
    }
    let embedding = json!({ "model": "big", "input": "x" });
    let refused = gateway.post(&tenant, "/v1/embeddings", &embedding).await;
    assert_eq!(refused.error().1, "wire_not_supported", "{}", refused.text());
    let array = path(Wire::Gemini, true).trim_end_matches("?alt=sse");
    let refused = gateway.post(&tenant, array, &request(Wire::Gemini, true)).await;
    assert_eq!(error_of(Wire::Gemini, &refused.json()).1, "invalid_value");
    let cached = with(Wire::Gemini, json!({ "cachedContent": "cachedContents/1" }));
    let refused = send(&gateway, &tenant, Wire::Gemini, false, &cached).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    assert_eq!(upstream.count(), 0);
    assert_eq!(cost(&gateway, &tenant).await, 0);
    // What only tunes an answer is left out, and named.
    upstream.script([answer(Wire::Messages, Reply::Text, false)]);
    let body = with(Wire::Chat, json!({ "seed": 1, "unknown_member": 2 }));
    let served = send(&gateway, &tenant, Wire::Chat, false, &body).await;
    let named = served.header("x-translation-warnings");
    assert!(named.contains("seed") && named.contains("unknown_member"), "{named}");
    assert!(gateway.log().contains("unknown_member"), "{}", gateway.log());
    let metric = "gateway_translation_warnings_total{from=\"chat\",to=\"messages\"}";
    assert!(gateway.metric(metric).await >= 2);
}

/// A schema of the answer goes to servers of Messages that are known to take it, or whose setting says so.
#[tokio::test]
async fn a_schema_is_sent_where_the_setting_says_so() {
    let schema = json!({ "type": "object", "additionalProperties": false });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let mut body = request(Wire::Chat, false);
    body["response_format"] = format;
    for (setting, status) in [("", 400), ("structured_output = true", 200)] {
        let upstream = Upstream::start().await;
        let wire = format!("wire = \"messages\"\n{setting}");
        let gateway = start_with(&upstream, &wire, Wire::Messages, "").await;
        let tenant = gateway.tenant("free").await;
        upstream.script([answer(Wire::Messages, Reply::Text, false)]);
        let served = send(&gateway, &tenant, Wire::Chat, false, &body).await;
        assert_eq!(served.status, status, "{}", served.text());
        if status == 200 {
            assert_eq!(upstream.last().json()["output_config"]["format"]["schema"], schema);
        } else {
            assert_eq!(served.error().2, "response_format", "{}", served.text());
        }
    }
}

/// Counts of tokens pass to a server of the same wire, and are estimated for others.
#[tokio::test]
async fn tokens_are_counted_for_every_wire() {
    for backend in Wire::ALL {
        let upstream = Upstream::answering(|_| {
            Script::json(&json!({ "input_tokens": 77, "totalTokens": 77 }))
        })
        .await;
        let gateway = start(&upstream, backend, "").await;
        let tenant = gateway.tenant("free").await;
        for (wire, path, member) in [
            (Wire::Messages, "/v1/messages/count_tokens", "input_tokens"),
            (Wire::Responses, "/v1/responses/input_tokens", "input_tokens"),
            (Wire::Gemini, "/v1beta/models/big:countTokens", "totalTokens"),
        ] {
            let mut body = request(wire, false);
            if let Some(members) = body.as_object_mut() {
                members.remove("max_tokens");
                members.remove("stream");
            }
            let before = upstream.count();
            let answered = gateway.post(&tenant, path, &body).await;
            assert_eq!(answered.status, 200, "{path} {backend}: {}", answered.text());
            let counted = answered.json()[member].as_u64().unwrap();
            match wire == backend {
                true => assert_eq!((counted, upstream.count()), (77, before + 1), "{path}"),
                false => assert!(counted >= 2 && upstream.count() == before, "{path}: {counted}"),
            }
        }
        assert_eq!(cost(&gateway, &tenant).await, 0);
    }
}

/// Backends of one upstream may speak different wires.
#[tokio::test]
async fn a_request_moves_to_a_backend_of_another_wire() {
    let (first, second) = (Upstream::start().await, Upstream::start().await);
    let gateway = TestGateway::start(&format!(
        "[admin]\ntoken_file = \"token\"\n[[upstreams.main.backends]]\nname = \"a\"\nwire = \"messages\"\n\
         base_url = \"{}\"\n[[upstreams.main.backends]]\nname = \"b\"\nwire = \"gemini\"\npriority = 1\n\
         base_url = \"http://{}/v1beta\"\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n",
        first.url(),
        second.address
    ))
    .await;
    let tenant = gateway.tenant("free").await;
    first.script([server_error(Wire::Messages, 529)]);
    second.script([answer(Wire::Gemini, Reply::Call, true)]);
    let answered = send(&gateway, &tenant, Wire::Chat, true, &request(Wire::Chat, true)).await;
    assert_eq!(read(Wire::Chat, &answered, true), Read::reply(Reply::Call), "{}", answered.text());
    assert_eq!((first.count(), second.count()), (1, 1));
    // Stop sequences have no equal in Responses, but here they have one.
    let mut body = request(Wire::Chat, false);
    body["stop"] = json!(["END"]);
    second.script([answer(Wire::Gemini, Reply::Text, false)]);
    first.script([server_error(Wire::Messages, 529)]);
    let answered = send(&gateway, &tenant, Wire::Chat, false, &body).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let stops = &second.last().json()["generationConfig"]["stopSequences"];
    assert_eq!(stops, &json!(["END"]));
}

/// Lines of batches are translated as requests are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_batches_are_translated() {
    let folder = tempfile::tempdir().unwrap();
    let document = dialects::document(Wire::Messages, Reply::Text).to_string();
    let upstream = batching::Upstream::start(move |_| (200, document.clone())).await;
    let extra = "wire = \"messages\"\n[models.m]\n[batches]\nlines_at_once = 1\n";
    let clock = batching::ManualClock::new();
    let node = batching::Node::start(folder.path(), &clock, &upstream, ("", "off:"), extra).await;
    let (key, _) = node.key().await;
    let client = batching::Client::new(&node.base, &key);
    let made = client.batch("/v1/chat/completions", &batching::chats("m", 2)).await;
    let batch = client.ended(&made).await;
    assert_eq!(batch["status"], "completed", "{batch}");
    for line in client.lines(&batch["output_file_id"]).await {
        let body = &line["response"]["body"];
        assert_eq!(body["choices"][0]["message"]["content"], dialects::TEXT, "{line}");
        assert_eq!(body["usage"]["prompt_tokens"], TOKENS.0, "{line}");
    }
    let received = upstream.received();
    assert!(received.len() == 2 && received.iter().all(|one| one.path == "/v1/messages"));
}

/// The reasoning of another wire comes back to its own model.
#[tokio::test]
async fn reasoning_returns_to_its_model() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Messages, "").await;
    let tenant = gateway.tenant("free").await;
    let mut document = dialects::document(Wire::Messages, Reply::Call);
    let thought = json!({ "type": "thinking", "thinking": "Hm.", "signature": "c2lnbmF0dXJl" });
    document["content"].as_array_mut().unwrap().insert(0, thought.clone());
    upstream.script([Script::json(&document), answer(Wire::Messages, Reply::Text, false)]);
    let mut body = request(Wire::Responses, false);
    body["include"] = json!(["reasoning.encrypted_content"]);
    let answered = send(&gateway, &tenant, Wire::Responses, false, &body).await;
    let mut input = vec![json!({ "role": "user", "content": dialects::PROMPT })];
    input.extend(answered.json()["output"].as_array().unwrap().clone());
    input.push(json!({ "type": "function_call_output", "call_id": "toolu_1", "output": "12" }));
    body["input"] = json!(input);
    let answered = send(&gateway, &tenant, Wire::Responses, false, &body).await;
    assert_eq!(answered.status, 200, "{}", answered.text());
    let sent = upstream.last().json();
    assert_eq!(sent["messages"][1]["content"][0], thought, "{sent}");
    assert_eq!(sent["messages"][2]["content"][0]["type"], "tool_result", "{sent}");
}

#[tokio::test]
async fn models_are_listed_for_gemini() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, "aliases = [\"large\"]\n").await;
    let tenant = gateway.tenant("free").await;
    let listed = gateway.get(&tenant, "/v1beta/models").await.json();
    let names: Vec<_> = listed["models"].as_array().unwrap().iter().map(|m| &m["name"]).collect();
    assert_eq!(names, ["models/big", "models/large"]);
    let one = gateway.get(&tenant, "/v1beta/models/large").await.json();
    assert_eq!(one["supportedGenerationMethods"], json!(["generateContent", "countTokens"]));
    let missing = gateway.get(&tenant, "/v1beta/models/none").await;
    assert_eq!(error_of(Wire::Gemini, &missing.json()).0, "NOT_FOUND");
}
