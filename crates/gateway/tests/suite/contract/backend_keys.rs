//! The keys of a backend, and the member that only some backends take.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::BIG;
use super::backends::{CHAT, several, two};
use crate::common::gateway::{SECOND, TestGateway, UPSTREAM_KEY, chat_with};
use crate::common::upstream::{Received, Script, Upstream, chat, usage};

/// Accepts the keys that contain this word.
async fn accepting(word: &'static str) -> Upstream {
    Upstream::answering(move |received| match key_of(received).contains(word) {
        true => Script::json(&chat(&usage(3, 2))),
        false => Script::error(401, &json!({ "error": { "message": key_of(received) } })),
    })
    .await
}

fn key_of(received: &Received) -> String {
    let header = received.headers.get("authorization");
    let text = header.map_or("", |header| header.to_str().unwrap());
    text.strip_prefix("Bearer ").unwrap_or_default().to_owned()
}

fn keys_of(upstream: &Upstream) -> Vec<String> {
    upstream.received().iter().map(key_of).collect()
}

fn write(folder: &std::path::Path, name: &str, key: &str) {
    let path = folder.join(name);
    fs::write(&path, key).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// A gateway in front of one upstream with these settings, and these files of keys.
async fn with_files(upstream: &Upstream, settings: &str, files: &[(&str, &str)]) -> TestGateway {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, key)| write(folder.path(), name, key));
    let url = upstream.url();
    let config = format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"{url}\"\n{settings}\n{BIG}"
    );
    TestGateway::start_in(folder.into(), &config, 1).await
}

#[tokio::test]
async fn requests_take_turns_with_the_keys() {
    let upstream = Upstream::start().await;
    let settings = "env_key = \"UPSTREAM_KEY\"\nkey_files = [\"one\", \"two\"]";
    let gateway =
        with_files(&upstream, settings, &[("one", "key-one\n"), ("two", "key-two")]).await;
    let tenant = gateway.tenant("free").await;
    for _ in 0..4 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
    }
    assert_eq!(keys_of(&upstream), [UPSTREAM_KEY, "key-one", "key-two", UPSTREAM_KEY]);
}

#[tokio::test]
async fn a_refused_key_is_put_aside_and_the_client_does_not_notice() {
    let upstream = accepting("good").await;
    let settings = "key_files = [\"one\", \"two\"]";
    let gateway = with_files(&upstream, settings, &[("one", "bad-key"), ("two", "good-key")]).await;
    let tenant = gateway.tenant("free").await;
    for _ in 0..3 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
    }
    assert_eq!(keys_of(&upstream), ["bad-key", "good-key", "good-key", "good-key"]);
    let log = gateway.log();
    let lines = log.lines().filter(|line| line.contains("backend main refuses the key in "));
    assert_eq!(lines.count(), 1, "{log}");
    assert!(!log.contains("bad-key") && !log.contains("good-key"), "{log}");
    // After a minute it is tried again.
    gateway.clock.advance(60 * SECOND);
    gateway.chat(&tenant).await;
    gateway.chat(&tenant).await;
    assert!(keys_of(&upstream)[4..].contains(&"bad-key".to_owned()));
}

#[tokio::test]
async fn a_key_that_was_replaced_in_its_file_is_used_at_once() {
    let upstream = accepting("new").await;
    let gateway = with_files(&upstream, "key_file = \"one\"", &[("one", "old-key")]).await;
    let tenant = gateway.tenant("free").await;
    assert_eq!(gateway.chat(&tenant).await.error().1, "upstream_error");
    let file = gateway.folder.path().join("one");
    // What cannot be used leaves the key before in place, and is logged once.
    fs::write(&file, "not\nsendable").unwrap();
    assert_eq!(gateway.chat(&tenant).await.status, 502);
    assert_eq!(gateway.chat(&tenant).await.status, 502);
    let log = gateway.log();
    assert_eq!(log.matches("the key before stays in use").count(), 1, "{log}");
    write(gateway.folder.path(), "one", "new-key");
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    assert_eq!(keys_of(&upstream), ["old-key", "old-key", "old-key", "old-key", "new-key"]);
    // Neither is shown, in errors nor in the log.
    let shown = json!({ "error": { "message": "old-key and new-key" } });
    upstream.script([Script::error(400, &shown)]);
    assert_eq!(gateway.chat(&tenant).await.message(), "*** and ***");
    assert!(!gateway.log().contains("old-key") && !gateway.log().contains("new-key"));
}

