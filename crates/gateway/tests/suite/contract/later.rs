//! Responses in the background: they are settled from their end, whoever sees it first, and count as reserved until then.

use std::sync::Arc;
use std::time::Duration;

use gateway_policy::dates;
use gateway_policy::plan::{ORGANIZATION_SPEND, spend_meter};
use hyper::Method;
use ratelimit::{Bound, Draw};
use serde_json::{Value, json};

use super::BIG;
use super::ends;
use crate::common::background::{Background, text};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, config};
use crate::common::servers::{Postgres, Redis};
use crate::common::upstream::{Script, usage};

const RESPONSES: &str = "/v1/responses";
/// What a response of [`ask`] may cost: one token of input at 1 micro-dollar, and 500 of output at 10.
pub(super) const MOST: u64 = 1 + 5000;
const DAY: u64 = 86_400 * SECOND;

pub(super) fn ask() -> Value {
    json!({ "model": "big", "input": "x", "background": true, "max_output_tokens": 500 })
}

pub(super) fn configured(background: &Background) -> String {
    config(&background.upstream, BIG)
}

async fn start() -> (TestGateway, Background, Tenant) {
    let background = Background::start().await;
    let gateway = TestGateway::start(&configured(&background)).await;
    let tenant = gateway.tenant("free").await;
    (gateway, background, tenant)
}

/// Waits for what another task does, as long as a test may.
pub(super) async fn until<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(3)).await; // tidy: sleep another task works
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: it did not happen"))
}

/// The rows of responses, without those of the requests about them.
pub(super) async fn settled(gateway: &TestGateway, tenant: &Tenant) -> Vec<Value> {
    let mut rows = ends::rows(gateway, tenant).await;
    rows.retain(|row| row["model"] == "big-2026-08-01");
    rows
}

