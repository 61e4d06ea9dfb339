//! Several backends of one upstream: which one serves a request, and when another one gets it.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};

use super::later::{RESPONSES, ask, row, until};
use super::{BIG, ends};
use crate::common::background::{Background, text};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, chat_with};
use crate::common::upstream::{Gate, Received, Script, Step, Upstream, chat, event, usage};

pub(super) const CHAT: &str = "/v1/chat/completions";

/// A configuration whose upstream `main` has these backends, with further settings of each.
pub(crate) fn several(settings: &str, backends: &[(&str, &Upstream, &str)], rest: &str) -> String {
    let list: String = backends
        .iter()
        .map(|(name, upstream, more)| {
            let url = upstream.url();
            format!(
                "[[upstreams.main.backends]]\nname = \"{name}\"\nbase_url = \"{url}\"\n{more}\n"
            )
        })
        .collect();
    format!("[admin]\ntoken_file = \"token\"\n[upstreams.main]\n{settings}\n{list}{BIG}{rest}")
}

/// `a`, which comes first, and `b`, which serves while `a` does not.
pub(super) struct Two {
    pub(super) gateway: TestGateway,
    pub(super) tenant: Tenant,
    pub(super) a: Upstream,
    pub(super) b: Upstream,
}

pub(super) async fn two(settings: &str) -> Two {
    let (a, b) = (Upstream::start().await, Upstream::start().await);
    two_of(a, b, settings).await
}

pub(super) async fn two_of(a: Upstream, b: Upstream, settings: &str) -> Two {
    let listed = [("a", &a, ""), ("b", &b, "priority = 1")];
    let searches = "[defaults]\ntool_calls = { file_search = \"free\" }\n";
    let gateway = TestGateway::start(&several(settings, &listed, searches)).await;
    let tenant = gateway.tenant("free").await;
    Two { gateway, tenant, a, b }
}

impl Two {
    pub(super) async fn chat(&self) -> Answer {
        self.gateway.chat(&self.tenant).await
    }

    /// The number of requests that each has received.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.a.count(), self.b.count())
    }
}

fn error(message: &str) -> Value {
    json!({ "error": { "message": message, "type": "server_error", "code": "odd" } })
}

/// Sixteen clients, while one of two backends is killed with requests that it has and has not answered.
#[tokio::test]
async fn a_backend_killed_under_load_costs_no_client_an_error() {
    const CLIENTS: usize = 16;
    const EACH: usize = 25;
    let (a, b) = (Upstream::start().await, Upstream::start().await);
    let config = several("", &[("a", &a, ""), ("b", &b, "")], "");
    let gateway = Arc::new(TestGateway::start(&config).await);
    let tenant = gateway.tenant("free").await;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (gateway, tenant) = (Arc::clone(&gateway), tenant.clone());
            tokio::spawn(async move {
                let mut failed = Vec::new();
                for _ in 0..EACH {
                    let answer = gateway.chat(&tenant).await;
                    if answer.status != 200 {
                        failed.push(answer.text());
                    }
                }
                failed
            })
        })
        .collect();
    a.has_received(40).await;
    // These are received, and never answered.
    a.script((0..4).map(|_| Script::json(&json!({})).before(Step::Hang)));
    a.has_received(46).await;
    a.kill();
    for client in clients {
        assert_eq!(client.await.unwrap(), Vec::<String>::new());
    }
    assert!(b.count() > 100, "{}", b.count());
    // Each request was reserved and charged once: 3 tokens of input at 1 micro-dollar, 2 of output at 10.
    gateway.is_idle().await;
    let total = (CLIENTS * EACH) as u64;
    let used = gateway.usage(&tenant.organization, "completions").await;
    assert_eq!(used, [total, 3 * total, 2 * total]);
    assert_eq!(gateway.cost(&tenant.organization).await, 23 * total);
    assert_eq!(gateway.metric("gateway_backend_available{backend=\"main/a\"}").await, 0);
    assert_eq!(gateway.metric("gateway_backend_available{backend=\"main/b\"}").await, 1);
}

