//! `/metrics`: who may read them and where, the series of projects, and times by model.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::json;

use crate::common::gateway::{TestGateway, chat_with, config};
use crate::common::upstream::{Gate, Script, Step, Upstream, chat, event, usage};

const MODEL: &str = "[models.\"big-1\"]\naliases = [\"big\"]\nprice = { input = 1.0, output = 1.0 }\n\
                     [tiers.free.limits.big]\nrpm = 5\n";

/// The value of a series of a project.
async fn series(
    gateway: &TestGateway,
    name: &str,
    organization: &str,
    project: &str,
    more: &str,
) -> Option<u64> {
    let line = format!("{name}{{organization=\"{organization}\",project=\"{project}\"{more}}} ");
    let page = gateway.send(Method::GET, "/metrics", &[], "").await.text();
    page.lines().find_map(|known| known.strip_prefix(&line)).map(|value| value.parse().unwrap())
}

#[tokio::test]
async fn the_busiest_projects_have_series_and_all_others_share_one() {
    let upstream = Upstream::start().await;
    let configured = config(&upstream, &format!("[metrics]\ntop_projects = 2\n{MODEL}"));
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut gateway = TestGateway::start_in(Arc::clone(&folder), &configured, 1).await;
    let mut tenants = Vec::new();
    for _ in 0..3 {
        tenants.push(gateway.tenant("free").await);
    }
    // The third project comes last, and has most requests.
    for (tenant, requests) in tenants.iter().zip([1, 2, 7]) {
        for _ in 0..requests {
            upstream.script([Script::json(&chat(&usage(10, 5)))]);
            gateway.chat(tenant).await;
        }
    }
    let requests = "gateway_project_requests_total";
    let ok = ",status=\"200\"";
    for (tenant, count) in [(&tenants[0], Some(1)), (&tenants[1], Some(2)), (&tenants[2], None)] {
        let (organization, project) = (&tenant.organization, &tenant.project);
        assert_eq!(series(&gateway, requests, organization, project, ok).await, count);
    }
    let of_others = async |name, more| series(&gateway, name, "other", "other", more).await;
    assert_eq!(of_others(requests, ok).await, Some(5));
    let name = "gateway_project_tokens_total";
    assert_eq!(of_others(name, ",kind=\"input\"").await, Some(50));
    assert_eq!(of_others("gateway_project_spend_microdollars_total", "").await, Some(75));
    let name = "gateway_project_rejected_total";
    assert_eq!(of_others(name, ",dimension=\"rpm\"").await, Some(2));
    // A restart gives the places to the projects with most requests in the ledger.
    gateway.end().await;
    drop(gateway);
    let again = TestGateway::start_in(folder, &configured, 2).await;
    again.clock.advance(60_000_000);
    for tenant in &tenants {
        upstream.script([Script::json(&chat(&usage(10, 5)))]);
        assert_eq!(again.chat(tenant).await.status, 200);
    }
    for (tenant, count) in [(&tenants[0], None), (&tenants[1], Some(1)), (&tenants[2], Some(1))] {
        let (organization, project) = (&tenant.organization, &tenant.project);
        assert_eq!(series(&again, requests, organization, project, ok).await, count);
    }
    assert_eq!(series(&again, requests, "other", "other", ok).await, Some(1));
}

#[tokio::test]
async fn the_time_to_the_first_output_and_to_the_end_are_measured() {
    let upstream = Upstream::start().await;
    let gateway = TestGateway::start(&config(&upstream, MODEL)).await;
    let tenant = gateway.tenant("1").await;
    let piece = |delta: serde_json::Value| {
        let event = event(&json!({ "choices": [{ "delta": delta, "index": 0 }] }));
        Step::Bytes(Bytes::from(event))
    };
    let (first, second) = (Gate::closed(), Gate::closed());
    upstream.script([Script::stream(vec![
        piece(json!({ "role": "assistant", "content": "" })),
        Step::Wait(first.clone()),
        piece(json!({ "content": "Hello" })),
        Step::Wait(second.clone()),
        piece(json!({ "content": " you" })),
        Step::Bytes(Bytes::from_static(b"data: [DONE]\n\n")),
    ])]);
    let mut stream = gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await;
    stream.next().await.unwrap().unwrap();
    gateway.clock.advance(2_000_000);
    first.open(1);
    stream.next().await.unwrap().unwrap();
    gateway.clock.advance(3_000_000);
    second.open(1);
    stream.rest().await;
    gateway.is_idle().await;
    // A plain answer has no first token of its own; its time is measured.
    upstream.script([Script::json(&chat(&usage(10, 5)))]);
    gateway.chat(&tenant).await;
    let page = gateway.send(Method::GET, "/metrics", &[], "").await.text();
    let value = |name: &str| -> f64 {
        let line = format!("{name}{{model=\"big-1\"}} ");
        let found = page.lines().find_map(|known| known.strip_prefix(&line));
        found.unwrap_or_else(|| panic!("no {name} in {page}")).parse().unwrap()
    };
    assert_eq!(value("gateway_time_to_first_token_seconds_count"), 1.0);
    assert!((value("gateway_time_to_first_token_seconds_sum") - 2.0).abs() < 1e-9);
    assert_eq!(value("gateway_request_seconds_count"), 2.0);
    assert!((value("gateway_request_seconds_sum") - 5.0).abs() < 1e-9);
}

