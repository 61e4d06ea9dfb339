//! The results of scans, which accept exactly what `serde_json` accepts.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{MAX_DEPTH, MaxTokens};

fn good(body: &Value, kind: Kind) -> (Scanned, Vec<u8>) {
    let body = serde_json::to_vec(body).unwrap();
    (scan(&body, kind).unwrap(), body)
}

#[track_caller]
fn chars(kind: Kind, body: Value, expect: u64) {
    assert_eq!(good(&body, kind).0.chars, expect, "{body}");
}

#[track_caller]
fn refused(kind: Kind, body: &str, expect: Invalid) {
    let error = scan(body.as_bytes(), kind).err();
    assert_eq!(error, Some(expect), "{}", &body[..body.len().min(200)]);
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok()
}

fn has_duplicates(body: &str) -> bool {
    struct Keys;
    impl<'de> serde::de::Visitor<'de> for Keys {
        type Value = bool;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
            let mut keys = HashSet::new();
            let mut twice = false;
            while let Some((key, _)) = map.next_entry::<String, Value>()? {
                twice |= !keys.insert(key);
            }
            Ok(twice)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(body);
    serde::Deserializer::deserialize_map(&mut reader, Keys).unwrap_or(false)
}

#[test]
fn text_is_counted_in_scalar_values() {
    use Kind::{Chat, Completions, Embeddings, Moderations, Responses, Speech};
    chars(Responses, json!({"input": "héllo\n\u{1F600}"}), 7);
    chars(Responses, json!({"input": "ab", "instructions": "cde"}), 5);
    let image = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA"});
    let text = json!({"type": "input_text", "text": "look"});
    chars(Responses, json!({"input": [{"role": "user", "content": [text, image]}]}), 4);
    let call = json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "done"});
    chars(Responses, json!({"input": [call, output]}), 6);
    let file = json!({"type": "input_file", "file_data": "AAAA", "filename": "a.pdf"});
    chars(Responses, json!({"input": [{"content": [file]}]}), 0);
    let secret = json!({"type": "reasoning", "encrypted_content": "xxxx",
        "summary": [{"type": "summary_text", "text": "why"}]});
    chars(Responses, json!({"input": [secret]}), 7);
    let compacted = json!({"type": "compaction", "encrypted_content": "x".repeat(50)});
    chars(Responses, json!({"input": [compacted]}), 50);
    let prompt = json!({"id": "pmpt_1", "variables": {"name": "Ann", "text": {"text": "xy"}}});
    chars(Responses, json!({"prompt": prompt}), 5);
    let messages = json!([
        {"role": "system", "content": "be kind"},
        {"role": "user", "name": "bob", "content": [
            {"type": "text", "text": "hi"},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"function": {"name": "f", "arguments": "{\"a\":1}"}}]},
    ]);
    chars(Chat, json!({ "messages": messages }), 16);
    for (member, expect) in [
        (json!({"reasoning_content": "why"}), 3),
        (json!({"reasoning": "why"}), 3),
        (json!({"reasoning_details": [{"data": "xxxx"}]}), 8),
        (
            json!({"tool_calls": [{"extra_content": {"g": {"s": "xxxx"}}, "function": {"name": "f"}}]}),
            6,
        ),
        (json!({"tool_calls": [{"custom": {"name": "f", "input": "abc"}}]}), 3),
        (json!({"function_call": {"name": "f", "arguments": "abc"}}), 3),
    ] {
        chars(Chat, json!({ "messages": [member] }), expect);
    }
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "xxxx"});
    let redacted = json!({"type": "redacted_thinking", "data": "xxx"});
    let messages = json!([{"role": "assistant", "content": [thought, redacted]}]);
    chars(Kind::Messages, json!({"max_tokens": 1, "messages": messages}), 9);
    chars(Embeddings, json!({"input": ["ab", "cde"]}), 5);
    chars(Embeddings, json!({"input": [1, 2, 3]}), 12);
    chars(Embeddings, json!({"input": [[1, 2], [3]]}), 12);
    chars(Responses, json!({"input": [1, 2, 3]}), 0);
    chars(Completions, json!({"prompt": ["one", "two"]}), 6);
    chars(Moderations, json!({"input": [{"type": "text", "text": "bad"}]}), 3);
    chars(Speech, json!({"input": "say", "instructions": "low"}), 6);
    chars(Kind::Other, json!({"input": "nobody counts"}), 0);
}

