//! Reverse proxies: which address is the client's, and where it counts.

use hyper::Method;
use serde_json::{Value, json};

use super::BIG;
use crate::common::gateway::{ADMIN, Answer, Tenant, TestGateway, chat_with, config};
use crate::common::upstream::Upstream;

const FOR: &str = "x-forwarded-for";
const CHAT: &str = "/v1/chat/completions";

/// A gateway whose clients are all on this machine, with this setting of its `[server]`.
async fn with(server: &str, rest: &str) -> (TestGateway, Upstream) {
    let upstream = Upstream::start().await;
    let gateway =
        TestGateway::start(&config(&upstream, &format!("[server]\n{server}\n{rest}"))).await;
    (gateway, upstream)
}

async fn trusting(rest: &str) -> (TestGateway, Upstream) {
    with("trusted_proxies = [\"127.0.0.0/8\", \"10.0.0.0/8\"]", rest).await
}

async fn sign_in(gateway: &TestGateway, more: &[(&str, &str)], secret: &str) -> Answer {
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
    headers.extend(more);
    gateway.send(Method::POST, "/dashboard/sign-in", &headers, format!("secret={secret}")).await
}

/// The addresses of failed sign-ins in the log.
fn logged(gateway: &TestGateway) -> Vec<String> {
    let log = gateway.log();
    let lines = log.lines().filter(|line| line.contains("a sign-in failed"));
    let address = |line: &str| {
        let (_, rest) = line.split_once("address=\"").expect("an address");
        rest.split('"').next().unwrap_or_default().to_owned()
    };
    lines.map(address).collect()
}

#[tokio::test]
async fn the_log_and_the_audit_log_name_the_client_behind_a_proxy() {
    let (gateway, _upstream) = trusting("").await;
    for (lines, expected) in [
        (&[][..], "127.0.0.1"),
        (&["198.51.100.7"], "198.51.100.7"),
        (&["203.0.113.1, 198.51.100.7, 10.9.9.9"], "198.51.100.7"),
        (&["203.0.113.1", "198.51.100.8:4711"], "198.51.100.8"),
        (&["[2001:db8::7%25eth0]:4711"], "2001:db8::7"),
        (&["203.0.113.1, unknown"], "127.0.0.1"),
    ] {
        let headers: Vec<_> = lines.iter().map(|line| (FOR, *line)).collect();
        assert_eq!(gateway.send(Method::GET, "/v1/models", &headers, "").await.status, 401);
        assert_eq!(logged(&gateway).last().map(String::as_str), Some(expected), "{lines:?}");
    }
    let authorization = format!("Bearer {ADMIN}");
    let headers = [("authorization", &*authorization), (FOR, "127.0.0.1, 198.51.100.9")];
    let body = json!({ "name": "Northwind" }).to_string();
    let made = gateway.send(Method::POST, "/v1/organization/projects", &headers, body).await;
    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(sign_in(&gateway, &[(FOR, "198.51.100.10")], "wrong").await.status, 403);
    for (kind, expected) in [("project.created", "198.51.100.9"), ("login.failed", "198.51.100.10")]
    {
        let path = format!("/v1/organization/audit_logs?event_types[]={kind}");
        let rows = gateway.admin(Method::GET, &path, Value::Null).await;
        let actor = &rows["data"][0]["actor"];
        let at = if actor["type"] == "session" { &actor["session"] } else { actor };
        assert_eq!(at["ip_address"], expected, "{actor}");
    }
}

#[tokio::test]
async fn without_trust_the_header_is_ignored() {
    for server in ["", "trusted_proxies = [\"10.0.0.0/8\", \"::1\"]"] {
        let (gateway, _upstream) = with(server, "").await;
        let lies = [(FOR, "198.51.100.7"), ("x-forwarded-proto", "https")];
        assert_eq!(gateway.send(Method::GET, "/v1/models", &lies, "").await.status, 401);
        assert_eq!(logged(&gateway).last().map(String::as_str), Some("127.0.0.1"), "{server}");
        let cookie = sign_in(&gateway, &lies, ADMIN).await.header("set-cookie").to_owned();
        assert!(cookie.contains("HttpOnly") && !cookie.contains("Secure"), "{cookie}");
    }
}