/// Gets a path from the listener of the metrics.
async fn get(gateway: &TestGateway, method: Method, path: &str, token: &str) -> (u16, String) {
    let address = gateway.gateway.metrics_address().expect("a port of its own");
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "metrics");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    connection.abort();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn metrics_have_a_port_of_their_own() {
    let upstream = Upstream::start().await;
    let own = "[metrics]\nlisten = \"127.0.0.1:0\"\n";
    let gateway = TestGateway::start(&config(&upstream, own)).await;
    assert_eq!(gateway.send(Method::GET, "/metrics", &[], "").await.status, 404);
    let (status, page) = get(&gateway, Method::GET, "/metrics", "").await;
    assert!(status == 200 && page.contains("gateway_open_requests 0"), "{status} {page}");
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/v1/models"),
        (Method::GET, "/dashboard"),
        (Method::POST, "/metrics"),
        (Method::DELETE, "/metrics"),
    ] {
        assert_eq!(get(&gateway, method.clone(), path, "").await.0, 404, "{method} {path}");
    }
    // A client that sends nothing holds up no other.
    let address = gateway.gateway.metrics_address().unwrap();
    let silent = tokio::net::TcpStream::connect(address).await.unwrap();
    assert_eq!(get(&gateway, Method::GET, "/metrics", "").await.0, 200);
    drop(silent);
    let taken = config(&upstream, &format!("[metrics]\nlisten = \"{address}\"\n"));
    let refused = TestGateway::try_open(&taken).await.err().unwrap().to_string();
    assert!(refused.contains(&address.to_string()) && refused.contains("[metrics]"), "{refused}");
}

#[tokio::test]
async fn readers_of_metrics_need_the_token() {
    let upstream = Upstream::start().await;
    let token = "the-token-of-the-readers";
    for own_port in [false, true] {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let file = folder.path().join("reader");
        std::fs::write(&file, token).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, mode).unwrap();
        let listen = if own_port { "listen = \"127.0.0.1:0\"\n" } else { "" };
        let more = format!("[metrics]\ntoken_file = \"reader\"\n{listen}");
        let configured = config(&upstream, &more);
        let gateway = TestGateway::start_in(folder, &configured, 1).await;
        let ask = async |token: &str| match own_port {
            true => get(&gateway, Method::GET, "/metrics", token).await,
            false => {
                let bearer = format!("Bearer {token}");
                let headers = [("authorization", &*bearer)];
                let headers = if token.is_empty() { &[] } else { &headers[..] };
                let answer = gateway.send(Method::GET, "/metrics", headers, "").await;
                (answer.status.as_u16(), answer.text())
            }
        };
        for wrong in ["", "the-token-of-the-reader", crate::common::gateway::ADMIN] {
            assert_eq!(ask(wrong).await.0, 401, "{wrong}");
        }
        let (status, page) = ask(token).await;
        let counted = "gateway_failed_sign_ins_total{surface=\"metrics\",\
                       reason=\"invalid_metrics_token\"} 3";
        assert!(status == 200 && page.contains(counted), "{page}");
        assert!(!page.contains(token) && !gateway.log().contains(token));
    }
}

/// The log has the usage of a row that the store refuses, so that an operator can add it.
#[tokio::test]
async fn lost_usage_is_counted_and_logged() {
    let upstream = Upstream::start().await;
    upstream.script([Script::json(&chat(&usage(3, 2)))]);
    let gateway = TestGateway::start(&config(&upstream, MODEL)).await;
    let tenant = gateway.tenant("free").await;
    let store = rusqlite::Connection::open(gateway.folder.path().join("gateway.db")).unwrap();
    let trap = "CREATE TRIGGER trap BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'no'); END";
    store.execute_batch(trap).unwrap();
    assert_eq!(gateway.chat(&tenant).await.status, 200);
    gateway.flush().await;
    assert_eq!(gateway.metric("gateway_ledger_lost_requests").await, 1);
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains("is not in the ledger")).expect("a line");
    for part in [
        &*tenant.organization,
        &tenant.project,
        &tenant.key_id,
        "input_tokens=3",
        "output_tokens=2",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}
