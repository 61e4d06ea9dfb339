//! Responses in the background: each is settled from the first end that is seen of it, and count as reserved until then.

use std::time::Duration;

use gateway_policy::dates;
use gateway_policy::plan::{ORGANIZATION_SPEND, spend_meter};
use ratelimit::{Bound, DAY, Draw, Limit, MINUTE};
use serde_json::{Value, json};

use super::BIG;
use super::ends;
use crate::common::background::{Background, text};
use crate::common::gateway::{Answer, SECOND, Tenant, TestGateway, config};
use crate::common::upstream::{Gate, Script, Step, event, usage};

pub(super) const RESPONSES: &str = "/v1/responses";
/// What a response of [`ask`] may cost: one token of input at 1 micro-dollar, and 500 of output at 10.
pub(super) const MOST: u64 = 1 + 5000;

pub(crate) fn ask() -> Value {
    json!({ "model": "big", "input": "x", "background": true, "max_output_tokens": 500 })
}

pub(super) fn configured(background: &Background) -> String {
    config(&background.upstream, BIG)
}

pub(super) async fn start() -> (TestGateway, Background, Tenant) {
    let background = Background::start().await;
    let gateway = TestGateway::start(&configured(&background)).await;
    let tenant = gateway.tenant("free").await;
    (gateway, background, tenant)
}

/// Waits for what another task does, as long as a test may.
pub(crate) async fn until<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
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
pub(super) async fn row(gateway: &TestGateway, tenant: &Tenant) -> Value {
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
    let steady = gateway.gateway.clock().steady();
    let states = gateway.gateway.limits().look(&tenant.organization, &draws, steady).await;
    let states = states.expect("the limits are available");
    [states[0].used, states[1].used]
}

