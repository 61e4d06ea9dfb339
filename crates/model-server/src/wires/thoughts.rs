//! Thinking that came before calls of tools: in the same turn, a client of the Messages API gives it back with them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use crate::check::{Fault, Path};

/// Most calls whose thinking is remembered; the oldest are forgotten, and no longer checked.
const MAX_CALLS: usize = 65_536;

/// Signatures of the thinking before each call.
#[derive(Debug, Default)]
pub(crate) struct Thoughts(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    of_call: HashMap<String, Arc<[String]>>,
    order: VecDeque<String>,
}

impl Thoughts {
    /// Remembers the thinking before a call.
    pub(crate) fn keep(&self, call_id: &str, signatures: &[String]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.of_call.insert(call_id.to_owned(), signatures.into()).is_none() {
            kept.order.push_back(call_id.to_owned());
        }
        if kept.order.len() > MAX_CALLS
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.of_call.remove(&oldest);
        }
    }

    /// A call of the current turn that a request with thinking gives back without its thinking.
    pub(crate) fn missing(&self, body: &Value) -> Option<Fault> {
        if matches!(body["thinking"]["type"].as_str(), None | Some("disabled")) {
            return None;
        }
        let messages = body["messages"].as_array()?;
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = messages.iter().rposition(is_users_word)?;
        let mut given: Vec<&str> = Vec::new();
        for (index, message) in messages.iter().enumerate().skip(current + 1) {
            if message["role"] == "user" {
                given.clear();
            }
            let blocks = message["content"].as_array().into_iter().flatten();
            for (block, value) in blocks.enumerate() {
                given.extend(value["signature"].as_str());
                let id = value["id"].as_str().filter(|_| value["type"] == "tool_use");
                let Some(signatures) = id.and_then(|id| kept.of_call.get(id)) else { continue };
                if signatures.iter().any(|signature| !given.contains(&signature.as_str())) {
                    let at = Path::of("messages").index(index).name("content").index(block);
                    let message = "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is \
                                   enabled, the thinking blocks before a `tool_use` block of the current turn must be \
                                   sent back with it, unchanged.";
                    return Some(Fault::rule(at.name("type"), message));
                }
            }
        }
        None
    }
}

/// The user speaks, and does not only answer calls: a turn begins.
fn is_users_word(message: &Value) -> bool {
    let is_word = match &message["content"] {
        Value::Array(blocks) => blocks.iter().any(|block| block["type"] != "tool_result"),
        _ => true,
    };
    message["role"] == "user" && is_word
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_memory_is_bounded() {
        let thoughts = Thoughts::default();
        for call in 0..=MAX_CALLS {
            thoughts.keep(&call.to_string(), &["s".to_owned()]);
        }
        let missing = |id: &str| {
            let call = json!({"type": "tool_use", "id": id});
            let body = json!({"thinking": {"type": "adaptive"}, "messages": [
                {"role": "user", "content": "x"}, {"role": "assistant", "content": [call]}]});
            thoughts.missing(&body).is_some()
        };
        assert!(!missing("0") && missing("1") && missing(&MAX_CALLS.to_string()));
    }
}