#[tokio::test]
async fn a_backend_whose_keys_are_all_refused_leaves_requests_to_another() {
    let (a, b) = (accepting("nothing").await, accepting("secret").await);
    let listed = [("a", &a, ""), ("b", &b, "priority = 1")];
    let gateway = TestGateway::start(&several("env_key = \"UPSTREAM_KEY\"", &listed, "")).await;
    let tenant = gateway.tenant("free").await;
    for count in 1..4 {
        assert_eq!(gateway.chat(&tenant).await.status, 200);
        assert_eq!((a.count(), b.count()), (1, count));
    }
    assert_eq!(gateway.metric("gateway_backend_available{backend=\"main/a\"}").await, 0);
    let line = "gateway_upstream_failures_total{backend=\"main/a\",reason=\"key_refused\"}";
    assert_eq!(gateway.metric(line).await, 1);
}

/// A request that all forbid says nothing about the keys; one that another backend serves does, for its model.
#[tokio::test]
async fn what_every_backend_forbids_puts_none_aside() {
    let two = two("env_key = \"UPSTREAM_KEY\"").await;
    let no = || Script::error(403, &json!({ "error": { "message": "no" } }));
    two.a.script([no()]);
    two.b.script([no()]);
    assert_eq!(two.chat().await.error().1, "upstream_error");
    two.a.script([no()]);
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (2, 2)));
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (2, 3)));
    two.gateway.clock.advance(60 * SECOND);
    assert_eq!((two.chat().await.status.as_u16(), two.counts()), (200, (3, 3)));
}

fn retention_of(received: &Received) -> Value {
    received.json()["prompt_cache_retention"].clone()
}

#[tokio::test]
async fn the_member_goes_only_to_backends_that_take_it() {
    let (a, b) = (Upstream::start().await, Upstream::start().await);
    let listed = [("a", &a, ""), ("b", &b, "priority = 1\nprompt_cache_retention = false")];
    let gateway = TestGateway::start(&several("", &listed, "")).await;
    let tenant = gateway.tenant("free").await;
    gateway.chat(&tenant).await;
    assert_eq!(retention_of(&a.last()), "24h");
    // The same request, sent to the other one.
    a.script([Script::error(503, &json!({ "error": {} }))]);
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    assert_eq!((retention_of(&a.last()), retention_of(&b.last())), (json!("24h"), Value::Null));
    // A client's own member is the client's affair.
    a.kill();
    gateway.post(&tenant, CHAT, &chat_with(json!({ "prompt_cache_retention": "in_memory" }))).await;
    assert_eq!(retention_of(&b.last()), "in_memory");
}

#[tokio::test]
async fn a_backend_that_refuses_the_member_does_not_get_it_for_a_while() {
    let upstream = Upstream::answering(|received| match retention_of(received) {
        Value::Null => Script::json(&chat(&usage(3, 2))),
        _ => {
            let message = "Unknown parameter: 'prompt_cache_retention'.";
            Script::error(400, &json!({ "error": { "message": message } }))
        }
    })
    .await;
    let gateway = with_files(&upstream, "", &[]).await;
    let tenant = gateway.tenant("free").await;
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), upstream.count()), (200, 2));
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), upstream.count()), (200, 3));
    assert!(gateway.log().contains("backend main refuses the member prompt_cache_retention"));
    gateway.clock.advance(600 * SECOND);
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), upstream.count()), (200, 5));
    // Where the client sent it, the refusal is the client's.
    let own = chat_with(json!({ "prompt_cache_retention": "24h" }));
    let answer = gateway.post(&tenant, CHAT, &own).await;
    assert_eq!((answer.status.as_u16(), upstream.count()), (400, 6));
    // Each request counts once.
    gateway.is_idle().await;
    assert_eq!(gateway.usage(&tenant.organization, "completions").await[0], 4);
}
