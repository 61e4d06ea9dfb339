//! The ledger's sums: usage, costs, exports and monthly sums agree, on an embedded file and on a
//! real PostgreSQL.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::node::{NOW, Node, TOKEN, text};
use crate::common::servers;
use gateway_policy::dates::month;
use gateway_store::ledger::{Endpoint, Entry, month_spend};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);
const DAY: u64 = 86_400;

/// Requests over about four days around the end of a month (30 November 2023), of few projects and
/// keys.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let entry = (
        0_u64..4 * DAY * 1000,
        0_usize..3,
        0_usize..4,
        0_usize..3,
        0_usize..8,
        any::<bool>(),
        (0_u64..1000, 0_u64..1000, 0_u64..1000, 0_u64..3, 0_u64..5000),
        0_u64..5_000_000_000,
    );
    let entry = entry.prop_map(|(at, project, key, model, endpoint, batch, sums, cost)| Entry {
        at: (1_701_216_000 * 1000 + at) * 1000,
        request: format!("req_{at}").into(),
        organization: "org-default".into(),
        project: format!("proj_{project}").into(),
        key: format!("key_{key}").into(),
        model: ["big", "a,\"b\"", "="][model].into(),
        backend: ["main/a", "b", ""][model].into(),
        endpoint: Endpoint::ALL[endpoint],
        status: 200,
        ended: gateway_store::ledger::Ended::Complete,
        batch,
        input_tokens: sums.0,
        cached_tokens: sums.1.min(sums.0),
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        output_tokens: sums.2,
        web_searches: 0,
        images: sums.3,
        audio_milliseconds: sums.4,
        cost,
    });
    prop::collection::vec(entry, 0..150)
}

#[test]
fn all_sums_agree_on_sqlite() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(ProptestConfig { cases: 12, ..ProptestConfig::default() });
    let result = runner.run(&entries(), |entries| {
        runtime.block_on(async { agree(&Node::sqlite().await, entries).await });
        Ok(())
    });
    result.unwrap();
}

#[tokio::test]
async fn all_sums_agree_on_postgres() {
    let server = servers::Postgres::start();
    let mut runner = TestRunner::deterministic();
    for name in ["one", "two"] {
        let entries = entries().new_tree(&mut runner).unwrap().current();
        agree(&Node::postgres(&server.url(), name).await, entries).await;
    }
}

async fn agree(node: &Node, entries: Vec<Entry>) {
    let others = Entry { organization: "org-other".into(), ..one() };
    entries.iter().chain([&others]).for_each(|entry| node.ledger.record(entry.clone()));
    node.ledger.flush(PATIENCE).await.unwrap();
    let total: u64 = entries.iter().map(|entry| entry.cost).sum();

    // Monthly sums.
    let mut months: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for entry in &entries {
        for project in ["", &entry.project] {
            *months.entry((month(entry.at), project.to_owned())).or_default() += entry.cost;
        }
    }
    let mut found = BTreeMap::new();
    for month in [month(NOW * 1_000_000), month(NOW * 1_000_000) + 1] {
        for sum in month_spend(&node.database, "org-default", month).await.unwrap() {
            found.insert((month, sum.project.unwrap_or_default().into()), sum.cost);
        }
    }
    assert_eq!(found, months);

    // Costs, page by page.
    let span = "start_time=1701216000&end_time=1701561600";
    for group in ["", "&group_by=project_id", "&group_by[]=line_item&group_by[]=api_key_id"] {
        let path = format!("/v1/organization/costs?{span}&limit=3{group}");
        let sum: f64 = results(node, &path)
            .await
            .iter()
            .map(|result| result["amount"]["value"].as_f64().unwrap() * 1e6)
            .sum();
        assert_eq!(sum.round() as u64, total, "{group}");
    }

    // Usage.
    let mut of_project: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for entry in &entries {
        let key = (entry.endpoint.name().to_owned(), entry.project.to_string());
        let (requests, input) = of_project.entry(key).or_default();
        *requests += 1;
        *input += entry.input_tokens;
    }
    let mut found: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for endpoint in Endpoint::ALL {
        let name = endpoint.name();
        let path = format!(
            "/v1/organization/usage/{name}?{span}&bucket_width=1h&limit=50&group_by[]=project_id"
        );
        for result in results(node, &path).await {
            assert_eq!(result["object"], format!("organization.usage.{name}.result"));
            let key = (name.to_owned(), text(&result["project_id"]));
            let (requests, input) = found.entry(key).or_default();
            *requests += result["num_model_requests"].as_u64().unwrap();
            let counted = result["input_tokens"].as_u64();
            *input += counted.unwrap_or(0);
        }
    }
    for (key, sums) in &mut of_project {
        if key.0 == "vector_stores" {
            sums.1 = 0;
        }
    }
    assert_eq!(found, of_project);
    exports(node, span, &entries, total).await;
}

async fn exports(node: &Node, span: &str, entries: &[Entry], total: u64) {
    let path = format!("/v1/organization/usage/export?{span}");
    let lines = export(node, &format!("{path}&format=jsonl")).await;
    let rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let micros = |dollars: &str| dollars.replace('.', "").parse::<u64>().unwrap();
    let sum: u64 = rows.iter().map(|row| micros(row["cost_usd"].as_str().unwrap())).sum();
    assert_eq!((rows.len(), sum), (entries.len(), total));
    let times: Vec<_> = rows.iter().map(|row| text(&row["time"])).collect();
    assert!(times.is_sorted());
    let csv = export(node, &format!("{path}&format=csv")).await;
    assert_eq!(csv.lines().count(), entries.len() + 1);
    let costs = csv.lines().skip(1).map(|line| micros(line.rsplit(',').nth(5).unwrap()));
    assert_eq!(costs.sum::<u64>(), total);
}