#[test]
fn escapes_count_as_the_characters_they_encode() {
    let check = |text: &str, expect: u64| {
        let body = format!("{{\"input\":\"{text}\"}}");
        assert_eq!(scan(body.as_bytes(), Kind::Responses).unwrap().chars, expect, "{text}");
    };
    check(r"\n", 1);
    check(r"\u00e9", 1);
    check(r"\ud83d\ude00", 1);
    check(r"é\ud83d\ude00\\x", 4);
    check(&"word ".repeat(100), 500);
    check(&r"line\n".repeat(100), 500);
    check(&"é".repeat(1000), 1000);
}

#[test]
fn fields_are_found() {
    let body = br#"{"model" : "b\u0069g", "stream":true,"max_output_tokens":null,
        "max_completion_tokens": 70, "max_tokens":90, "n":2,"service_tier":"priority",
        "prompt_cache_retention":null, "previous_response_id":"resp_1",
        "stream_options": {"include_usage" : true}, "file_id": "file-1" }"#;
    let scanned = scan(body, Kind::Chat).unwrap();
    assert_eq!(scanned.model.unwrap().read(body), "big");
    assert_eq!(scanned.model.unwrap().span.bytes_in(body), br#""b\u0069g""#);
    assert!(scanned.stream && scanned.stream_options.wants_usage);
    let max = MaxTokens { param: "max_completion_tokens", tokens: 70 };
    assert_eq!(scanned.max_tokens(), Some(max));
    let followed = [Kind::Responses, Kind::Chat, Kind::Completions, Kind::Other];
    let bounds = followed.map(|kind| scanned.output_bound(kind));
    assert_eq!(bounds, [None, Some(90), Some(90), Some(90)], "responses ignore both");
    assert_eq!(scanned.n, Some(2));
    assert_eq!(scanned.service_tier.unwrap().read(body), "priority");
    assert_eq!(scanned.prompt_cache_retention, None);
    let Member::Null(span) = scanned.prompt_cache_retention_member else { panic!() };
    assert_eq!(span.bytes_in(body), b"null");
    assert_eq!(scanned.previous_response_id.unwrap().read(body), "resp_1");
    assert_eq!(scanned.file_ids[0].read(body), "file-1");
    assert_eq!(body[scanned.end.unwrap().at], b'}');
}

