//! Realistic responses, whole and in pieces.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

pub(crate) fn read(mut reader: Reader, pieces: &[&[u8]]) -> Outcome {
    for piece in pieces {
        reader.feed(piece);
    }
    // What is known before the end costs the same.
    let seen = reader.so_far();
    let end = reader.finish();
    let charged = |one: &Outcome| (one.usage, one.output_eighths, one.eighths_after_usage);
    assert_eq!(charged(&seen), charged(&end));
    end
}

/// The outcome, which must be the same in one piece and byte by byte.
#[track_caller]
pub(crate) fn outcome(new: fn() -> Reader, bytes: &[u8]) -> Outcome {
    let whole = read(new(), &[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(new(), &single), whole);
    whole
}

pub(crate) fn json_outcome(body: &Value) -> Outcome {
    let compact = outcome(Reader::json, body.to_string().as_bytes());
    let pretty = serde_json::to_vec_pretty(body).unwrap();
    assert_eq!(outcome(Reader::json, &pretty), compact);
    compact
}

fn usage(input: u32, cached: u32, output: u32) -> Option<Usage> {
    Some(Usage {
        input_tokens: input,
        cached_input_tokens: cached,
        output_tokens: output,
        ..Usage::default()
    })
}

pub(crate) fn events(list: &[Value]) -> String {
    let event = |event: &Value| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    };
    list.iter().map(event).collect()
}

