//! Batches from the input file to the output files: what clients see of them, on one node, on two,
//! and when nodes die.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::batching::{
    Client, ERROR, ManualClock, Node, ReceivedRequest, Upstream, chat, chat_line, chats, pause,
};
use crate::common::servers;
use gateway_policy::tenants::ProjectLimits;
use gateway_store::database::Statement;
use gateway_store::records::spend::Scope;
use gateway_store::records::{project_limits, spend};
use serde_json::{Value, json};

const MODELS: &str = r#"
[models."m-2026-01-01"]
aliases = ["m"]
upstream_model = "real"
price = { input = 1.0, output = 10.0 }
[models.other]
free = true
[models.old]
free = true
shutdown_date = "2020-01-01"
[batches]
backoff_ms = 1
attempts = 3
lines_at_once = 8
"#;

struct Fixture {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    upstream: Arc<Upstream>,
    store: String,
}

impl Fixture {
    async fn new(
        script: impl Fn(&ReceivedRequest) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let upstream = Upstream::start(script).await;
        Self { folder, clock: ManualClock::new(), upstream, store: String::new() }
    }

    async fn node(&self, limits: &str, extra: &str) -> Node {
        let config = format!("{MODELS}{extra}");
        let kept = (&*self.store, limits);
        Node::start(self.folder.path(), &self.clock, &self.upstream, kept, &config).await
    }
}

fn names(lines: &[Value]) -> BTreeSet<String> {
    let names: Vec<_> =
        lines.iter().map(|line| line["custom_id"].as_str().unwrap().to_owned()).collect();
    let set: BTreeSet<_> = names.iter().cloned().collect();
    assert_eq!(set.len(), names.len(), "each line once: {names:?}");
    set
}