async fn export(node: &Node, path: &str) -> String {
    let request = hyper::Request::get(path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(axum::body::Body::empty())
        .unwrap();
    let (status, body) = node.send(request).await;
    assert_eq!(status, 200);
    String::from_utf8(body.to_vec()).unwrap()
}

/// All results of all pages.
async fn results(node: &Node, path: &str) -> Vec<Value> {
    let (mut all, mut page, mut end) = (Vec::new(), String::new(), 1_701_216_000);
    loop {
        let answer = node.ask(&format!("GET {path}{page}"), Value::Null).await;
        assert_eq!(answer["object"], "page");
        for bucket in answer["data"].as_array().unwrap() {
            assert_eq!((&bucket["object"], &bucket["start_time"]), (&"bucket".into(), &end.into()));
            end = bucket["end_time"].as_u64().unwrap();
            all.extend(bucket["results"].as_array().unwrap().iter().cloned());
        }
        match answer["next_page"].as_str() {
            Some(next) => page = format!("&page={next}"),
            None => break,
        }
    }
    assert_eq!(end, 1_701_561_600, "buckets leave no gap");
    all
}

fn one() -> Entry {
    Entry {
        at: NOW * 1_000_000,
        request: "req".into(),
        organization: "org-default".into(),
        project: "proj_1".into(),
        key: "key_1".into(),
        model: "big".into(),
        backend: "main".into(),
        endpoint: Endpoint::Completions,
        status: 200,
        ended: gateway_store::ledger::Ended::Complete,
        batch: false,
        input_tokens: 10,
        cached_tokens: 4,
        cache_write_tokens: 0,
        cache_write_1h_tokens: 0,
        output_tokens: 5,
        web_searches: 0,
        images: 0,
        audio_milliseconds: 0,
        cost: 7,
    }
}

#[tokio::test]
async fn queries_include_what_was_recorded_just_before() {
    let node = Node::sqlite().await;
    let span = format!("start_time={}", NOW - 30);
    let ask = async |query: &str| {
        let page = node.ask(&format!("GET /v1/organization/{query}?{span}"), Value::Null).await;
        page["data"][0]["results"][0].clone()
    };
    node.ledger.record(one());
    assert_eq!(ask("usage/completions").await["num_model_requests"], 1);
    node.ledger.record(one());
    assert_eq!(ask("costs").await["amount"]["value"], 0.000_014);
    node.ledger.record(one());
    let path = format!("/v1/organization/usage/export?format=jsonl&{span}");
    assert_eq!(export(&node, &path).await.lines().count(), 3);
}

#[tokio::test]
async fn usage_is_filtered_and_grouped_on_request() {
    let node = Node::sqlite().await;
    for key in 0..3 {
        node.ledger.record(Entry { key: format!("key_{key}").into(), batch: key == 1, ..one() });
    }
    node.ledger.flush(PATIENCE).await.unwrap();
    let base = format!("GET /v1/organization/usage/completions?start_time={}", NOW - 30);
    let answer = node.ask(&format!("{base}&bucket_width=1m&group_by=model"), Value::Null).await;
    let expect = serde_json::json!({ "object": "page", "has_more": false, "next_page": null,
        "data": [{ "object": "bucket", "start_time": NOW - 30, "end_time": NOW + 1, "results": [{
            "object": "organization.usage.completions.result", "num_model_requests": 3,
            "input_tokens": 30, "input_cached_tokens": 12, "input_uncached_tokens": 18,
            "output_tokens": 15, "model": "big", "project_id": null, "api_key_id": null,
            "user_id": null, "batch": null }] }] });
    // NOW is 20 seconds past a minute: there are two buckets, the first without results.
    assert_eq!(answer["data"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(answer["data"][1]["results"], expect["data"][0]["results"]);
    let requests = async |query: &str| {
        let answer = node.ask(&format!("{base}{query}"), Value::Null).await;
        answer["data"][0]["results"][0]["num_model_requests"].clone()
    };
    assert_eq!(requests("&api_key_ids[]=key_0&api_key_ids[]=key_2").await, 2);
    assert_eq!(requests("&batch=true").await, 1);
    assert_eq!(requests("&models=none").await, Value::Null);
    for (query, code, param) in [
        ("x=1", "missing_required_parameter", "start_time"),
        ("start_time=-1", "invalid_value", "start_time"),
        ("start_time=5&end_time=5", "invalid_value", "end_time"),
        ("start_time=5&bucket_width=2d", "invalid_value", "bucket_width"),
        ("start_time=5&limit=32", "invalid_value", "limit"),
        ("start_time=5&group_by=user_id", "invalid_value", "group_by"),
        ("start_time=5&page=page_1", "invalid_value", "page"),
        ("start_time=5&page=x", "invalid_value", "page"),
        ("start_time=5&colour=red", "unknown_parameter", "colour"),
    ] {
        let path = format!("GET /v1/organization/usage/completions?{query}");
        node.refused(&path, Value::Null, (400, code, Some(param))).await;
    }
}