#[tokio::test]
async fn the_ledger_and_the_log_name_the_backend_that_answered() {
    let two = two("").await;
    two.a.script([Script::error(503, &error("full"))]);
    assert_eq!(two.chat().await.status, 200);
    two.b.script([Script::error(500, &error("odd"))]);
    two.a.kill();
    assert_eq!(two.chat().await.status, 500);
    let rows = ends::rows(&two.gateway, &two.tenant).await;
    let named: Vec<_> = rows.iter().map(|row| (&row["backend"], &row["status"])).collect();
    assert_eq!(named, [(&json!("main/b"), &json!(200)), (&json!("main/b"), &json!(500))]);
    let log = two.gateway.log();
    assert!(log.contains("sent to backend main/b instead: it answered 503"), "{log}");
    assert!(log.contains("upstream main/b: it answered 500"), "{log}");
    assert!(!log.contains(&two.a.address.to_string()), "the host is of no one's concern: {log}");
    for (line, count) in [
        ("gateway_upstream_seconds_count{backend=\"main/a\"}", 2),
        ("gateway_upstream_seconds_count{backend=\"main/b\"}", 2),
        ("gateway_upstream_failures_total{backend=\"main/a\",reason=\"overloaded\"}", 1),
        ("gateway_upstream_failures_total{backend=\"main/a\",reason=\"unreachable\"}", 1),
        ("gateway_upstream_failures_total{backend=\"main/b\",reason=\"server_error\"}", 1),
    ] {
        assert_eq!(two.gateway.metric(line).await, count, "{line}");
    }
}

/// How `a` fails a request, and whether `b` gets it.
#[tokio::test]
async fn only_what_is_safe_is_repeated() {
    let cut = || Script::json(&json!({})).before(Step::Cut);
    let begun = || Script::json(&json!({})).body(vec![Step::Cut]);
    let status = |status: u16| Script::error(status, &error("no"));
    let page = |status: u16| Script::new(status, "text/html", "<html>");
    let chat = || (CHAT, chat_with(json!({})));
    let background = || ("/v1/responses", json!({ "model": "big", "background": true }));
    let store = || ("/v1/vector_stores", json!({ "name": "x" }));
    let kept = || {
        let messages = json!([{ "role": "user", "content": "x" }]);
        let thread = json!({ "id": "t" });
        let body =
            json!({ "model": "big", "max_tokens": 5, "messages": messages, "thread": thread });
        ("/v1/messages", body)
    };
    let on = "";
    let off = "retry_unanswered = false";
    for (settings, (path, body), script, client, repeated) in [
        (on, chat(), cut(), 200, true),
        (on, chat(), begun(), 200, true),
        (on, chat(), status(429), 200, true),
        (on, chat(), status(502), 200, true),
        (on, chat(), status(503), 200, true),
        (on, chat(), status(504), 200, true),
        (on, chat(), status(529), 200, true),
        (on, chat(), page(503), 200, true),
        (on, chat(), page(504), 200, true),
        (on, chat(), status(401), 200, true),
        (on, chat(), status(403), 200, true),
        (on, chat(), status(400), 400, false),
        (on, chat(), status(404), 404, false),
        (on, chat(), status(500), 500, false),
        (on, chat(), page(200), 502, false),
        (on, chat(), page(500), 502, false),
        (off, chat(), cut(), 502, false),
        (off, chat(), begun(), 502, false),
        (off, chat(), status(502), 502, false),
        (off, chat(), page(504), 502, false),
        (off, chat(), status(503), 200, true),
        (on, background(), cut(), 502, false),
        (on, background(), status(504), 504, false),
        (on, background(), status(503), 200, true),
        (on, store(), cut(), 502, false),
        (on, store(), status(502), 502, false),
        (on, store(), status(429), 200, true),
        (on, kept(), status(503), 200, true),
    ] {
        let two = two(settings).await;
        two.a.script([script.clone()]);
        let answer = two.gateway.post(&two.tenant, path, &body).await;
        let case = format!("{settings} {path} {script:?}: {}", answer.text());
        assert_eq!(answer.status, client, "{case}");
        assert_eq!(two.counts(), (1, usize::from(repeated)), "{case}");
        two.gateway.is_idle().await;
        let [requests, ..] = two.gateway.usage(&two.tenant.organization, "completions").await;
        assert!(requests <= 1, "{case}: it counts once");
    }
}