pub(super) async fn open(gateway: &TestGateway, tenant: &Tenant) -> Answer {
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

pub(super) fn ended_as(
    row: &Value,
    (status, ended): (u16, &str),
    [input, output]: [u64; 2],
    name: &str,
) {
    assert_eq!((&row["status"], &row["ended"]), (&json!(status), &json!(ended)), "{name}");
    let tokens = (&row["input_tokens"], &row["output_tokens"]);
    assert_eq!(tokens, (&json!(input), &json!(output)), "{name}");
}

pub(super) const COMPLETE: (u16, &str) = (200, "complete");
pub(super) const FAILED: (u16, &str) = (502, "error_reported");

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
pub(super) async fn counted(gateway: &TestGateway, status: u16) -> u64 {
    let line = format!("gateway_requests_total{{model=\"big-2026-08-01\",status=\"{status}\"}}");
    gateway.metric(&line).await
}

#[tokio::test]
async fn an_end_settles_a_response() {
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
        // 10,000 micro-dollars: ten tokens of input, and 999 of output.
        gateway.hard_limit(&tenant, of_project, 1).await;
        let mut body = ask();
        (body["input"], body["max_output_tokens"]) = (json!("x".repeat(40)), json!(999));
        assert_eq!(gateway.post(&tenant, RESPONSES, &body).await.status, 200);
        gateway.is_idle().await;
        let status = async || {
            let of =
                if of_project { format!("projects/{}/", tenant.project) } else { String::new() };
            let path = format!("/v1/organization/{of}spend_limit");
            let of = &tenant.organization;
            let shown = gateway.admin_of(of, hyper::Method::GET, &path, Value::Null).await;
            shown["enforcement"]["status"].as_str().expect("a status").to_owned()
        };
        assert_eq!(status().await, "enforcing");
        let refused = gateway.post(&tenant, RESPONSES, &ask()).await;
        assert_eq!(refused.json()["error"]["type"], "insufficient_quota", "{}", refused.text());
        background.set("resp_1", &json!({ "status": "completed", "output": text() }));
        gateway.get(&tenant, "/v1/responses/resp_1").await;
        let meters = async || (spent(&gateway, &tenant).await == [40; 2]).then_some(());
        until("a settlement", meters).await;
        assert_eq!(status().await, "inactive");
        assert_eq!(gateway.post(&tenant, RESPONSES, &ask()).await.status, 200);
    }
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

/// A stream far beyond its maximum is cut off after its account is in the store, too.
#[tokio::test]
async fn a_background_stream_without_an_end_is_cut_off() {
    let (gateway, background, tenant) = start().await;
    let response = json!({ "id": "resp_7", "status": "in_progress" });
    let created = event(&json!({ "type": "response.created", "response": response }));
    // 1,000 tokens; up to 8 times the maximum of 500 and 1,024 more are tolerated.
    let delta = event(&json!({ "type": "response.output_text.delta", "delta": "x".repeat(4000) }));
    let steps = [created].into_iter().chain(vec![delta; 100]);
    let steps = steps.map(|text| Step::Bytes(text.into())).chain([Step::Hang]);
    background.upstream.script([Script::stream(steps.collect())]);
    let mut body = ask();
    body["stream"] = json!(true);
    let (text, whole) = gateway.stream_from(&tenant, RESPONSES, &body).await.rest().await;
    assert!(!whole, "it is cut off");
    assert!((20_000..60_000).contains(&text.len()), "{}", text.len());
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
        let events = [&created, &delta, &last].map(event);
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

/// What a response used beyond its estimate counts on the limits of tokens when its end is seen.
#[tokio::test]
async fn tokens_beyond_the_estimate_count_at_the_end() {
    let background = Background::start().await;
    let limits = "[tiers.free.limits.big]\ntpm = 100000\ntpd = 1000000\n";
    let gateway = TestGateway::start(&format!("{}{limits}", configured(&background))).await;
    let tenant = gateway.tenant("free").await;
    let mut body = ask();
    body.as_object_mut().expect("an object").remove("max_output_tokens");
    assert_eq!(gateway.post(&tenant, RESPONSES, &body).await.status, 200);
    gateway.is_idle().await;
    let used = async || {
        let meters =
            [("m:big-2026-08-01:tpm", MINUTE, 100_000), ("m:big-2026-08-01:tpd", DAY, 1_000_000)];
        let draws = meters.map(|(meter, window, amount)| {
            let bound = Bound::Rate { limit: Limit { amount, window }, counts_refusals: false };
            Draw { meter, bound, amount: 0, set: 0 }
        });
        let steady = gateway.gateway.clock().steady();
        let states = gateway.gateway.limits().look(&tenant.organization, &draws, steady).await;
        let states = states.expect("the limits are available");
        [states[0].used, states[1].used]
    };
    assert_eq!(used().await, [1; 2]);
    let reports = json!({ "input_tokens": 20, "output_tokens": 7000 });
    background.set("resp_1", &json!({ "status": "completed", "usage": reports }));
    gateway.get(&tenant, "/v1/responses/resp_1").await;
    until("the limits", async || (used().await == [7020; 2]).then_some(())).await;
}

/// A stream that is fetched has its end, but perhaps not all of its text: without a usage the gateway asks for the whole.
#[tokio::test]
async fn a_stream_that_is_fetched_shows_the_end() {
    for (usage, looks) in [(json!({ "input_tokens": 20, "output_tokens": 7 }), 0), (Value::Null, 1)]
    {
        let (gateway, background, tenant) = start().await;
        open(&gateway, &tenant).await;
        let response = json!({ "id": "resp_1", "status": "completed", "usage": usage });
        background.set("resp_1", &json!({ "status": "completed", "output": text() }));
        let last = json!({ "type": "response.completed", "response": response });
        background.upstream.script([Script::events([event(&last)])]);
        let path = "/v1/responses/resp_1?stream=true&starting_after=9";
        assert_eq!(gateway.get(&tenant, path).await.status, 200);
        let tokens = if looks == 0 { [20, 7] } else { [1, 3] };
        ended_as(&row(&gateway, &tenant).await, COMPLETE, tokens, "a stream");
        assert_eq!(background.looks("resp_1"), looks);
    }
}

/// A client that leaves while the answer that creates a response arrives.
#[tokio::test]
async fn a_client_that_leaves_early_has_its_response_followed() {
    let (gateway, background, tenant) = start().await;
    let half = Step::Bytes("{\"id\": \"resp_7\", \"status\": ".into());
    background.upstream.script([Script::chunked("application/json").body(vec![half, Step::Hang])]);
    // The head follows the first piece.
    drop(gateway.stream_from(&tenant, RESPONSES, &ask()).await);
    gateway.is_idle().await;
    assert_eq!(settled(&gateway, &tenant).await.len(), 0);
    let end = json!({ "id": "resp_7", "status": "completed", "output": text() });
    background.upstream.script([Script::json(&end)]);
    pass(&gateway, 10 * SECOND);
    ended_as(&row(&gateway, &tenant).await, COMPLETE, [1, 3], "an early end");
}

/// A long answer that is complete at once is passed on as it comes.
#[tokio::test]
async fn a_long_answer_is_not_held_back() {
    let (gateway, background, tenant) = start().await;
    let long = format!("{{\"id\": \"resp_1\", \"text\": \"{}", "x".repeat(300_000));
    let gate = Gate::closed();
    let rest = Step::Bytes("\", \"status\": \"completed\"}".into());
    let pieces = vec![Step::Bytes(long.into()), Step::Wait(gate.clone()), rest];
    background.upstream.script([Script::chunked("application/json").body(pieces)]);
    let mut asked = ask();
    asked["max_output_tokens"] = json!(50_000);
    let mut answer = gateway.stream_from(&tenant, RESPONSES, &asked).await;
    let first = tokio::time::timeout(Duration::from_secs(30), answer.next()).await;
    assert!(first.is_ok_and(|piece| piece.is_some()), "nothing comes");
    gate.open(1);
    assert!(answer.rest().await.1);
    gateway.is_idle().await;
    assert_eq!(settled(&gateway, &tenant).await.len(), 1);
}

/// No client learns of a response that a crash would forget.
#[tokio::test]
async fn a_response_is_shown_when_it_is_stored() {
    for streams in [false, true] {
        let (gateway, background, tenant) = start().await;
        let store = rusqlite::Connection::open(gateway.folder.path().join("gateway.db"));
        let store = store.expect("the store");
        // The first piece says nothing yet.
        let created = json!({ "id": "resp_1", "status": "queued" });
        let first = if streams { ": hi\n\n".to_owned() } else { " ".to_owned() };
        let second = match streams {
            true => event(&json!({ "type": "response.created", "response": created })),
            false => created.to_string(),
        };
        let gate = Gate::closed();
        let pieces =
            vec![Step::Bytes(first.into()), Step::Wait(gate.clone()), Step::Bytes(second.into())];
        let kind = if streams { "text/event-stream" } else { "application/json" };
        background.upstream.script([Script::chunked(kind).body(pieces)]);
        let mut body = ask();
        body["stream"] = json!(streams);
        let mut answer = gateway.stream_from(&tenant, RESPONSES, &body).await;
        if streams {
            answer.next().await.expect("a piece").expect("a piece");
        }
        store.execute_batch("BEGIN IMMEDIATE").expect("a lock");
        gate.open(1);
        let shown = tokio::time::timeout(Duration::from_millis(300), answer.next()).await;
        assert!(shown.is_err(), "it is shown");
        store.execute_batch("COMMIT").expect("no lock");
        let (text, _) = answer.rest().await;
        assert!(text.contains("resp_1"), "{text}");
        let stored =
            gateway_store::records::later_answers::find(gateway.gateway.database(), "resp_1");
        assert!(stored.await.expect("the store").is_some());
    }
}
