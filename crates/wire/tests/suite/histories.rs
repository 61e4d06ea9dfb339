//! Properties of any history: the rules of each wire hold, and a longer history begins with the bytes of a shorter one.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{
    CacheHints, CacheMarks, ChatOptions, MessagesOptions, Target, Wire, read_request, write_request,
};

use crate::support::{request, target};

/// An item of any kind, in any order, with ids that repeat and are missing.
fn any_item() -> impl Strategy<Value = Value> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c d")];
    let text = prop_oneof![Just(String::new()), any::<String>()];
    (0..9_usize, id, text).prop_map(|(kind, id, text)| match kind {
        0 => json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
        1 => json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
        2 => json!({"type": "message", "role": "developer", "content": text}),
        3 => json!({"type": "function_call", "call_id": id, "name": "f", "arguments": text}),
        4 => json!({"type": "custom_tool_call", "call_id": id, "name": "g", "input": text}),
        5 => json!({"type": "function_call_output", "call_id": id, "output": text}),
        6 => json!({"type": "function_call_output", "call_id": id, "output": [
            {"type": "input_text", "text": text}, {"type": "input_image", "image_url": "data:image/png;base64,AA"}]}),
        7 => json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "x"}),
        _ => json!({"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": text}}),
    })
}

fn body(input: &[Value]) -> Value {
    json!({"model": "m", "instructions": "I", "input": input,
        "tools": [{"type": "function", "name": "f", "parameters": {}}, {"type": "custom", "name": "g"}]})
}

/// Ids of the calls of an assistant's message, and the ids that the next message answers at its beginning.
fn check_messages(body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[0]["role"], "user");
    assert_eq!(messages.last().unwrap()["role"], "user");
    let mut seen = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = message["content"].as_array().unwrap();
        assert!(!blocks.is_empty());
        assert!(at == 0 || messages[at - 1]["role"] != message["role"], "neighbours of one role");
        for block in blocks {
            assert!(block["type"] != "text" || block["text"] != "", "an empty text");
        }
        let of = |message: &Value, kind: &str, id: &str| -> Vec<String> {
            let blocks = message["content"].as_array().unwrap().iter();
            let own = blocks.take_while(|block| kind != "tool_result" || block["type"] == kind);
            own.filter(|block| block["type"] == kind)
                .map(|block| block[id].as_str().unwrap().to_owned())
                .collect()
        };
        let calls = of(message, "tool_use", "id");
        if message["role"] == "assistant" {
            assert_eq!(
                calls,
                of(&messages[at + 1], "tool_result", "tool_use_id"),
                "every call is answered"
            );
        }
        for id in calls {
            assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            assert!(!seen.contains(&id), "an id repeats");
            seen.push(id);
        }
    }
    let results = body.to_string().matches("\"tool_result\"").count();
    assert!(results >= seen.len());
    assert!(body.to_string().matches("cache_control").count() <= 4);
}

fn check_chat(body: &Value) {
    let messages = body["messages"].as_array().unwrap();
    let mut waiting: Vec<String> = Vec::new();
    for message in messages {
        match message["role"].as_str().unwrap() {
            "tool" => assert_eq!(waiting.remove(0), message["tool_call_id"].as_str().unwrap()),
            _ => assert!(waiting.is_empty(), "outputs follow their calls"),
        }
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        waiting.extend(calls.map(|call| call["id"].as_str().unwrap().to_owned()));
    }
    assert!(waiting.is_empty(), "every call is answered");
}

fn check_gemini(body: &Value) {
    let contents = body["contents"].as_array().unwrap();
    assert_eq!(contents[0]["role"], "user");
    for (at, content) in contents.iter().enumerate() {
        assert!(at == 0 || contents[at - 1]["role"] != content["role"], "neighbours of one role");
        let of = |content: &Value, kind: &str| -> Vec<Value> {
            let parts = content["parts"].as_array().unwrap().iter();
            parts.filter_map(|part| part.get(kind).map(|call| call["id"].clone())).collect()
        };
        let calls = of(content, "functionCall");
        if !calls.is_empty() {
            assert_eq!(calls, of(&contents[at + 1], "functionResponse"));
        }
    }
}