/// The row of the only response, once it is there.
async fn row(gateway: &TestGateway, tenant: &Tenant) -> Value {
    let some = async || Some(settled(gateway, tenant).await).filter(|rows| !rows.is_empty());
    let rows = until("a row", some).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

/// What the limits count as spent: by the organization, and by the project.
pub(super) async fn spent(gateway: &TestGateway, tenant: &Tenant) -> [u64; 2] {
    let now = gateway.gateway.clock().now();
    let bound = Bound::Spend { most: None, month: dates::month(now) };
    let project = spend_meter(&tenant.project);
    let draws =
        [ORGANIZATION_SPEND, &project].map(|meter| Draw { meter, bound, amount: 0, set: 0 });
    let states = gateway.gateway.limits().look(&tenant.organization, &draws, now).await;
    let states = states.expect("the limits are available");
    [states[0].used, states[1].used]
}

async fn open(gateway: &TestGateway, tenant: &Tenant) -> Answer {
    let answer = gateway.post(tenant, RESPONSES, &ask()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    gateway.is_idle().await;
    answer
}

/// Lets the gateway's own questions come due.
pub(super) fn pass(gateway: &TestGateway, micros: u64) {
    gateway.clock.advance(micros);
    gateway.gateway.wake_poller();
}

fn ended_as(row: &Value, (status, ended): (u16, &str), [input, output]: [u64; 2], name: &str) {
    assert_eq!((&row["status"], &row["ended"]), (&json!(status), &json!(ended)), "{name}");
    let tokens = (&row["input_tokens"], &row["output_tokens"]);
    assert_eq!(tokens, (&json!(input), &json!(output)), "{name}");
}

const COMPLETE: (u16, &str) = (200, "complete");
const FAILED: (u16, &str) = (502, "error_reported");

/// A name, a state, status and end of the row, and its tokens.
type EndCase = (&'static str, Value, (u16, &'static str), [u64; 2]);

/// States with an end, and what they cost.
fn ends_of_responses() -> Vec<EndCase> {
    let reports =
        |input: i64, output: Value| json!({ "input_tokens": input, "output_tokens": output });
    let error = json!({ "code": "server_error", "message": "It failed" });
    vec![
        (
            "a usage",
            json!({ "status": "completed", "output": text(), "usage": reports(20, json!(7)) }),
            COMPLETE,
            [20, 7],
        ),
        ("no usage", json!({ "status": "completed", "output": text() }), COMPLETE, [1, 3]),
        (
            "more than the maximum",
            json!({ "status": "completed", "usage": reports(20, json!(700)) }),
            COMPLETE,
            [20, 700],
        ),
        (
            "a negative usage",
            json!({ "status": "completed", "output": text(), "usage": reports(20, json!(-7)) }),
            COMPLETE,
            [1, 3],
        ),
        (
            "a huge usage",
            json!({ "status": "completed", "output": text(), "usage": reports(20, json!(999_999_999_999_u64)) }),
            COMPLETE,
            [1, 3],
        ),
        (
            "a usage in words",
            json!({ "status": "completed", "output": text(), "usage": reports(20, json!("7")) }),
            COMPLETE,
            [1, 3],
        ),
        (
            "a usage that is a text",
            json!({ "status": "completed", "output": text(), "usage": "much" }),
            COMPLETE,
            [1, 3],
        ),
        (
            "a limit",
            json!({ "status": "incomplete", "output": text(), "usage": reports(20, json!(500)) }),
            COMPLETE,
            [20, 500],
        ),
        ("a cancelled one", json!({ "status": "cancelled", "output": text() }), COMPLETE, [1, 3]),
        ("a failure", json!({ "status": "failed", "error": error }), FAILED, [0, 0]),
        (
            "a failure after text",
            json!({ "status": "failed", "error": error, "output": text() }),
            FAILED,
            [1, 3],
        ),
        (
            "a failure with a usage",
            json!({ "status": "failed", "error": error, "usage": reports(20, json!(7)) }),
            FAILED,
            [20, 7],
        ),
        ("an expired one", json!({ "status": "expired", "output": text() }), FAILED, [1, 3]),
    ]
}

/// Counts of `gateway_requests_total` of the model.
async fn counted(gateway: &TestGateway, status: u16) -> u64 {
    let line = format!("gateway_requests_total{{model=\"big-2026-08-01\",status=\"{status}\"}}");
    gateway.metric(&line).await
}

#[tokio::test]
async fn an_end_settles_a_response_whoever_sees_it() {
    for (name, state, end, [input, output]) in ends_of_responses() {
        for by_client in [true, false] {
            let (gateway, background, tenant) = start().await;
            let made = open(&gateway, &tenant).await;
            let request = made.header("x-request-id").to_owned();
            // Nothing is settled, and all of it is reserved.
            assert_eq!(settled(&gateway, &tenant).await.len(), 0, "{name}");
            assert_eq!(spent(&gateway, &tenant).await, [MOST; 2], "{name}");
            assert_eq!(counted(&gateway, 200).await, 0, "{name}");
            gateway.clock.advance(SECOND);
            // A state that is no end changes nothing.
            background.set("resp_1", &json!({ "status": "in_progress" }));
            assert_eq!(gateway.get(&tenant, "/v1/responses/resp_1").await.status, 200);
            assert_eq!(spent(&gateway, &tenant).await, [MOST; 2], "{name}");
            background.set("resp_1", &state);
            match by_client {
                true => drop(gateway.get(&tenant, "/v1/responses/resp_1").await),
                false => pass(&gateway, 10 * SECOND),
            }
            let row = row(&gateway, &tenant).await;
            ended_as(&row, end, [input, output], name);
            assert_eq!(row["request_id"], json!(request), "{name}");
            let cost = input + 10 * output;
            until(name, async || (spent(&gateway, &tenant).await == [cost; 2]).then_some(())).await;
            assert_eq!(gateway.cost(&tenant.organization).await, cost, "{name}");
            let counts = async || (counted(&gateway, end.0).await == 1).then_some(());
            until("the metric", counts).await;
            assert_eq!(gateway.metric("gateway_spend_microdollars_total").await, cost, "{name}");
            let lines = gateway.log().matches(&tenant.organization).count();
            assert_eq!(lines, usize::from(end != COMPLETE), "{name}: {}", gateway.log());
            // It is settled once.
            gateway.get(&tenant, "/v1/responses/resp_1").await;
            pass(&gateway, DAY);
            gateway.get(&tenant, "/v1/responses/resp_1").await;
            assert_eq!(settled(&gateway, &tenant).await.len(), 1, "{name}");
        }
    }
}

/// The row has the time of the request, in whose month its money counts.
#[tokio::test]
async fn a_response_counts_in_the_month_of_its_request() {
    let (gateway, background, tenant) = start().await;
    // Midnight of 2026-12-01, UTC, and two seconds before.
    let midnight = 1_796_083_200 * SECOND;
    gateway.clock.set(midnight - 2 * SECOND);
    open(&gateway, &tenant).await;
    gateway.clock.set(midnight + SECOND);
    background.set("resp_1", &json!({ "status": "completed", "output": text() }));
    gateway.get(&tenant, "/v1/responses/resp_1").await;
    let row = row(&gateway, &tenant).await;
    assert_eq!(row["time"], json!("2026-11-30T23:59:58.000000Z"), "{row}");
    assert_eq!(spent(&gateway, &tenant).await, [0; 2]);
}

#[tokio::test]
async fn responses_in_the_background_do_not_pass_a_hard_limit() {
    for of_project in [false, true] {
        let (gateway, background, tenant) = start().await;
        // 10,000 micro-dollars.
        gateway.hard_limit(&tenant, of_project, 1).await;
        open(&gateway, &tenant).await;
        let refused = gateway.post(&tenant, RESPONSES, &ask()).await;
        assert_eq!(refused.json()["error"]["type"], "insufficient_quota", "{}", refused.text());
        background.set("resp_1", &json!({ "status": "completed", "output": text() }));
        gateway.get(&tenant, "/v1/responses/resp_1").await;
        until("a settlement", async || (spent(&gateway, &tenant).await == [31; 2]).then_some(()))
            .await;
        assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 200);
    }
}

