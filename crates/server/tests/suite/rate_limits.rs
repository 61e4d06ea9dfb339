//! The limits that providers report, as clients read them and are notified of them, and the waits for
//! them.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::hosted::{end, environment, message, stream_with};
use crate::login_service::{LoginService, Reply};

/// A response of the model with these headers.
fn hello(headers: &str) -> Reply {
    let begin = json!({ "type": "response.created", "response": { "id": "r" } });
    stream_with(headers, &[begin, message("Hello."), end()])
}

/// The headers of 20 requests a minute of which `remaining` are left.
fn minute(remaining: u64) -> String {
    format!(
        "x-ratelimit-limit-requests: 20\r\nx-ratelimit-remaining-requests: {remaining}\r\n\
         x-ratelimit-reset-requests: {}s\r\n",
        (20 - remaining) * 3
    )
}

/// A provider whose `answers` are given the number of the request.
async fn provider(answers: impl Fn(u64) -> Reply + Send + Sync + 'static) -> LoginService {
    let count = AtomicU64::new(0);
    LoginService::start(move |_, request| {
        let is_model = request.path == "/v1/responses";
        is_model.then(|| answers(count.fetch_add(1, Ordering::Relaxed)))
    })
    .await
}

async fn log_in(peer: &mut Peer, key: &str) {
    let login = json!({ "type": "apiKey", "apiKey": key });
    peer.call("account/login/start", login).await;
    peer.expect("account/updated").await;
}

async fn read(peer: &mut Peer) -> Value {
    peer.call("account/rateLimits/read", Value::Null).await["rateLimits"].take()
}

/// The time of the server's clock in seconds.
fn now(env: &TestEnvironment) -> i64 {
    use server::Clock as _;
    env.clock.now_ms() / 1000
}

#[tokio::test]
async fn limits_of_responses_are_read_and_end_with_their_login() {
    let tokens = "x-ratelimit-limit-tokens: 60000\r\nx-ratelimit-remaining-tokens: 45000\r\n\
                  x-ratelimit-reset-tokens: 15s\r\nx-ratelimit-limit-project-tokens: 10000\r\n\
                  x-ratelimit-remaining-project-tokens: 5000\r\n\
                  x-ratelimit-reset-project-tokens: 30s\r\n";
    let service = provider(move |_| hello(&(minute(19) + tokens))).await;
    let env = environment(&service, "").await;
    let server = env.start();
    let (mut peer, mut other) = (server.connect().await, server.connect().await);
    assert_eq!(read(&mut peer).await, json!({}), "nothing is known yet");
    log_in(&mut peer, "sk-one").await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let expected = json!({
        "limitId": "default/gpt-5",
        "limitName": "gpt-5 at `default`",
        "primary": { "usedPercent": 5, "resetsAt": now(&env) + 3 },
        "secondary": { "usedPercent": 50, "resetsAt": now(&env) + 30 },
    });
    // All clients are notified.
    for client in [&mut peer, &mut other] {
        let updated = client.expect("account/rateLimits/updated").await;
        assert_eq!(updated, json!({ "rateLimits": expected }));
    }
    // They outlive the thread.
    peer.call("thread/archive", json!({ "threadId": thread })).await;
    assert_eq!(read(&mut other).await, expected);
    env.clock.advance(10_000);
    let later = read(&mut other).await;
    assert_eq!(later["primary"], json!({ "usedPercent": 0 }), "refilled");
    assert_eq!(later["secondary"], expected["secondary"]);
    log_in(&mut peer, "sk-two").await;
    assert_eq!(read(&mut peer).await, json!({}), "of the other key nothing is known");
    let updated = other.expect_where("account/rateLimits/updated", |it| *it != expected).await;
    assert_eq!(updated["rateLimits"]["limitId"], Value::Null, "{updated}");
}

