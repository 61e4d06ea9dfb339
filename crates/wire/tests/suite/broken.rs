//! Streams that break the rules of their wire: each ends once, with a failure that names the reason, and no call of
//! one runs.

use proptest::prelude::*;
use wire::{Decoder, Event, FailureKind, MAX_IDLE_EVENTS, OutputItem, Wire};

use crate::support::{decode, events, plain_context};
use crate::transcripts::{CHAT, GEMINI, MESSAGES};

fn sse(data: &[&str]) -> String {
    data.iter().map(|data| format!("data: {data}\n\n")).collect()
}

#[track_caller]
fn fails(wire: Wire, data: &[&str], kind: FailureKind, words: &str) {
    let (response, lines) = decode(wire, plain_context(), &sse(data));
    let failure = response.end.unwrap().expect_err(&format!("{lines:#?}"));
    assert_eq!(failure.kind, kind, "{failure:?}");
    assert!(failure.message.contains(words), "{}", failure.message);
}

const START: &str =
    r#"{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1}}}"#;
const TOOL: &str = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
const CUT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#;
const STOP: &str = r#"{"type":"content_block_stop","index":0}"#;
const END: &str = r#"{"type":"message_stop"}"#;

#[test]
fn events_of_another_wire_are_named() {
    let chunk = r#"{"choices":[{"delta":{"content":"x"}}]}"#;
    fails(Wire::Messages, &[START, chunk], FailureKind::Malformed, "one of `chat`");
    fails(Wire::Chat, &[chunk, START], FailureKind::Malformed, "one of `messages`");
    fails(Wire::Gemini, &[chunk], FailureKind::OtherWire, "in `chat`, not in");
    fails(
        Wire::Responses,
        &[r#"{"candidates":[]}"#],
        FailureKind::OtherWire,
        "in `gemini`, not in",
    );
    // The first event shows what the server speaks; a later one only that the stream is broken.
}

/// Counts that no response has are none, and those that shrink are not believed; both are named.
#[test]
fn nonsense_usage_is_bounded_and_named() {
    let messages = |first: &str, last: &str| {
        let start = format!(
            r#"{{"type":"message_start","message":{{"id":"m","model":"c","usage":{{"input_tokens":7,"output_tokens":{first}}}}}}}"#
        );
        let end = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{{"output_tokens":{last}}}}}"#
        );
        (Wire::Messages, sse(&[&start, &end, END]))
    };
    let chat = |first: &str, last: &str| {
        let chunk = |count: &str, end: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":{end}}}],"usage":{{"prompt_tokens":7,"completion_tokens":{count}}}}}"#
            )
        };
        (Wire::Chat, sse(&[&chunk(first, "null"), &chunk(last, "\"stop\"")]))
    };
    let gemini = |first: &str, last: &str| {
        let chunk = |count: &str, end: &str| {
            format!(
                r#"{{"candidates":[{{"content":{{"parts":[{{"text":"x"}}]}}{end}}}],"usageMetadata":{{"promptTokenCount":7,"candidatesTokenCount":{count}}}}}"#
            )
        };
        (Wire::Gemini, sse(&[&chunk(first, ""), &chunk(last, r#","finishReason":"STOP""#)]))
    };
    let responses = |_: &str, last: &str| {
        let end = format!(
            r#"{{"type":"response.completed","response":{{"id":"r","status":"completed","output":[],"usage":{{"input_tokens":7,"output_tokens":{last}}}}}}}"#
        );
        (Wire::Responses, sse(&[&end]))
    };
    for make in [&messages as &dyn Fn(&str, &str) -> (Wire, String), &chat, &gemini, &responses] {
        for (first, last, tokens, words) in [
            ("1", "20", (7, 20), None),
            ("1", "2.0", (7, 2), None),
            ("1", "18446744073709551615", (0, 0), Some("not believed")),
            ("1", "1e30", (0, 0), Some("not believed")),
            ("1", "-5", (0, 0), Some("not believed")),
            ("1000", "10", (7, 1000), Some("shrinks")),
        ] {
            let (wire, stream) = make(first, last);
            if wire == Wire::Responses && first == "1000" {
                continue;
            }
            let (response, lines) = decode(wire, plain_context(), &stream);
            let usage = response.end.unwrap().unwrap().usage;
            assert_eq!((usage.input, usage.output), tokens, "{wire} {last}");
            let named: Vec<&String> =
                lines.iter().filter(|line| line.starts_with("warning usage")).collect();
            assert_eq!(named.len(), usize::from(words.is_some()), "{wire} {last}: {lines:?}");
            assert!(words.is_none_or(|words| named[0].contains(words)), "{wire}: {named:?}");
        }
    }
}

#[test]
fn an_answer_that_stops_for_a_tool_without_a_call_is_named() {
    let stop = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}"#;
    let (response, lines) = decode(Wire::Messages, plain_context(), &sse(&[START, stop, END]));
    assert_eq!(response.end.unwrap().unwrap().stop, wire::Stop::EndTurn);
    assert!(lines.iter().any(|line| line.starts_with("warning stop_reason")), "{lines:?}");
}

#[test]
fn bodies_of_another_wire_are_refused() {
    for (wire, document) in [
        (Wire::Responses, r#"{"id":"m","type":"message","content":[],"stop_reason":"end_turn"}"#),
        (Wire::Responses, r#"{"choices":[]}"#),
        (Wire::Messages, r#"{"choices":[]}"#),
        (Wire::Chat, r#"{"output":[],"status":"completed"}"#),
        (Wire::Gemini, r#"{"output":[],"status":"completed"}"#),
    ] {
        let mut is_failed = false;
        let mut decoder = Decoder::new(wire, plain_context());
        decoder.document(document.as_bytes(), &mut |event| {
            is_failed |= matches!(event, Event::Failed { .. });
        });
        assert!(is_failed && decoder.is_ended(), "{wire}: {document}");
    }
}

#[test]
fn blocks_that_start_twice_or_never_are_refused() {
    fails(Wire::Messages, &[START, TOOL, TOOL], FailureKind::Malformed, "starts twice");
    fails(Wire::Messages, &[START, CUT], FailureKind::Malformed, "no open content block");
    fails(Wire::Messages, &[START, STOP], FailureKind::Malformed, "not open stops");
    fails(Wire::Messages, &[START, START], FailureKind::Malformed, "starts twice");
    fails(Wire::Messages, &[START, TOOL, END], FailureKind::Malformed, "stops inside");
    let text =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
    fails(Wire::Messages, &[START, TOOL, text], FailureKind::Malformed, "another type");
}

#[test]
fn errors_inside_a_stream_are_failures_of_their_kind() {
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    fails(Wire::Messages, &[START, error], FailureKind::Overloaded, "Overloaded");
    let long = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}"#;
    fails(Wire::Messages, &[long], FailureKind::ContextWindow, "too long");
    let chunk = r#"{"id":"x","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"Slow down"}}"#;
    fails(Wire::Chat, &[chunk], FailureKind::RateLimit, "Slow down");
    let base = r#"{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}"#;
    fails(Wire::Chat, &[base], FailureKind::Quota, "insufficient");
    let busy = r#"[{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}]"#;
    fails(Wire::Gemini, &[busy], FailureKind::Overloaded, "busy");
    let window = r#"{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"},"usage":{}}"#;
    fails(Wire::Messages, &[START, window], FailureKind::ContextWindow, "context window");
    let failed = r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}"#;
    fails(Wire::Responses, &[failed], FailureKind::RateLimit, "m");
}

#[test]
fn an_error_of_chat_completions_fails_a_response() {
    let error = r#"{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}"#;
    fails(Wire::Responses, &[error], FailureKind::RateLimit, "Slow down.");
}

#[test]
fn keep_alives_without_an_end_are_a_stall() {
    for wire in [Wire::Messages, Wire::Chat, Wire::Gemini, Wire::Responses] {
        let data = match wire {
            Wire::Chat => r#"{"choices":[]}"#,
            Wire::Gemini => r#"{"candidates":[]}"#,
            Wire::Responses => r#"{"type":"response.in_progress"}"#,
            Wire::Messages => r#"{"type":"ping"}"#,
        };
        let mut decoder = Decoder::new(wire, plain_context());
        let mut ends = 0;
        for _ in 0..=MAX_IDLE_EVENTS {
            decoder.event(data.as_bytes(), &mut |event| {
                if let Event::Failed { failure, .. } = event {
                    assert_eq!(failure.kind, FailureKind::Timeout);
                    ends += 1;
                }
            });
        }
        assert_eq!(ends, 1, "{wire}");
    }
}

/// The output limit cuts a call: it is left out, and the response is incomplete.
#[test]
fn a_call_that_was_cut_does_not_run() {
    let limit = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}"#;
    let (response, _) =
        decode(Wire::Messages, plain_context(), &sse(&[START, TOOL, CUT, STOP, limit, END]));
    assert_eq!(response.items, []);
    assert_eq!(response.end.unwrap().unwrap().stop.incomplete(), Some("max_output_tokens"));
    assert_eq!(response.warnings.as_slice().len(), 1);
    // A model that writes invalid JSON itself gets to hear of it: the call is whole.
    let own = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}"#;
    let (response, _) =
        decode(Wire::Messages, plain_context(), &sse(&[START, TOOL, CUT, STOP, own, END]));
    assert!(
        matches!(&response.items[0].1, OutputItem::FunctionCall { arguments, .. } if arguments == "{\"a\":")
    );
    let chunk = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]},"finish_reason":"length"}]}"#;
    let (response, _) = decode(Wire::Chat, plain_context(), &sse(&[chunk]));
    assert_eq!(response.items, []);
}

