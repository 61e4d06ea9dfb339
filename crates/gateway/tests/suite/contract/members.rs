//! Members of a body that could reach another server, another account or another model.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{TestGateway, chat_with, config};
use crate::common::upstream::Upstream;

const CHAT: &str = "/v1/chat/completions";
const FREE: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n";

#[tokio::test]
async fn members_that_choose_a_server_are_removed() {
    let (gateway, upstream) = start(FREE).await;
    let tenant = gateway.tenant("free").await;
    let foreign = json!({
        "api_base": "http://10.0.0.1/v1",
        "api_key": "sk-other",
        "base_url": ["http://10.0.0.1/v1"],
        "custom_llm_provider": null,
        "extra_headers": { "host": "x" },
        "user_config": { "model_list": [] },
    });
    // An object within the body is a tool's own affair.
    let tools = json!([{ "type": "mcp", "server_url": "https://tools.example", "api_key": "k" }]);
    for (path, own) in [
        (CHAT, json!({ "model": "big", "messages": [], "tools": tools, "user": "u" })),
        ("/v1/responses", json!({ "model": "big", "input": "x", "tools": tools })),
        ("/v1/embeddings", json!({ "model": "big", "input": "x" })),
        (
            "/v1/messages?beta=true",
            json!({ "model": "big", "max_tokens": 5, "messages": [], "tools": tools }),
        ),
        ("/v1/conversations", json!({ "items": [] })),
    ] {
        let mut body = own.clone();
        for (name, value) in foreign.as_object().unwrap() {
            body[name] = value.clone();
        }
        assert_eq!(gateway.post(&tenant, path, &body).await.status, 200, "{path}");
        let received = upstream.last().json();
        for name in foreign.as_object().unwrap().keys() {
            assert_eq!(received.get(name), None, "{path} {name}");
        }
        for (name, value) in own.as_object().unwrap() {
            let value = if name == "model" { &json!("big-2026-08-01") } else { value };
            assert_eq!(&received[name], value, "{path} {name}");
        }
    }
}

#[tokio::test]
async fn a_body_stays_valid_whichever_members_are_removed() {
    let (gateway, upstream) = start(FREE).await;
    let tenant = gateway.tenant("free").await;
    for text in [
        r#"{"api_base":"x","model":"big","messages":[]}"#,
        r#"{ "model" : "big" , "api_base" : "x" , "messages" : [ ] }"#,
        r#"{"model":"big","messages":[],"api_base":"x"}"#,
        "{\"model\":\"big\",\"messages\":[],\"api_base\":\"x\",\n\"api_key\":{\"a\":[1]}\n}",
        r#"{"api_base":"x","api_key":1,"model":"big","base_url":2,"messages":[],"headers":3}"#,
        r#"{"\u0061pi_base":"x","model":"big","messages":[],"stream":true}"#,
    ] {
        assert_eq!(gateway.post_text(&tenant, CHAT, text).await.status, 200, "{text}");
        let mut received = upstream.last().json();
        let members = received.as_object_mut().unwrap();
        for added in ["prompt_cache_retention", "stream", "stream_options"] {
            members.remove(added);
        }
        assert_eq!(received, json!({ "model": "big-2026-08-01", "messages": [] }), "{text}");
    }
    // Nothing remains, in a body that the gateway does not change otherwise.
    let nothing = r#"{ "api_base": "x", "api_key": "y" }"#;
    assert_eq!(gateway.post_text(&tenant, "/v1/conversations", nothing).await.status, 200);
    assert_eq!(upstream.last().json(), json!({}));
}

#[tokio::test]
async fn parts_of_a_form_are_removed() {
    let (gateway, upstream) = start(FREE).await;
    let tenant = gateway.tenant("free").await;
    let part = |name: &str, value: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    let form = part("api_base", "http://10.0.0.1")
        + &part("model", "big")
        + &part("extra_headers[host]", "x")
        + &part("prompt", "a cat")
        + &part("api_key", "sk-other")
        + "--b--\r\n";
    let answer = gateway.with(&tenant, Method::POST, "/v1/images/edits", &kind, form).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let expected = part("model", "big-2026-08-01") + &part("prompt", "a cat") + "--b--\r\n";
    assert_eq!(upstream.last().body, expected);
}

#[tokio::test]
async fn an_upstream_has_a_list_of_its_own() {
    let upstream = Upstream::start().await;
    let own = config(&upstream, &format!("drop_members = [\"provider\"]\n{FREE}"));
    let gateway = TestGateway::start(&own).await;
    let tenant = gateway.tenant("free").await;
    let body = chat_with(json!({ "provider": "x", "api_base": "y" }));
    assert_eq!(gateway.post(&tenant, CHAT, &body).await.status, 200);
    let received = upstream.last().json();
    assert_eq!((received.get("provider"), &received["api_base"]), (None, &json!("y")));
}

#[tokio::test]
async fn other_models_to_try_are_refused_where_limits_apply() {
    for (config, is_refused) in [(BIG, true), (FREE, false)] {
        let (gateway, upstream) = start(config).await;
        let tenant = gateway.tenant("free").await;
        for (name, value) in [
            ("fallbacks", json!(["dear"])),
            ("fallbacks", json!([{ "model": "dear" }])),
            ("models", json!(["big", "dear"])),
            ("model_list", json!({ "x": 1 })),
            ("context_window_fallbacks", json!("dear")),
        ] {
            for path in [CHAT, "/v1/messages"] {
                let body = chat_with(json!({ "max_tokens": 5, name: value }));
                let before = upstream.count();
                let answer = gateway.post(&tenant, path, &body).await;
                let status = if is_refused { 400 } else { 200 };
                assert_eq!(answer.status.as_u16(), status, "{name} {path} {}", answer.text());
                assert_eq!(upstream.count() - before, usize::from(!is_refused));
                if is_refused && path == CHAT {
                    let code = "other_models_not_supported".to_owned();
                    assert_eq!(answer.error(), (400, code, name.to_owned()));
                }
            }
        }
        for value in [json!([]), json!({}), Value::Null] {
            let body = chat_with(json!({ "fallbacks": value }));
            assert_eq!(gateway.post(&tenant, CHAT, &body).await.status, 200, "{value}");
        }
    }
}
