//! Money: the cost of tokens for clients that ask for it, with agents, across restarts, and by the
//! model and tier that really answered; and what a provider says of that model.

use serde_json::{Value, json};
use store::{SqliteConfig, Store, UsageQuery, UsageRow};
use testkit::{Peer, TestEnvironment};

use crate::{calls, runs, says};

/// A response with this use of tokens.
fn uses(input: u64, cached: u64, output: u64, mut response: Value) -> Value {
    let usage = json!({ "usage": { "input_tokens": input, "cached_input_tokens": cached,
        "output_tokens": output } });
    response["steps"].as_array_mut().unwrap().push(usage);
    response
}

/// Models with prices: `m` is the default, `cheap` costs a tenth, `free` has no price.
async fn environment(responses: Value) -> TestEnvironment {
    let env = TestEnvironment::with_responses(responses).await;
    let catalog = json!({ "models": [
        { "id": "m", "family": "gpt", "is_default": true, "prices": {
            "input": "2.5", "cached_input": "0.25", "output": 10,
            "tiers": { "priority": { "input": "5", "output": "20" } } } },
        { "id": "cheap", "family": "gpt", "prices": { "input": "0.25", "output": "1" } },
        { "id": "unpriced", "family": "gpt" } ] });
    std::fs::write(env.home().join("models.json"), catalog.to_string()).unwrap();
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.write_config(
        &config.replace("model = \"gpt-5\"\n", "model_catalog_json = \"models.json\"\n"),
    );
    env
}

fn asks() -> Value {
    json!({ "experimentalApi": true, "tokenCost": true })
}

fn unrestricted() -> Value {
    json!({ "sandbox": "dangerFullAccess", "approvalPolicy": "never" })
}

/// The costs of all reports that a connection was sent about a thread.
fn costs(peer: &Peer, thread: &str) -> Vec<Value> {
    let lines = peer.raw_lines().iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let reports = lines.filter(|line| {
        line["method"] == "thread/tokenUsage/updated" && line["params"]["threadId"] == thread
    });
    reports.map(|report| report["params"]["tokenUsage"]["cost"].clone()).collect()
}

fn cost(last: &str, turn: &str, with_agents: &str, thread: &str) -> Value {
    json!({ "currency": "USD", "last": last, "turn": turn, "turnWithAgents": with_agents,
        "thread": thread })
}

/// What is stored of the use of tokens.
async fn stored(env: &TestEnvironment) -> Vec<UsageRow> {
    let store = Store::open(SqliteConfig::new(env.home(), 0, "reader")).await.unwrap();
    let all = UsageQuery { after: 0, from_ms: i64::MIN, to_ms: i64::MAX, limit: 100 };
    let rows = store.usage(all).await.unwrap();
    store.close().await.unwrap();
    rows
}

