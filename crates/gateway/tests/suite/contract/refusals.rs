//! Refusals because of a limit: their messages, and what they count.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, chat_with};
use crate::common::upstream::{Script, Upstream, chat, usage};

const CHAT: &str = "/v1/chat/completions";

fn refused(answer: &Answer, kind: &str, message: &str, wait_ms: u64) {
    assert_eq!(answer.error(), (429, "rate_limit_exceeded".into(), String::new()));
    assert_eq!(answer.json()["error"]["type"], kind);
    assert_eq!(answer.json()["error"]["param"], Value::Null);
    assert_eq!(answer.message(), message);
    assert_eq!(answer.header("retry-after"), wait_ms.div_ceil(1000).max(1).to_string());
    assert_eq!(answer.header("retry-after-ms"), wait_ms.to_string());
    assert_eq!(answer.header("x-should-retry"), "");
}

async fn limited(tier: &str) -> (TestGateway, Upstream, Tenant) {
    let (gateway, upstream) = start(&format!("{BIG}{tier}")).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

/// Requests 60 tokens, all of them used, twice.
async fn sixty_twice(gateway: &TestGateway, upstream: &Upstream, tenant: &Tenant) -> Answer {
    upstream.script([Script::json(&chat(&usage(10, 50)))]);
    let input = json!([{ "content": "x".repeat(4 * 60) }]);
    let body = chat_with(json!({ "max_tokens": 60, "messages": input }));
    assert_eq!(gateway.post(tenant, CHAT, &body).await.status, 200);
    gateway.is_idle().await;
    gateway.post(tenant, CHAT, &body).await
}

#[tokio::test]
async fn requests_a_minute() {
    let (gateway, _upstream, tenant) = limited("[tiers.free.limits.big]\nrpm = 3\n").await;
    for _ in 0..3 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
    }
    let message = |wait: &str| {
        format!(
            "Rate limit reached for big in organization {} on requests per min (RPM): Limit 3, \
             Used 3, Requested 1. Please try again in {wait}.",
            tenant.organization
        )
    };
    // Clients that wait at once are served one after the other.
    let mut clients = Vec::new();
    for (wait, ms) in [("20s", 20_000), ("40s", 40_000), ("60s", 60_000)] {
        let mut client = gateway.connect().await;
        refused(&client.chat(&tenant).await, "requests", &message(wait), ms);
        clients.push(client);
    }
    // One that asks again too early waits no longer for that.
    gateway.clock.advance(SECOND);
    refused(&clients[0].chat(&tenant).await, "requests", &message("19s"), 19_000);
    refused(&clients[1].chat(&tenant).await, "requests", &message("39s"), 39_000);
    gateway.clock.advance(19 * SECOND);
    assert_eq!(clients[0].chat(&tenant).await.status, 200);
    assert_eq!(
        gateway.metric("gateway_rejected_total{dimension=\"rpm\",scope=\"organization\"}").await,
        5
    );
}

#[tokio::test]
async fn requests_a_day() {
    let (gateway, _upstream, tenant) = limited("[tiers.free.limits.big]\nrpd = 2\n").await;
    for _ in 0..2 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
    }
    let message = format!(
        "Rate limit reached for big in organization {} on requests per day (RPD): Limit 2, Used \
         2, Requested 1. Please try again in 43200s.",
        tenant.organization
    );
    refused(&gateway.chat(&tenant).await, "requests", &message, 43_200_000);
}

#[tokio::test]
async fn tokens() {
    let check = async |tier: &str, words: &str, wait: &str, ms: u64| {
        let (gateway, upstream, tenant) = limited(tier).await;
        let answer = sixty_twice(&gateway, &upstream, &tenant).await;
        let message = format!(
            "Rate limit reached for big in organization {} on {words}: Limit 100, Used 60, \
             Requested 60. Please try again in {wait}.",
            tenant.organization
        );
        refused(&answer, "tokens", &message, ms);
    };
    let free = "[tiers.free.limits.big]\n";
    check(&format!("{free}tpm = 100\n"), "tokens per min (TPM)", "12s", 12_000).await;
    check(&format!("{free}tpd = 100\n"), "tokens per day (TPD)", "17280s", 17_280_000).await;
    // A long context draws on its own limit instead of the usual one.
    let long = format!("long_context_tokens = 50\n{free}tpm = 10\nlong_context_tpm = 100\n");
    check(&long, "long-context tokens per min (TPM)", "12s", 12_000).await;
    let long = format!("long_context_tokens = 50\n{free}tpd = 100\nlong_context_tpm = 10000\n");
    check(&long, "tokens per day (TPD)", "17280s", 17_280_000).await;
}

