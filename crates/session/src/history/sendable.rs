//! Items of the model as every provider takes them back: strict ones refuse each later request whose history
//! has arguments that are no JSON object, a name with other characters than those of their own rule, or a
//! message without text.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most bytes of a tool's name that all providers take.
const MAX_NAME: usize = 64;
/// Most bytes of an item that is looked at as a message without text.
const MAX_EMPTY: usize = 1024;
/// The name of a call whose name has no character that providers take.
const UNNAMED: &str = "unnamed";

/// An item in the form that every provider takes; `None` for one that has it.
pub(super) fn item(text: &str) -> Option<Arc<str>> {
    call(text).or_else(|| message(text))
}

/// A message without its empty parts, if others remain.
fn message(text: &str) -> Option<Arc<str>> {
    // Without a parse: hardly a message has one.
    if !text.contains("\"\"") {
        return None;
    }
    let mut item: Map<String, Value> = serde_json::from_str(text).ok()?;
    let is_message = item.get("type").is_none_or(|kind| kind == "message");
    let parts = item.get_mut("content").filter(|_| is_message)?.as_array_mut()?;
    let before = parts.len();
    if parts.iter().all(is_empty_part) {
        return None;
    }
    parts.retain(|part| !is_empty_part(part));
    (parts.len() < before).then(|| Value::Object(item).to_string().into())
}

/// Returns whether a part of a message is a text without characters.
fn is_empty_part(part: &Value) -> bool {
    let is_text = |name: &str| part.get(name).is_some_and(|text| text == "");
    part.is_null() || is_text("text") || is_text("refusal")
}

/// Returns whether an item is a message of the model that says nothing.
pub(super) fn is_empty_message(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        role: Option<Cow<'a, str>>,
        content: Option<Value>,
    }
    // Without a parse: a long one says something.
    if text.len() > MAX_EMPTY || !text.contains("\"assistant\"") {
        return false;
    }
    let Ok(Message { kind, role, content }) = serde_json::from_str(text) else { return false };
    let is_blank = |text: &str| text.trim().is_empty();
    let says_nothing = match content {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => is_blank(&text),
        Some(Value::Array(parts)) => parts.iter().all(|part| {
            let text = part.get("text").or_else(|| part.get("refusal"));
            part.is_null() || text.and_then(Value::as_str).is_some_and(is_blank)
        }),
        Some(_) => false,
    };
    kind.is_none_or(|kind| kind == "message")
        && role.is_some_and(|it| it == "assistant")
        && says_nothing
}

/// `items` without messages of the model that say nothing. Reasoning that such a message ended goes with it:
/// providers refuse reasoning that nothing of the model follows.
pub(super) fn without_empty_messages(items: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let mut kept: Vec<Arc<str>> = Vec::with_capacity(items.len());
    let mut is_after_empty = false;
    for item in items {
        if is_empty_message(&item) {
            is_after_empty = true;
            continue;
        }
        if std::mem::take(&mut is_after_empty) && !is_of_model(&item) {
            drop_last_reasoning(&mut kept);
        }
        kept.push(item);
    }
    if is_after_empty {
        drop_last_reasoning(&mut kept);
    }
    kept
}

fn drop_last_reasoning(items: &mut Vec<Arc<str>>) {
    while items.last().is_some_and(|item| kind_and_role(item).0 == "reasoning") {
        items.pop();
    }
}

/// Returns whether the model made the item.
fn is_of_model(item: &str) -> bool {
    let (kind, role) = kind_and_role(item);
    match &*kind {
        "message" => role.as_deref() == Some("assistant"),
        kind => !kind.ends_with("_output"),
    }
}

fn kind_and_role(item: &str) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow)]
        role: Option<Cow<'a, str>>,
    }
    match serde_json::from_str(item) {
        Ok(Head { kind, role }) => (kind.unwrap_or(Cow::Borrowed("message")), role),
        Err(_) => (Cow::Borrowed(""), None),
    }
}

/// A call in the form that every provider takes; `None` for one that has it, and for other items.
fn call(text: &str) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        name: Option<Cow<'a, str>>,
        #[serde(default)]
        arguments: Value,
    }
    if !(text.contains("\"function_call\"") || text.contains("\"custom_tool_call\"")) {
        return None;
    }
    let Call { kind, name, arguments } = serde_json::from_str(text).ok()?;
    let mut changes = Map::new();
    if let (true, name) = (is_call(&kind), name.unwrap_or_default()) {
        let fine = sendable_name(&name);
        if fine != name {
            changes.insert("name".into(), fine.into());
        }
    }
    if kind == "function_call" {
        let written = match &arguments {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Null => Cow::Borrowed(""),
            other => Cow::Owned(other.to_string()),
        };
        let fine = sendable_arguments(&written);
        if arguments != *fine {
            changes.insert("arguments".into(), fine.into());
        }
    }
    if changes.is_empty() {
        return None;
    }
    let mut item: Map<String, Value> = serde_json::from_str(text).ok()?;
    item.extend(changes);
    Some(Value::Object(item).to_string().into())
}

fn is_call(kind: &str) -> bool {
    matches!(kind, "function_call" | "custom_tool_call")
}

/// The arguments of a call: `text` if it is a JSON object; else an object with the text as its member
/// `arguments`, so that the model still sees what it wrote.
fn sendable_arguments(text: &str) -> Cow<'_, str> {
    if text.trim().is_empty() {
        return Cow::Borrowed("{}");
    }
    // As a whole value: a mere syntax check takes halves of characters, which providers refuse.
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Object(_)) => Cow::Borrowed(text),
        Ok(Value::Null) => Cow::Borrowed("{}"),
        // A text with an object in it is read as that object.
        Ok(Value::String(inner)) if serde_json::from_str(&inner).is_ok_and(is_object) => {
            Cow::Owned(inner)
        }
        Ok(_) | Err(_) => Cow::Owned(json!({ "arguments": text }).to_string()),
    }
}