/// The gateway asks less and less often, with its own key, and not before its time.
#[tokio::test]
async fn the_gateway_asks_at_growing_intervals() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "in_progress", "output": text() }));
    pass(&gateway, SECOND);
    for looks in 1..=12 {
        pass(&gateway, 125 * SECOND);
        until("a look", async || (background.looks("resp_1") == looks).then_some(())).await;
        // The next one is not due.
        let next = async || {
            let database = gateway.gateway.database();
            let found = gateway_store::records::later_answers::find(database, "resp_1").await;
            found.expect("a store").expect("a row")
        };
        let answer = until("its next look", async || {
            let answer = next().await;
            let wait = answer.poll_at.saturating_sub(gateway.gateway.clock().now());
            (answer.seen_eighths == 24 && wait != 60 * SECOND).then_some(answer)
        })
        .await;
        let wait = answer.poll_at - gateway.gateway.clock().now();
        let longest = ((5 * SECOND) << looks).min(120 * SECOND);
        assert!((longest / 2..=longest).contains(&wait), "{looks}: {wait}");
    }
    let last = background.upstream.last();
    let authorization = last.headers.get("authorization").expect("a key").to_str().expect("text");
    assert_eq!(authorization, format!("Bearer {}", crate::common::gateway::UPSTREAM_KEY));
    assert_eq!(settled(&gateway, &tenant).await.len(), 0);
}