#[tokio::test]
async fn a_short_wait_is_returned_in_milliseconds() {
    let (gateway, upstream, tenant) = limited("[tiers.free.limits.big]\ntpm = 6000\n").await;
    upstream.script([Script::json(&chat(&usage(0, 6000)))]);
    let all = chat_with(json!({ "max_tokens": 6000 }));
    assert_eq!(gateway.post(&tenant, CHAT, &all).await.status, 200);
    gateway.is_idle().await;
    let message = format!(
        "Rate limit reached for big in organization {} on tokens per min (TPM): Limit 6000, Used \
         6000, Requested 1. Please try again in 10ms.",
        tenant.organization
    );
    refused(&gateway.chat(&tenant).await, "tokens", &message, 10);
    gateway.clock.advance(9_999);
    assert_eq!(gateway.chat(&tenant).await.status, 429);
}

#[tokio::test]
async fn images() {
    let (gateway, upstream, tenant) = limited("[tiers.free.limits.big]\nipm = 4\n").await;
    // Three are requested, two are generated.
    upstream.script([Script::json(&json!({ "data": [{ "url": "a" }, { "url": "b" }] }))]);
    let images = |n: u64| json!({ "model": "big", "prompt": "A cat", "n": n });
    let path = "/v1/images/generations";
    assert_eq!(gateway.post(&tenant, path, &images(3)).await.status, 200);
    gateway.is_idle().await;
    let message = format!(
        "Rate limit reached for big in organization {} on images per min (IPM): Limit 4, Used 2, \
         Requested 3. Please try again in 15s.",
        tenant.organization
    );
    refused(&gateway.post(&tenant, path, &images(3)).await, "tokens", &message, 15_000);
    let one = json!({ "model": "big", "prompt": "A cat" });
    assert_eq!(gateway.post(&tenant, path, &one).await.status, 200);
    let large = gateway.post(&tenant, path, &images(5)).await;
    let message = format!(
        "Request too large for big in organization {} on images per min (IPM): Limit 4, Requested \
         5.",
        tenant.organization
    );
    assert_eq!(large.message(), message);
    assert_eq!(large.header("x-should-retry"), "false");
}

/// A form with this many seconds of audio in an unknown format.
pub(super) async fn transcribe(gateway: &TestGateway, tenant: &Tenant, seconds: usize) -> Answer {
    let mut body = b"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nbig\r\n\
        --b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.mp3\"\r\n\r\n"
        .to_vec();
    body.resize(body.len() + seconds * 16_000, 7);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    gateway.with(tenant, Method::POST, "/v1/audio/transcriptions", &kind, body).await
}

#[tokio::test]
async fn audio_minutes() {
    let tier = "[tiers.free.limits.big]\naudio_minutes_per_minute = 1\n";
    let (gateway, upstream, tenant) = limited(tier).await;
    upstream.script([Script::json(&json!({ "text": "Hello.", "duration": 30.0 }))]);
    assert_eq!(transcribe(&gateway, &tenant, 40).await.status, 200);
    gateway.is_idle().await;
    let answer = transcribe(&gateway, &tenant, 45).await;
    let message = format!(
        "Rate limit reached for big in organization {} on audio minutes per min (AMPM): Limit 1, \
         Used 1, Requested 1. Please try again in 15s.",
        tenant.organization
    );
    refused(&answer, "tokens", &message, 15_000);
    assert_eq!(transcribe(&gateway, &tenant, 30).await.status, 200);
}

#[tokio::test]
async fn a_project_limit_names_the_project() {
    let (gateway, upstream, tenant) = limited("[tiers.free.limits.big]\ntpm = 1000\n").await;
    gateway.project_limits(&tenant, "big", json!({ "max_tokens_per_1_minute": 100 })).await;
    let answer = sixty_twice(&gateway, &upstream, &tenant).await;
    let message = format!(
        "Rate limit reached for big in project {} on tokens per min (TPM): Limit 100, Used 60, \
         Requested 60. Please try again in 12s.",
        tenant.project
    );
    refused(&answer, "tokens", &message, 12_000);
    // The organization has capacity for its other projects.
    let other = gateway.project(&tenant.organization, Value::Null).await;
    assert_eq!(gateway.chat(&other).await.status, 200);
}