/// Thinking without a signature is shown, but is not kept to be sent again; usage that shrinks is taken as it is.
#[test]
fn unsigned_thinking_is_not_sealed() {
    let stream = MESSAGES.replace("c2ln", "");
    let (response, _) = decode(Wire::Messages, plain_context(), &stream);
    assert!(matches!(&response.items[0].1, OutputItem::Reasoning { encrypted: None, .. }));
}

/// A stop reason without the last event is an end when no block is open.
#[test]
fn a_stream_without_its_last_event_ends() {
    let cut = MESSAGES.replace("{\"type\":\"message_stop\"}", "{\"type\":\"ping\"}");
    let (response, _) = decode(Wire::Messages, plain_context(), &cut);
    assert!(response.end.unwrap().is_ok());
    fails(Wire::Messages, &[START, TOOL, CUT], FailureKind::Disconnected, "closed the stream");
    fails(
        Wire::Chat,
        &[r#"{"choices":[{"delta":{"content":"x"}}]}"#],
        FailureKind::Disconnected,
        "closed",
    );
    fails(Wire::Chat, &["[DONE]"], FailureKind::Disconnected, "without an answer");
}

proptest! {
    /// Events of all wires, in any order and number, with bytes of them changed.
    #[test]
    fn any_events_have_one_end(
        wire in 0..4_usize,
        picks in prop::collection::vec((0..3_usize, 0..20_usize), 0..30),
        changes in prop::collection::vec((0..2000_usize, any::<u8>()), 0..3),
    ) {
        let all = [events(MESSAGES), events(CHAT), events(GEMINI)];
        let mut decoder = Decoder::new(Wire::ALL[wire], plain_context());
        let (mut ends, mut added, mut done) = (0, Vec::new(), Vec::new());
        let mut sink = |event: Event<'_>| match event {
            Event::Ended(_) | Event::Failed { .. } => ends += 1,
            Event::ItemAdded { index, .. } => added.push(index),
            Event::ItemDone { index, .. } => done.push(index),
            _ => {}
        };
        for (of, at) in picks {
            let mut data = all[of][at % all[of].len()].clone().into_bytes();
            for (position, byte) in &changes {
                let length = data.len();
                data[position % length] = *byte;
            }
            decoder.event(&data, &mut sink);
        }
        decoder.finish(&mut sink);
        prop_assert_eq!(ends, 1);
        done.sort_unstable();
        done.dedup();
        prop_assert!(wire == 0 || done.iter().all(|index| added.contains(index)));
    }
}
