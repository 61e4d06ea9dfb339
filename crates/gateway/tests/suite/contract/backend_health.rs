//! The health of backends: failures, pauses, probes and waits.

use serde_json::{Value, json};

use super::backends::{several, two, two_of};
use super::later::until;
use super::start;
use crate::common::gateway::{SECOND, TestGateway, chat_with, config};
use crate::common::upstream::{Script, Step, Upstream, chat, usage};

fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "server_error", "code": "odd" } })
}

#[tokio::test]
async fn a_backend_that_fails_is_put_aside_and_tried_again() {
    let two = two("").await;
    let available = "gateway_backend_available{backend=\"main/a\"}";
    two.a.script((0..4).map(|_| Script::error(500, &error("odd"))));
    for _ in 0..3 {
        assert_eq!(two.gateway.metric(available).await, 1);
        assert_eq!(two.chat().await.status, 500, "an answer of the model server is passed on");
    }
    assert_eq!(two.gateway.metric(available).await, 0);
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (3, 1)));
    // After a second it is tried, fails, and is put aside for two.
    two.gateway.clock.advance(SECOND);
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (500, (4, 1)));
    two.gateway.clock.advance(SECOND);
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (4, 2)));
    two.gateway.clock.advance(SECOND);
    for served in 5..8 {
        assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (served, 2)));
    }
    assert_eq!(two.gateway.metric(available).await, 1);
    let log = two.gateway.log();
    assert!(log.contains("backend main/a is put aside for 1 s: it answered 500"), "{log}");
    assert!(log.contains("backend main/a is put aside for 2 s"), "{log}");
    assert!(log.contains("backend main/a takes requests again"), "{log}");
}

/// Other requests do not wait for the one that tries a backend.
#[tokio::test]
async fn one_request_at_a_time_tries_a_backend() {
    let two = two("").await;
    two.a.kill();
    for _ in 0..3 {
        assert_eq!(two.chat().await.status, 200);
    }
    two.a.restart().await;
    two.gateway.clock.advance(SECOND);
    two.a.script([Script::json(&json!({})).before(Step::Hang)]);
    let chat = chat_with(json!({}));
    let trial = two.gateway.stream(&two.tenant, &chat);
    tokio::pin!(trial);
    tokio::select! {
        _ = &mut trial => panic!("it hangs"),
        () = two.a.has_received(1) => {}
    }
    for count in 4..7 {
        assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (1, count)));
    }
}

/// With one backend, or with none that is available, requests are tried as ever.
#[tokio::test]
async fn requests_are_tried_where_no_backend_is_available() {
    let (gateway, upstream) = start(super::BIG).await;
    let tenant = gateway.tenant("free").await;
    upstream.script((0..8).map(|_| Script::error(500, &error("odd"))));
    for count in 1..=8 {
        assert_eq!((gateway.chat(&tenant).await.status.as_u16(), upstream.count()), (500, count));
    }
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    let two = two("").await;
    two.a.kill();
    two.b.kill();
    for _ in 0..4 {
        assert_eq!(two.chat().await.error().1, "upstream_error");
    }
    two.a.restart().await;
    two.b.restart().await;
    // Each of the two gets the request that finds out.
    assert_eq!(two.chat().await.status, 200);
    assert_eq!(two.chat().await.status, 200);
}

#[tokio::test]
async fn a_backend_with_too_many_requests_for_a_model_rests_for_as_long_as_it_asks() {
    let (a, b) = (Upstream::start().await, Upstream::start().await);
    let listed = [("a", &a, ""), ("b", &b, "priority = 1")];
    let gateway = TestGateway::start(&several("", &listed, "[models.small]\nfree = true\n")).await;
    let tenant = gateway.tenant("free").await;
    a.script([Script::error(429, &error("busy")).header("retry-after", "7")]);
    let counts = || (a.count(), b.count());
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), counts()), (200, (1, 1)));
    gateway.clock.advance(6 * SECOND);
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), counts()), (200, (1, 2)));
    // Servers limit each model by itself.
    let small = json!({ "model": "small", "messages": [] });
    assert_eq!(gateway.post(&tenant, super::backends::CHAT, &small).await.status, 200);
    assert_eq!(counts(), (2, 2));
    assert_eq!(gateway.metric("gateway_backend_available{backend=\"main/a\"}").await, 1);
    gateway.clock.advance(SECOND);
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), counts()), (200, (3, 2)));
    let line = "gateway_upstream_failures_total{backend=\"main/a\",reason=\"rate_limited\"}";
    assert_eq!(gateway.metric(line).await, 1);
    // No backend rests longer than a minute, even if it asks for a day: then one request tries it.
    a.script([Script::error(429, &error("busy")).header("retry-after", "86400")]);
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    gateway.clock.advance(60 * SECOND);
    let before = a.count();
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), a.count()), (200, before + 1));
}

