//! Responses that the gateway keeps for models whose servers keep none: they are continued, read and deleted by their own
//! project alone, on every wire, on any node, for a bounded time and within a bounded size.

use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};
use wire::Wire;

use super::dialects::{PROMPT, Reply, TEXT, answer};
use super::{PRICE, start};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway};
use crate::common::servers::Postgres;
use crate::common::upstream::Upstream;

const KEEP: &str = "[responses]\nkeep = true\n";
const DAY: u64 = 86_400 * SECOND;
const OTHERS: [Wire; 3] = [Wire::Chat, Wire::Messages, Wire::Gemini];

/// Asks for a response with a text as the answer.
async fn ask(gateway: &TestGateway, upstream: &Upstream, tenant: &Tenant, more: Value) -> Answer {
    ask_on(gateway, upstream, tenant, Wire::Chat, more).await
}

async fn ask_on(
    gateway: &TestGateway,
    upstream: &Upstream,
    tenant: &Tenant,
    wire: Wire,
    more: Value,
) -> Answer {
    let mut body = json!({ "model": "big", "input": PROMPT });
    for (name, value) in more.as_object().expect("members") {
        body[name] = value.clone();
    }
    upstream.script([answer(wire, Reply::Text, body["stream"] == true)]);
    gateway.post(tenant, "/v1/responses", &body).await
}

/// The id of a response that was not streamed.
fn id(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["id"].as_str().expect("an id").to_owned()
}

/// The response at the end of a stream.
fn streamed(answer: &Answer) -> Value {
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str::<Value>(data).expect("an event"));
    let end = events.rev().find(|event| event["type"] == "response.completed");
    end.unwrap_or_else(|| panic!("no end: {text}"))["response"].clone()
}

async fn delete(gateway: &TestGateway, tenant: &Tenant, id: &str) -> Answer {
    let path = format!("/v1/responses/{id}");
    let key = format!("Bearer {}", tenant.key);
    gateway.send(Method::DELETE, &path, &[("authorization", &key)], String::new()).await
}

async fn get(gateway: &TestGateway, tenant: &Tenant, id: &str) -> Answer {
    gateway.get(tenant, &format!("/v1/responses/{id}")).await
}

fn assert_lost(answer: &Answer) {
    let (status, code, param) = answer.error();
    assert_eq!(
        (status, &*code, &*param),
        (400, "previous_response_not_found", "previous_response_id")
    );
}

#[tokio::test]
async fn responses_are_continued_on_every_wire() {
    for backend in OTHERS {
        for stream in [false, true] {
            let upstream = Upstream::start().await;
            let gateway = start(&upstream, backend, KEEP).await;
            let tenant = gateway.tenant("free").await;
            let context = format!("{backend}, stream: {stream}");
            upstream.script([answer(backend, Reply::Call, stream)]);
            let tools = json!([{ "type": "function", "name": "weather", "parameters": {}, "strict": false }]);
            let body = json!({ "model": "big", "input": "plum", "stream": stream, "tools": tools });
            let answered = gateway.post(&tenant, "/v1/responses", &body).await;
            let first = if stream { streamed(&answered) } else { answered.json() };
            assert_eq!(
                (&first["store"], &first["previous_response_id"]),
                (&json!(true), &Value::Null)
            );
            let call = first["output"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["type"] == "function_call");
            let call_id = call.expect("a call")["call_id"].clone();
            let item =
                json!({ "type": "function_call_output", "call_id": call_id, "output": "sunny" });
            let more = json!({ "input": [item], "tools": tools, "stream": stream, "previous_response_id": first["id"] });
            let answered = ask_on(&gateway, &upstream, &tenant, backend, more).await;
            assert_eq!(answered.status, 200, "{context}: {}", answered.text());
            let second = if stream { streamed(&answered) } else { answered.json() };
            assert_eq!(second["previous_response_id"], first["id"], "{context}");
            let sent = upstream.last().json().to_string();
            for part in ["plum", "Oslo", "sunny"] {
                assert!(sent.contains(part), "{context}: {part} in {sent}");
            }
            // Both are read as they were answered.
            for response in [&first, &second] {
                let read = get(&gateway, &tenant, response["id"].as_str().unwrap()).await;
                assert_eq!(&read.json(), response, "{context}");
            }
            let path = format!("/v1/responses/{}/input_items", first["id"].as_str().unwrap());
            let items = gateway.get(&tenant, &path).await.json();
            assert_eq!(
                items["data"][0]["content"],
                json!([{ "type": "input_text", "text": "plum" }])
            );
            assert!(items["data"][0]["id"].is_string() && items["has_more"] == false, "{items}");
        }
    }
}

