//! The history that the model sees, as ready-made JSON fragments of the Responses API.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;

use crate::item::UserContent;

/// One model item, serialised.
pub(crate) type Fragment = Arc<str>;

/// The output given to a call that never got one.
pub(crate) const ABORTED: &str = "aborted: the turn ended before this call finished";

pub(crate) fn message(role: &str, text: &str) -> Fragment {
    fragment(&json!({
        "type": "message",
        "role": role,
        "content": [{ "type": "input_text", "text": text }],
    }))
}

pub(crate) fn user_message(content: &[UserContent]) -> Fragment {
    let parts: Vec<_> = content
        .iter()
        .map(|part| match part {
            UserContent::Text(text) => json!({ "type": "input_text", "text": text }),
            UserContent::Image { url } => json!({ "type": "input_image", "image_url": url }),
            UserContent::LocalImage { data_url, .. } => {
                json!({ "type": "input_image", "image_url": data_url })
            }
        })
        .collect();
    fragment(&json!({ "type": "message", "role": "user", "content": parts }))
}

pub(crate) fn call_output(call_id: &str, custom: bool, output: &CallOutput) -> Fragment {
    let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
    let output = match output {
        CallOutput::Text(text) => json!(text),
        CallOutput::Image { data_url } => {
            json!([{ "type": "input_image", "image_url": data_url }])
        }
    };
    fragment(&json!({ "type": kind, "call_id": call_id, "output": output }))
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallOutput {
    /// Text.
    Text(String),
    /// An image.
    Image { data_url: String },
}

/// The outputs that a history cut short by a crash lacks: the provider refuses a call without one.
pub(crate) fn missing_outputs(history: &[Fragment]) -> Vec<Fragment> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow, rename = "type")]
        kind: std::borrow::Cow<'a, str>,
        #[serde(borrow)]
        call_id: Option<std::borrow::Cow<'a, str>>,
    }
    let mut open: BTreeMap<String, Vec<(usize, bool)>> = BTreeMap::new();
    for (at, fragment) in history.iter().enumerate() {
        if !fragment.contains("\"call_id\"") {
            continue;
        }
        let Ok(Head { kind, call_id: Some(call_id) }) = serde_json::from_str(fragment) else {
            continue;
        };
        match &*kind {
            "function_call" => open.entry(call_id.into_owned()).or_default().push((at, false)),
            "custom_tool_call" => open.entry(call_id.into_owned()).or_default().push((at, true)),
            "function_call_output" | "custom_tool_call_output" => {
                open.get_mut(&*call_id).and_then(Vec::pop);
            }
            _ => {}
        }
    }
    let mut missing: Vec<(usize, String, bool)> = open
        .into_iter()
        .flat_map(|(id, calls)| calls.into_iter().map(move |(at, custom)| (at, id.clone(), custom)))
        .collect();
    missing.sort_unstable();
    let aborted = CallOutput::Text(ABORTED.into());
    missing.into_iter().map(|(_, id, custom)| call_output(&id, custom, &aborted)).collect()
}

fn fragment(value: &serde_json::Value) -> Fragment {
    value.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_history_gets_the_outputs_it_lacks() {
        let history: Vec<Fragment> = [
            r#"{"type":"function_call","call_id":"a","name":"x","arguments":"{}"}"#,
            r#"{"type":"custom_tool_call","call_id":"b","name":"y","input":""}"#,
            r#"{"type":"function_call_output","call_id":"a","output":"ok"}"#,
            r#"{"type":"message","role":"user","content":[{"text":"\"call_id\""}]}"#,
        ]
        .into_iter()
        .map(Arc::from)
        .collect();
        let missing = missing_outputs(&history);
        assert_eq!(missing.len(), 1);
        assert!(missing[0].contains("custom_tool_call_output") && missing[0].contains("\"b\""));
    }
}