#[tokio::test]
async fn a_reload_keeps_the_health_of_backends_that_stay() {
    let two = two("").await;
    two.a.kill();
    for _ in 0..3 {
        assert_eq!(two.chat().await.status, 200);
    }
    two.a.restart().await;
    let changed = [("a", &two.a, "weight = 5"), ("b", &two.b, "priority = 2")];
    two.gateway.reload(&several("timeout_ms = 5000", &changed, ""));
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (0, 4)));
    // Under another name it is another one.
    let renamed = [("c", &two.a, ""), ("b", &two.b, "priority = 2")];
    two.gateway.reload(&several("", &renamed, ""));
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (1, 4)));
    assert_eq!(two.gateway.metric("gateway_backend_available{backend=\"main/c\"}").await, 1);
    let page = two.gateway.send(hyper::Method::GET, "/metrics", &[], "").await.text();
    assert!(!page.contains("gateway_backend_available{backend=\"main/a\"}"), "{page}");
}

/// A request that waits for its answer while its backend leaves the configuration gets it.
#[tokio::test]
async fn a_reload_lets_requests_end_at_a_backend_that_leaves() {
    let two = two("").await;
    let gate = crate::common::upstream::Gate::closed();
    let held = Script::json(&chat(&usage(3, 2))).before(Step::Wait(gate.clone()));
    two.a.script([held]);
    let reloading = async {
        two.a.has_received(1).await;
        let only = [("b", &two.b, "")];
        two.gateway.reload(&several("", &only, ""));
        two.gateway.reload(&several("timeout_ms = 5000", &only, ""));
        gate.open(1);
    };
    let (answer, ()) = tokio::join!(two.chat(), reloading);
    assert_eq!(answer.status, 200);
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (1, 1)));
}

#[tokio::test]
async fn probes_put_a_backend_aside_and_bring_it_back() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};
    let status = Arc::new(AtomicU16::new(503));
    let shown = Arc::clone(&status);
    let a = Upstream::answering(move |received| match &*received.path {
        "/health?full=1" => Script::error(shown.load(Ordering::SeqCst), &json!({})),
        _ => Script::json(&chat(&usage(3, 2))),
    });
    let checks = "health_path = \"/health?full=1\"\nhealth_interval_ms = 250";
    let b = Upstream::answering(|_| Script::json(&chat(&usage(3, 2)))).await;
    let two = two_of(a.await, b, checks).await;
    let available = "gateway_backend_available{backend=\"main/a\"}";
    let is = async |expected: u64| {
        until("the probes change it", async || {
            (two.gateway.metric(available).await == expected).then_some(())
        })
        .await;
    };
    is(0).await;
    let chats = |upstream: &Upstream| {
        upstream.received().iter().filter(|one| one.path.contains("/chat/")).count()
    };
    assert_eq!((two.chat().await.status.as_u16(), chats(&two.a), chats(&two.b)), (200, 0, 1));
    status.store(200, Ordering::SeqCst);
    is(1).await;
    assert_eq!((two.chat().await.status.as_u16(), chats(&two.a)), (200, 1));
    let log = two.gateway.log();
    let line = "backend main/a is put aside: its health check failed: it answered 503";
    assert!(log.contains(line), "{log}");
}

#[tokio::test]
async fn the_wait_that_an_upstream_asks_for_passes_with_every_status() {
    let (gateway, upstream) = start(super::BIG).await;
    let tenant = gateway.tenant("free").await;
    let page = Script::new(503, "text/html", "<html>");
    let answered = |status| (status, Script::error(status, &chat(&usage(3, 2))));
    let mut scripts = vec![answered(200), answered(202), (502, page)];
    for status in [400, 404, 409, 422, 425, 429, 500, 501, 503, 529] {
        scripts.push((status, Script::error(status, &error("odd"))));
    }
    for status in [302, 401, 403] {
        scripts.push((502, Script::error(status, &error("odd"))));
    }
    for (status, script) in scripts {
        let waits = script.header("retry-after", "11").header("retry-after-ms", "10500");
        upstream.script([waits]);
        let answer = gateway.chat(&tenant).await;
        let found = (answer.status.as_u16(), answer.header("retry-after"));
        assert_eq!(found, (status, "11"));
        assert_eq!(answer.header("retry-after-ms"), "10500", "{status}");
        upstream.script([Script::json(&json!({})).header("retry-after", "ask inside.example.org")]);
        assert_eq!(gateway.chat(&tenant).await.header("retry-after"), "");
    }
}

/// Without a list, names in metrics and in the log are those of the upstream.
#[tokio::test]
async fn a_single_backend_has_the_name_of_its_upstream() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, super::BIG)).await;
    let tenant = gateway.tenant("free").await;
    upstream.script([Script::error(500, &error("odd"))]);
    gateway.chat(&tenant).await;
    assert_eq!(gateway.metric("gateway_upstream_seconds_count{backend=\"main\"}").await, 1);
    assert_eq!(gateway.metric("gateway_backend_available{backend=\"main\"}").await, 1);
    assert!(gateway.log().contains("upstream main: it answered 500"));
}
