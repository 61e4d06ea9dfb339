//! Odd streams as they arrive, and what they come to.

use super::*;
use crate::{FailureKind, Item, Retry};

/// The texts of the finished items, each after a letter for its kind.
fn finished(events: &[Event]) -> Vec<String> {
    let texts = events.iter().filter_map(|event| match event {
        Event::ItemDone { item, .. } => Some(match item {
            Item::Message { text, .. } => format!("m {text}"),
            Item::Reasoning { summary, content } => {
                format!("r {}", [&summary[..], content].concat().join("|"))
            }
            Item::FunctionCall { name, arguments, .. } => format!("f {name} {arguments}"),
            Item::CustomToolCall { input, .. } => format!("c {input}"),
            other => format!("{other:?}"),
        }),
        _ => None,
    });
    texts.collect()
}

fn decode(stream: &[u8], size: usize) -> Vec<Event> {
    let (mut decoder, mut out) = (Decoder::new(), Vec::new());
    stream.chunks(size).for_each(|chunk| decoder.feed(chunk, &mut out));
    decoder.finish(&mut out);
    out
}

/// Writes a stream: each line is the data of an event, after its name and `|` if it has one.
fn stream(lines: &[&str]) -> String {
    let event = |line: &&str| match line.split_once('|') {
        Some((name, data)) if !name.starts_with('{') => {
            format!("event: response.{name}\ndata: {data}\n\n")
        }
        _ => format!("data: {line}\n\n"),
    };
    lines.iter().map(event).collect()
}

const DONE: &str = r#"completed|{"response":{"status":"completed"}}"#;
const MESSAGE: &str =
    r#"output_item.added|{"output_index":0,"item":{"type":"message","id":"m","content":[]}}"#;
const MESSAGE_DONE: &str =
    r#"output_item.done|{"output_index":0,"item":{"type":"message","id":"m","content":[]}}"#;
const THOUGHT_DONE: &str =
    r#"output_item.done|{"output_index":0,"item":{"type":"reasoning","id":"r","summary":[]}}"#;
const CALL: &str = r#"output_item.added|{"output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"g","arguments":""}}"#;
const CALL_DONE: &str = r#"output_item.done|{"output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"g","arguments":""}}"#;