#[tokio::test]
async fn a_request_above_the_whole_limit_is_refused_without_a_retry_time() {
    let (gateway, upstream, tenant) =
        limited("[tiers.free.limits.big]\nrpm = 10\ntpm = 100\n").await;
    let answer = gateway.post(&tenant, CHAT, &chat_with(json!({ "max_tokens": 101 }))).await;
    assert_eq!(answer.error(), (429, "rate_limit_exceeded".into(), String::new()));
    let message = format!(
        "Request too large for big in organization {} on tokens per min (TPM): Limit 100, \
         Requested 101.",
        tenant.organization
    );
    assert_eq!((answer.message(), answer.header("x-should-retry")), (message, "false"));
    assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), ("", ""));
    assert_eq!(answer.limits("requests")[1], "9");
    assert_eq!(answer.limits("tokens")[1], "100");
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn the_longest_wait_of_several_limits_is_returned() {
    let (gateway, upstream, tenant) =
        limited("[tiers.free.limits.big]\nrpm = 1\ntpm = 100\ntpd = 10000\n").await;
    // 80 of 100 tokens are used, so 60 need 24 s; the request limit alone needs 60 s.
    upstream.script([Script::json(&chat(&usage(30, 50)))]);
    let body = chat_with(json!({ "max_tokens": 60 }));
    assert_eq!(gateway.post(&tenant, CHAT, &body).await.status, 200);
    gateway.is_idle().await;
    let answer = gateway.post(&tenant, CHAT, &body).await;
    assert!(answer.message().contains("(RPM)"), "{}", answer.message());
    assert_eq!(answer.header("retry-after"), "60");
}

#[tokio::test]
async fn a_refusal_counts_one_request_and_nothing_else() {
    let tier = "[tiers.free.limits.big]\nrpm = 10\nrpd = 1000\ntpm = 100\ntpd = 5000\n";
    let (gateway, upstream, tenant) = limited(tier).await;
    gateway.project_limits(&tenant, "big", json!({ "max_requests_per_1_minute": 8 })).await;
    let first = sixty_twice(&gateway, &upstream, &tenant).await;
    assert_eq!((first.limits("requests")[1], first.limits("tokens")[1]), ("8", "40"));
    for left in ["7", "6", "5", "4", "3", "2", "1", "0", "0", "0"] {
        let answer = gateway.post(&tenant, CHAT, &chat_with(json!({ "max_tokens": 60 }))).await;
        assert_eq!(answer.status, 429);
        assert_eq!((answer.limits("requests")[1], answer.limits("tokens")[1]), (left, "40"));
    }
    // The organization's counter is at its limit: a request fits as soon as one is refilled. Neither the
    // project's own limit nor days and tokens were drawn on.
    gateway.clock.advance(6_000_000);
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    assert_eq!(
        gateway.metric("gateway_tokens_total{model=\"big-2026-08-01\",kind=\"output\"}").await,
        52
    );
}

/// One team that exceeds its own limits, or has no money left, takes nothing from another one.
#[tokio::test]
async fn a_refused_project_costs_its_neighbours_nothing() {
    let tier = "[tiers.free.limits.big]\nrpm = 20\ntpm = 100000\n";
    let limits = [
        ("requests", json!({ "max_requests_per_1_minute": 1 })),
        ("tokens", json!({ "max_tokens_per_1_minute": 100 })),
        ("money", Value::Null),
    ];
    for (name, limits) in limits {
        let (gateway, upstream, loud) = limited(tier).await;
        let quiet = gateway.project(&loud.organization, Value::Null).await;
        match limits.is_null() {
            true => gateway.hard_limit(&loud, true, 0).await,
            false => gateway.project_limits(&loud, "big", limits).await,
        }
        let body = chat_with(json!({ "max_tokens": 90 }));
        let mut passed = 0;
        for _ in 0..40 {
            passed += usize::from(gateway.post(&loud, CHAT, &body).await.status == 200);
        }
        assert_eq!(passed, upstream.count(), "{name}");
        assert!(passed < 10, "{name}: {passed}");
        for _ in passed..20 {
            assert_eq!(gateway.chat(&quiet).await.status, 200, "{name}");
        }
        assert_eq!(gateway.chat(&quiet).await.status, 429, "{name}: the organization's own limit");
    }
}