#[test]
fn a_prompt_cache_key_is_read_if_it_is_a_text() {
    for (body, expected) in [
        (r#"{"prompt_cache_key":"k\u0065y"}"#, Some("key")),
        (r#"{"prompt_cache_key":""}"#, Some("")),
        (r#"{"prompt_cache_key":null}"#, None),
        (r#"{"prompt_cache_key":5}"#, None),
        (r#"{"prompt_cache_key":{"a":["key"]}}"#, None),
        (r#"{"metadata":{"prompt_cache_key":"key"}}"#, None),
    ] {
        for kind in [Kind::Responses, Kind::Chat] {
            let scanned = scan(body.as_bytes(), kind).unwrap();
            let found = scanned.prompt_cache_key.map(|key| key.read(body.as_bytes()).into_owned());
            assert_eq!(found.as_deref(), expected, "{body}");
        }
    }
}

#[test]
fn the_number_of_completions_is_read() {
    let made = |body: &[u8], kind| scan(body, kind).map(|scanned| scanned.best_of);
    assert_eq!(made(br#"{"best_of":7}"#, Kind::Completions), Ok(Some(7)));
    assert_eq!(made(br#"{"best_of":null}"#, Kind::Completions), Ok(None));
    let wrong = Err(Invalid::Count { param: "best_of" });
    assert_eq!(made(br#"{"best_of":0}"#, Kind::Completions), wrong);
    assert_eq!(made(br#"{"best_of":0}"#, Kind::Chat), Ok(None), "no field of a chat");
}

#[test]
fn the_background_member_is_read_where_the_kind_has_it() {
    let (scanned, _) = good(&json!({"background": true}), Kind::Responses);
    assert_eq!(scanned.background, Background::Mode(true));
    let (scanned, body) = good(&json!({"background": "transparent"}), Kind::ImageGenerations);
    let Background::Fill(text) = scanned.background else { panic!() };
    assert_eq!(text.read(&body), "transparent");
    let wrong = Invalid::Type { param: "background", expected: "a boolean" };
    refused(Kind::Responses, r#"{"background":"yes"}"#, wrong);
    let (scanned, _) = good(&json!({"background": {"any": 1}}), Kind::Chat);
    assert_eq!(scanned.background, Background::Absent);
}

#[test]
fn files_are_collected() {
    let body = json!({
        "input": [{"content": [{"type": "input_file", "file_id": "a"},
            {"type": "input_image", "file_id": null}]}],
        "tools": [{"type": "code_interpreter", "container": {"file_ids": ["b", 7, {"file_id": "c"}]}},
            {"type": "function", "parameters": {"file_id": "no"}}],
        "metadata": {"file_id": "no"},
    });
    let (scanned, body) = good(&body, Kind::Responses);
    let ids: Vec<_> = scanned.file_ids.iter().map(|id| id.read(&body).into_owned()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let (scanned, body) = good(&json!({"file_ids": ["x"], "input_file_id": "y"}), Kind::Other);
    let ids: Vec<_> = scanned.file_ids.iter().map(|id| id.read(&body).into_owned()).collect();
    // `json!` orders members by name.
    assert_eq!(ids, ["x", "y"]);
    let body = json!({
        "container": {"id": "m", "skills": [{"file_id": "d"}]},
        "input": [{"type": "code_interpreter_call", "container_id": "i"}],
        "tools": [{"type": "code_interpreter", "container": "t"},
            {"type": "shell", "environment": {"type": "container_reference", "container_id": "e"}},
            {"type": "function", "parameters": {"container": "no"}},
            {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}],
        "video": {"id": "v"}, "video_id": "w",
        "metadata": {"container": "no", "video_id": "no"},
    });
    for kind in [Kind::Responses, Kind::Other] {
        let (scanned, body) = good(&body, kind);
        let read =
            |ids: &[Text]| ids.iter().map(|id| id.read(&body).into_owned()).collect::<Vec<_>>();
        assert_eq!(read(&scanned.other_ids), ["m", "i", "t", "e", "v", "w"], "{kind:?}");
        assert_eq!(read(&scanned.file_ids), ["d", "f"], "{kind:?}");
    }
    let many = json!({"input": vec![json!({"container_id": "x"}); 2001]}).to_string();
    refused(Kind::Other, &many, Invalid::TooManyFiles);
    let many = json!({"file_ids": vec!["x"; 2001]}).to_string();
    refused(Kind::Other, &many, Invalid::TooManyFiles);
    refused(Kind::Responses, &many, Invalid::TooManyFiles);
}

#[test]
fn bad_fields_are_refused() {
    for bad in [
        "-1",
        "0",
        "1.5",
        "1.0",
        "1e3",
        "\"7\"",
        "1000000001",
        "true",
        "[1]",
        "{}",
        "99999999999999999999",
    ] {
        for param in MAX_TOKENS {
            let body = format!("{{\"{param}\":{bad}}}");
            refused(Kind::Chat, &body, Invalid::MaxTokens { param });
        }
        if bad != "1000000001" {
            refused(
                Kind::ImageGenerations,
                &format!("{{\"n\":{bad}}}"),
                Invalid::Count { param: "n" },
            );
        }
    }
    let wrong = |param, expected| Invalid::Type { param, expected };
    refused(Kind::Chat, r#"{"model":7}"#, wrong("model", "a string"));
    refused(Kind::Chat, r#"{"stream":"true"}"#, wrong("stream", "a boolean"));
    refused(Kind::Chat, r#"{"stream_options":[]}"#, wrong("stream_options", "an object"));
    let usage = wrong("stream_options.include_usage", "a boolean");
    refused(Kind::Chat, r#"{"stream_options":{"include_usage":1}}"#, usage);
    refused(Kind::Chat, "[]", Invalid::NotAnObject);
    refused(Kind::Chat, "null", Invalid::NotAnObject);
    assert!(scan(b"[1]", Kind::Other).is_ok());
    assert!(scan(br#"{"model":{"any":1},"stream":"x","max_tokens":-1}"#, Kind::Other).is_ok());
    assert!(scan(br#"{"model":null,"stream":null,"n":null}"#, Kind::Chat).is_ok());
}

#[test]
fn duplicate_keys_are_refused() {
    let twice = |key: &str| Invalid::DuplicateKey { key: key.to_owned() };
    refused(Kind::Chat, r#"{"model":"a","\u006dodel":"b"}"#, twice("model"));
    refused(Kind::Other, r#"{"x":1,"x":1}"#, twice("x"));
    let usage = r#"{"stream_options":{"include_usage":true,"include_us\u0061ge":false}}"#;
    refused(Kind::Chat, usage, twice("stream_options.include_usage"));
    let mut many: Vec<String> = (0..100).map(|n| format!("\"k{n}\":{n}")).collect();
    let body = |many: &[String]| format!("{{{}}}", many.join(","));
    assert!(scan(body(&many).as_bytes(), Kind::Chat).is_ok());
    for key in ["k3", "k31", "k32", "k99"] {
        many.push(format!("\"{key}\":0"));
        refused(Kind::Chat, &body(&many), twice(key));
        many.pop();
    }
    let many: Vec<String> = (0..1025).map(|n| format!("\"k{n}\":{n}")).collect();
    assert!(scan(body(&many[..1024]).as_bytes(), Kind::Chat).is_ok());
    refused(Kind::Chat, &body(&many), Invalid::TooManyKeys);
}

#[test]
fn json_is_as_strict_as_in_serde() {
    let texts = [
        "",
        " ",
        "{",
        "}",
        "{}",
        " {} ",
        "{}x",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "01",
        "-",
        "-0",
        "1.",
        ".5",
        "1e",
        "1e+",
        "1e5",
        "1E-5",
        "1e999",
        "-1e999",
        "0e999999999999",
        "1e-99999999999",
        "tru",
        "true",
        "truex",
        "nul",
        "+1",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u123g\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud83d\\ude00\"",
        "\"a\nb\"",
        "\"\u{7f}\"",
        "\"",
        "\"\\",
        "\u{feff}{}",
        "NaN",
        "[1 2]",
        "{\"a\":1 \"b\":2}",
        "[[]",
        "[]]",
        "\u{b}1",
        "\"\u{1f600}\"",
        "/**/1",
        "\"                              \u{1}\"",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
    ];
    for text in texts {
        let json = is_json(text.as_bytes());
        assert_eq!(scan(text.as_bytes(), Kind::Other).is_ok(), json, "{text}");
    }
    for digits in [300, 308, 309, 310, 400] {
        let long = format!("[{}, -{}.5]", "9".repeat(digits), "1".repeat(digits));
        assert_eq!(scan(long.as_bytes(), Kind::Other).is_ok(), is_json(long.as_bytes()));
    }
    for bytes in [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc3\"", b"\xc3\xa9"] {
        assert!(!is_json(bytes) && scan(bytes, Kind::Other).is_err());
    }
}

#[test]
fn depth_is_bounded_as_in_serde() {
    for (depth, expect) in [(usize::from(MAX_DEPTH), true), (usize::from(MAX_DEPTH) + 1, false)] {
        for (open, inner, close) in [("[", "1", "]"), ("{\"input\":", "1", "}")] {
            let body = [open.repeat(depth), inner.to_owned(), close.repeat(depth)].concat();
            assert_eq!(is_json(body.as_bytes()), expect);
            assert_eq!(scan(body.as_bytes(), Kind::Other).is_ok(), expect);
            let kind = if open == "[" { Kind::Other } else { Kind::Responses };
            assert_eq!(scan(body.as_bytes(), kind).is_ok(), expect);
        }
    }
    let bomb = "[".repeat(1 << 20);
    assert!(scan(bomb.as_bytes(), Kind::Other).is_err());
}

/// JSON, and texts that resemble it.
fn json_like() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\\",
        " ",
        "\n",
        "\"model\"",
        "\"input\"",
        "\"a\"",
        "\"\\u006dodel\"",
        "1",
        "-",
        "0",
        ".5",
        "e9",
        "E+400",
        "null",
        "true",
        "false",
        "\\u00e9",
        "\\ud83d",
        "\\ude00",
        "é",
        "\u{1f600}",
        "\u{1}",
        "\"content\"",
        "\"file_id\"",
        "{\"a\":1}",
        "[1,2]",
        "long plain text that goes beyond the short ones",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.concat())
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[a-z \\n\"\\\\é]{0,60}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let key = prop_oneof![
            ".{0,6}",
            prop::sample::select(vec!["text", "content", "input", "variables", "type", "file_id"])
                .prop_map(str::to_owned),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(key, inner, 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// The expected count of text in `input`, from a parsed tree.
fn count(value: &Value, all: bool) -> u64 {
    const TEXT: [&str; 9] = [
        "text",
        "content",
        "output",
        "arguments",
        "input",
        "refusal",
        "summary",
        "stdout",
        "stderr",
    ];
    match value {
        Value::String(text) => text.chars().count() as u64,
        Value::Array(entries) => entries.iter().map(|entry| count(entry, all)).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match value {
                Value::Object(inner) if key == "variables" && !all => inner
                    .iter()
                    .filter(|(key, value)| !unseen(key, value))
                    .map(|(_, value)| count(value, false))
                    .sum(),
                Value::Array(_) if key == "variables" && !all => entries_of_variables(value),
                _ if unseen(key, value) => 0,
                _ if all || TEXT.contains(&key.as_str()) => count(value, false),
                _ => 0,
            })
            .sum(),
        _ => 0,
    }
}

fn unseen(key: &str, value: &Value) -> bool {
    key == "metadata"
        || key == "parameters"
        || key == "schema"
        || (key == "file_id" && value.is_string())
}

fn entries_of_variables(value: &Value) -> u64 {
    let Value::Array(entries) = value else { return 0 };
    entries
        .iter()
        .map(|entry| match entry {
            Value::Object(_) => count(entry, true),
            Value::Array(_) => entries_of_variables(entry),
            _ => 0,
        })
        .sum()
}

proptest! {
    #[test]
    fn agrees_with_serde(text in prop_oneof![json_like(), ".{0,40}"]) {
        let scanned = scan(text.as_bytes(), Kind::Other);
        let expect = is_json(text.as_bytes()) && !has_duplicates(&text);
        prop_assert_eq!(scanned.is_ok(), expect, "{}: {:?}", text, scanned);
    }

    #[test]
    fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for kind in [
            Kind::Chat, Kind::Embeddings, Kind::Responses, Kind::ImageEdits, Kind::Messages,
            Kind::MessageTokens,
        ] {
            if scan(&bytes, kind).is_ok() {
                prop_assert!(is_json(&bytes));
            }
        }
    }

    #[test]
    fn messages_may_be_anything(value in value(), pretty in any::<bool>()) {
        let body = json!({"system": value, "messages": value, "tools": [value], "cache_control": value,
            "thread": value, "output_config": value, "max_tokens": 0});
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let scanned = scan(text.unwrap().as_bytes(), Kind::Messages);
        prop_assert_eq!(scanned.is_ok(), !value.is_null(), "{:?}", scanned);
    }

    #[test]
    fn counts_agree_with_a_parsed_tree(value in value(), pretty in any::<bool>()) {
        let body = json!({"model": "m", "input": value});
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let text = text.unwrap();
        let scanned = scan(text.as_bytes(), Kind::Responses).unwrap();
        prop_assert_eq!(scanned.chars, count(&value, false));
        prop_assert_eq!(scanned.model.unwrap().read(text.as_bytes()), "m");
    }
}
