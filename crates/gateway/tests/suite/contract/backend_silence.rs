//! Backends that take a request and answer nothing: when another one gets it, and when it is waited for.

use std::time::Duration;

use serde_json::{Value, json};

use super::backends::{CHAT, several, two};
use super::{BIG, start};
use crate::common::gateway::{Tenant, TestGateway, chat_with};
use crate::common::upstream::{Gate, Script, Step, Upstream, chat, event, usage};

/// A backend that takes the connection and the request, and answers nothing.
#[tokio::test]
async fn a_silent_backend_is_left_for_another_one_where_that_is_safe() {
    const SILENCE: &str = "first_byte_timeout_ms = 50";
    for streams in [false, true] {
        let body = chat_with(json!({ "stream": streams }));
        let two = two(SILENCE).await;
        two.a.script((0..3).map(|_| Script::json(&json!({})).before(Step::Hang)));
        if streams {
            let answer = event(&json!({ "choices": [], "usage": usage(3, 2) }));
            two.b.script((0..3).map(|_| Script::events([&*answer, "data: [DONE]\n\n"])));
        }
        for count in 1..=3 {
            let answer = two.gateway.post(&two.tenant, CHAT, &body).await;
            assert_eq!((answer.status.as_u16(), two.counts()), (200, (count, count)));
        }
        let line = "gateway_upstream_failures_total{backend=\"main/a\",reason=\"timeout\"}";
        assert_eq!(two.gateway.metric(line).await, 3);
        // It counts for the breaker, and each request is charged once.
        assert_eq!(two.gateway.metric("gateway_backend_available{backend=\"main/a\"}").await, 0);
        two.gateway.is_idle().await;
        let used = two.gateway.usage(&two.tenant.organization, "completions").await;
        assert_eq!(used, [3, 9, 6]);
        assert_eq!(two.gateway.cost(&two.tenant.organization).await, 3 * 23);
        assert!(two.gateway.log().contains("instead: it did not answer in time"));
    }
}

/// What may not be sent twice, and what no other backend takes, is waited for.
#[tokio::test]
async fn a_silent_backend_is_waited_for_where_no_other_one_may_answer() {
    let never = "first_byte_timeout_ms = 20\nretry_unanswered = false";
    let background = json!({ "model": "big", "background": true });
    for (settings, path, body) in [
        (never, CHAT, chat_with(json!({}))),
        ("first_byte_timeout_ms = 20", "/v1/responses", background),
    ] {
        let two = two(settings).await;
        is_waited_for(&two.gateway, &two.tenant, &two.a, (path, &body)).await;
        assert_eq!(two.counts(), (1, 0), "{settings} {path}");
    }
    let (gateway, only) = start(&format!("first_byte_timeout_ms = 20\n{BIG}")).await;
    let tenant = gateway.tenant("free").await;
    is_waited_for(&gateway, &tenant, &only, (CHAT, &chat_with(json!({})))).await;
    assert_eq!(only.count(), 1);
}

async fn is_waited_for(
    gateway: &TestGateway,
    tenant: &Tenant,
    silent: &Upstream,
    (path, body): (&str, &Value),
) {
    let gate = Gate::closed();
    silent.script([Script::json(&chat(&usage(3, 2))).before(Step::Wait(gate.clone()))]);
    let asked = gateway.post(tenant, path, body);
    tokio::pin!(asked);
    // Several times as long as it is waited for where another one may answer.
    let patience = Duration::from_millis(120);
    assert!(tokio::time::timeout(patience, &mut asked).await.is_err(), "nothing has answered");
    gate.open(1);
    assert_eq!(asked.await.status, 200, "{path}");
}

/// The time of a model goes before that of its backend.
#[tokio::test]
async fn a_model_has_its_own_time_for_the_first_byte() {
    let (a, b) = (Upstream::start().await, Upstream::start().await);
    let listed = [("a", &a, "first_byte_timeout_ms = 60000"), ("b", &b, "priority = 1")];
    let quick = "[models.quick]\nfree = true\nfirst_byte_timeout_ms = 50\n";
    let gateway = TestGateway::start(&several("", &listed, quick)).await;
    let tenant = gateway.tenant("free").await;
    a.script([Script::json(&json!({})).before(Step::Hang)]);
    let body = json!({ "model": "quick", "messages": [] });
    let answer = gateway.post(&tenant, CHAT, &body).await;
    assert_eq!((answer.status.as_u16(), a.count(), b.count()), (200, 1, 1));
}