#[tokio::test]
async fn the_next_request_may_follow_the_end_of_a_stream_at_once() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Messages, KEEP).await;
    let tenant = gateway.tenant("free").await;
    let mut previous = Value::Null;
    for turn in 0..20 {
        let more = json!({ "stream": true, "previous_response_id": previous, "input": format!("turn {turn}.") });
        let answered = ask_on(&gateway, &upstream, &tenant, Wire::Messages, more).await;
        previous = streamed(&answered)["id"].clone();
        let sent = upstream.last().json().to_string();
        assert!((0..=turn).all(|turn| sent.contains(&format!("turn {turn}."))), "{sent}");
        assert_eq!(sent.matches(TEXT).count(), turn, "{sent}");
    }
}

#[tokio::test]
async fn other_projects_see_nothing() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, KEEP).await;
    let tenant = gateway.tenant("free").await;
    let same_organization = gateway.project(&tenant.organization, Value::Null).await;
    let first = id(&ask(&gateway, &upstream, &tenant, json!({ "input": "secret plum" })).await);
    for other in [&gateway.tenant("free").await, &same_organization] {
        let unknown = "resp_00000000000000000000000000000000";
        for (one, none) in [
            (get(&gateway, other, &first).await, get(&gateway, other, unknown).await),
            (delete(&gateway, other, &first).await, delete(&gateway, other, unknown).await),
        ] {
            assert_eq!(one.status, 404, "{}", one.text());
            assert_eq!(one.text().replace(&first, unknown), none.text());
        }
        let items = gateway.get(other, &format!("/v1/responses/{first}/input_items")).await;
        assert_eq!(items.status, 404);
        let before = upstream.count();
        assert_lost(
            &ask(&gateway, &upstream, other, json!({ "previous_response_id": first })).await,
        );
        assert_eq!(upstream.count(), before, "nothing is sent");
    }
    assert_eq!(get(&gateway, &tenant, &first).await.status, 200);
}

#[tokio::test]
async fn a_chain_with_a_deleted_response_is_not_continued() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, KEEP).await;
    let tenant = gateway.tenant("free").await;
    let mut ids = vec![id(&ask(&gateway, &upstream, &tenant, json!({})).await)];
    for _ in 0..2 {
        let more = json!({ "previous_response_id": ids.last() });
        ids.push(id(&ask(&gateway, &upstream, &tenant, more).await));
    }
    let deleted = delete(&gateway, &tenant, &ids[1]).await;
    assert_eq!(deleted.json(), json!({ "id": ids[1], "object": "response", "deleted": true }));
    assert_eq!(delete(&gateway, &tenant, &ids[1]).await.status, 404);
    assert_eq!(get(&gateway, &tenant, &ids[1]).await.status, 404);
    assert_eq!(get(&gateway, &tenant, &ids[2]).await.status, 200);
    for lost in &ids[1..] {
        assert_lost(
            &ask(&gateway, &upstream, &tenant, json!({ "previous_response_id": lost })).await,
        );
    }
    id(&ask(&gateway, &upstream, &tenant, json!({ "previous_response_id": ids[0] })).await);
}

#[tokio::test]
async fn what_is_not_to_be_kept_is_not_kept() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, KEEP).await;
    let tenant = gateway.tenant("free").await;
    let first = id(&ask(&gateway, &upstream, &tenant, json!({})).await);
    let more = json!({ "store": false, "previous_response_id": first });
    let forgotten = ask(&gateway, &upstream, &tenant, more).await;
    assert_eq!(forgotten.json()["store"], false);
    let forgotten = id(&forgotten);
    assert_eq!(get(&gateway, &tenant, &forgotten).await.status, 404);
    assert_lost(
        &ask(&gateway, &upstream, &tenant, json!({ "previous_response_id": forgotten })).await,
    );
    // The setting is turned off: what is kept stays.
    let config = format!(
        "[admin]\ntoken_file = \"token\"\n[upstreams.main]\nbase_url = \"http://{}/v1\"\nwire = \"chat\"\n\
         env_key = \"UPSTREAM_KEY\"\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n",
        upstream.address
    );
    gateway.reload(&config);
    assert_eq!(get(&gateway, &tenant, &first).await.status, 200);
    let second =
        id(&ask(&gateway, &upstream, &tenant, json!({ "previous_response_id": first })).await);
    assert_eq!(get(&gateway, &tenant, &second).await.status, 404);
    let refused = ask(&gateway, &upstream, &tenant, json!({ "store": true })).await;
    assert_eq!(refused.error().1, "unsupported_parameter");
}

/// A conversation expires as a whole, some time after its last use.
#[tokio::test]
async fn conversations_expire_after_their_last_use() {
    let upstream = Upstream::start().await;
    let gateway = start(&upstream, Wire::Chat, &format!("{KEEP}retention_days = 10\n")).await;
    let tenant = gateway.tenant("free").await;
    let first = id(&ask(&gateway, &upstream, &tenant, json!({})).await);
    let mut last = first.clone();
    for _ in 0..3 {
        gateway.clock.advance(9 * DAY);
        last =
            id(&ask(&gateway, &upstream, &tenant, json!({ "previous_response_id": last })).await);
        assert_eq!(get(&gateway, &tenant, &first).await.status, 200);
    }
    gateway.clock.advance(10 * DAY);
    for lost in [&first, &last] {
        assert_eq!(get(&gateway, &tenant, lost).await.status, 404);
        assert_lost(
            &ask(&gateway, &upstream, &tenant, json!({ "previous_response_id": lost })).await,
        );
    }
}