#[tokio::test]
async fn each_client_behind_a_proxy_has_its_own_attempts() {
    let (gateway, _upstream) = trusting("").await;
    for attempt in 0..20 {
        // What stands before the address that the proxy adds is no way around the limit.
        let lies = format!("192.0.2.{attempt}, 198.51.100.7");
        assert_eq!(sign_in(&gateway, &[(FOR, &lies)], "wrong").await.status, 403);
    }
    assert_eq!(sign_in(&gateway, &[(FOR, "198.51.100.7")], ADMIN).await.status, 429);
    assert_eq!(sign_in(&gateway, &[(FOR, "198.51.100.8")], ADMIN).await.status, 303);
}

#[tokio::test]
async fn the_cookie_is_restricted_to_https_where_the_proxy_says_so() {
    let (gateway, _upstream) = trusting("").await;
    for (proto, is_secure) in [("https", true), ("http, HTTPS", true), ("https, http", false)] {
        let answer = sign_in(&gateway, &[("x-forwarded-proto", proto)], ADMIN).await;
        assert_eq!(answer.header("set-cookie").ends_with("; Secure"), is_secure, "{proto}");
    }
}

#[tokio::test]
async fn ten_thousand_entries_and_a_long_one_are_bounded() {
    let (gateway, _upstream) = trusting("").await;
    let many = "10.0.0.1,".repeat(9_000) + "10.0.0.2";
    let long = "1".repeat(90_000);
    let both = format!("{many}, 198.51.100.7");
    for (line, expected) in [(&many, "10.0.0.1"), (&long, "127.0.0.1"), (&both, "198.51.100.7")] {
        let answer = gateway.send(Method::GET, "/v1/models", &[(FOR, line)], "").await;
        assert_eq!(answer.status, 401, "{}", line.len());
        assert_eq!(logged(&gateway).last().map(String::as_str), Some(expected));
    }
}

async fn chat(gateway: &TestGateway, tenant: &Tenant, client: &str) -> Answer {
    let headers = [("content-type", "application/json"), (FOR, client)];
    gateway.with(tenant, Method::POST, CHAT, &headers, chat_with(json!({})).to_string()).await
}

/// Two clients with one key that wait for a limit each get a wait of their own, and one that asks again keeps its own.
#[tokio::test]
async fn clients_behind_a_proxy_wait_each_for_themselves() {
    let (gateway, _upstream) = trusting(&format!("{BIG}[tiers.free.limits.big]\nrpm = 4\n")).await;
    let tenant = gateway.tenant("free").await;
    for _ in 0..4 {
        assert_eq!(chat(&gateway, &tenant, "198.51.100.7").await.status, 200);
    }
    let wait = async |client: &str| {
        let answer = chat(&gateway, &tenant, client).await;
        assert_eq!(answer.status, 429);
        answer.header("retry-after-ms").parse::<u64>().expect("a number")
    };
    let (first, second) = (wait("198.51.100.7").await, wait("198.51.100.8").await);
    assert!(first < second, "{first} {second}");
    assert_eq!([wait("198.51.100.7").await, wait("198.51.100.8").await], [first, second]);
}

#[tokio::test]
async fn a_reload_changes_the_list_for_connections_that_are_open() {
    let (gateway, upstream) = with("", "").await;
    let tenant = gateway.tenant("free").await;
    let lies = [(FOR, "198.51.100.7")];
    gateway.send(Method::GET, "/v1/models", &lies, "").await;
    gateway.reload(&config(&upstream, "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n"));
    gateway.send(Method::GET, "/v1/models", &lies, "").await;
    assert_eq!(logged(&gateway), ["127.0.0.1", "198.51.100.7"]);
    assert_eq!(gateway.get(&tenant, "/v1/models").await.status, 200);
}
