//! Results of tools whose form is wrong in part: what can be read of them is kept, and the rest says what
//! is wrong with it.

use rmcp::model::ContentBlock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::depth;
use crate::error::quoted;

/// The member that makes an answer worth examining.
const CONTENT: &str = "\"content\"";

/// A message with parts that cannot be read, with a text or an error in place of each; `None` for every
/// other message.
pub(crate) fn mended(message: &[u8]) -> Option<Vec<u8>> {
    if let Some(replaced) = depth::replaced(message) {
        return Some(replaced);
    }
    let message = std::str::from_utf8(message).ok()?;
    if !message.contains(CONTENT) {
        return None;
    }
    let mut message: Value = serde_json::from_str(message).ok()?;
    let result = message.get_mut("result")?.as_object_mut()?;
    if !mend(result) {
        return None;
    }
    serde_json::to_vec(&message).ok()
}

/// Returns whether anything was wrong.
fn mend(result: &mut Map<String, Value>) -> bool {
    let mut is_mended = false;
    if let Some(Value::Array(blocks)) = result.get_mut("content") {
        let count = blocks.len();
        for (index, block) in blocks.iter_mut().enumerate() {
            if let Some(problem) = problem_of_block(block) {
                let number = index + 1;
                let text =
                    format!("[block {number} of {count} of the result is left out: {problem}]");
                *block = json!({ "type": "text", "text": text });
                is_mended = true;
            }
        }
    }
    if problem_of_members(result).is_some() {
        // With it, the message would be taken for one that has nothing else.
        is_mended |= result.shift_remove("resultType").is_some();
    }
    is_mended
}

/// The mistake in the members of a tool's result, its blocks aside.
pub(crate) fn problem_of_result(result: &Value) -> Option<String> {
    let Some(result) = result.as_object() else {
        return Some(format!("it is {}, not an object", kind(result)));
    };
    problem_of_members(result)
}

fn problem_of_members(result: &Map<String, Value>) -> Option<String> {
    let wrong = |member: &str, expected: &str, fits: fn(&Value) -> bool| {
        let value = result.get(member).filter(|value| !value.is_null() && !fits(value))?;
        Some(format!("`{member}` is {}, not {expected}", kind(value)))
    };
    match result.get("content") {
        Some(Value::Null) => Some("`content` is null, not a list".to_owned()),
        _ => wrong("content", "a list", Value::is_array),
    }
    .or_else(|| wrong("isError", "true or false", Value::is_boolean))
    .or_else(|| wrong("_meta", "an object", Value::is_object))
}

fn problem_of_block(block: &Value) -> Option<String> {
    let error = ContentBlock::deserialize(block).err()?;
    let Some(members) = block.as_object() else {
        return Some(format!("it is {}, not an object", kind(block)));
    };
    let name = match members.get("type") {
        None => return Some("its `type` is missing".to_owned()),
        Some(Value::String(name)) => name.as_str(),
        Some(other) => return Some(format!("its `type` is {}, not a string", kind(other))),
    };
    let needed: &[&str] = match name {
        "text" => &["text"],
        "image" | "audio" => &["data", "mimeType"],
        "resource_link" => &["uri", "name"],
        "resource" => &[],
        _ => return Some(format!("its type `{}` is unknown", quoted(name))),
    };
    let text = |member: &&&str| !members.get(**member).is_some_and(Value::is_string);
    let problem = match needed.iter().find(text) {
        Some(member) => match members.get(*member) {
            None => format!("`{member}` is missing"),
            Some(value) => format!("`{member}` is {}, not a string", kind(value)),
        },
        None => quoted(&error.to_string()),
    };
    Some(format!("of the type `{name}`, {problem}"))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_cannot_be_read_of_a_result_says_why() {
        let result = json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "content": [
            {"type": "text", "text": "good"}, {"type": "image", "mimeType": "image/png"}, null,
            {"type": "novel"}, {"text": "x"}, {"type": "text", "text": 5},
            {"type": "resource", "resource": {"text": "no address"}},
        ]}});
        let mended: Value =
            serde_json::from_slice(&mended(result.to_string().as_bytes()).unwrap()).unwrap();
        assert_eq!(mended["result"]["resultType"], "complete");
        let texts: Vec<&str> = mended["result"]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|block| block["text"].as_str().unwrap())
            .collect();
        assert_eq!(texts[0], "good");
        for (text, expected) in texts.iter().skip(1).zip([
            "[block 2 of 7 of the result is left out: of the type `image`, `data` is missing]",
            "[block 3 of 7 of the result is left out: it is null, not an object]",
            "[block 4 of 7 of the result is left out: its type `novel` is unknown]",
            "[block 5 of 7 of the result is left out: its `type` is missing]",
            "[block 6 of 7 of the result is left out: of the type `text`, `text` is a number, not a string]",
        ]) {
            assert_eq!(*text, expected);
        }
        assert!(texts[6].contains("block 7 of 7") && texts[6].contains("of the type `resource`, "));
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        for message in [
            json!({"id": 1, "result": {"content": [{"type": "text", "text": "a"}], "isError": true}}),
            json!({"id": 1, "result": {"contents": [{"uri": "x:y"}]}}),
            json!({"id": 1, "error": {"code": 1, "message": "content"}}),
            json!({"method": "x", "params": {"content": [null]}}),
        ] {
            assert_eq!(mended(message.to_string().as_bytes()), None, "{message}");
        }
        assert_eq!(mended(b"\"content\" no JSON"), None);
    }
}