/// A failure to say how far a response is, is no end of it.
#[tokio::test]
async fn the_gateway_asks_again_after_a_failure() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "completed", "output": text() }));
    let answers = [
        Script::error(500, &json!({ "error": { "message": "It failed" } })),
        Script::error(401, &json!({ "error": { "message": "A wrong key" } })),
        Script::new(404, "text/html", "<html>"),
        Script::new(200, "application/json", "{\"id\": \"resp_1\", \"status\": \"comp"),
        Script::json(&json!({ "id": "resp_2", "status": "completed" })),
        Script::json(&json!({ "id": "resp_1", "status": 7 })),
        Script::json(&json!({ "id": "resp_1", "status": null })),
        Script::json(&json!({ "id": "resp_1", "status": "unheard of" })),
        Script::json(&json!([])),
    ];
    for (before, answer) in answers.into_iter().enumerate() {
        background.upstream.script([answer]);
        pass(&gateway, 125 * SECOND);
        until("a look", async || (background.looks("resp_1") > before).then_some(())).await;
        // The claim is given up.
        let database = gateway.gateway.database();
        until("its next look", async || {
            let found = gateway_store::records::later_answers::find(database, "resp_1").await;
            let answer = found.expect("a store").expect("it is open");
            (answer.poll_at != gateway.gateway.clock().now() + 60 * SECOND).then_some(())
        })
        .await;
        assert_eq!(settled(&gateway, &tenant).await.len(), 0);
    }
    pass(&gateway, 125 * SECOND);
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "the end");
}

#[tokio::test]
async fn a_background_stream_is_followed_after_its_client_left() {
    for ends in [true, false] {
        let (gateway, background, tenant) = start().await;
        let mut body = ask();
        body["stream"] = json!(true);
        let mut answer = gateway.stream_from(&tenant, RESPONSES, &body).await;
        let mut seen = String::new();
        while !seen.contains("123456789012") {
            let piece = answer.next().await.expect("a piece").expect("a piece");
            seen.push_str(&String::from_utf8_lossy(&piece));
        }
        drop(answer);
        gateway.is_idle().await;
        let database = gateway.gateway.database();
        until("the text that was seen", async || {
            let found = gateway_store::records::later_answers::find(database, "resp_1").await;
            (found.expect("a store").expect("it is open").seen_eighths == 24).then_some(())
        })
        .await;
        assert_eq!(settled(&gateway, &tenant).await.len(), 0);
        assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
        let (end, tokens) = match ends {
            true => {
                let reports = json!({ "input_tokens": 20, "output_tokens": 7 });
                background.set("resp_1", &json!({ "status": "completed", "usage": reports }));
                (COMPLETE, [20, 7])
            }
            false => {
                background.forget("resp_1");
                ((502, "cut"), [1, 3])
            }
        };
        pass(&gateway, 10 * SECOND);
        ended_as(&row(&gateway, &tenant).await, end, tokens, "a stream");
    }
}

/// A stream that shows its end needs no question.
#[tokio::test]
async fn a_background_stream_that_ends_is_settled_by_itself() {
    let (gateway, background, tenant) = start().await;
    let response = |status: &str| json!({ "id": "resp_9", "status": status });
    let created = json!({ "type": "response.created", "response": response("queued") });
    let delta = json!({ "type": "response.output_text.delta", "delta": "123456789012" });
    for (kind, status, end, tokens) in [
        ("response.completed", "completed", COMPLETE, [1, 3]),
        ("response.incomplete", "incomplete", COMPLETE, [1, 3]),
        ("response.failed", "failed", FAILED, [1, 3]),
    ] {
        let before = settled(&gateway, &tenant).await.len();
        let last = json!({ "type": kind, "response": response(status) });
        let events = [&created, &delta, &last].map(crate::common::upstream::event);
        background.upstream.script([Script::events(events)]);
        let mut body = ask();
        body["stream"] = json!(true);
        let (text, whole) = gateway.stream_from(&tenant, RESPONSES, &body).await.rest().await;
        assert!(whole && text.contains(kind), "{text}");
        let rows = until(kind, async || {
            Some(settled(&gateway, &tenant).await).filter(|rows| rows.len() > before)
        })
        .await;
        ended_as(&rows[before], end, tokens, kind);
    }
    let sum = 3 * 31;
    until("the meters", async || (spent(&gateway, &tenant).await == [sum; 2]).then_some(())).await;
    assert_eq!(background.looks("resp_9"), 0);
}