#[tokio::test]
async fn reads_are_repeated_and_so_is_whatever_was_not_sent() {
    let two = two("").await;
    two.a.script([Script::json(&json!({})).before(Step::Cut)]);
    let list = two.gateway.get(&two.tenant, "/v1/vector_stores").await;
    // The answer of `b` is not a list.
    assert_eq!((list.status.as_u16(), two.counts()), (502, (1, 1)));
    two.a.kill();
    let form = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nx\r\n--b--\r\n";
    let kind = [("content-type", "multipart/form-data; boundary=b")];
    for path in ["/v1/uploads", "/v1/containers", "/v1/audio/transcriptions"] {
        let body = match path {
            "/v1/audio/transcriptions" => {
                let file = "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ny\r\n";
                let form = form.replace("purpose", "model").replace("x\r\n", "big-2026-08-01\r\n");
                format!("{file}{form}")
            }
            _ => form.to_owned(),
        };
        let before = two.b.count();
        let answer = two.gateway.with(&two.tenant, Method::POST, path, &kind, body.clone()).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(two.b.count(), before + 1, "{path}");
        let sent = String::from_utf8(two.b.last().body.to_vec()).unwrap();
        assert_eq!(sent, body, "the body is whole");
    }
    let background = json!({ "model": "big", "background": true });
    assert_eq!(two.gateway.post(&two.tenant, RESPONSES, &background).await.status, 200);
}

#[tokio::test]
async fn a_stream_that_has_begun_is_not_repeated() {
    let two = two("").await;
    let gate = Gate::closed();
    let first = event(&json!({ "choices": [{ "delta": { "content": "Hi" } }] }));
    let steps = vec![Step::Bytes(first.clone().into()), Step::Wait(gate), Step::Hang];
    two.a.script([Script::stream(steps)]);
    let mut stream = two.gateway.stream(&two.tenant, &chat_with(json!({ "stream": true }))).await;
    let begun = stream.next().await.unwrap().unwrap();
    two.a.kill();
    assert_eq!((stream.status.as_u16(), &*begun), (200, first.as_bytes()));
    let (rest, is_regular) = stream.rest().await;
    assert!(is_regular && rest.contains("before the response was complete"), "{rest}");
    assert_eq!(two.b.count(), 0);
    two.gateway.is_idle().await;
    let line = "gateway_upstream_failures_total{backend=\"main/a\",reason=\"cut\"}";
    assert_eq!(two.gateway.metric(line).await, 1);
}

