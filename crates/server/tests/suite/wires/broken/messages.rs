//! Broken answers of the Messages API.

use serde_json::{Value, json};

use super::super::streams::{
    Answer, block, chunk, message_end, message_start, sse, text_block, tool_block,
};
use super::{FINE, PLAN, RUN, Row, again, fails, taken};

pub(super) fn rows() -> Vec<Row> {
    [blocks(), arguments(), thinking(), ends(), failures()].into_iter().flatten().collect()
}

fn stream(events: &[Vec<Value>]) -> Answer {
    Answer::stream(&sse(&events.concat()))
}

fn start() -> Vec<Value> {
    vec![message_start()]
}

/// A block that is open.
fn open(index: usize, id: &str) -> Vec<Value> {
    let tool = json!({ "type": "tool_use", "id": id, "name": "exec_command", "input": {} });
    vec![json!({ "type": "content_block_start", "index": index, "content_block": tool })]
}

fn piece(text: &str) -> Value {
    json!({ "type": "input_json_delta", "partial_json": text })
}

fn delta(index: usize, text: &str) -> Vec<Value> {
    vec![json!({ "type": "content_block_delta", "index": index, "delta": piece(text) })]
}

fn plan(index: usize) -> Vec<Value> {
    tool_block(index, "toolu_1", "update_plan", PLAN)
}

fn error(kind: &str, text: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": text } })
}

fn blocks() -> Vec<Row> {
    let other = vec![chunk(json!({ "content": "x" }), Value::Null)];
    let without_id = json!({ "type": "tool_use", "name": "update_plan", "input": {} });
    let without_id = block(0, without_id, &[piece(PLAN)]);
    vec![
        again("chunks of another wire", stream(&[start(), other])),
        again("a block that starts twice", stream(&[start(), open(0, "t"), open(0, "t")])),
        taken(
            "a call without an id",
            FINE,
            stream(&[start(), without_id, message_end("tool_use")]),
        ),
        taken(
            "calls of one id",
            FINE,
            stream(&[start(), plan(0), plan(1), message_end("tool_use")]),
        ),
        taken(
            "an index that jumps",
            "Said.",
            stream(&[start(), text_block(7, "Said."), message_end("end_turn")]),
        ),
        again("a delta of a block that is not there", stream(&[start(), delta(3, "{")])),
    ]
}

fn arguments() -> Vec<Row> {
    let cut = r#"{"cmd":"touch ran"#;
    let limited = tool_block(0, "t", "exec_command", cut);
    vec![
        again("arguments that are cut", stream(&[start(), open(0, "t"), delta(0, cut)])),
        again("whole arguments without an end", stream(&[start(), open(0, "t"), delta(0, RUN)])),
        fails(
            "arguments cut by the limit",
            "Other",
            stream(&[start(), limited, message_end("max_tokens")]),
        ),
    ]
}

fn thinking() -> Vec<Row> {
    let thought = |signature: Option<&str>| {
        let mut deltas = vec![json!({ "type": "thinking_delta", "thinking": "Hm." })];
        deltas.extend(signature.map(|it| json!({ "type": "signature_delta", "signature": it })));
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" }), &deltas)
    };
    let changed = || thought(Some("Y2hhbmdlZA=="));
    let said = || [text_block(1, "Said."), message_end("end_turn")].concat();
    vec![
        taken("no signature", "Said.", stream(&[start(), thought(None), said()])),
        taken("a changed signature", "Said.", stream(&[start(), changed(), said()])),
        taken(
            "a changed signature before a call",
            FINE,
            stream(&[start(), changed(), plan(1), message_end("tool_use")]),
        ),
    ]
}

fn ends() -> Vec<Row> {
    let said = || text_block(0, "Said.");
    let mut other = message_start();
    other["message"]["model"] = "claude-haiku-4-5".into();
    let mut more = message_start();
    more["message"]["usage"] = json!({ "input_tokens": 5000, "output_tokens": 900 });
    let pings = sse(&[json!({ "type": "ping" })]).repeat(100);
    vec![
        taken(
            "usage that shrinks",
            "Said.",
            stream(&[vec![more], said(), message_end("end_turn")]),
        ),
        again("keep-alives for ever", stream(&[start()]).repeats(&pings)),
        taken(
            "a stop without an end",
            "Said.",
            stream(&[start(), said(), message_end("end_turn")[..1].to_vec()]),
        ),
        taken("another model", "Said.", stream(&[vec![other], said(), message_end("end_turn")])),
        taken("an empty answer", "", stream(&[start(), message_end("end_turn")])),
        fails("a refusal", "Other", stream(&[start(), message_end("refusal")])),
    ]
}

fn failures() -> Vec<Row> {
    let busy = error("overloaded_error", "Overloaded").to_string();
    let spent = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "No more.",
        "details": { "error_code": "enforced_spend_limit_reached" } } });
    let long = error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum");
    let half = stream(&[start(), text_block(0, "Half."), vec![error("api_error", "Oops")]]);
    let refused = |status: &str, head: &str, body: &str| Answer::document(status, head, body);
    vec![
        again("an error in place of an answer", refused("200 OK", "", &busy)),
        again("an error in the stream", half),
        again("overloaded", refused("529 Overloaded", "retry-after: 0\r\n", &busy)),
        fails(
            "a limit on spending",
            "UsageLimitExceeded",
            refused("429 Too Many Requests", "x-should-retry: true\r\n", &spent.to_string()),
        ),
        fails(
            "a prompt that is too long",
            "ContextWindowExceeded",
            refused("400 Bad Request", "", &long.to_string()),
        ),
    ]
}