#[tokio::test]
async fn a_project_has_bounded_room() {
    let upstream = Upstream::start().await;
    let gateway =
        start(&upstream, Wire::Chat, &format!("{KEEP}max_project_bytes = 1048576\n")).await;
    let (tenant, other) = (gateway.tenant("free").await, gateway.tenant("free").await);
    let large = "x".repeat(300_000);
    let elsewhere = id(&ask(&gateway, &upstream, &other, json!({ "input": large })).await);
    let mut ids = Vec::new();
    for _ in 0..5 {
        gateway.clock.advance(SECOND);
        ids.push(id(&ask(&gateway, &upstream, &tenant, json!({ "input": large })).await));
    }
    let mut kept = Vec::new();
    for id in &ids {
        kept.push(get(&gateway, &tenant, id).await.status);
    }
    assert_eq!(kept, [404, 404, 200, 200, 200]);
    assert_eq!(get(&gateway, &other, &elsewhere).await.status, 200);
    // Deleting makes room, too.
    delete(&gateway, &tenant, &ids[2]).await;
    gateway.clock.advance(SECOND);
    ids.push(id(&ask(&gateway, &upstream, &tenant, json!({ "input": large })).await));
    assert_eq!(get(&gateway, &tenant, &ids[3]).await.status, 200);
    // One conversation may have all of it, and is not continued beyond it.
    let mut previous = ids[5].clone();
    let refused = loop {
        let more = json!({ "input": large, "previous_response_id": previous });
        let answered = ask(&gateway, &upstream, &tenant, more).await;
        if answered.status != 200 {
            break answered;
        }
        previous = id(&answered);
    };
    let (status, code, param) = refused.error();
    assert_eq!((status, &*code, &*param), (400, "invalid_value", "previous_response_id"));
    let refused =
        ask(&gateway, &upstream, &tenant, json!({ "input": "x".repeat(1_100_000) })).await;
    assert_eq!(refused.error(), (400, "unsupported_parameter".to_owned(), "store".to_owned()));
}

/// The input that a response continues is estimated, reserved and charged as if the client had sent it.
#[tokio::test]
async fn what_is_continued_counts() {
    let upstream = Upstream::start().await;
    let limits = format!("{KEEP}[tiers.free.limits.big]\ntpm = 1000\n");
    let gateway = start(&upstream, Wire::Chat, &limits).await;
    let tenant = gateway.tenant("free").await;
    let more = json!({ "input": "x".repeat(3200), "max_output_tokens": 5 });
    let first = id(&ask(&gateway, &upstream, &tenant, more).await);
    gateway.is_idle().await;
    let more = json!({ "previous_response_id": first, "max_output_tokens": 5 });
    let second = ask(&gateway, &upstream, &tenant, more).await;
    let [_, remaining, _] = second.limits("tokens");
    // Of 1000, what the first one used, and the estimate of both inputs.
    assert!(remaining.parse::<u64>().unwrap() < 1000 - 30 - 800, "{remaining} remain");
}

#[tokio::test]
async fn two_nodes_share_what_is_kept() {
    let (postgres, upstream) = (Postgres::start(), Upstream::start().await);
    let text = format!(
        "[admin]\ntoken_file = \"token\"\n[store]\nurl = \"{}\"\n[upstreams.main]\nbase_url = \"http://{}/v1\"\n\
         wire = \"messages\"\nenv_key = \"UPSTREAM_KEY\"\n[models.big]\nupstream_model = \"up\"\n{PRICE}\n{KEEP}",
        postgres.url(),
        upstream.address
    );
    let node = async |seed| {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        TestGateway::start_in(folder, &text, seed).await
    };
    let nodes = [node(1).await, node(2).await];
    let tenant = nodes[0].tenant("free").await;
    let mut previous = Value::Null;
    let mut ids = Vec::new();
    for turn in 0..6 {
        let more = json!({ "previous_response_id": previous, "input": format!("turn {turn}.") });
        let answered = ask_on(&nodes[turn % 2], &upstream, &tenant, Wire::Messages, more).await;
        ids.push(id(&answered));
        previous = json!(ids[turn]);
        let sent = upstream.last().json().to_string();
        assert!((0..=turn).all(|turn| sent.contains(&format!("turn {turn}."))), "{sent}");
    }
    assert_eq!(delete(&nodes[1], &tenant, &ids[2]).await.status, 200);
    assert_eq!(get(&nodes[0], &tenant, &ids[2]).await.status, 404);
    let more = json!({ "previous_response_id": previous });
    assert_lost(&ask_on(&nodes[0], &upstream, &tenant, Wire::Messages, more).await);
}
