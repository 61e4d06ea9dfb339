//! Broken answers of Chat Completions.

use serde_json::{Value, json};

use super::super::streams::{Answer, DONE, chunk, message_start, sse};
use super::{FINE, PLAN, RUN, Row, again, fails, taken};

pub(super) fn rows() -> Vec<Row> {
    [calls(), arguments(), ends(), failures()].into_iter().flatten().collect()
}

fn stream(events: &[Value]) -> Answer {
    Answer::stream(&sse(events))
}

/// A stream with its last line.
fn whole(events: &[Value]) -> Answer {
    Answer::stream(&(sse(events) + DONE))
}

/// A piece of a call; members that are null are left out.
fn call(
    index: impl Into<Value>,
    id: impl Into<Value>,
    name: impl Into<Value>,
    arguments: &str,
) -> Value {
    let mut function = json!({ "arguments": arguments });
    let mut call = json!({ "type": "function" });
    let (index, id, name) = (index.into(), id.into(), name.into());
    if !name.is_null() {
        function["name"] = name;
    }
    for (member, value) in [("index", index), ("id", id), ("function", function)] {
        if !value.is_null() {
            call[member] = value;
        }
    }
    chunk(json!({ "tool_calls": [call] }), Value::Null)
}

fn end(reason: &str) -> Value {
    chunk(json!({}), reason.into())
}

fn said() -> Value {
    chunk(json!({ "content": "Said." }), Value::Null)
}

fn calls() -> Vec<Row> {
    let plan = |index: u32, id: &str, arguments: &str| call(index, id, "update_plan", arguments);
    let without_id = call(0, Value::Null, "update_plan", PLAN);
    let ended = |events: &[Value]| whole(&[events, &[end("tool_calls")]].concat());
    vec![
        again("events of another wire", stream(&[said(), message_start()])),
        taken("a call without an id", FINE, ended(&[without_id])),
        taken("calls of one id", FINE, ended(&[plan(0, "c", PLAN), plan(1, "c", PLAN)])),
        taken("an index that jumps", FINE, ended(&[plan(9, "c", PLAN)])),
        taken("a call that starts twice", FINE, ended(&[plan(0, "c", ""), plan(0, "c", PLAN)])),
        again("a call without a name", ended(&[call(0, "c", Value::Null, PLAN)])),
    ]
}

fn arguments() -> Vec<Row> {
    let run = |arguments: &str| call(0, "c", "exec_command", arguments);
    let cut = r#"{"cmd":"touch ran"#;
    vec![
        again("arguments that are cut", stream(&[run(cut)])),
        again("whole arguments without an end", stream(&[run(RUN)])),
        fails("arguments cut by the limit", "Other", whole(&[run(cut), end("length")])),
    ]
}

fn ends() -> Vec<Row> {
    let mut other = chunk(json!({ "content": "Said." }), "stop".into());
    other["model"] = "another".into();
    let usage = |tokens: u32| json!({ "choices": [], "usage": { "prompt_tokens": tokens, "completion_tokens": tokens } });
    let empty = sse(&[json!({ "choices": [] })]).repeat(100);
    vec![
        taken("usage that shrinks", "Said.", whole(&[said(), usage(900), end("stop"), usage(5)])),
        again("keep-alives for ever", Answer::stream("").repeats(&empty)),
        taken("a stop without an end", "Said.", stream(&[said(), end("stop")])),
        again("an end without a stop", stream(&[said()])),
        taken("another model", "Said.", whole(&[other])),
        again("nothing but an end", Answer::stream(DONE)),
    ]
}

fn failures() -> Vec<Row> {
    let slow =
        json!({ "error": { "code": 429, "message": "Slow down. Please try again in 10ms." } });
    let refused = |status: &str, code: &str| {
        let body = json!({ "error": { "message": "No.", "code": code } });
        Answer::document(status, "", &body.to_string())
    };
    vec![
        again("an error in place of an answer", Answer::document("200 OK", "", &slow.to_string())),
        again("an error in the stream", stream(&[said(), slow])),
        fails(
            "a prompt that is too long",
            "ContextWindowExceeded",
            refused("400 Bad Request", "context_length_exceeded"),
        ),
        fails(
            "a quota",
            "UsageLimitExceeded",
            refused("429 Too Many Requests", "insufficient_quota"),
        ),
    ]
}