/// A host that takes no connections costs the time to connect, until it is put aside.
#[tokio::test]
async fn a_host_that_takes_no_connection_costs_the_time_to_connect() {
    // The second connection is never accepted: the kernel drops its packets, as those of a host that is away.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _waiting = tokio::net::TcpStream::connect(address).await.unwrap();
    let b = Upstream::start().await;
    let (away, there) = (format!("http://{address}/v1"), b.url());
    let config = format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nconnect_timeout_ms = 100\nbackends = [\
         {{ name = \"a\", base_url = \"{away}\" }},\
         {{ name = \"b\", base_url = \"{there}\", priority = 1 }}]\n{BIG}"
    );
    let gateway = TestGateway::start(&config).await;
    let tenant = gateway.tenant("free").await;
    for count in 1..6 {
        assert_eq!((gateway.chat(&tenant).await.status.as_u16(), b.count()), (200, count));
    }
    let failed = "gateway_upstream_failures_total{backend=\"main/a\",reason=\"unreachable\"}";
    assert_eq!(gateway.metric(failed).await, 3);
}

/// If all backends fail, the client gets an answer of one that gave any.
#[tokio::test]
async fn the_last_answer_reaches_the_client() {
    let two = two("").await;
    two.a.script([Script::error(429, &error("busy")).header("retry-after", "7")]);
    two.b.kill();
    let answer = two.chat().await;
    assert_eq!(answer.error().1, "upstream_rate_limited");
    assert_eq!(answer.header("retry-after"), "7");
    two.a.kill();
    assert_eq!(two.chat().await.error().1, "upstream_error");
}

fn of_key(key: &str) -> Value {
    chat_with(json!({ "prompt_cache_key": key }))
}

#[tokio::test]
async fn a_prompt_cache_key_keeps_its_backend() {
    let backends = [Upstream::start().await, Upstream::start().await, Upstream::start().await];
    let [a, b, c] = &backends;
    let config = several("", &[("a", a, ""), ("b", b, ""), ("c", c, "")], "");
    let gateway = TestGateway::start(&config).await;
    let tenant = gateway.tenant("free").await;
    // Where the requests of a key go.
    let places = async |key: String| {
        let before = backends.each_ref().map(Upstream::count);
        for _ in 0..3 {
            assert_eq!(gateway.post(&tenant, CHAT, &of_key(&key)).await.status, 200);
        }
        let after = backends.each_ref().map(Upstream::count);
        (0..3).filter(|at| after[*at] > before[*at]).collect::<Vec<_>>()
    };
    let mut homes = Vec::new();
    for key in 0..12 {
        let places = places(format!("key-{key}")).await;
        assert_eq!(places.len(), 1, "all requests of a key go to one backend");
        homes.push(places[0]);
    }
    let used: BTreeSet<_> = homes.iter().collect();
    assert_eq!(used.len(), 3, "keys are spread: {homes:?}");
    // Another type is the model server's affair.
    let other = chat_with(json!({ "prompt_cache_key": 5 }));
    assert_eq!(gateway.post(&tenant, CHAT, &other).await.status, 200);
    // Only the keys of a backend that is gone move.
    backends[homes[0]].kill();
    for (key, home) in homes.iter().enumerate() {
        let places = places(format!("key-{key}")).await;
        assert_eq!(places.len(), 1);
        assert_eq!(places[0] == *home, *home != homes[0]);
    }
    // They come back.
    backends[homes[0]].restart().await;
    gateway.clock.advance(120 * SECOND);
    assert_eq!(places("key-0".to_owned()).await, [homes[0]]);
}

#[tokio::test]
async fn a_backend_gets_no_more_requests_than_it_takes() {
    let (a, b) = (Upstream::start().await, Upstream::start().await);
    let listed = [("a", &a, ""), ("b", &b, "priority = 1")];
    let config = several("max_concurrency = 1", &listed, "");
    let gateway = Arc::new(TestGateway::start(&config).await);
    let tenant = gateway.tenant("free").await;
    let gate = Gate::closed();
    let held = Script::json(&chat(&usage(3, 2))).before(Step::Wait(gate.clone()));
    a.script([held.clone()]);
    b.script([held]);
    let send = || {
        let (gateway, tenant) = (Arc::clone(&gateway), tenant.clone());
        tokio::spawn(async move { gateway.chat(&tenant).await })
    };
    let first = send();
    a.has_received(1).await;
    let second = send();
    b.has_received(1).await;
    // The third one waits for a place, and is refused when none becomes free within a second.
    let refused = send().await.unwrap();
    assert_eq!(refused.error(), (503, "upstream_busy".into(), String::new()));
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!((a.count(), b.count()), (1, 1));
    let waiting = send();
    gate.open(2);
    for sent in [first, second, waiting] {
        assert_eq!(sent.await.unwrap().status, 200);
    }
    assert_eq!(a.count() + b.count(), 3);
    gateway.is_idle().await;
    // A client that leaves gives its place back.
    let mut leaving = Vec::new();
    for upstream in [&a, &b] {
        upstream.script([Script::json(&json!({})).before(Step::Hang)]);
        let count = upstream.count();
        leaving.push(send());
        upstream.has_received(count + 1).await;
    }
    leaving.iter().for_each(tokio::task::JoinHandle::abort);
    gateway.is_idle().await;
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    // One whose answer is in transit has its place until the end of it.
    let steps = vec![Step::Bytes(event(&json!({ "choices": [] })).into()), Step::Hang];
    a.script([Script::stream(steps)]);
    let stream = gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
    let before = b.count();
    assert_eq!((gateway.chat(&tenant).await.status.as_u16(), b.count()), (200, before + 1));
    drop(stream);
}

/// Answers with an object of its own.
async fn with_objects(name: &'static str) -> Upstream {
    Upstream::answering(move |received: &Received| {
        let id = match &*received.path {
            "/v1/responses" => format!("resp_{name}"),
            "/v1/vector_stores" => format!("vs_{name}"),
            other => other.rsplit('/').next().unwrap_or_default().to_owned(),
        };
        Script::json(
            &json!({ "id": id, "object": "response", "status": "completed", "usage": null }),
        )
    })
    .await
}

#[tokio::test]
async fn objects_stay_at_the_backend_that_made_them() {
    let two = two_of(with_objects("a").await, with_objects("b").await, "").await;
    let (gateway, tenant) = (&two.gateway, &two.tenant);
    let response = json!({ "model": "big", "input": "x" });
    // `a` is not there when they are made.
    two.a.kill();
    assert_eq!(gateway.post(tenant, RESPONSES, &response).await.json()["id"], "resp_b");
    assert_eq!(gateway.post(tenant, "/v1/vector_stores", &json!({})).await.json()["id"], "vs_b");
    two.a.restart().await;
    gateway.clock.advance(60 * SECOND);
    assert_eq!(gateway.post(tenant, RESPONSES, &response).await.json()["id"], "resp_a");
    let before = two.counts();
    let next = json!({ "model": "big", "input": "x", "previous_response_id": "resp_b" });
    let search = json!({ "model": "big", "input": "x",
        "tools": [{ "type": "file_search", "vector_store_ids": ["vs_b"] }] });
    assert_eq!(gateway.post(tenant, RESPONSES, &next).await.status, 200);
    assert_eq!(gateway.post(tenant, RESPONSES, &search).await.status, 200);
    for path in ["/v1/responses/resp_b", "/v1/vector_stores/vs_b", "/v1/vector_stores/vs_b/files"] {
        assert_ne!(gateway.get(tenant, path).await.status, 404, "{path}");
    }
    let cancel = "/v1/responses/resp_b/cancel";
    assert_eq!(gateway.post(tenant, cancel, &json!({})).await.status, 200);
    assert_eq!(two.counts(), (before.0, before.1 + 6));
    let next = json!({ "model": "big", "input": "x", "previous_response_id": "resp_a" });
    gateway.post(tenant, RESPONSES, &next).await;
    assert_eq!(two.counts(), (before.0 + 1, before.1 + 6));
    // Another backend does not know them.
    two.b.kill();
    let gone = gateway.get(tenant, "/v1/responses/resp_b").await;
    assert_eq!((gone.error().1, two.counts().0), ("upstream_error".into(), before.0 + 1));
}

#[tokio::test]
async fn the_store_remembers_the_backend_of_an_object() {
    let two = two_of(with_objects("a").await, with_objects("b").await, "").await;
    let Two { mut gateway, tenant, a, b } = two;
    a.kill();
    let response = json!({ "model": "big", "input": "x" });
    gateway.post(&tenant, RESPONSES, &response).await;
    until("the owner is stored", async || {
        let sql = "SELECT backend FROM responses WHERE id = 'resp_b'";
        let statement = gateway_store::database::Statement::new(sql, []);
        let rows = gateway.gateway.database().query(statement).await.unwrap();
        rows.first().map(|row| assert_eq!(&*row.text(0).unwrap(), "b"))
    })
    .await;
    a.restart().await;
    gateway.end().await;
    let listed = [("a", &a, ""), ("b", &b, "priority = 1")];
    let folder = Arc::clone(&gateway.folder);
    drop(gateway);
    let gateway = TestGateway::start_in(folder, &several("", &listed, ""), 2).await;
    assert_eq!(gateway.get(&tenant, "/v1/responses/resp_b").await.status, 200);
    assert_eq!((a.count(), b.count()), (0, 2));
}

#[tokio::test]
async fn a_response_in_the_background_is_asked_for_at_its_backend() {
    let (a, b) = (Upstream::start().await, Background::start().await);
    a.kill();
    let listed = [("a", &a, ""), ("b", &b.upstream, "priority = 1")];
    let gateway = TestGateway::start(&several("", &listed, "")).await;
    let tenant = gateway.tenant("free").await;
    assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 200);
    a.restart().await;
    let usage = json!({ "input_tokens": 7, "output_tokens": 3, "total_tokens": 10 });
    b.set("resp_1", &json!({ "status": "completed", "output": text(), "usage": usage }));
    gateway.clock.advance(120 * SECOND);
    gateway.gateway.wake_poller();
    let row = row(&gateway, &tenant).await;
    assert_eq!((&row["backend"], &row["output_tokens"]), (&json!("main/b"), &json!(3)));
    assert_eq!((a.count(), b.looks("resp_1")), (0, 1));
}

#[tokio::test]
async fn a_region_is_served_by_backends_that_are_there() {
    let (a, b, eu) = (Upstream::start().await, Upstream::start().await, Upstream::start().await);
    let there = format!("priority = 1\nbase_urls = {{ eu = \"{}\" }}", eu.url());
    let listed = [("a", &a, ""), ("b", &b, &*there)];
    let rest = "[regions]\nprefixes = [\"eu\", \"us\"]\n";
    let gateway = TestGateway::start(&several("", &listed, rest)).await;
    let tenant = gateway.tenant("free").await;
    let from = async |host: &str| {
        let headers = [("host", host), ("content-type", "application/json")];
        let body = chat_with(json!({})).to_string();
        gateway.with(&tenant, Method::POST, CHAT, &headers, body).await
    };
    assert_eq!(from("eu.gateway.example").await.status, 200);
    assert_eq!((a.count(), b.count(), eu.count()), (0, 0, 1));
    assert_eq!(from("us.gateway.example").await.error().1, "region_not_available");
    eu.kill();
    assert_eq!(from("eu.gateway.example").await.error().1, "upstream_error");
    assert_eq!((a.count(), b.count()), (0, 0), "the data stays in its region");
    // An object of a backend that is not there cannot be reached from there.
    let response = json!({ "model": "big", "input": "x" });
    let id = gateway.post(&tenant, RESPONSES, &response).await.json()["id"].clone();
    let path = format!("/v1/responses/{}", id.as_str().unwrap());
    let headers = [("host", "eu.gateway.example")];
    let answer = gateway.with(&tenant, Method::GET, &path, &headers, "").await;
    assert_eq!((answer.error().1, a.count()), ("region_not_available".into(), 1));
    assert_eq!((gateway.get(&tenant, &path).await.status.as_u16(), a.count()), (200, 2));
}

/// The files of a project are those of all backends, one after the other.
#[tokio::test]
async fn files_are_listed_from_all_backends() {
    let files = async |name: &'static str| {
        Upstream::answering(move |received: &Received| match received.method {
            Method::POST => {
                Script::json(&json!({ "id": format!("file-{name}"), "object": "file" }))
            }
            _ => {
                let foreign = json!({ "id": "file-x", "object": "file" });
                let ours = json!({ "id": format!("file-{name}"), "object": "file" });
                let has_after = received.path.contains("after=");
                let data = if has_after { vec![] } else { vec![foreign, ours] };
                Script::json(&json!({ "object": "list", "data": data, "has_more": false }))
            }
        })
        .await
    };
    let two = two_of(files("a").await, files("b").await, "").await;
    let upload = async || {
        let form = "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n\
            --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nx\r\n--b--\r\n";
        let kind = [("content-type", "multipart/form-data; boundary=b")];
        two.gateway.with(&two.tenant, Method::POST, "/v1/files", &kind, form).await
    };
    assert_eq!(upload().await.json()["id"], "file-a");
    two.a.kill();
    assert_eq!(upload().await.json()["id"], "file-b");
    two.a.restart().await;
    two.gateway.clock.advance(60 * SECOND);
    let ids = async |path: &str| {
        let list = two.gateway.get(&two.tenant, path).await.json();
        let data = list["data"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
        data.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("/v1/files").await, ["file-a", "file-b"]);
    assert_eq!(ids("/v1/files?limit=1").await, ["file-a"]);
    assert_eq!(ids("/v1/files?after=file-a").await, ["file-b"]);
    assert_eq!(ids("/v1/files?after=file-b").await, Vec::<String>::new());
}