fn is_object(value: Value) -> bool {
    value.is_object()
}

/// The name of a call: each character that a provider may refuse is replaced, and it is cut.
fn sendable_name(name: &str) -> Cow<'_, str> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_fine) {
        return Cow::Borrowed(name);
    }
    let fine = name.chars().take(MAX_NAME).map(|c| if is_fine(c) { c } else { '_' });
    let fine: String = fine.collect();
    Cow::Owned(if fine.is_empty() { UNNAMED.to_owned() } else { fine })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arguments_are_an_object() {
        let check = |text: &str, expect: &str| assert_eq!(sendable_arguments(text), expect);
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
        for empty in ["", " \n", "null"] {
            check(empty, "{}");
        }
        check("{", r#"{"arguments":"{"}"#);
        check(r#"{"a":1}{}"#, r#"{"arguments":"{\"a\":1}{}"}"#);
        check(r#"{"a":1}{"b":2}"#, r#"{"arguments":"{\"a\":1}{\"b\":2}"}"#);
        check(r#""{\"a\":1}""#, r#"{"a":1}"#);
        check("[1]", r#"{"arguments":"[1]"}"#);
        check("NaN", r#"{"arguments":"NaN"}"#);
        check(r#"{"a":"\ud83d"}"#, r#"{"arguments":"{\"a\":\"\\ud83d\"}"}"#);
        check("{\"a\":\"\n\"}", r#"{"arguments":"{\"a\":\"\n\"}"}"#);
    }

    #[test]
    fn a_call_in_the_history_is_what_every_provider_takes() {
        let check = |text: &str, expect: &str| {
            let sent = call(text).unwrap_or_else(|| text.into());
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(value(&sent), value(expect));
            assert_eq!(call(&sent), None);
        };
        let fine = r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}"#;
        check(fine, fine);
        check(&fine.replace("{}", ""), fine);
        check(&fine.replace("\"{}\"", "null"), fine);
        check(&fine.replace("\"{}\"", "{}"), fine);
        check(
            &fine.replace("{}", "{"),
            r#"{"type":"function_call","call_id":"a","name":"f","arguments":"{\"arguments\":\"{\"}"}"#,
        );
        check(&fine.replace("\"f\"", "\"f.g\""), &fine.replace("\"f\"", "\"f_g\""));
        let custom = r#"{"type":"custom_tool_call","call_id":"a","name":"f","input":"{"}"#;
        check(custom, custom);
        let said = r#"{"type":"message","role":"user","content":"\"function_call\""}"#;
        check(said, said);
    }

    #[test]
    fn names_have_characters_that_all_providers_take() {
        let check = |name: &str, expect: &str| assert_eq!(sendable_name(name), expect);
        check("exec_command", "exec_command");
        check("functions.exec command", "functions_exec_command");
        check("é", "_");
        check("", "unnamed");
        check(&"x".repeat(100), &"x".repeat(64));
    }

    #[test]
    fn messages_lose_their_empty_parts() {
        let said =
            |parts: Value| json!({ "type": "message", "role": "assistant", "content": parts });
        let part = |text: &str| json!({ "type": "output_text", "text": text });
        let check = |parts: Value, expect: Option<Value>| {
            let sent = item(&said(parts).to_string());
            let expect = expect.map(|parts| said(parts).to_string());
            assert_eq!(sent.as_deref(), expect.as_deref());
        };
        check(json!([part(""), part("a")]), Some(json!([part("a")])));
        check(json!([null, part("a"), part("")]), Some(json!([part("a")])));
        check(json!([part("a")]), None);
        check(json!([part("")]), None);
        check(json!([part("say \"\"")]), None);
    }

    #[test]
    fn messages_that_say_nothing_are_left_out_with_the_reasoning_before_them() {
        let said =
            |content: Value| json!({ "type": "message", "role": "assistant", "content": content });
        let text = |text: &str| json!([{ "type": "output_text", "text": text }]);
        let user = json!({ "type": "message", "role": "user", "content": [] });
        let thought = json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" });
        let call =
            json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
        let output = json!({ "type": "function_call_output", "call_id": "c", "output": "" });
        let check = |items: &[&Value], expect: &[&Value]| {
            let texts = |items: &[&Value]| items.iter().map(|it| it.to_string().into()).collect();
            let expect: Vec<Arc<str>> = texts(expect);
            assert_eq!(without_empty_messages(texts(items)), expect);
        };
        for empty in [json!([]), json!(""), Value::Null, text(""), text(" \n")] {
            let empty = said(empty);
            check(&[&user, &empty, &user], &[&user, &user]);
            check(&[&user, &thought, &empty, &user], &[&user, &user]);
            check(&[&user, &thought, &thought, &empty], &[&user]);
            // What the model did next keeps it.
            check(&[&thought, &empty, &call, &output], &[&thought, &call, &output]);
            check(&[&thought, &empty, &said(text("a"))], &[&thought, &said(text("a"))]);
            check(&[&call, &output, &empty, &user], &[&call, &output, &user]);
        }
        check(&[&user, &thought, &said(text("a"))], &[&user, &thought, &said(text("a"))]);
    }

    proptest! {
        #[test]
        fn any_arguments_become_an_object_and_stay_so(text in any::<String>()) {
            let sendable = sendable_arguments(&text).into_owned();
            prop_assert!(serde_json::from_str::<Value>(&sendable).unwrap().is_object());
            prop_assert_eq!(sendable_arguments(&sendable), &*sendable);
        }
    }
}
