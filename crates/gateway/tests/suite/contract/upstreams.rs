//! Failing upstreams: the errors for clients, and that none of our secrets leak.

use std::io::Write;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{TestGateway, UPSTREAM_KEY, chat_with, config};
use crate::common::upstream::{Script, Step, Upstream, chat, event, usage};

fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "server_error", "param": null, "code": "odd" } })
}

#[tokio::test]
async fn upstream_failures_map_to_client_errors() {
    let upstream = Upstream::start().await;
    let rest = format!("timeout_ms = 150\n{BIG}");
    let gateway = TestGateway::start(&config(&upstream, &rest)).await;
    let tenant = gateway.tenant("free").await;
    let json = Script::json(&json!({}));
    let check = async |script: Script, status: u16, code: &str| {
        upstream.script([script]);
        let answer = gateway.chat(&tenant).await;
        assert_eq!((answer.error().0, &*answer.error().1), (status, code));
        assert_eq!(answer.json()["error"]["type"], "server_error");
    };
    check(json.clone().before(Step::Hang), 504, "upstream_timeout").await;
    check(json.clone().body(vec![Step::Hang]), 504, "upstream_timeout").await;
    check(json.clone().before(Step::Cut), 502, "upstream_error").await;
    check(json.clone().body(vec![Step::Cut]), 502, "upstream_error").await;
    check(Script::new(200, "text/html", "<html>"), 502, "upstream_error").await;
    check(Script::new(502, "text/html", "<html>nginx"), 502, "upstream_error").await;
    check(Script::new(500, "text/plain", "trace of 10.0.0.1"), 502, "upstream_error").await;
    check(Script::new(500, "application/json", "{\"error\":"), 502, "upstream_error").await;
    for status in [301, 302, 307, 308] {
        let away = Script::error(status, &json!({})).header("location", "http://inside/");
        check(away, 502, "upstream_error").await;
    }
    for status in [401, 403] {
        check(Script::error(status, &error(UPSTREAM_KEY)), 502, "upstream_error").await;
    }
    let log = gateway.log();
    assert!(
        log.contains("WARN gateway::settlement: upstream main: ") && log.contains(" request=req_"),
        "{log}"
    );
    assert!(!log.contains(UPSTREAM_KEY), "{log}");
    let refused = UpstreamGone::config();
    let gateway = TestGateway::start(&refused).await;
    let tenant = gateway.tenant("free").await;
    let answer = gateway.chat(&tenant).await;
    assert_eq!((answer.error().0, &*answer.error().1), (502, "upstream_error"));
    assert!(!answer.text().contains("127.0.0.1"));
}

struct UpstreamGone;

impl UpstreamGone {
    fn config() -> String {
        let upstream = "[admin]\ntoken_file = \"token\"\n[upstreams.main]\n\
            base_url = \"http://127.0.0.1:1/v1\"\n";
        format!("{upstream}{BIG}")
    }
}

#[tokio::test]
async fn a_truncated_upstream_response_is_no_success() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    // So short a beginning could be that of an error; a longer one has reached the client.
    let long = format!("{{\"id\":\"{}", "x".repeat(100));
    for (half, status) in [("{\"id\":", 502), (&*long, 200)] {
        let steps = vec![Step::Bytes(half.to_owned().into()), Step::Cut];
        upstream.script([Script::chunked("application/json").body(steps)]);
        let body = crate::common::gateway::chat_request();
        let mut begun = gateway.stream(&tenant, &body).await;
        let (text, ended) = begun.rest().await;
        assert_eq!((begun.status.as_u16(), ended), (status, status == 502), "{text}");
        assert_eq!(text == half, status == 200, "{text}");
    }
}