#[tokio::test]
async fn a_cancelled_response_is_settled() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.set("resp_1", &json!({ "status": "in_progress", "output": text() }));
    let answer = gateway.post(&tenant, "/v1/responses/resp_1/cancel", &json!({})).await;
    assert_eq!(answer.json()["status"], "cancelled");
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "cancelled");
    // The request to cancel costs nothing of its own.
    assert_eq!(gateway.cost(&tenant.organization).await, 31);
    assert_eq!(ends::rows(&gateway, &tenant).await.len(), 2);
}

#[tokio::test]
async fn a_deleted_response_is_settled_after_a_last_look() {
    let reports = json!({ "input_tokens": 20, "output_tokens": 7 });
    let gone = (499, "client_gone");
    for (name, state, end, tokens) in [
        ("ended", json!({ "status": "completed", "usage": reports }), COMPLETE, [20, 7]),
        ("with text", json!({ "status": "in_progress", "output": text() }), gone, [1, 3]),
        ("with a usage", json!({ "status": "in_progress", "usage": reports }), gone, [20, 7]),
        ("unseen", json!({ "status": "in_progress" }), gone, [1, 500]),
    ] {
        let (gateway, background, tenant) = start().await;
        open(&gateway, &tenant).await;
        background.set("resp_1", &state);
        let path = "/v1/responses/resp_1";
        let answer = gateway.with(&tenant, Method::DELETE, path, &[], "").await;
        assert_eq!(answer.status, 200, "{name}");
        ended_as(&row(&gateway, &tenant).await, end, tokens, name);
        let cost = tokens[0] + 10 * tokens[1];
        assert_eq!(spent(&gateway, &tenant).await, [cost; 2], "{name}");
    }
}

/// A deletion that the upstream refuses settles nothing.
#[tokio::test]
async fn a_response_that_was_not_deleted_stays_open() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    background.upstream.script([
        Script::json(&json!({ "id": "resp_1", "status": "queued" })),
        Script::error(409, &json!({ "error": { "message": "It runs" } })),
    ]);
    let path = "/v1/responses/resp_1";
    assert_eq!(gateway.with(&tenant, Method::DELETE, path, &[], "").await.status, 409);
    gateway.is_idle().await;
    assert_eq!(settled(&gateway, &tenant).await.len(), 0);
    assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
}

/// What is never seen to end costs what is known of it: never nothing, and never more than its maximum.
#[tokio::test]
async fn a_response_whose_end_is_never_seen_is_settled() {
    for (name, state, forgotten, end, tokens) in [
        ("forgotten", json!({}), true, (502, "cut"), [1, 500]),
        ("expired", json!({ "status": "in_progress" }), false, (504, "stalled"), [1, 500]),
        ("expired with text", json!({ "output": text() }), false, (504, "stalled"), [1, 3]),
        ("expired in a strange state", json!({ "status": 5 }), false, (504, "stalled"), [1, 500]),
    ] {
        let (gateway, background, tenant) = start().await;
        let request = open(&gateway, &tenant).await.header("x-request-id").to_owned();
        background.set("resp_1", &state);
        if forgotten {
            background.forget("resp_1");
            pass(&gateway, 10 * SECOND);
        } else {
            pass(&gateway, DAY - SECOND);
            until(name, async || (background.looks("resp_1") == 1).then_some(())).await;
            assert_eq!(settled(&gateway, &tenant).await.len(), 0, "{name}");
            pass(&gateway, SECOND);
        }
        ended_as(&row(&gateway, &tenant).await, end, tokens, name);
        let cost = tokens[0] + 10 * tokens[1];
        until(name, async || (spent(&gateway, &tenant).await == [cost; 2]).then_some(())).await;
        until("a line", async || gateway.log().contains(&request).then_some(())).await;
        assert!(gateway.log().contains("resp_1"), "{name}: {}", gateway.log());
        assert_eq!(counted(&gateway, end.0).await, 1, "{name}");
    }
}