#[tokio::test]
async fn clients_that_ask_get_the_cost_of_response_turn_and_thread() {
    let env = environment(json!([
        uses(1000, 400, 10, runs("true")),
        uses(2000, 0, 0, says("Done.")),
        uses(1, 0, 0, says("Again.")),
        uses(1, 1, 0, says("After a restart.")),
        uses(5, 0, 0, says("Nobody knows.")),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(asks()).await;
    let thread = peer.start_thread(unrestricted()).await;
    let mut plain = server.connect_with(json!({ "experimentalApi": true })).await;
    plain.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    assert_eq!(peer.run_turn(&thread, "More.").await["status"], "completed");
    // 600 · 2.5 + 400 · 0.25 + 10 · 10 dollars for a million; then 2000 · 2.5.
    let expected = [
        cost("0.0017", "0.0017", "0.0017", "0.0017"),
        cost("0.005", "0.0067", "0.0067", "0.0067"),
        cost("0.0000025", "0.0000025", "0.0000025", "0.0067025"),
    ];
    assert_eq!(costs(&peer, &thread), expected);
    plain.expect_where("turn/completed", |_| true).await;
    plain.expect_where("turn/completed", |_| true).await;
    assert_eq!(costs(&plain, &thread), [Value::Null, Value::Null, Value::Null]);
    server.stop().await;

    let server = env.start();
    let mut peer = server.connect_with(asks()).await;
    peer.call("thread/resume", json!({ "threadId": thread })).await;
    assert_eq!(peer.run_turn(&thread, "Go on.").await["status"], "completed");
    let input = json!([{ "type": "text", "text": "And this?" }]);
    let turn = json!({ "threadId": thread, "input": input, "model": "unpriced" });
    assert_eq!(peer.run_turn_with(turn).await["status"], "completed");
    let unknown = json!({ "currency": "USD", "last": null, "turn": null, "turnWithAgents": null,
        "thread": null });
    let small = "0.00000025";
    assert_eq!(costs(&peer, &thread), [cost(small, small, small, "0.00670275"), unknown]);
    server.stop().await;

    let rows = stored(&env).await;
    let kept: Vec<_> = rows.iter().map(|row| (row.record.cost, &*row.record.model)).collect();
    let expected = [
        (Some(1_700_000_000), "m"),
        (Some(5_000_000_000), "m"),
        (Some(2_500_000), "m"),
        (Some(250_000), "m"),
        (None, "unpriced"),
    ];
    assert_eq!(kept, expected);
    assert!(rows.iter().all(|row| row.thread.as_deref() == Some(&*thread)));
    assert!(rows.iter().all(|row| *row.project == *env.workspace().to_string_lossy()));
    let first = &rows[0].record;
    assert_eq!((first.input, first.cached_input, first.output), (Some(1000), Some(400), Some(10)));
    assert_eq!((&*first.provider, &first.service_tier), ("scripted", &None));
}

#[tokio::test]
async fn the_cost_of_a_turn_includes_its_agents_and_each_request_is_stored_once() {
    let of = |at: u64, list: Vec<Value>| {
        list.into_iter().map(move |mut response| {
            response["conversation"] = at.into();
            response
        })
    };
    let root = vec![
        uses(1000, 0, 0, calls("spawn_agent", json!({ "message": "Work." }))),
        uses(1000, 0, 0, calls("wait_agent", json!({ "targets": ["Ada"], "timeout_ms": 10_000 }))),
        uses(1000, 0, 0, says("Done.")),
    ];
    let agent = vec![uses(4000, 0, 0, says("Worked."))];
    let responses: Vec<Value> = of(0, root).chain(of(1, agent)).collect();
    let env = environment(responses.into()).await;
    let server = env.start();
    let mut peer = server.connect_with(asks()).await;
    let thread = peer.start_thread(unrestricted()).await;
    assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    let last = costs(&peer, &thread).pop().unwrap();
    assert_eq!(last, cost("0.0025", "0.0075", "0.0175", "0.0075"));
    server.stop().await;
    let rows = stored(&env).await;
    let sum: i64 = rows.iter().map(|row| row.record.cost.unwrap()).sum();
    assert_eq!((rows.len(), model::dollars(sum.into())), (4, "0.0175".to_owned()));
}

#[tokio::test]
async fn the_capability_is_experimental() {
    let env = environment(json!([says("Hello.")])).await;
    let server = env.start();
    let mut peer = server.open(jsonrpc::Limits::default());
    let client = json!({ "name": "c", "version": "1" });
    let params = json!({ "clientInfo": client, "capabilities": { "tokenCost": true } });
    let fault = peer.refused("initialize", params).await;
    assert!(fault.message.contains("tokenCost requires experimentalApi"), "{}", fault.message);
}

/// A response in the provider's own words.
fn raw(events: &[Value]) -> Value {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    json!({ "steps": [{ "cut": text }] })
}

fn completed(tier: &str) -> Value {
    let usage = json!({ "input_tokens": 1000, "output_tokens": 0, "total_tokens": 1000 });
    json!({ "type": "response.completed",
        "response": { "id": "r", "service_tier": tier, "usage": usage } })
}

#[tokio::test]
async fn another_model_is_reported_once_and_charged() {
    let created = |model: &str| {
        json!({ "type": "response.created", "response": { "id": "r", "model": "m",
            "headers": { "OpenAI-Model": model } } })
    };
    let verify = json!({ "type": "response.metadata", "metadata": {
        "openai_verification_recommendation": ["unknown", "trusted_access_for_cyber"] } });
    let call = json!({ "type": "response.output_item.done", "output_index": 0, "item": {
        "type": "function_call", "id": "f", "call_id": "c", "name": "update_plan",
        "arguments": "{\"plan\":[]}" } });
    let env = environment(json!([
        raw(&[created("cheap"), verify.clone(), call, completed("default")]),
        raw(&[created("cheap-2026-01-02"), verify, completed("priority")]),
        raw(&[created("m-2026-01-02"), completed("priority")]),
        raw(&[created("m"), completed("scale")]),
    ]))
    .await;
    let server = env.start();
    let mut peer = server.connect_with(asks()).await;
    let thread = peer.start_thread(unrestricted()).await;
    for _ in 0..3 {
        assert_eq!(peer.run_turn(&thread, "Go.").await["status"], "completed");
    }
    let lines: Vec<Value> =
        peer.raw_lines().iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sent = |method: &str| -> Vec<Value> {
        let lines = lines.iter().filter(|line| line["method"] == method);
        lines.map(|line| line["params"].clone()).collect()
    };
    let rerouted = sent("model/rerouted");
    assert_eq!(rerouted[0]["toModel"], "cheap");
    assert_eq!(
        (&rerouted[0]["fromModel"], &rerouted[0]["threadId"]),
        (&json!("m"), &json!(thread))
    );
    let targets: Vec<&Value> = rerouted.iter().map(|params| &params["toModel"]).collect();
    assert_eq!(targets, ["cheap", "cheap-2026-01-02"]);
    let verifications = sent("model/verification");
    assert_eq!(verifications.len(), 1, "once a turn");
    assert_eq!(verifications[0]["verifications"], json!(["trustedAccessForCyber"]));
    let last: Vec<Value> = costs(&peer, &thread).iter().map(|cost| cost["last"].clone()).collect();
    // At the price of `cheap`; its tier has no price; that of `m`; a tier without a price.
    assert_eq!(last, [json!("0.00025"), Value::Null, json!("0.005"), Value::Null]);
    server.stop().await;
    let rows = stored(&env).await;
    let kept: Vec<_> =
        rows.iter().map(|row| (&*row.record.model, row.record.service_tier.as_deref())).collect();
    let priority = Some("priority");
    let expected =
        [("cheap", None), ("cheap-2026-01-02", priority), ("m", priority), ("m", Some("scale"))];
    assert_eq!(kept, expected);
}