#[test]
fn json_answers() {
    let response = json!({"id": "resp_1", "object": "response", "output": [
            {"type": "message", "id": "msg", "content": [{"type": "output_text", "text": "héy"}]}],
        "tools": [{"usage": {"input_tokens": 9}}], "metadata": {"id": "no"},
        "usage": {"input_tokens": 36, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 87, "output_tokens_details": {"reasoning_tokens": 3},
            "total_tokens": 123}});
    let seen = json_outcome(&response);
    let expected = Usage { reasoning_tokens: 3, ..usage(36, 4, 87).unwrap() };
    assert_eq!(seen.usage, Some(expected));
    assert_eq!((seen.id.as_deref(), seen.output_eighths), (Some("resp_1"), 9));
    assert!(seen.complete && !seen.usage_invalid);

    let chat = json!({"id": "chatcmpl-1", "choices": [{"index": 0, "message": {"role": "assistant",
            "content": "four", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
            "logprobs": {"content": [{"token": "xx"}]}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 0}}});
    let seen = json_outcome(&chat);
    assert_eq!((seen.usage, seen.output_eighths), (usage(9, 0, 12), 12));

    let embeddings = json!({"object": "list", "data": [{"embedding": [0.1, -2e-3]}, {"embedding": "AAAA"}],
        "model": "e", "usage": {"prompt_tokens": 8, "total_tokens": 8}});
    let seen = json_outcome(&embeddings);
    assert_eq!((seen.usage, seen.data_entries), (usage(8, 0, 0), Some(2)));

    let images = json!({"created": 1, "data": [{"b64_json": "AA=="}, {"b64_json": "[{"}, {}],
        "usage": {"input_tokens": 50, "output_tokens": 50, "total_tokens": 100,
            "input_tokens_details": {"text_tokens": 10, "image_tokens": 40}}});
    let seen = json_outcome(&images);
    let expected = Usage { input_image_tokens: 40, ..usage(50, 0, 50).unwrap() };
    assert_eq!((seen.usage, seen.data_entries), (Some(expected), Some(3)));

    let spoken = json!({"text": "hi", "usage": {"type": "duration", "seconds": 9.5}});
    let seen = json_outcome(&spoken);
    assert_eq!((seen.usage, seen.duration_ms), (None, Some(9500)));
    let verbose = json!({"task": "transcribe", "duration": "8.4700001", "text": "hi"});
    assert_eq!(json_outcome(&verbose).duration_ms, Some(8471));
    assert_eq!(json_outcome(&json!({"data": []})).data_entries, Some(0));
    let compaction = json!({"id": "resp_c", "object": "response.compaction", "output": [],
        "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}});
    assert_eq!(json_outcome(&compaction).usage, usage(5, 0, 2));
}

#[test]
fn implausible_usage_is_ignored() {
    let check = |answer: &str, invalid: bool| {
        let seen = outcome(Reader::json, answer.as_bytes());
        assert_eq!((seen.usage, seen.usage_invalid), (None, invalid), "{answer}");
    };
    for bad in [
        "-1",
        "1.5",
        "1.0",
        "1e3",
        "\"7\"",
        "1000000000",
        "99999999999999999999",
        "true",
        "[]",
        "{}",
        "+1",
        "\"\"",
    ] {
        check(&format!(r#"{{"usage":{{"input_tokens":{bad},"output_tokens":1}}}}"#), true);
    }
    check(r#"{"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":4}}}"#, true);
    check(r#"{"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":-4}}}"#, true);
    check(r#"{"usage":[1]}"#, true);
    check(r#"{"usage":"much"}"#, true);
    check(r#"{"usage":7}"#, true);
    check(r#"{"usage":null}"#, false);
    check(r#"{"usage":{}}"#, false);
    check(r#"{"usage":{"input_tokens":null}}"#, false);
    check(r#"{"usage":{"input_tokens":12"#, false);
    check(&format!(r#"{{"usage":{{"input_tokens":{}}}}}"#, "0".repeat(300)), true);
    check("<html><body>502 \"usage\":{\"input_tokens\":1}</body></html>", false);
    let seen = outcome(
        Reader::json,
        br#"{"usage":{"input_tokens":7,"output_tokens":5,"total_tokens":1}}"#,
    );
    assert_eq!(seen.usage, usage(7, 0, 5));
}

fn delta(text: &str) -> Value {
    json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
        "delta": text, "logprobs": [], "sequence_number": 4})
}

fn response_stream() -> String {
    let response = json!({"id": "resp_7", "status": "in_progress", "usage": null, "output": []});
    let mut done = response.clone();
    done["usage"] = json!({"input_tokens": 30, "output_tokens": 2, "total_tokens": 32,
        "input_tokens_details": {"cached_tokens": 10}});
    done["output"] = json!([{"content": [{"text": "Hi there"}]}]);
    events(&[
        json!({"type": "response.created", "response": response}),
        json!({"type": "response.in_progress", "response": response}),
        delta("Hi \u{1f600}"),
        delta("thére\n"),
        json!({"type": "response.audio.delta", "delta": "AAAA"}),
        json!({"type": "response.output_text.done", "text": "Hi there"}),
        json!({"type": "response.completed", "response": done}),
    ])
}

#[test]
fn response_streams() {
    let stream = response_stream();
    let seen = outcome(Reader::events, stream.as_bytes());
    assert_eq!(seen.usage, usage(30, 10, 2));
    assert_eq!(
        (seen.id.as_deref(), seen.output_eighths, seen.complete),
        (Some("resp_7"), 32, true)
    );
    let crlf = stream.replace('\n', "\r\n");
    assert_eq!(outcome(Reader::events, crlf.as_bytes()), seen);
    let cr = stream.replace('\n', "\r");
    assert_eq!(outcome(Reader::events, cr.as_bytes()), seen);
    let marked = format!("\u{feff}{stream}");
    assert_eq!(outcome(Reader::events, marked.as_bytes()), seen);
    let nameless = stream.lines().filter(|line| !line.starts_with("event:"));
    let nameless: String = nameless.map(|line| format!("{line}\n")).collect();
    assert_eq!(outcome(Reader::events, nameless.as_bytes()), seen);
}

#[test]
fn the_id_is_found_before_the_end() {
    let mut reader = Reader::events();
    reader.feed(b"data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_7\",");
    assert_eq!(reader.id(), Some("resp_7"));
}

#[test]
fn cut_streams() {
    let stream = response_stream();
    let at = stream.find("there").unwrap_or(stream.find("th").unwrap());
    let seen = outcome(Reader::events, &stream.as_bytes()[..at]);
    assert!(!seen.complete && seen.usage.is_none());
    assert_eq!((seen.id.as_deref(), seen.output_eighths), (Some("resp_7"), 32));
    let at = stream.find("response.completed").unwrap();
    assert!(!outcome(Reader::events, &stream.as_bytes()[..at]).complete);
}

#[test]
fn chat_streams() {
    let chunk = |choices: Value, usage: Value| {
        json!({"id": "chatcmpl-9", "object": "chat.completion.chunk", "choices": choices,
            "usage": usage})
    };
    let list = [
        chunk(json!([{"index": 0, "delta": {"role": "assistant", "content": ""}}]), json!(null)),
        chunk(json!([{"index": 0, "delta": {"content": "Héllo"}}]), json!(null)),
        chunk(json!([{"delta": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]), json!(null)),
        chunk(json!([]), json!({"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29})),
    ];
    let stream = format!("{}data: [DONE]\n\n", events(&list));
    let seen = outcome(Reader::events, stream.as_bytes());
    assert_eq!(seen.usage, usage(19, 0, 10));
    assert_eq!((seen.id.as_deref(), seen.output_eighths), (Some("chatcmpl-9"), 17));
    assert!(seen.complete);
    let cut = stream.replace("data: [DONE]\n\n", "data: [DONE]");
    assert!(!outcome(Reader::events, cut.as_bytes()).complete);
}

#[test]
fn other_streams() {
    let image = |kind: &str| {
        json!({"type": kind, "b64_json": "AAAA", "usage": {"input_tokens": 1, "output_tokens": 2,
            "total_tokens": 3}})
    };
    let partial = json!({"type": "image_generation.partial_image", "b64_json": "AA"});
    let stream =
        events(&[partial, image("image_generation.completed"), image("image_edit.completed")]);
    let seen = outcome(Reader::events, stream.as_bytes());
    assert_eq!((seen.usage, seen.data_entries, seen.complete), (usage(1, 0, 2), Some(2), true));
    let stream = events(&[
        json!({"type": "transcript.text.delta", "delta": "hi"}),
        json!({"type": "transcript.text.done", "text": "hi",
            "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 1, "total_tokens": 15}}),
    ]);
    let seen = outcome(Reader::events, stream.as_bytes());
    assert_eq!((seen.usage, seen.output_eighths, seen.complete), (usage(14, 0, 1), 4, true));
    let failed = ": ping\n\nretry: 3\nid: 1\nevent: error\ndata: {\"message\":\"x\"}\n\n";
    assert!(outcome(Reader::events, failed.as_bytes()).failed);
    let lines = "data: {\"type\":\"response.output_text.delta\",\ndata: \"delta\":\"abc\"}\n\n";
    assert_eq!(outcome(Reader::events, lines.as_bytes()).output_eighths, 6);
}

#[test]
fn usage_is_found_wherever_servers_put_it() {
    let of = |input, cached, write, write_1h, output| {
        Some(Usage {
            input_tokens: input,
            cached_input_tokens: cached,
            cache_write_tokens: write,
            cache_write_1h_tokens: write_1h,
            cache_write_unnamed_tokens: if write_1h == 0 { write } else { 0 },
            output_tokens: output,
            ..Usage::default()
        })
    };
    let chat = json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13});
    for (name, body, expected) in [
        ("Groq", json!({"choices": [], "x_groq": {"id": "req", "usage": chat}}), of(9, 0, 0, 0, 4)),
        ("Kimi", json!({"choices": [{"index": 0, "delta": {}, "usage": chat}]}), of(9, 0, 0, 0, 4)),
        (
            "two places",
            json!({"usage": chat, "x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 5}}}),
            of(9, 0, 0, 0, 5),
        ),
        (
            "DeepSeek",
            json!({"usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 6,
                "prompt_cache_miss_tokens": 3}}),
            of(9, 6, 0, 0, 4),
        ),
        (
            "cache writes in the details",
            json!({"usage": {"input_tokens": 100, "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}}),
            of(100, 60, 30, 0, 4),
        ),
        (
            "Messages",
            json!({"type": "message", "content": [{"type": "text", "text": "x"}], "usage": {
                "input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
                "output_tokens": 4}}),
            of(83, 50, 10, 20, 4),
        ),
        (
            "a proxy's chat with the names of Messages",
            json!({"usage": {"prompt_tokens": 83, "completion_tokens": 4, "cache_read_input_tokens": 50,
                "cache_creation_input_tokens": 30}}),
            of(83, 50, 30, 0, 4),
        ),
        (
            "Bedrock",
            json!({"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7,
                "cacheReadInputTokens": 5, "cacheWriteInputTokens": 2}}),
            of(10, 5, 2, 0, 4),
        ),
    ] {
        let seen = json_outcome(&body);
        assert_eq!((seen.usage, seen.usage_invalid), (expected, false), "{name}");
        let seen = outcome(Reader::events, events(&[body]).as_bytes());
        assert_eq!((seen.usage, seen.usage_invalid), (expected, false), "{name}, streamed");
    }
    // Thoughts are output that the breakdown leaves out.
    let hidden = json!({"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 4,
        "thoughtsTokenCount": 6, "cachedContentTokenCount": 8, "totalTokenCount": 20}});
    let expected = Usage { reasoning_tokens: 6, ..of(10, 8, 0, 0, 10).unwrap() };
    assert_eq!(json_outcome(&hidden).usage, Some(expected));
    // What the model writes is no usage.
    let spoofed = json!({"choices": [{"message": {"tool_calls": [{"function": {"arguments": {
        "usage": {"prompt_tokens": 1, "completion_tokens": 1}}}}]}}]});
    assert_eq!(json_outcome(&spoofed).usage, None);
}

#[test]
fn later_numbers_replace_earlier_ones() {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {
        "input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 1}}});
    let text =
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "four"}});
    let call = json!({"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}});
    let stop = json!({"type": "message_stop"});
    let seen =
        outcome(Reader::events, events(&[start.clone(), text.clone(), call.clone()]).as_bytes());
    assert_eq!((seen.usage, seen.eighths_after_usage), (usage(100, 90, 1), 12));
    assert!(!seen.complete);
    let seen = outcome(Reader::events, events(&[start, text, call, end, stop]).as_bytes());
    assert_eq!((seen.usage, seen.eighths_after_usage), (usage(100, 90, 7), 0));
    assert_eq!((seen.id.as_deref(), seen.complete, seen.output_eighths), (Some("msg_1"), true, 12));
    // A usage of the input alone does not count the text before it.
    let late = json!({"choices": [], "usage": {"prompt_tokens": 5}});
    let text = json!({"choices": [{"delta": {"content": "four"}}]});
    let seen = outcome(Reader::events, events(&[text, late]).as_bytes());
    assert_eq!((seen.usage, seen.eighths_after_usage), (usage(5, 0, 0), 8));
}

#[test]
fn bodies_of_other_types_are_read_by_their_beginning() {
    let both = |kind: &str, body: &[u8]| {
        let whole = read(Reader::for_content_type(kind).unwrap(), &[body]);
        let pieces: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(read(Reader::for_content_type(kind).unwrap(), &pieces), whole);
        whole
    };
    let json = br#" {"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    for kind in ["", "text/plain; charset=utf-8", "application/problem+json", "application/JSON"] {
        assert_eq!(both(kind, json).usage, usage(3, 0, 4), "{kind}");
    }
    let events = b"\n: hi\n\ndata: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";
    assert_eq!(both("text/plain", events).usage, usage(3, 0, 4));
    let text = both("text/vtt", b"WEBVTT\n\n00:00 --> 00:01\nHi\n");
    assert_eq!((text.output_eighths, text.complete), (54, true));
    assert_eq!(both("text/plain", b"Hi").output_eighths, 4);
    assert_eq!(both("text/plain", b" \n ").output_eighths, 0);
    for kind in ["audio/mpeg", "application/octet-stream", "image/png"] {
        assert!(Reader::for_content_type(kind).is_none(), "{kind}");
    }
}

#[test]
fn errors_within_an_answer_are_seen() {
    for (body, failed) in [
        (json!({"error": {"message": "It failed", "code": 500}}), true),
        (json!({"error": "it failed"}), true),
        (json!({"error": null, "output": []}), false),
        (json!({"error": {"code": null, "message": null, "param": null}}), false),
        (json!({"response": {"error": {"message": "It failed"}}}), true),
        (json!({"choices": [{"delta": {"content": "{\"error\":\"no\"}"}}]}), false),
    ] {
        assert_eq!(json_outcome(&body).failed, failed, "{body}");
        assert_eq!(
            outcome(Reader::events, events(std::slice::from_ref(&body)).as_bytes()).failed,
            failed,
            "{body}"
        );
    }
}

#[test]
fn memory_stays_bounded() {
    let mut reader = Reader::events();
    let long = [b'x'; 4096];
    for start in [&b"data: {\"id\":\""[..], b"\",\"", b"\":123", b"}\nevent: ", b"\n", b": "] {
        reader.feed(start);
        for _ in 0..100 {
            reader.feed(&long);
        }
    }
    let Source::Events(events) = &reader.source else { panic!() };
    assert!(events.held_bytes() <= 2048, "{}", events.held_bytes());
}

/// Splits `bytes` at `cuts`.
pub(crate) fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Bytes that resemble a stream.
pub(crate) fn stream_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "data: ",
        "data:",
        "data",
        "event: ",
        "event:response.completed",
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        "\\u00e9",
        "\\ud83d\\ude00",
        "é",
        "\"usage\":",
        "{\"input_tokens\":5",
        "\"output_tokens\":7}",
        "\"id\":\"x\"",
        "\"choices\":",
        "\"choices\":[]",
        "\"delta\":\"ab\"",
        "\"type\":\"response.audio.delta\"",
        "\"response\":{",
        "[DONE]",
        "data: [DONE]\n\n",
        "null",
        "1",
        "\"data\":[",
        "\"duration\":2.5",
        "\"delta\":{",
        "\"message\":{",
        "\"x_groq\":{",
        "\"iterations\":[{\"type\":\"compaction\",",
        "\"cache_read_input_tokens\":3",
        "\"prompt_tokens\":4",
        "\"error\":{\"message\":\"x\"}",
        "\"finish_reason\":\"stop\"",
        "\"text\":\"\u{4e2d}b\"",
        "\"input\":{\"a\":\"b\"}",
        "\u{feff}",
        "{\"choices\":[],\"usage\":{}}\n\n",
    ]);
    prop::collection::vec(word, 0..30).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_split_gives_the_same_result(
        bytes in stream_like(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for new in [Reader::events, Reader::json] {
            let whole = read(new(), &[&bytes]);
            prop_assert_eq!(read(new(), &pieces(&bytes, &cuts)), whole);
        }
    }

    #[test]
    fn finds_usage_in_any_tree(
        other in super::super::scan::tests::value(),
        input in 0_u32..1_000_000_000, output in 0_u32..1_000_000_000,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        pretty in any::<bool>(),
    ) {
        let body = json!({"a": other, "id": "x", "usage": {"z": other, "prompt_tokens": input,
            "completion_tokens": output, "other": {"cached_tokens": 3}}, "zz": [other]});
        let text = if pretty { serde_json::to_vec_pretty(&body) } else { serde_json::to_vec(&body) };
        let text = text.unwrap();
        let seen = read(Reader::json(), &pieces(&text, &cuts));
        prop_assert_eq!(seen.usage, usage(input, 0, output));
        prop_assert_eq!(seen.id.as_deref(), Some("x"));
        prop_assert!(seen.complete && !seen.usage_invalid);
    }
}

/// An input without an output is a usage, too, and the text after it counts.
#[test]
fn a_usage_without_an_output_is_known_before_the_end() {
    for (body, expected) in [
        (r#"{"choices":[],"usage":{}}  {"input_tokens":5]"#, (usage(5, 0, 0), 0)),
        (r#"{"choices":[{"text":"four"}],"usage":{"prompt_tokens":5},"#, (usage(5, 0, 0), 8)),
    ] {
        let seen = outcome(Reader::json, body.as_bytes());
        assert_eq!((seen.usage, seen.eighths_after_usage), expected, "{body}");
    }
}

/// Servers that report the usage so far with their events: only while there is more to come.
#[test]
fn the_usage_so_far_is_known_until_the_answer_is_complete() {
    let start = json!({"type": "message_start", "message": {"usage": {
        "input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1}}});
    let text =
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "abc"}});
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": {"output_tokens": 4}});
    let end = json!({"type": "message_stop"});
    let mut reader = Reader::events();
    for (event, expected) in [
        (text.clone(), None),
        (start, usage(10, 3, 1)),
        (text, usage(10, 3, 1)),
        (delta, usage(10, 3, 4)),
        (end, None),
    ] {
        reader.feed(events(std::slice::from_ref(&event)).as_bytes());
        assert_eq!(reader.usage_so_far(), expected, "{event}");
    }
}
