//! Calls of the model as every provider takes them back: strict ones refuse each later request whose history
//! has arguments that are no JSON object, or a name with other characters than those of their own rule.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Most bytes of a tool's name that all providers take.
const MAX_NAME: usize = 64;
/// The name of a call whose name has no character that providers take.
const UNNAMED: &str = "unnamed";

/// A call in the form that every provider takes; `None` for one that has it, and for other items.
pub(super) fn call(text: &str) -> Option<Arc<str>> {
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

    proptest! {
        #[test]
        fn any_arguments_become_an_object_and_stay_so(text in any::<String>()) {
            let sendable = sendable_arguments(&text).into_owned();
            prop_assert!(serde_json::from_str::<Value>(&sendable).unwrap().is_object());
            prop_assert_eq!(sendable_arguments(&sendable), &*sendable);
        }
    }
}
