//! All ways in which an answer ends: what the ledger, the limits, the metrics and the log have of it.

use hyper::Method;
use serde_json::{Value, json};

use super::{BIG, start};
use crate::common::gateway::{Tenant, TestGateway, chat_with};
use crate::common::upstream::{Script, Step, Upstream, event, usage};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const LIMIT: u64 = 1_000_000;

/// Who ends the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Upstream,
    Client,
}

struct Case {
    name: &'static str,
    path: &'static str,
    steps: Vec<Step>,
    by: By,
    /// Status and end of the row.
    row: (u16, &'static str),
    tokens: [u64; 2],
}

fn bytes(text: &str) -> Step {
    Step::Bytes(text.to_owned().into())
}

fn data(value: &Value) -> Step {
    Step::Bytes(event(value).into())
}

/// Twelve characters: three tokens.
fn chat_text() -> Step {
    data(&json!({ "choices": [{ "delta": { "content": "123456789012" } }] }))
}

fn response_text() -> Step {
    data(&json!({ "type": "response.output_text.delta", "delta": "123456789012" }))
}

fn cases() -> Vec<Case> {
    let done = || bytes("data: [DONE]\n\n");
    let reported = || data(&json!({ "choices": [], "usage": usage(20, 7) }));
    let error = || data(&json!({ "error": { "message": "It failed" } }));
    let failed = || {
        let response = json!({ "id": "resp_1", "error": { "code": "x", "message": "It failed" } });
        data(&json!({ "type": "response.failed", "response": response }))
    };
    let stop = || data(&json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
    let of = |name, path, steps, by, row, tokens| Case { name, path, steps, by, row, tokens };
    let (cut, complete) = ((502, "cut"), (200, "complete"));
    let (reports, gone) = ((502, "error_reported"), (499, "client_gone"));
    let (upstream, client) = (By::Upstream, By::Client);
    vec![
        of("usage", CHAT, vec![chat_text(), reported(), done()], upstream, complete, [20, 7]),
        of("no usage", CHAT, vec![chat_text(), done()], upstream, complete, [1, 3]),
        of("no mark of the end", CHAT, vec![chat_text(), stop()], upstream, complete, [1, 3]),
        of("the end is missing", CHAT, vec![chat_text()], upstream, cut, [1, 3]),
        of("a cut", CHAT, vec![chat_text(), Step::Cut], upstream, cut, [1, 3]),
        of("a cut at once", CHAT, vec![bytes(": hi\n\n"), Step::Cut], upstream, cut, [1, 0]),
        of(
            "a cut after a usage",
            CHAT,
            vec![reported(), chat_text(), Step::Cut],
            upstream,
            cut,
            [20, 10],
        ),
        of("an error", CHAT, vec![chat_text(), error()], upstream, reports, [1, 3]),
        of(
            "an error and an end",
            CHAT,
            vec![chat_text(), error(), done()],
            upstream,
            reports,
            [1, 3],
        ),
        of("an error at once", CHAT, vec![error()], upstream, reports, [0, 0]),
        of(
            "a failed response",
            RESPONSES,
            vec![response_text(), failed()],
            upstream,
            reports,
            [1, 3],
        ),
        of("the client leaves", CHAT, vec![chat_text(), Step::Hang], client, gone, [1, 3]),
        of("the client leaves", RESPONSES, vec![response_text(), Step::Hang], client, gone, [1, 3]),
        of("silence", CHAT, vec![chat_text(), Step::Hang], upstream, (504, "stalled"), [1, 3]),
    ]
}

async fn limited() -> (TestGateway, Upstream, Tenant) {
    let text = format!("idle_timeout_ms = 300\n{BIG}[tiers.free.limits.big]\ntpm = {LIMIT}\n");
    let (gateway, upstream) = start(&text).await;
    let tenant = gateway.tenant("free").await;
    (gateway, upstream, tenant)
}

/// The rows of the ledger.
pub(super) async fn rows(gateway: &TestGateway, tenant: &Tenant) -> Vec<Value> {
    gateway.flush().await;
    let path = "/v1/organization/usage/export?format=jsonl&start_time=0";
    let answer =
        gateway.try_admin(&tenant.organization, Method::GET, path, Value::Null).await.text();
    answer.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn every_end_is_recorded_as_what_it_is() {
    for case in cases() {
        let Case { name, path, steps, by, row, tokens } = case;
        let (gateway, upstream, tenant) = limited().await;
        upstream.script([Script::stream(steps)]);
        let body = match path {
            CHAT => chat_with(json!({ "stream": true })),
            _ => json!({ "model": "big", "input": "x", "stream": true }),
        };
        let mut answer = gateway.stream_from(&tenant, path, &body).await;
        assert_eq!(answer.status, 200, "{name}");
        match by {
            By::Upstream => drop(answer.rest().await),
            By::Client => {
                let first = answer.next().await.expect("a piece").expect("a piece");
                assert!(!first.is_empty());
                drop(answer);
            }
        }
        gateway.is_idle().await;
        let rows = rows(&gateway, &tenant).await;
        let found = &rows[0];
        let [input, output] = tokens;
        assert_eq!(rows.len(), 1, "{name}");
        assert_eq!((&found["status"], &found["ended"]), (&json!(row.0), &json!(row.1)), "{name}");
        assert_eq!(
            (&found["input_tokens"], &found["output_tokens"]),
            (&json!(input), &json!(output)),
            "{name}"
        );
        assert_eq!(gateway.cost(&tenant.organization).await, input + 10 * output, "{name}");
        // The metric has the status of the end, too.
        let line = |status: u16| {
            format!("gateway_requests_total{{model=\"big-2026-08-01\",status=\"{status}\"}}")
        };
        assert_eq!(gateway.metric(&line(row.0)).await, 1, "{name}");
        let as_begun = gateway.metric(&line(200)).await;
        assert_eq!(as_begun, u64::from(row.0 == 200), "{name}");
        // So have the limits.
        let next = gateway.post(&tenant, CHAT, &chat_with(json!({ "max_tokens": 0 }))).await;
        let left: u64 = next.limits("tokens")[1].parse().expect("a number");
        assert_eq!(LIMIT - left, input + output, "{name}");
    }
}

#[tokio::test]
async fn one_line_tells_of_each_bad_end() {
    let (gateway, upstream, tenant) = limited().await;
    upstream.script([
        Script::stream(vec![chat_text(), Step::Cut]),
        Script::error(503, &json!({ "error": { "message": "overloaded" } })),
    ]);
    gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await.rest().await;
    assert_eq!(gateway.chat(&tenant).await.status, 503);
    gateway.is_idle().await;
    let log = gateway.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("upstream main: ")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    for (line, parts) in lines.iter().zip([
        [
            "its answer broke off",
            "ended=\"cut\"",
            "status=502",
            "output_tokens=3",
            "cost_microdollars=31",
        ],
        [
            "it answered 503",
            "ended=\"failed\"",
            "status=503",
            "output_tokens=0",
            "cost_microdollars=0",
        ],
    ]) {
        let names = [&*tenant.organization, &*tenant.project, &*tenant.key_id, "model=big"];
        for part in parts.into_iter().chain(names) {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains(&tenant.key) && !line.contains("overloaded"), "{line}");
    }
}

/// A text of one token a character, in a model whose usage was seen before.
#[tokio::test]
async fn a_cut_answer_counts_as_the_model_counts() {
    let (gateway, upstream, tenant) = limited().await;
    let text = "x".repeat(400);
    let whole = json!({ "id": "c", "choices": [{ "index": 0, "message": { "content": text } }],
        "usage": usage(1, 400) });
    upstream.script([
        Script::json(&whole),
        Script::stream(vec![
            data(&json!({ "choices": [{ "delta": { "content": text } }] })),
            Step::Cut,
        ]),
    ]);
    gateway.chat(&tenant).await;
    gateway.stream(&tenant, &chat_with(json!({ "stream": true }))).await.rest().await;
    gateway.is_idle().await;
    let rows = rows(&gateway, &tenant).await;
    assert_eq!(rows[1]["output_tokens"], 400);
}

/// Answers that are no JSON count their text, in the alphabet that they are in.
#[tokio::test]
async fn texts_of_any_type_are_counted() {
    let (gateway, upstream, tenant) = limited().await;
    for (kind, body, output) in [
        ("text/plain", "12345678".to_owned(), 2),
        ("text/vtt", "\u{4e2d}\u{6587}".to_owned(), 2),
        ("text/plain", json!({ "usage": usage(9, 4) }).to_string(), 4),
        ("application/json", json!({ "text": "12345678" }).to_string(), 2),
    ] {
        upstream.script([Script::new(200, kind, body)]);
        assert_eq!(gateway.chat(&tenant).await.status, 200);
        gateway.is_idle().await;
        let last = rows(&gateway, &tenant).await.pop().expect("a row");
        assert_eq!(last["output_tokens"], output, "{kind}");
    }
}

/// Output that is not text is charged its maximum where no usage is reported.
#[tokio::test]
async fn output_that_is_no_text_is_charged_its_maximum() {
    let (gateway, upstream, tenant) = limited().await;
    let images = json!({ "created": 1, "data": [{ "b64_json": "AA==" }] });
    let image = json!({ "model": "big", "prompt": "x" });
    let speech = json!({ "model": "big", "input": "x", "voice": "alloy" });
    for (path, body, answer) in [
        ("/v1/images/generations", image, Script::json(&images)),
        ("/v1/audio/speech", speech, Script::new(200, "audio/mpeg", "ID3")),
    ] {
        upstream.script([answer]);
        assert_eq!(gateway.post(&tenant, path, &body).await.status, 200);
        gateway.is_idle().await;
        let row = rows(&gateway, &tenant).await.pop().expect("a row");
        assert_eq!(
            (&row["output_tokens"], &row["cost_usd"]),
            (&json!(4096), &json!("0.040961")),
            "{path}"
        );
    }
}

/// The end of a response in the background that has no id, or one that is no part of a path, cannot be seen: its maximum is
/// charged.
#[tokio::test]
async fn a_response_in_the_background_without_an_id_is_charged_its_maximum() {
    for id in
        [Value::Null, json!(7), json!(""), json!(".."), json!("a/b"), json!("a?b"), json!("a%2Fb")]
    {
        charged_its_maximum(&id).await;
    }
}

async fn charged_its_maximum(id: &Value) {
    let (gateway, upstream, tenant) = limited().await;
    upstream.script([Script::json(&json!({ "id": id, "status": "queued", "usage": null }))]);
    let body =
        json!({ "model": "big", "input": "x", "background": true, "max_output_tokens": 500 });
    assert_eq!(gateway.post(&tenant, RESPONSES, &body).await.status, 200);
    gateway.is_idle().await;
    let row = rows(&gateway, &tenant).await.pop().expect("a row");
    assert_eq!((&row["input_tokens"], &row["output_tokens"]), (&json!(1), &json!(500)), "{id}");
    assert_eq!(gateway.cost(&tenant.organization).await, 1 + 5000);
}
