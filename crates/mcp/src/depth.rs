//! Messages that are nested deeper than they can be parsed. Of a list of tools only the tools that are
//! too deep are lost; any other answer becomes an error, so that its request fails at once.

use serde_json::{Map, Value, json};

/// Levels of lists and objects of a message that is taken as it is. The parser has a limit of 128.
const MAX_DEPTH: usize = 100;
/// Stands for a tool that is too deep, as the only member of its `inputSchema`.
const TOO_DEEP: &str = "agentd/tooDeep";

/// The replacement of a message that is too deep; `None` for any other.
pub(crate) fn replaced(message: &[u8]) -> Option<Vec<u8>> {
    let cut = cut(message)?;
    let mut message: Value = serde_json::from_slice(&cut).ok()?;
    let members = message.as_object_mut()?;
    // Parameters of a request are refused by its receiver.
    let is_answer = members.contains_key("id") && !members.contains_key("method");
    if is_answer && !lists_tools(members) {
        let text = format!(
            "the server's answer is nested more than {MAX_DEPTH} levels deep and cannot be read"
        );
        members.shift_remove("result");
        members.insert("error".to_owned(), json!({"code": -32603, "message": text}));
    }
    serde_json::to_vec(&message).ok()
}

/// Replaces the tools of a list that were cut. Returns whether everything else is whole.
fn lists_tools(message: &mut Map<String, Value>) -> bool {
    let Some(Value::Object(result)) = message.get_mut("result") else { return false };
    let Some(Value::Array(tools)) = result.get_mut("tools") else { return false };
    for tool in tools.iter_mut().filter(|tool| is_cut(tool)) {
        let name = tool.get("name").cloned().unwrap_or_default();
        *tool = json!({"name": name, "inputSchema": {TOO_DEEP: true}});
    }
    result.iter().all(|(member, value)| member == "tools" || !is_cut(value))
}

fn is_cut(value: &Value) -> bool {
    match value {
        Value::String(text) => text == TOO_DEEP,
        Value::Array(values) => values.iter().any(is_cut),
        Value::Object(members) => members.values().any(is_cut),
        _ => false,
    }
}

/// Why a tool cannot be offered, if it was too deep.
pub(crate) fn problem_of_tool(tool: &Value) -> Option<String> {
    let is_too_deep = tool.get("inputSchema").is_some_and(|schema| schema.get(TOO_DEEP).is_some());
    is_too_deep.then(|| format!("is nested more than {MAX_DEPTH} levels deep"))
}

/// The message with a mark in the place of each list and object that is too deep.
fn cut(message: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let (mut depth, mut copied, mut is_text) = (0_usize, 0, false);
    let mut bytes = message.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => is_text = !is_text,
            b'\\' if is_text => drop(bytes.next()),
            _ if is_text => {}
            b'[' | b'{' => {
                depth += 1;
                if depth == MAX_DEPTH + 1 {
                    kept.extend_from_slice(message.get(copied..at)?);
                    kept.extend_from_slice(format!("\"{TOO_DEEP}\"").as_bytes());
                }
            }
            b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == MAX_DEPTH {
                    copied = at + 1;
                }
            }
            _ => {}
        }
    }
    if kept.is_empty() || depth > 0 {
        return None;
    }
    kept.extend_from_slice(message.get(copied..)?);
    Some(kept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn nested(depth: usize) -> String {
        format!("{}1{}", "{\"a[\\\"\":".repeat(depth), "}".repeat(depth))
    }

    fn replaced_in(text: &str) -> Value {
        serde_json::from_slice(&replaced(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn only_the_tools_that_are_too_deep_are_lost() {
        for depth in [97, 1_000, 100_000] {
            let deep = nested(depth);
            let list = format!(
                r#"{{"id":1,"result":{{"tools":[{{"name":"a","inputSchema":{{}}}},{{"inputSchema":{deep},"name":"b"}}]}}}}"#
            );
            let tools = replaced_in(&list)["result"]["tools"].clone();
            assert_eq!(tools[0], json!({"name": "a", "inputSchema": {}}));
            assert_eq!(tools[1]["name"], "b");
            assert_eq!(problem_of_tool(&tools[0]), None);
            let problem = problem_of_tool(&tools[1]).unwrap();
            assert_eq!(problem, "is nested more than 100 levels deep");
        }
    }

    #[test]
    fn other_answers_become_errors_and_requests_keep_their_id() {
        let deep = nested(1_000);
        let answer = replaced_in(&format!(r#"{{"result":{{"x":{deep}}},"id":"i"}}"#));
        assert!(answer.get("result").is_none() && answer["id"] == "i");
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(text.contains("nested more than 100 levels deep"), "{text}");
        let request = replaced_in(&format!(r#"{{"id":3,"method":"m","params":{{"x":{deep}}}}}"#));
        assert_eq!((&request["id"], &request["method"]), (&json!(3), &json!("m")));
    }

    #[test]
    fn other_messages_stay_as_they_are() {
        for text in [nested(100), "[".repeat(1_000), "]".to_owned(), "\"[[\\".to_owned()] {
            assert_eq!(replaced(text.as_bytes()), None);
        }
    }
}