/// An upstream that is away, or was removed from the configuration, has no end to show.
#[tokio::test]
async fn a_response_of_a_removed_upstream_is_settled_when_it_expires() {
    let (gateway, background, tenant) = start().await;
    open(&gateway, &tenant).await;
    let other = configured(&background).replace("[upstreams.main]", "[upstreams.other]");
    gateway.reload(&format!("{other}[server]\nbackground_expiry_seconds = 60\n"));
    pass(&gateway, DAY);
    ended_as(&row(&gateway, &tenant).await, (504, "stalled"), [1, 500], "away");
    assert_eq!(background.looks("resp_1"), 0);
    assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
}

#[tokio::test]
async fn the_expiry_is_configured() {
    let background = Background::start().await;
    let server = "[server]\nbackground_expiry_seconds = 60\n";
    let gateway = TestGateway::start(&format!("{}{server}", configured(&background))).await;
    let tenant = gateway.tenant("free").await;
    open(&gateway, &tenant).await;
    pass(&gateway, 60 * SECOND);
    ended_as(&row(&gateway, &tenant).await, (504, "stalled"), [1, 500], "expired");
}

/// Two requests whose answers have one id: the second cannot be followed.
#[tokio::test]
async fn an_id_that_is_taken_is_charged_its_maximum() {
    let (gateway, background, tenant) = start().await;
    let same = || Script::json(&json!({ "id": "resp_1", "status": "queued" }));
    background.upstream.script([same(), same()]);
    open(&gateway, &tenant).await;
    open(&gateway, &tenant).await;
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 500], "the second");
    assert_eq!(spent(&gateway, &tenant).await, [2 * MOST; 2]);
}

/// A restart keeps what is open, also when the state of the limits is lost.
#[tokio::test]
async fn open_responses_outlive_a_restart() {
    for loses_limits in [false, true] {
        let background = Background::start().await;
        let text_of = configured(&background);
        let mut gateway = TestGateway::start(&text_of).await;
        let tenant = gateway.tenant("free").await;
        gateway.hard_limit(&tenant, false, 1).await;
        open(&gateway, &tenant).await;
        let folder = Arc::clone(&gateway.folder);
        gateway.end().await;
        drop(gateway);
        if loses_limits {
            std::fs::remove_file(folder.path().join("gateway.limits")).expect("the state");
        }
        let gateway = TestGateway::start_in(folder, &text_of, 2).await;
        assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 429);
        assert_eq!(spent(&gateway, &tenant).await, [MOST; 2]);
        background.set("resp_1", &json!({ "status": "completed", "output": text() }));
        pass(&gateway, 10 * SECOND);
        ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "after a restart");
        let meters = async || (spent(&gateway, &tenant).await == [31; 2]).then_some(());
        until("the meters", meters).await;
        assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 200);
    }
}

async fn nodes(
    background: &Background,
    postgres: &Postgres,
    redis: &Redis,
) -> ([TestGateway; 2], Tenant) {
    let (store, limits) = (postgres.url(), redis.url());
    let stores = format!("[store]\nurl = \"{store}\"\n[limits]\nurl = \"{limits}\"\n");
    let text = format!("{}{stores}", configured(background));
    let node = async |seed| {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        TestGateway::start_in(folder, &text, seed).await
    };
    let nodes = [node(1).await, node(2).await];
    let tenant = nodes[0].tenant("free").await;
    (nodes, tenant)
}