#[tokio::test]
async fn a_plan_and_its_credits_are_reported_as_the_service_names_them() {
    let service = provider(|_| {
        hello(
            "x-house-primary-used-percent: 41.2\r\nx-house-primary-window-minutes: 300\r\n\
             x-house-primary-reset-at: 32503680000\r\nx-house-secondary-used-percent: 7\r\n\
             x-house-limit-name: Five hours\r\nx-house-credits-has-credits: true\r\n\
             x-house-credits-balance: 12.50\r\nx-house-plan-type: plus\r\n\
             x-house-rate-limit-reached-type: workspace_owner_credits_depleted\r\n",
        )
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in(&mut peer, "sk-one").await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let expected = json!({
        "limitId": "house",
        "limitName": "Five hours",
        "planType": "plus",
        "primary": { "usedPercent": 42, "windowDurationMins": 300, "resetsAt": 32_503_680_000_i64 },
        "secondary": { "usedPercent": 7 },
        "credits": { "hasCredits": true, "unlimited": false, "balance": "12.50" },
        "rateLimitReachedType": "workspace_owner_credits_depleted",
    });
    assert_eq!(read(&mut peer).await, expected);
}

#[tokio::test]
async fn many_responses_are_few_notifications_and_the_last_state_arrives() {
    let service = provider(|number| {
        let used = number + 1;
        hello(&format!(
            "x-ratelimit-limit-requests: 1000\r\nx-ratelimit-remaining-requests: {}\r\n\
             x-ratelimit-reset-requests: {}s\r\n",
            1_000 - 10 * used,
            used
        ))
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in(&mut peer, "sk-one").await;
    let thread = peer.start_thread(json!({})).await;
    for _ in 0..20 {
        assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    }
    let is_last = |updated: &Value| updated["rateLimits"]["primary"]["usedPercent"] == 20;
    peer.expect_where("account/rateLimits/updated", is_last).await;
    let lines = peer.raw_lines();
    let updates = lines.iter().filter(|line| line.contains("account/rateLimits/updated")).count();
    assert!(updates < 10, "{updates} notifications of 20 responses");
}

#[tokio::test]
async fn a_refusal_is_shown_until_a_request_is_answered() {
    let service = provider(|number| match number {
        0 => {
            let error = json!({ "error": { "code": "insufficient_quota", "message": "Used up.",
                "resets_in_seconds": 600 } });
            Reply::Json(429, error)
        }
        _ => hello(""),
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in(&mut peer, "sk-one").await;
    let thread = peer.start_thread(json!({})).await;
    let turn = peer.run_turn(&thread, "Hi.").await;
    assert_eq!(turn["error"]["agentErrorInfo"], "UsageLimitExceeded", "{turn}");
    let refused = read(&mut peer).await;
    assert_eq!(refused["rateLimitReachedType"], "rate_limit_reached", "{refused}");
    assert_eq!(refused["primary"]["usedPercent"], 100, "{refused}");
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let answered = read(&mut peer).await;
    assert_eq!(answered["rateLimitReachedType"], Value::Null, "{answered}");
}

#[tokio::test]
async fn limits_of_other_providers_outlive_logins() {
    let service = provider(|_| hello(&minute(19))).await;
    let url = &service.url;
    let own = format!("model_provider = \"own\"\n[model_providers.own]\nbase_url = \"{url}/v1\"\n");
    let env = environment(&service, &own).await;
    let server = env.start();
    let mut peer = server.connect().await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    log_in(&mut peer, "sk-one").await;
    assert_eq!(read(&mut peer).await["limitId"], "own/gpt-5");
}

/// The first response leaves nothing of the limit, and the next unit comes in 30 s.
#[tokio::test]
async fn a_long_wait_is_announced_once_and_can_be_steered_and_interrupted() {
    let service = provider(|_| {
        hello(
            "x-ratelimit-limit-requests: 2\r\nx-ratelimit-remaining-requests: 0\r\n\
             x-ratelimit-reset-requests: 60s\r\n",
        )
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    log_in(&mut peer, "sk-one").await;
    let thread = peer.start_thread(json!({})).await;
    assert_eq!(peer.run_turn(&thread, "Hi.").await["status"], "completed");
    let turn = peer.start_turn(&thread, "Wait.").await;
    // About 30 s, less what has passed.
    let is_wait = |warning: &Value| {
        let message = warning["message"].as_str().unwrap();
        ["waits about 2", "waits about 30 s"].iter().any(|wait| message.contains(wait))
    };
    let warning = peer.expect_where("warning", is_wait).await;
    assert_eq!(warning["threadId"], thread.as_str());
    let message = warning["message"].as_str().unwrap();
    assert!(message.contains("`default`") && !message.contains("other requests"), "{message}");
    let steer = json!({ "threadId": thread, "expectedTurnId": turn,
        "input": [{ "type": "text", "text": "And this." }] });
    assert_eq!(peer.call("turn/steer", steer).await["turnId"], turn.as_str());
    // It waits anew, with the input.
    peer.expect_where("warning", is_wait).await;
    peer.call("turn/interrupt", json!({ "threadId": thread, "turnId": turn })).await;
    assert_eq!(peer.turn_end(&turn).await["status"], "interrupted");
    assert_eq!(service.requests("/v1/responses").len(), 1, "nothing was sent meanwhile");
}
