//! The gateway's changes to a request's body, and that it changes nothing else.

use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{Tenant, TestGateway, chat_request, chat_with};
use crate::common::upstream::{Script, Upstream, chat, event, usage};

const CHAT: &str = "/v1/chat/completions";

async fn sent(
    (gateway, upstream): &(TestGateway, Upstream),
    tenant: &Tenant,
    path: &str,
    body: &str,
) -> String {
    let answer = gateway.post_text(tenant, path, body.to_owned()).await;
    assert_eq!(answer.status, 200, "{body}: {}", answer.text());
    String::from_utf8(upstream.last().body.to_vec()).expect("a text")
}

#[tokio::test]
async fn set_fields_change_and_other_bytes_stay() {
    let both = start("[models.m]\nupstream_model = \"real\"\naliases = [\"a\"]\n").await;
    let tenant = both.0.tenant("free").await;
    let check = async |path: &str, body: &str, expected: &str| {
        assert_eq!(sent(&both, &tenant, path, body).await, expected, "{path}");
    };
    let kept =
        r#"{ "model" : "m", "prompt_cache_retention":"in_memory", "x": 1.50e1 , "y":"\u00e9" }"#;
    check(CHAT, kept, &kept.replace("\"m\"", "\"real\"")).await;
    check(CHAT, r#"{"model":"a"}"#, r#"{"model":"real","prompt_cache_retention":"24h"}"#).await;
    check(
        "/v1/responses",
        r#"{"model":"m","service_tier":"priority","prompt_cache_retention":null}"#,
        r#"{"model":"real","service_tier":"fast","prompt_cache_retention":"24h"}"#,
    )
    .await;
    for tier in ["auto", "default", "flex", "fast"] {
        let body =
            format!(r#"{{"model":"real","service_tier":"{tier}","prompt_cache_retention":"24h"}}"#);
        check(CHAT, &body.replace("real", "m"), &body).await;
    }
    // Passed on unchanged.
    for fields in [
        r#""moderation":{"model":"omni"}"#,
        r#""parallel_tool_calls":false,"tool_choice":"required""#,
        r#""input":[{"role":"assistant","phase":"commentary","content":"x"}]"#,
    ] {
        let body = format!(r#"{{"model":"real","prompt_cache_retention":"24h",{fields}}}"#);
        check("/v1/responses", &body.replace("real", "m"), &body).await;
    }
    for path in
        ["/v1/embeddings", "/v1/responses/compact", "/v1/audio/speech", "/v1/videos", "/v1/evals"]
    {
        check(path, r#"{"model":"m","input":"x"}"#, r#"{"model":"real","input":"x"}"#).await;
    }
    // A name without a model here may be one at the upstream.
    let other = r#"{"model":"other"}"#;
    check("/v1/evals", other, other).await;
}

#[tokio::test]
async fn prompts_stay_in_memory_with_zero_data_retention() {
    let both = start(BIG).await;
    let (gateway, upstream) = &both;
    let tenant = gateway.tenant("free").await;
    let path = "/v1/organization/data_retention";
    let body = json!({ "retention_type": "zero_data_retention" });
    gateway.admin_of(&tenant.organization, hyper::Method::POST, path, body).await;
    let body = chat_request().to_string();
    let got: Value = serde_json::from_str(&sent(&both, &tenant, CHAT, &body).await).unwrap();
    assert_eq!(got["prompt_cache_retention"], "in_memory");
    let explicit = chat_with(json!({ "prompt_cache_retention": "24h" }));
    let answer = gateway.post(&tenant, CHAT, &explicit).await;
    assert_eq!(answer.error().0, 400);
    assert_eq!(answer.error().2, "prompt_cache_retention");
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_hard_limit_adds_the_maximum() {
    let config = format!("{}max_output_tokens = 77\n", BIG);
    let both = start(&config).await;
    let (gateway, _) = &both;
    let tenant = gateway.tenant("1").await;
    let no_limit = sent(&both, &tenant, CHAT, &chat_request().to_string()).await;
    assert!(!no_limit.contains("max_"), "{no_limit}");
    gateway.hard_limit(&tenant, true, 1000).await;
    for (path, field) in [
        (CHAT, "max_completion_tokens"),
        ("/v1/responses", "max_output_tokens"),
        ("/v1/completions", "max_tokens"),
    ] {
        let body = json!({ "model": "big", "prompt": "x" }).to_string();
        let got: Value = serde_json::from_str(&sent(&both, &tenant, path, &body).await).unwrap();
        assert_eq!(got[field], 77, "{path}");
        for explicit in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
            let body = json!({ "model": "big", explicit: 5 }).to_string();
            let got: Value =
                serde_json::from_str(&sent(&both, &tenant, path, &body).await).unwrap();
            assert_eq!(got[explicit], 5);
            // Servers ignore a limit that is not of their wire.
            let is_followed = explicit == field || (path, explicit) == (CHAT, "max_tokens");
            let expected = if is_followed { 1 } else { 2 };
            assert_eq!(got.to_string().matches("\"max_").count(), expected, "{path} {got}");
            assert_eq!(
                got[field],
                if explicit == field {
                    json!(5)
                } else if is_followed {
                    Value::Null
                } else {
                    json!(77)
                }
            );
        }
    }
}

#[tokio::test]
async fn stream_usage_is_requested_and_removed_again() {
    let both = start(BIG).await;
    let (gateway, upstream) = &both;
    let tenant = gateway.tenant("free").await;
    let text = event(&json!({ "id": "c", "choices": [{ "delta": { "content": "Hi" } }] }));
    let last = event(&json!({ "id": "c", "choices": [], "usage": usage(30, 12) }));
    let done = "data: [DONE]\n\n".to_owned();
    let pieces = [text.clone(), last.clone(), done.clone()];
    let whole = pieces.concat();
    // The result is the same for every chunking.
    for size in [1, 7, 40, 10_000] {
        for asked in [None, Some(false), Some(true)] {
            let chunks =
                whole.as_bytes().chunks(size).map(|c| String::from_utf8_lossy(c).into_owned());
            upstream.script([Script::events(chunks)]);
            let mut body = chat_with(json!({ "stream": true }));
            if let Some(asked) = asked {
                body["stream_options"] = json!({ "include_usage": asked });
            }
            let mut begun = gateway.stream(&tenant, &body).await;
            let (got, ended) = begun.rest().await;
            assert!(ended);
            let expected =
                if asked == Some(true) { whole.clone() } else { format!("{text}{done}") };
            assert_eq!(got, expected, "{size} {asked:?}");
            assert_eq!(upstream.last().json()["stream_options"]["include_usage"], true);
            gateway.is_idle().await;
        }
    }
    assert_eq!(gateway.usage(&tenant.organization, "completions").await, [12, 360, 144]);
    // Usage is not requested for a response that is not streamed.
    assert!(!sent(&both, &tenant, CHAT, &chat_request().to_string()).await.contains("stream"));
}

#[tokio::test]
async fn transparent_jpeg_images_are_refused() {
    let both = start(&format!("{BIG}[tiers.free.limits.big]\nrpm = 10\n")).await;
    let (gateway, upstream) = &both;
    let tenant = gateway.tenant("free").await;
    let body = |format: &str| json!({ "model": "big", "prompt": "x", "background": "transparent", "output_format": format });
    for path in ["/v1/images/generations", "/v1/images/edits"] {
        let answer = gateway.post(&tenant, path, &body("jpeg")).await;
        assert_eq!(answer.error(), (400, "invalid_value".into(), "background".into()));
        assert_eq!(answer.limits("requests")[1], "10");
    }
    let form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nbig\r\n--b\r\n\
        Content-Disposition: form-data; name=\"background\"\r\n\r\ntransparent\r\n--b\r\n\
        Content-Disposition: form-data; name=\"output_format\"\r\n\r\njpeg\r\n--b--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let post = hyper::Method::POST;
    let answer = gateway.with(&tenant, post, "/v1/images/edits", &kind, form).await;
    assert_eq!(answer.error(), (400, "invalid_value".into(), "background".into()));
    assert_eq!(upstream.count(), 0);
    for format in ["png", "webp"] {
        assert_eq!(
            gateway.post(&tenant, "/v1/images/generations", &body(format)).await.status,
            200
        );
        let refs = json!({ "model": "big", "images": [{ "image_url": "data:x" }], "background": "opaque", "output_format": "jpeg" });
        assert_eq!(gateway.post(&tenant, "/v1/images/edits", &refs).await.status, 200);
    }
}

#[tokio::test]
async fn moderations_have_a_default_model() {
    let (gateway, _upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let body = json!({ "input": "x" });
    let answer = gateway.post(&tenant, "/v1/moderations", &body).await;
    assert_eq!(answer.error(), (400, "missing_required_parameter".into(), "model".into()));
    let both = start(&format!("{BIG}[defaults]\nmoderation_model = \"big\"\n")).await;
    let tenant = both.0.tenant("free").await;
    let got = sent(&both, &tenant, "/v1/moderations", &body.to_string()).await;
    assert_eq!(got, r#"{"input":"x","model":"big-2026-08-01"}"#);
}

#[tokio::test]
async fn client_headers_about_the_upstream_are_not_forwarded() {
    let (gateway, upstream) = start(BIG).await;
    let tenant = gateway.tenant("free").await;
    let authorization = format!("Bearer {}", tenant.key);
    let headers = [
        ("authorization", &*authorization),
        ("content-type", "application/json"),
        ("cookie", "a=b"),
        ("proxy-authorization", "Basic x"),
        ("x-forwarded-for", "10.0.0.1"),
        ("forwarded", "for=10.0.0.1"),
        ("via", "1.1 me"),
        ("accept-encoding", "gzip, br"),
        ("connection", "x-hop, keep-alive"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("openai-organization", &*tenant.organization),
        ("openai-project", &*tenant.project),
        ("openai-beta", "x=v2"),
        ("idempotency-key", "abc"),
        ("x-api-key", &*tenant.key),
        ("x-goog-api-key", &*tenant.key),
        ("x-amz-security-token", "secret"),
    ];
    upstream.script([Script::json(&chat(&usage(1, 1)))]);
    let post = hyper::Method::POST;
    let answer = gateway.send(post, CHAT, &headers, chat_request().to_string()).await;
    assert_eq!(answer.status, 200);
    let got = upstream.last().headers;
    assert_eq!(got["authorization"], format!("Bearer {}", crate::common::gateway::UPSTREAM_KEY));
    assert_eq!(got["host"], upstream.address.to_string());
    assert_eq!(
        (&got["openai-beta"], &got["idempotency-key"]),
        (&"x=v2".parse().unwrap(), &"abc".parse().unwrap())
    );
    for name in [
        "cookie",
        "proxy-authorization",
        "x-forwarded-for",
        "forwarded",
        "via",
        "x-hop",
        "te",
        "openai-organization",
        "openai-project",
        "x-api-key",
        "x-goog-api-key",
        "x-amz-security-token",
    ] {
        assert!(!got.contains_key(name), "{name}");
    }
    // The gateway reads usage in the response, which must therefore not be compressed.
    assert_eq!(got["accept-encoding"], "identity");
}
