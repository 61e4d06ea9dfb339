//! Marks for the prompt cache of Messages: their places, their times to live, and the rules of the API.

use proptest::prelude::*;
use serde_json::{Value, json};
use wire::{CacheHints, CacheMarks, MessagesOptions, Target, Wire};

use crate::support::{request, target};

fn with(cache: CacheMarks, hints: CacheHints) -> Target {
    let messages = MessagesOptions { cache, ..MessagesOptions::default() };
    Target { messages, cache: hints, ..target() }
}

fn body(input: &[Value]) -> Value {
    json!({"model": "m", "instructions": "I", "input": input})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// A response with calls, and their outputs.
fn calls(prefix: &str, count: usize) -> Vec<Value> {
    let id = |at: usize| format!("{prefix}_{at}");
    let call =
        |at| json!({"type": "function_call", "call_id": id(at), "name": "f", "arguments": "{}"});
    let output = |at| json!({"type": "function_call_output", "call_id": id(at), "output": id(at)});
    (0..count).map(call).chain((0..count).map(output)).collect()
}

/// The marked blocks of messages, by their text or the id of their call, with `1h` for long marks; that of the instructions
/// is first.
fn marks(target: &Target, input: &[Value]) -> Vec<String> {
    let (body, _) = request(Wire::Responses, Wire::Messages, target, &body(input)).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
    let marked = body["system"].as_array().unwrap().iter().chain(blocks).filter_map(|block| {
        let mark = block.get("cache_control")?;
        let name = block["text"].as_str().or_else(|| block["tool_use_id"].as_str()).unwrap();
        Some(format!(
            "{name}{}",
            mark["ttl"].as_str().map(|ttl| format!(" {ttl}")).unwrap_or_default()
        ))
    });
    marked.collect()
}

#[test]
fn the_last_turns_and_what_is_stable_are_marked() {
    let input = [user("summary"), said("1"), user("2"), said("3"), user("4"), said("5"), user("6")];
    let hints = |stable, passing, is_long| CacheHints { stable, passing, is_long };
    for (marked, hints, expect) in [
        (CacheMarks::None, hints([1, 0], 0, true), vec![]),
        (CacheMarks::Short, CacheHints::default(), vec!["I", "4", "6"]),
        (CacheMarks::Short, hints([1, 0], 0, true), vec!["I", "summary", "4", "6"]),
        (CacheMarks::Adaptive, hints([1, 0], 0, false), vec!["I", "summary", "4", "6"]),
        (CacheMarks::Adaptive, hints([1, 0], 0, true), vec!["I 1h", "summary 1h", "4", "6"]),
        (CacheMarks::Long, hints([1, 0], 0, false), vec!["I 1h", "summary 1h", "4", "6"]),
        // After a pause both what was kept and what is kept now have a mark.
        (CacheMarks::Adaptive, hints([1, 5], 0, true), vec!["I 1h", "summary 1h", "4 1h", "6"]),
        // What only this request has is not marked.
        (CacheMarks::Short, hints([0, 0], 1, false), vec!["I", "2", "4"]),
        // Numbers past the end of the input are its end.
        (CacheMarks::Long, hints([90, 0], 0, false), vec!["I 1h", "4 1h", "6 1h"]),
    ] {
        assert_eq!(marks(&with(marked, hints), &input), expect, "{marked:?} {hints:?}");
    }
}

/// After a compaction the user's next message joins the turn of the summary: the mark is between them.
#[test]
fn a_mark_stands_inside_of_a_turn() {
    let input = [user("kept"), user("summary"), user("next")];
    let hints = CacheHints { stable: [2, 0], ..CacheHints::default() };
    assert_eq!(marks(&with(CacheMarks::Long, hints), &input), ["I 1h", "summary 1h", "next"]);
    // No long mark follows a short one.
    let mut input = vec![user("first"), said("a")];
    input.extend(calls("c", 2));
    input.extend([user("summary"), user("next")]);
    let hints = CacheHints { stable: [input.len() - 1, 0], ..CacheHints::default() };
    let expect = ["I 1h", "first 1h", "summary 1h", "next"];
    assert_eq!(marks(&with(CacheMarks::Long, hints), &input), expect);
}

/// A notice after the outputs is of one request: the next one reads up to the outputs.
#[test]
fn a_passing_note_is_not_marked() {
    let mut input = vec![user("go")];
    input.extend(calls("c", 2));
    input.push(json!({"role": "developer", "content": "Little is left."}));
    let hints = CacheHints { passing: 1, ..CacheHints::default() };
    assert_eq!(marks(&with(CacheMarks::Short, hints), &input), ["I", "go", "c_1"]);
}

/// The end of the request before can be inside of a long turn, further back than the provider looks.
#[test]
fn a_long_turn_has_a_mark_in_between() {
    for (parts, expect) in [
        (20, vec!["I", "0", "t19"]),
        (21, vec!["I", "0", "t20"]),
        (25, vec!["I", "0", "t4", "t24"]),
        (60, vec!["I", "0", "t39", "t59"]),
    ] {
        let mut input = vec![user("0"), said("1")];
        input.extend((0..parts).map(|at| user(&format!("t{at}"))));
        assert_eq!(marks(&with(CacheMarks::Short, CacheHints::default()), &input), expect);
    }
}

#[test]
fn without_instructions_the_tools_are_marked() {
    let tools = json!([{"type": "function", "name": "f", "parameters": {}},
        {"type": "function", "name": "g", "parameters": {}}]);
    let body = json!({"model": "m", "input": [user("x")], "tools": tools});
    let hints = CacheHints { is_long: true, ..CacheHints::default() };
    let target = with(CacheMarks::Adaptive, hints);
    let (body, _) = request(Wire::Responses, Wire::Messages, &target, &body).unwrap();
    assert_eq!(body["tools"][0].get("cache_control"), None);
    assert_eq!(body["tools"][1]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
}

proptest! {
    /// At most four marks, no long one after a short one, whatever the hints.
    #[test]
    fn the_rules_of_the_api_hold(
        steps in prop::collection::vec((0..3_usize, 0..30_usize), 0..12),
        stable in (0..60_usize, 0..60_usize), passing in 0..3_usize, is_long: bool,
    ) {
        let mut input = vec![user("first")];
        for (at, (kind, count)) in steps.into_iter().enumerate() {
            match kind {
                0 => input.push(user(&format!("u{at}"))),
                1 => input.push(said(&format!("a{at}"))),
                _ => input.extend(calls(&format!("c{at}"), count)),
            }
        }
        let hints = CacheHints { stable: [stable.0, stable.1], passing, is_long };
        for marked in [CacheMarks::Short, CacheMarks::Long, CacheMarks::Adaptive] {
            let marks = marks(&with(marked, hints), &input);
            prop_assert!(marks.len() <= 4, "{:?}", marks);
            let short = marks.iter().position(|mark| !mark.ends_with(" 1h"));
            let is_late = |mark: &String| mark.ends_with(" 1h");
            prop_assert!(short.is_none_or(|at| !marks[at..].iter().any(is_late)), "{:?}", marks);
        }
    }
}