#[tokio::test]
async fn malformed_requests_count_nothing() {
    let (gateway, _upstream, tenant) = limited("[tiers.free.limits.big]\nrpm = 10\n").await;
    for body in ["{", "[]", "{\"model\":\"big\",\"model\":\"big\"}", "{\"model\":\"none\"}", ""] {
        assert!(gateway.post_text(&tenant, CHAT, body).await.status.is_client_error());
    }
    let stranger = Tenant { key: format!("{}x", tenant.key), ..tenant.clone() };
    assert_eq!(gateway.chat(&stranger).await.status, 401);
    assert_eq!(gateway.chat(&tenant).await.limits("requests")[1], "9");
}

#[tokio::test]
async fn a_failed_upstream_request_is_counted_and_its_tokens_are_released() {
    let tier = "[tiers.free.limits.big]\nrpm = 10\nrpd = 20\ntpm = 100\ntpd = 1000\n";
    let (gateway, upstream, tenant) = limited(tier).await;
    let error = json!({ "error": { "message": "x" } });
    let html = Script::new(200, "text/html; charset=utf-8", "<p>");
    upstream.script([Script::error(500, &error), html, Script::error(400, &error)]);
    let body = chat_with(json!({ "max_tokens": 90 }));
    for left in ["9", "8", "7"] {
        let answer = gateway.post(&tenant, CHAT, &body).await;
        assert_ne!(answer.status, 200);
        assert_eq!((answer.limits("requests")[1], answer.limits("tokens")[1]), (left, "10"));
        gateway.is_idle().await;
    }
    assert_eq!(gateway.chat(&tenant).await.limits("tokens")[1], "99");
    assert_eq!(gateway.cost(&tenant.organization).await, 23);
}

#[tokio::test]
async fn a_client_that_waits_for_retry_after_is_served() {
    let (gateway, _upstream, tenant) = limited("[tiers.free.limits.big]\nrpm = 4\n").await;
    let mut due = vec![0; 12];
    let mut now = 0;
    let mut rounds = 0;
    while let Some(next) = due.iter().min().copied() {
        gateway.clock.advance((next - now) * 1000);
        now = next;
        let at = due.iter().position(|due| *due == next).expect("it is there");
        let answer = gateway.chat(&tenant).await;
        rounds += 1;
        match answer.status.as_u16() {
            200 => drop(due.swap_remove(at)),
            _ => {
                let wait: u64 = answer.header("retry-after-ms").parse().expect("a number");
                assert!(wait <= 60_000);
                due[at] = now + wait;
            }
        }
        assert!(rounds < 200, "clients wait and wait: {due:?}");
    }
}

#[tokio::test]
async fn a_vector_store_has_one_limit_for_both_of_its_paths() {
    let (gateway, upstream, tenant) = limited("").await;
    let made = |id: &str| Script::json(&json!({ "id": id, "object": "vector_store" }));
    upstream.script([made("vs_1"), made("vs_2"), made("file-1")]);
    for _ in 0..2 {
        assert_eq!(gateway.post(&tenant, "/v1/vector_stores", &json!({})).await.status, 200);
    }
    let form =
        "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--b--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    assert_eq!(gateway.with(&tenant, Method::POST, "/v1/files", &kind, form).await.status, 200);
    let (one, many) = (json!({ "file_id": "file-1" }), json!({ "file_ids": ["file-1"] }));
    for count in 0..300 {
        let (path, body) = match count % 2 {
            0 => ("/v1/vector_stores/vs_1/files", &one),
            _ => ("/v1/vector_stores/vs_1/file_batches", &many),
        };
        assert_eq!(gateway.post(&tenant, path, body).await.status, 200);
    }
    for path in ["/v1/vector_stores/vs_1/files", "/v1/vector_stores/vs_1/file_batches"] {
        let answer = gateway.post(&tenant, path, &one).await;
        assert_eq!(answer.error().1, "rate_limit_exceeded");
        assert!(
            answer.message().contains("Limit 300, Used 300, Requested 1"),
            "{}",
            answer.message()
        );
        assert!(!answer.header("retry-after-ms").is_empty());
    }
    // Reading does not count, and another store has its own limit.
    assert_eq!(gateway.get(&tenant, "/v1/vector_stores/vs_1/files").await.status, 200);
    assert_eq!(gateway.post(&tenant, "/v1/vector_stores/vs_2/files", &one).await.status, 200);
    gateway.clock.advance(SECOND / 5);
    assert_eq!(gateway.post(&tenant, "/v1/vector_stores/vs_1/files", &one).await.status, 200);
}