/// A step that leaves no call open: what the user says, or calls of the model with their outputs.
fn step(at: usize) -> impl Strategy<Value = Vec<Value>> {
    let user = any::<String>()
        .prop_map(|text| vec![json!({"role": "user", "content": format!("u{text}")})]);
    let turn = (any::<String>(), 0..3_usize, any::<String>()).prop_map(move |(text, calls, output)| {
        let mut items = vec![json!({"role": "assistant", "content": format!("a{text}")})];
        let id = |call: usize| format!("call_{at}_{call}");
        items.extend((0..calls).map(|call| {
            json!({"type": "function_call", "call_id": id(call), "name": "f", "arguments": "{\"b\":1,\"a\":2}"})
        }));
        items.extend((0..calls).map(|call| {
            json!({"type": "function_call_output", "call_id": id(call), "output": format!("o{output}")})
        }));
        items.push(json!({"role": "user", "content": "next"}));
        items
    });
    prop_oneof![user, turn]
}

fn steps() -> impl Strategy<Value = Vec<Vec<Value>>> {
    (0..6_usize).prop_flat_map(|length| (0..length).map(step).collect::<Vec<_>>())
}

fn written(wire: Wire, target: &Target, input: &[Value]) -> String {
    let text = body(input).to_string();
    let (request, _) = read_request(Wire::Responses, "", text.as_bytes()).unwrap();
    write_request(wire, &request, target).unwrap().body
}

fn without_marks(body: &str) -> String {
    let body = body.replace(",\"cache_control\":{\"type\":\"ephemeral\",\"ttl\":\"1h\"}", "");
    body.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
}

/// The written form of an input, read again and written for Responses.
fn back(wire: Wire, input: &[Value]) -> Value {
    let text = written(wire, &target(), input);
    let (request, _) = read_request(wire, "m", text.as_bytes()).unwrap();
    let body = write_request(Wire::Responses, &request, &target()).unwrap().body;
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["input"].take()
}

proptest! {
    #[test]
    fn any_history_follows_the_rules_of_every_wire(input in prop::collection::vec(any_item(), 0..12)) {
        let body = body(&input);
        for marks in [CacheMarks::None, CacheMarks::Long] {
            let messages = MessagesOptions { cache: marks, ..MessagesOptions::default() };
            let cache = CacheHints { stable: [3, 5], passing: 1, is_long: false };
            let target = Target { messages, cache, ..target() };
            check_messages(&request(Wire::Responses, Wire::Messages, &target, &body).unwrap().0);
        }
        for host in ["", "api.openai.com", "api.deepseek.com", "api.mistral.ai"] {
            let target = Target { chat: ChatOptions::of_host(host), ..target() };
            check_chat(&request(Wire::Responses, Wire::Chat, &target, &body).unwrap().0);
        }
        check_gemini(&request(Wire::Responses, Wire::Gemini, &target(), &body).unwrap().0);
    }

    #[test]
    fn a_longer_history_begins_with_the_bytes_of_a_shorter_one(steps in steps()) {
        let first = vec![json!({"role": "user", "content": "first"})];
        let all: Vec<Vec<Value>> = std::iter::once(first).chain(steps).collect();
        // The brackets that end the last message and the request.
        for (wire, closing) in [(Wire::Messages, 4), (Wire::Chat, 2), (Wire::Gemini, 4), (Wire::Responses, 2)] {
            let mut shorter = String::new();
            for length in 1..=all.len() {
                let whole = without_marks(&written(wire, &target(), &all[..length].concat()));
                prop_assert!(whole.starts_with(&shorter), "{wire}\n{shorter}\n{whole}");
                shorter = whole[..whole.len() - closing].to_owned();
            }
        }
    }

    #[test]
    fn a_history_comes_back_from_every_wire(steps in steps()) {
        // Neighbouring messages of the user become one on some wires.
        let steps = steps.into_iter().filter(|step| step.len() > 1);
        let first = vec![json!({"role": "user", "content": "first"})];
        let input = std::iter::once(first).chain(steps).collect::<Vec<_>>().concat();
        let expect = back(Wire::Responses, &input);
        for wire in [Wire::Messages, Wire::Chat, Wire::Gemini] {
            prop_assert_eq!(&back(wire, &input), &expect, "{}", wire);
        }
    }
}
