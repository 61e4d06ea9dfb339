//! Broken answers of Gemini.

use serde_json::{Value, json};

use super::super::streams::{Answer, candidate, chunk, sse};
use super::{FINE, PLAN, Row, again, fails, taken};

pub(super) fn rows() -> Vec<Row> {
    [calls(), ends(), failures()].into_iter().flatten().collect()
}

fn stream(events: &[Value]) -> Answer {
    Answer::stream(&sse(events))
}

fn plan() -> Value {
    let arguments: Value = serde_json::from_str(PLAN).unwrap();
    json!({ "functionCall": { "name": "update_plan", "args": arguments } })
}

fn said(finish: impl Into<Value>) -> Value {
    candidate(json!([{ "text": "Said." }]), finish.into())
}

fn calls() -> Vec<Row> {
    let mut named = plan();
    named["functionCall"]["id"] = "c".into();
    let mut signed = plan();
    signed["thoughtSignature"] = "Y2hhbmdlZA==".into();
    let ended = |parts: Value| stream(&[candidate(parts, "STOP".into())]);
    let unended = candidate(json!([plan()]), Value::Null);
    let malformed = candidate(json!([]), "MALFORMED_FUNCTION_CALL".into());
    vec![
        taken("calls without an id or a signature", FINE, ended(json!([plan(), plan()]))),
        taken("calls of one id", FINE, ended(json!([named, named]))),
        taken("a changed signature", FINE, ended(json!([signed]))),
        // Calls arrive whole.
        again("a call, and no end", stream(&[unended])),
        again("a malformed call", stream(&[malformed])),
    ]
}

fn ends() -> Vec<Row> {
    let mut other = said("STOP");
    other["modelVersion"] = "gemini-2.5-flash".into();
    let mut more = said(Value::Null);
    more["usageMetadata"]["candidatesTokenCount"] = 900.into();
    let empty = sse(&[json!({ "candidates": [] })]).repeat(100);
    vec![
        fails(
            "an answer of another wire",
            "Other",
            stream(&[chunk(json!({ "content": "x" }), Value::Null)]),
        ),
        again(
            "chunks of another wire",
            stream(&[said(Value::Null), chunk(json!({ "content": "x" }), Value::Null)]),
        ),
        taken("usage that shrinks", "Said.Said.", stream(&[more, said("STOP")])),
        again("keep-alives for ever", Answer::stream("").repeats(&empty)),
        again("an end without a stop", stream(&[said(Value::Null)])),
        taken("another model", "Said.", stream(&[other])),
        fails(
            "a blocked prompt",
            "Other",
            stream(&[json!({ "promptFeedback": { "blockReason": "SAFETY" } })]),
        ),
    ]
}

fn failures() -> Vec<Row> {
    let failed = |code: u32, status: &str, text: &str| {
        json!({ "error": { "code": code, "message": text, "status": status, "details": [
            { "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s" }] } })
    };
    let busy = || failed(503, "UNAVAILABLE", "Busy.");
    let limited = failed(429, "RESOURCE_EXHAUSTED", "Quota exceeded.");
    let text = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
    let long = failed(400, "INVALID_ARGUMENT", text);
    let refused = |status: &str, body: Value| Answer::document(status, "", &body.to_string());
    vec![
        again("an error in place of an answer", refused("200 OK", busy())),
        again("an array of an error", refused("503 Service Unavailable", json!([busy()]))),
        again(
            "an error in the stream",
            stream(&[said(Value::Null), failed(500, "INTERNAL", "Oops.")]),
        ),
        again("a limit that names its wait", refused("429 Too Many Requests", limited)),
        fails(
            "a prompt that is too long",
            "ContextWindowExceeded",
            refused("400 Bad Request", long),
        ),
    ]
}