#[tokio::test]
async fn forwarded_errors_contain_neither_key_nor_host() {
    let (gateway, upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 100\n")).await;
    let tenant = gateway.tenant("free").await;
    let host = upstream.address.to_string();
    let shown = format!("key {UPSTREAM_KEY} at http://{host}/v1 ({})", host.replace(':', " "));
    for status in [400, 404, 409, 422, 500, 503] {
        upstream.script([Script::error(status, &error(&shown))]);
        let answer = gateway.chat(&tenant).await;
        assert_eq!(answer.status, status);
        let message = answer.message();
        assert_eq!(answer.json()["error"]["code"], "odd");
        assert!(message.starts_with("key *** at http://***/v1 ("), "{message}");
        assert!(!answer.text().contains("127.0.0.1"));
    }
    // In any escaping and at any position.
    let escaped = UPSTREAM_KEY.replace('/', "\\/").replace('+', "\\u002b");
    for body in [
        format!("{{\"error\":{{\"message\":\"{escaped}\"}}}}"),
        format!("{{\"error\":{{\"message\":\"\",\"hint\":[{{\"{escaped}\":1}}]}}}}"),
        format!("{{\"error\":{{\"message\":\"{}\"}}}}", UPSTREAM_KEY.to_uppercase()),
    ] {
        upstream.script([Script::new(500, "application/json", body)]);
        let text = gateway.chat(&tenant).await.text();
        let lower = text.to_lowercase();
        assert!(text.contains("***") && !lower.contains("secret"), "{text}");
    }
    // A body without our secrets passes byte by byte.
    let odd = "{ \"error\" : { \"message\":\"x\", \"n\": 1.50 } }";
    upstream.script([Script::new(400, "application/json", odd)]);
    assert_eq!(gateway.chat(&tenant).await.text(), odd);
}

#[tokio::test]
async fn errors_within_streams_are_redacted() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let host = upstream.address.to_string();
    let failed = error(&format!("key {UPSTREAM_KEY} at http://{host}/v1"));
    let text_event =
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"see {host}\"}}}}]}}\n\n");
    let events = [text_event.clone(), format!("data: {failed}\n\n"), "data: [DONE]\n\n".to_owned()];
    upstream.script([Script::events(events.each_ref().map(String::as_str))]);
    let answer =
        gateway.post(&tenant, "/v1/chat/completions", &chat_with(json!({ "stream": true }))).await;
    let text = answer.text();
    assert!(text.starts_with(&text_event), "the model's text is unchanged: {text}");
    let after = &text[text_event.len()..];
    assert!(after.contains("****") && after.ends_with("data: [DONE]\n\n"), "{after}");
    assert!(!after.contains(UPSTREAM_KEY) && !after.contains(&host), "{after}");
}

#[tokio::test]
async fn an_upstream_429_has_its_own_code() {
    let (gateway, upstream) = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 100\n")).await;
    let tenant = gateway.tenant("free").await;
    let busy = Script::error(429, &error(&format!("busy {UPSTREAM_KEY}")));
    upstream.script([
        busy.clone()
            .header("retry-after", "7")
            .header("retry-after-ms", "6500")
            .header("x-ratelimit-limit-requests", "3"),
        busy.clone().header("retry-after", "Tue, 01 Dec 2026 00:00:00 GMT"),
        busy.header("retry-after", "ask inside.example.org"),
    ]);
    let answer = gateway.chat(&tenant).await;
    assert_eq!(answer.error(), (429, "upstream_rate_limited".into(), String::new()));
    assert_eq!((answer.message(), answer.header("retry-after")), ("busy ***".into(), "7"));
    assert_eq!(answer.header("retry-after-ms"), "6500");
    assert_eq!(answer.limits("requests")[..2], ["100", "99"]);
    assert_eq!(gateway.chat(&tenant).await.header("retry-after"), "Tue, 01 Dec 2026 00:00:00 GMT");
    assert_eq!(gateway.chat(&tenant).await.header("retry-after"), "");
}

pub(super) fn gzip(text: &str) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

fn zlib(text: &str) -> Bytes {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().into()
}

fn zstd(text: &str) -> Bytes {
    zstd::stream::encode_all(text.as_bytes(), 3).unwrap().into()
}

/// One uncompressed block (RFC 7932, 9.2).
fn brotli(text: &str) -> Bytes {
    let length = text.len() - 1;
    let [low, high] = u16::try_from(length >> 1).unwrap().to_le_bytes();
    let begin = [0x0b | ((length & 1) as u8) << 7, low, 0x80 | high];
    [&begin, text.as_bytes(), &[3]].concat().into()
}

