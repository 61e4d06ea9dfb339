//! Paths whose cost the gateway does not know, and connections that it does not pass on.

use hyper::Method;
use serde_json::json;

use super::{BIG, start};
use crate::common::upstream::{Script, usage};

/// The same model without a price.
const FREE: &str = "[models.\"big-2026-08-01\"]\naliases = [\"big\"]\n";
const TOKENS: &str = "[tiers.free.limits.big]\ntpm = 1000\n";
const NAMED: &str = "[server]\npass_through = [\"/v1/rerank\", \"/v1/realtime/*\"]\n";

#[tokio::test]
async fn a_path_of_unknown_cost_is_closed_where_limits_apply() {
    for (config, is_open, mints) in [
        (BIG.to_owned(), false, false),
        (format!("{FREE}{TOKENS}"), false, false),
        (FREE.to_owned(), true, false),
        (format!("{BIG}{NAMED}"), true, true),
    ] {
        let (gateway, upstream) = start(&config).await;
        let tenant = gateway.tenant("free").await;
        let body = json!({ "model": "big", "query": "x" });
        for (path, is_open) in [("/v1/rerank", is_open), ("/v1/realtime/client_secrets", mints)] {
            let before = upstream.count();
            let answer = gateway.post(&tenant, path, &body).await;
            let expected = match is_open {
                true => (200, String::new()),
                false => (404, "path_not_open".to_owned()),
            };
            let code = if is_open { String::new() } else { answer.error().1 };
            assert_eq!((answer.status.as_u16(), code), expected, "{config} {path}");
            assert_eq!(upstream.count() - before, usize::from(is_open), "{config} {path}");
        }
    }
}

#[tokio::test]
async fn usage_on_a_named_path_is_counted() {
    let (gateway, upstream) = start(&format!("{BIG}{TOKENS}{NAMED}")).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::json(&json!({ "results": [], "usage": usage(300, 100) }))]);
    let answer = gateway.post(&tenant, "/v1/rerank", &json!({ "model": "big" })).await;
    assert_eq!(answer.status, 200);
    gateway.is_idle().await;
    assert_eq!(gateway.chat(&tenant).await.limits("tokens")[1], "599");
}

#[tokio::test]
async fn an_upgrade_is_no_usual_request() {
    let (gateway, upstream) = start(FREE).await;
    let tenant = gateway.tenant("free").await;
    for path in ["/v1/realtime?model=big", "/v1/responses", "/v1/models"] {
        let headers = [("upgrade", "websocket"), ("connection", "Upgrade")];
        let answer = gateway.with(&tenant, Method::GET, path, &headers, "").await;
        assert_eq!(
            (answer.status.as_u16(), answer.error().1),
            (501, "upgrade_not_supported".into())
        );
    }
    assert_eq!(upstream.count(), 0);
    // Another version of HTTP is only offered.
    let headers = [("upgrade", "h2c"), ("connection", "Upgrade, HTTP2-Settings")];
    assert_eq!(gateway.with(&tenant, Method::GET, "/v1/models", &headers, "").await.status, 200);
}

#[tokio::test]
async fn the_wait_of_a_model_server_is_passed_on_with_every_status() {
    let (gateway, upstream) = start(FREE).await;
    let tenant = gateway.tenant("free").await;
    for status in [400, 409, 429, 500, 503] {
        let error = json!({ "error": { "message": "busy" } });
        upstream.script([Script::error(status, &error).header("retry-after", "7")]);
        let answer = gateway.chat(&tenant).await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (status, "7"));
    }
}