/// Streams, and the items that they come to.
const STREAMS: &[(&[&str], &[&str])] = &[
    // The type is in the line `event`.
    (&[r#"output_text.delta|{"delta":"hi"}"#, DONE], &["m hi"]),
    (
        &[MESSAGE, r#"output_text.delta|{"output_index":0,"delta":"hi"}"#, MESSAGE_DONE, DONE],
        &["m hi"],
    ),
    (&[CALL, r#"function_call_arguments.delta|{"delta":"{}"}"#, CALL_DONE, DONE], &["f g {}"]),
    (
        &[r#"output_text.delta|{"delta":"hi"}"#, r#"completed|{"id":"r","status":"completed"}"#],
        &["m hi"],
    ),
    (&[r#"output_text.delta|{"delta":"hi"}"#, "completed|{}"], &["m hi"]),
    // An item in place of the event around it.
    (
        &[
            r#"output_item.done|{"type":"message","content":[{"type":"output_text","text":"hi"}]}"#,
            DONE,
        ],
        &["m hi"],
    ),
    (
        &[
            r#"output_item.done|{"type":"function_call","call_id":"c","name":"g","arguments":"{}"}"#,
            DONE,
        ],
        &["f g {}"],
    ),
    // The text is only at the end of a part.
    (
        &[
            MESSAGE,
            r#"content_part.done|{"output_index":0,"content_index":0,"part":{"type":"output_text","text":"hi"}}"#,
            MESSAGE_DONE,
            DONE,
        ],
        &["m hi"],
    ),
    (
        &[
            MESSAGE,
            r#"content_part.done|{"content_index":0,"part":{"type":"output_text","text":"a"}}"#,
            r#"content_part.done|{"content_index":1,"part":{"type":"output_text","text":"b"}}"#,
            MESSAGE_DONE,
            DONE,
        ],
        &["m ab"],
    ),
    (
        &[
            MESSAGE,
            r#"output_text.done|{"content_index":0,"text":"a"}"#,
            r#"content_part.done|{"content_index":0,"part":{"type":"output_text","text":"a"}}"#,
            MESSAGE_DONE,
            DONE,
        ],
        &["m a"],
    ),
    (
        &[
            MESSAGE,
            r#"output_text.delta|{"content_index":0,"delta":"a"}"#,
            r#"content_part.done|{"content_index":1,"part":{"text":"b"}}"#,
            MESSAGE_DONE,
            DONE,
        ],
        &["m ab"],
    ),
    (&[r#"content_part.done|{"part":{"type":"output_text","text":"hi"}}"#, DONE], &["m hi"]),
    (&[r#"content_part.done|{"part":{"type":"refusal","refusal":"no"}}"#, DONE], &["m no"]),
    (
        &[
            r#"refusal.delta|{"delta":"n"}"#,
            r#"refusal.delta|{"delta":"o"}"#,
            r#"refusal.done|{"refusal":"no"}"#,
            DONE,
        ],
        &["m no"],
    ),
    // At the beginning of the item.
    (
        &[
            r#"output_item.added|{"item":{"type":"message","content":[{"type":"output_text","text":"hi"}]}}"#,
            r#"output_item.done|{"item":{"type":"message"}}"#,
            DONE,
        ],
        &["m hi"],
    ),
    // Summaries and blocks of reasoning are only at the end of a part.
    (
        &[
            r#"reasoning_summary_text.done|{"output_index":0,"summary_index":0,"text":"hm"}"#,
            THOUGHT_DONE,
            MESSAGE,
            r#"output_text.delta|{"delta":"hi"}"#,
            DONE,
        ],
        &["r hm", "m hi"],
    ),
    (
        &[
            r#"reasoning_summary_part.done|{"output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"a"}}"#,
            r#"reasoning_summary_part.done|{"output_index":0,"summary_index":1,"part":{"type":"summary_text","text":"b"}}"#,
            THOUGHT_DONE,
            DONE,
        ],
        &["r a|b"],
    ),
    (
        &[
            r#"reasoning_summary_text.delta|{"delta":"h"}"#,
            r#"reasoning_summary_text.delta|{"delta":"m"}"#,
            r#"reasoning_summary_text.done|{"text":"hm"}"#,
            r#"reasoning_summary_part.done|{"part":{"text":"hm"}}"#,
            THOUGHT_DONE,
            DONE,
        ],
        &["r hm"],
    ),
    (&[r#"reasoning_text.done|{"output_index":0,"text":"hm"}"#, THOUGHT_DONE, DONE], &["r hm"]),
    (
        &[
            r#"content_part.done|{"output_index":0,"part":{"type":"reasoning_text","text":"hm"}}"#,
            THOUGHT_DONE,
            DONE,
        ],
        &["r hm"],
    ),
    // Arguments as an object.
    (
        &[
            CALL,
            r#"function_call_arguments.delta|{"delta":{"a":1}}"#,
            r#"function_call_arguments.done|{"arguments":""}"#,
            CALL_DONE,
            DONE,
        ],
        &[r#"f g {"a":1}"#],
    ),
    (&[CALL, r#"function_call_arguments.delta|{"delta":[1]}"#, CALL_DONE, DONE], &["f g [1]"]),
    (
        &[
            CALL,
            r#"function_call_arguments.delta|{"delta":null}"#,
            r#"function_call_arguments.delta|{"delta":"{}"}"#,
            CALL_DONE,
            DONE,
        ],
        &["f g {}"],
    ),
    (
        &[CALL, r#"function_call_arguments.done|{"arguments":{"a":1}}"#, CALL_DONE, DONE],
        &[r#"f g {"a":1}"#],
    ),
    (
        &[
            CALL,
            r#"function_call_arguments.delta|{"delta":"{}"}"#,
            r#"function_call_arguments.done|{}"#,
            r#"output_item.done|{}"#,
            DONE,
        ],
        &["f g {}"],
    ),
    // Data that is not of this protocol.
    (
        &[
            "ping",
            r#"{"type":"ping"}"#,
            "null",
            "[]",
            "7",
            r#"output_text.delta|{"delta":"hi"}"#,
            DONE,
        ],
        &["m hi"],
    ),
    (
        &[
            r#"{"object":"chat.completion.chunk","choices":[]}"#,
            r#"output_text.delta|{"delta":"hi"}"#,
            DONE,
        ],
        &["m hi"],
    ),
    (
        &[
            r#"output_text.delta|{"delta":"hi","logprobs":[],"obfuscation":"xx"}"#,
            r#"completed|{"response":null}"#,
        ],
        &["m hi"],
    ),
    (&[r#"output_text.delta|{"delta":"hi"}"#, "[DONE]"], &["m hi"]),
    (&[r#"output_text.delta|{"delta":"hi"}"#, r#"{"type":"response.done"}"#], &["m hi"]),
    (
        &[
            r#"{"type":"response.output_text.delta","delta":"a"}"#,
            r#"other|{"type":"response.output_text.delta","delta":"b"}"#,
            DONE,
        ],
        &["m ab"],
    ),
    (
        &[
            r#"output_text.annotation.added|{"annotation":{}}"#,
            r#"output_text.delta|{"delta":"hi"}"#,
            DONE,
        ],
        &["m hi"],
    ),
];

#[test]
fn odd_streams_come_to_what_they_mean() {
    for (lines, expect) in STREAMS {
        for size in [1, 7, 100_000] {
            let events = decode(stream(lines).as_bytes(), size);
            assert_eq!(finished(&events), *expect, "{lines:?}");
            assert!(
                matches!(events.last(), Some(Event::Completed { .. })),
                "{lines:?}: {events:?}"
            );
        }
    }
}

#[test]
fn a_stream_that_is_none_is_read() {
    let response =
        r#"{"status":"completed","output":[{"type":"message","content":[{"text":"hi"}]}]}"#;
    let lines = "{\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n{\"type\":\"response.completed\"}\n";
    for text in [
        response.to_owned(),
        format!("\u{feff}{response}"),
        format!("\n {response}"),
        lines.to_owned(),
    ] {
        for size in [1, 100_000] {
            let events = decode(text.as_bytes(), size);
            assert_eq!(finished(&events), ["m hi"], "{text}");
            assert!(matches!(events.last(), Some(Event::Completed { .. })), "{text}");
        }
    }
}

#[test]
fn an_error_in_place_of_events_is_retried_if_that_can_help() {
    use FailureKind::*;
    let (passes, never) = (Retry::Stream, Retry::Never);
    let cases = [
        (r#"data: {"error":"no credit left, insufficient_quota"}"#, UsageLimitExceeded, never),
        (r#"data: {"detail":"Token expired","status":401}"#, Unauthorized, never),
        (r#"data: {"error":"Token expired","status":401}"#, Unauthorized, never),
        (r#"data: {"error":{"message":"Token expired","status_code":401}}"#, Unauthorized, never),
        (r#"data: {"error":{"message":"gone"},"statusCode":404}"#, HttpConnectionFailed, never),
        (
            r#"data: {"error":"slow","code":"rate_limit_exceeded"}"#,
            ResponseTooManyFailedAttempts,
            passes,
        ),
        (
            r#"data: {"error":{"message":"Error code: 429 - slow"}}"#,
            ResponseTooManyFailedAttempts,
            passes,
        ),
        (r#"data: {"error":{"code":500,"message":"Error code: 401 - no"}}"#, Unauthorized, never),
        (
            r#"data: {"error":{"code":"server_error","message":"'code': 'insufficient_quota'"}}"#,
            UsageLimitExceeded,
            never,
        ),
        (
            r#"data: {"error":{"status":"RESOURCE_EXHAUSTED","message":"m"}}"#,
            ResponseTooManyFailedAttempts,
            passes,
        ),
        (r#"data: {"error":{"status":"UNAUTHENTICATED","message":"m"}}"#, Unauthorized, never),
        (r#"data: {"error":{"status":"INVALID_ARGUMENT","message":"m"}}"#, BadRequest, never),
        (
            r#"data: {"error":{"message":"Your credit balance is too low"}}"#,
            UsageLimitExceeded,
            never,
        ),
        (r#"data: {"error":{"message":"it broke"}}"#, Other, passes),
        (
            "event: error\ndata: {\"message\":\"no\",\"code\":\"invalid_api_key\"}",
            Unauthorized,
            never,
        ),
        (
            "event: error\ndata: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}",
            ServerOverloaded,
            passes,
        ),
        (
            "event: response.failed\ndata: {\"error\":{\"code\":\"insufficient_quota\"}}",
            UsageLimitExceeded,
            never,
        ),
        (r#"{"error":{"code":"insufficient_quota"}}"#, UsageLimitExceeded, never),
        (r#"{"error":{"code":"rate_limit_exceeded"}}"#, ResponseTooManyFailedAttempts, passes),
    ];
    for (text, kind, retry) in cases {
        let events = decode(format!("{text}\n\n").as_bytes(), 100_000);
        let Some(Event::Failed(failure)) = events.last() else { panic!("{text}: {events:?}") };
        assert_eq!((failure.kind, failure.retry), (kind, retry), "{text}: {failure:?}");
    }
}

#[test]
fn a_contradiction_is_reported_once() {
    let differs = [
        CALL,
        r#"function_call_arguments.delta|{"delta":"{}"}"#,
        r#"function_call_arguments.done|{"arguments":"{\"a\":1}"}"#,
        r#"output_item.done|{"output_index":0,"item":{"type":"function_call","id":"f","call_id":"c","name":"g","arguments":"[]"}}"#,
        DONE,
    ];
    let events = decode(stream(&differs).as_bytes(), 100_000);
    let found = events.iter().filter(|event| matches!(event, Event::Contradiction(_)));
    assert_eq!(found.count(), 1, "{events:?}");
    assert_eq!(finished(&events), ["f g []"]);
    let said = [
        r#"output_text.delta|{"delta":"one"}"#,
        r#"completed|{"response":{"status":"completed","output":[{"type":"message","content":[{"text":"two"}]}]}}"#,
    ];
    let events = decode(stream(&said).as_bytes(), 100_000);
    assert!(events.contains(&Event::Contradiction("a message differs from its deltas")));
    assert!(matches!(events.last(), Some(Event::Completed { .. })), "nothing follows the end");
    let fine = [MESSAGE, r#"output_text.delta|{"delta":"hi"}"#, MESSAGE_DONE, DONE];
    let events = decode(stream(&fine).as_bytes(), 100_000);
    assert!(!events.iter().any(|event| matches!(event, Event::Contradiction(_))), "{events:?}");
}