/// Both nodes see the ends, each by a client and by itself, at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_settle_a_response_once() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let background = Background::start().await;
    let (nodes, tenant) = nodes(&background, &postgres, &redis).await;
    for _ in 0..8 {
        open(&nodes[0], &tenant).await;
    }
    for node in &nodes {
        until("the meters", async || (spent(node, &tenant).await == [8 * MOST; 2]).then_some(()))
            .await;
    }
    for response in 1..=8 {
        let id = format!("resp_{response}");
        background.set(&id, &json!({ "status": "completed", "output": text() }));
    }
    let paths: Vec<String> = (1..=8).map(|id| format!("/v1/responses/resp_{id}")).collect();
    let fetch = async |node: &TestGateway| {
        pass(node, 10 * SECOND);
        for path in &paths {
            node.get(&tenant, path).await;
        }
    };
    tokio::join!(fetch(&nodes[0]), fetch(&nodes[1]));
    let rows = until("all rows", async || {
        Some(settled(&nodes[1], &tenant).await).filter(|rows| rows.len() >= 8)
    })
    .await;
    assert_eq!(rows.len(), 8);
    for node in &nodes {
        until("the meters", async || (spent(node, &tenant).await == [8 * 31; 2]).then_some(()))
            .await;
        assert_eq!(node.cost(&tenant.organization).await, 8 * 31);
    }
    // Each is in the metrics of one node.
    until("the metrics", async || {
        (counted(&nodes[0], 200).await + counted(&nodes[1], 200).await == 8).then_some(())
    })
    .await;
}

/// A node that dies while it asks leaves the response to another, once its claim has lapsed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_of_a_node_that_died_is_settled_by_another() {
    let (postgres, redis) = (Postgres::start(), Redis::start());
    let background = Background::start().await;
    let ([first, second], tenant) = nodes(&background, &postgres, &redis).await;
    second.gateway.crash_poller();
    open(&first, &tenant).await;
    let gate = crate::common::upstream::Gate::closed();
    let held = Script::json(&json!({ "id": "resp_1", "status": "queued" }))
        .before(crate::common::upstream::Step::Wait(gate.clone()));
    background.upstream.script([held]);
    pass(&first, 10 * SECOND);
    until("a look", async || (background.looks("resp_1") == 1).then_some(())).await;
    first.gateway.crash_poller();
    drop(first);
    background.set("resp_1", &json!({ "status": "completed", "output": text() }));
    let third = {
        let (store, limits) = (postgres.url(), redis.url());
        let stores = format!("[store]\nurl = \"{store}\"\n[limits]\nurl = \"{limits}\"\n");
        TestGateway::start(&format!("{}{stores}", configured(&background))).await
    };
    // The claim holds.
    pass(&third, 20 * SECOND);
    let database = third.gateway.database();
    let found =
        gateway_store::records::later_answers::due(database, third.gateway.clock().now(), 9);
    assert_eq!(found.await.expect("a store").len(), 0);
    pass(&third, 60 * SECOND);
    ended_as(&row(&third, &tenant).await, COMPLETE, [1, 3], "of a node that died");
    until("the meters", async || (spent(&third, &tenant).await == [31; 2]).then_some(())).await;
}

/// A usage of chats in the answer to a background request, which is no response: nothing comes later.
#[tokio::test]
async fn an_answer_that_is_complete_is_settled_at_once() {
    let (gateway, background, tenant) = start().await;
    for answer in [
        json!({ "id": "resp_1", "status": "completed", "usage": usage(20, 7) }),
        json!({ "id": "resp_2", "usage": usage(20, 7) }),
    ] {
        background.upstream.script([Script::json(&answer)]);
        open(&gateway, &tenant).await;
    }
    let rows = settled(&gateway, &tenant).await;
    assert_eq!(rows.len(), 2);
    rows.iter().for_each(|row| ended_as(row, COMPLETE, [20, 7], "complete"));
    assert_eq!(spent(&gateway, &tenant).await, [2 * 90; 2]);
}
