//! Tokens that expire within a turn, between its retries, and by a clock that is wrong: one refresh, no
//! call twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::{Peer, TestEnvironment};

use crate::hosted::{end, environment, header, message, stream};
use crate::login_service::{LoginService, Reply, Request, tokens};

/// A call that adds a line to a file.
fn call() -> Value {
    let arguments = json!({ "cmd": "echo ran >> calls.txt" }).to_string();
    json!({ "type": "response.output_item.done", "item": { "type": "function_call", "id": "f",
        "call_id": "c", "name": "exec_command", "arguments": arguments } })
}

fn unauthorized() -> Reply {
    Reply::Json(401, json!({ "error": { "code": "token_expired", "message": "expired" } }))
}

fn token(request: &Request) -> &str {
    header(request, "authorization").unwrap_or_default().trim_start_matches("Bearer ")
}

/// A model whose `answers` are given the token and the number of the request; the Nth grant is `access-N`.
async fn service(answers: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> LoginService {
    let (grants, requests) = (AtomicUsize::new(1), AtomicUsize::new(0));
    LoginService::start(move |address, request| match request.path.as_str() {
        "/v1/responses" => Some(answers(token(request), requests.fetch_add(1, Ordering::Relaxed))),
        "/token" => {
            let n = grants.fetch_add(1, Ordering::Relaxed);
            let (access, refresh) = (format!("access-{n}"), format!("refresh-{n}"));
            Some(Reply::Json(200, tokens(address, &access, &refresh, json!({}))))
        }
        _ => None,
    })
    .await
}

async fn log_in(peer: &mut Peer) {
    peer.call("account/login/start", json!({ "type": "hostedDeviceCode" })).await;
    peer.expect("account/updated").await;
}

fn bearers(service: &LoginService) -> Vec<String> {
    service.requests("/v1/responses").iter().map(|request| token(request).to_owned()).collect()
}

/// Runs a turn whose command may run once. Returns the turn and the refreshes.
async fn turn(env: &TestEnvironment, service: &LoginService) -> (Value, usize) {
    let server = env.start();
    let mut peer = server.connect().await;
    log_in(&mut peer).await;
    let params = json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" });
    let thread = peer.start_thread(params).await;
    let turn = peer.run_turn(&thread, "Go on.").await;
    let runs = std::fs::read_to_string(env.workspace().join("calls.txt")).unwrap_or_default();
    assert!(runs.lines().count() <= 1, "{runs}");
    (turn, service.requests("/token").len() - 1)
}

#[tokio::test]
async fn a_token_that_expires_between_two_requests_of_a_turn_is_refreshed_once() {
    let service = service(|token, number| match (token, number) {
        (_, 0) => stream(&[call(), end()]),
        ("access-1", _) => unauthorized(),
        _ => stream(&[message("Done."), end()]),
    })
    .await;
    let env = environment(&service, "").await;
    let (turn, refreshes) = turn(&env, &service).await;
    assert_eq!((&turn["status"], refreshes), (&json!("completed"), 1), "{turn}");
    assert_eq!(bearers(&service), ["access-1", "access-1", "access-2"]);
    assert!(env.workspace().join("calls.txt").exists());
}

#[tokio::test]
async fn a_token_that_expires_while_a_stream_is_cut_is_refreshed_by_the_retry() {
    let service = service(|token, number| match (token, number) {
        // Cut after a call that is whole.
        (_, 0) => stream(&[call()]),
        ("access-1", _) => unauthorized(),
        _ => stream(&[message("Done."), end()]),
    })
    .await;
    let env = environment(&service, "").await;
    let (turn, refreshes) = turn(&env, &service).await;
    assert_eq!((&turn["status"], refreshes), (&json!("completed"), 1), "{turn}");
    assert_eq!(bearers(&service), ["access-1", "access-1", "access-2"]);
    assert!(env.workspace().join("calls.txt").exists());
}

#[tokio::test]
async fn a_second_refusal_within_a_turn_ends_it() {
    let service = service(|_, number| match number {
        0 => stream(&[call(), end()]),
        _ => unauthorized(),
    })
    .await;
    let env = environment(&service, "").await;
    let (turn, refreshes) = turn(&env, &service).await;
    assert_eq!(turn["error"]["agentErrorInfo"], "Unauthorized", "{turn}");
    assert_eq!(refreshes, 1);
    assert_eq!(bearers(&service), ["access-1", "access-1", "access-2"]);
}

/// A clock that is an hour slow never finds the token expired; one that is an hour fast refreshes it
/// early. Both work.
#[tokio::test]
async fn a_clock_that_is_off_by_an_hour_costs_one_refresh() {
    for hours in [-1, 1] {
        let expired = Arc::new(AtomicUsize::new(0));
        let is_expired = expired.clone();
        let service = service(move |token, _| {
            match token == "access-1" && is_expired.load(Ordering::Relaxed) > 0 {
                true => unauthorized(),
                false => stream(&[message("Done."), end()]),
            }
        })
        .await;
        let env = environment(&service, "").await;
        env.clock.advance(7_200_000);
        let server = env.start();
        let mut peer = server.connect().await;
        log_in(&mut peer).await;
        env.clock.advance(hours * 3_600_000);
        expired.store(1, Ordering::Relaxed);
        let thread = peer.start_thread(json!({})).await;
        for _ in 0..3 {
            assert_eq!(peer.run_turn(&thread, "Go on.").await["status"], "completed", "{hours} h");
        }
        assert_eq!(service.requests("/token").len(), 2, "{hours} h: one refresh");
        assert_eq!(bearers(&service).last().unwrap(), "access-2");
    }
}

/// `account/sendAddCreditsNudgeEmail`, also with a token that has expired.
#[tokio::test]
async fn the_owner_of_a_workspace_is_asked_for_credits_once() {
    let path = "/accounts/send_add_credits_nudge_email";
    let asked = AtomicUsize::new(0);
    let service = LoginService::start(move |address, request| match request.path.as_str() {
        "/accounts/send_add_credits_nudge_email" => {
            Some(match (token(request), asked.fetch_add(1, Ordering::Relaxed)) {
                ("access-1", _) => unauthorized(),
                (_, 1) => Reply::Json(200, json!({})),
                (_, 2) => Reply::Json(429, json!({})),
                _ => Reply::Json(404, json!({})),
            })
        }
        "/token" if request.body.contains("refresh_token") => {
            Some(Reply::Json(200, tokens(address, "access-2", "refresh-2", json!({}))))
        }
        "/token" => Some(Reply::Json(200, tokens(address, "access-1", "refresh-1", json!({})))),
        _ => None,
    })
    .await;
    let env = environment(&service, "").await;
    let server = env.start();
    let mut peer = server.connect().await;
    let method = "account/sendAddCreditsNudgeEmail";
    let params = json!({ "creditType": "usage_limit" });
    let fault = peer.refused(method, params.clone()).await;
    assert_eq!(fault.code, -32600, "{fault:?}");
    assert!(fault.message.contains("account of the hosted service"), "{fault:?}");
    log_in(&mut peer).await;
    assert_eq!(peer.call(method, params.clone()).await, json!({ "status": "sent" }));
    assert_eq!(peer.call(method, params.clone()).await, json!({ "status": "cooldown_active" }));
    let fault = peer.refused(method, params).await;
    assert!(fault.message.contains("sends no emails"), "{fault:?}");
    assert_eq!(peer.refused(method, json!({ "creditType": "money" })).await.code, -32602);
    let requests = service.requests(path);
    assert_eq!(requests[1].body, r#"{"credit_type":"usage_limit"}"#);
    assert!(requests[1].head.contains("hosted-account-id: workspace-1"), "{}", requests[1].head);
}