#[tokio::test]
async fn compressed_responses_are_decoded_and_counted() {
    let reported = json!({ "input_tokens": 100, "output_tokens": 20, "total_tokens": 120 });
    let response = json!({ "id": "resp_1", "object": "response", "output": [], "usage": reported });
    let completed = json!({ "type": "response.completed", "response": response });
    let chat_events = [
        event(&json!({ "choices": [{ "delta": { "content": "hi" } }] })),
        event(&json!({ "choices": [], "usage": usage(100, 20) })),
        "data: [DONE]\n\n".to_owned(),
    ];
    let embeddings = json!({ "data": [], "usage": { "prompt_tokens": 120, "total_tokens": 120 } });
    let (json, events) = ("application/json", "text/event-stream");
    let answers = [
        ("/v1/chat/completions", "completions", json, chat(&usage(100, 20)).to_string(), [100, 20]),
        ("/v1/chat/completions", "completions", events, chat_events.concat(), [100, 20]),
        ("/v1/responses", "completions", json, response.to_string(), [100, 20]),
        ("/v1/responses", "completions", events, event(&completed), [100, 20]),
        ("/v1/embeddings", "embeddings", json, embeddings.to_string(), [120, 0]),
    ];
    type Encode = fn(&str) -> Bytes;
    let codings: [(&str, Encode); 5] =
        [("gzip", gzip), ("X-GZip", gzip), ("deflate", zlib), ("br", brotli), ("zstd", zstd)];
    for (coding, encode) in codings {
        for (path, page, content_type, text, [input, output]) in &answers {
            let (gateway, upstream) = start(BIG).await;
            let tenant = gateway.tenant("free").await;
            let body = encode(text);
            // The body comes in two pieces.
            let half = body.len() / 2;
            let steps = [body.slice(..half), body.slice(half..)].map(Step::Bytes);
            let script = Script::chunked(content_type).body(steps.into());
            upstream.script([script.header("content-encoding", coding)]);
            let streams = *content_type == events;
            let body = json!({ "model": "big", "stream": streams, "input": "x",
                "messages": [{ "role": "user", "content": "x" }] });
            let answer = gateway.post(&tenant, path, &body).await;
            assert_eq!(answer.status, 200);
            assert_eq!(answer.header("content-encoding"), "");
            let removed = event(&json!({ "choices": [], "usage": usage(100, 20) }));
            assert_eq!(answer.text(), text.replace(&removed, ""), "{coding} {path}");
            gateway.is_idle().await;
            let counted = gateway.usage(&tenant.organization, page).await;
            assert_eq!(counted, [1, *input, *output], "{coding} {path} {content_type}");
            assert_eq!(upstream.last().headers["accept-encoding"], "identity");
        }
    }
}

#[tokio::test]
async fn compressed_errors_are_decoded() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let host = upstream.address.to_string();
    let text = error(&format!("unknown parameter top_q {UPSTREAM_KEY} {host}")).to_string();
    for (coding, body) in [("gzip", gzip(&text)), ("br", brotli(&text)), ("zstd", zstd(&text))] {
        let script = Script::new(400, "application/json", body);
        upstream.script([script.header("content-encoding", coding)]);
        let answer = gateway.chat(&tenant).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.message(), "unknown parameter top_q *** ***");
    }
    // More than an error can have, in a few hundred bytes.
    let bomb = gzip(&format!("{{\"error\":{{\"message\":\"{}\"}}}}", "x".repeat(1 << 20)));
    for (coding, body) in [
        ("gzip", Bytes::from_static(b"{\"error\":{}}")),
        ("gzip", gzip(&text).slice(..30)),
        ("gzip", bomb),
        ("compress", text.clone().into()),
        ("gzip, br", gzip(&text)),
    ] {
        let script = Script::new(400, "application/json", body);
        upstream.script([script.header("content-encoding", coding)]);
        let answer = gateway.chat(&tenant).await;
        assert_eq!((answer.error().0, &*answer.error().1), (502, "upstream_error"), "{coding}");
    }
    assert!(gateway.log().contains("its content-encoding \"compress\" is unknown"));
}

#[tokio::test]
async fn a_compressed_stream_that_breaks_is_counted_and_cut_off() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let text = event(&json!({ "choices": [{ "delta": { "content": "12345678" } }] }));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.flush().unwrap();
    let begun = Bytes::from(encoder.get_ref().clone());
    for end in ["this is not gzip", ""] {
        let steps = vec![Step::Bytes(begun.clone()), Step::Bytes(end.to_owned().into())];
        let script = Script::stream(steps).header("content-encoding", "gzip");
        upstream.script([script]);
        let mut stream = gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
        let (received, ended) = stream.rest().await;
        let rest = received.strip_prefix(&text).expect("what came passes");
        assert!(ended && rest.contains("before the response was complete"), "{end:?}: {rest}");
    }
    gateway.is_idle().await;
    assert_eq!(gateway.usage(&tenant.organization, "completions").await, [2, 2, 4]);
}