fn all(count: usize) -> BTreeSet<String> {
    (0..count).map(|number| format!("c{number}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_runs_and_writes_its_files() {
    let fixture = Fixture::new(|received| match received.text().as_str() {
        "say 7" => (400, r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#.into()),
        _ => chat(received),
    })
    .await;
    // A limit of one request per minute applies only to synchronous requests.
    let node = fixture.node("memory:", "[tiers.free.limits.m]\nrpm = 1\ntpm = 10\n").await;
    let (key, _) = node.key().await;
    let client = Client::new(&node.base, &key);
    let made = client.batch("/v1/chat/completions", &chats("m", 30)).await;
    assert_eq!((&made["object"], &made["errors"]), (&json!("batch"), &Value::Null));
    let batch = client.ended(&made).await;
    assert_eq!(batch["status"], "completed", "{batch}");
    assert_eq!(batch["request_counts"], json!({"total": 30, "completed": 29, "failed": 1}));
    assert_eq!(batch["model"], "m-2026-01-01");
    let usage = &batch["usage"];
    assert_eq!((&usage["input_tokens"], &usage["output_tokens"]), (&json!(290), &json!(145)));
    assert_eq!(usage["input_tokens_details"]["cached_tokens"], 58);
    assert_eq!(usage["output_tokens_details"]["reasoning_tokens"], 29);
    for moment in ["created_at", "in_progress_at", "finalizing_at", "completed_at"] {
        assert!(batch[moment].is_i64(), "{moment}: {batch}");
    }
    let output = client.lines(&batch["output_file_id"]).await;
    let errors = client.lines(&batch["error_file_id"]).await;
    assert_eq!(names(&errors), BTreeSet::from(["c7".to_owned()]));
    assert_eq!(errors[0]["response"]["status_code"], 400);
    assert_eq!(errors[0]["response"]["body"]["error"]["message"], "bad");
    assert_eq!(names(&output).len(), 29);
    let first = &output[0];
    assert_eq!((&first["custom_id"], &first["error"]), (&json!("c0"), &Value::Null));
    assert_eq!(first["response"]["body"]["choices"][0]["message"]["content"], "say 0");
    assert!(first["id"].as_str().unwrap().starts_with("batch_req_"));
    assert!(first["response"]["request_id"].as_str().unwrap().starts_with("req_"));
    // The same edits as for a direct request.
    let received = fixture.upstream.received();
    let sent = received.first().unwrap().json();
    assert_eq!((&sent["model"], &sent["prompt_cache_retention"]), (&json!("real"), &json!("24h")));
    assert_eq!(received.len(), 30);
    node.gateway.ledger().flush(std::time::Duration::from_secs(5)).await.unwrap();
    let sql = "SELECT COUNT(*), CAST(SUM(cost) AS BIGINT) FROM ledger WHERE batch = 1";
    let rows = node.gateway.database().query(Statement::new(sql, [])).await.unwrap();
    // 8 tokens of input and 5 of output; cached ones cost the same here.
    let cost = rows[0].integer(1).unwrap();
    assert_eq!((rows[0].integer(0).unwrap(), cost), (30, 29 * 60));
    let (_, listed) = client.get("/v1/batches?limit=1").await;
    assert_eq!((&listed["first_id"], &listed["has_more"]), (&made["id"], &json!(false)));
    let (stranger, _) = node.key().await;
    let stranger = Client::new(&node.base, &stranger);
    for path in ["/v1/batches/", "/v1/files/"] {
        let id = if path.contains("files") { &batch["output_file_id"] } else { &batch["id"] };
        let (status, error) = stranger.get(&format!("{path}{}", id.as_str().unwrap())).await;
        assert_eq!((status, &error["error"]["code"]), (404, &json!("not_found")));
    }
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_batch_files_are_refused() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &node.key().await.0);
    let good = chat_line("m", "a", "x");
    let with = |from: &str, to: &str| good.replace(from, to);
    let check = async |lines: String, expected: &[(&str, u64)]| {
        let batch = client.batch("/v1/chat/completions", &lines).await;
        assert_eq!(batch["status"], "failed", "{lines} {batch}");
        assert!(batch["failed_at"].is_i64() && batch["errors"]["object"] == "list");
        let errors = batch["errors"]["data"].as_array().unwrap();
        let found: Vec<_> = errors
            .iter()
            .map(|error| (error["code"].as_str().unwrap(), error["line"].as_u64().unwrap_or(0)))
            .collect();
        assert_eq!(found, expected, "{batch}");
    };
    check("\n \n".to_owned(), &[("empty_file", 0)]).await;
    check("{\n".to_owned() + &good, &[("invalid_json_line", 1)]).await;
    check(good.clone() + &good, &[("duplicate_custom_id", 2)]).await;
    check(with("POST", "GET"), &[("invalid_method", 1)]).await;
    check(with("/v1/chat", "/v1/x"), &[("invalid_url", 1)]).await;
    check(with("\"custom_id\"", "\"x\""), &[("missing_required_parameter", 1)]).await;
    check(with("\"body\"", "\"x\""), &[("missing_required_parameter", 1)]).await;
    check(with("\"model\":\"m\"", "\"x\":1"), &[("missing_required_parameter", 1)]).await;
    check(with("\"m\"", "\"none\""), &[("model_not_found", 1)]).await;
    check(with("\"m\"", "\"old\""), &[("model_not_found", 1)]).await;
    check(with("100", "-1"), &[("invalid_value", 1)]).await;
    check(with("\"max_tokens\":100", "\"stream\":true"), &[("invalid_value", 1)]).await;
    check(with("\"max_tokens\"", "\"model\":\"m\",\"max_tokens\""), &[("invalid_json", 1)]).await;
    let other = chat_line("other", "b", "x");
    check(format!("{good}\n{other}{{"), &[("mismatched_model", 3), ("invalid_json_line", 4)]).await;
    let hundred: Vec<_> = (1..=100).map(|line| ("invalid_json_line", line)).collect();
    check("x\n".repeat(300), &hundred).await;
    // An alias and its snapshot are the same model.
    let both = good.clone() + &chat_line("m-2026-01-01", "b", "x");
    let batch = client.batch("/v1/chat/completions", &both).await;
    assert_eq!(client.ended(&batch).await["status"], "completed");
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_batches_are_refused() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &node.key().await.0);
    let file = ("name=\"file\"; filename=\"in.jsonl\"", "{}");
    let (_, file) = client.upload(&[file, ("name=\"purpose\"", "batch")]).await;
    let good = json!({
        "input_file_id": file["id"], "endpoint": "/v1/responses", "completion_window": "24h",
    });
    let check = async |key: &str, value: Value, status: u16, code: &str| {
        let mut body = good.clone();
        body[key] = value;
        let (found, answer) = client.post("/v1/batches", &body).await;
        assert_eq!((found, answer["error"]["code"].as_str().unwrap()), (status, code), "{answer}");
    };
    check("input_file_id", Value::Null, 400, "missing_required_parameter").await;
    check("input_file_id", json!("file-none"), 404, "not_found").await;
    check("endpoint", json!("/v1/audio/speech"), 400, "invalid_value").await;
    check("completion_window", json!("1h"), 400, "invalid_value").await;
    check("metadata", json!({"a": 1}), 400, "invalid_json").await;
    check("metadata", json!({"a": "x".repeat(600)}), 400, "invalid_value").await;
    let expires = json!({"anchor": "created_at", "seconds": 1});
    check("output_expires_after", expires, 400, "invalid_value").await;
    let (status, _) = client.get("/v1/batches/batch_none").await;
    assert_eq!(status, 404);
    let (status, _) = client.post("/v1/batches/batch_none/cancel", &json!({})).await;
    assert_eq!(status, 404);
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_is_bounded() {
    let fixture = Fixture::new(chat).await;
    let limits = "[tiers.free.limits.m]\nbatch_queue_tokens = 10\n";
    let node = fixture.node("memory:", limits).await;
    let (key, project) = node.key().await;
    let client = Client::new(&node.base, &key);
    fixture.upstream.close();
    // "say N" is 5 characters: 2 tokens a line.
    let first = client.batch("/v1/chat/completions", &chats("m", 4)).await;
    assert_eq!(first["status"], "in_progress");
    let second = client.batch("/v1/chat/completions", &chats("m", 2)).await;
    assert_eq!(second["status"], "failed");
    let error = &second["errors"]["data"][0];
    assert_eq!(error["code"], "token_limit_exceeded");
    assert_eq!(
        error["message"],
        "Enqueued token limit reached for m in organization org-default. Limit: 10 enqueued tokens."
    );
    let third = client.batch("/v1/chat/completions", &chats("m", 1)).await;
    assert_eq!(third["status"], "in_progress");
    fixture.upstream.open();
    for batch in [&first, &third] {
        assert_eq!(client.ended(batch).await["status"], "completed");
    }
    let fourth = client.batch("/v1/chat/completions", &chats("m", 5)).await;
    assert_eq!(client.ended(&fourth).await["status"], "completed");
    // A project's daily limit also counts batches that have ended.
    let database = node.gateway.database();
    let day = ProjectLimits { batch_1_day_max_input_tokens: Some(21), ..ProjectLimits::default() };
    project_limits::set(database, &project, "m", &day, node.gateway.act()).await.unwrap().unwrap();
    node.gateway.directory().catch_up().await.unwrap();
    let fifth = client.batch("/v1/chat/completions", &chats("m", 1)).await;
    assert_eq!(fifth["errors"]["data"][0]["code"], "token_limit_exceeded", "{fifth}");
    assert!(fifth["errors"]["data"][0]["message"].as_str().unwrap().contains(&*project));
    fixture.clock.add_seconds(86_401);
    let sixth = client.batch("/v1/chat/completions", &chats("m", 1)).await;
    assert_eq!(client.ended(&sixth).await["status"], "completed");
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_batch_keeps_what_is_done() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &node.key().await.0);
    fixture.upstream.close();
    let batch = client.batch("/v1/chat/completions", &chats("m", 40)).await;
    while fixture.upstream.received().len() < 8 {
        pause().await;
    }
    let path = format!("/v1/batches/{}/cancel", batch["id"].as_str().unwrap());
    let (status, cancelling) = client.post(&path, &json!({})).await;
    assert_eq!((status, &cancelling["status"]), (200, &json!("cancelling")));
    assert!(cancelling["cancelling_at"].is_i64());
    // Waiting lines are ended; running ones may finish.
    client.until(&batch, |batch| batch["request_counts"]["failed"] == 32).await;
    fixture.upstream.open();
    let batch = client.ended(&batch).await;
    assert_eq!(batch["status"], "cancelled");
    assert!(batch["cancelled_at"].is_i64() && batch["completed_at"].is_null());
    assert_eq!(batch["request_counts"], json!({"total": 40, "completed": 8, "failed": 32}));
    let errors = client.lines(&batch["error_file_id"]).await;
    assert_eq!((errors.len(), &errors[0]["response"]), (32, &Value::Null));
    assert_eq!(errors[0]["error"]["code"], "batch_cancelled");
    let (status, again) = client.post(&path, &json!({})).await;
    assert_eq!((status, &again["status"]), (200, &json!("cancelled")));
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_expires_after_a_day() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &node.key().await.0);
    fixture.upstream.close();
    let batch = client.batch("/v1/chat/completions", &chats("m", 9)).await;
    while fixture.upstream.received().len() < 8 {
        pause().await;
    }
    fixture.clock.add_seconds(86_400);
    let batch = client.ended(&batch).await;
    assert_eq!(batch["status"], "expired", "{batch}");
    assert!(batch["expired_at"].is_i64());
    let errors = client.lines(&batch["error_file_id"]).await;
    assert_eq!(names(&errors), all(9));
    assert!(errors.iter().all(|line| line["error"]["code"] == "batch_expired"));
    assert_eq!(batch["output_file_id"], Value::Null);
    fixture.upstream.open();
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_lines_beyond_the_budget_fail() {
    let fixture = Fixture::new(|received| {
        let (status, body) = chat(received);
        (status, body.replace("\"prompt_tokens\": 10", "\"prompt_tokens\": 950"))
    })
    .await;
    let node = fixture.node("memory:", "").await;
    let (key, project) = node.key().await;
    let database = node.gateway.database();
    // 1 cent is 10,000 micro-dollars; a line reserves 2 + 1000 and takes 950 + 50.
    spend::set_hard(database, Scope::Project(&project), Some(1), node.gateway.act())
        .await
        .unwrap()
        .unwrap();
    node.gateway.directory().catch_up().await.unwrap();
    let client = Client::new(&node.base, &key);
    let batch = client.batch("/v1/chat/completions", &chats("m", 20)).await;
    let batch = client.ended(&batch).await;
    assert_eq!(batch["status"], "completed");
    assert_eq!(batch["request_counts"], json!({"total": 20, "completed": 9, "failed": 11}));
    let errors = client.lines(&batch["error_file_id"]).await;
    assert!(errors.iter().all(|line| line["error"]["code"] == "project_spend_limit_exceeded"));
    assert_eq!(fixture.upstream.received().len(), 9);
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upstream_failures_are_retried() {
    let fixture = Fixture::new(|received| match (received.text().as_str(), received.before) {
        ("say 0", 0 | 1) => (500, ERROR.to_owned()),
        ("say 1", 0) => (429, ERROR.to_owned()),
        ("say 2", _) => (503, ERROR.to_owned()),
        ("say 3", _) => (200, "{\"cut\": ".to_owned()),
        ("say 4", _) => (401, ERROR.to_owned()),
        _ => chat(received),
    })
    .await;
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &node.key().await.0);
    let batch = client.batch("/v1/chat/completions", &chats("m", 6)).await;
    let batch = client.ended(&batch).await;
    assert_eq!(batch["request_counts"], json!({"total": 6, "completed": 3, "failed": 3}));
    let errors = client.lines(&batch["error_file_id"]).await;
    let statuses: Vec<_> = errors.iter().map(|line| &line["response"]["status_code"]).collect();
    assert_eq!(statuses, [503, 502, 502]);
    assert_eq!(errors[0]["response"]["body"]["error"]["message"], "no");
    let tries = |text: &str| {
        fixture.upstream.received().iter().filter(|received| received.text() == text).count()
    };
    assert_eq!([0, 1, 2, 3, 5].map(|n| tries(&format!("say {n}"))), [3, 2, 3, 3, 1]);
    node.end().await;
}

/// A backend that takes one request at a time holds lines up, and fails none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_backends_fail_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(chat).await;
    let config = "max_concurrency = 1\n[models.m]\n[batches]\nattempts = 1\n";
    let kept = ("", "off:");
    let node = Node::start(folder.path(), &ManualClock::new(), &upstream, kept, config).await;
    let client = Client::new(&node.base, &node.key().await.0);
    upstream.close();
    let batch = client.batch("/v1/chat/completions", &chats("m", 3)).await;
    while upstream.received().is_empty() {
        pause().await;
    }
    // This one is refused after a second, as the other lines are by then.
    let body = json!({ "model": "m", "messages": [] });
    let (status, refused) = client.post("/v1/chat/completions", &body).await;
    assert_eq!((status, &refused["error"]["code"]), (503, &json!("upstream_busy")));
    upstream.open();
    let ended = client.ended(&batch).await;
    assert_eq!(ended["request_counts"], json!({ "total": 3, "completed": 3, "failed": 0 }));
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_run_each_line_once() {
    let fixture = Fixture::new(chat).await;
    let (one, other) = (fixture.node("off:", "").await, fixture.node("off:", "").await);
    let (key, _) = one.key().await;
    let (first, second) = (Client::new(&one.base, &key), Client::new(&other.base, &key));
    let mut batches = Vec::new();
    for number in 0..6 {
        let client = if number % 2 == 0 { &first } else { &second };
        let lines: String = (0..20)
            .map(|line| chat_line("m", &format!("c{line}"), &format!("{number} {line}")))
            .collect();
        batches.push(client.batch("/v1/chat/completions", &lines).await);
    }
    for batch in &batches {
        let batch = second.ended(batch).await;
        assert_eq!(batch["request_counts"], json!({"total": 20, "completed": 20, "failed": 0}));
        assert_eq!(names(&first.lines(&batch["output_file_id"]).await), all(20));
    }
    let received = fixture.upstream.received();
    assert_eq!(received.len(), 120);
    assert!(received.iter().all(|received| received.before == 0));
    one.end().await;
    other.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_a_dead_node_are_taken_over() {
    is_taken_over(Fixture::new(chat).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_a_dead_node_are_taken_over_on_postgresql() {
    let server = servers::Postgres::start();
    let mut fixture = Fixture::new(chat).await;
    fixture.store = server.url();
    is_taken_over(fixture).await;
}

async fn is_taken_over(fixture: Fixture) {
    let node = fixture.node("off:", "").await;
    let (key, _) = node.key().await;
    let client = Client::new(&node.base, &key);
    let batch = client.batch("/v1/chat/completions", &chats("m", 60)).await;
    client.until(&batch, |batch| batch["request_counts"]["completed"].as_u64() >= Some(10)).await;
    fixture.upstream.close();
    let base = node.base.clone();
    node.crash();
    let other = fixture.node("off:", "").await;
    assert_ne!(other.base, base);
    let client = Client::new(&other.base, &key);
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
    let done = client.get(&path).await.1["request_counts"]["completed"].as_u64().unwrap();
    let asked_before = fixture.upstream.received().len();
    fixture.upstream.open();
    fixture.clock.add_seconds(31);
    let batch = client.ended(&batch).await;
    assert_eq!(batch["request_counts"], json!({"total": 60, "completed": 60, "failed": 0}));
    assert_eq!(names(&client.lines(&batch["output_file_id"]).await), all(60));
    // Finished lines are not run again.
    let received = fixture.upstream.received().len() - asked_before;
    assert!(received as u64 <= 60 - done, "{received} {done}");
    other.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_node_finishes_its_lines_and_releases_the_others() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("off:", "").await;
    let (key, _) = node.key().await;
    let client = Client::new(&node.base, &key);
    fixture.upstream.close();
    let batch = client.batch("/v1/chat/completions", &chats("m", 40)).await;
    while fixture.upstream.received().len() < 8 {
        pause().await;
    }
    let opener = Arc::clone(&fixture.upstream);
    let (ended, ()) = tokio::join!(tokio::spawn(node.end()), async {
        pause().await;
        opener.open();
    });
    ended.unwrap();
    assert_eq!(fixture.upstream.received().len(), 8, "no further line is started");
    // No lease blocks the next one.
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &key);
    let batch = client.ended(&batch).await;
    assert_eq!(batch["request_counts"], json!({"total": 40, "completed": 40, "failed": 0}));
    assert_eq!(fixture.upstream.received().len(), 40);
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_take_too_long_to_drain_are_released() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("off:", "[server]\ndrain_seconds = 0\n").await;
    let (key, _) = node.key().await;
    let client = Client::new(&node.base, &key);
    fixture.upstream.close();
    let batch = client.batch("/v1/chat/completions", &chats("m", 10)).await;
    while fixture.upstream.received().len() < 8 {
        pause().await;
    }
    node.end().await;
    fixture.upstream.open();
    let node = fixture.node("off:", "").await;
    let client = Client::new(&node.base, &key);
    let batch = client.ended(&batch).await;
    assert_eq!(batch["request_counts"], json!({"total": 10, "completed": 10, "failed": 0}));
    node.end().await;
}

/// However often and wherever nodes die, each line has exactly one result, and a line with a result
/// is not run again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_killed_at_any_point_lose_nothing() {
    let fixture = Fixture::new(chat).await;
    let mut node = fixture.node("off:", "").await;
    let (key, _) = node.key().await;
    let client = Client::new(&node.base, &key);
    let batch = client.batch("/v1/chat/completions", &chats("m", 120)).await;
    let path = format!("/v1/batches/{}", batch["id"].as_str().unwrap());
    // A fixed random sequence determines how far each node gets.
    let mut chance: u64 = 7;
    let mut deaths = 0;
    loop {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let steps = (chance >> 33) % 40;
        let mut last = fixture.upstream.received().len();
        let wanted = last + steps as usize;
        let mut looks_in_vain = 0;
        let client = Client::new(&node.base, &key);
        let ended = loop {
            let (_, batch) = client.get(&path).await;
            let received = fixture.upstream.received().len();
            if batch["status"] == "completed" || received >= wanted {
                break batch["status"] == "completed";
            }
            looks_in_vain = if received == last { looks_in_vain + 1 } else { 0 };
            last = received;
            // A node that renews its lease while it dies holds it for longer.
            if looks_in_vain == 1_000 {
                fixture.clock.add_seconds(31);
                deaths += 1;
                looks_in_vain = 0;
            }
        };
        if ended {
            break;
        }
        node.crash();
        deaths += 1;
        fixture.clock.add_seconds(31);
        node = fixture.node("off:", "").await;
    }
    let client = Client::new(&node.base, &key);
    let (_, batch) = client.get(&path).await;
    assert_eq!(batch["request_counts"], json!({"total": 120, "completed": 120, "failed": 0}));
    assert_eq!(names(&client.lines(&batch["output_file_id"]).await), all(120));
    // A death repeats at most the running lines.
    assert!(fixture.upstream.received().len() <= 120 + 8 * deaths, "{deaths}");
    node.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_and_line_ends_of_other_systems_are_read() {
    let fixture = Fixture::new(chat).await;
    let node = fixture.node("memory:", "").await;
    let (key, _) = node.key().await;
    let client = Client::new(&node.base, &key);
    let (one, two) = (chat_line("m", "c0", "say 0"), chat_line("m", "c1", "say 1"));
    let (one, two) = (one.trim_end(), two.trim_end());
    for text in [
        format!("\u{feff}{one}\n{two}\n"),
        format!("\u{feff}{one}\r\n\r\n{two}"),
        format!("\r\n \n{one}\r\n\t\r\n\u{feff}{two}\r\n\u{feff}"),
    ] {
        let batch = client.batch("/v1/chat/completions", &text).await;
        let batch = client.ended(&batch).await;
        assert_eq!(batch["status"], "completed", "{text:?}: {batch}");
        assert_eq!(names(&client.lines(&batch["output_file_id"]).await), all(2), "{text:?}");
    }
    let utf16: String = format!("{one}\n").chars().flat_map(|char| [char, '\0']).collect();
    let batch = client.batch("/v1/chat/completions", &utf16).await;
    let batch = client.ended(&batch).await;
    let fault = &batch["errors"]["data"][0];
    assert_eq!(
        (&batch["status"], &fault["code"]),
        (&json!("failed"), &json!("invalid_file_encoding"))
    );
    assert!(fault["message"].as_str().unwrap().contains("UTF-16"), "{fault}");
    node.end().await;
}
